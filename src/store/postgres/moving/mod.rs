//! Moving a shared register: from a file, and to one.
//!
//! What always holds: an import is one transaction, under the lock that everybody takes who opens a
//! register: until it has committed there is none. An export stops admission for good before it takes
//! the one snapshot that it writes; what instances learn later of what they had sent is still recorded
//! here and not in the file, where those operations are in doubt and are settled.
//!
//! What was exported is nobody's until a person takes it back, and then it is accepted or not, as one that was
//! restored.
//!
//! What it does not do: open what is sealed, or accept (`restored`).

mod export;
pub(super) mod import;

pub use export::export;
pub use import::import;

use std::sync::Arc;

use rustls::ClientConfig;
use tokio_postgres::Config;
use tokio_postgres::types::{ToSql, Type};

use super::opening::OpenError;
use super::rows::Unreadable;
use super::session::{Connector, Session};
use super::trouble::Trouble;
use crate::clock::Clock;
use crate::store::moving::MoveError;

/// A register that was exported is one again that can be accepted: whoever says so knows that what was
/// exported is used nowhere. `operator`: who that is.
pub async fn take_back(
    url: &str,
    tls: Option<&Arc<ClientConfig>>,
    operator: &str,
    clock: &Clock,
) -> Result<(), OpenError> {
    const BACK: &str = "SELECT fencepost.take_back_1($1, $2)";
    let session = reached(url, tls).await?;
    let wall = clock.now().wall_ms.cast_signed();
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&operator, Type::TEXT), (&wall, Type::INT8)];
    let rows = session.rows(BACK, &parameters).await?;
    let row = rows.first().ok_or(OpenError::Absent)?;
    let was_moved: bool = row.try_get(0).map_err(Unreadable::from)?;
    was_moved.then_some(()).ok_or(OpenError::NotMoved)
}

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
