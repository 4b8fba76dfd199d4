//! Opening the embedded register, and why it may be refused.
//!
//! What always holds: a register is either opened whole or not at all, and what is refused is left as
//! it was found.
//!
//! What it does not do: touch a file itself (`ground`, `schema`).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::mpsc;

use super::ground::{self, Ground};
use super::read::Readers;
use super::writer::{Parts, Poison, Writer};
use super::{SqliteBackend, schema};
use crate::clock::Clock;
use crate::protocol::ids::InstanceId;
use crate::store::seal::Sealer;

/// Errands that wait at most; whoever comes later waits outside the queue.
const QUEUE: usize = 4_096;

/// Told of every commit: how many microseconds the transaction took, and how many commands it held.
pub type Committed = Arc<dyn Fn(u64, usize) + Send + Sync>;

/// An opened register.
#[derive(Debug)]
pub struct Opened {
    /// The door to it.
    pub backend: Arc<SqliteBackend>,
    /// Its keys; also where fingerprints get theirs.
    pub sealer: Arc<Sealer>,
}

/// Which register, and how it is kept.
#[derive(Debug)]
pub struct Options {
    /// Its directory.
    pub path: PathBuf,
    /// Need it not outlive a reboot? Then tmpfs and overlay file systems are accepted.
    pub ephemeral: bool,
}

/// Who opens it.
pub struct Owner {
    /// Which instance.
    pub instance: InstanceId,
    /// Its clock.
    pub clock: Clock,
    /// Told of every commit.
    pub committed: Committed,
}

/// Opens the register, making it if there is none: directory 0700, files 0600. Needs a tokio runtime.
pub async fn open(options: Options, owner: Owner) -> Result<Opened, OpenError> {
    tokio::task::spawn_blocking(move || open_blocking(&options, owner))
        .await
        .map_err(|error| OpenError::Thread(io::Error::other(error)))?
}

fn open_blocking(options: &Options, owner: Owner) -> Result<Opened, OpenError> {
    let Owner {
        instance,
        clock,
        committed,
    } = owner;
    let ground = Ground::take(&options.path, options.ephemeral)?;
    ground.prove_fsync()?;
    let path = ground.database()?;
    let (connection, exists) = schema::open_writer(&path)?;
    let key = ground.key(!exists)?;
    if !exists {
        let id = ground::random_id()?;
        schema::create(&connection, id, &key, clock.now().wall_ms)
            .map_err(OpenError::database(&path))?;
    }
    let about = schema::about(&connection, &path, &key)?;
    let sealer = Arc::new(Sealer::new(&key, &[]).map_err(|_| OpenError::NoRandomness)?);
    let readers = Readers::open(&path, Arc::clone(&sealer)).map_err(OpenError::database(&path))?;
    let (errands, queue) = mpsc::channel(QUEUE);
    let poison: Poison = Arc::new(OnceLock::new());
    let writer = Writer::new(Parts {
        connection,
        queue,
        sealer: Arc::clone(&sealer),
        instance,
        epoch: about.epoch,
        poison: Arc::clone(&poison),
        ground,
        committed,
    })
    .map_err(OpenError::database(&path))?;
    #[cfg(test)]
    let sabotage = Arc::clone(&writer.sabotage);
    let thread = std::thread::Builder::new()
        .name("register".to_owned())
        .spawn(move || writer.run())
        .map_err(OpenError::Thread)?;
    let backend = Arc::new(SqliteBackend {
        errands,
        readers: Arc::new(readers),
        poison,
        writer: Mutex::new(Some(thread)),
        #[cfg(test)]
        sabotage,
    });
    Ok(Opened { backend, sealer })
}

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
    /// The key is not the one that the register was made with.
    #[error("the key beside {path} is not the key of this register")]
    WrongKey {
        /// The register.
        path: PathBuf,
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
        move |source| Self::Database {
            path: path.to_owned(),
            source,
        }
    }
}
