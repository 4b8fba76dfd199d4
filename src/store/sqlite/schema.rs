//! The tables, and how a connection to them is set up.
//!
//! What always holds: the file says whose it is (`application_id`) and in which format
//! (`user_version`) before anything else of it is believed; the writer's settings for durability are
//! read back, not assumed. Records are the truth; the columns beside them are there to find them by,
//! and for an operator with `sqlite3`. Indexes are few, because each one dirties a page per
//! operation.
//!
//! What it does not do: read or write records.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::OpenError;
use crate::store::seal::MasterKey;

/// Format of the tables that this code writes, and the highest that it reads.
pub(super) const FORMAT: u32 = 1;

/// "FncP": this file is a register of ours.
const APPLICATION: i32 = 0x466e_6350;

/// How long a write waits for an operator who holds the file, before it answers `Unavailable`.
const BUSY: Duration = Duration::from_secs(2);

/// Every statement that is ever prepared fits.
const STATEMENTS: usize = 64;

// Names come before tenants in the keys: one register serves one tenant mostly, and an index whose
// entries all begin alike finds nothing faster for it.
const TABLES: &str = "
CREATE TABLE register (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    id BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    sealing_key INTEGER NOT NULL,
    created_wall_ms INTEGER NOT NULL,
    proofs INTEGER NOT NULL
) STRICT;

CREATE TABLE fences (
    name TEXT NOT NULL,
    tenant TEXT NOT NULL,
    mark TEXT,
    cancelled INTEGER NOT NULL,
    record BLOB NOT NULL,
    applied INTEGER,
    applied_number INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (name, tenant)
) STRICT, WITHOUT ROWID;

CREATE TABLE operations (
    sequence INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    upstream TEXT NOT NULL,
    principal BLOB NOT NULL,
    incarnation INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    state TEXT NOT NULL,
    unsettled INTEGER NOT NULL,
    resource TEXT,
    number INTEGER,
    token TEXT,
    first_seen_wall_ms INTEGER NOT NULL,
    record BLOB NOT NULL,
    answer BLOB,
    UNIQUE (id, upstream, principal, incarnation, tenant)
) STRICT;

CREATE INDEX unsettled_of_resource ON operations (resource, tenant, number)
    WHERE unsettled = 1 AND resource IS NOT NULL;

CREATE INDEX unsettled_in_order ON operations (unsettled) WHERE unsettled = 1;

CREATE TABLE twins (
    id TEXT NOT NULL,
    upstream TEXT NOT NULL,
    principal BLOB NOT NULL,
    incarnation INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (id, upstream, principal, incarnation, tenant)
) STRICT, WITHOUT ROWID;

CREATE TABLE requests (
    operation INTEGER PRIMARY KEY,
    sealed BLOB NOT NULL
) STRICT;

CREATE TABLE events (
    sequence INTEGER PRIMARY KEY,
    operation INTEGER NOT NULL,
    record BLOB NOT NULL
) STRICT;

CREATE INDEX events_of_operation ON events (operation);

CREATE TABLE counts (
    state TEXT PRIMARY KEY,
    operations INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";

/// What the register says of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct About {
    pub(super) epoch: u64,
    sealing_key: u32,
}

/// Opens the file for writing; `false`: it holds nothing yet.
pub(super) fn open_writer(path: &Path) -> Result<(Connection, bool), OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(OpenError::database(path))?;
    let exists = recognise(&connection, path)?;
    make_durable(&connection).map_err(OpenError::database(path))?;
    check_setting(&connection, path, "journal_mode", "wal")?;
    check_setting(&connection, path, "synchronous", "2")?;
    Ok((connection, exists))
}

/// A connection that cannot write.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.execute_batch("PRAGMA cache_size = -2048; PRAGMA query_only = ON;")?;
    Ok(connection)
}

/// Makes the tables of a new register, in one transaction.
pub(super) fn create(
    connection: &Connection,
    id: u128,
    key: &MasterKey,
    created_wall_ms: u64,
) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN EXCLUSIVE")?;
    connection.execute_batch(TABLES)?;
    connection.execute(
        "INSERT INTO register (only, id, epoch, sealing_key, created_wall_ms, proofs)
         VALUES (1, ?1, 0, ?2, ?3, 0)",
        params![
            id.to_be_bytes(),
            i64::from(key.id()),
            created_wall_ms.cast_signed()
        ],
    )?;
    let mut counts = connection.prepare("INSERT INTO counts (state, operations) VALUES (?1, 0)")?;
    for word in crate::store::STATE_WORDS {
        counts.execute([word])?;
    }
    connection.pragma_update(None, "application_id", APPLICATION)?;
    connection.pragma_update(None, "user_version", FORMAT)?;
    connection.execute_batch("COMMIT")
}

/// Reads what the register says of itself, and whether `key` is its key.
pub(super) fn about(
    connection: &Connection,
    path: &Path,
    key: &MasterKey,
) -> Result<About, OpenError> {
    let about = connection
        .query_row("SELECT epoch, sealing_key FROM register", [], |row| {
            Ok(About {
                epoch: row.get::<_, i64>(0)?.cast_unsigned(),
                sealing_key: row.get(1)?,
            })
        })
        .optional()
        .map_err(OpenError::database(path))?
        .ok_or_else(|| OpenError::Foreign {
            path: path.to_owned(),
        })?;
    if about.sealing_key != key.id() {
        return Err(OpenError::WrongKey {
            path: path.to_owned(),
        });
    }
    Ok(about)
}

fn recognise(connection: &Connection, path: &Path) -> Result<bool, OpenError> {
    let integer = |pragma: &str| -> Result<i64, OpenError> {
        connection
            .pragma_query_value(None, pragma, |row| row.get(0))
            .map_err(|error| match error.sqlite_error_code() {
                Some(rusqlite::ErrorCode::NotADatabase) => OpenError::Foreign {
                    path: path.to_owned(),
                },
                Some(_) | None => OpenError::database(path)(error),
            })
    };
    let (application, format) = (integer("application_id")?, integer("user_version")?);
    let objects: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(OpenError::database(path))?;
    if application == 0 && format == 0 && objects == 0 {
        return Ok(false);
    }
    if application != i64::from(APPLICATION) {
        return Err(OpenError::Foreign {
            path: path.to_owned(),
        });
    }
    match u32::try_from(format) {
        Ok(FORMAT) => Ok(true),
        Ok(found) if found > FORMAT => Err(OpenError::FormatTooNew {
            path: path.to_owned(),
            found,
            known: FORMAT,
        }),
        Ok(_) | Err(_) => Err(OpenError::Foreign {
            path: path.to_owned(),
        }),
    }
}

/// Checkpoints are the writer's own (`writer`): SQLite's automatic one swallows its errors.
fn make_durable(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.execute_batch(
        "PRAGMA synchronous = FULL;
         PRAGMA wal_autocheckpoint = 0;
         PRAGMA cache_size = -8192;
         PRAGMA temp_store = MEMORY;
         PRAGMA trusted_schema = OFF;",
    )
}

fn check_setting(
    connection: &Connection,
    path: &Path,
    setting: &'static str,
    wanted: &str,
) -> Result<(), OpenError> {
    let found: rusqlite::types::Value = connection
        .pragma_query_value(None, setting, |row| row.get(0))
        .map_err(OpenError::database(path))?;
    let found = match found {
        rusqlite::types::Value::Integer(number) => number.to_string(),
        rusqlite::types::Value::Text(text) => text,
        other => format!("{other:?}"),
    };
    if found == wanted {
        return Ok(());
    }
    Err(OpenError::NotDurable {
        path: path.to_owned(),
        setting,
        found,
    })
}
