//! Checkpoints: moving what is in the log into the database file.
//!
//! What always holds: they are the writer's own, between transactions and after the answers, and
//! their errors are seen. SQLite's automatic ones run inside a commit and swallow theirs, a failed
//! fsync included. They wait for nobody: what a reader still needs is moved next time.
//!
//! What it does not do: truncate the log while anybody waits. It is written over from its start.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rusqlite::Connection;

/// Pages (4 KiB) that the log may grow by between checkpoints. An operation puts five or six pages in
/// the log, many of them again and again, and a checkpoint moves each page once: fewer checkpoints
/// write less and sync less, and each of them keeps callers waiting for longer.
const DUE: i32 = 4_000;

/// The same while the disk is full: the log must not take what is kept for outcomes.
const DUE_WHEN_FULL: i32 = 1_000;

pub(super) struct Checkpoints {
    /// Pages in the log after the last commit.
    pages: Arc<AtomicI32>,
    /// Pages in the log at the last checkpoint.
    last: i32,
}

impl Checkpoints {
    /// `pages` is kept up to date by whoever commits.
    pub(super) fn new(pages: Arc<AtomicI32>) -> Self {
        Self { pages, last: 0 }
    }

    /// `full`: is there no room on the disk but for what was given back?
    pub(super) fn run_if_due(
        &mut self,
        connection: &Connection,
        full: bool,
    ) -> rusqlite::Result<()> {
        let due = if full { DUE_WHEN_FULL } else { DUE };
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.last {
            // The log began again from its start.
            self.last = 0;
        }
        if pages.saturating_sub(self.last) < due {
            return Ok(());
        }
        self.last = pages;
        Self::run(connection)
    }

    /// All of it, and the log is given back to the disk: after a transaction like no other; and at the
    /// end, because another program's SQLite that opens the file alone moves what it finds in the log,
    /// and writes no checksums.
    pub(super) fn run_and_truncate(connection: &Connection) -> rusqlite::Result<()> {
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    }

    pub(super) fn run(connection: &Connection) -> rusqlite::Result<()> {
        // Answers a row (was it kept from finishing, pages in the log, pages moved).
        connection
            .prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?
            .query_row([], |_| Ok(()))
    }
}
