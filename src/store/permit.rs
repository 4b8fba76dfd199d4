//! The permit to send, and the receipt for having tried.
//!
//! What always holds: a [`Permit`] exists only after the commit that admitted its attempt; there is
//! one per attempt, it cannot be copied, sending consumes it, and [`Permit::finish`] is the only way
//! to the [`Receipt`] that [`super::Register::record`] consumes. Sending without admission does not
//! compile, and an attempt without a recorded end does not go unnoticed.
//!
//! ```compile_fail
//! // Nobody outside the store can make one.
//! fn forge(grant: fencepost::protocol::command::Grant) -> fencepost::store::permit::Permit {
//!     fencepost::store::permit::Permit::granted(grant)
//! }
//! ```
//!
//! ```compile_fail
//! // And nobody can send twice on one.
//! fn twice(permit: fencepost::store::permit::Permit) {
//!     use fencepost::protocol::outcome::{Evidence, Unsent};
//!     let _first = permit.finish(Evidence::NotSent(Unsent::ConnectionLost));
//!     let _second = permit.finish(Evidence::NotSent(Unsent::ConnectionLost));
//! }
//! ```
//!
//! What it does not do: know how bytes are sent (`upstream`), or what evidence changes (`protocol`).

use crate::protocol::command::Grant;
use crate::protocol::ids::{AttemptId, OperationKey};
use crate::protocol::operation::{Parked, State};
use crate::protocol::outcome::Evidence;
use crate::protocol::time::{BootInstant, Millis, Moment};
use crate::protocol::void::{VoidEnd, VoidGrant, Voided};

/// The right to make one attempt, until `dispatch_by`.
#[derive(Debug)]
#[must_use = "an admitted attempt must end in a receipt"]
pub struct Permit {
    grant: Grant,
}

impl Permit {
    /// Only after the commit of its admission is confirmed.
    pub(in crate::store) fn granted(grant: Grant) -> Self {
        Self { grant }
    }

    /// What was granted.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// The first byte may leave until this instant of the clock that counts suspend.
    pub fn dispatch_by(&self) -> BootInstant {
        self.grant.dispatch_by
    }

    /// The attempt is over: nothing more can leave and nothing more will be read.
    pub fn finish(self, evidence: Evidence) -> Receipt {
        Receipt {
            key: self.grant.key,
            attempt: self.grant.attempt,
            evidence,
            open: false,
        }
    }

    /// The attempt counts as interrupted, but its connection stays open and a late answer is still
    /// read.
    pub fn interrupt(self, evidence: Evidence) -> (Receipt, LateEnd) {
        let Grant { key, attempt, .. } = self.grant;
        let end = LateEnd {
            key: key.clone(),
            attempt,
        };
        (
            Receipt {
                key,
                attempt,
                evidence,
                open: true,
            },
            end,
        )
    }
}

/// The end, still to come, of an attempt that was recorded as interrupted.
#[derive(Debug)]
#[must_use = "a late reader must say how it ended"]
pub struct LateEnd {
    key: OperationKey,
    attempt: AttemptId,
}

impl LateEnd {
    /// The connection is closed or its answer was read.
    pub fn finish(self, evidence: Evidence) -> Receipt {
        Receipt {
            key: self.key,
            attempt: self.attempt,
            evidence,
            open: false,
        }
    }
}

/// What one attempt showed, to be recorded.
#[derive(Clone, Debug)]
#[must_use = "evidence that is not recorded is lost"]
pub struct Receipt {
    pub(in crate::store) key: OperationKey,
    pub(in crate::store) attempt: AttemptId,
    pub(in crate::store) evidence: Evidence,
    pub(in crate::store) open: bool,
}

impl Receipt {
    /// What the attempt showed.
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// Whose evidence this is.
    pub fn attempt(&self) -> AttemptId {
        self.attempt
    }
}

/// The right to send one request that undoes, until `dispatch_by`. It exists only after the commit that an undo
/// has begun.
///
/// ```compile_fail
/// // Nobody outside the store can make one.
/// fn forge(grant: fencepost::protocol::void::VoidGrant) -> fencepost::store::permit::VoidPermit {
///     fencepost::store::permit::VoidPermit::granted(grant)
/// }
/// ```
///
/// ```compile_fail
/// // And nobody can undo twice on one.
/// fn twice(permit: fencepost::store::permit::VoidPermit) {
///     use fencepost::protocol::{finding::NotKnown, void::VoidEnd};
///     let _first = permit.finish(VoidEnd::Unclear(NotKnown::Unanswered));
///     let _second = permit.finish(VoidEnd::Unclear(NotKnown::Unanswered));
/// }
/// ```
#[derive(Debug)]
#[must_use = "an undo that has begun must end in a receipt"]
pub struct VoidPermit {
    grant: VoidGrant,
}

impl VoidPermit {
    /// Only after the commit that it has begun is confirmed.
    pub(in crate::store) fn granted(grant: VoidGrant) -> Self {
        Self { grant }
    }

    /// What was granted.
    pub fn grant(&self) -> &VoidGrant {
        &self.grant
    }

    /// The first byte may leave until this instant of the clock that counts suspend.
    pub fn dispatch_by(&self) -> BootInstant {
        self.grant.dispatch_by
    }

    /// The request is over: nothing more can leave and nothing more will be read.
    pub fn finish(self, end: VoidEnd) -> VoidReceipt {
        VoidReceipt {
            key: self.grant.key,
            attempt: self.grant.attempt,
            end,
        }
    }
}

/// The reply to the wish to undo.
#[derive(Debug)]
pub enum Voiding {
    /// Send the request that undoes.
    Granted(VoidPermit),
    /// Not now: some attempt is still acting or listening.
    NotNow,
    /// It has not been quiet for long enough: not before so much later.
    TooEarly(Millis),
    /// It needs none.
    Settled(Option<State>),
    /// Never unattended.
    Forbidden(Parked),
}

/// What one request that undoes showed, to be recorded.
#[derive(Clone, Debug)]
#[must_use = "what is not recorded is lost"]
pub struct VoidReceipt {
    key: OperationKey,
    attempt: AttemptId,
    end: VoidEnd,
}

impl VoidReceipt {
    /// What it showed.
    pub fn end(&self) -> &VoidEnd {
        &self.end
    }

    pub(in crate::store) fn as_shown(&self, at: Moment) -> Voided {
        Voided {
            key: self.key.clone(),
            attempt: self.attempt,
            end: self.end.clone(),
            at,
        }
    }
}

/// Permits for tests of the rooms above, which have no store to be granted one by.
#[cfg(test)]
#[allow(dead_code, reason = "used by the tests of the rooms above")]
pub(crate) fn permit_for_test(grant: Grant) -> Permit {
    Permit::granted(grant)
}

/// The same for undos.
#[cfg(test)]
#[allow(dead_code, reason = "used by the tests of the rooms above")]
pub(crate) fn void_permit_for_test(grant: VoidGrant) -> VoidPermit {
    VoidPermit::granted(grant)
}
