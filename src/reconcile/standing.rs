//! How settling goes, for operators: what the last pass over each upstream's operations came to, and whether
//! the upstream is left alone.
//!
//! What always holds: it tells counts and times, never an operation.
//!
//! What it does not do: say how one operation stands (its event log does).

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::breaker::Breaker;
use crate::protocol::ids::UpstreamId;
use crate::protocol::time::{BootInstant, Millis, Moment};

/// What one pass came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// When it began.
    pub began: Option<Moment>,
    /// How long it took; `None`: it is under way.
    pub took: Option<Millis>,
    /// Operations that nobody knows the outcome of.
    pub in_doubt: u64,
    /// Of them, that had a step to take.
    pub due: u64,
    /// That have one later, or wait for a callback or a late answer.
    pub later: u64,
    /// That were left for the next pass, since so many of their resource are worked on already.
    pub held_back: u64,
    /// Why it ended early, if it did.
    pub fault: Option<String>,
}

/// How settling stands for one upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Which; `None`: all that the config no longer has.
    pub upstream: Option<UpstreamId>,
    /// The last pass, or the one under way.
    pub pass: Pass,
    /// Exchanges that failed in a row.
    pub failures: u32,
    /// For how long it is left alone.
    pub left_alone: Millis,
}

/// What is known of one upstream.
#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) breaker: Breaker,
    pass: Mutex<Pass>,
}

impl Watch {
    /// A pass begins.
    pub(super) fn begin(&self, at: Moment) {
        *self.pass() = Pass {
            began: Some(at),
            ..Pass::default()
        };
    }

    /// More of it is known.
    pub(super) fn note(&self, note: impl FnOnce(&mut Pass)) {
        note(&mut self.pass());
    }

    /// For operators.
    pub(super) fn standing(&self, upstream: Option<UpstreamId>, now: BootInstant) -> Standing {
        let (failures, left_alone) = self.breaker.standing(now);
        Standing {
            upstream,
            pass: self.pass().clone(),
            failures,
            left_alone,
        }
    }

    fn pass(&self) -> MutexGuard<'_, Pass> {
        self.pass.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
