//! Why a register cannot be opened.
//!
//! What always holds: every variant says which file it is about and, where somebody can do something
//! about it, what.
//!
//! What it does not do: speak of an open register; that is [`StoreError`].

use std::io;
use std::path::{Path, PathBuf};

use super::damage;
use super::witness::Doubt;
use crate::store::StoreError;

/// In bytes.
const MIB: u64 = 1 << 20;

/// Why a register cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A file or directory could not be made, read or synced.
    #[error("cannot use {path}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The database file is a symbolic link.
    #[error(
        "{path} is a symbolic link: the register's files must lie together. Point `path` at the \
         directory that has the file"
    )]
    Link {
        /// Which file.
        path: PathBuf,
    },
    /// On a network file system neither locks nor fsync can be relied on.
    #[error(
        "{path} is on {system}, which is shared with other machines: its locks and its fsync cannot \
         be relied on. Put the register on a disk of this machine"
    )]
    Network {
        /// Its directory.
        path: PathBuf,
        /// Which file system.
        system: &'static str,
    },
    /// The file system does not last.
    #[error(
        "{path} is on {system}, which does not outlive a reboot or the container: what was sent would \
         be forgotten and sent again. Put the register on a volume that lasts, or write \
         `ephemeral: true` beside its path if it may be lost"
    )]
    Volatile {
        /// Its directory.
        path: PathBuf,
        /// Which file system.
        system: &'static str,
    },
    /// What every commit relies on does not work.
    #[error("nothing can be made durable in {path}: {step} fails")]
    NotSynced {
        /// Its directory.
        path: PathBuf,
        /// What was tried.
        step: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// Another process owns the register.
    #[error("the register {path} is in use by another process: an embedded register has one owner")]
    InUse {
        /// Its directory.
        path: PathBuf,
    },
    /// The file is not a register of ours, or it is damaged beyond recognition.
    #[error("{path} is not a register of Fencepost")]
    Foreign {
        /// Which file.
        path: PathBuf,
    },
    /// Something in it is not as SQLite left it.
    #[error(
        "{path} is damaged ({found}): it may have forgotten what was sent. Nothing was changed. Put a \
         backup in its place"
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What was found first.
        found: String,
    },
    /// It was written by a newer version.
    #[error("{path} has format {found}, this version reads up to {known}")]
    FormatTooNew {
        /// Which file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// Highest format known.
        known: u32,
    },
    /// It has an earlier format, and is not to be changed now.
    #[error("{path} has format {found}: an instance of this version brings it up to date first")]
    Outdated {
        /// Which file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// The register is there and its key file is not.
    #[error(
        "{path} is missing: without the key of this register, its stored requests and answers cannot be read"
    )]
    KeyMissing {
        /// Where it was expected.
        path: PathBuf,
    },
    /// The key file does not hold 32 bytes.
    #[error("{path} is not a key: it must hold 32 random bytes")]
    KeyMalformed {
        /// Which file.
        path: PathBuf,
    },
    /// None of the keys is the one that the register is sealed with.
    #[error("none of the keys is the one that {path} is sealed with ({key:08x})")]
    WrongKey {
        /// The register.
        path: PathBuf,
        /// Which key it needs, by the name that sealed records give it.
        key: u32,
    },
    /// There is no register, and none is to be made.
    #[error("there is no register in {path}")]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// It may have forgotten what was sent.
    #[error(
        "{path} may have been restored or copied: {doubt}. What was sent since is unknown to it. Make \
         sure that no other copy of it is in use; then start once with --accept-restored, which cuts \
         off every token of before by a new epoch"
    )]
    Restored {
        /// The register.
        path: PathBuf,
        /// What speaks for it.
        doubt: Doubt,
    },
    /// A register of an earlier format is written anew, and there is no room for that.
    #[error(
        "{path} cannot be brought up to date: that takes {} MiB on its disk while it lasts, and {} MiB \
         are free. Nothing was changed",
        needed / MIB,
        free / MIB
    )]
    NoRoom {
        /// The register.
        path: PathBuf,
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// Everything in it was moved elsewhere.
    #[error(
        "{path} was exported to be moved: two registers of one truth would both admit. If what was \
         exported is used nowhere and never will be, take it back (`fencepost store take-back`)"
    )]
    Moved {
        /// The register.
        path: PathBuf,
    },
    /// It is in use where it is.
    #[error("{path} was not moved: there is nothing to take back")]
    NotMoved {
        /// The register.
        path: PathBuf,
    },
    /// A register of an earlier format cannot be brought up to date; it was left as it is.
    #[error("{path} cannot be brought up to date")]
    Migration {
        /// The register.
        path: PathBuf,
        /// Why.
        source: StoreError,
    },
    /// SQLite did not accept a setting that durability depends on.
    #[error("{path} cannot be made durable: {setting} is {found}")]
    NotDurable {
        /// Which file.
        path: PathBuf,
        /// Which setting.
        setting: &'static str,
        /// What it is instead.
        found: String,
    },
    /// SQLite failed.
    #[error("cannot open {path}")]
    Database {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// The system gave no random bytes.
    #[error("the system gave no randomness")]
    NoRandomness,
    /// The writer's thread could not be started, or opening was cut off.
    #[error("cannot start the register's writer")]
    Thread(#[source] io::Error),
}

impl OpenError {
    pub(super) fn database(path: &Path) -> impl FnOnce(rusqlite::Error) -> Self {
        let path = path.to_owned();
        move |source| {
            if damage::is_damage(&source) {
                let found = damage::words(&source);
                return Self::Damaged { path, found };
            }
            Self::Database { path, source }
        }
    }
}
