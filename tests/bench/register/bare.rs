//! The yardstick: SQLite alone, doing the least that any register of this kind must.
//!
//! What always holds: the same durability, the same number of commits for each operation, rows as long
//! as ours; one thread, which is never asked by anybody. A figure beside this one, taken in the same
//! run, says what we add, however busy the machine is.
//!
//! What it does not do: decide, seal, encode, answer, keep requests, or find anything but by its key.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use crate::figures::Figures;
use crate::load::{Dice, Shape, operation_id, resource_name, seed};
use crate::register::{Processor, written_bytes};

/// Operations that one transaction takes.
const BATCH: usize = 16;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS fences (name TEXT PRIMARY KEY, record BLOB) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS operations
        (sequence INTEGER PRIMARY KEY, id TEXT UNIQUE, record BLOB, answer BLOB);";

/// As long as ours.
const FENCE: [u8; 120] = [1; 120];
const RECORD: [u8; 330] = [2; 330];
const ANSWER: [u8; 190] = [3; 190];

pub fn run(dir: &Path, shape: Shape, length: Duration) -> Figures {
    std::fs::create_dir_all(dir).unwrap();
    let connection = Connection::open(dir.join("bare.db")).unwrap();
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -8192;",
        )
        .unwrap();
    connection.execute_batch(TABLES).unwrap();
    let mut dice = Dice(seed());
    let (cpu, written) = (Processor::of_this_thread(), written_bytes());
    let begun = Instant::now();
    let mut figures = Figures::default();
    while begun.elapsed() < length {
        let batch = Instant::now();
        let sequences = admit(&connection, shape, &mut dice);
        record(&connection, &sequences);
        let took = u32::try_from(batch.elapsed().as_micros()).unwrap();
        figures.operations += BATCH as u64;
        figures.transactions += 2;
        figures.latencies_us.extend([took; BATCH]);
    }
    figures.elapsed = begun.elapsed();
    figures.commands = 2 * figures.operations;
    figures.took_us = u64::try_from(figures.elapsed.as_micros()).unwrap();
    figures.cpu = Processor::of_this_thread().since(cpu);
    figures.written_bytes = written_bytes() - written;
    figures
}

fn admit(connection: &Connection, shape: Shape, dice: &mut Dice) -> Vec<i64> {
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut fence = connection
        .prepare_cached(
            "INSERT INTO fences (name, record) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET record = ?2",
        )
        .unwrap();
    let mut intent = connection
        .prepare_cached("INSERT INTO operations (id, record) VALUES (?1, ?2)")
        .unwrap();
    let mut sequences = Vec::with_capacity(BATCH);
    for _ in 0..BATCH {
        let resource = resource_name(dice.throw() % shape.resources);
        fence.execute(params![resource, FENCE]).unwrap();
        let id = operation_id(dice.throw(), dice.throw());
        intent.execute(params![id, RECORD]).unwrap();
        sequences.push(connection.last_insert_rowid());
    }
    connection.execute_batch("COMMIT").unwrap();
    sequences
}

fn record(connection: &Connection, sequences: &[i64]) {
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut outcome = connection
        .prepare_cached("UPDATE operations SET record = ?2, answer = ?3 WHERE sequence = ?1")
        .unwrap();
    for sequence in sequences {
        outcome.execute(params![sequence, RECORD, ANSWER]).unwrap();
    }
    connection.execute_batch("COMMIT").unwrap();
}
