//! Registers that lie still: what they were is kept, and put back after each damage.
//!
//! What always holds: all that is to be known is in the database file and the witness.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::*;
use crate::support::register::by_hand;

/// SQLite's pages, as the register has them.
pub const PAGE: usize = 4096;

/// A register at rest, so that it can be put back as it was.
pub struct AtRest {
    pub database: PathBuf,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl AtRest {
    /// All that is to be known is in the database: there is no log beside it.
    pub fn of(proxy: &Proxy) -> Self {
        let database = proxy.register().join("register.db");
        let moved = by_hand(&proxy.register());
        moved
            .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
            .unwrap();
        drop(moved);
        let files = [database.clone(), proxy.register().join("witness")];
        let files = files.map(|path| (path.clone(), std::fs::read(path).unwrap()));
        Self {
            database,
            files: files.into(),
        }
    }

    /// The same files with their content of then.
    pub fn put_back(&self) {
        for end in ["-wal", "-shm"] {
            let mut name = self.database.clone().into_os_string();
            name.push(end);
            let _ = std::fs::remove_file(PathBuf::from(name));
        }
        for (path, content) in &self.files {
            std::fs::write(path, content).unwrap();
        }
    }

    pub fn pages(&self) -> usize {
        std::fs::read(&self.database).unwrap().len() / PAGE
    }

    /// Half of a page was not written, as a sector was not.
    pub fn tear(&self, page: usize, half: Range<usize>) {
        change(&self.database, |content| {
            content[page * PAGE..(page + 1) * PAGE][half].fill(0);
        });
    }
}

/// Changes a file as it lies there.
pub fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut content = std::fs::read(path).unwrap();
    change(&mut content);
    std::fs::write(path, content).unwrap();
}

/// A stopped register in which payments were made, at an upstream that makes each one that it gets.
pub fn stopped_after(payments: usize) -> (Upstream, Proxy) {
    let upstream = Upstream::start(Keys::Ignored);
    let mut proxy = Proxy::start(Setup::opaque(upstream.address()));
    for number in 0..payments {
        assert_eq!(pay(&proxy, &format!("k{number}")).send().status, 201);
    }
    proxy.stop();
    (upstream, proxy)
}
