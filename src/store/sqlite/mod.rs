//! The embedded register: one SQLite file, one owner, one writer.
//!
//! What always holds: WAL with `synchronous=FULL`, verified at start; whoever is answered can rely on
//! what was committed; a second owner is refused; a file of a newer format is refused. It fences only
//! the callers of its one process.
//!
//! What it does not do: decide (`protocol`), share the register between processes.

mod checkpoint;
mod ground;
mod load;
mod persist;
mod read;
#[cfg(test)]
mod sabotage;
mod schema;
#[cfg(test)]
mod tests;
mod writer;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use super::seal::Sealer;
use super::{
    Backend, OperationPage, OperationQuery, Pending, StoreError, Stored, StoredResource, Summary,
};
use crate::clock::Clock;
use crate::protocol::command::{Command, Reply};
use crate::protocol::fence::Fence;
use crate::protocol::ids::{InstanceId, OperationKey, ResourceKey};
use crate::protocol::operation::Operation;
use crate::protocol::view::Record;

use ground::Ground;
use read::Readers;
use writer::{Answer, Errand, Parts, Poison, Writer};

/// Errands that wait at most; whoever comes later waits outside the queue.
const QUEUE: usize = 4_096;

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
    fn database(path: &Path) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| Self::Database {
            path: path.to_owned(),
            source,
        }
    }
}

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

/// The embedded register.
#[derive(Debug)]
pub struct SqliteBackend {
    errands: mpsc::Sender<Errand>,
    readers: Arc<Readers>,
    poison: Poison,
    writer: Mutex<Option<JoinHandle<()>>>,
    #[cfg(test)]
    sabotage: Arc<sabotage::Sabotage>,
}

/// Opens the register in `dir`, making it if there is none: directory 0700, files 0600. Needs a tokio
/// runtime.
pub async fn open(
    dir: &Path,
    instance: InstanceId,
    clock: Clock,
    committed: Committed,
) -> Result<Opened, OpenError> {
    let dir = dir.to_owned();
    tokio::task::spawn_blocking(move || open_blocking(&dir, instance, clock, committed))
        .await
        .map_err(|error| OpenError::Thread(io::Error::other(error)))?
}

fn open_blocking(
    dir: &Path,
    instance: InstanceId,
    clock: Clock,
    committed: Committed,
) -> Result<Opened, OpenError> {
    let ground = Ground::take(dir)?;
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

impl SqliteBackend {
    /// Sends the writer on an errand and waits for its answer.
    async fn ask<T>(&self, errand: impl FnOnce(Answer<T>) -> Errand) -> Result<T, StoreError> {
        if let Some(why) = self.poison.get() {
            return Err(StoreError::Poisoned(why.clone()));
        }
        let (answer, answered) = oneshot::channel();
        self.errands
            .send(errand(answer))
            .await
            .map_err(|_| StoreError::Unavailable("the register is closed".to_owned()))?;
        // A writer that goes without an answer may have committed.
        answered.await.unwrap_or_else(|_| {
            Err(StoreError::CommitUnknown(
                "the register's writer is gone".to_owned(),
            ))
        })
    }
}

impl Backend for SqliteBackend {
    fn apply(&self, command: Command) -> Pending<'_, Reply> {
        Box::pin(self.ask(|answer| Errand::Apply(Box::new(command), answer)))
    }

    fn peek<'a>(
        &'a self,
        key: &'a OperationKey,
        resource: Option<&'a ResourceKey>,
    ) -> Pending<'a, Option<Record>> {
        let (key, resource) = (key.clone(), resource.cloned());
        Box::pin(
            self.readers
                .run(move |_, tables| read::peek(tables, &key, resource.as_ref())),
        )
    }

    fn operation<'a>(
        &'a self,
        key: &'a OperationKey,
        with_request: bool,
    ) -> Pending<'a, Option<Stored>> {
        let key = key.clone();
        Box::pin(
            self.readers.run(move |connection, tables| {
                read::operation(connection, tables, &key, with_request)
            }),
        )
    }

    fn operations<'a>(&'a self, query: &'a OperationQuery) -> Pending<'a, OperationPage> {
        let query = query.clone();
        Box::pin(
            self.readers
                .run(move |connection, tables| read::operations(connection, tables, &query)),
        )
    }

    fn resource<'a>(&'a self, key: &'a ResourceKey) -> Pending<'a, Option<StoredResource>> {
        let key = key.clone();
        Box::pin(
            self.readers
                .run(move |connection, tables| read::resource(connection, tables, &key)),
        )
    }

    fn resources<'a>(&'a self, after: Option<&'a str>, limit: usize) -> Pending<'a, Vec<Fence>> {
        let after = after.map(str::to_owned);
        Box::pin(
            self.readers
                .run(move |connection, _| read::resources(connection, after.as_deref(), limit)),
        )
    }

    fn in_doubt(&self, after: u64, limit: usize) -> Pending<'_, Vec<(u64, Operation)>> {
        Box::pin(
            self.readers
                .run(move |connection, tables| read::in_doubt(connection, tables, after, limit)),
        )
    }

    fn summary(&self) -> Pending<'_, Summary> {
        Box::pin(
            self.readers
                .run(|connection, tables| read::summary(connection, tables)),
        )
    }

    fn ready(&self) -> Pending<'_, ()> {
        Box::pin(self.ask(Errand::Prove))
    }

    fn close(&self) -> Pending<'_, ()> {
        Box::pin(async {
            let (answer, answered) = oneshot::channel();
            // Closed already: nothing is left to wait for but the thread.
            let closed = match self.errands.send(Errand::Close(answer)).await {
                Ok(()) => answered.await.unwrap_or(Ok(())),
                Err(_) => Ok(()),
            };
            let thread = self
                .writer
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(thread) = thread {
                let joined = tokio::task::spawn_blocking(move || thread.join()).await;
                if !matches!(joined, Ok(Ok(()))) {
                    return Err(StoreError::Unavailable(
                        "the register's writer ended in a panic".to_owned(),
                    ));
                }
            }
            closed
        })
    }
}
