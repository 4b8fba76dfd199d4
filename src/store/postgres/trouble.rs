//! What went wrong with the database, by what is known afterwards.
//!
//! What always holds: whatever is not certainly undone counts as `Lost`: nobody knows whether it was
//! committed. A server that ends a session says so with FATAL, also while it waits for its replica
//! after it committed.
//!
//! What it does not do: find out (`lane`).

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};

use super::rows::Unreadable;
use crate::store::StoreError;

/// Why a statement did not do what it was to do.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Nothing was committed, because something changed meanwhile: decide again.
    Changed(String),
    /// Nothing was committed; the session is as good as before.
    Refused(String),
    /// The session is gone, or can no longer be trusted. What was to be committed may have been.
    Lost(String),
    /// A row cannot be read.
    Unreadable(StoreError),
}

impl Trouble {
    pub(super) fn late() -> Self {
        Self::Lost("the database did not answer in time".to_owned())
    }

    /// For a command that wrote nothing.
    pub(super) fn into_store_error(self) -> StoreError {
        match self {
            Self::Changed(why) | Self::Refused(why) | Self::Lost(why) => {
                StoreError::Unavailable(why)
            }
            Self::Unreadable(error) => error,
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        let Some(refusal) = error.as_db_error() else {
            return Self::Lost(told(&error));
        };
        let why = format!("{} ({})", refusal.message(), refusal.code().code());
        if ends_session(refusal) {
            Self::Lost(why)
        } else if is_contention(refusal.code()) {
            Self::Changed(why)
        } else {
            Self::Refused(why)
        }
    }
}

impl From<Unreadable> for Trouble {
    fn from(Unreadable(error): Unreadable) -> Self {
        Self::Unreadable(error)
    }
}

fn ends_session(refusal: &DbError) -> bool {
    let fatal = match refusal.parsed_severity() {
        Some(Severity::Fatal | Severity::Panic) => true,
        Some(_) | None => false,
    };
    let code = refusal.code();
    // Class 08: the connection; 40003: the server itself does not know; 25006: this server only reads,
    // so it is no longer the one to ask.
    fatal
        || code.code().starts_with("08")
        || *code == SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN
        || *code == SqlState::READ_ONLY_SQL_TRANSACTION
}

fn is_contention(code: &SqlState) -> bool {
    *code == SqlState::T_R_SERIALIZATION_FAILURE
        || *code == SqlState::T_R_DEADLOCK_DETECTED
        || code.code() == "FP001"
}

/// With its causes: the outermost says little.
fn told(error: &Error) -> String {
    crate::telemetry::errors::chain(error).to_string()
}
