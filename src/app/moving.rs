//! Registers in an operator's hands: moved by way of a file, or accepted as they are.
//!
//! What always holds: what blocks does so on a thread of its own.
//!
//! What it does not do: judge; that is the store's.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::AppError;
use super::direct::{FOR_EVER, Place};
use super::register::{keys_of, longest_request, remember, tls};
use crate::clock::Clock;
use crate::config::{Config, DatabaseUrl, RegisterPlace};
use crate::protocol::time::Millis;
use crate::store::moving::{MoveError, Moved};
use crate::store::postgres::{self, Accepted};
use crate::store::sqlite::{self, Restored};

/// Writes everything in the register to a file, and lets it admit nothing any more. `config`: for the keys
/// and the witness of an embedded one and how long it remembers, and the TLS of a shared one.
pub async fn export(place: Place, config: Option<&Config>, to: &Path) -> Result<Moved, AppError> {
    let clock = Clock::system().map_err(AppError::Clock)?;
    let moved = match place {
        Place::Database(url) => {
            let tls = trust(&url, config)?;
            postgres::export(url.expose(), tls.as_ref(), to, &clock).await
        }
        Place::Directory(path) => {
            let options = embedded(path, config);
            let told = config.map(|config| remember(&config.register));
            let to = to.to_owned();
            blocking(move || sqlite::export(options, told, &clock, &to)).await
        }
    };
    Ok(moved?)
}

/// Makes the register of a file in a database that holds none. `config`: for its TLS.
pub async fn import(
    url: &DatabaseUrl,
    config: Option<&Config>,
    from: &Path,
) -> Result<Moved, AppError> {
    let tls = trust(url, config)?;
    Ok(postgres::import(url.expose(), tls.as_ref(), from).await?)
}

/// A register that was exported is used again: an embedded one at once, a shared one once it is accepted.
/// `config`: for the TLS of a shared one.
pub async fn take_back(
    place: Place,
    config: Option<&Config>,
    operator: &str,
) -> Result<(), AppError> {
    let clock = Clock::system().map_err(AppError::Clock)?;
    let taken = match place {
        Place::Database(url) => {
            let tls = trust(&url, config)?;
            let taken = postgres::take_back(url.expose(), tls.as_ref(), operator, &clock).await;
            taken.map_err(MoveError::Shared)
        }
        Place::Directory(path) => blocking(move || Ok(sqlite::take_back(&path, &clock)?)).await,
    };
    Ok(taken?)
}

/// A shared register that may have lost commits is used as it is. `None`: nothing speaks against it.
pub async fn accept_restored(
    url: &DatabaseUrl,
    config: Option<&Config>,
    quiet: Millis,
    operator: &str,
) -> Result<Option<Accepted>, AppError> {
    let clock = Clock::system().map_err(AppError::Clock)?;
    let tls = trust(url, config)?;
    let accepted =
        postgres::accept_restored(url.expose(), tls.as_ref(), quiet, operator, &clock).await;
    Ok(accepted.map_err(MoveError::Shared)?)
}

/// The longest that a request of this config can be under way.
pub fn quiet_of(config: &Config) -> Millis {
    longest_request(config)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, MoveError> + Send + 'static,
) -> Result<T, MoveError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|gone| MoveError::Reader(std::io::Error::other(gone)))?
}

fn trust(
    url: &DatabaseUrl,
    config: Option<&Config>,
) -> Result<Option<Arc<rustls::ClientConfig>>, AppError> {
    let files = config.and_then(|config| match &config.register.place {
        RegisterPlace::Shared(shared) => Some(shared.tls.clone()),
        RegisterPlace::Embedded(_) => None,
    });
    tls(url, &files.unwrap_or_default())
}

fn embedded(path: PathBuf, config: Option<&Config>) -> sqlite::Options {
    let register = config.map(|config| &config.register);
    sqlite::Options {
        path,
        create: false,
        // Whoever made it has decided that.
        ephemeral: true,
        keys: register.map(keys_of).unwrap_or_default(),
        remember: FOR_EVER,
        witness: register.and_then(|register| match &register.place {
            RegisterPlace::Embedded(embedded) => embedded.witness.clone(),
            RegisterPlace::Shared(_) => None,
        }),
        restored: Restored::Refuse,
        reserve: 0,
    }
}
