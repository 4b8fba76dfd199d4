//! The tables, and how a connection to them is set up.
//!
//! What always holds: the file says whose it is (`application_id`) and in which format
//! (`user_version`) before anything else of it is believed; its pages carry checksums, which are compared
//! (`checksums`); the writer's settings for durability are read back, not assumed. Records are the truth; the columns beside them are there to find them by,
//! and for an operator with `sqlite3`. Indexes are few, because each one dirties a page per
//! operation; that an identity stands once is no constraint of a table (`locator`, `persist`).
//!
//! What it does not do: read or write records.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::checksums;
use super::locator;
use super::open_error::OpenError;

/// Format of the tables that this code writes, and the highest that it reads.
pub(super) const FORMAT: u32 = 4;

/// The last one whose pages carry no checksums; its tables are those of today.
pub(super) const BARE: u32 = 3;

/// In the place of the format while everything in the register was moved elsewhere ("MV", and the format
/// below): so that earlier versions refuse it as well, as one that is too new.
const MOVED: u32 = 0x4d56_0000;

/// The oldest that `migrate` brings up to date.
const OLDEST: u32 = 1;

/// "FncP": this file is a register of ours.
const APPLICATION: i32 = 0x466e_6350;

/// How long a write waits for an operator who holds the file, before it answers `Unavailable`.
const BUSY: Duration = Duration::from_secs(2);

/// Every statement that is ever prepared fits.
const STATEMENTS: usize = 64;

/// The register's word on itself; one row (`about`).
pub(super) const REGISTER: &str = "
CREATE TABLE register (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    id BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    created_wall_ms INTEGER NOT NULL,
    fingerprint_key BLOB NOT NULL,
    position INTEGER NOT NULL,
    lived_ms INTEGER NOT NULL,
    read_boot BLOB NOT NULL,
    read_boottime_ms INTEGER NOT NULL,
    read_wall_ms INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    device INTEGER NOT NULL,
    witnessed INTEGER NOT NULL,
    admits_from_ms INTEGER NOT NULL,
    purged_ended_ms INTEGER NOT NULL,
    purged_sequence INTEGER NOT NULL
) STRICT;

CREATE TABLE sealing_keys (
    id INTEGER PRIMARY KEY,
    last_used_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE history (
    sequence INTEGER PRIMARY KEY,
    wall_ms INTEGER NOT NULL,
    text TEXT NOT NULL
) STRICT;
";

/// In order of their end: what `purge` walks along. Always written at its right edge.
pub(super) const SETTLED: &str =
    "CREATE INDEX settled_in_order ON operations (ended) WHERE ended IS NOT NULL;";

/// Twins are rare.
pub(super) const TWINS_OF_FIRST: &str = "CREATE INDEX twins_of_first ON twins (first);";

/// Who has a lease, by name.
const LEASED: &str = "CREATE INDEX leased_in_order ON fences (leased) WHERE leased = 1;";

/// Are leases told apart? A register of before there were any, that is only looked at, has none.
pub(super) const HAS_LEASES: &str =
    "SELECT count(*) FROM pragma_table_info('fences') WHERE name = 'leased'";

// Names come before tenants in the keys: one register serves one tenant mostly, and an index whose
// entries all begin alike finds nothing faster for it.
const TABLES: &str = "
CREATE TABLE fences (
    name TEXT NOT NULL,
    tenant TEXT NOT NULL,
    mark TEXT,
    cancelled INTEGER NOT NULL,
    record BLOB NOT NULL,
    applied INTEGER,
    applied_number INTEGER NOT NULL DEFAULT 0,
    leased INTEGER NOT NULL DEFAULT 0,
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
    ended INTEGER
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
    first INTEGER,
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

/// What was found in a database file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Found {
    /// It holds nothing yet.
    Nothing,
    /// A register of this format.
    Format(u32),
}

/// Opens the file for writing.
pub(super) fn open_writer(path: &Path) -> Result<(Connection, Found), OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    checksums::install().map_err(OpenError::database(path))?;
    let connection = Connection::open_with_flags(path, flags).map_err(OpenError::database(path))?;
    let found = recognise(&connection, path)?;
    if found == Found::Nothing {
        checksums::begin(&connection).map_err(OpenError::database(path))?;
        // There may be a first page already that has no room for them.
        connection
            .execute_batch("PRAGMA journal_mode = DELETE; VACUUM")
            .map_err(OpenError::database(path))?;
    }
    make_durable(&connection).map_err(OpenError::database(path))?;
    if matches!(found, Found::Nothing | Found::Format(FORMAT)) {
        checksums::demand(&connection).map_err(OpenError::database(path))?;
    }
    check_setting(&connection, path, "journal_mode", "wal")?;
    check_setting(&connection, path, "synchronous", "2")?;
    Ok((connection, found))
}

/// Opens a file of the present format whose checksums are not believed.
pub(super) fn open_uncompared(path: &Path) -> Result<Connection, OpenError> {
    checksums::install().map_err(OpenError::database(path))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(OpenError::database(path))?;
    checksums::believe_all(&connection).map_err(OpenError::database(path))?;
    match recognise(&connection, path)? {
        Found::Format(FORMAT) => {}
        Found::Format(found) => {
            let path = path.to_owned();
            return Err(OpenError::Outdated { path, found });
        }
        Found::Nothing => {
            let path = path.to_owned();
            return Err(OpenError::Foreign { path });
        }
    }
    make_durable(&connection).map_err(OpenError::database(path))?;
    Ok(connection)
}

/// A connection that cannot write.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    checksums::install()?;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    let format: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if format > i64::from(BARE) {
        checksums::demand(&connection)?;
    }
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.execute_batch("PRAGMA cache_size = -2048; PRAGMA query_only = ON;")?;
    Ok(connection)
}

/// Makes the tables of a new register, inside a transaction.
pub(super) fn create(connection: &Connection) -> rusqlite::Result<()> {
    for tables in [
        REGISTER,
        TABLES,
        locator::TABLE,
        SETTLED,
        TWINS_OF_FIRST,
        LEASED,
    ] {
        connection.execute_batch(tables)?;
    }
    let mut counts = connection.prepare("INSERT INTO counts (state, operations) VALUES (?1, 0)")?;
    for word in crate::store::STATE_WORDS {
        counts.execute([word])?;
    }
    connection.pragma_update(None, "application_id", APPLICATION)?;
    connection.pragma_update(None, "user_version", FORMAT)
}

/// Adds what a register of before leases lacks, inside a transaction. Nothing of it was leased, and earlier versions
/// get along with it.
pub(super) fn complete(connection: &Connection) -> rusqlite::Result<()> {
    let columns: i64 = connection.query_row(HAS_LEASES, [], |row| row.get(0))?;
    if columns > 0 {
        return Ok(());
    }
    connection.execute_batch("ALTER TABLE fences ADD COLUMN leased INTEGER NOT NULL DEFAULT 0")?;
    connection.execute_batch(LEASED)
}

/// Runs `change` as one transaction, alone.
pub(super) fn alone<T, E: From<rusqlite::Error>>(
    connection: &Connection,
    change: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    connection.execute_batch("BEGIN EXCLUSIVE")?;
    let changed = change()?;
    connection.execute_batch("COMMIT")?;
    Ok(changed)
}

/// From now on nobody opens it, until it is marked otherwise. Inside a transaction.
pub(super) fn mark_moved(connection: &Connection, moved: bool) -> rusqlite::Result<()> {
    let format = if moved { MOVED | FORMAT } else { FORMAT };
    connection.pragma_update(None, "user_version", format)
}

/// Why a file cannot be read as a database.
pub(super) fn not_opened(path: &Path, error: rusqlite::Error) -> OpenError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => OpenError::Foreign {
            path: path.to_owned(),
        },
        Some(_) | None => OpenError::database(path)(error),
    }
}

/// Whose file is it, and in which format?
pub(super) fn recognise(connection: &Connection, path: &Path) -> Result<Found, OpenError> {
    let integer = |pragma: &str| -> Result<i64, OpenError> {
        connection
            .pragma_query_value(None, pragma, |row| row.get(0))
            .map_err(|error| not_opened(path, error))
    };
    let (application, format) = (integer("application_id")?, integer("user_version")?);
    let objects: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(OpenError::database(path))?;
    if application == 0 && format == 0 && objects == 0 {
        return Ok(Found::Nothing);
    }
    if application != i64::from(APPLICATION) {
        return Err(OpenError::Foreign {
            path: path.to_owned(),
        });
    }
    match u32::try_from(format) {
        Ok(format @ OLDEST..=FORMAT) => Ok(Found::Format(format)),
        Ok(format) if format & MOVED == MOVED => Err(OpenError::Moved {
            path: path.to_owned(),
        }),
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
