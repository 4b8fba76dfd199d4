//! An operation's life: states, attempts, and what evidence does to them (contract §3).
//!
//! What always holds: NOT_APPLIED needs proof for *every* attempt that may have had an effect;
//! COMPLETED never changes again, evidence against it is a contradiction; evidence belongs to the
//! attempt that it came from and says nothing of earlier ones.
//!
//! What it does not do: admit (`decide`), or choose the next settle step (`plan`).

use super::broken::{Rule, broken};
use super::ids::{
    AdmissionNumber, AttemptId, FencingToken, Fingerprint, Incarnation, OperationKey, ResourceName,
    Round, Sequence,
};
use super::outcome::{
    Answer, AnswerClass, Evidence, Interruption, Phase, Provenance, Unsent, Verdict,
};
use super::policy::{Order, Ownership, SettlePolicy};
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
    /// A complete answer that proves nothing.
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
    /// The attempt that it completed, where one is known.
    pub attempt: Option<AttemptId>,
    /// What callers get; `None` once it was purged.
    pub answer: Option<Answer>,
    /// When.
    pub at: Moment,
}

/// How many attempts that reached the upstream without effect stay listed with an operation that is
/// admitted again and again.
const DISPROVED_KEPT: usize = 16;

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

impl Attempt {
    /// Can it still act or learn something by itself, for all that this instance can know?
    pub fn is_live(&self, living: &super::view::Living, now: &Moment) -> bool {
        match self.end {
            AttemptEnd::Silent => {
                let overdue = now.is_past(&self.at, self.overdue_after);
                living.contains(self.id.instance) && (!overdue || broken(Rule::SilenceIsOverdue))
            }
            AttemptEnd::Open(..) => living.contains(self.id.instance),
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

    /// Is this one of its attempts?
    pub fn lists(&self, attempt: AttemptId) -> bool {
        self.attempts.iter().any(|known| known.id == attempt)
    }

    /// Is some attempt still acting or listening?
    pub fn has_live_attempt(&self, living: &super::view::Living, now: &Moment) -> bool {
        self.attempts
            .iter()
            .any(|attempt| attempt.is_live(living, now))
    }

    /// Is some attempt still acting, not merely listening for a late answer?
    pub fn is_acting(&self, living: &super::view::Living, now: &Moment) -> bool {
        self.attempts
            .iter()
            .any(|attempt| attempt.end == AttemptEnd::Silent && attempt.is_live(living, now))
    }

    /// Applies what one attempt showed. `open`: its connection stays open for a late answer.
    ///
    /// Total over state × evidence: every pair has an arm of its own below.
    pub fn observe(
        &mut self,
        attempt: AttemptId,
        evidence: &Evidence,
        open: bool,
        now: Moment,
    ) -> Effect {
        let Some(index) = self.attempts.iter().position(|known| known.id == attempt) else {
            return self.observe_forgotten(attempt, evidence);
        };
        match self.state {
            State::Completed(_) if !broken(Rule::CompletedIsFinal) => {
                self.observe_completed(index, evidence)
            }
            State::Completed(_)
            | State::Intended
            | State::Uncertain
            | State::NeedsAttention(_)
            | State::NotApplied(_) => self.observe_unfinished(index, evidence, open, now),
        }
    }

    /// Evidence of an attempt that is not listed: it sent nothing, or this is a repetition.
    fn observe_forgotten(&self, attempt: AttemptId, evidence: &Evidence) -> Effect {
        let applied = matches!(
            evidence,
            Evidence::Answered {
                class: AnswerClass::Applied,
                ..
            }
        );
        let completed_it = match &self.state {
            State::Completed(completion) => completion.attempt == Some(attempt),
            State::Intended
            | State::Uncertain
            | State::NeedsAttention(_)
            | State::NotApplied(_) => false,
        };
        if applied && !completed_it {
            Effect::Contradiction
        } else {
            Effect::Nothing
        }
    }

    fn observe_completed(&mut self, index: usize, evidence: &Evidence) -> Effect {
        let State::Completed(completion) = &self.state else {
            return Effect::Nothing;
        };
        let Some(attempt) = self.attempts.get(index) else {
            return Effect::Nothing;
        };
        let its_own = completion.attempt.is_none_or(|by| by == attempt.id);
        let effect = match (completion.verdict, evidence) {
            (
                Verdict::Applied,
                Evidence::Answered {
                    class: AnswerClass::Applied,
                    ..
                },
            ) => {
                // A second accepted attempt is a replay where the upstream deduplicates under the
                // same key; elsewhere it is a second effect.
                let same_key =
                    self.settle.capability.idempotent && attempt.round == self.key_use.round;
                let harmless = its_own || same_key || self.settle.capability.conditional;
                if harmless {
                    Effect::Nothing
                } else {
                    Effect::Contradiction
                }
            }
            (
                Verdict::Refused,
                Evidence::Answered {
                    class: AnswerClass::Applied,
                    ..
                },
            ) => Effect::Contradiction,
            (
                Verdict::Applied,
                Evidence::NotSent(_)
                | Evidence::Answered {
                    class:
                        AnswerClass::Refused | AnswerClass::ConditionFailed | AnswerClass::NotProcessed,
                    ..
                },
            ) => {
                // It denies only its own attempt: a contradiction where no other can have done it.
                if its_own && self.is_sole_attempt(index) {
                    Effect::Contradiction
                } else {
                    Effect::Nothing
                }
            }
            (
                Verdict::Refused,
                Evidence::NotSent(_)
                | Evidence::Answered {
                    class:
                        AnswerClass::Refused | AnswerClass::ConditionFailed | AnswerClass::NotProcessed,
                    ..
                },
            )
            | (
                Verdict::Applied | Verdict::Refused,
                Evidence::Interrupted { .. }
                | Evidence::Answered {
                    class: AnswerClass::Ambiguous,
                    ..
                },
            ) => Effect::Nothing,
        };
        // The attempt has ended, whatever it showed.
        self.attempts.remove(index);
        effect
    }

    fn observe_unfinished(
        &mut self,
        index: usize,
        evidence: &Evidence,
        open: bool,
        now: Moment,
    ) -> Effect {
        let Some(attempt) = self.attempts.get_mut(index) else {
            return Effect::Nothing;
        };
        let before = attempt.end;
        let disproved = !attempt.may_have_acted();
        match evidence {
            Evidence::NotSent(_)
            | Evidence::Answered {
                class: AnswerClass::NotProcessed,
                ..
            } if before == AttemptEnd::Disproved(Provenance::Answer) => {
                return Effect::Nothing;
            }
            Evidence::NotSent(unsent) => {
                self.disprove(index, WhyNot::NotSent(*unsent), now);
            }
            Evidence::Interrupted { phase, why } => {
                // Silent, then listening, then closed: a write that is repeated late never goes back.
                let end = match (before, open) {
                    (AttemptEnd::Silent, true) => AttemptEnd::Open(*phase, *why),
                    (AttemptEnd::Silent | AttemptEnd::Open(..), false) => {
                        AttemptEnd::Closed(*phase, *why)
                    }
                    _ if broken(Rule::LateWriteChangesNothing) && open => {
                        AttemptEnd::Open(*phase, *why)
                    }
                    (AttemptEnd::Open(..), true)
                    | (
                        AttemptEnd::Closed(..)
                        | AttemptEnd::Ambiguous(_)
                        | AttemptEnd::Disproved(_),
                        _,
                    ) => return Effect::Nothing,
                };
                attempt.end = end;
                self.become_uncertain(now);
            }
            Evidence::Answered { answer, class } => match class {
                AnswerClass::Applied if disproved && broken(Rule::LateProofCompletes) => {
                    return Effect::Nothing;
                }
                AnswerClass::Applied => self.complete_from(index, Verdict::Applied, answer, now),
                AnswerClass::Refused if self.refusal_is_definitive(index) => {
                    self.complete_from(index, Verdict::Refused, answer, now);
                }
                // A condition that fails on a repeat may fail because the first attempt met it.
                AnswerClass::ConditionFailed if self.failed_condition_is_definitive(index) => {
                    self.complete_from(index, Verdict::Refused, answer, now);
                }
                AnswerClass::NotProcessed => {
                    self.disprove(index, WhyNot::NotProcessed(answer.status), now);
                }
                AnswerClass::Refused | AnswerClass::ConditionFailed | AnswerClass::Ambiguous => {
                    if disproved {
                        return Effect::Nothing;
                    }
                    if let Some(attempt) = self.attempts.get_mut(index) {
                        attempt.end = AttemptEnd::Ambiguous(answer.status);
                    }
                    self.become_uncertain(now);
                }
            },
        }
        Effect::Changed
    }

    /// Proof that one attempt had no effect. The verdict needs proof for all of them.
    fn disprove(&mut self, index: usize, why: WhyNot, now: Moment) {
        match why {
            WhyNot::NotSent(_) => self.forget_unsent(index),
            // It reached the upstream: its form stays listed, for late proof of the opposite.
            WhyNot::NotProcessed(_) => self.mark_disproved(index, Provenance::Answer),
            WhyNot::Said(by) => self.mark_disproved(index, by),
        }
        self.changed = now;
        let proved = self.unproven() == 0 || broken(Rule::EveryAttemptIsDisproved);
        match (&self.state, proved) {
            // What somebody said stands: this attempt confirms it, or says nothing of the others.
            (State::NotApplied(_), _) => {}
            (_, true) => self.state = State::NotApplied(why),
            (_, false) => self.become_uncertain(now),
        }
    }

    /// Nothing left: the attempt is as if it had never been.
    fn forget_unsent(&mut self, index: usize) {
        let attempt = self.attempts.remove(index);
        if attempt.resend {
            // An attempt that sent nothing uses none up.
            self.resends = self.resends.saturating_sub(1);
        }
        let began_the_lifetime = self
            .key_use
            .first
            .is_some_and(|(first, _)| first == attempt.id);
        let others = self
            .attempts
            .iter()
            .any(|other| other.round == attempt.round);
        if began_the_lifetime && (!others || broken(Rule::LifetimeSurvivesUnsent)) {
            self.key_use.first = None;
        }
    }

    fn mark_disproved(&mut self, index: usize, by: Provenance) {
        if let Some(attempt) = self.attempts.get_mut(index) {
            attempt.end = AttemptEnd::Disproved(by);
        }
        let disproved = |attempt: &Attempt| !attempt.may_have_acted();
        if self
            .attempts
            .iter()
            .filter(|attempt| disproved(attempt))
            .count()
            > DISPROVED_KEPT
            && let Some(oldest) = self.attempts.iter().position(disproved)
        {
            self.attempts.remove(oldest);
        }
    }

    /// INTENDED becomes UNCERTAIN; whatever else stands, stays.
    fn become_uncertain(&mut self, now: Moment) {
        self.changed = now;
        if self.state == State::Intended {
            self.state = State::Uncertain;
        }
    }

    fn complete_from(&mut self, index: usize, verdict: Verdict, answer: &Answer, now: Moment) {
        let Some(attempt) = self.attempts.get(index) else {
            return;
        };
        // The operation is complete *as that form*; a corrected caller then finds another
        // fingerprint.
        if !broken(Rule::CompletesAsItsForm) {
            self.fingerprint = attempt.fingerprint;
        }
        let by = attempt.id;
        self.attempts.remove(index);
        self.complete(
            Completion {
                verdict,
                provenance: Provenance::Answer,
                attempt: Some(by),
                answer: Some(answer.clone()),
                at: now,
            },
            now,
        );
    }

    /// Ends the operation. Attempts that are still open stay listed, so that what they bring can be
    /// told apart from a repetition.
    pub fn complete(&mut self, completion: Completion, now: Moment) {
        self.state = State::Completed(completion);
        self.request_kept = false;
        self.changed = now;
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
