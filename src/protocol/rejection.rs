//! Refusals: values, not errors. Every row of the contract's table (§6) that the rules can produce.
//!
//! What always holds: a rejection means that nothing was sent for this request. Whether a retry can
//! help is part of its meaning and never left to the caller's guess.
//!
//! What it does not do: choose statuses or words (`wire::problem`).

use super::ids::{AcquisitionId, FencingToken, OperationKey, Sequence};
use super::operation::Completion;
use super::outcome::{Provenance, Verdict};
use super::time::Moment;

/// Why a request was refused, or would have been under `observe`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// No token where one is required.
    TokenRequired,
    /// A token or sequence that cannot be read.
    TokenMalformed,
    /// The token is below the mark, equal to a closed mark, or of an earlier epoch.
    StaleToken {
        /// What the caller presented.
        presented: FencingToken,
        /// The mark it is stale against; `None` if only the epoch decided.
        current: Option<FencingToken>,
        /// The epoch in force, where the token is of an earlier one.
        epoch: Option<u64>,
    },
    /// The token cannot be placed: not refused for ever, `resources accept` can let it in.
    TokenUnknown {
        /// What the caller presented.
        presented: FencingToken,
        /// Why.
        why: UnknownToken,
    },
    /// Equal to the mark under another acquisition than the one that was named first.
    TokenHeldByAnother {
        /// What the caller presented.
        presented: FencingToken,
        /// The acquisition it presented, if any.
        acquisition: Option<AcquisitionId>,
    },
    /// The identity was used with another request.
    KeyReused,
    /// The identity was used, and whether with this request can no longer be told.
    NotComparable(Box<OperationKey>),
    /// The operation was asked for with a credential, and its answer is for callers who have one.
    CredentialRequired(Box<OperationKey>),
    /// The operation ended, and its answer is no longer kept.
    AnswerExpired(Box<Expired>),
    /// No step can settle the operation; a person must.
    NeedsAttention(Box<OperationKey>),
    /// The lease behind the token is not live, or this instance cannot know.
    LeaseNotCurrent,
    /// The resource was cancelled.
    ResourceCancelled,
    /// Another operation has this generation.
    GenerationUsed {
        /// The operation that has it.
        by: Box<OperationKey>,
    },
    /// The sequence is missing, or not above the last one admitted.
    SequenceRegressed {
        /// What the caller presented.
        presented: Option<Sequence>,
        /// The last one admitted under this token.
        last: Option<Sequence>,
    },
    /// An older operation is unsettled.
    PredecessorUnsettled {
        /// Which.
        predecessor: Box<OperationKey>,
        /// Can waiting help? Not behind one that needs a person.
        waiting_may_help: bool,
    },
    /// The same request is unsettled under another id.
    NearDuplicate {
        /// The first one.
        first: Box<OperationKey>,
    },
}

/// Why a token cannot be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnknownToken {
    /// Of an epoch that has not started.
    LaterEpoch,
    /// Above everything that its source has issued.
    NeverIssued,
    /// The register's own source has issued none for this resource yet, and no other was seen.
    NoneIssued,
    /// Too far above the mark.
    TooFarAhead,
    /// From another source than the fence's.
    OtherSource,
    /// The tokens of the resource are the register's own, and the effect takes them from another source.
    NotOwn,
}

/// What is left of an operation whose answer is gone: when and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired {
    /// Which operation.
    pub key: OperationKey,
    /// Which way it ended.
    pub verdict: Verdict,
    /// Who said so.
    pub provenance: Provenance,
    /// When, by the clocks of who recorded it.
    pub at: Moment,
    /// Can it not have been then: before the operation was first seen, or later than now? A wall clock was
    /// wrong, or was set.
    pub clocks_disagree: bool,
}

impl Expired {
    /// Of an operation that ended so.
    pub fn of(key: OperationKey, completion: &Completion) -> Self {
        Self {
            key,
            verdict: completion.verdict,
            provenance: completion.provenance,
            at: completion.at,
            clocks_disagree: false,
        }
    }
}
