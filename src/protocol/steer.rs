//! A person cancels, advances or reopens a resource (contract §5 and §7), lets a token in (`accept`) or repairs it
//! after a wild one (`repair`).
//!
//! What always holds: the register changes first, whoever is to be signalled comes after. A cancel
//! and an advance close the mark and cut off every operation admitted so far: none of them is sent
//! again, also after a reopening; the lease is gone, so that its holder's renewal is refused, and the next token
//! that the register issues lies above all that it ever handed out. Within an incarnation nothing is ever lowered.
//! Saying the same twice is harmless.
//!
//! What it does not do: signal holders.

use super::accept;
use super::broken::{Rule, broken};
use super::command::{Changes, Decision, Event, Reply, Steer, Steered, Steering};
use super::decide::{fence_or_unseen, unchanged};
use super::fence::{Deed, Fence, INTERVENTIONS, Intervention};
use super::repair;
use super::view::View;

pub(super) fn steer(view: &View, steer: &Steer) -> Decision {
    let mut fence = fence_or_unseen(view, &steer.resource);
    let deed = match act(view, &mut fence, &steer.how) {
        Ok(deed) => deed,
        Err(refusal) => return unchanged(Reply::Steered(refusal)),
    };
    // Whoever says what stands already leaves it as it is: the first one did it.
    let as_it_was = view.fence.as_ref() == Some(&fence);
    if !as_it_was {
        fence.note(steer, deed);
    }
    let reply = Reply::Steered(Steered::Done {
        incarnation: fence.incarnation,
        mark: fence.mark,
        closed: fence.closed,
        in_flight: view.unsettled.to_vec(),
    });
    let mut events = told_to_all(view, steer, deed);
    if !as_it_was {
        events.extend(repair::disowned(view, steer));
    }
    let changes = Changes {
        fence: (!as_it_was).then_some(fence),
        events,
        ..Changes::default()
    };
    Decision { changes, reply }
}

fn act(view: &View, fence: &mut Fence, how: &Steering) -> Result<Deed, Steered> {
    match how {
        Steering::Cancel => {
            fence.cut_off_all();
            fence.cancelled = true;
            Ok(Deed::Cancelled)
        }
        Steering::Advance => {
            fence.cut_off_all();
            Ok(Deed::Advanced)
        }
        Steering::Reopen if !fence.cancelled => Err(Steered::NotCancelled),
        Steering::Reopen => {
            fence.reopen();
            Ok(Deed::Reopened)
        }
        Steering::Accept { token, source } => {
            let accepted = accept::accept(fence, view.epoch, *token, source.as_ref());
            accepted.map_err(Steered::NotAccepted)
        }
        Steering::Repair { to, disown } => {
            let repaired = repair::repair(view, fence, *to, disown, how);
            repaired.map_err(Steered::NotRepaired)
        }
    }
}

fn told_to_all(view: &View, steer: &Steer, deed: Deed) -> Vec<Event> {
    let text = format!(
        "its resource was {} by {}: {}",
        deed.told(),
        steer.operator,
        steer.reason
    );
    let event = |key: &super::ids::OperationKey| Event {
        key: key.clone(),
        at: steer.at,
        attempt: None,
        text: text.clone(),
    };
    view.unsettled.iter().map(|it| event(&it.key)).collect()
}

impl Fence {
    /// Closes the mark, and whatever was admitted until now is never sent again. What the register itself issued
    /// last stays known, so that the next one lies above it; whoever holds the lease finds it gone.
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
    fn note(&mut self, steer: &Steer, how: Deed) {
        let intervention = Intervention {
            how,
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
        self.incarnation = self.incarnation.next();
        self.cancelled = false;
    }

    /// Is this what a person did to it last?
    pub(super) fn was_last(&self, how: Deed) -> bool {
        self.interventions.last().is_some_and(|it| it.how == how)
    }
}

impl Deed {
    /// For a person.
    pub fn past(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Advanced => "advanced",
            Self::Reopened => "reopened",
            Self::Accepted(_) => "accepted",
            Self::Repaired(_) => "repaired",
        }
    }

    /// For a person, with the token: to be said of the resource.
    pub fn told(self) -> String {
        match self {
            Self::Cancelled | Self::Advanced | Self::Reopened => self.past().to_owned(),
            Self::Accepted(token) => format!("raised to the accepted token {token}"),
            Self::Repaired(token) => format!("repaired to token {token}"),
        }
    }
}

impl Steering {
    /// For a person.
    pub fn past(&self) -> &'static str {
        match self {
            Self::Cancel => "cancelled",
            Self::Advance => "advanced",
            Self::Reopen => "reopened",
            Self::Accept { .. } => "accepted",
            Self::Repair { .. } => "repaired",
        }
    }
}
