//! Registers that have lived: with millions of settled operations, or many unsettled ones.
//!
//! What always holds: every column and every record was written by the product for an operation like
//! it; the columns that indexes stand on are as various as in life. Ids come in random order, as the
//! index met them, so that its pages are as full as they would be.
//!
//! What it does not do: make answers that open. A settled operation is a copy of another under an
//! identity of its own, and its answer stays sealed for the other: it weighs what it must, and is
//! never read.

use std::path::Path;
use std::time::Instant;

use fencepost::protocol::time::Millis;
use fencepost::store::sqlite::locator_of;
use rusqlite::{Connection, params};
use serde_json::json;
use tokio::task::JoinSet;

use crate::FOR_EVER;
use crate::load::{Caller, Dice, Ids, Shape, operation_id, operation_key, resource_name};
use crate::register::Bench;

/// What was settled when the register was filled is older than this.
pub const OLD: Millis = Millis(3_600_000);

/// Callers at once while real operations are made.
const CALLERS: u64 = 256;

const TRANSACTION: u64 = 500_000;

/// Settled operations, by copying one.
pub async fn settled(dir: &Path, operations: u64, shape: Shape) {
    let begun = Instant::now();
    let bench = Bench::open(dir, FOR_EVER).await;
    Caller::new(&bench, shape).complete_one().await;
    bench.close().await;
    let path = dir.join("register.db");
    tokio::task::spawn_blocking(move || copy(&path, operations, shape))
        .await
        .unwrap();
    tell(dir, "filled", operations, begun);
}

/// Unsettled operations, each admitted for itself.
pub async fn unsettled(dir: &Path, operations: u64, shape: Shape) {
    let begun = Instant::now();
    let bench = Bench::open(dir, FOR_EVER).await;
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let share = operations / CALLERS + u64::from(caller < operations % CALLERS);
        let mut caller = Caller::new(&bench, shape);
        callers.spawn(async move {
            for _ in 0..share {
                drop(caller.admit().await);
            }
        });
    }
    callers.join_all().await;
    bench.close().await;
    tell(dir, "left unsettled", operations, begun);
}

fn tell(dir: &Path, what: &str, operations: u64, begun: Instant) {
    let took = begun.elapsed().as_secs_f64();
    println!(
        "{}",
        json!({"kind": what, "register": dir, "operations": operations, "took_s": took})
    );
}

/// Nothing of this need survive a crash: whoever fills begins again.
fn copy(path: &Path, operations: u64, shape: Shape) {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch(
            "PRAGMA journal_mode = DELETE; PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;
             PRAGMA cache_size = -4000000;",
        )
        .unwrap();
    copy_fences(&connection, shape);
    let mut dice = Dice(operations);
    let mut made = 0;
    while made < operations {
        let more = TRANSACTION.min(operations - made);
        connection.execute_batch("BEGIN").unwrap();
        copy_operations(&connection, more, shape, &mut dice);
        connection.execute_batch("COMMIT").unwrap();
        made += more;
        eprintln!("{made} of {operations}");
    }
    connection
        .execute(
            "UPDATE counts SET operations = operations + ?1 WHERE state = 'COMPLETED'",
            [operations.cast_signed()],
        )
        .unwrap();
    connection
        .execute_batch("PRAGMA journal_mode = WAL;")
        .unwrap();
}

fn copy_fences(connection: &Connection, shape: Shape) {
    connection.execute_batch("BEGIN").unwrap();
    let mut copied = connection
        .prepare(
            "INSERT OR IGNORE INTO fences (name, tenant, mark, cancelled, record, applied, applied_number)
             SELECT ?1, tenant, mark, cancelled, record, applied, applied_number
             FROM (SELECT * FROM fences LIMIT 1)",
        )
        .unwrap();
    for number in 0..shape.resources {
        copied.execute([resource_name(number)]).unwrap();
    }
    drop(copied);
    connection.execute_batch("COMMIT").unwrap();
}

fn copy_operations(connection: &Connection, operations: u64, shape: Shape, dice: &mut Dice) {
    let mut copied = connection
        .prepare_cached(
            "INSERT INTO operations
                 (id, upstream, principal, incarnation, tenant, state, unsettled, resource, number,
                  token, first_seen_wall_ms, record, answer, ended)
             SELECT ?1, upstream, principal, incarnation, tenant, state, unsettled, ?2, number,
                    token, first_seen_wall_ms - ?3, record, answer, ended - ?3
             FROM operations WHERE sequence = 1",
        )
        .unwrap();
    let mut located = connection
        .prepare_cached("INSERT INTO locators (locator, sequence) VALUES (?1, ?2)")
        .unwrap();
    let mut last: i64 = connection
        .query_row("SELECT max(sequence) FROM operations", [], |row| row.get(0))
        .unwrap();
    for _ in 0..operations {
        let id = match shape.ids {
            Ids::Random => operation_id(dice.throw(), dice.throw()),
            Ids::Ordered => operation_id(last.cast_unsigned(), dice.throw()),
        };
        let resource = resource_name(dice.throw() % shape.resources);
        // A thousand a second, up to twice as long ago as is old.
        let passed_ms = last.cast_unsigned() % OLD.0;
        let ago_ms = (2 * OLD.0 - passed_ms).cast_signed();
        copied.execute(params![id, resource, ago_ms]).unwrap();
        last = connection.last_insert_rowid();
        let locator = locator_of(&operation_key(&id));
        located.execute([locator, last]).unwrap();
    }
}
