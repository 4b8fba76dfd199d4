//! What the evidence of one attempt may say about the others: as little as possible.
//!
//! What always holds: a definitive no to one attempt ends the operation only where no other attempt
//! can have had the effect. Whether another one did is never guessed from when it was made.
//!
//! What it does not do: judge evidence (`observe`).

use super::broken::{Rule, broken};
use super::finding::{Finder, Finding};
use super::ids::{AttemptId, Fingerprint};
use super::operation::{Attempt, AttemptEnd, Operation, State};
use super::outcome::Provenance;
use super::time::Millis;

/// How many attempts that reached the upstream without effect stay listed with an operation that is
/// admitted again and again.
const DISPROVED_KEPT: usize = 16;

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

    /// How many attempts are known to have reached the upstream, or may have: those that are listed, and the
    /// one whose answer ended it.
    pub(super) fn reached(&self) -> usize {
        let ended_by = match &self.state {
            State::Completed(completion) => completion.attempt,
            State::Intended
            | State::Uncertain
            | State::NeedsAttention(_)
            | State::NotApplied(_) => None,
        };
        let listed = |id| self.attempts.iter().any(|attempt| attempt.id == id);
        let apart = ended_by.is_some_and(|id| !listed(id));
        self.attempts.len().saturating_add(usize::from(apart))
    }

    /// What was found to be applied by a question that left before a later attempt was admitted: the newest of
    /// those that it can be. The later one, if it is applied too, is a second effect. (If the question was under
    /// way for longer than that whole attempt, it may have seen just that: then it is told for nothing.)
    pub(super) fn found_of_earlier_turn(
        &self,
        finding: &Finding,
        form: Fingerprint,
    ) -> Option<AttemptId> {
        let since = self.admitted.saturating_sub(finding.admitted);
        if since == 0 || broken(Rule::EarlierFindingNamesEarlier) {
            return None;
        }
        let since = usize::try_from(since).unwrap_or(usize::MAX);
        // Of those admitted since then some may have sent nothing, and are not listed any more.
        let after_asking = |attempt: &Attempt| match finding.by {
            Finder::LookUp { asked_at, .. } => {
                attempt.at.boot != asked_at.boot || attempt.at.boottime >= asked_at.boottime
            }
            Finder::Callback { .. } => true,
        };
        let all = self.attempts.iter().enumerate();
        let mut earlier = all.filter(|(index, attempt)| {
            let among_last = index.saturating_add(since) >= self.attempts.len();
            let can_be = attempt.fingerprint == form && attempt.may_still_surprise();
            can_be && !(among_last && after_asking(attempt))
        });
        earlier.next_back().map(|(_, attempt)| attempt.id)
    }

    /// A corrected request follows one that was refused: that attempt reached the upstream, and what others
    /// say of the operation may be a late word on it.
    pub(super) fn list_the_refused(&mut self) {
        let State::Completed(completion) = &self.state else {
            return;
        };
        let Some(id) = completion.attempt.filter(|id| !self.lists(*id)) else {
            return;
        };
        self.attempts.push(Attempt {
            id,
            round: self.key_use.round,
            fingerprint: self.fingerprint,
            at: completion.at,
            overdue_after: Millis::default(),
            resend: false,
            end: AttemptEnd::Disproved(Provenance::Answer),
        });
        self.keep_few_disproved();
    }

    /// So many of them: those that nobody but their own answer denies go first.
    pub(super) fn keep_few_disproved(&mut self) {
        let disproved = |attempt: &Attempt| !attempt.may_have_acted();
        let count = self.attempts.iter().filter(|it| disproved(it)).count();
        if count > DISPROVED_KEPT
            && let Some(oldest) = self
                .attempts
                .iter()
                .position(|attempt| !attempt.may_still_surprise())
                .or_else(|| self.attempts.iter().position(disproved))
        {
            self.attempts.remove(oldest);
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
