//! Forgetting: answers first, then whole identities.
//!
//! What always holds: only what is settled is forgotten, fences never, and nothing before its time by
//! the register's own age (`age`), whatever the wall clock says. Each step takes a bounded number of
//! rows. Of an operation whose answer is gone, everything else stays: a repeat is told that it was
//! done, and is not sent again. Of an identity that is gone, nothing stays, and a repeat of it is a new
//! operation: `identities` is how long a repeat may still come.
//!
//! What it does not do: give space back to the file system. Freed pages are written over.

use rusqlite::{Connection, params};

use super::locator;
use super::persist::Tally;
use crate::store::age::Lived;
use crate::store::remember::{Purged, Remember};

/// Answers that one step takes at most.
const ANSWERS: usize = 128;

/// Identities that one step takes at most: each takes pages in several places.
const IDENTITIES: usize = 32;

/// Up to where answers are gone: operations by when they ended, then by sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) ended: Lived,
    pub(super) sequence: i64,
}

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) purged: Purged,
    pub(super) cursor: Cursor,
    /// Is there probably more?
    pub(super) more: bool,
}

/// One step, inside a transaction.
pub(super) fn step(
    connection: &Connection,
    remember: Remember,
    cursor: Cursor,
    now: Lived,
) -> rusqlite::Result<Step> {
    let (answers, cursor, more_answers) = match now.before(remember.answers) {
        Some(until) => drop_answers(connection, cursor, until)?,
        None => (0, cursor, false),
    };
    let identities = match now.before(remember.identities) {
        Some(until) => drop_identities(connection, until)?,
        None => 0,
    };
    Ok(Step {
        purged: Purged {
            answers,
            identities: count(identities),
        },
        cursor,
        more: more_answers || identities == IDENTITIES,
    })
}

/// Goes on where the last step ended. Whatever ends from now on ends later than that.
fn drop_answers(
    connection: &Connection,
    cursor: Cursor,
    until: Lived,
) -> rusqlite::Result<(u64, Cursor, bool)> {
    let mut statement = connection.prepare_cached(
        "SELECT ended, sequence FROM operations
         WHERE (ended, sequence) > (?1, ?2) AND ended <= ?3 ORDER BY ended, sequence LIMIT ?4",
    )?;
    let limit = i64::try_from(ANSWERS).unwrap_or(i64::MAX);
    let passed: Vec<Cursor> = statement
        .query_map(
            params![
                cursor.ended.column(),
                cursor.sequence,
                until.column(),
                limit
            ],
            |row| {
                Ok(Cursor {
                    ended: Lived(row.get::<_, i64>(0)?.cast_unsigned()),
                    sequence: row.get(1)?,
                })
            },
        )?
        .collect::<rusqlite::Result<_>>()?;
    let Some(last) = passed.last() else {
        return Ok((0, cursor, false));
    };
    let mut forget = connection.prepare_cached(
        "UPDATE operations SET answer = NULL WHERE sequence = ?1 AND answer IS NOT NULL",
    )?;
    let mut answers = 0;
    for Cursor { sequence, .. } in &passed {
        answers += forget.execute([sequence])?;
    }
    connection
        .prepare_cached("UPDATE register SET purged_ended_ms = ?1, purged_sequence = ?2")?
        .execute(params![last.ended.column(), last.sequence])?;
    Ok((count(answers), *last, passed.len() == ANSWERS))
}

struct Forgotten {
    sequence: i64,
    locator: i64,
    state: String,
    tenant: String,
    resource: Option<String>,
}

/// The newest operation stays, so that its sequence is never given to another one.
fn drop_identities(connection: &Connection, until: Lived) -> rusqlite::Result<usize> {
    let mut statement = connection.prepare_cached(
        "SELECT sequence, state, tenant, resource, id, upstream, principal, incarnation, tenant
         FROM operations
         WHERE ended <= ?1 AND unsettled = 0 AND sequence < (SELECT max(sequence) FROM operations)
         ORDER BY ended, sequence LIMIT ?2",
    )?;
    let limit = i64::try_from(IDENTITIES).unwrap_or(i64::MAX);
    let old: Vec<Forgotten> = statement
        .query_map(params![until.column(), limit], |row| {
            Ok(Forgotten {
                sequence: row.get(0)?,
                locator: locator::of_row(row, 4)?,
                state: row.get(1)?,
                tenant: row.get(2)?,
                resource: row.get(3)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    let mut tally = Tally::default();
    for forgotten in &old {
        forget(connection, forgotten)?;
        tally.left(&forgotten.state);
    }
    tally.write(connection)?;
    Ok(old.len())
}

fn forget(connection: &Connection, forgotten: &Forgotten) -> rusqlite::Result<()> {
    let Forgotten {
        sequence,
        locator,
        state: _,
        tenant,
        resource,
    } = forgotten;
    for sql in [
        "DELETE FROM events WHERE operation = ?1",
        // Who repeated it is new as well.
        "DELETE FROM twins WHERE first = ?1",
        "DELETE FROM requests WHERE operation = ?1",
        "DELETE FROM operations WHERE sequence = ?1",
    ] {
        connection.prepare_cached(sql)?.execute([sequence])?;
    }
    connection
        .prepare_cached("DELETE FROM locators WHERE locator = ?1 AND sequence = ?2")?
        .execute([locator, sequence])?;
    if let Some(resource) = resource {
        connection
            .prepare_cached(
                "UPDATE fences SET applied = NULL
                 WHERE name = ?1 AND tenant = ?2 AND applied = ?3",
            )?
            .execute(params![resource, tenant, sequence])?;
    }
    Ok(())
}

fn count(rows: usize) -> u64 {
    u64::try_from(rows).unwrap_or(u64::MAX)
}
