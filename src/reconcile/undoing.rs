//! The request that undoes an operation: asked for, sent, and its end recorded.
//!
//! What always holds: it is in the register that an undo has begun before its first byte leaves; it leaves
//! within its time or not at all; what it showed is recorded before anything else is done.
//!
//! What it does not do: decide whether it may (`protocol::undo`).

use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::config::Undo;
use crate::dispatch::gateway::Gateway;
use crate::protocol::finding::{Found, NotKnown};
use crate::protocol::operation::{Effect, Operation};
use crate::protocol::outcome::Unsent;
use crate::protocol::steps::{SettleStep, StepIndex};
use crate::protocol::time::Millis;
use crate::protocol::void::{BeginVoid, VoidEnd};
use crate::store::permit::{VoidPermit, VoidReceipt};
use crate::store::{StoreError, Stored, Voiding};
use crate::wire::findings;
use crate::wire::problem;

use super::Reconciler;
use super::asking::{Came, Ready, look_into, ready};
use super::steps::After;

impl Reconciler {
    /// Undoes it once by that step.
    pub(super) async fn undo(
        &self,
        gateway: &Gateway,
        stored: Stored,
        step: StepIndex,
    ) -> Result<After, StoreError> {
        let operation = stored.operation;
        // What is to be sent is known before an undo begins: one that has begun forbids everything else.
        let ready = match ready(gateway, &operation, stored.request) {
            Ok(ready) if undo_of(&ready, &operation, step).is_some() => ready,
            Ok(_) | Err(_) => {
                super::steps::hold_back(&operation.key, "the config no longer says how to undo it");
                return Ok(After::Done);
            }
        };
        let timeouts = gateway.config.timeouts;
        let begin = BeginVoid {
            key: operation.key.clone(),
            step,
            attempt: self.dispatcher.next_attempt(),
            dispatch: timeouts.dispatch,
            overdue_after: timeouts.overdue_after(),
            at: self.dispatcher.clock.now(),
        };
        match self.dispatcher.register.begin_void(begin).await? {
            Voiding::Granted(permit) => {
                let receipt = self.undone(gateway, &ready, &operation, permit).await;
                self.record_undo(&operation, &receipt).await?;
                Ok(After::Again)
            }
            Voiding::TooEarly(left) => Ok(After::Later(left.max(Millis(1)))),
            Voiding::NotNow | Voiding::Settled(_) => Ok(After::Done),
            Voiding::Forbidden(why) => {
                self.park(&operation, why).await?;
                Ok(After::Done)
            }
        }
    }

    async fn undone(
        &self,
        gateway: &Gateway,
        ready: &Ready,
        operation: &Operation,
        permit: VoidPermit,
    ) -> VoidReceipt {
        let step = permit.grant().step;
        let limits = gateway.config.timeouts;
        let Some(undo) = undo_of(ready, operation, step) else {
            return permit.finish(VoidEnd::NotSent(Unsent::Unfit));
        };
        // The way there is opened by the request itself, which may take so long.
        let latest = permit.dispatch_by();
        if clock::boottime().after(limits.connect) >= latest {
            return permit.finish(VoidEnd::NotSent(Unsent::DispatchExpired));
        }
        let answer = self.answer(gateway, ready, &undo.query, None, undo.answer_limit);
        let answer = match answer.await {
            Ok(answer) => answer,
            Err(Came::Away(_)) => return permit.finish(VoidEnd::NotSent(Unsent::ConnectionLost)),
            Err(Came::Found(found)) => return permit.finish(VoidEnd::Unclear(reason(&found))),
        };
        // Whoever stood still on the way may have undone by a key that was forgotten meanwhile.
        if clock::boottime() > latest.after(limits.response) {
            return permit.finish(VoidEnd::Unclear(NotKnown::Unanswered));
        }
        let (asked, protect) = (Arc::clone(&ready.asked), Arc::clone(&ready.protect));
        let name = undo.name.clone();
        let said = look_into(move || match protect.asking.undo(&name) {
            Some(undo) => findings::of_undo(undo, &asked, &answer),
            None => Err(NotKnown::NotConfigured),
        });
        let end = match said.await {
            Some(Ok(())) => VoidEnd::Undone(problem::undone(&operation.key)),
            Some(Err(why)) => VoidEnd::Unclear(why),
            None => VoidEnd::Unclear(NotKnown::ConditionFailed),
        };
        permit.finish(end)
    }

    /// Until it is recorded: what is not recorded would be undone again, or given to a person.
    async fn record_undo(
        &self,
        operation: &Operation,
        receipt: &VoidReceipt,
    ) -> Result<(), StoreError> {
        let mut pause = Duration::from_millis(20);
        let recorded = loop {
            let at = self.dispatcher.clock.now();
            match self.dispatcher.register.voided(receipt, at).await {
                Ok(recorded) => break recorded,
                Err(error @ (StoreError::Unavailable(_) | StoreError::CommitUnknown(_))) => {
                    if self.dispatcher.supervisor.is_draining() {
                        return Err(error);
                    }
                    tracing::warn!(
                        operation = %operation.key.id,
                        error = %error,
                        "recording that it was undone is tried again"
                    );
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(2));
        };
        if recorded.effect == Effect::Contradiction {
            self.dispatcher.metrics.contradiction();
            tracing::error!(
                operation = %operation.key.id,
                upstream = %operation.key.upstream,
                "contradiction: an undo took effect that the record does not allow"
            );
        }
        if let (Some(state), Some(turn)) = (recorded.state, recorded.turn)
            && !state.is_unsettled()
        {
            self.tell(operation, state, turn);
        }
        Ok(())
    }
}

fn undo_of<'r>(ready: &'r Ready, operation: &Operation, step: StepIndex) -> Option<&'r Undo> {
    let policy = operation.settle.steps.at(step).and_then(SettleStep::void)?;
    ready.protect.asking.undo(policy.name.as_str())
}

fn reason(found: &Found) -> NotKnown {
    match found {
        Found::NotKnown(why) => *why,
        Found::Applied(_) | Found::NotApplied => NotKnown::Unanswered,
    }
}
