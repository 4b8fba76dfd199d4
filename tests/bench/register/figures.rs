//! What was measured, and how it is told.
//!
//! What always holds: figures of several turns are added up before anything is divided; latencies are
//! those of whole operations, from asking for admission to the recorded answer, without what the
//! upstream would take.
//!
//! What it does not do: judge them.

use std::fmt::Display;
use std::time::Duration;

use serde_json::json;

use crate::register::Processor;

#[derive(Clone, Default)]
pub struct Figures {
    pub elapsed: Duration,
    pub operations: u64,
    pub transactions: u64,
    pub commands: u64,
    /// Inside transactions, fsync included.
    pub took_us: u64,
    /// Of the thread that writes.
    pub cpu: Processor,
    pub written_bytes: u64,
    pub latencies_us: Vec<u32>,
}

impl Figures {
    pub fn add(&mut self, more: &Self) {
        self.elapsed += more.elapsed;
        self.operations += more.operations;
        self.transactions += more.transactions;
        self.commands += more.commands;
        self.took_us += more.took_us;
        self.cpu.all_ns += more.cpu.all_ns;
        self.cpu.kernel_ns += more.cpu.kernel_ns;
        self.written_bytes += more.written_bytes;
        self.latencies_us.extend_from_slice(&more.latencies_us);
    }

    fn per_second(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }

    fn writer_cpu_us(&self) -> f64 {
        self.cpu.all_ns as f64 / 1e3 / self.operations as f64
    }

    fn writer_kernel_us(&self) -> f64 {
        self.cpu.kernel_ns as f64 / 1e3 / self.operations as f64
    }

    fn took_us(&self) -> f64 {
        self.took_us as f64 / self.operations as f64
    }

    fn percentile(&self, part: f64) -> u32 {
        let mut sorted = self.latencies_us.clone();
        sorted.sort_unstable();
        let at = (sorted.len() as f64 * part) as usize;
        sorted.get(at).or(sorted.last()).copied().unwrap_or(0)
    }
}

pub fn say(kind: &str, register: &dyn Display, round: usize, figures: &Figures) {
    println!(
        "{}",
        json!({
            "kind": kind, "register": register.to_string(), "round": round,
            "operations_per_second": figures.per_second().round(),
            "commands_per_transaction":
                rounded(figures.commands as f64 / figures.transactions as f64),
            "writer_cpu_us_per_operation": rounded(figures.writer_cpu_us()),
            "of_that_in_kernel": rounded(figures.writer_kernel_us()),
            "in_transactions_us_per_operation": rounded(figures.took_us()),
            "written_bytes_per_operation":
                (figures.written_bytes as f64 / figures.operations as f64).round(),
            "p50_us": figures.percentile(0.5), "p99_us": figures.percentile(0.99),
            "p999_us": figures.percentile(0.999),
        })
    );
}

pub fn say_ratios(register: &dyn Display, base: &Figures, other: &Figures) {
    let p99 = |figures: &Figures| f64::from(figures.percentile(0.99));
    println!(
        "{}",
        json!({
            "kind": "ratios", "register": register.to_string(),
            "throughput": rounded(other.per_second() / base.per_second()),
            "writer_cpu": rounded(other.writer_cpu_us() / base.writer_cpu_us()),
            "p99": rounded(p99(other) / p99(base)),
        })
    );
}

fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
