//! A register that no instance owns: what operators may do with it all the same.
//!
//! What always holds: it is owned while this lives, so that no instance can start on it meanwhile; what
//! operators are told is made by the same code as an instance's answers. Whoever only looks changes
//! nothing, also of a register that may have been restored.
//!
//! What it does not do: admit, send, settle by itself, or forget.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{AppError, keys_of, random_instance};
use crate::admin::access::Operators;
use crate::admin::api::{self, Api};
use crate::admin::health::Readiness;
use crate::admin::in_force::InForce;
use crate::clock::Clock;
use crate::config::{Config, Secret};
use crate::observe;
use crate::observe::counts::Counts;
use crate::protocol::ids::Tenant;
use crate::protocol::time::Millis;
use crate::store::Register;
use crate::store::sqlite::{self, BackupError, Copied, OpenError, Remember, Restored};

/// Nothing is forgotten by whoever looks in.
const FOR_EVER: Remember = Remember {
    answers: Millis(u64::MAX),
    identities: Millis(u64::MAX),
};

/// Which register.
#[derive(Debug)]
pub struct Which<'a> {
    /// Its directory.
    pub path: PathBuf,
    /// Whose operations are shown.
    pub tenant: Tenant,
    /// For its keys and its witness.
    pub config: Option<&'a Config>,
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
pub struct Stopped {
    register: Register,
    /// The operator API over it; it knows one operator.
    pub router: axum::Router,
    /// His token.
    pub token: Secret,
}

impl Stopped {
    /// Takes possession. `operator`: the name that decisions are recorded under.
    pub async fn open(
        which: Which<'_>,
        purpose: Purpose,
        operator: String,
    ) -> Result<Self, AppError> {
        let clock = Clock::system().map_err(AppError::Clock)?;
        let instance = random_instance()?;
        let options = options(&which, purpose);
        let directory = which.path.clone();
        let owner = sqlite::Owner {
            instance,
            clock: clock.clone(),
            committed: Arc::new(|_, _| {}),
        };
        let opened = sqlite::open(options, owner)
            .await
            .map_err(|error| match error {
                OpenError::InUse { path } => AppError::Owned(path),
                other => AppError::Register(which.path, other),
            })?;
        let register = Register::new(opened.backend);
        // Who asks for something else is not troubled by it.
        let report = observe::file::read(&directory).ok().map(Counts::from);
        let token = Secret::new(random_instance()?.to_string());
        let api = Api {
            register: register.clone(),
            clock,
            tenant: which.tenant,
            operators: Operators::new([(operator, token.clone())]),
            readiness: Readiness::new(register.clone(), CancellationToken::new()),
            in_force: InForce::new(None, None),
            report,
            settled: Arc::new(|_| {}),
            tasks: TaskTracker::new(),
        };
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

/// Copies a register, whether or not an instance is at work on it. Blocks.
pub fn backup(register: &Path, to: &Path) -> Result<Copied, AppError> {
    let clock = Clock::system().map_err(AppError::Clock)?;
    let failed = |error: BackupError| AppError::Backup(register.to_owned(), error);
    sqlite::backup(register, to, &clock).map_err(failed)
}

fn options(which: &Which<'_>, purpose: Purpose) -> sqlite::Options {
    let (restored, reserve) = match purpose {
        Purpose::Look => (Restored::Overlook, 0),
        Purpose::Change => (Restored::Refuse, sqlite::USUAL_RESERVE),
    };
    let register = which.config.map(|config| &config.register);
    sqlite::Options {
        path: which.path.clone(),
        create: false,
        // Whoever made it has decided that.
        ephemeral: true,
        keys: register.map(keys_of).unwrap_or_default(),
        remember: FOR_EVER,
        witness: register.and_then(|register| register.witness.clone()),
        restored,
        reserve,
    }
}
