//! Reading a register whole, to find damage before it is met.
//!
//! What always holds: a page that is not as it was written is found at every read of it (`checksums`), in a
//! register of whatever size. What checksums cannot see is that a page is whole and old, because a write to
//! it was lost: an old index page can answer "no such operation", and what is not known is sent. Where it
//! contradicts others, reading all of it shows it: every index held against its table and every identity
//! against its locator. So every register that is small enough is read whole before it is used; a larger
//! one when it is copied (`backup`) or written anew (`rewrite`).
//!
//! What it does not do: find lost writes in a larger one at the start, or any that left no contradiction.

use std::path::Path;

use rusqlite::{Connection, params};

use super::damage;
use super::locator;
use super::open_error::OpenError;
use super::schema::Found;

/// Registers up to that many bytes are read whole at every start: some tenths of a second.
const SMALL: u64 = 32 << 20;

/// The format since which operations have locators.
const LOCATED: u32 = 3;

/// What is wrong with it, in SQLite's words or ours; `None`: it is sound. Takes time with its size.
pub(super) fn flaw(connection: &Connection, found: Found) -> rusqlite::Result<Option<String>> {
    let flaw = match broken(connection) {
        Ok(None) if found >= Found::Format(LOCATED) => mislaid(connection),
        broken => broken,
    };
    match flaw {
        Err(error) if damage::is_damage(&error) => Ok(Some(damage::words(&error))),
        flaw => flaw,
    }
}

fn broken(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let found: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    Ok((found != "ok").then(|| damage::words_of_check(&found)))
}

/// An operation that is not found by its identity, or one of two under one identity. SQLite knows nothing
/// of either.
fn mislaid(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let mut there = connection
        .prepare("SELECT EXISTS (SELECT 1 FROM locators WHERE locator = ?1 AND sequence = ?2)")?;
    // The rows themselves, whatever an index says of them.
    let mut operations = connection.prepare(
        "SELECT id, upstream, principal, incarnation, tenant, sequence
         FROM operations NOT INDEXED",
    )?;
    let mut rows = operations.query([])?;
    let mut count: i64 = 0;
    while let Some(row) = rows.next()? {
        let sequence: i64 = row.get(5)?;
        let is_there: bool = there
            .query_row(params![locator::of_row(row, 0)?, sequence], |row| {
                row.get(0)
            })?;
        if !is_there {
            return Ok(Some(format!(
                "operation {sequence} is not found by its identity"
            )));
        }
        count += 1;
    }
    let entries: i64 =
        connection.query_row("SELECT count(*) FROM locators", [], |row| row.get(0))?;
    if entries != count {
        return Ok(Some(format!("{entries} locators of {count} operations")));
    }
    doubled(connection)
}

/// Two operations under one identity, if all are found by their locators.
pub(super) fn doubled(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let mut shared =
        connection.prepare("SELECT locator FROM locators GROUP BY locator HAVING count(*) > 1")?;
    let mut pairs = connection.prepare(
        "SELECT min(sequence), max(sequence)
         FROM locators CROSS JOIN operations USING (sequence) WHERE locator = ?1
         GROUP BY id, upstream, principal, incarnation, tenant HAVING count(*) > 1",
    )?;
    let mut rows = shared.query([])?;
    while let Some(row) = rows.next()? {
        let mut pairs = pairs.query([row.get::<_, i64>(0)?])?;
        if let Some(pair) = pairs.next()? {
            let (first, last): (i64, i64) = (pair.get(0)?, pair.get(1)?);
            return Ok(Some(format!(
                "operations {first} and {last} have one identity"
            )));
        }
    }
    Ok(None)
}

/// Refuses a damaged register, if it is small enough to be read whole.
pub(super) fn prove(connection: &Connection, found: Found, path: &Path) -> Result<(), OpenError> {
    let bytes = bytes(connection).map_err(OpenError::database(path))?;
    if bytes > SMALL {
        tracing::info!(
            bytes,
            "the register is too large to be read whole at the start: damage is found where it is \
             read; `store backup` reads all"
        );
        return Ok(());
    }
    match flaw(connection, found).map_err(OpenError::database(path))? {
        None => Ok(()),
        Some(found) => Err(OpenError::Damaged {
            path: path.to_owned(),
            found,
        }),
    }
}

/// How large it is.
pub(super) fn bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let count = |pragma: &str| {
        connection.pragma_query_value(None, pragma, |row| {
            row.get::<_, i64>(0).map(i64::cast_unsigned)
        })
    };
    Ok(count("page_count")?.saturating_mul(count("page_size")?))
}
