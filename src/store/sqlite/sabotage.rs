//! Faults for tests of this room: a COMMIT that fails.
//!
//! What always holds: not compiled into the product.
//!
//! What it does not do: simulate disks; the crash tests bring real faults.

use std::sync::Mutex;

/// What goes wrong at the next COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommitFault {
    /// It fails, and nothing was committed.
    Lost,
    /// It fails, although everything was committed.
    Happened,
}

#[derive(Debug, Default)]
pub(in crate::store) struct Sabotage {
    next: Mutex<Option<CommitFault>>,
}

impl Sabotage {
    pub(super) fn arm(&self, fault: CommitFault) {
        *self.next.lock().unwrap() = Some(fault);
    }

    pub(super) fn before_commit(&self) -> rusqlite::Result<()> {
        self.strike(CommitFault::Lost)
    }

    pub(super) fn after_commit(&self) -> rusqlite::Result<()> {
        self.strike(CommitFault::Happened)
    }

    fn strike(&self, now: CommitFault) -> rusqlite::Result<()> {
        let mut next = self.next.lock().unwrap();
        if *next == Some(now) {
            *next = None;
            // What a failed fsync looks like.
            let fsync = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC);
            return Err(rusqlite::Error::SqliteFailure(fsync, None));
        }
        Ok(())
    }
}
