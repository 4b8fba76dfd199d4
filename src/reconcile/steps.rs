//! The steps of settling one operation, taken one after the other until none is left.
//!
//! What always holds: after every step the operation is read and planned afresh; a step that could
//! not be taken changes nothing.
//!
//! What it does not do: bound how long an upstream may be away. The key's lifetime does.

use std::time::Duration;

use super::asking::is_settled;
use super::breaker::TurnThere;
use super::{Breakers, Reconciler};
use crate::dispatch::waiters::Ended;
use crate::protocol::command::{Note, Park, Turn};
use crate::protocol::fence::Fence;
use crate::protocol::ids::{OperationKey, ResourceKey};
use crate::protocol::lease::LeaseFacts;
use crate::protocol::operation::{AttemptEnd, Operation, State};
use crate::protocol::plan::{self, Step};
use crate::protocol::policy::LISTEN;
use crate::protocol::start::Start;
use crate::protocol::steps::StepIndex;
use crate::protocol::time::Millis;
use crate::store::StoreError;
use crate::upstream::Unreachable;

/// How long a listener may take to close and record its end.
const CLOSING: Duration = Duration::from_secs(5);

/// Pause after a step that could not be taken and used nothing up. An upstream that stays away is left alone for
/// longer.
pub(super) const SOON: Millis = Millis(1_000);

/// Where the config says no more where to go.
const UPSTREAM_GONE: &str = "held back: the config no longer has its upstream";

/// What is waited for, in the event log.
pub(super) const AWAY: &str =
    "its upstream cannot be reached, or does not answer: no step is used up, but time runs";

/// Pause while the end of an own attempt is not recorded yet.
const UNRECORDED: Millis = Millis(2_000);

/// How a pause ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Paused {
    /// Its time was up.
    Fully,
    /// Draining began: no step may be taken any more.
    UntilDrain,
}

/// A pause that is longer than this is not sat out here: there are others to settle.
const SHORT: Millis = Millis(100);

/// What a step left.
pub(super) enum After {
    /// Plan again.
    Again,
    /// Plan again after this pause.
    Later(Millis),
    /// Plan again, without a resend: its request cannot be sent.
    Unfit,
    /// Nothing to do now.
    Done,
}

impl Reconciler {
    /// Takes steps until none is left.
    pub(crate) async fn settle(&self, key: &OperationKey) -> Result<(), StoreError> {
        let mut fit = true;
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
            let mut operation = stored.operation;
            // Bytes that cannot be sent are as good as none.
            operation.request_kept &= fit;
            let lease = self.lease_of(&operation);
            let step = self.next_step(&operation, &lease).await?;
            match self.take(&operation, step).await? {
                After::Again => {}
                After::Unfit => fit = false,
                After::Later(pause) if pause <= SHORT => match self.pause(pause).await {
                    Paused::Fully => {}
                    Paused::UntilDrain => return Ok(()),
                },
                After::Later(pause) => {
                    self.wake_later(key, pause);
                    return Ok(());
                }
                After::Done => {
                    self.licences.end(key, &lease);
                    return Ok(());
                }
            }
        }
    }

    /// Takes a step that is due, or says when it is.
    async fn take(&self, operation: &Operation, step: Step) -> Result<After, StoreError> {
        if self.is_unrecorded(operation) {
            // Heard as soon as it is recorded.
            self.dispatcher.waiters.ask_to_close(&operation.key);
            return Ok(After::Later(UNRECORDED));
        }
        let due = match step {
            Step::Nothing | Step::Await => return Ok(After::Done),
            // A callback wakes us; and if none comes, the end of its time does.
            Step::Listen { left } => return Ok(After::Later(left)),
            Step::Park(_) => {
                self.park(operation).await?;
                return Ok(After::Done);
            }
            Step::Start { step } => return self.start_step(operation, step).await,
            Step::CloseThenPlan { after }
            | Step::Resend { after }
            | Step::Ask { after, .. }
            | Step::Void { after, .. } => after,
        };
        if due > Millis::default() {
            return Ok(After::Later(due));
        }
        // Given back where no exchange comes of it: the others wait for what it finds.
        let _turn = match self.turn_of(operation, step) {
            Ok(turn) => turn,
            Err(left) => {
                self.say(&operation.key, AWAY).await?;
                return Ok(After::Later(left));
            }
        };
        match step {
            Step::CloseThenPlan { .. } => {
                self.close_listener(&operation.key).await;
                Ok(After::Again)
            }
            Step::Resend { .. } => match self.gateways.now().by_id(&operation.key.upstream) {
                Some(gateway) => self.send_again(gateway, operation).await,
                None => self.is_gone(operation).await,
            },
            Step::Ask { step, .. } | Step::Void { step, .. } => self.ask_of(operation, step).await,
            Step::Nothing
            | Step::Await
            | Step::Listen { .. }
            | Step::Start { .. }
            | Step::Park(_) => Ok(After::Done),
        }
    }

    /// Is an attempt of this very process on record as silent and overdue, only because its end could not be
    /// recorded yet? Its connection may be open still: nothing is quiet before that is closed, and on record. A task
    /// that is stuck does not hold its operation for ever, no more than a listener that is gone without a word.
    fn is_unrecorded(&self, operation: &Operation) -> bool {
        let (living, now) = (
            self.dispatcher.register.living(),
            self.dispatcher.clock.now(),
        );
        let silent = operation.attempts.iter().any(|attempt| {
            let at_most = attempt.overdue_after.plus(LISTEN);
            attempt.end == AttemptEnd::Silent && !living.is_past(attempt, at_most, &now)
        });
        silent && self.dispatcher.waiters.is_worked_on(&operation.key)
    }

    /// Its time runs from now on, whether or not its upstream can be reached.
    async fn start_step(
        &self,
        operation: &Operation,
        step: StepIndex,
    ) -> Result<After, StoreError> {
        let start = Start {
            key: operation.key.clone(),
            step,
            at: self.dispatcher.clock.now(),
        };
        let state = self.dispatcher.register.start(start).await?;
        Ok(if is_settled(state.as_ref()) {
            After::Done
        } else {
            After::Again
        })
    }

    /// The turn to go to its upstream, if the step would go there; or for how long that is left alone.
    fn turn_of(&self, operation: &Operation, step: Step) -> Result<Option<TurnThere>, Millis> {
        match step {
            // Nor is a late answer given up for a step that cannot be taken yet.
            Step::CloseThenPlan { .. }
            | Step::Resend { .. }
            | Step::Ask { .. }
            | Step::Void { .. } => {
                let now = self.dispatcher.clock.now().boottime;
                let Breakers(watch) = self.breaker_of(&operation.key.upstream);
                TurnThere::take(watch, now).map(Some)
            }
            Step::Nothing
            | Step::Await
            | Step::Listen { .. }
            | Step::Start { .. }
            | Step::Park(_) => Ok(None),
        }
    }

    async fn is_gone(&self, operation: &Operation) -> Result<After, StoreError> {
        self.hold_back(&operation.key, UPSTREAM_GONE).await?;
        Ok(After::Done)
    }

    /// A question, or an undo.
    async fn ask_of(&self, operation: &Operation, step: StepIndex) -> Result<After, StoreError> {
        let key = &operation.key;
        let gateways = self.gateways.now();
        let Some(gateway) = gateways.by_id(&key.upstream) else {
            return self.is_gone(operation).await;
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
            None => After::Later(SOON),
            Some(weighed) if is_settled(weighed.state.as_ref()) => After::Done,
            Some(_) => After::Again,
        })
    }

    async fn next_step(
        &self,
        operation: &Operation,
        lease: &LeaseFacts,
    ) -> Result<Step, StoreError> {
        let fence = self.fence_of(operation).await?;
        let living = self.dispatcher.register.living();
        let now = self.dispatcher.clock.now();
        Ok(plan::plan(operation, fence.as_ref(), lease, &living, &now))
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

    /// No connection could be had.
    pub(super) async fn note_away(
        &self,
        key: &OperationKey,
        why: &Unreachable,
    ) -> Result<(), StoreError> {
        let now = self.dispatcher.clock.now().boottime;
        self.breaker_of(&key.upstream).failed(now);
        tracing::warn!(
            operation = %key.id,
            upstream = %key.upstream,
            error = %why,
            "the upstream is away; settling waits"
        );
        self.say(key, AWAY).await.map(drop)
    }

    /// The step cannot be taken by the config in force. It is not given to a person: a config that is put right
    /// settles it, as long as the step has its time.
    pub(super) async fn hold_back(
        &self,
        key: &OperationKey,
        why: &'static str,
    ) -> Result<(), StoreError> {
        if self.say(key, why).await? {
            tracing::error!(
                operation = %key.id,
                upstream = %key.upstream,
                why,
                "a step of an uncertain operation is held back: settled once the config is put right, or by a person"
            );
        }
        Ok(())
    }

    /// Why nothing is done, in the event log: evidence for whoever looks later. Once as long as it stays so: was it
    /// said now?
    pub(super) async fn say(&self, key: &OperationKey, text: &str) -> Result<bool, StoreError> {
        let register = &self.dispatcher.register;
        let Some(stored) = register.read().operation(key, false).await? else {
            return Ok(false);
        };
        let said = stored.events.last().is_some_and(|event| event.text == text);
        if said || !stored.operation.state.is_unsettled() {
            return Ok(false);
        }
        let note = Note {
            key: key.clone(),
            text: text.to_owned(),
            at: self.dispatcher.clock.now(),
        };
        register.note(note).await?;
        Ok(true)
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

    pub(super) async fn park(&self, operation: &Operation) -> Result<(), StoreError> {
        let key = operation.key.clone();
        let park = Park {
            key: key.clone(),
            fit: operation.request_kept,
            lease: self.lease_of(operation),
            at: self.dispatcher.clock.now(),
        };
        let state = self.dispatcher.register.park(park).await?;
        if let Some(state @ State::NeedsAttention(why)) = state {
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
