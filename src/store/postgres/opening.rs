//! Opening a shared register: connect, make or recognise the tables, take part.
//!
//! What always holds: the tables are made and brought up to date under one advisory lock, by whoever
//! comes first; a register of a newer format is refused. Nobody takes part without the key that the
//! register's fingerprint key is sealed with.
//!
//! What it does not do: keep the instance alive.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_postgres::Config;
use tokio_postgres::types::Type;

use super::PostgresBackend;
use super::lane::Lane;
use super::read::Reader;
use super::rows::Unreadable;
use super::session::{Connector, Session};
use super::shared::{Committed, Shared};
use super::trouble::Trouble;
use crate::clock::Clock;
use crate::protocol::ids::InstanceId;
use crate::protocol::time::{BootId, BootInstant, Moment};
use crate::store::StoreError;
use crate::store::age::{Age, Lived};
use crate::store::seal::{self, MasterKey, SealError, Sealer};

/// Format of the tables that this code makes, and the highest that it reads.
pub const FORMAT: u32 = 1;

/// Commands that wait at most; whoever comes later waits outside the queue.
const QUEUE: usize = 4_096;

/// "Fencepost": who makes the tables holds it.
pub(super) const LOCK: &str = "SELECT pg_advisory_xact_lock(5064650310776221556)";

const TABLES: &str = include_str!("format1.sql");

/// What they stand on.
const GROUND: &str = include_str!("format1_ground.sql");

/// Which register, and how it is used.
pub struct Options {
    /// Where the database is.
    pub url: String,
    /// The first seals, all open. Never empty.
    pub keys: Vec<MasterKey>,
    /// May the tables be made, or brought up to date?
    pub migrate: bool,
    /// What this sidecar is called, for operators.
    pub name: String,
    /// Whose operations it carries.
    pub tenant: String,
}

/// Who opens it.
pub struct Owner {
    /// Which instance.
    pub instance: InstanceId,
    /// Its clock.
    pub clock: Clock,
    /// Told of every commit: how many microseconds it took, and how many commands it held.
    pub committed: Committed,
}

/// An opened register.
pub struct Opened {
    /// The door to it.
    pub backend: Arc<PostgresBackend>,
    /// Makes fingerprints, the same for all sidecars of the register.
    pub fingerprint_key: [u8; seal::KEY_LEN],
}

/// Why a shared register cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address of the database cannot be understood.
    #[error("the database's URL cannot be read: {0}")]
    Url(String),
    /// There is no database, or it does not let us in.
    #[error("the database cannot be used: {0}")]
    Database(String),
    /// It holds no register, and none is to be made.
    #[error("the database holds no register: `fencepost store migrate` makes one")]
    Absent,
    /// It has another format.
    #[error("the register has format {found}, this version reads up to {known}")]
    FormatTooNew {
        /// Format of the register.
        found: u32,
        /// Highest format known.
        known: u32,
    },
    /// No key at all.
    #[error("a shared register is not opened without an encryption key")]
    NoKey,
    /// The keys do not open it.
    #[error("the register's fingerprint key cannot be opened")]
    Key(#[source] SealError),
    /// A row says nothing that can be understood.
    #[error("the register cannot be read")]
    Unreadable(#[source] StoreError),
}

/// Opens the register and takes part in it.
pub async fn open(options: Options, owner: Owner) -> Result<Opened, OpenError> {
    let config: Config = options
        .url
        .parse()
        .map_err(|error: tokio_postgres::Error| OpenError::Url(error.to_string()))?;
    let connector = Connector::new(config);
    let session = connector.connect().await?;
    let (first, others) = options.keys.split_first().ok_or(OpenError::NoKey)?;
    let mut sealer = Sealer::new(first, others).map_err(OpenError::Key)?;
    let now = owner.clock.now();
    let about = establish(&session, &sealer, options.migrate, &now).await?;
    sealer
        .adopt_fingerprint_key(about.id, &about.fingerprint_key)
        .map_err(OpenError::Key)?;
    take_part(&session, &owner, &options, &now).await?;
    let fingerprint_key = sealer.fingerprint_key();
    let shared = Arc::new(Shared::new(
        owner.instance,
        owner.clock,
        sealer,
        about.epoch,
        about.age,
        owner.committed,
    ));
    let (errands, queue) = mpsc::channel(QUEUE);
    let lane = Lane::new(Arc::clone(&shared), connector.clone(), queue, session);
    let mut work = JoinSet::new();
    work.spawn(lane.run());
    let backend = PostgresBackend {
        errands,
        reader: Reader::new(Arc::clone(&shared), connector),
        shared,
        work: Mutex::new(work),
    };
    Ok(Opened {
        backend: Arc::new(backend),
        fingerprint_key,
    })
}

/// The register's word on itself.
struct About {
    id: u128,
    epoch: u64,
    /// Sealed.
    fingerprint_key: Vec<u8>,
    age: Age,
}

/// Makes or recognises the register, alone.
async fn establish(
    session: &Session,
    sealer: &Sealer,
    migrate: bool,
    now: &Moment,
) -> Result<About, OpenError> {
    session.script("BEGIN").await?;
    session.rows(LOCK, &[]).await?;
    if !holds_tables(session).await? {
        if !migrate {
            return Err(OpenError::Absent);
        }
        make_tables(session).await?;
    }
    let about = match recorded(session).await? {
        Some(about) => about,
        None => make(session, sealer, now).await?,
    };
    session.script("COMMIT").await?;
    Ok(about)
}

pub(super) async fn holds_tables(session: &Session) -> Result<bool, Trouble> {
    const FOUND: &str = "SELECT to_regclass('fencepost.register') IS NOT NULL";
    let found = session.rows(FOUND, &[]).await?;
    match found.first() {
        Some(row) => Ok(row.try_get(0).map_err(Unreadable::from)?),
        None => Ok(false),
    }
}

/// Inside a transaction.
pub(super) async fn make_tables(session: &Session) -> Result<(), Trouble> {
    session.script(TABLES).await?;
    session.script(GROUND).await
}

async fn recorded(session: &Session) -> Result<Option<About>, OpenError> {
    const ROW: &str = "SELECT format, id, epoch, fingerprint_key, lived_ms, read_boot,
        read_boottime_ms, read_wall_ms FROM fencepost.register";
    let rows = session.rows(ROW, &[]).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let about = || -> Result<(i32, About), Unreadable> {
        let number = |column| row.try_get::<_, i64>(column).map(i64::cast_unsigned);
        let wide = |column| -> Result<u128, Unreadable> {
            let bytes: &[u8] = row.try_get(column)?;
            let bytes = bytes.try_into().map_err(|_| {
                Unreadable(StoreError::Corrupt(
                    "register: a number of wrong length".to_owned(),
                ))
            })?;
            Ok(u128::from_be_bytes(bytes))
        };
        let about = About {
            id: wide(1)?,
            epoch: number(2)?,
            fingerprint_key: row.try_get(3)?,
            age: Age {
                lived: Lived(number(4)?),
                read: Moment {
                    boot: BootId(wide(5)?),
                    boottime: BootInstant(number(6)?),
                    wall_ms: number(7)?,
                },
            },
        };
        Ok((row.try_get(0)?, about))
    };
    let (format, about) = about()?;
    let found = u32::try_from(format).unwrap_or_default();
    if found > FORMAT {
        return Err(OpenError::FormatTooNew {
            found,
            known: FORMAT,
        });
    }
    Ok(Some(about))
}

async fn make(session: &Session, sealer: &Sealer, now: &Moment) -> Result<About, OpenError> {
    const INSERT: &str = "INSERT INTO fencepost.register
        (single, id, format, epoch, created_wall_ms, fingerprint_key, lived_ms, read_boot,
         read_boottime_ms, read_wall_ms)
        VALUES (1, $1, $2, 0, $3, $4, $5, $6, $7, $3) RETURNING true";
    let id = random_id()?;
    let id = u128::from_be_bytes(id);
    let age = Age::of_new(*now);
    let fingerprint_key = sealer.seal_fingerprint_key(id).map_err(OpenError::Key)?;
    let (id_bytes, boot) = (id.to_be_bytes(), now.boot.0.to_be_bytes());
    let format = i32::try_from(FORMAT).unwrap_or(i32::MAX);
    let (wall, boottime) = (now.wall_ms.cast_signed(), now.boottime.0.cast_signed());
    session
        .rows(
            INSERT,
            &[
                (&id_bytes.as_slice(), Type::BYTEA),
                (&format, Type::INT4),
                (&wall, Type::INT8),
                (&fingerprint_key, Type::BYTEA),
                (&age.lived.column(), Type::INT8),
                (&boot.as_slice(), Type::BYTEA),
                (&boottime, Type::INT8),
            ],
        )
        .await?;
    Ok(About {
        id,
        epoch: 0,
        fingerprint_key,
        age,
    })
}

fn random_id() -> Result<[u8; 16], OpenError> {
    use ring::rand::{SecureRandom, SystemRandom};
    let mut bytes = [0; 16];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| OpenError::Key(SealError::NoRandomness))?;
    Ok(bytes)
}

async fn take_part(
    session: &Session,
    owner: &Owner,
    options: &Options,
    now: &Moment,
) -> Result<(), OpenError> {
    const INSERT: &str = "INSERT INTO fencepost.instances (id, tenant, name, started_wall_ms)
        VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING";
    let id = owner.instance.0.to_be_bytes();
    session
        .rows(
            INSERT,
            &[
                (&id.as_slice(), Type::BYTEA),
                (&options.tenant, Type::TEXT),
                (&options.name, Type::TEXT),
                (&now.wall_ms.cast_signed(), Type::INT8),
            ],
        )
        .await?;
    Ok(())
}

impl From<Trouble> for OpenError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Changed(why) | Trouble::Refused(why) | Trouble::Lost(why) => {
                Self::Database(why)
            }
            Trouble::Unreadable(error) => Self::Unreadable(error),
        }
    }
}

impl From<Unreadable> for OpenError {
    fn from(Unreadable(error): Unreadable) -> Self {
        Self::Unreadable(error)
    }
}

impl PostgresBackend {
    /// Waits for the lane to end.
    pub(super) async fn end(&self) {
        let mut work =
            std::mem::take(&mut *self.work.lock().unwrap_or_else(PoisonError::into_inner));
        while work.join_next().await.is_some() {}
    }
}
