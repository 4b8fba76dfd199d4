//! An operation's life: its record, its states, and how its attempts stand (contract §3).
//!
//! What always holds: a state is a variant with its data; attempts that reached the upstream stay
//! listed until they end; an INTENDED operation of a dead or overdue instance is UNCERTAIN to whoever
//! looks.
//!
//! What it does not do: say what evidence changes (`observe`), admit (`decide`), or choose the next
//! settle step (`plan`).

use super::broken::{Rule, broken};
use super::command::Turn;
use super::ids::{
    AdmissionNumber, AttemptId, FencingToken, Fingerprint, Incarnation, InstanceId, OperationKey,
    ResourceName, Round, Sequence,
};
use super::meaning::Members;
use super::outcome::{Answer, AnswerClass, Interruption, Phase, Provenance, Unsent, Verdict};
use super::policy::{LISTEN, Order, Ownership, SettlePolicy};
use super::settling::Settling;
use super::time::{Millis, Moment};

/// Where an operation's identity came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdentityOrigin {
    /// The caller named the operation.
    Caller,
    /// The proxy composed the id itself; a stored refusal leaves it free for a corrected request.
    Derived,
    /// The caller named none and none was required: a fresh identity for this request alone.
    Fresh,
}

/// One logical effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    /// Its identity.
    pub key: OperationKey,
    /// Where the identity came from.
    pub origin: IdentityOrigin,
    /// Its place in the order of its resource; `None` without a fence.
    pub place: Option<Place>,
    /// Ordered within its generation?
    pub order: Order,
    /// The form in force.
    pub fingerprint: Fingerprint,
    /// What that form is made of; none where that is not known.
    pub members: Members,
    /// Did that form carry a credential? Then its answer is for callers who have one.
    pub credentialed: bool,
    /// Use of the key in force towards the upstream.
    pub key_use: KeyUse,
    /// How it is settled, as admitted.
    pub settle: SettlePolicy,
    /// Where it stands.
    pub state: State,
    /// Attempts that reached the upstream, or may have. Those that sent nothing are dropped.
    pub attempts: Vec<Attempt>,
    /// How many attempts were ever admitted.
    pub admitted: u32,
    /// How many of them were resends that may have left.
    pub resends: u32,
    /// Which ownership it needs to be sent.
    pub require: Ownership,
    /// Are the bytes to send again still stored?
    pub request_kept: bool,
    /// When it was first admitted.
    pub first_seen: Moment,
    /// When its record last changed.
    pub changed: Moment,
    /// How far its settling has come.
    pub settling: Settling,
}

/// Place in the order of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Which resource.
    pub resource: ResourceName,
    /// In which incarnation it was admitted.
    pub incarnation: Incarnation,
    /// With which token.
    pub token: Option<FencingToken>,
    /// With which sequence.
    pub sequence: Option<Sequence>,
    /// Its number among all admissions of the resource.
    pub number: AdmissionNumber,
}

/// The upstream's memory of our key: how long it can be counted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyUse {
    /// Which key.
    pub round: Round,
    /// The first attempt that may have sent under it, and when it was admitted.
    pub first: Option<(AttemptId, Moment)>,
}

/// One try.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// Which.
    pub id: AttemptId,
    /// Under which key.
    pub round: Round,
    /// Of which form.
    pub fingerprint: Fingerprint,
    /// When it was admitted.
    pub at: Moment,
    /// Silent longer than this since `at`: overdue.
    pub overdue_after: Millis,
    /// Started by the reconciler?
    pub resend: bool,
    /// How it stands.
    pub end: AttemptEnd,
}

/// How an attempt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptEnd {
    /// Nothing was recorded yet.
    Silent,
    /// Interrupted, and its connection is still open for a late answer.
    Open(Phase, Interruption),
    /// May have had an effect, and nothing more will come of it.
    Closed(Phase, Interruption),
    /// A complete answer that proves nothing, or nothing new: of what may be undone, or is COMPLETED.
    Ambiguous(u16),
    /// Somebody other than the attempt itself said that it had no effect. It stays listed, so that
    /// late proof of the opposite is recognised.
    Disproved(Provenance),
}

/// States of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// May have been sent.
    Intended,
    /// Nobody knows.
    Uncertain,
    /// No step can help; a person or a callback must.
    NeedsAttention(Parked),
    /// Proof that no attempt had an effect; may be admitted again.
    NotApplied(WhyNot),
    /// Ended.
    Completed(Completion),
}

/// Why no step can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parked {
    /// The upstream can neither deduplicate nor be asked.
    NoStep,
    /// The key is too old, or its lifetime is not known.
    KeyTooOld,
    /// The bytes to send are not kept.
    RequestNotKept,
    /// A later operation that must be ordered with it was admitted.
    Overtaken,
    /// Cancelled, or its generation was cut off.
    CutOff,
    /// All resends are used up.
    ResendsUsedUp,
    /// Without a fence only effects that commute are resent unattended.
    NotOrdered,
    /// It was admitted under a live lease, and nobody who holds one licenses a resend.
    NotCurrent,
    /// Nobody who was asked could tell in time.
    NotToldInTime,
    /// No callback came in time.
    NotCalledBack,
    /// An undo has begun, and nobody knows what came of it.
    UndoUnclear,
}

/// What proved that there was no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhyNot {
    /// Nothing was sent.
    NotSent(Unsent),
    /// The upstream said so.
    NotProcessed(u16),
    /// Somebody else said so; a wrong verdict is still caught by the key and by a last look.
    Said(Provenance),
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Completion {
    /// Which way.
    pub verdict: Verdict,
    /// Who said so.
    pub provenance: Provenance,
    /// The attempt that it is of, where one is known: whose answer it is, the only one that can have been applied, or
    /// the first that was answered as others had said before; of an undo, the undo.
    pub attempt: Option<AttemptId>,
    /// What callers get; `None` once it was purged.
    pub answer: Option<Answer>,
    /// When.
    pub at: Moment,
}

/// What evidence did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// The record changed.
    Changed,
    /// It was known already, or says nothing new.
    Nothing,
    /// It speaks against a COMPLETED outcome, or shows a second effect: logged, counted, alarmed.
    Contradiction,
}

impl Completion {
    /// Is its answer what the upstream answered to that attempt?
    pub fn is_answer_to(&self, attempt: AttemptId) -> bool {
        self.provenance == Provenance::Answer && self.attempt == Some(attempt)
    }
}

impl Attempt {
    /// Can it still act or learn something by itself, for all that this instance can know?
    pub fn is_live(&self, living: &super::view::Living, now: &Moment) -> bool {
        match self.end {
            AttemptEnd::Silent => {
                let overdue = living.is_past(self, self.overdue_after, now);
                living.contains(self.id.instance) && (!overdue || broken(Rule::SilenceIsOverdue))
            }
            // A listener that is gone without a word must not hold its operation for ever.
            AttemptEnd::Open(..) => {
                let at_most = self.overdue_after.plus(LISTEN);
                living.contains(self.id.instance) && !living.is_past(self, at_most, now)
            }
            AttemptEnd::Closed(..) | AttemptEnd::Ambiguous(_) | AttemptEnd::Disproved(_) => false,
        }
    }

    /// Was it declared ineffective by somebody other than its own answer?
    pub fn may_still_surprise(&self) -> bool {
        match self.end {
            AttemptEnd::Disproved(by) => by != Provenance::Answer,
            AttemptEnd::Silent
            | AttemptEnd::Open(..)
            | AttemptEnd::Closed(..)
            | AttemptEnd::Ambiguous(_) => true,
        }
    }

    /// Has nobody said yet that it had no effect?
    pub fn may_have_acted(&self) -> bool {
        match self.end {
            AttemptEnd::Silent
            | AttemptEnd::Open(..)
            | AttemptEnd::Closed(..)
            | AttemptEnd::Ambiguous(_) => true,
            AttemptEnd::Disproved(_) => false,
        }
    }
}

impl State {
    /// INTENDED, UNCERTAIN or NEEDS_ATTENTION.
    pub fn is_unsettled(&self) -> bool {
        match self {
            Self::Intended | Self::Uncertain | Self::NeedsAttention(_) => true,
            Self::NotApplied(_) | Self::Completed(_) => false,
        }
    }

    /// INTENDED or UNCERTAIN: some step may still settle it without a person.
    pub fn is_in_doubt(&self) -> bool {
        match self {
            Self::Intended | Self::Uncertain => true,
            Self::NeedsAttention(_) | Self::NotApplied(_) | Self::Completed(_) => false,
        }
    }

    /// The contract's word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Intended => "INTENDED",
            Self::Uncertain => "UNCERTAIN",
            Self::NeedsAttention(_) => "NEEDS_ATTENTION",
            Self::NotApplied(_) => "NOT_APPLIED",
            Self::Completed(_) => "COMPLETED",
        }
    }
}

impl Operation {
    /// An INTENDED operation of a dead or overdue instance *is* UNCERTAIN, here and now, to whoever
    /// looks.
    pub fn is_in_flight(&self, living: &super::view::Living, now: &Moment) -> bool {
        self.state == State::Intended && self.has_live_attempt(living, now)
    }

    /// Which admission it is at, and in which form.
    pub fn turn(&self) -> Turn {
        Turn {
            admitted: self.admitted,
            form: self.fingerprint,
        }
    }

    /// Whose it is: of who made its last attempt, or undoes it.
    pub fn carrier(&self) -> Option<InstanceId> {
        let last = self.everything_sent().last();
        last.map(|last| last.id.instance)
    }

    /// Is this one of its attempts, or its undo?
    pub fn lists(&self, attempt: AttemptId) -> bool {
        self.everything_sent().any(|known| known.id == attempt)
    }

    /// Is some attempt still acting or listening, or an undo acting?
    pub fn has_live_attempt(&self, living: &super::view::Living, now: &Moment) -> bool {
        self.everything_sent()
            .any(|attempt| attempt.is_live(living, now))
    }

    /// Is some attempt, or an undo, still acting, not merely listening for a late answer?
    pub fn is_acting(&self, living: &super::view::Living, now: &Moment) -> bool {
        self.everything_sent()
            .any(|attempt| attempt.end == AttemptEnd::Silent && attempt.is_live(living, now))
    }
}

impl Parked {
    /// For a person.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NoStep => "the upstream can neither deduplicate nor be asked",
            Self::KeyTooOld => "the upstream may have forgotten the key",
            Self::RequestNotKept => "the bytes to send again are not kept",
            Self::Overtaken => "a later operation that must be ordered with it was admitted",
            Self::CutOff => "it was cancelled or its generation was cut off",
            Self::ResendsUsedUp => "all resends are used up",
            Self::NotOrdered => {
                "without a fence only effects that commute are sent again unattended"
            }
            Self::NotCurrent => "it needs a live lease, and its owner is gone",
            Self::NotToldInTime => "nobody who was asked could tell in time",
            Self::NotCalledBack => "no callback came in time",
            Self::UndoUnclear => "an undo has begun, and nobody knows what came of it",
        }
    }
}

impl Phase {
    /// For a person.
    pub fn word(self) -> &'static str {
        match self {
            Self::Sending => "sending",
            Self::Waiting => "waiting for the answer",
            Self::Receiving => "receiving the answer",
        }
    }
}

impl AnswerClass {
    /// For a person.
    pub fn word(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Refused => "refused",
            Self::ConditionFailed => "its condition failed",
            Self::NotProcessed => "not processed",
            Self::Ambiguous => "nothing that proves anything",
        }
    }
}
