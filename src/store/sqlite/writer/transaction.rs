//! One transaction of the writer, and what its failure means.
//!
//! What always holds: whatever fails before the COMMIT, nothing of the transaction is there. Full is
//! the one failure after which the writer goes on: SQLite reports it when a write finds no room, before
//! anything was synced.
//!
//! What it does not do: answer anybody.

use rusqlite::Connection;

use super::Writer;
use crate::store::StoreError;
use crate::store::sqlite::damage;
use crate::store::sqlite::persist::{self, Unwritten};

/// How a transaction failed.
pub(super) enum Failed {
    /// An earlier one did: nothing was tried.
    Poisoned(String),
    /// It never began: somebody else holds the file.
    Busy(String),
    /// The disk has no room: nothing of it is there.
    Full(String),
    /// Before COMMIT: nothing of it can be there.
    Before(String),
    /// At COMMIT: nobody knows.
    AtCommit(String),
}

impl Writer {
    /// Begins, works, commits. Whatever fails, nothing of it is there, unless the COMMIT did.
    pub(super) fn within_transaction<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failed>,
    ) -> Result<T, Failed> {
        // A reader may have found damage meanwhile.
        if let Some(why) = self.poison.why() {
            return Err(Failed::Poisoned(why.to_owned()));
        }
        let Some(connection) = &self.connection else {
            return Err(Failed::Poisoned(String::new()));
        };
        execute(connection, "BEGIN IMMEDIATE").map_err(|error| {
            if is_busy(&error) {
                Failed::Busy(error.to_string())
            } else {
                Failed::before(&error)
            }
        })?;
        let done = work(connection).and_then(|worked| {
            self.commit_transaction(connection)
                .map(|()| worked)
                .map_err(|error| Failed::at_commit(&error))
        });
        if let Err(Failed::Full(why)) = &done
            && !connection.is_autocommit()
            && let Err(error) = execute(connection, "ROLLBACK")
        {
            return Err(Failed::Before(format!("{why}; and then: {error}")));
        }
        done
    }

    /// What a failed transaction means, for whoever waited for it and for all to come.
    pub(super) fn failed(&mut self, failed: Failed) -> StoreError {
        match failed {
            Failed::Poisoned(why) => {
                self.connection = None;
                StoreError::Poisoned(why)
            }
            Failed::Busy(why) | Failed::Full(why) => StoreError::Unavailable(why),
            Failed::Before(why) => {
                self.poison_with(&why);
                StoreError::Poisoned(why)
            }
            Failed::AtCommit(why) => {
                self.poison_with(&why);
                StoreError::CommitUnknown(why)
            }
        }
    }

    #[cfg(test)]
    fn commit_transaction(&self, connection: &Connection) -> rusqlite::Result<()> {
        self.sabotage.before_commit()?;
        execute(connection, "COMMIT")?;
        self.sabotage.after_commit()
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests make it fail through self")]
    fn commit_transaction(&self, connection: &Connection) -> rusqlite::Result<()> {
        execute(connection, "COMMIT")
    }

    /// Closing this connection writes nothing: it was told never to checkpoint on close, and an open
    /// transaction is only forgotten.
    pub(super) fn poison_with(&mut self, why: &str) {
        self.poison.fail(why);
        self.connection = None;
    }
}

impl Failed {
    pub(super) fn before(error: &rusqlite::Error) -> Self {
        if persist::is_full(error) {
            Self::Full(error.to_string())
        } else {
            Self::Before(damage::words(error))
        }
    }

    pub(super) fn unwritten(error: Unwritten) -> Self {
        match error {
            Unwritten::Database(error) => Self::before(&error),
            Unwritten::Seal(_) | Unwritten::StrayEvent | Unwritten::SecondRow(_) => {
                Self::Before(error.to_string())
            }
        }
    }

    pub(super) fn at_commit(error: &rusqlite::Error) -> Self {
        if persist::is_full(error) {
            Self::Full(error.to_string())
        } else {
            Self::AtCommit(damage::words(error))
        }
    }
}

fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(|_| ())
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
}
