//! A person cancels, advances or reopens a resource (contract §5 and §7).
//!
//! What always holds: the register changes first, whoever is to be signalled comes after. A cancel
//! and an advance close the mark and cut off every operation admitted so far: none of them is sent
//! again, also after a reopening. Nothing is ever lowered. Saying the same twice is harmless.
//!
//! What it does not do: signal holders, burn a generation of the built-in source (`lease`), or repair
//! a resource after a wild token.

use super::broken::{Rule, broken};
use super::command::{Changes, Decision, Event, Reply, Steer, Steered, Steering};
use super::decide::fence_or_unseen;
use super::fence::{Fence, INTERVENTIONS, Intervention};
use super::view::View;

pub(super) fn steer(view: &View, steer: &Steer) -> Decision {
    let mut fence = fence_or_unseen(view, &steer.resource);
    match steer.how {
        Steering::Cancel => {
            fence.cut_off_all();
            fence.cancelled = true;
        }
        Steering::Advance => fence.cut_off_all(),
        Steering::Reopen if !fence.cancelled => {
            return Decision {
                changes: Changes::default(),
                reply: Reply::Steered(Steered::NotCancelled),
            };
        }
        Steering::Reopen => fence.reopen(),
    }
    // Whoever says what stands already leaves it as it is: the first one did it.
    let as_it_was = view.fence.as_ref() == Some(&fence);
    if !as_it_was {
        fence.note(steer);
    }
    let events = view
        .unsettled
        .iter()
        .map(|operation| Event {
            key: operation.key.clone(),
            at: steer.at,
            attempt: None,
            text: format!(
                "its resource was {} by {}: {}",
                steer.how.past(),
                steer.operator,
                steer.reason
            ),
        })
        .collect();
    let reply = Reply::Steered(Steered::Done {
        incarnation: fence.incarnation,
        mark: fence.mark,
        in_flight: view.unsettled.to_vec(),
    });
    let changes = Changes {
        fence: (!as_it_was).then_some(fence),
        events,
        ..Changes::default()
    };
    Decision { changes, reply }
}

impl Fence {
    /// Closes the mark, and whatever was admitted until now is never sent again.
    fn cut_off_all(&mut self) {
        if !broken(Rule::AdvanceClosesTheMark) {
            self.closed = true;
        }
        if !broken(Rule::WhatWasAdmittedIsCutOff) {
            self.cut_off = self.admissions;
        }
        if !broken(Rule::CutOffEndsTheLease) {
            self.lease = None;
        }
    }

    /// Who did what to it, for whoever asks later. The last few are kept.
    fn note(&mut self, steer: &Steer) {
        let intervention = Intervention {
            how: steer.how,
            operator: steer.operator.clone(),
            reason: steer.reason.clone(),
            at: steer.at,
        };
        let known = self.interventions.len();
        let earlier = self.interventions.iter();
        let kept = earlier.skip(known.saturating_add(1).saturating_sub(INTERVENTIONS));
        self.interventions = kept.cloned().chain([intervention]).collect();
    }

    /// A new incarnation. The mark stays, and stays closed: the next token must be above it.
    fn reopen(&mut self) {
        self.incarnation.0 = self.incarnation.0.saturating_add(1);
        self.cancelled = false;
    }
}

impl Steering {
    /// For a person.
    pub fn past(self) -> &'static str {
        match self {
            Self::Cancel => "cancelled",
            Self::Advance => "advanced",
            Self::Reopen => "reopened",
        }
    }
}
