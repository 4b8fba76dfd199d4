//! What others say of an operation: a look-up, or a signed callback. And what it is worth (contract §3, §5, §9.6).
//!
//! What always holds: a finding is *applied*, *not applied*, or *not known*, and the last two are never taken
//! for one another. It changes nothing that is COMPLETED.
//!
//! What it does not do: ask, verify a signature, or decide what a finding does (`weigh`).

use super::command::Turn;
use super::ids::OperationKey;
use super::operation::{Effect, State};
use super::outcome::Answer;
use super::steps::StepIndex;
use super::time::{Millis, Moment};

/// What somebody other than an attempt found out about an operation.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Of which operation.
    pub key: OperationKey,
    /// Who found it out.
    pub by: Finder,
    /// How many attempts were admitted when it was asked, or when the callback was read: what it says of an
    /// earlier turn may be void.
    pub admitted: u32,
    /// What was found.
    pub found: Found,
    /// When it was recorded.
    pub at: Moment,
}

/// Who found something out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finder {
    /// A question of a settle step.
    LookUp {
        /// Of which step.
        step: StepIndex,
        /// Before the question left.
        asked_at: Moment,
    },
    /// A verified callback. It speaks of the operation, never of one form of it: it was written when the upstream
    /// knew of that form, and comes when another may be in force.
    Callback {
        /// Does it say for good, by the config, that the operation had no effect and will have none? It
        /// speaks of this very operation.
        definitive: bool,
    },
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It was applied; callers get this answer.
    Applied(Answer),
    /// It was not applied, as far as could be seen.
    NotApplied,
    /// Neither could be told.
    NotKnown(NotKnown),
}

/// Why a question was not answered. For people and logs, never for decisions; no customer content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotKnown {
    /// No complete answer came in time.
    Unanswered,
    /// Answered so, and neither condition is about that.
    Undecided(u16),
    /// Both conditions hold.
    Contradictory,
    /// The credential was refused.
    CredentialRefused,
    /// The stored request's signature, or what it was signed for, has expired.
    SignatureExpired,
    /// It was redirected; redirects are never followed.
    Redirected,
    /// The answer is not what the conditions read: HTML where JSON was expected, for one.
    Unreadable,
    /// The answer is larger than may be read.
    TooLarge,
    /// There were more pages than may be read.
    TooManyPages,
    /// A condition could not be computed.
    ConditionFailed,
    /// The config no longer has the question.
    NotConfigured,
    /// The question is made of the stored request, which is not kept.
    RequestNotKept,
    /// Two forms of it may have been applied, and this cannot tell them apart.
    TwoForms,
    /// An undo has begun: what is there now says nothing of what will be.
    Voiding,
    /// Operations of several incarnations have the id, and it says of none that it is the one.
    SeveralIncarnations,
}

/// What a finding did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weighed {
    /// Its state now; `None` if the register does not know the operation.
    pub state: Option<State>,
    /// Its turn now; there exactly when the state is.
    pub turn: Option<Turn>,
    /// What it did to the record.
    pub effect: Effect,
    /// What it counted for.
    pub worth: Worth,
}

/// What a finding counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// It settled the operation.
    Settled,
    /// It was settled already.
    NothingNew,
    /// One of so many samples that it was not applied.
    Sample {
        /// So many in a row by now.
        so_far: u32,
        /// So many are needed.
        of: u32,
    },
    /// It does not count.
    Nothing(Uncounted),
}

/// Why a finding does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncounted {
    /// Neither could be told.
    NotKnown(NotKnown),
    /// "Not applied" counts only when asked so much later.
    TooEarly(Millis),
    /// The sample follows the one before too soon.
    TooSoon,
    /// An attempt acts or listens.
    AttemptLive,
    /// It was asked of an earlier turn, or of a step that is not there.
    OtherTurn,
    /// The callback does not speak for good, or not of everything that may have acted.
    NotDefinitive,
}

impl NotKnown {
    /// For a person.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Unanswered => "no complete answer came in time",
            Self::Undecided(_) => "no condition is about the answer",
            Self::Contradictory => "both conditions hold",
            Self::CredentialRefused => "the credential was refused",
            Self::SignatureExpired => "the signature of the stored request has expired",
            Self::Redirected => "the question was redirected, and redirects are not followed",
            Self::Unreadable => "the answer is not what the conditions read",
            Self::TooLarge => "the answer is larger than may be read",
            Self::TooManyPages => "there are more pages than may be read",
            Self::ConditionFailed => "a condition could not be computed",
            Self::NotConfigured => "the config no longer has the question",
            Self::RequestNotKept => "the question is made of the request, which is not kept",
            Self::TwoForms => "two forms may have been applied, and this cannot tell them apart",
            Self::Voiding => "an undo has begun, and what is there now may not stay",
            Self::SeveralIncarnations => {
                "several incarnations have an operation of this id, and which one is not said"
            }
        }
    }
}
