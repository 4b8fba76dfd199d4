//! Undoing what may have been done: a request that cancels by key (contract §5).
//!
//! What always holds: it is recorded before its first byte that an undo has begun; from then on nothing is sent
//! under the key but the undo, and a NOT_APPLIED operation cannot come of it. It begins only when everything
//! has been quiet for its lag: what arrives after it is not undone.
//!
//! What it does not do: decide (`undo`), or know how an upstream is asked to undo (config, `upstream`).

use std::sync::Arc;

use super::finding::NotKnown;
use super::ids::{AttemptId, OperationKey, Round};
use super::operation::{IdentityOrigin, Parked, State};
use super::outcome::{Answer, StoredRequest, Unsent};
use super::steps::StepIndex;
use super::time::{BootInstant, Millis, Moment};

/// The reconciler asks to undo.
#[derive(Clone, Debug)]
pub struct BeginVoid {
    /// Which operation.
    pub key: OperationKey,
    /// By which step.
    pub step: StepIndex,
    /// The request that this would start; from the same numbers as attempts.
    pub attempt: AttemptId,
    /// Its first byte may leave so long after `at`.
    pub dispatch: Millis,
    /// It is overdue after this.
    pub overdue_after: Millis,
    /// When.
    pub at: Moment,
}

/// The right to send one request that undoes; the store makes a permit of it once the commit is confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoidGrant {
    /// Of which operation.
    pub key: OperationKey,
    /// By which step.
    pub step: StepIndex,
    /// Which request.
    pub attempt: AttemptId,
    /// Which upstream key it undoes.
    pub round: Round,
    /// Where the identity came from: the caller's own key went upstream only if he named one.
    pub origin: IdentityOrigin,
    /// The first byte may leave until then.
    pub dispatch_by: BootInstant,
    /// What was sent, where it is kept.
    pub request: Option<Arc<StoredRequest>>,
}

/// What the wish to undo is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VoidReply {
    /// Send it, under this grant.
    Granted(VoidGrant),
    /// Not now: some attempt is still acting or listening.
    NotNow,
    /// It has not been quiet for long enough: not before so much later.
    TooEarly(Millis),
    /// It needs none: this is its state.
    Settled(Option<State>),
    /// Never unattended.
    Forbidden(Parked),
}

/// What a request that undoes showed.
#[derive(Clone, Debug)]
pub struct Voided {
    /// Of which operation.
    pub key: OperationKey,
    /// Which request.
    pub attempt: AttemptId,
    /// What it showed.
    pub end: VoidEnd,
    /// When.
    pub at: Moment,
}

/// How a request that undoes ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VoidEnd {
    /// The upstream says that nothing of it is in force now; callers get this answer.
    Undone(Answer),
    /// Bytes may have left, and nobody knows what came of them.
    Unclear(NotKnown),
    /// No byte left, and none can any more.
    NotSent(Unsent),
}
