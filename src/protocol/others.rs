//! What the evidence of one attempt may say about the others: as little as possible.
//!
//! What always holds: a definitive no to one attempt ends the operation only where no other attempt
//! can have had the effect. Whether another one did is never guessed from when it was made.
//!
//! What it does not do: judge evidence (`observe`).

use super::broken::{Rule, broken};
use super::operation::{Attempt, AttemptEnd, Operation};
use super::outcome::Provenance;

impl Operation {
    /// Is a refusal of this attempt one of the operation? Of a sole attempt it is. Of a repeat only
    /// where the upstream remembers refusals, and then only for attempts under the same key. Never
    /// under an earlier key: that one was given up, and its refusal must not raise the round again.
    pub(super) fn refusal_is_definitive(&self, index: usize) -> bool {
        let Some(refused) = self.attempts.get(index) else {
            return false;
        };
        let remembered = self.settle.key.is_some_and(|key| key.remembers_refusals)
            && self.settle.capability.idempotent;
        let in_force = refused.round == self.key_use.round;
        let of_all = self
            .others(index)
            .all(|other| !other.may_have_acted() || (remembered && other.round == refused.round));
        (in_force && of_all) || broken(Rule::RefusalOfRepeatProvesNothing)
    }

    /// Is a failed condition of this attempt a refusal of the operation? Not where an earlier one may
    /// have met it, also where somebody else said that it did not: a person who was wrong would show
    /// in this very answer.
    pub(super) fn failed_condition_is_definitive(&self, index: usize) -> bool {
        self.others(index).all(|other| !other.may_still_surprise())
            || broken(Rule::ConditionOfRepeatProvesNothing)
    }

    /// Has no other attempt had an effect, for all that anybody said?
    pub(super) fn is_sole_attempt(&self, index: usize) -> bool {
        self.others(index).all(|other| !other.may_have_acted())
    }

    /// No attempt so far had an effect: somebody says so of all of them. They stay listed, for late
    /// proof of the opposite.
    pub(super) fn disprove_all(&mut self, by: Provenance) {
        for attempt in &mut self.attempts {
            attempt.end = AttemptEnd::Disproved(by);
        }
    }

    /// Somebody said that none of the attempts that may have acted had an effect. What is disproved already
    /// stays so by whom it was.
    pub(super) fn disprove_open(&mut self, by: Provenance) {
        for attempt in &mut self.attempts {
            if attempt.may_have_acted() {
                attempt.end = AttemptEnd::Disproved(by);
            }
        }
    }

    /// Attempts that nobody has disproved.
    pub(super) fn unproven(&self) -> usize {
        let all = self.attempts.iter();
        all.filter(|attempt| attempt.may_have_acted()).count()
    }

    fn others(&self, index: usize) -> impl Iterator<Item = &Attempt> {
        let all = self.attempts.iter().enumerate();
        all.filter(move |(at, _)| *at != index)
            .map(|(_, other)| other)
    }
}
