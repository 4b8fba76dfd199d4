//! The contract's table of problems (§6): name, status, retry.
//!
//! What always holds: one row for each thing that can be wrong, and no catch-all.
//!
//! What it does not do: word them (`wording`), or those of the worker API, which has `lease-held` and `lease-lost` too.

use http::StatusCode;

use super::Fault;
use crate::protocol::rejection::Rejection;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Row {
    IdempotencyKeyRequired,
    IdempotencyKeyMalformed,
    FencingTokenMalformed,
    IdentityMissing,
    InsertionRefused,
    StaleFencingToken,
    TokenHeldByAnother,
    GenerationUsed,
    SequenceRegressed,
    LeaseNotCurrent,
    LeaseLost,
    LeaseHeld,
    FencingTokenUnknown,
    FencingTokenRequired,
    IdempotencyKeyReused,
    MeaningNotComparable,
    CredentialRequired,
    OperationInFlight,
    /// Waiting may help.
    PredecessorUnsettled,
    /// It needs a person first.
    PredecessorStuck,
    NeedsAttention,
    NearDuplicate,
    ResourceCancelled,
    AnswerExpired,
    OutcomeUncertain,
    UpstreamUnreachable,
    StoreUnavailable,
    Draining,
    Overloaded,
    DispatchExpired,
    BodyTooLarge,
    NoRoute,
}

/// Can a retry help?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// This request will never be let out.
    Never,
    /// The same request under the same identity may be sent again.
    SameOperation,
    /// Not before something else is settled.
    AfterSettlement,
}

impl Retry {
    /// As in the `retry` member.
    pub fn word(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::SameOperation => "same-operation",
            Self::AfterSettlement => "after-settlement",
        }
    }
}

impl Row {
    /// The row of a refusal.
    pub fn of_rejection(rejection: &Rejection) -> Self {
        match rejection {
            Rejection::TokenRequired => Self::FencingTokenRequired,
            Rejection::TokenMalformed => Self::FencingTokenMalformed,
            Rejection::StaleToken { .. } => Self::StaleFencingToken,
            Rejection::TokenUnknown { .. } => Self::FencingTokenUnknown,
            Rejection::TokenHeldByAnother { .. } => Self::TokenHeldByAnother,
            Rejection::KeyReused => Self::IdempotencyKeyReused,
            Rejection::NotComparable(_) => Self::MeaningNotComparable,
            Rejection::CredentialRequired(_) => Self::CredentialRequired,
            Rejection::AnswerExpired(_) => Self::AnswerExpired,
            Rejection::NeedsAttention(_) => Self::NeedsAttention,
            Rejection::LeaseNotCurrent => Self::LeaseNotCurrent,
            Rejection::ResourceCancelled => Self::ResourceCancelled,
            Rejection::GenerationUsed { .. } => Self::GenerationUsed,
            Rejection::SequenceRegressed { .. } => Self::SequenceRegressed,
            Rejection::PredecessorUnsettled {
                waiting_may_help: true,
                ..
            } => Self::PredecessorUnsettled,
            Rejection::PredecessorUnsettled {
                waiting_may_help: false,
                ..
            } => Self::PredecessorStuck,
            Rejection::NearDuplicate { .. } => Self::NearDuplicate,
        }
    }

    /// The row of a fault.
    pub fn of_fault(fault: &Fault) -> Self {
        match fault {
            Fault::NoRoute { .. } => Self::NoRoute,
            Fault::KeyRequired { .. } => Self::IdempotencyKeyRequired,
            Fault::KeyMalformed { .. } => Self::IdempotencyKeyMalformed,
            Fault::IdentityMissing { .. } => Self::IdentityMissing,
            Fault::NotInsertable { .. } => Self::InsertionRefused,
            Fault::BodyTooLarge { .. } => Self::BodyTooLarge,
            Fault::Overloaded | Fault::TooMuchWork { .. } => Self::Overloaded,
            // Told apart by its sentence: what the caller is to do is the same.
            Fault::Draining | Fault::ConfigChanged => Self::Draining,
            Fault::StoreUnavailable => Self::StoreUnavailable,
            Fault::UpstreamUnreachable | Fault::WorkerUnreachable => Self::UpstreamUnreachable,
            Fault::DispatchExpired => Self::DispatchExpired,
            Fault::LeaseHeld { .. } => Self::LeaseHeld,
            Fault::LeaseLost { .. } => Self::LeaseLost,
            Fault::OperationInFlight => Self::OperationInFlight,
            Fault::OutcomeUncertain { .. } | Fault::WorkerBroke { .. } => Self::OutcomeUncertain,
        }
    }

    /// Last part of the problem's type.
    pub fn name(self) -> &'static str {
        match self {
            Self::IdempotencyKeyRequired => "idempotency-key-required",
            Self::IdempotencyKeyMalformed => "idempotency-key-malformed",
            Self::FencingTokenMalformed => "fencing-token-malformed",
            Self::IdentityMissing => "identity-missing",
            Self::InsertionRefused => "insertion-refused",
            Self::StaleFencingToken => "stale-fencing-token",
            Self::TokenHeldByAnother => "token-held-by-another",
            Self::GenerationUsed => "generation-used",
            Self::SequenceRegressed => "sequence-regressed",
            Self::LeaseNotCurrent => "lease-not-current",
            Self::LeaseLost => "lease-lost",
            Self::LeaseHeld => "lease-held",
            Self::FencingTokenUnknown => "fencing-token-unknown",
            Self::FencingTokenRequired => "fencing-token-required",
            Self::IdempotencyKeyReused => "idempotency-key-reused",
            Self::MeaningNotComparable => "meaning-not-comparable",
            Self::CredentialRequired => "credential-required",
            Self::OperationInFlight => "operation-in-flight",
            Self::PredecessorUnsettled | Self::PredecessorStuck => "predecessor-unsettled",
            Self::NeedsAttention => "needs-attention",
            Self::NearDuplicate => "near-duplicate",
            Self::ResourceCancelled => "resource-cancelled",
            Self::AnswerExpired => "answer-expired",
            Self::OutcomeUncertain => "outcome-uncertain",
            Self::UpstreamUnreachable => "upstream-unreachable",
            Self::StoreUnavailable => "store-unavailable",
            Self::Draining => "draining",
            Self::Overloaded => "overloaded",
            Self::DispatchExpired => "dispatch-expired",
            Self::BodyTooLarge => "body-too-large",
            Self::NoRoute => "no-route",
        }
    }

    /// Its status; `outcome-uncertain` may have another by route.
    pub fn status(self) -> StatusCode {
        match self {
            Self::IdempotencyKeyRequired
            | Self::IdempotencyKeyMalformed
            | Self::FencingTokenMalformed
            | Self::IdentityMissing
            | Self::InsertionRefused => StatusCode::BAD_REQUEST,
            Self::StaleFencingToken
            | Self::TokenHeldByAnother
            | Self::GenerationUsed
            | Self::SequenceRegressed
            | Self::LeaseNotCurrent
            | Self::LeaseLost
            | Self::FencingTokenUnknown => StatusCode::PRECONDITION_FAILED,
            Self::FencingTokenRequired => StatusCode::PRECONDITION_REQUIRED,
            Self::IdempotencyKeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Self::CredentialRequired => StatusCode::FORBIDDEN,
            Self::OperationInFlight
            | Self::LeaseHeld
            | Self::PredecessorUnsettled
            | Self::PredecessorStuck
            | Self::NeedsAttention
            | Self::NearDuplicate
            | Self::MeaningNotComparable => StatusCode::CONFLICT,
            Self::ResourceCancelled | Self::AnswerExpired => StatusCode::GONE,
            Self::OutcomeUncertain => StatusCode::GATEWAY_TIMEOUT,
            Self::UpstreamUnreachable => StatusCode::BAD_GATEWAY,
            Self::StoreUnavailable | Self::Draining | Self::Overloaded | Self::DispatchExpired => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NoRoute => StatusCode::MISDIRECTED_REQUEST,
        }
    }

    /// Can a retry help?
    pub fn retry(self) -> Retry {
        match self {
            Self::IdempotencyKeyRequired
            | Self::IdempotencyKeyMalformed
            | Self::FencingTokenMalformed
            | Self::IdentityMissing
            | Self::InsertionRefused
            | Self::StaleFencingToken
            | Self::TokenHeldByAnother
            | Self::GenerationUsed
            | Self::SequenceRegressed
            | Self::LeaseNotCurrent
            | Self::LeaseLost
            | Self::FencingTokenRequired
            | Self::IdempotencyKeyReused
            | Self::MeaningNotComparable
            | Self::CredentialRequired
            | Self::NearDuplicate
            | Self::ResourceCancelled
            | Self::AnswerExpired
            | Self::BodyTooLarge
            | Self::NoRoute => Retry::Never,
            Self::OperationInFlight
            | Self::LeaseHeld
            | Self::PredecessorUnsettled
            | Self::OutcomeUncertain
            | Self::UpstreamUnreachable
            | Self::StoreUnavailable
            | Self::Draining
            | Self::Overloaded
            | Self::DispatchExpired => Retry::SameOperation,
            Self::FencingTokenUnknown | Self::PredecessorStuck | Self::NeedsAttention => {
                Retry::AfterSettlement
            }
        }
    }

    /// Seconds for `Retry-After`; where the contract's table asks for it.
    pub fn retry_after(self) -> Option<u64> {
        match self {
            Self::OperationInFlight
            | Self::LeaseHeld
            | Self::PredecessorUnsettled
            | Self::StoreUnavailable
            | Self::Draining
            | Self::Overloaded
            | Self::DispatchExpired => Some(1),
            // Settling takes longer than an answer.
            Self::OutcomeUncertain => Some(5),
            Self::IdempotencyKeyRequired
            | Self::IdempotencyKeyMalformed
            | Self::FencingTokenMalformed
            | Self::IdentityMissing
            | Self::InsertionRefused
            | Self::StaleFencingToken
            | Self::TokenHeldByAnother
            | Self::GenerationUsed
            | Self::SequenceRegressed
            | Self::LeaseNotCurrent
            | Self::LeaseLost
            | Self::FencingTokenUnknown
            | Self::FencingTokenRequired
            | Self::IdempotencyKeyReused
            | Self::MeaningNotComparable
            | Self::CredentialRequired
            | Self::PredecessorStuck
            | Self::NeedsAttention
            | Self::NearDuplicate
            | Self::ResourceCancelled
            | Self::AnswerExpired
            | Self::UpstreamUnreachable
            | Self::BodyTooLarge
            | Self::NoRoute => None,
        }
    }

    /// Is the caller's operation recorded and not settled? Then the reply says where to look at it.
    pub fn is_unsettled(self) -> bool {
        matches!(
            self,
            Self::OperationInFlight | Self::NeedsAttention | Self::OutcomeUncertain
        )
    }

    /// The same for every problem of its type.
    pub fn title(self) -> &'static str {
        match self {
            Self::IdempotencyKeyRequired => "An idempotency key is required",
            Self::IdempotencyKeyMalformed => "The idempotency key cannot be read",
            Self::FencingTokenMalformed => "The fencing token cannot be read",
            Self::IdentityMissing => "The operation cannot be identified",
            Self::InsertionRefused => "The upstream's key cannot be put into the request",
            Self::StaleFencingToken => "The fencing token is stale",
            Self::TokenHeldByAnother => "The fencing token belongs to another acquisition",
            Self::GenerationUsed => "This generation has had its operation",
            Self::SequenceRegressed => "The sequence is not above the last one",
            Self::LeaseNotCurrent => "The lease is not current",
            Self::LeaseLost => "The lease is lost",
            Self::LeaseHeld => "The lease is not held yet",
            Self::FencingTokenUnknown => "The fencing token cannot be placed",
            Self::FencingTokenRequired => "A fencing token is required",
            Self::IdempotencyKeyReused => "The identity was used with another request",
            Self::MeaningNotComparable => {
                "The identity was used, and the requests cannot be compared"
            }
            Self::CredentialRequired => "The answer is for callers with a credential",
            Self::OperationInFlight => "The operation is in flight",
            Self::PredecessorUnsettled | Self::PredecessorStuck => {
                "An older operation of the resource is not settled"
            }
            Self::NeedsAttention => "The operation needs a person",
            Self::NearDuplicate => "The same request is under way under another identity",
            Self::ResourceCancelled => "The resource was cancelled",
            Self::AnswerExpired => "The operation ended and its answer is no longer kept",
            Self::OutcomeUncertain => "The outcome is not known",
            Self::UpstreamUnreachable => "The upstream cannot be reached",
            Self::StoreUnavailable => "The register is unavailable",
            Self::Draining => "The proxy is stopping",
            Self::Overloaded => "The proxy is overloaded",
            Self::DispatchExpired => "The time to send has passed",
            Self::BodyTooLarge => "The content is too large",
            Self::NoRoute => "No route for this request",
        }
    }
}
