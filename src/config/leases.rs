//! Leases that are held on behalf of a worker that knows nothing of tokens, as the config says it.
//!
//! What always holds: no two are on one resource, and a probe comes often enough that each renewal can rest on one.
//!
//! What it does not do: probe, or hold anything (`lease::held`).

use std::path::PathBuf;

use http::{HeaderName, Uri};

use crate::protocol::ids::{ResourceName, TokenSource};
use crate::protocol::time::Millis;

/// A lease that this sidecar holds on behalf of its worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLease {
    /// As in the file; for logs, and for the name of its state file.
    pub name: String,
    /// On which resource.
    pub resource: ResourceName,
    /// Who issues its tokens.
    pub source: TokenSource,
    /// For how long, from each renewal on.
    pub ttl: Millis,
    /// What others see its holder called; `None`: the host, and something random at each start.
    pub holder: Option<String>,
    /// How it is seen that the worker lives.
    pub alive: Alive,
    /// What becomes of this sidecar once it is lost.
    pub on_loss: OnLoss,
    /// A directory of this sidecar's own, where the last ownership is remembered.
    pub state: PathBuf,
}

/// How it is seen that a worker lives, and which one it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alive {
    /// What is looked at.
    pub sign: Sign,
    /// How often.
    pub every: Millis,
    /// For how long at most.
    pub timeout: Millis,
}

/// A sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// An answer of 200 to 299.
    Http {
        /// Of what: `http`, with a host.
        url: Uri,
        /// What of the answer is another one with every start; `None`: nothing, and the answer proves no new start.
        identity: Option<StartIdentity>,
    },
    /// The process whose number stands in a file: the number and the start are what tells it apart.
    PidFile(PathBuf),
    /// The one process of that name, or the parent of all others of that name.
    Command(String),
    /// A file that is there, whose content is another one with every start.
    File(PathBuf),
}

/// What of an answer is another one with every start of the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartIdentity {
    /// A header.
    Header(HeaderName),
    /// A value of its JSON content, by its pointer.
    Json(String),
}

/// What becomes of this sidecar once a lease is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnLoss {
    /// It stays, and refuses.
    Refuse,
    /// It ends, so that whoever watches it starts it, and the worker, anew.
    Exit,
}

impl Sign {
    /// Does it tell one start of the worker from another?
    pub fn tells_starts_apart(&self) -> bool {
        match self {
            Self::Http { identity, .. } => identity.is_some(),
            Self::PidFile(_) | Self::Command(_) | Self::File(_) => true,
        }
    }
}
