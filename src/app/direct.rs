//! A register without an instance: what operators may do straight in it.
//!
//! What always holds: an embedded one is owned while this lives, so that no instance can start on it
//! meanwhile; a shared one is worked on beside whatever sidecars are at work, by the same guarded writes
//! as theirs. What operators are told is made by the same code as an instance's answers. Whoever only
//! looks changes nothing, also of a register that may have been restored.
//!
//! What it does not do: admit, send, settle by itself, or forget.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::register::{keys_of, state_of, tls};
use super::{AppError, random_instance};
use crate::admin::access::Operators;
use crate::admin::api::{self, Api, Needs};
use crate::admin::health::Readiness;
use crate::admin::in_force::InForce;
use crate::clock::Clock;
use crate::config::{Config, DatabaseUrl, EncryptionKey, RegisterPlace, Secret};
use crate::lease::own::Own;
use crate::observe;
use crate::observe::counts::Counts;
use crate::protocol::ids::{InstanceId, Tenant};
use crate::protocol::time::Millis;
use crate::store::postgres::{self, Part};
use crate::store::seal::MasterKey;
use crate::store::sqlite::{self, BackupError, Copied, OpenError, Restored};
use crate::store::{Backend, Register, Remember};

/// Nothing is forgotten by whoever looks in.
pub(super) const FOR_EVER: Remember = Remember {
    answers: Millis(u64::MAX),
    identities: Millis(u64::MAX),
};

/// Which register.
#[derive(Debug)]
pub struct Which<'a> {
    /// Where it is.
    pub place: Place,
    /// Whose operations are shown.
    pub tenant: Tenant,
    /// For its keys, its witness and its TLS.
    pub config: Option<&'a Config>,
}

/// Where a register is, as an operator names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An embedded one.
    Directory(PathBuf),
    /// A shared one.
    Database(DatabaseUrl),
}

impl Place {
    /// That of a config.
    pub fn of(config: &Config) -> Self {
        match &config.register.place {
            RegisterPlace::Embedded(embedded) => Self::Directory(embedded.path.clone()),
            RegisterPlace::Shared(shared) => Self::Database(shared.url.clone()),
        }
    }
}

impl FromStr for Place {
    type Err = String;

    /// A path, `postgres://…`, or where such a URL is to be had.
    fn from_str(text: &str) -> Result<Self, String> {
        if DatabaseUrl::is_one(text) || text.starts_with("${") {
            DatabaseUrl::resolve(text).map(Self::Database)
        } else {
            Ok(Self::Directory(text.into()))
        }
    }
}

/// What it is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To read.
    Look,
    /// To settle.
    Change,
}

/// A register in our hands.
pub struct Direct {
    register: Register,
    /// The operator API over it; it knows one operator.
    pub router: axum::Router,
    /// His token.
    pub token: Secret,
}

impl Direct {
    /// Opens it. `operator`: the name that decisions are recorded under.
    pub async fn open(
        which: Which<'_>,
        purpose: Purpose,
        operator: String,
    ) -> Result<Self, AppError> {
        let clock = Clock::system().map_err(AppError::Clock)?;
        let instance = random_instance()?;
        let (backend, state) = match &which.place {
            Place::Directory(path) => {
                let backend = embedded(&which, path, purpose, instance, &clock).await?;
                (backend, Some(path.as_path()))
            }
            Place::Database(url) => {
                let opened = shared(&which, url, false, instance, &clock).await?;
                let state = which.config.and_then(|it| state_of(&it.register.place));
                (opened.backend as Arc<dyn Backend>, state)
            }
        };
        let register = Register::new(backend);
        // Who asks for something else is not troubled by it.
        let report = state.and_then(|directory| observe::file::read(directory).ok());
        let leases = Own::new(register.clone(), clock.clone());
        let token = Secret::new(random_instance()?.to_string());
        let api = Api::from(Needs {
            register: register.clone(),
            clock,
            tenant: which.tenant,
            operators: Operators::new([(operator, token.clone())]),
            readiness: Readiness::new(register.clone(), CancellationToken::new()),
            in_force: InForce::new(None, None),
            report: report.map(Counts::from),
            settled: Arc::new(|_| {}),
            reloading: None,
            reconciler: None,
            metrics: None,
            leases,
            tasks: TaskTracker::new(),
        });
        Ok(Self {
            register,
            router: api::router(api),
            token,
        })
    }

    /// Gives it back.
    pub async fn close(self) -> Result<(), AppError> {
        self.register.read().close().await.map_err(AppError::Close)
    }
}

/// A shared register whose tables are as this version needs them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// Where: host, port and name.
    pub place: String,
    /// Were they made just now?
    pub is_new: bool,
    /// Their format.
    pub format: u32,
}

/// Makes the tables of a shared register, or brings them up to date.
pub async fn migrate(config: &Config, url: &DatabaseUrl) -> Result<Migrated, AppError> {
    let which = Which {
        place: Place::Database(url.clone()),
        tenant: config.tenant.clone(),
        config: Some(config),
    };
    let clock = Clock::system().map_err(AppError::Clock)?;
    let instance = random_instance()?;
    let opened = shared(&which, url, true, instance, &clock).await?;
    let is_new = opened.is_new;
    let register = Register::new(opened.backend);
    register.read().close().await.map_err(AppError::Close)?;
    Ok(Migrated {
        place: url.place().to_owned(),
        is_new,
        format: postgres::FORMAT,
    })
}

/// Copies an embedded register, whether or not an instance is at work on it. Blocks.
pub fn backup(register: &Place, to: &Path) -> Result<Copied, AppError> {
    let Place::Directory(register) = register else {
        return Err(AppError::NotOurBackup);
    };
    let clock = Clock::system().map_err(AppError::Clock)?;
    let failed = |error: BackupError| AppError::Backup(register.to_owned(), error);
    sqlite::backup(register, to, &clock).map_err(failed)
}

/// Gives a stopped register its checksums anew; answers where it is. Blocks. Only an embedded one has any of
/// ours.
pub fn mend(register: &Place) -> Result<&Path, AppError> {
    let Place::Directory(register) = register else {
        return Err(AppError::NotOurPages);
    };
    let clock = Clock::system().map_err(AppError::Clock)?;
    sqlite::mend(register, &clock).map_err(|error| match error {
        OpenError::InUse { path } => AppError::Owned(path),
        other => AppError::Register(register.to_owned(), other),
    })?;
    Ok(register)
}

async fn embedded(
    which: &Which<'_>,
    path: &Path,
    purpose: Purpose,
    instance: InstanceId,
    clock: &Clock,
) -> Result<Arc<dyn Backend>, AppError> {
    let (restored, reserve) = match purpose {
        Purpose::Look => (Restored::Overlook, 0),
        Purpose::Change => (Restored::Refuse, sqlite::USUAL_RESERVE),
    };
    let register = which.config.map(|config| &config.register);
    let witness = register.and_then(|register| match &register.place {
        RegisterPlace::Embedded(embedded) => embedded.witness.clone(),
        RegisterPlace::Shared(_) => None,
    });
    let options = sqlite::Options {
        path: path.to_owned(),
        create: false,
        // Whoever made it has decided that.
        ephemeral: true,
        keys: register.map(keys_of).unwrap_or_default(),
        remember: FOR_EVER,
        witness,
        restored,
        reserve,
    };
    let owner = sqlite::Owner {
        instance,
        clock: clock.clone(),
        committed: Arc::new(|_, _| {}),
    };
    let opened = sqlite::open(options, owner).await;
    let opened = opened.map_err(|error| match error {
        OpenError::InUse { path } => AppError::Owned(path),
        other => AppError::Register(path.to_owned(), other),
    })?;
    Ok(opened.backend)
}

async fn shared(
    which: &Which<'_>,
    url: &DatabaseUrl,
    migrate: bool,
    instance: InstanceId,
    clock: &Clock,
) -> Result<postgres::Opened, AppError> {
    let register = which.config.map(|config| &config.register);
    let files = register.and_then(|register| match &register.place {
        RegisterPlace::Shared(shared) => Some(shared.tls.clone()),
        RegisterPlace::Embedded(_) => None,
    });
    let mut keys = register.map(keys_of).unwrap_or_default();
    if keys.is_empty() {
        keys.push(MasterKey::new(EncryptionKey::known_to_all().expose()));
    }
    let options = postgres::Options {
        url: url.expose().to_owned(),
        tls: tls(url, &files.unwrap_or_default())?,
        keys,
        migrate,
        name: "operator".to_owned(),
        tenant: which.tenant.as_str().to_owned(),
        part: Part::Operator,
        // It reads and settles; whoever admits answers for what the server keeps.
        ephemeral: true,
        dead_after: postgres::USUAL_LIMIT,
        remember: FOR_EVER,
    };
    let owner = postgres::Owner {
        instance,
        clock: clock.clone(),
        committed: Box::new(|_, _| {}),
    };
    let opened = postgres::open(options, owner).await;
    opened.map_err(|error| AppError::shared(url, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_is_named_by_its_directory_or_by_its_database() {
        let place = |text: &str| text.parse::<Place>();
        assert_eq!(place("reg"), Ok(Place::Directory("reg".into())));
        assert!(matches!(
            place("postgres://u@h/x"),
            Ok(Place::Database(url)) if url.place() == "h:5432/x"
        ));
        assert!(place("${env:NO_SUCH_VARIABLE_HERE}").is_err());
        assert!(place("postgres:///x").is_err());
    }
}
