//! Settle before supersede (contract §4): who has to wait for whom, and who is whose twin.
//!
//! What always holds: nothing is admitted over an unsettled operation that is older, or that must be
//! ordered with it, unless the request carries its own condition; a twin is judged at once and noted.
//!
//! What it does not do: wait, or judge tokens (`admission`).

use super::admission::{Caller, Desk};
use super::broken::{Rule, broken};
use super::command::{Event, Ruling};
use super::fence::{Generation, ordered_within};
use super::policy::{IfOlderUnsettled, IfTwin, TokenMode};
use super::rejection::Rejection;
use super::view::{TwinNote, Unsettled};

impl Desk<'_> {
    pub(super) fn settle_before_supersede(
        &mut self,
        caller: &Caller,
    ) -> Result<Option<Ruling>, Rejection> {
        let Some((_, policy)) = self.fenced() else {
            return Ok(None);
        };
        let policy = *policy;
        let Some(fence) = self.fence.as_ref() else {
            return Ok(None);
        };
        let newcomer: Generation = (fence.incarnation, caller.token());
        let in_the_way: Vec<&Unsettled> = self
            .view
            .unsettled
            .iter()
            .filter(|other| other.key != self.key && self.must_wait_for(other, newcomer))
            .collect();
        let twin = in_the_way.iter().find(|other| {
            !broken(Rule::TwinIsJudged)
                && other.generation == newcomer
                && self.shares_callers_with(other)
                && self.admit.meaning.is(&other.fingerprint)
                && ordered_within(other.order, self.admit.policy.order)
        });
        if let (Some(first), IfTwin::Refuse | IfTwin::Answer) = (twin, policy.if_twin) {
            return self.answer_twin(first, policy.if_twin);
        }
        let Some(first) = in_the_way.first() else {
            return Ok(None);
        };
        let at_most = match policy.if_older_unsettled {
            IfOlderUnsettled::Send(_) if self.may_go_ahead_of(&in_the_way) => return Ok(None),
            IfOlderUnsettled::Send(at_most) | IfOlderUnsettled::Wait(at_most) => Some(at_most),
            IfOlderUnsettled::Refuse => None,
        };
        let stuck = in_the_way.iter().find(|other| other.needs_attention);
        let predecessor = stuck.unwrap_or(first).key.clone();
        match (stuck, at_most) {
            (None, Some(at_most)) if !self.is_observing() => Ok(Some(Ruling::Wait {
                predecessor,
                at_most,
            })),
            (None | Some(_), Some(_) | None) => {
                self.refuse_unless_observing(Rejection::PredecessorUnsettled {
                    predecessor: Box::new(predecessor),
                    waiting_may_help: stuck.is_none(),
                })?;
                Ok(None)
            }
        }
    }

    /// Only where the upstream orders both: the newcomer's condition protects it, but an older
    /// request that carries none could still come after it.
    fn may_go_ahead_of(&self, in_the_way: &[&Unsettled]) -> bool {
        let conditional = in_the_way.iter().all(|older| older.conditional);
        (self.admit.conditional && conditional) || broken(Rule::OnlyConditionalGoesAhead)
    }

    /// Twins are of one caller: nobody is answered with what another account or upstream said.
    fn shares_callers_with(&self, other: &Unsettled) -> bool {
        other.key.upstream == self.key.upstream && other.key.principal == self.key.principal
    }

    /// Are tokens observed here?
    pub(super) fn is_observing(&self) -> bool {
        self.fenced()
            .is_some_and(|(_, policy)| policy.token == TokenMode::Observe)
    }

    /// Older generations always; the own generation where order is strict. A request without a token
    /// waits for every unsettled one.
    fn must_wait_for(&self, other: &Unsettled, newcomer: Generation) -> bool {
        let (incarnation, token) = newcomer;
        if other.generation.0 == incarnation && token.is_none() {
            return !broken(Rule::TokenlessWaits);
        }
        if other.generation == newcomer {
            return ordered_within(other.order, self.admit.policy.order)
                && !broken(Rule::StrictWithinGeneration);
        }
        other.generation < newcomer && !broken(Rule::SettleBeforeSupersede)
    }

    fn answer_twin(
        &mut self,
        first: &Unsettled,
        if_twin: IfTwin,
    ) -> Result<Option<Ruling>, Rejection> {
        let first_key = first.key.clone();
        if self.is_observing() {
            let first = Box::new(first_key);
            self.refuse_unless_observing(Rejection::NearDuplicate { first })?;
            return Ok(None);
        }
        self.changes.twin = Some(TwinNote {
            key: self.key.clone(),
            first: first_key.clone(),
            // As the first was fingerprinted, also where the form has changed since.
            fingerprint: first.fingerprint,
        });
        let at = self.admit.at;
        let text = format!(
            "repeated by its twin {} in the same generation",
            self.key.id
        );
        self.changes.events.push(Event {
            key: first_key.clone(),
            at,
            attempt: None,
            text,
        });
        match if_twin {
            IfTwin::Answer if first.needs_attention => {
                Err(Rejection::NeedsAttention(Box::new(first_key)))
            }
            IfTwin::Answer if first.credentialed && !self.admit.credentialed => {
                Err(Rejection::CredentialRequired(Box::new(first_key)))
            }
            IfTwin::Answer => Ok(Some(Ruling::Join {
                key: first_key,
                attempt: None,
                admitted: 0,
                uncertain: true,
                licenses: false,
            })),
            IfTwin::Refuse | IfTwin::Send => Err(Rejection::NearDuplicate {
                first: Box::new(first_key),
            }),
        }
    }
}
