//! Checksums of pages: every page of the database file carries one in its last eight bytes, written
//! with it and compared at every read of it from that file.
//!
//! What always holds: SQLite's own extension does it (README.md beside this file), beneath every
//! connection of the process: whoever opens a database here calls [`install`] first. A page that is not
//! as it was written is an error of the read ([`is_mismatch`]), never an answer. Files without the room for
//! it are read and written as ever.
//!
//! What it does not do: find a page that is whole and old (a write that never reached the disk), whole
//! and another's (one that reached the wrong place), or nothing but zeros, whose sum is zero; the last
//! SQLite refuses wherever it looks for a page of a tree. It does not look at the log, whose frames have
//! checksums of SQLite's own, compared when a log is found at the start: a page gets its sum on its way
//! from there into the database file. Another program's SQLite writes no sums.

use std::ffi::{c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::{Connection, ffi};

#[expect(
    unsafe_code,
    reason = "SQLite's extension has a C function to register it, and no other way"
)]
mod extension {
    use super::{c_char, c_int};

    unsafe extern "C" {
        fn sqlite3_register_cksumvfs(unused: *const c_char) -> c_int;
    }

    /// SQLite's result code. Afterwards every connection that is opened has it.
    pub(super) fn register() -> c_int {
        // SAFETY: it is compiled for the very library that is linked (`build.rs`), takes an argument that
        // it does not look at, and is called once, as it must be.
        unsafe { sqlite3_register_cksumvfs(std::ptr::null()) }
    }
}

/// Puts checksums beneath all connections that are opened from now on in this process; whoever opens the
/// file of a register by other means than this room calls it first. Harmless if done already.
pub fn install() -> rusqlite::Result<()> {
    static REGISTERED: OnceLock<c_int> = OnceLock::new();
    match *REGISTERED.get_or_init(extension::register) {
        ffi::SQLITE_OK => Ok(()),
        code => Err(rusqlite::Error::SqliteFailure(
            ffi::Error::new(code),
            Some("the checksums of pages cannot be registered".to_owned()),
        )),
    }
}

/// Pages of this database are to carry checksums: nothing was written to it yet.
pub(super) fn begin(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("SELECT carry_checksums('main')", [], |_| Ok(()))
}

/// Refuses a connection to a database whose pages carry no checksums, as a mismatch: the head of its first
/// page says whether they do.
pub(super) fn demand(connection: &Connection) -> rusqlite::Result<()> {
    let compared: String =
        connection.pragma_query_value(None, "checksum_verification", |row| row.get(0))?;
    if compared == "1" {
        return Ok(());
    }
    Err(rusqlite::Error::SqliteFailure(
        ffi::Error::new(ffi::SQLITE_IOERR_DATA),
        None,
    ))
}

/// Compares no checksum of this connection's reads any more; they are still written.
pub(super) fn believe_all(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update_and_check(None, "checksum_verification", false, |_| Ok(()))
}

/// The name of a file that SQLite is to make, whose pages carry checksums from the first one that is
/// written. For `VACUUM INTO`.
pub(super) fn name_of_new(path: &Path) -> String {
    let path = percent_encode(path.as_os_str().as_bytes(), NAME);
    format!("file:{path}?reserve={RESERVED}&checksums=1")
}

/// Bytes at the end of each page.
const RESERVED: usize = 8;

/// What means nothing in a URI.
const NAME: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'.')
    .remove(b'-')
    .remove(b'_');

/// Was a page not as it was written?
pub(super) fn is_mismatch(error: &rusqlite::Error) -> bool {
    error
        .sqlite_error()
        .is_some_and(|error| error.extended_code == ffi::SQLITE_IOERR_DATA)
}
