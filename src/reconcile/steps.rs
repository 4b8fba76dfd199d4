//! The steps of settling one operation, taken one after the other until none is left.
//!
//! What always holds: after every step the operation is read and planned afresh; a step that could
//! not be taken changes nothing.
//!
//! What it does not do: bound how long an upstream may be away. The key's lifetime does.

use std::time::Duration;

use super::Reconciler;
use super::asking::is_settled;
use super::breaker::Turn as BreakerTurn;
use crate::config::{Insert, Upstream};
use crate::dispatch::attempt::Report;
use crate::dispatch::waiters::Ended;
use crate::protocol::command::{Park, Resend, Turn};
use crate::protocol::fence::Fence;
use crate::protocol::ids::{OperationKey, ResourceKey};
use crate::protocol::lease::LeaseFacts;
use crate::protocol::operation::{IdentityOrigin, Operation, Parked, State};
use crate::protocol::outcome::{Evidence, Unsent};
use crate::protocol::plan::{self, Step};
use crate::protocol::policy::KeyPolicy;
use crate::protocol::steps::StepIndex;
use crate::protocol::time::Millis;
use crate::store::{Resent, StoreError};

/// How long a listener may take to close and record its end.
const CLOSING: Duration = Duration::from_secs(5);

/// Pause before an upstream that is away is asked again, in milliseconds; where it stays away, it is left
/// alone for longer.
const AWAY_FIRST: u64 = 1_000;

/// Longest pause between two tries to reach an upstream that is away.
const AWAY: Duration = Duration::from_secs(30);

/// How a pause ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Paused {
    /// Its time was up.
    Fully,
    /// Draining began: no step may be taken any more.
    UntilDrain,
}

/// A pause that is longer than this is not sat out here: there are others to settle.
const SHORT: Millis = Millis(1_000);

/// What a step left.
pub(super) enum After {
    /// Plan again.
    Again,
    /// Plan again after this pause.
    Later(Millis),
    /// Nothing to do now.
    Done,
}

impl Reconciler {
    /// Takes steps until none is left.
    pub(crate) async fn settle(&self, key: &OperationKey) -> Result<(), StoreError> {
        let mut away = Duration::from_millis(200);
        loop {
            if self.dispatcher.supervisor.is_draining() {
                return Ok(());
            }
            let Some(stored) = self
                .dispatcher
                .register
                .read()
                .operation(key, false)
                .await?
            else {
                return Ok(());
            };
            if !self
                .dispatcher
                .register
                .read()
                .may_settle(&stored.operation)
            {
                return Ok(());
            }
            let step = self.next_step(&stored.operation).await?;
            match self.take(&stored.operation, step, &mut away).await? {
                After::Again => {}
                After::Later(pause) if pause <= SHORT => match self.pause(pause).await {
                    Paused::Fully => {}
                    Paused::UntilDrain => return Ok(()),
                },
                After::Later(pause) => {
                    self.wake_later(key, pause);
                    return Ok(());
                }
                After::Done => return Ok(()),
            }
        }
    }

    /// Takes a step that is due, or says when it is.
    async fn take(
        &self,
        operation: &Operation,
        step: Step,
        away: &mut Duration,
    ) -> Result<After, StoreError> {
        let due = match step {
            Step::Nothing | Step::Await => return Ok(After::Done),
            // A callback wakes us; and if none comes, the end of its time does.
            Step::Listen { left } => return Ok(After::Later(left)),
            Step::Park(why) => {
                self.park(operation, why).await?;
                return Ok(After::Done);
            }
            Step::CloseThenPlan { after }
            | Step::Resend { after }
            | Step::Ask { after, .. }
            | Step::Void { after, .. } => after,
        };
        if due > Millis::default() {
            return Ok(After::Later(due));
        }
        if let Some(left) = self.left_alone(operation, step) {
            return Ok(After::Later(left));
        }
        match step {
            Step::CloseThenPlan { .. } => {
                self.close_listener(&operation.key).await;
                Ok(After::Again)
            }
            Step::Resend { .. } => self.send_again(operation, away).await,
            Step::Ask { step, .. } | Step::Void { step, .. } => self.ask_of(operation, step).await,
            Step::Nothing | Step::Await | Step::Listen { .. } | Step::Park(_) => Ok(After::Done),
        }
    }

    /// For how long its upstream is still left alone, if the step would go there.
    fn left_alone(&self, operation: &Operation, step: Step) -> Option<Millis> {
        match step {
            Step::Resend { .. } | Step::Ask { .. } | Step::Void { .. } => {
                let now = self.dispatcher.clock.now().boottime;
                match self.breaker_of(&operation.key.upstream).turn(now) {
                    BreakerTurn::Now => None,
                    BreakerTurn::After(left) => Some(left),
                }
            }
            Step::Nothing
            | Step::Await
            | Step::Listen { .. }
            | Step::CloseThenPlan { .. }
            | Step::Park(_) => None,
        }
    }

    /// A question, or an undo.
    async fn ask_of(&self, operation: &Operation, step: StepIndex) -> Result<After, StoreError> {
        let key = &operation.key;
        let gateways = self.gateways.now();
        let Some(gateway) = gateways.by_id(&key.upstream) else {
            hold_back(key, "the config no longer has its upstream");
            return Ok(After::Done);
        };
        let read = self.dispatcher.register.read();
        let Some(stored) = read.operation(key, true).await? else {
            return Ok(After::Done);
        };
        if operation
            .settle
            .steps
            .at(step)
            .is_some_and(|it| it.void().is_some())
        {
            return self.undo(gateway, stored, step).await;
        }
        Ok(match self.ask(gateway, stored, step).await? {
            None => After::Later(Millis(AWAY_FIRST)),
            Some(weighed) if is_settled(weighed.state.as_ref()) => After::Done,
            Some(_) => After::Again,
        })
    }

    async fn next_step(&self, operation: &Operation) -> Result<Step, StoreError> {
        let fence = self.fence_of(operation).await?;
        let lease = LeaseFacts::unknown();
        let living = self.dispatcher.register.living();
        let now = self.dispatcher.clock.now();
        Ok(plan::plan(operation, fence.as_ref(), &lease, &living, &now))
    }

    async fn fence_of(&self, operation: &Operation) -> Result<Option<Fence>, StoreError> {
        let Some(place) = &operation.place else {
            return Ok(None);
        };
        let resource = ResourceKey {
            tenant: operation.key.tenant.clone(),
            name: place.resource.clone(),
        };
        let found = self.dispatcher.register.read().resource(&resource).await?;
        Ok(found.map(|stored| stored.fence))
    }

    async fn pause(&self, length: Millis) -> Paused {
        tokio::select! {
            biased;
            () = self.dispatcher.supervisor.draining() => Paused::UntilDrain,
            () = tokio::time::sleep(Duration::from_millis(length.0)) => Paused::Fully,
        }
    }

    /// The step closes the attempt first: late answers are read until then, and not after.
    pub(super) async fn close_listener(&self, key: &OperationKey) {
        let mut ticket = self.dispatcher.waiters.watch(key);
        self.dispatcher.waiters.ask_to_close(key);
        // Whether or not it answered in time, the operation is read and planned afresh.
        let _ended = tokio::time::timeout(CLOSING, ticket.next()).await;
    }

    async fn send_again(
        &self,
        operation: &Operation,
        away: &mut Duration,
    ) -> Result<After, StoreError> {
        let key = &operation.key;
        let gateways = self.gateways.now();
        let Some(gateway) = gateways.by_id(&key.upstream) else {
            hold_back(key, "the config no longer has its upstream");
            return Ok(After::Done);
        };
        if is_sent_otherwise(operation, &gateway.config) {
            hold_back(key, OTHERWISE);
            return Ok(After::Done);
        }
        let connection = match gateway.pool.reserve().await {
            Ok(connection) => connection,
            Err(unreachable) => {
                let now = self.dispatcher.clock.now().boottime;
                self.breaker_of(&key.upstream).failed(now);
                tracing::warn!(
                    operation = %key.id,
                    upstream = %key.upstream,
                    error = %unreachable,
                    "the upstream is away; settling waits"
                );
                let pause = Millis(u64::try_from(away.as_millis()).unwrap_or(u64::MAX));
                *away = (*away * 2).min(AWAY);
                return Ok(After::Later(pause));
            }
        };
        if self.dispatcher.supervisor.is_draining() {
            return Ok(After::Done);
        }
        let timeouts = gateway.config.timeouts;
        let resend = Resend {
            key: key.clone(),
            attempt: self.dispatcher.next_attempt(),
            dispatch: timeouts.dispatch,
            overdue_after: timeouts.overdue_after(),
            attended: None,
            at: self.dispatcher.clock.now(),
        };
        match self.dispatcher.register.resend(resend).await? {
            Resent::Granted(permit) => {
                let loaded = permit
                    .grant()
                    .request
                    .as_deref()
                    .map(|bytes| gateway.reload(bytes));
                let Some(Ok(load)) = loaded else {
                    self.dispatcher.give_up(permit, Unsent::Unfit).await;
                    self.park(operation, Parked::RequestNotKept).await?;
                    return Ok(After::Done);
                };
                if !load.is_placed_as(operation.settle.key) {
                    self.dispatcher.give_up(permit, Unsent::Unfit).await;
                    hold_back(key, OTHERWISE);
                    return Ok(After::Done);
                }
                let told = self.dispatcher.send_again(permit, connection, load);
                let ended = told.await;
                self.note_exchange(key, ended.as_ref().ok());
                self.note_settled(operation, ended.is_ok()).await;
                Ok(After::Again)
            }
            Resent::NotNow | Resent::Settled(_) => Ok(After::Done),
            // The fence says so; the next plan reads it and parks.
            Resent::Forbidden(why) => {
                self.park(operation, why).await?;
                Ok(After::Done)
            }
        }
    }

    /// What an attempt shows of how its upstream fares.
    fn note_exchange(&self, key: &OperationKey, report: Option<&Report>) {
        let evidence = match report {
            Some(Report::Recorded { evidence, .. } | Report::Unrecorded { evidence, .. }) => {
                evidence
            }
            Some(Report::PassedOn(_)) | None => return,
        };
        let breaker = self.breaker_of(&key.upstream);
        match evidence {
            Evidence::Answered { .. } => breaker.answered(),
            Evidence::Interrupted { .. } => {
                breaker.failed(self.dispatcher.clock.now().boottime);
            }
            Evidence::NotSent(_) => {}
        }
    }

    pub(super) async fn note_settled(&self, before: &Operation, ended: bool) {
        if !ended {
            return;
        }
        let now = self
            .dispatcher
            .register
            .read()
            .operation(&before.key, false)
            .await;
        if let Ok(Some(stored)) = now
            && !stored.operation.state.is_unsettled()
        {
            let took = self.dispatcher.clock.now().age_at_most(&before.first_seen);
            self.dispatcher
                .metrics
                .settled_after(took.unwrap_or_default());
            tracing::info!(
                operation = %before.key.id,
                upstream = %before.key.upstream,
                state = stored.operation.state.word(),
                "settled"
            );
        }
    }

    pub(super) async fn park(&self, operation: &Operation, why: Parked) -> Result<(), StoreError> {
        let key = operation.key.clone();
        let park = Park {
            key: key.clone(),
            why,
            at: self.dispatcher.clock.now(),
        };
        let state = self.dispatcher.register.park(park).await?;
        if let Some(state @ State::NeedsAttention(_)) = state {
            tracing::warn!(
                operation = %key.id,
                upstream = %key.upstream,
                reason = why.reason(),
                "an operation needs a person: `fencepost operations show`, then `resolve`"
            );
            self.tell(operation, state, operation.turn());
        }
        Ok(())
    }

    /// Tells everybody who waits for it where it stands now.
    pub(super) fn tell(&self, operation: &Operation, state: State, turn: Turn) {
        if !state.is_unsettled() {
            let took = self
                .dispatcher
                .clock
                .now()
                .age_at_most(&operation.first_seen);
            let metrics = &self.dispatcher.metrics;
            metrics.settled_after(took.unwrap_or_default());
            tracing::info!(
                operation = %operation.key.id,
                upstream = %operation.key.upstream,
                state = state.word(),
                "settled"
            );
        }
        self.dispatcher.waiters.publish(Ended {
            key: operation.key.clone(),
            turn,
            attempt: None,
            state,
            evidence: None,
        });
    }
}

pub(super) const OTHERWISE: &str =
    "the config no longer sends it under its key, or puts other things into it";

/// A resend under another key, or under none, would be another effect; other bytes under the same key are
/// refused, or worse. A start asks nobody whether a config may say so. Which effect it is of is known once
/// its bytes are at hand; here, whether there is any that it can be.
pub(super) fn is_sent_otherwise(operation: &Operation, now: &Upstream) -> bool {
    let Some(own) = operation.settle.key else {
        return false;
    };
    let is_rule =
        |rule: KeyPolicy| operation.origin != IdentityOrigin::Caller || own.value == rule.value;
    let effects = now.protects().map(|protect| &protect.insert);
    let fits = |insert: &Insert| {
        let is_placed = own.placing.is_none_or(|own| own == insert.placing());
        is_placed && insert.key.as_ref().is_some_and(|key| is_rule(key.policy))
    };
    let by_default = Insert::of_key(now.key.clone());
    !fits(&by_default) && !effects.into_iter().any(|insert| fits(insert))
}

/// It is not given to a person: a config that is put right settles it, as long as its key counts.
pub(super) fn hold_back(key: &OperationKey, why: &'static str) {
    tracing::error!(
        operation = %key.id,
        upstream = %key.upstream,
        why,
        "an uncertain operation is not sent again: settled once the config is put right, or by a person"
    );
}
