//! The steps of settling one operation, taken one after the other until none is left.
//!
//! What always holds: after every step the operation is read and planned afresh; a step that could
//! not be taken changes nothing.
//!
//! What it does not do: bound how long an upstream may be away. The key's lifetime does.

use std::time::Duration;

use super::Reconciler;
use crate::config::KeyRule;
use crate::dispatch::waiters::Ended;
use crate::protocol::command::{Park, Resend};
use crate::protocol::fence::Fence;
use crate::protocol::ids::{OperationKey, ResourceKey};
use crate::protocol::lease::LeaseFacts;
use crate::protocol::operation::{IdentityOrigin, Operation, Parked, State};
use crate::protocol::outcome::Unsent;
use crate::protocol::plan::{self, Step};
use crate::protocol::time::Millis;
use crate::store::{Resent, StoreError};

/// How long a listener may take to close and record its end.
const CLOSING: Duration = Duration::from_secs(5);

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

/// What a step left.
enum After {
    /// Plan again.
    Again,
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
            let after = match self.next_step(&stored.operation).await? {
                Step::Nothing | Step::Await => After::Done,
                Step::CloseThenPlan { after } => match self.pause(after).await {
                    Paused::Fully => {
                        self.close_listener(key).await;
                        After::Again
                    }
                    Paused::UntilDrain => After::Done,
                },
                Step::Resend { after } => match self.pause(after).await {
                    Paused::Fully => self.send_again(&stored.operation, &mut away).await?,
                    Paused::UntilDrain => After::Done,
                },
                Step::Park(why) => {
                    self.park(&stored.operation, why).await?;
                    After::Done
                }
            };
            match after {
                After::Again => {}
                After::Done => return Ok(()),
            }
        }
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
        if is_sent_otherwise(operation, gateway.config.key.as_ref()) {
            hold_back(
                key,
                "the config no longer sends the key that it was sent under",
            );
            return Ok(After::Done);
        }
        let connection = match gateway.pool.reserve().await {
            Ok(connection) => connection,
            Err(unreachable) => {
                tracing::warn!(
                    operation = %key.id,
                    upstream = %key.upstream,
                    error = %unreachable,
                    "the upstream is away; settling waits"
                );
                self.pause(Millis(u64::try_from(away.as_millis()).unwrap_or(u64::MAX)))
                    .await;
                *away = (*away * 2).min(AWAY);
                return Ok(After::Again);
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
                let told = self.dispatcher.send_again(permit, connection, load);
                let ended = told.await;
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

    async fn park(&self, operation: &Operation, why: Parked) -> Result<(), StoreError> {
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
            self.dispatcher.waiters.publish(Ended {
                key,
                turn: operation.turn(),
                attempt: None,
                state,
                evidence: None,
            });
        }
        Ok(())
    }
}

/// A resend under another key, or under none, would be another effect. A start asks nobody whether a config
/// may say so.
pub(super) fn is_sent_otherwise(operation: &Operation, now: Option<&KeyRule>) -> bool {
    match (operation.settle.key, now) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(own), Some(now)) => {
            operation.origin == IdentityOrigin::Caller && own.value != now.policy.value
        }
    }
}

/// It is not given to a person: a config that is put right settles it, as long as its key counts.
fn hold_back(key: &OperationKey, why: &'static str) {
    tracing::error!(
        operation = %key.id,
        upstream = %key.upstream,
        why,
        "an uncertain operation is not sent again: settled once the config is put right, or by a person"
    );
}
