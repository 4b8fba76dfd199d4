//! Reading a register whole, to find damage that SQLite would not notice at work.
//!
//! What always holds: a damaged index page can answer "no such operation" without any error, and what
//! is not known is sent. So every register that is small enough is read whole before it is used, every
//! index held against its table; a larger one is when it is copied (`backup`).
//!
//! What it does not do: notice damage that happens later; pages carry no checksums.

use std::path::Path;

use rusqlite::Connection;

use super::open_error::OpenError;

/// Registers up to that many bytes are read whole at every start: some tenths of a second.
const SMALL: i64 = 32 << 20;

/// What is wrong with it, in SQLite's words; `None`: it is sound. Takes time with its size.
pub(super) fn flaw(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let found: rusqlite::Result<String> =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0));
    match found {
        Ok(found) if found == "ok" => Ok(None),
        Ok(found) => Ok(Some(found)),
        Err(error) if is_damage(&error) => Ok(Some(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Refuses a damaged register, if it is small enough to be read whole.
pub(super) fn prove(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let count = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get(0));
    let bytes = count("page_count").and_then(|pages: i64| {
        let size: i64 = count("page_size")?;
        Ok(pages.saturating_mul(size))
    });
    let bytes = bytes.map_err(OpenError::database(path))?;
    if bytes > SMALL {
        tracing::info!(
            bytes,
            "the register is too large to be read whole at the start; `store backup` does so"
        );
        return Ok(());
    }
    match flaw(connection).map_err(OpenError::database(path))? {
        None => Ok(()),
        Some(found) => Err(OpenError::Damaged {
            path: path.to_owned(),
            found,
        }),
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase)
    )
}
