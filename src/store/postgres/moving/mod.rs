//! Moving a shared register: from a file, and to one.
//!
//! What always holds: an import is one transaction, under the lock that everybody takes who opens a
//! register: until it has committed there is none. An export stops admission for good before it takes
//! the one snapshot that it writes; what instances learn later of what they had sent is still recorded
//! here and not in the file, where those operations are in doubt and are settled.
//!
//! What it does not do: open what is sealed, or take an export back: that is accepting the register as
//! one that was restored (`restored`).

mod export;
pub(super) mod import;

pub use export::export;
pub use import::import;

use std::sync::Arc;

use rustls::ClientConfig;
use tokio_postgres::Config;

use super::opening::OpenError;
use super::rows::Unreadable;
use super::session::{Connector, Session};
use super::trouble::Trouble;
use crate::store::moving::MoveError;

/// A connection of an operator's tool. `tls`: as in `Options`.
pub(super) async fn reached(
    url: &str,
    tls: Option<&Arc<ClientConfig>>,
) -> Result<Session, OpenError> {
    let config: Config = url
        .parse()
        .map_err(|error: tokio_postgres::Error| OpenError::Url(error.to_string()))?;
    Ok(Connector::new(config, tls).connect().await?)
}

impl From<Trouble> for MoveError {
    fn from(trouble: Trouble) -> Self {
        Self::Register(trouble.into_store_error())
    }
}

impl From<Unreadable> for MoveError {
    fn from(Unreadable(error): Unreadable) -> Self {
        Self::Register(error)
    }
}
