//! Copying a register while its owner works on it.
//!
//! What always holds: the copy is one state of the register, whole, in one file, durable under its name
//! before anybody is told; it says of itself that it is a copy, so that whoever is given it as a
//! register notices; its pages carry checksums. A page that is damaged is not copied. The owner is not
//! held up. Nothing is overwritten.
//!
//! What it does not do: copy the key. A copy with the key beside it is as good as none sealed.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::checksums;
use super::damage;
use super::ground::{self, Ground};
use super::schema::{self, Found};
use super::soundness;
use super::{OpenError, about};
use crate::clock::Clock;

/// What was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// How far the register had come.
    pub position: u64,
    /// How large the copy is.
    pub bytes: u64,
}

/// Why nothing was copied.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is something already.
    #[error("{path} is there already: nothing is overwritten")]
    Taken {
        /// Where the copy was to be.
        path: PathBuf,
    },
    /// The register cannot be read.
    #[error("the register cannot be read")]
    Register(#[source] OpenError),
    /// Copying failed.
    #[error("cannot copy to {path}")]
    Copy {
        /// Where the copy was to be.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// The copy is not sound.
    #[error("the copy {path} is not sound: {found}")]
    Unsound {
        /// Where the copy was to be.
        path: PathBuf,
        /// What is wrong with it.
        found: String,
    },
    /// The copy cannot be made durable.
    #[error("cannot write {path}")]
    File {
        /// Where the copy was to be.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Copies the register in `dir` to the file `to`. Blocks for as long as it takes.
pub fn backup(dir: &Path, to: &Path, clock: &Clock) -> Result<Copied, BackupError> {
    let file = |source| BackupError::File {
        path: to.to_owned(),
        source,
    };
    let source = opened(dir)?;
    if to.exists() {
        return Err(BackupError::Taken {
            path: to.to_owned(),
        });
    }
    let mut aside = to.as_os_str().to_owned();
    aside.push(".part");
    let aside = PathBuf::from(aside);
    ground::overwritten(&aside).map_err(file)?;
    let position = copied(&source, &aside, clock).map_err(|source| {
        if damage::is_damage(&source) {
            let path = Ground::database_in(dir);
            return BackupError::Register(OpenError::database(&path)(source));
        }
        let path = to.to_owned();
        BackupError::Copy { path, source }
    });
    let sound = position.and_then(|position| checked(&aside, to).map(|()| position));
    let kept = sound.and_then(|position| {
        let synced = File::open(&aside).and_then(|copy| {
            copy.sync_all()?;
            copy.metadata()
        });
        let bytes = synced.map_err(file)?.len();
        named(&aside, to).map_err(file)?;
        ground::sync_parent(to).map_err(file)?;
        Ok(Copied { position, bytes })
    });
    // Under its own name it is there by now, or of no use.
    let _ = std::fs::remove_file(&aside);
    kept
}

/// A link does not overwrite; not every file system has them.
fn named(aside: &Path, to: &Path) -> io::Result<()> {
    match std::fs::hard_link(aside, to) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => std::fs::rename(aside, to),
        linked => linked,
    }
}

fn opened(dir: &Path) -> Result<Connection, BackupError> {
    let path = Ground::database_in(dir);
    if !path.exists() {
        let path = dir.to_owned();
        return Err(BackupError::Register(OpenError::Missing { path }));
    }
    let source = schema::open_reader(&path)
        .map_err(|error| BackupError::Register(schema::not_opened(&path, error)))?;
    match schema::recognise(&source, &path).map_err(BackupError::Register)? {
        Found::Format(schema::FORMAT) => Ok(source),
        Found::Format(found) => Err(BackupError::Register(OpenError::Outdated { path, found })),
        Found::Nothing => Err(BackupError::Register(OpenError::Foreign { path })),
    }
}

/// All pages in one step: between steps the owner's commits would make it begin again.
fn copied(source: &Connection, aside: &Path, clock: &Clock) -> rusqlite::Result<u64> {
    checksums::install()?;
    let mut copy = Connection::open(aside)?;
    // Its first page tells the checksums that they are wanted: it is there before the others.
    checksums::begin(&copy)?;
    copy.pragma_update(None, "user_version", schema::FORMAT)?;
    {
        let backup = Backup::new(source, &mut copy)?;
        while backup.step(-1)? != StepResult::Done {
            // Only a checkpoint that restarts the log is in the way, and not for long.
            std::thread::yield_now();
        }
    }
    // One file, without a journal beside it.
    copy.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    copy.execute("UPDATE register SET inode = 0, device = 0", [])?;
    about::note(&copy, &clock.now(), "copied: this is a backup")?;
    let position: i64 = copy.query_row("SELECT position FROM register", [], |row| row.get(0))?;
    checksums::demand(&copy)?;
    copy.close().map_err(|(_, error)| error)?;
    Ok(position.cast_unsigned())
}

fn checked(aside: &Path, to: &Path) -> Result<(), BackupError> {
    let failed = |source| BackupError::Copy {
        path: to.to_owned(),
        source,
    };
    let copy = Connection::open(aside).map_err(failed)?;
    let Some(found) = soundness::flaw(&copy, Found::Format(schema::FORMAT)).map_err(failed)? else {
        return Ok(());
    };
    Err(BackupError::Unsound {
        path: to.to_owned(),
        found,
    })
}
