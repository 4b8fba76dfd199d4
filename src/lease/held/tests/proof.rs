//! What proves that another process has begun.
//!
//! What always holds: whatever could be the one before, or a child of it, proves nothing.
//!
//! What it does not do: look at real workers (`probe`).

use super::super::super::remembered::Process;
use super::*;
use crate::config::Sign;
use crate::protocol::time::BootId;

/// No process of this machine has that number.
const GONE: u32 = u32::MAX;

/// A process that started then, as the worker's start.
fn process(bench: &Bench, number: u32, started: u64) {
    let process = Process {
        boot: BootId(1),
        number,
        started,
    };
    *bench.worker.0.lock().unwrap() = Ok(Some(Start::of_process(&process)));
}

/// In ticks of ten milliseconds.
fn now(bench: &Bench) -> u64 {
    bench.source.now().0 / 10
}

async fn owning(number: u32, started: u64) -> Bench {
    let mut bench = Bench::new();
    process(&bench, number, started);
    bench.pass(EVERY).await;
    assert_eq!(bench.generation().as_deref(), Some("1"));
    bench
}

#[tokio::test]
async fn an_older_process_is_no_newer_one_though_the_one_before_is_gone() {
    let mut bench = owning(GONE, 50_000).await;
    // A child that outlived it: it may have begun what it goes on with under the one before.
    let child = now(&bench) - 100;
    process(&bench, GONE - 1, child);
    bench.pass(TTL).await;
    assert!(bench.is_lost(), "{:?}", bench.claim());
    // Nor does it become one by a restart of the sidecar.
    bench.start();
    bench.pass(TTL).await;
    assert!(bench.is_lost(), "{:?}", bench.claim());
    let next = now(&bench);
    process(&bench, GONE - 2, next);
    bench.pass(EVERY).await;
    assert_eq!(bench.generation().as_deref(), Some("2"));
}

#[tokio::test]
async fn a_newer_process_proves_nothing_while_the_one_before_is_there() {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let started = fields.split(' ').nth(19).unwrap().parse().unwrap();
    let mut bench = owning(std::process::id(), started).await;
    let next = now(&bench) + 100;
    process(&bench, GONE, next);
    bench.pass(TTL).await;
    assert!(bench.is_lost(), "{:?}", bench.claim());
    bench.acknowledge().await;
    bench.pass(EVERY).await;
    assert_eq!(bench.generation().as_deref(), Some("2"));
}

/// Another header has another value in the same process.
#[tokio::test]
async fn what_tells_starts_apart_otherwise_proves_nothing_until_it_is_acknowledged() {
    let mut bench = Bench::owning().await;
    bench.sign = Sign::File("/run/start".into());
    bench.alive("told otherwise");
    bench.start();
    bench.pass(TTL).await;
    assert!(bench.is_lost(), "{:?}", bench.claim());
    bench.acknowledge().await;
    bench.pass(EVERY).await;
    assert_eq!(bench.generation().as_deref(), Some("2"));
    bench.alive("second");
    bench.pass(EVERY).await;
    assert_eq!(bench.generation().as_deref(), Some("3"));
}

#[tokio::test]
async fn another_name_of_the_lease_hides_nothing() {
    let mut bench = Bench::owning().await;
    bench.stuck();
    bench.pass(TTL).await;
    bench.name = "called-otherwise";
    bench.alive("first");
    bench.start();
    bench.pass(TTL).await;
    assert!(bench.is_lost(), "{:?}", bench.claim());
}
