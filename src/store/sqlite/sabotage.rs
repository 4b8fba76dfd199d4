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
    /// There is no room for it.
    Full,
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
        self.strike(CommitFault::Full, rusqlite::ffi::SQLITE_FULL)?;
        self.strike(CommitFault::Lost, rusqlite::ffi::SQLITE_IOERR_FSYNC)
    }

    pub(super) fn after_commit(&self) -> rusqlite::Result<()> {
        self.strike(CommitFault::Happened, rusqlite::ffi::SQLITE_IOERR_FSYNC)
    }

    fn strike(&self, now: CommitFault, code: i32) -> rusqlite::Result<()> {
        let mut next = self.next.lock().unwrap();
        if *next == Some(now) {
            *next = None;
            let error = rusqlite::ffi::Error::new(code);
            return Err(rusqlite::Error::SqliteFailure(error, None));
        }
        Ok(())
    }
}
