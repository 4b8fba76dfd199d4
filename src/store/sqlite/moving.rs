//! Writing an embedded register to a file, to be moved.
//!
//! What always holds: the register is owned, sound and believed as at a start, or nothing is written. It is
//! marked as moved before the first line, so that a crash leaves no register in use beside a file of it:
//! the next start refuses, and a person says whether the file is used anywhere.
//!
//! What it does not do: judge or open records, or read such a file.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::about::{self, About};
use super::ground::Ground;
use super::load::{Fault, blob, key_from, optional_blob};
use super::opening::{Grounded, Options, grounded};
use super::schema;
use super::{OpenError, Restored};
use crate::clock::Clock;
use crate::protocol::time::{Millis, Moment};
use crate::store::moving::{
    Bytes, Counts, Exporting, FenceLine, HistoryLine, KeyLine, Line, Memory, MoveError, Moved,
    Name, OperationLine, RegisterLine, TwinLine, Wide,
};
use crate::store::{Remember, StoreError};

/// Writes everything in the register to `to`, and marks it as moved. `options`: as for a start; it is
/// neither made nor accepted as restored. `told`: how long its instance has what is settled remembered, which
/// stands in the config and not in the register. Blocks for as long as it takes.
pub fn export(
    options: Options,
    told: Option<Remember>,
    clock: &Clock,
    to: &Path,
) -> Result<Moved, MoveError> {
    let options = Options {
        create: false,
        restored: Restored::Refuse,
        ..options
    };
    let now = clock.now();
    let Grounded {
        // Owned until the file is whole.
        ground: _ground,
        path,
        connection,
        about,
        ..
    } = grounded(options, &now)?;
    let lived = about.age.at(&now);
    if about.admits_from > lived {
        return Err(MoveError::Quiet {
            wait_ms: about.admits_from.since(lived).0,
        });
    }
    let database = |error| OpenError::database(&path)(error);
    let moved = format!("moved: everything is exported to {}", to.display());
    mark(&connection, true, &now, &moved).map_err(database)?;
    write(&connection, &about, told, to).inspect_err(|_| {
        let told = "taken back: the export failed";
        if let Err(error) = mark(&connection, false, &now, told) {
            tracing::error!(error = %error, "the register stays marked as moved");
        }
    })
}

/// Makes a moved register one that is used again: whoever says so knows that what was exported is used
/// nowhere. Blocks.
pub fn take_back(dir: &Path, clock: &Clock) -> Result<(), OpenError> {
    if !Ground::holds_register(dir) {
        let path = dir.to_owned();
        return Err(OpenError::Missing { path });
    }
    // Whoever made it has decided what it may lie on.
    let ground = Ground::take(dir, true)?;
    let path = ground.database()?;
    match schema::open_writer(&path) {
        Err(OpenError::Moved { .. }) => {}
        Err(other) => return Err(other),
        Ok(_) => return Err(OpenError::NotMoved { path }),
    }
    let database = |error| OpenError::database(&path)(error);
    let connection = Connection::open(&path).map_err(database)?;
    let told = "taken back: what was exported is used nowhere";
    connection
        .execute_batch("PRAGMA synchronous = FULL")
        .and_then(|()| mark(&connection, false, &clock.now(), told))
        .map_err(database)
}

fn mark(
    connection: &Connection,
    moved: bool,
    now: &Moment,
    told: &str,
) -> Result<(), rusqlite::Error> {
    schema::alone(connection, || {
        about::note(connection, now, told)?;
        schema::mark_moved(connection, moved)
    })
}

fn write(
    connection: &Connection,
    about: &About,
    told: Option<Remember>,
    to: &Path,
) -> Result<Moved, MoveError> {
    let memories = told.map(|remember| memories(connection, remember));
    let memories = memories.transpose().map_err(failed)?.unwrap_or_default();
    let mut file = Exporting::begin(to, counts(connection, &memories).map_err(failed)?)?;
    file.put(&Line::Register(
        register(connection, about, memories).map_err(failed)?,
    ))?;
    each(connection, KEYS, |row| {
        file.put(&Line::Key(key_line(row)?)).map_err(Stopped::File)
    })?;
    each(connection, HISTORY, |row| {
        file.put(&Line::History(history_line(row)?))
            .map_err(Stopped::File)
    })?;
    each(connection, OPERATIONS, |row| {
        let line = operation_line(connection, row)?;
        file.put(&Line::Operation(Box::new(line)))
            .map_err(Stopped::File)
    })?;
    each(connection, TWINS, |row| {
        file.put(&Line::Twin(twin_line(row)?))
            .map_err(Stopped::File)
    })?;
    each(connection, FENCES, |row| {
        file.put(&Line::Fence(fence_line(connection, row)?))
            .map_err(Stopped::File)
    })?;
    file.finish()
}

/// Why a table was not read to its end.
enum Stopped {
    Row(Fault),
    File(MoveError),
}

impl From<Fault> for Stopped {
    fn from(fault: Fault) -> Self {
        Self::Row(fault)
    }
}

impl From<rusqlite::Error> for Stopped {
    fn from(error: rusqlite::Error) -> Self {
        Self::Row(error.into())
    }
}

impl From<Stopped> for MoveError {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Row(fault) => Self::Register(StoreError::from(fault)),
            Stopped::File(error) => error,
        }
    }
}

fn failed(error: rusqlite::Error) -> MoveError {
    MoveError::Register(StoreError::from(Fault::Database(error)))
}

const KEYS: &str = "SELECT id, last_used_ms FROM sealing_keys ORDER BY id";
const HISTORY: &str = "SELECT wall_ms, text FROM history ORDER BY sequence";
const OPERATIONS: &str = "
    SELECT o.sequence, o.id, o.upstream, o.principal, o.incarnation, o.tenant, o.record, o.answer,
           o.ended, r.sealed
    FROM operations o LEFT JOIN requests r ON r.operation = o.sequence ORDER BY o.sequence";
const TWINS: &str = "SELECT id, upstream, principal, incarnation, tenant, record FROM twins";
const FENCES: &str = "
    SELECT name, tenant, record, applied, applied_number FROM fences ORDER BY name, tenant";

/// Goes through the rows, one after the other.
fn each(
    connection: &Connection,
    query: &str,
    mut take: impl FnMut(&Row<'_>) -> Result<(), Stopped>,
) -> Result<(), Stopped> {
    let mut statement = connection.prepare(query)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        take(row)?;
    }
    Ok(())
}

/// Whosever operations there are: one instance forgets them all by the same rule.
fn memories(connection: &Connection, remember: Remember) -> rusqlite::Result<Vec<Memory>> {
    const TENANTS: &str = "SELECT DISTINCT tenant FROM operations ORDER BY tenant";
    let length = |it: Millis| it.0.min(i64::MAX.cast_unsigned());
    let mut statement = connection.prepare(TENANTS)?;
    let memories = statement.query_map([], |row| {
        Ok(Memory {
            tenant: row.get(0)?,
            answers_ms: length(remember.answers),
            identities_ms: length(remember.identities),
        })
    })?;
    memories.collect()
}

fn counts(connection: &Connection, memories: &[Memory]) -> rusqlite::Result<Counts> {
    let count = |of: &str| -> rusqlite::Result<u64> {
        let found: i64 =
            connection.query_row(&format!("SELECT count({of}"), [], |row| row.get(0))?;
        Ok(found.cast_unsigned())
    };
    Ok(Counts {
        keys: count("*) FROM sealing_keys")?,
        history: count("*) FROM history")?,
        operations: count("*) FROM operations")?,
        events: count("*) FROM events")?,
        answers: count("answer) FROM operations")?,
        requests: count("*) FROM requests")?,
        twins: count("*) FROM twins")?,
        fences: count("*) FROM fences")?,
        memories: u64::try_from(memories.len()).unwrap_or(u64::MAX),
    })
}

fn register(
    connection: &Connection,
    about: &About,
    memories: Vec<Memory>,
) -> rusqlite::Result<RegisterLine> {
    let created: i64 =
        connection.query_row("SELECT created_wall_ms FROM register", [], |row| row.get(0))?;
    let read = about.age.read;
    Ok(RegisterLine {
        id: Wide(about.id),
        epoch: about.epoch,
        created_wall_ms: created.cast_unsigned(),
        fingerprint_key: Bytes(about.fingerprint_key.clone()),
        lived_ms: about.age.lived.column().cast_unsigned(),
        read_boot: Wide(read.boot.0),
        read_boottime_ms: read.boottime.0,
        read_wall_ms: read.wall_ms,
        // One that may have been restored is not exported.
        doubt: None,
        memories,
    })
}

fn key_line(row: &Row<'_>) -> rusqlite::Result<KeyLine> {
    Ok(KeyLine {
        id: row.get(0)?,
        last_used_ms: row.get::<_, i64>(1)?.cast_unsigned(),
    })
}

fn history_line(row: &Row<'_>) -> rusqlite::Result<HistoryLine> {
    Ok(HistoryLine {
        wall_ms: row.get::<_, i64>(0)?.cast_unsigned(),
        text: row.get(1)?,
    })
}

fn operation_line(connection: &Connection, row: &Row<'_>) -> Result<OperationLine, Fault> {
    let sequence: i64 = row.get(0)?;
    let mut statement = connection
        .prepare_cached("SELECT record FROM events WHERE operation = ?1 ORDER BY sequence")?;
    let mut found = statement.query(params![sequence])?;
    let mut events = Vec::new();
    while let Some(event) = found.next()? {
        events.push(Bytes(blob(event, 0)?.to_vec()));
    }
    let sealed = |column| -> Result<Option<Bytes>, Fault> {
        Ok(optional_blob(row, column)?.map(|sealed| Bytes(sealed.to_vec())))
    };
    Ok(OperationLine {
        name: Name::of(&key_from(row, 1)?),
        record: Bytes(blob(row, 6)?.to_vec()),
        settled_ms: row.get::<_, Option<i64>>(8)?.map(i64::cast_unsigned),
        answer: sealed(7)?,
        request: sealed(9)?,
        events,
    })
}

fn twin_line(row: &Row<'_>) -> Result<TwinLine, Fault> {
    Ok(TwinLine {
        name: Name::of(&key_from(row, 0)?),
        record: Bytes(blob(row, 5)?.to_vec()),
    })
}

fn fence_line(connection: &Connection, row: &Row<'_>) -> Result<FenceLine, Fault> {
    let applied = match row.get::<_, Option<i64>>(3)? {
        Some(sequence) => operation_named(connection, sequence)?,
        None => None,
    };
    Ok(FenceLine {
        resource: row.get(0)?,
        tenant: row.get(1)?,
        record: Bytes(blob(row, 2)?.to_vec()),
        applied,
        applied_number: row.get::<_, i64>(4)?.cast_unsigned(),
    })
}

fn operation_named(connection: &Connection, sequence: i64) -> Result<Option<Name>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT id, upstream, principal, incarnation, tenant FROM operations WHERE sequence = ?1",
    )?;
    let found = statement
        .query_row([sequence], |row| Ok(key_from(row, 0)))
        .optional()?;
    Ok(found.transpose()?.map(|key| Name::of(&key)))
}
