//! What evidence does to an operation (contract §3): the transition function of attempts that ended.
//!
//! What always holds: every state × evidence has an arm of its own; NOT_APPLIED needs proof for every
//! attempt that may have acted; evidence says nothing of any attempt but its own, unless the upstream
//! remembers what it said under their common key.
//!
//! What it does not do: admit (`admission`), resolve (`decide`), or say what states mean
//! (`operation`).

use super::broken::{Rule, broken};
use super::ids::AttemptId;
use super::meaning::Members;
use super::operation::{Attempt, AttemptEnd, Completion, Effect, Operation, State, WhyNot};
use super::outcome::{Answer, AnswerClass, Evidence, Provenance, Verdict};
use super::time::Moment;

impl Attempt {
    /// How it stands after that, for all that it says by itself.
    fn end_after(&self, evidence: &Evidence, open: bool) -> AttemptEnd {
        match evidence {
            Evidence::NotSent(_) => AttemptEnd::Disproved(Provenance::Answer),
            // Silent, then listening, then closed: a write that is repeated late never goes back.
            Evidence::Interrupted { phase, why } => match (self.end, open) {
                (AttemptEnd::Silent, true) => AttemptEnd::Open(*phase, *why),
                (AttemptEnd::Silent | AttemptEnd::Open(..), false) => {
                    AttemptEnd::Closed(*phase, *why)
                }
                (AttemptEnd::Open(..), true)
                | (
                    AttemptEnd::Closed(..) | AttemptEnd::Ambiguous(_) | AttemptEnd::Disproved(_),
                    _,
                ) => self.end,
            },
            Evidence::Answered { answer, class } => match class {
                AnswerClass::Applied | AnswerClass::Ambiguous => {
                    AttemptEnd::Ambiguous(answer.status)
                }
                AnswerClass::Refused | AnswerClass::ConditionFailed | AnswerClass::NotProcessed => {
                    AttemptEnd::Disproved(Provenance::Answer)
                }
            },
        }
    }
}

impl Operation {
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
                self.observe_completed(index, evidence, open)
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

    fn observe_completed(&mut self, index: usize, evidence: &Evidence, open: bool) -> Effect {
        let State::Completed(completion) = &self.state else {
            return Effect::Nothing;
        };
        let Some(attempt) = self.attempts.get(index) else {
            return Effect::Nothing;
        };
        let its_own = completion.attempt.is_none_or(|by| by == attempt.id);
        let is_known = matches!(evidence, Evidence::Answered { .. })
            && attempt.end_after(evidence, open) == attempt.end;
        let effect = match (completion.verdict, evidence) {
            // Written a second time.
            _ if is_known => Effect::Nothing,
            (
                Verdict::Applied,
                Evidence::Answered {
                    class: AnswerClass::Applied,
                    ..
                },
            ) => return self.observe_applied_again(index, evidence),
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
                let sole = self.is_sole_attempt(index);
                if its_own && sole {
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
        self.note_end(index, evidence, open);
        effect
    }

    /// An attempt was applied, and so is the operation: is it the same effect? Where others said so without
    /// naming an attempt, the first that is answered so is the one that they spoke of; every other is a second
    /// effect, but where the upstream deduplicates under the same key: there it is a replay.
    fn observe_applied_again(&mut self, index: usize, evidence: &Evidence) -> Effect {
        let State::Completed(completion) = &mut self.state else {
            return Effect::Nothing;
        };
        let Some(attempt) = self.attempts.get(index) else {
            return Effect::Nothing;
        };
        let (id, round) = (attempt.id, attempt.round);
        let unnamed = completion.attempt.is_none() && attempt.fingerprint == self.fingerprint;
        if unnamed && !broken(Rule::FirstAnswerIsTheOne) {
            completion.attempt = Some(id);
            // Under that key: another key's acceptance is another effect.
            self.key_use.round = round;
        }
        if unnamed || completion.attempt == Some(id) {
            self.attempts.remove(index);
            return Effect::Nothing;
        }
        let same_key = self.settle.capability.idempotent && round == self.key_use.round;
        self.note_end(index, evidence, false);
        // A condition that was met twice was met by two effects: it no longer held, and held again.
        if same_key {
            Effect::Nothing
        } else {
            Effect::Contradiction
        }
    }

    /// The attempt of a COMPLETED operation has come so far. It stays listed, so that what it brings twice is
    /// told apart, and others know how many there were; one that sent nothing is none.
    fn note_end(&mut self, index: usize, evidence: &Evidence, open: bool) {
        match evidence {
            Evidence::NotSent(_) => {
                self.attempts.remove(index);
            }
            Evidence::Interrupted { .. } | Evidence::Answered { .. } => {
                if let Some(attempt) = self.attempts.get_mut(index) {
                    attempt.end = attempt.end_after(evidence, open);
                }
            }
        }
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
                let goes_back = broken(Rule::LateWriteChangesNothing) && open;
                let end = if goes_back {
                    AttemptEnd::Open(*phase, *why)
                } else {
                    attempt.end_after(evidence, open)
                };
                if end == before {
                    return Effect::Nothing;
                }
                attempt.end = end;
                self.become_uncertain(now);
            }
            Evidence::Answered { answer, class } => match class {
                AnswerClass::Applied if disproved && broken(Rule::LateProofCompletes) => {
                    return Effect::Nothing;
                }
                AnswerClass::Applied if self.may_be_undone() => {
                    return self.applied_and_perhaps_undone(index, answer.status, now);
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

    /// Has an undo begun, of which nobody knows what came of it?
    fn may_be_undone(&self) -> bool {
        self.settling.void.is_some() && !broken(Rule::UndoneAnswerProvesNothing)
    }

    /// The attempt's own answer is older than the undo: what was applied then need not be in force now. The
    /// undo's end says how it is, or a look-up after its lag.
    fn applied_and_perhaps_undone(&mut self, index: usize, status: u16, now: Moment) -> Effect {
        let Some(attempt) = self.attempts.get_mut(index) else {
            return Effect::Nothing;
        };
        let end = AttemptEnd::Ambiguous(status);
        if attempt.end == end {
            return Effect::Nothing;
        }
        attempt.end = end;
        // A person knew of the undo, and said that it was not applied.
        if matches!(self.state, State::NotApplied(_)) {
            return Effect::Contradiction;
        }
        self.become_uncertain(now);
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
        // An undo that is on its way would undo what is tried again.
        let undone = self.settling.void.is_some() && !broken(Rule::VoidedIsNotFree);
        match (&self.state, proved && !undone) {
            // What somebody said stands: this attempt confirms it, or says nothing of the others.
            (State::NotApplied(_), _) => {}
            (_, true) => self.state = State::NotApplied(why),
            (_, false) => self.become_uncertain(now),
        }
    }

    /// Nothing left: the attempt is as if it had never been.
    fn forget_unsent(&mut self, index: usize) {
        let attempt = self.attempts.remove(index);
        // An attempt that sent nothing uses none up; a disproved one may be of an earlier admission,
        // whose count is over.
        if attempt.resend && attempt.may_have_acted() {
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
        self.keep_few_disproved();
    }

    /// Whatever admits an operation again has proof that no earlier attempt had an effect, a refusal
    /// that covers them all included. They stay listed, for late proof of the opposite.
    pub(super) fn rule_out_earlier_attempts(&mut self) {
        for attempt in &mut self.attempts {
            if attempt.may_have_acted() {
                attempt.end = AttemptEnd::Disproved(Provenance::Answer);
            }
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
            if self.fingerprint != attempt.fingerprint {
                // What that form was made of is not kept.
                self.members = Members::default();
            }
            self.fingerprint = attempt.fingerprint;
        }
        if verdict == Verdict::Applied {
            // Final, and under that key: another key's acceptance is another effect.
            self.key_use.round = attempt.round;
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
