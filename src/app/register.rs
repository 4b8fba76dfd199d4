//! The register that a config names, opened.
//!
//! What always holds: whoever comes after does not see which of the two it is. TLS towards a database is
//! made of the same trust as that towards upstreams.
//!
//! What it does not do: keep it going (`Keeper` does, for as long as it is polled).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{AppError, Starting};
use crate::config::{
    self, Config, DatabaseTls, DatabaseUrl, Embedded, RegisterPlace, SharedRegister, TlsFiles,
};
use crate::protocol::time::Millis;
use crate::store::postgres::{self, Part, PostgresBackend};
use crate::store::seal::{KEY_LEN, MasterKey};
use crate::store::sqlite::{self, Restored, SqliteBackend};
use crate::store::{Backend, Purged, Remember};
use crate::telemetry::metrics::Metrics;
use crate::upstream::{EndpointError, TlsMaterial};

/// An open register.
pub(super) struct Opened {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) keeper: Keeper,
    pub(super) fingerprint_key: [u8; KEY_LEN],
}

/// What looks after it.
pub(super) enum Keeper {
    Embedded(Arc<SqliteBackend>),
    Shared(Arc<PostgresBackend>),
}

impl Keeper {
    /// Until the register is closed, or can no longer be looked after.
    pub(super) async fn keep(self, metrics: Metrics) {
        let forgot = |purged: Purged| metrics.store_forgot(purged.answers, purged.identities);
        match self {
            Self::Embedded(register) => register.keep(forgot).await,
            Self::Shared(register) => register.keep(forgot).await,
        }
    }
}

/// Opens it for a sidecar. `accept_restored`: an operator says that one which may have been restored is
/// to be used.
pub(super) async fn open(
    config: &Config,
    accept_restored: bool,
    starting: Starting,
) -> Result<Opened, AppError> {
    match &config.register.place {
        RegisterPlace::Embedded(embedded) => {
            open_embedded(config, embedded, accept_restored, starting).await
        }
        RegisterPlace::Shared(_) if accept_restored => Err(AppError::NothingToAccept),
        RegisterPlace::Shared(shared) => open_shared(config, shared, starting).await,
    }
}

async fn open_embedded(
    config: &Config,
    embedded: &Embedded,
    accept_restored: bool,
    starting: Starting,
) -> Result<Opened, AppError> {
    let options = sqlite::Options {
        path: embedded.path.clone(),
        create: true,
        ephemeral: embedded.ephemeral,
        keys: keys_of(&config.register),
        remember: remember(&config.register),
        witness: embedded.witness.clone(),
        restored: restored(config, accept_restored),
        reserve: sqlite::USUAL_RESERVE,
    };
    let Starting {
        instance,
        clock,
        metrics,
    } = starting;
    let owner = sqlite::Owner {
        instance,
        clock,
        committed: Arc::new(move |took_us, commands| metrics.store_commit(took_us, commands)),
    };
    let opened = sqlite::open(options, owner).await;
    let opened = opened.map_err(|error| AppError::Register(embedded.path.clone(), error))?;
    Ok(Opened {
        backend: Arc::clone(&opened.backend) as Arc<dyn Backend>,
        keeper: Keeper::Embedded(opened.backend),
        fingerprint_key: opened.sealer.fingerprint_key(),
    })
}

async fn open_shared(
    config: &Config,
    shared: &SharedRegister,
    starting: Starting,
) -> Result<Opened, AppError> {
    let options = postgres::Options {
        url: shared.url.expose().to_owned(),
        tls: tls(&shared.url, &shared.tls)?,
        keys: keys_of(&config.register),
        migrate: shared.migrate,
        name: shared.name.clone().unwrap_or_else(host_name),
        tenant: config.tenant.as_str().to_owned(),
        part: Part::Sidecar,
        ephemeral: shared.ephemeral,
        dead_after: millis(shared.dead_after),
        remember: remember(&config.register),
    };
    let Starting {
        instance,
        clock,
        metrics,
    } = starting;
    let owner = postgres::Owner {
        instance,
        clock,
        committed: Box::new(move |took_us, commands| metrics.store_commit(took_us, commands)),
    };
    let opened = postgres::open(options, owner).await;
    let opened = opened.map_err(|error| AppError::shared(&shared.url, error))?;
    tracing::info!(
        register = shared.url.place(),
        is_new = opened.is_new,
        "sharing a register"
    );
    Ok(Opened {
        backend: Arc::clone(&opened.backend) as Arc<dyn Backend>,
        keeper: Keeper::Shared(opened.backend),
        fingerprint_key: opened.fingerprint_key,
    })
}

/// Whom to trust on the way to a database; `None`: it is never encrypted.
pub(super) fn tls(
    url: &DatabaseUrl,
    files: &TlsFiles,
) -> Result<Option<Arc<rustls::ClientConfig>>, AppError> {
    match url.tls() {
        DatabaseTls::Never => Ok(None),
        DatabaseTls::IfOffered | DatabaseTls::Always => {
            let material = TlsMaterial {
                ca: files.ca.clone().or_else(|| url.ca().cloned()),
                client_cert: files.client_cert.clone(),
                client_key: files.client_key.clone(),
            };
            match material.load() {
                Ok(loaded) => Ok(Some(Arc::new(loaded))),
                // One that is only preferred can be done without.
                Err(EndpointError::NoRoots) if url.tls() == DatabaseTls::IfOffered => {
                    tracing::warn!(
                        register = url.place(),
                        "no root certificates were found on this platform: the connection is not \
                         encrypted. Name a `ca` to have it so"
                    );
                    Ok(None)
                }
                Err(error) => Err(AppError::Trust(url.place().to_owned(), error)),
            }
        }
    }
}

pub(super) fn remember(register: &config::Register) -> Remember {
    Remember {
        answers: millis(register.remember.answers),
        identities: millis(register.remember.identities),
    }
}

pub(super) fn keys_of(register: &config::Register) -> Vec<MasterKey> {
    let keys = register.keys.iter();
    keys.map(|key| MasterKey::new(key.expose())).collect()
}

/// Where what is this sidecar's own lies beside the register; `None`: nowhere.
pub(super) fn state_of(place: &RegisterPlace) -> Option<&Path> {
    match place {
        RegisterPlace::Embedded(embedded) => Some(&embedded.path),
        RegisterPlace::Shared(shared) => shared.state.as_deref(),
    }
}

/// The same, made if need be. It is no reason not to start.
pub(super) fn made_state_of(place: &RegisterPlace) -> Option<PathBuf> {
    let state = state_of(place)?;
    if let Err(error) = std::fs::create_dir_all(state) {
        tracing::warn!(path = %state.display(), error = %error, "the state directory cannot be made");
    }
    Some(state.to_owned())
}

fn host_name() -> String {
    let system = rustix::system::uname();
    system.nodename().to_string_lossy().into_owned()
}

fn restored(config: &Config, accept: bool) -> Restored {
    if !accept {
        return Restored::Refuse;
    }
    Restored::Accept {
        quiet: longest_request(config),
    }
}

/// The longest that a request can be under way.
pub(super) fn longest_request(config: &Config) -> Millis {
    let longest = config.upstreams.iter().map(|upstream| {
        let timeouts = &upstream.timeouts;
        timeouts.dispatch.plus(timeouts.response)
    });
    longest.max().unwrap_or_default()
}

fn millis(length: Duration) -> Millis {
    Millis(u64::try_from(length.as_millis()).unwrap_or(u64::MAX))
}
