//! Opening a shared register: connect, make or recognise the tables, take part.
//!
//! What always holds: the tables are made and brought up to date under one advisory lock, by whoever
//! comes first; a register of a newer format is refused, unless that format says that ours may use it. Nobody
//! takes part without the key that the register's fingerprint key is sealed with, or before it has seen who
//! else does. Whoever admits does so on a server that keeps what it has committed, or has said that it need not.
//!
//! What it does not do: keep the instance alive (`life`).

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ClientConfig;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_postgres::Config;
use tokio_postgres::types::Type;

use super::PostgresBackend;
use super::lane::Lane;
use super::life::{self, Life, Name};
use super::read::Reader;
use super::restored;
use super::rows::Unreadable;
use super::session::{Connector, Session};
use super::shared::{Committed, Shared};
use super::tables::{holds_tables, make_tables};
use super::trouble::Trouble;
use super::whereabouts;
use crate::clock::Clock;
use crate::protocol::ids::InstanceId;
use crate::protocol::time::{BootId, BootInstant, Millis, Moment};
use crate::store::StoreError;
use crate::store::age::{Age, Lived};
use crate::store::remember::Remember;
use crate::store::seal::{self, MasterKey, SealError, Sealer};

/// Format of the tables that this code makes, and the highest that it reads.
pub const FORMAT: u32 = 1;

/// Commands that wait at most; whoever comes later waits outside the queue.
const QUEUE: usize = 4_096;

/// "Fencepost": who makes the tables holds it.
pub(super) const LOCK: &str = "SELECT pg_advisory_xact_lock(5064650310776221556)";

/// Which register, and how it is used.
pub struct Options {
    /// Where the database is.
    pub url: String,
    /// Whom to trust; `None`: the connection is never encrypted, whatever the URL says of that.
    pub tls: Option<Arc<ClientConfig>>,
    /// The first seals, all open. Never empty.
    pub keys: Vec<MasterKey>,
    /// May the tables be made, or brought up to date?
    pub migrate: bool,
    /// What this sidecar is called, for operators.
    pub name: String,
    /// Whose operations it carries, and lists.
    pub tenant: String,
    /// As what it is opened.
    pub part: Part,
    /// Need it not outlive a stop of the server's machine? Then a server that does not write durably is accepted.
    pub ephemeral: bool,
    /// An instance that does nothing for so long is taken for dead ([`USUAL_LIMIT`]).
    ///
    /// [`USUAL_LIMIT`]: super::USUAL_LIMIT
    pub dead_after: Millis,
    /// How long settled operations are remembered.
    pub remember: Remember,
}

/// As what a register is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A sidecar: it is an instance from then on, and what it admits is its own.
    Sidecar,
    /// A person's tool, beside whatever sidecars are at work: it admits nothing, declares nobody dead, and
    /// takes every instance for alive that nobody has declared dead.
    Operator,
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
    /// Were its tables made just now?
    pub is_new: bool,
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
    /// What it has committed does not outlive a stop of its machine.
    #[error(
        "the database's server runs with `{setting} = off`: what it has committed is lost, or damaged, when \
         its machine stops. Switch it on, or say `ephemeral: true` beside its URL if the register may be lost"
    )]
    Volatile {
        /// Which setting is off.
        setting: String,
    },
    /// It holds no register, and none is to be made.
    #[error("the database holds no register: `fencepost store migrate` makes one")]
    Absent,
    /// It only speaks PostgreSQL's protocol, or is too old.
    #[error("the register's rules are those of PostgreSQL 13 or later; this server {0}")]
    Engine(String),
    /// It has another format.
    #[error("the register has format {found}, this version reads up to {known}")]
    FormatTooNew {
        /// Format of the register.
        found: u32,
        /// Highest format known.
        known: u32,
    },
    /// It is of a format that was never released.
    #[error(
        "the register was made by a version that was never released, and its tables are others. Nothing in it \
         was changed. That version takes out what it holds (`fencepost store export`); then drop it (DROP SCHEMA \
         fencepost CASCADE), and import it with this one, or begin anew"
    )]
    Unreleased,
    /// No key at all.
    #[error("a shared register is not opened without an encryption key")]
    NoKey,
    /// It was exported, and is not used here any more.
    #[error(
        "the register is not used here any more: {0}. If that file was imported nowhere, and never will be, \
         `fencepost store take-back` takes the register back"
    )]
    Moved(String),
    /// It is to be taken back, and was not exported.
    #[error("the register was not exported: there is nothing to take back")]
    NotMoved,
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
    let connector = Connector::new(config, options.tls.as_ref());
    let session = connector.connect().await?;
    keeps(&session, options.ephemeral).await?;
    let (first, others) = options.keys.split_first().ok_or(OpenError::NoKey)?;
    let mut sealer = Sealer::new(first, others).map_err(OpenError::Key)?;
    let now = owner.clock.now();
    let about = establish(&session, &sealer, options.migrate, &options.tenant, &now).await?;
    sealer
        .adopt_fingerprint_key(about.id, &about.fingerprint_key)
        .map_err(OpenError::Key)?;
    seal_anew(&session, &sealer, &about).await?;
    let fingerprint_key = sealer.fingerprint_key();
    let age = about.age_here(now);
    let shared = Arc::new(Shared::new(
        owner.instance,
        owner.clock,
        sealer,
        about.epoch,
        age,
        owner.committed,
    ));
    let server = whereabouts::of(&session).await?;
    shared.whereabouts.lane_is_on(server);
    let reader = Reader::new(
        Arc::clone(&shared),
        connector.clone(),
        options.tenant.clone(),
    );
    let reader = Arc::new(reader);
    // Whom it shares the register with is known before it decides anything.
    let beside = match options.part {
        Part::Sidecar => {
            let name = Name {
                tenant: options.tenant,
                name: options.name,
            };
            life::tell_memory(&reader, options.remember).await?;
            begin_to_live(&session, &shared, &reader, name, options.dead_after).await?
        }
        Part::Operator => {
            shared.ground.only_look();
            life::look(&shared, &reader).await?;
            JoinSet::new()
        }
    };
    let (errands, queue) = mpsc::channel(QUEUE);
    let lane = Lane::new(Arc::clone(&shared), connector.clone(), queue, session);
    let mut work = JoinSet::new();
    work.spawn(lane.run());
    let backend = PostgresBackend {
        errands,
        reader,
        shared,
        connector,
        remember: options.remember,
        is_outlived: AtomicBool::new(false),
        work: Mutex::new(work),
        beside: Mutex::new(beside),
    };
    Ok(Opened {
        backend: Arc::new(backend),
        fingerprint_key,
        is_new: about.is_new,
    })
}

/// Does the server write what it commits to its disk? Whether it does so *before* it says so is each
/// transaction's to demand (`write_1`). What is switched off later, while sidecars run, goes unnoticed
/// until the next start of one.
async fn keeps(session: &Session, ephemeral: bool) -> Result<(), OpenError> {
    const OFF: &str = "SELECT s.name FROM unnest(ARRAY['fsync', 'full_page_writes']) s(name)
        WHERE current_setting(s.name) = 'off'";
    if ephemeral {
        return Ok(());
    }
    match session.rows(OFF, &[]).await?.first() {
        Some(row) => Err(OpenError::Volatile {
            setting: row.try_get(0).map_err(Unreadable::from)?,
        }),
        None => Ok(()),
    }
}

async fn begin_to_live(
    session: &Session,
    shared: &Arc<Shared>,
    reader: &Arc<Reader>,
    name: Name,
    limit: Millis,
) -> Result<JoinSet<()>, OpenError> {
    let wall = shared.clock.now().wall_ms;
    life::take_part(reader, shared.instance(), &name, limit, wall).await?;
    // Signs of life count where the register is known whole.
    restored::assess(session, shared).await?;
    let mut life = Life::new(Arc::clone(shared), Arc::clone(reader), name, limit);
    life.beat().await?;
    let mut beside = JoinSet::new();
    beside.spawn(life.run());
    beside.spawn(life::deliver(Arc::clone(shared), Arc::clone(reader)));
    Ok(beside)
}

/// The register's word on itself.
struct About {
    id: u128,
    epoch: u64,
    /// Sealed.
    fingerprint_key: Vec<u8>,
    age: Age,
    is_new: bool,
}

impl About {
    /// The age, as it goes on by the own clock. What passed on clocks of other boots is not counted: were it, each
    /// machine whose wall clock is ahead would make the register older at every start.
    fn age_here(&self, now: Moment) -> Age {
        let lived = if self.age.read.boot == now.boot {
            self.age.at(&now)
        } else {
            self.age.lived
        };
        Age { lived, read: now }
    }
}

/// Makes or recognises the register, alone.
async fn establish(
    session: &Session,
    sealer: &Sealer,
    migrate: bool,
    tenant: &str,
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
    let about = match recorded(session, tenant).await? {
        Some(about) => about,
        None => make(session, sealer, now).await?,
    };
    session.script("COMMIT").await?;
    Ok(about)
}

async fn recorded(session: &Session, tenant: &str) -> Result<Option<About>, OpenError> {
    // A tenant that comes new is as old as the register was when that was made or moved here.
    const ROW: &str = "SELECT r.format, r.id, r.epoch, r.fingerprint_key, a.lived_ms, a.read_boot,
        a.read_boottime_ms, a.read_wall_ms, r.used_from
        FROM fencepost.register r CROSS JOIN LATERAL (
            SELECT 1 AS which, t.lived_ms, t.read_boot, t.read_boottime_ms, t.read_wall_ms
            FROM fencepost.ages t WHERE t.tenant = $1
            UNION ALL
            SELECT 2, r.lived_ms, r.read_boot, r.read_boottime_ms, r.read_wall_ms
            ORDER BY which LIMIT 1) a
        WHERE r.single = 1";
    let rows = session.rows(ROW, &[(&tenant, Type::TEXT)]).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let about = || -> Result<(i32, i32, About), Unreadable> {
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
            is_new: false,
        };
        Ok((row.try_get(0)?, row.try_get(8)?, about))
    };
    let (format, used_from, about) = about()?;
    let found = u32::try_from(format).unwrap_or_default();
    if u32::try_from(used_from).is_ok_and(|from| from > FORMAT) {
        return Err(OpenError::FormatTooNew {
            found,
            known: FORMAT,
        });
    }
    Ok(Some(about))
}

/// The first key seals the fingerprint key, once it has changed: so that the one before can be taken away.
/// A role that may not leaves it to one that may.
async fn seal_anew(session: &Session, sealer: &Sealer, about: &About) -> Result<(), OpenError> {
    const MAY: &str = "SELECT true WHERE
        has_column_privilege('fencepost.register', 'fingerprint_key', 'UPDATE')";
    const SEAL: &str = "UPDATE fencepost.register SET fingerprint_key = $1
        WHERE fingerprint_key = $2 RETURNING true";
    let before = seal::key_id_of(&about.fingerprint_key).map_err(OpenError::Key)?;
    if before == sealer.key_id() || session.rows(MAY, &[]).await?.is_empty() {
        return Ok(());
    }
    let sealed = sealer
        .seal_fingerprint_key(about.id)
        .map_err(OpenError::Key)?;
    let changed = session
        .rows(
            SEAL,
            &[
                (&sealed, Type::BYTEA),
                (&about.fingerprint_key, Type::BYTEA),
            ],
        )
        .await?;
    if !changed.is_empty() {
        tracing::info!(
            before = format!("{before:08x}"),
            now = format!("{:08x}", sealer.key_id()),
            "the register's fingerprint key is sealed with another key from now on"
        );
    }
    Ok(())
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
        is_new: true,
    })
}

pub(super) fn random_id() -> Result<[u8; 16], OpenError> {
    use ring::rand::{SecureRandom, SystemRandom};
    let mut bytes = [0; 16];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| OpenError::Key(SealError::NoRandomness))?;
    Ok(bytes)
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
    /// Waits for the lane to end, then for what goes on beside it.
    pub(super) async fn end(&self) {
        let mut work =
            std::mem::take(&mut *self.work.lock().unwrap_or_else(PoisonError::into_inner));
        while work.join_next().await.is_some() {}
        let mut beside =
            std::mem::take(&mut *self.beside.lock().unwrap_or_else(PoisonError::into_inner));
        beside.shutdown().await;
    }
}
