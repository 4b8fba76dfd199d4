//! Opening the embedded register.
//!
//! What always holds: a register is either opened whole or not at all: ground, file, soundness, keys,
//! witness, in this order.
//!
//! What it does not do: judge any of them itself.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use tokio::sync::mpsc;

use super::Remember;
use super::SqliteBackend;
use super::about::About;
use super::ground::{Ground, at};
use super::identity::{self, Established};
use super::open_error::OpenError;
use super::poison::Poison;
use super::read::Readers;
use super::reserve::Reserve;
use super::schema::{self, Found};
use super::soundness;
use super::witness::{Doubt, Witness};
use super::writer::{Parts, Writer};
use crate::clock::Clock;
use crate::protocol::ids::InstanceId;
use crate::protocol::time::{Millis, Moment};
use crate::store::seal::{MasterKey, Sealer};

/// Errands that wait at most; whoever comes later waits outside the queue.
const QUEUE: usize = 4_096;

/// Kept on the disk for outcomes, in bytes: room for some ten thousand of them.
pub const USUAL_RESERVE: u64 = 16 << 20;

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
    /// Is it made if it is not there?
    pub create: bool,
    /// Need it not outlive a reboot? Then tmpfs and overlay file systems are accepted.
    pub ephemeral: bool,
    /// The first seals, all open. Empty: the key file beside the register, made if need be.
    pub keys: Vec<MasterKey>,
    /// When it forgets.
    pub remember: Remember,
    /// The file of its witness, if not beside it.
    pub witness: Option<PathBuf>,
    /// What if it was restored?
    pub restored: Restored,
    /// Bytes that are kept for a full disk.
    pub reserve: u64,
}

/// What to do about a register that may have been restored or copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    /// Refuse to open it.
    Refuse,
    /// Accept it: a new epoch begins, and nothing is admitted for that long, so that what an instance
    /// on the other copy sent last has ended.
    Accept {
        /// The longest that a request can be under way.
        quiet: Millis,
    },
    /// Open it only to look: it is left as it is.
    Overlook,
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

/// Opens the register: directory 0700, files 0600. Needs a tokio runtime.
pub async fn open(options: Options, owner: Owner) -> Result<Opened, OpenError> {
    tokio::task::spawn_blocking(move || open_blocking(options, owner))
        .await
        .map_err(|error| OpenError::Thread(io::Error::other(error)))?
}

/// A register in our hands: owned, sound and believed.
pub(super) struct Grounded {
    pub(super) ground: Ground,
    /// Its file.
    pub(super) path: PathBuf,
    pub(super) connection: Connection,
    pub(super) witness: Witness,
    pub(super) about: About,
    pub(super) sealer: Sealer,
    /// What speaks against it, where it is only looked at.
    pub(super) doubt: Option<Doubt>,
}

/// What every start does first, whatever the register is opened for.
pub(super) fn grounded(options: Options, now: &Moment) -> Result<Grounded, OpenError> {
    if !options.create && !Ground::holds_register(&options.path) {
        return Err(OpenError::Missing { path: options.path });
    }
    let ground = Ground::take(&options.path, options.ephemeral)?;
    ground.prove_fsync()?;
    let path = ground.database()?;
    let (connection, found) = schema::open_writer(&path)?;
    if found == Found::Nothing && !options.create {
        return Err(OpenError::Missing { path: options.path });
    }
    // One may look at a damaged one.
    if options.restored != Restored::Overlook {
        soundness::prove(&connection, found, &path)?;
    }
    let beside = ground.dir().join("witness");
    let witness = Witness::at(options.witness.unwrap_or(beside));
    let wanted = identity::Wanted {
        keys: options.keys,
        restored: options.restored,
        answers: options.remember.answers,
    };
    let Established {
        connection,
        about,
        sealer,
        doubt,
    } = identity::establish(connection, found, &path, &ground, &witness, wanted, now)?;
    Ok(Grounded {
        ground,
        path,
        connection,
        witness,
        about,
        sealer,
        doubt,
    })
}

fn open_blocking(options: Options, owner: Owner) -> Result<Opened, OpenError> {
    let Options {
        remember,
        restored,
        reserve,
        ..
    } = options;
    let Grounded {
        ground,
        path,
        connection,
        witness,
        about,
        sealer,
        doubt,
    } = grounded(options, &owner.clock.now())?;
    let sealer = Arc::new(sealer);
    let reserve = Reserve::make(ground.dir(), reserve).map_err(at(ground.dir()))?;
    let poison = Poison::default();
    let readers = Readers::open(&path, Arc::clone(&sealer), poison.clone())
        .map_err(OpenError::database(&path))?;
    let (errands, queue) = mpsc::channel(QUEUE);
    let instance = owner.instance;
    let writer = Writer::new(Parts {
        connection,
        queue,
        sealer: Arc::clone(&sealer),
        owner,
        about,
        remember,
        reserve,
        poison: poison.clone(),
        ground,
    })
    .map_err(OpenError::database(&path))?;
    #[cfg(test)]
    let sabotage = Arc::clone(&writer.sabotage);
    let thread = std::thread::Builder::new()
        .name("register".to_owned())
        .spawn(move || writer.run())
        .map_err(OpenError::Thread)?;
    let backend = Arc::new(SqliteBackend {
        instance,
        errands,
        readers: Arc::new(readers),
        poison,
        writer: Mutex::new(Some(thread)),
        witness: Arc::new(witness),
        is_looked_at: restored == Restored::Overlook,
        doubt,
        #[cfg(test)]
        sabotage,
    });
    Ok(Opened { backend, sealer })
}
