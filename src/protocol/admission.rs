//! Admission: one atomic decision (contract §4), in this order: the token, the record, the right to
//! act, settle before supersede, the write.
//!
//! What always holds: a valid token above the mark raises the fence, whatever follows; nothing is
//! granted without a reserved connection; a granted operation is INTENDED with its attempt listed.
//!
//! What it does not do: wait. It says `Wait` or `Join`, and is asked again from the start.

use std::sync::Arc;

use super::broken::{Rule, broken};
use super::command::{
    Admission, Admit, Changes, Decision, Grant, Presented, Reply, RequestChange, Ruling,
};
use super::decide::{fence_or_unseen, line};
use super::fence::{Fence, Standing};
use super::ids::{FencingToken, OperationKey};
use super::lease::LeaseFacts;
use super::meaning::Members;
use super::operation::{Attempt, AttemptEnd, KeyUse, Operation, Place, State};
use super::outcome::Provenance;
use super::policy::{FencePolicy, Ownership, PerGeneration, TokenMode};
use super::rejection::Rejection;
use super::repeat::is_corrected_after_refusal;
use super::settling::Settling;
use super::time::Millis;
use super::view::{Record, View};

pub(super) fn admit(view: &View, admit: &Admit) -> Decision {
    let fence = admit
        .presented
        .as_ref()
        .map(|presented| fence_or_unseen(view, &presented.resource));
    let key = match &fence {
        Some(fence) if admit.follows_incarnation => admit.key.within(fence.incarnation),
        Some(_) | None => admit.key.clone(),
    };
    let mut desk = Desk {
        view,
        admit,
        key,
        lease: admit.lease.borne_out(view.fence.as_ref(), view.epoch),
        fence,
        fence_changed: false,
        would_refuse: None,
        changes: Changes::default(),
    };
    let ruling = desk.rule().unwrap_or_else(Ruling::Refused);
    if desk.fence_changed {
        desk.changes.fence = desk.fence;
    }
    let admission = Admission {
        key: desk.key,
        ruling,
        would_refuse: desk.would_refuse,
    };
    Decision {
        changes: desk.changes,
        reply: Reply::Admission(admission),
    }
}

/// Where one request is decided.
pub(super) struct Desk<'a> {
    pub(super) view: &'a View,
    pub(super) admit: &'a Admit,
    pub(super) key: OperationKey,
    /// As far as the register bears it out.
    pub(super) lease: LeaseFacts,
    pub(super) fence: Option<Fence>,
    pub(super) fence_changed: bool,
    pub(super) would_refuse: Option<Rejection>,
    pub(super) changes: Changes,
}

/// What the token makes of the caller.
pub(super) enum Caller {
    /// No fence, or no token where none is needed.
    Tokenless,
    /// A valid token.
    Holder(FencingToken),
    /// An outdated one: stored outcomes, and an attempt only where tokens are observed.
    Stale(FencingToken, Rejection),
}

impl Caller {
    /// Where it stands among the generations. A stale caller that is let pass stands where its token
    /// says: it is older than the mark's, and newer than whoever has no token.
    pub(super) fn token(&self) -> Option<FencingToken> {
        match self {
            Self::Holder(token) | Self::Stale(token, _) => Some(*token),
            Self::Tokenless => None,
        }
    }

    /// The generation that it acts for: only a valid token uses one up.
    fn holds(&self) -> Option<FencingToken> {
        match self {
            Self::Holder(token) => Some(*token),
            Self::Tokenless | Self::Stale(..) => None,
        }
    }
}

impl Desk<'_> {
    fn rule(&mut self) -> Result<Ruling, Rejection> {
        let caller = self.judge_token()?;
        if let Some(ruling) = self.consult_record(&caller)? {
            return Ok(ruling);
        }
        if let Some(ruling) = self.join_equal_without_key(&caller)? {
            return Ok(ruling);
        }
        self.check_right_to_act(&caller)?;
        if let Some(ruling) = self.settle_before_supersede(&caller)? {
            return Ok(ruling);
        }
        Ok(self.write(&caller))
    }

    pub(super) fn fenced(&self) -> Option<(&Presented, &FencePolicy)> {
        Some((
            self.admit.presented.as_ref()?,
            self.admit.policy.fence.as_ref()?,
        ))
    }

    /// Under `observe` what would be refused is noted (the first reason counts) and let pass.
    pub(super) fn refuse_unless_observing(
        &mut self,
        rejection: Rejection,
    ) -> Result<(), Rejection> {
        match self.fenced().map(|(_, policy)| policy.token) {
            Some(TokenMode::Observe) if !broken(Rule::ObservedIsLetPass) => {
                self.would_refuse.get_or_insert(rejection);
                Ok(())
            }
            Some(TokenMode::Require | TokenMode::Prefer | TokenMode::Observe) | None => {
                Err(rejection)
            }
        }
    }

    fn judge_token(&mut self) -> Result<Caller, Rejection> {
        let Some((presented, policy)) = self.fenced() else {
            return Ok(Caller::Tokenless);
        };
        let (presented, policy) = (presented.clone(), *policy);
        let Some(fence) = self.fence.as_mut() else {
            return Ok(Caller::Tokenless);
        };
        match fence.judge(self.view.epoch, &presented, &policy) {
            Standing::NoToken => Ok(Caller::Tokenless),
            Standing::Valid { token, .. } => {
                let observed = policy.token == TokenMode::Observe;
                let raised = !(observed && broken(Rule::ObservedRaisesTheMark))
                    && fence.raise(token, &presented);
                self.fence_changed |= raised && !broken(Rule::MarkRisesWhateverFollows);
                Ok(Caller::Holder(token))
            }
            Standing::Stale { token, rejection } => Ok(Caller::Stale(token, rejection)),
            Standing::Refused(rejection) => {
                self.refuse_unless_observing(rejection)?;
                Ok(Caller::Tokenless)
            }
        }
    }

    fn check_right_to_act(&mut self, caller: &Caller) -> Result<(), Rejection> {
        if let Caller::Stale(_, rejection) = caller
            && !broken(Rule::StaleNeverActs)
        {
            self.refuse_unless_observing(rejection.clone())?;
        }
        let Some((presented, policy)) = self.fenced() else {
            return Ok(());
        };
        let (presented, policy) = (presented.clone(), *policy);
        if policy.require == Ownership::Current
            && !self.is_current()
            && !broken(Rule::CurrentNeedsLiveLease)
        {
            self.refuse_unless_observing(Rejection::LeaseNotCurrent)?;
        }
        let Some(fence) = self.fence.as_ref() else {
            return Ok(());
        };
        if fence.cancelled && !broken(Rule::CancelledAdmitsNothing) {
            return Err(Rejection::ResourceCancelled);
        }
        let used = match (policy.per_generation, caller.holds()) {
            (PerGeneration::Many, _) | (_, None) => None,
            (PerGeneration::One, Some(_)) => fence
                .first
                .as_ref()
                .filter(|first| **first != self.key && !broken(Rule::OnePerGeneration))
                .map(|first| Rejection::GenerationUsed {
                    by: Box::new(first.clone()),
                }),
            (PerGeneration::Numbered, Some(token)) => {
                self.sequence_regressed(fence, &presented, token)
            }
        };
        match used {
            Some(rejection) => self.refuse_unless_observing(rejection),
            None => Ok(()),
        }
    }

    pub(super) fn is_current(&self) -> bool {
        self.lease.left(self.admit.at.boottime) > Millis::default()
    }

    fn sequence_regressed(
        &self,
        fence: &Fence,
        presented: &Presented,
        token: FencingToken,
    ) -> Option<Rejection> {
        let (sequence, last) = (presented.sequence, fence.sequence);
        let above = sequence.is_some() && sequence > last;
        // A NOT_APPLIED operation may repeat its own while no higher was admitted.
        let its_own = match &self.view.record {
            Some(Record::Operation(operation)) => operation.place.as_ref().is_some_and(|place| {
                sequence.is_some()
                    && place.sequence == sequence
                    && sequence == last
                    && place.token == Some(token)
            }),
            Some(Record::Twin(_)) | None => false,
        };
        let regressed = !above && !its_own && !broken(Rule::SequenceRises);
        regressed.then_some(Rejection::SequenceRegressed {
            presented: sequence,
            last,
        })
    }

    fn write(&mut self, caller: &Caller) -> Ruling {
        if !self.admit.reserved && !broken(Rule::ReserveFirst) {
            return Ruling::ReserveFirst;
        }
        if let Some(ruling) = self.already_granted() {
            return ruling;
        }
        let place = self.take_place(caller);
        let mut operation = self.intend(place);
        let round = operation.key_use.round;
        let look_again = self.may_be_surprised() && !broken(Rule::LookAgain);
        operation.rule_out_earlier_attempts();
        operation.attempts.push(Attempt {
            id: self.admit.attempt,
            round,
            fingerprint: self.admit.meaning.fingerprint,
            at: self.admit.at,
            overdue_after: self.admit.policy.timeouts.overdue_after(),
            resend: false,
            end: AttemptEnd::Silent,
        });
        operation.key_use.began(self.admit.attempt, self.admit.at);
        if broken(Rule::IntentListsItsAttempt) {
            operation.attempts.pop();
        }
        if operation.admitted > 1 {
            let text = format!("admitted again, attempt {}", operation.admitted);
            self.changes.events.push(line(
                &operation,
                self.admit.at,
                Some(self.admit.attempt),
                text,
            ));
        }
        if operation.request_kept {
            self.changes.request = RequestChange::Keep(Arc::clone(&self.admit.request));
        }
        self.changes.operation = Some(Box::new(operation));
        Ruling::Granted(Grant {
            key: self.key.clone(),
            attempt: self.admit.attempt,
            round,
            origin: self.admit.origin,
            dispatch_by: self.dispatch_by(),
            look_again,
            request: None,
        })
    }

    /// An admission that is written again, because nobody knows whether it committed, finds its own
    /// attempt and is not granted a second time, however that attempt ended.
    fn already_granted(&self) -> Option<Ruling> {
        match &self.view.record {
            Some(Record::Operation(operation))
                if operation.lists(self.admit.attempt)
                    && !broken(Rule::RepeatedWriteGrantsOnce) =>
            {
                Some(Ruling::Join {
                    key: operation.key.clone(),
                    attempt: Some(self.admit.attempt),
                    admitted: operation.admitted,
                    uncertain: operation.state.is_unsettled(),
                    licenses: false,
                })
            }
            Some(Record::Operation(_) | Record::Twin(_)) | None => None,
        }
    }

    /// Was some earlier attempt declared ineffective by anybody but its own answer, or does it listen
    /// still? Asked of the record as it stands, before this admission rules those attempts out.
    fn may_be_surprised(&self) -> bool {
        match &self.view.record {
            Some(Record::Operation(earlier)) => {
                earlier.attempts.iter().any(Attempt::may_still_surprise)
            }
            Some(Record::Twin(_)) | None => false,
        }
    }

    fn take_place(&mut self, caller: &Caller) -> Option<Place> {
        let presented = self.admit.presented.as_ref()?;
        let fence = self.fence.as_mut()?;
        let token = caller.token();
        let sequence = presented.sequence.filter(|_| token.is_some());
        let number = fence.enter(&self.key, token, sequence, self.admit.policy.order);
        self.fence_changed = true;
        let resource = presented.resource.name.clone();
        Some(Place {
            resource,
            incarnation: fence.incarnation,
            token,
            sequence,
            number,
        })
    }

    /// The operation as INTENDED, before its attempt is listed.
    fn intend(&self, place: Option<Place>) -> Operation {
        let (admit, policy) = (self.admit, &self.admit.policy);
        let require = policy
            .fence
            .map_or(Ownership::NotOlder, |fence| fence.require);
        let mut operation = match &self.view.record {
            Some(Record::Operation(earlier)) => {
                let mut operation = (**earlier).clone();
                if !broken(Rule::RefusedStaysListed) {
                    operation.list_the_refused();
                }
                if is_corrected_after_refusal(earlier, admit) || broken(Rule::RetryKeepsKey) {
                    // Attempts still open are under the key that was refused for good.
                    operation.disprove_all(Provenance::Answer);
                    operation.next_round();
                }
                operation
            }
            Some(Record::Twin(_)) | None => Operation {
                key: self.key.clone(),
                origin: admit.origin,
                place: None,
                order: policy.order,
                fingerprint: admit.meaning.fingerprint,
                members: Members::default(),
                credentialed: admit.credentialed,
                key_use: KeyUse {
                    round: super::ids::Round::default(),
                    first: None,
                },
                settle: policy.settle.clone(),
                state: State::Intended,
                attempts: Vec::new(),
                admitted: 0,
                resends: 0,
                require,
                request_kept: policy.keep_request,
                first_seen: admit.at,
                changed: admit.at,
                settling: Settling::default(),
            },
        };
        operation.place = place;
        operation.origin = admit.origin;
        operation.order = policy.order;
        operation.fingerprint = admit.meaning.fingerprint;
        operation.members = admit.meaning.members.clone();
        operation.credentialed = admit.credentialed;
        operation.settle = policy.settle.clone();
        if !admit.conditional && !broken(Rule::ConditionIsTheRequests) {
            // Judged per request: without its condition the upstream orders nothing.
            operation.settle.capability.conditional = false;
        }
        operation.settling = Settling::default();
        operation.require = require;
        operation.state = State::Intended;
        operation.admitted = operation.admitted.saturating_add(1);
        operation.resends = 0;
        operation.request_kept = policy.keep_request;
        operation.changed = admit.at;
        operation
    }

    /// Never beyond the lease's own deadline, where the lease must be live.
    fn dispatch_by(&self) -> super::time::BootInstant {
        let by = self
            .admit
            .at
            .boottime
            .after(self.admit.policy.timeouts.dispatch);
        let current = self
            .fenced()
            .is_some_and(|(_, policy)| policy.require == Ownership::Current);
        match &self.lease.live {
            Some(live) if current && !broken(Rule::DispatchWithinLease) => by.min(live.until),
            Some(_) | None => by,
        }
    }
}
