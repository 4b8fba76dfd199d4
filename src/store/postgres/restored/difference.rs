//! What is not as it was when a register was last known whole, in words. Pure.
//!
//! What always holds: each names what was remembered and what is there.
//!
//! What it does not do: find it (`memory`).

use std::fmt;

use super::memory::Server;
use crate::protocol::ids::InstanceId;

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store::postgres) enum Difference {
    /// It is on another server.
    Copied {
        /// Where it was known whole.
        recorded: Server,
        /// Where it is.
        found: Server,
    },
    /// Its server has gone over to another history.
    Timeline {
        /// Where it was known whole.
        recorded: Server,
        /// Where it is.
        found: Server,
    },
    /// Transactions of an instance are missing.
    Position {
        /// Whose.
        instance: InstanceId,
        /// So many were seen committed.
        remembered: u64,
        /// So many are there; `None`: not even the instance.
        found: Option<u64>,
    },
    /// What an instance recorded while nothing was admitted, or after it was declared dead, is missing.
    Aside {
        /// Which.
        instance: InstanceId,
        /// So many of its transactions were seen committed.
        remembered: u64,
        /// So many are there.
        found: u64,
    },
    /// It was declared dead, and is not.
    Revived {
        /// Which.
        instance: InstanceId,
    },
    /// A higher epoch was in force.
    Epoch {
        /// Which.
        remembered: u64,
        /// Which is now.
        found: u64,
    },
    /// Nothing is admitted, as somebody found before.
    Closed {
        /// Why.
        why: String,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Copied { recorded, found } => write!(
                f,
                "it was known whole on the server {}, and is on {}: it was copied",
                recorded.system, found.system
            ),
            Self::Timeline { recorded, found } => write!(
                f,
                "it was known whole on timeline {}, and its server writes {}: there was a fail-over or a \
                 restore",
                recorded.timeline, found.timeline
            ),
            Self::Position {
                instance,
                remembered,
                found: Some(found),
            } => write!(
                f,
                "instance {instance} saw {remembered} of its transactions committed, and {found} are \
                 there: commits are missing"
            ),
            Self::Position {
                instance,
                remembered,
                found: None,
            } => write!(
                f,
                "instance {instance} saw {remembered} of its transactions committed, and is not known \
                 there: commits are missing"
            ),
            Self::Aside {
                instance,
                remembered,
                found,
            } => write!(
                f,
                "instance {instance} saw {remembered} transactions committed that recorded something while \
                 it could admit nothing, and {found} are there: commits are missing"
            ),
            Self::Revived { instance } => write!(
                f,
                "instance {instance} had been declared dead, and is not: commits are missing"
            ),
            Self::Epoch { remembered, found } => write!(
                f,
                "epoch {remembered} was in force, and {found} is: commits are missing"
            ),
            Self::Closed { why } => f.write_str(why),
        }
    }
}
