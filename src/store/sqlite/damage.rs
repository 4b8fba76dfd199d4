//! Damage that shows when a page is read: what counts as such, and in which words it is told.
//!
//! What always holds: damage is never "unavailable": trying again does not help, and what a damaged file
//! has forgotten would be sent again. Whoever meets it poisons the register (`read`, `writer`).
//!
//! What it does not do: look for it (`soundness`).

use rusqlite::{Error, ErrorCode, ffi};

use super::checksums;

/// Is the file not as it was written?
pub(super) fn is_damage(error: &Error) -> bool {
    let corrupt = matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    );
    corrupt || checksums::is_mismatch(error)
}

/// What an operator is told: a checksum that does not match is "disk I/O error" in SQLite's own words.
pub(super) fn words(error: &Error) -> String {
    if checksums::is_mismatch(error) {
        return MISMATCH.to_owned();
    }
    error.to_string()
}

/// What `PRAGMA integrity_check` found, in these words.
pub(super) fn words_of_check(found: &str) -> String {
    let code = format!("error code={}", ffi::SQLITE_IOERR_DATA);
    if found.contains(&code) {
        return format!("{MISMATCH} ({})", found.replace('\n', ", "));
    }
    found.to_owned()
}

const MISMATCH: &str = "a page of its file is not as it was written: its checksum does not match. It is \
                        torn or decayed, or another program wrote to the file, as sqlite3 does without \
                        -readonly (then: fencepost store mend)";
