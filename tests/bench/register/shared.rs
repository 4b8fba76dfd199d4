//! A register in PostgreSQL, in turn with what the same server does for `pgbench`.
//!
//! What always holds: `pgbench` does two transactions an operation, with prepared statements and rows of
//! the size of ours: a fence and an operation, then the operation's answer. Callers are as many on both
//! sides; each of `pgbench`'s has a connection of its own.
//!
//! What it does not do: start a server, or empty its tables.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::Pressure;
use crate::figures::{Figures, say, say_ratios};
use crate::load::{Shape, run};
use crate::register::Bench;

const TABLES: &str = "
CREATE SCHEMA IF NOT EXISTS yardstick;
CREATE TABLE IF NOT EXISTS yardstick.fences
    (name bigint PRIMARY KEY, version bigint NOT NULL, record bytea NOT NULL) WITH (fillfactor = 70);
CREATE TABLE IF NOT EXISTS yardstick.operations
    (id uuid PRIMARY KEY, sequence bigint GENERATED ALWAYS AS IDENTITY, state text NOT NULL,
     record bytea NOT NULL, request bytea, answer bytea) WITH (fillfactor = 80);
CREATE UNIQUE INDEX IF NOT EXISTS in_order ON yardstick.operations (sequence);
";

const SCRIPT: &str = r"
\set fence random(1, :resources)
\set high random(1, 1000000000000000000)
\set low random(1, 1000000000000000000)
BEGIN;
INSERT INTO yardstick.fences VALUES (:fence, 1, decode(repeat('ab', 120), 'hex'))
    ON CONFLICT (name) DO UPDATE SET version = fences.version + 1, record = excluded.record;
INSERT INTO yardstick.operations (id, state, record, request)
    VALUES (md5(:high || '-' || :low)::uuid, 'INTENDED', decode(repeat('ab', 380), 'hex'), decode(repeat('ab', 330), 'hex'));
END;
BEGIN;
UPDATE yardstick.operations SET state = 'COMPLETED', record = decode(repeat('cd', 380), 'hex'),
    request = NULL, answer = decode(repeat('ab', 220), 'hex') WHERE id = md5(:high || '-' || :low)::uuid;
END;
";

/// What one sidecar takes turns with.
pub struct Beside {
    /// So many, which share the callers between them; one is none beside it.
    pub sidecars: usize,
    pub pgbench: bool,
    /// One sidecar of another register.
    pub register: Option<String>,
}

pub async fn turns(url: &str, beside: Beside, rounds: usize, pressure: Pressure, shape: Shape) {
    if beside.pgbench {
        psql(url, TABLES);
    }
    let mut registers = Vec::new();
    for _ in 0..beside.sidecars {
        registers.push(Bench::join(url).await);
    }
    let other = match &beside.register {
        Some(url) => Some((url_without_password(url), Bench::join(url).await)),
        None => None,
    };
    let mut alone = Figures::default();
    let (mut together, mut elsewhere) = (Figures::default(), Figures::default());
    let mut yardstick = Vec::new();
    for round in 1..=rounds {
        if beside.pgbench {
            yardstick.push(measure_pgbench(url, pressure, shape));
        }
        let figures = pressure.measure(&registers[0], shape).await;
        say("one sidecar", &url_without_password(url), round, &figures);
        alone.add(&figures);
        if registers.len() > 1 {
            let figures = all(&registers, pressure, shape).await;
            say("all sidecars", &url_without_password(url), round, &figures);
            together.add(&figures);
        }
        if let Some((name, register)) = &other {
            let figures = pressure.measure(register, shape).await;
            say("one sidecar", name, round, &figures);
            elsewhere.add(&figures);
        }
    }
    if registers.len() > 1 {
        say_ratios(&"all sidecars to one", &alone, &together);
    }
    if let Some((name, register)) = other {
        say_ratios(&name, &alone, &elsewhere);
        register.close().await;
    }
    if beside.pgbench {
        let mean = yardstick.iter().sum::<f64>() / yardstick.len() as f64;
        let ours = alone.operations as f64 / alone.elapsed.as_secs_f64();
        println!(
            "{}",
            json!({"kind": "to pgbench", "pgbench_per_second": mean.round(),
                "throughput": (ours / mean * 100.0).round() / 100.0})
        );
    }
    for register in registers {
        register.close().await;
    }
}

/// The callers are spread over the sidecars.
async fn all(registers: &[Bench], pressure: Pressure, shape: Shape) -> Figures {
    let each = (pressure.concurrency / registers.len()).max(1);
    let length = Duration::from_secs(pressure.seconds);
    let running = registers
        .iter()
        .map(|bench| run(bench, shape, each, length));
    let mut all = Figures::default();
    for figures in futures_util::future::join_all(running).await {
        let elapsed = all.elapsed.max(figures.elapsed);
        all.add(&figures);
        // They ran at the same time.
        all.elapsed = elapsed;
    }
    all
}

/// Operations a second.
fn measure_pgbench(url: &str, pressure: Pressure, shape: Shape) -> f64 {
    let clients = pressure.concurrency.to_string();
    let (seconds, resources) = (pressure.seconds.to_string(), shape.resources);
    let mut child = Command::new("pgbench")
        .args([
            "-n", "-M", "prepared", "-j", "2", "-c", &clients, "-T", &seconds,
        ])
        .args([
            "-f",
            "/dev/stdin",
            "-D",
            &format!("resources={resources}"),
            url,
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("pgbench comes with PostgreSQL");
    let mut script = child.stdin.take().unwrap();
    script.write_all(SCRIPT.as_bytes()).unwrap();
    drop(script);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text
        .lines()
        .find(|line| line.starts_with("tps = "))
        .expect("a figure");
    let number = line.split_whitespace().nth(2).unwrap().parse().unwrap();
    println!(
        "{}",
        json!({"kind": "pgbench", "operations_per_second": f64::round(number)})
    );
    number
}

pub fn psql(url: &str, statements: &str) {
    let status = Command::new("psql")
        .args(["-q", "-c", statements, url])
        .status();
    assert!(status.expect("psql comes with PostgreSQL").success());
}

fn url_without_password(url: &str) -> String {
    url.rsplit('@').next().unwrap_or_default().to_owned()
}
