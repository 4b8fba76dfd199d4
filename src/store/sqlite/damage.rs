//! Damage that shows when a page is read: what counts as such, and in which words it is told.
//!
//! What always holds: damage is never "unavailable": trying again does not help, and what a damaged file
//! has forgotten would be sent again. Whoever meets it poisons the register (`read`, `writer`).
//!
//! What it does not do: look for it (`soundness`).

use rusqlite::{Error, ErrorCode};

/// Is the file not as it was written?
pub(super) fn is_damage(error: &Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

/// What an operator is told.
pub(super) fn words(error: &Error) -> String {
    error.to_string()
}
