//! The request that undoes an operation: asked for, sent, and its end recorded.
//!
//! What always holds: what is to be sent and the way there are had before an undo begins; that it has begun is
//! in the register before its first byte leaves; it leaves within its time or not at all; what it showed is
//! recorded before anything else is done. One that was not sent is not tried again without a pause.
//!
//! What it does not do: decide whether it may (`protocol::undo`).

use std::time::Duration;

use crate::clock;
use crate::dispatch::gateway::Gateway;
use crate::protocol::finding::NotKnown;
use crate::protocol::operation::{Effect, Operation};
use crate::protocol::outcome::{Answer, StoredRequest, Unsent};
use crate::protocol::steps::{SettleStep, StepIndex};
use crate::protocol::time::Millis;
use crate::protocol::void::{BeginVoid, VoidEnd};
use crate::store::permit::{VoidPermit, VoidReceipt};
use crate::store::{StoreError, Stored, Voiding};
use crate::upstream::{Outbound, Reserved, Unheard};
use crate::wire::findings;
use crate::wire::problem;
use crate::wire::question::Bearing;

use super::Reconciler;
use super::asking::{Ready, first_bearing, is_refused, look_into, may_stand_in, ready};
use super::steps::{After, SOON};

const NOT_SAID: &str = "held back: the config in force does not say how to undo it, or what it says cannot be made of it";

/// A request that undoes, found out before an undo begins: one that has begun forbids everything else.
struct Prepared {
    ready: Ready,
    /// What the config calls it.
    name: String,
    /// Longest content of an answer, in bytes.
    most: usize,
    first: Outbound,
    /// The same with the config's own credential, where it may stand in.
    second: Option<Outbound>,
}

impl Reconciler {
    /// Undoes it once by that step: prepared, then a way reserved, then begun, then sent, like an effect.
    pub(super) async fn undo(
        &self,
        gateway: &Gateway,
        stored: Stored,
        step: StepIndex,
    ) -> Result<After, StoreError> {
        let operation = stored.operation;
        let Some(prepared) = prepared(gateway, &operation, stored.request, step) else {
            self.hold_back(&operation.key, NOT_SAID).await?;
            return Ok(After::Done);
        };
        let connection = match gateway.pool.reserve().await {
            Ok(connection) => connection,
            Err(unreachable) => {
                self.note_away(&operation.key, &unreachable).await?;
                return Ok(After::Later(SOON));
            }
        };
        if self.dispatcher.supervisor.is_draining() {
            return Ok(After::Done);
        }
        let (timeouts, round) = (gateway.config.timeouts, operation.key_use.round);
        let begin = BeginVoid {
            key: operation.key.clone(),
            step,
            attempt: self.dispatcher.next_attempt(),
            dispatch: timeouts.dispatch,
            overdue_after: timeouts.overdue_after(),
            at: self.dispatcher.clock.now(),
        };
        match self.dispatcher.register.begin_void(begin).await? {
            Voiding::Granted(permit) if permit.grant().round != round => {
                // It was settled and admitted again under another key meanwhile: this would undo the earlier one.
                let receipt = permit.finish(VoidEnd::NotSent(Unsent::Unfit));
                self.record_undo(&operation, &receipt).await?;
                Ok(After::Later(SOON))
            }
            Voiding::Granted(permit) => {
                let end = self.undone(gateway, prepared, &permit, connection, &operation);
                let end = end.await;
                let receipt = permit.finish(end);
                self.record_undo(&operation, &receipt).await?;
                Ok(match receipt.end() {
                    // It used nothing up, so nothing else makes a pause.
                    VoidEnd::NotSent(_) => After::Later(SOON),
                    VoidEnd::Undone(_) | VoidEnd::Unclear(_) => After::Again,
                })
            }
            Voiding::TooEarly(left) => Ok(After::Later(left.max(Millis(1)))),
            Voiding::NotNow | Voiding::Settled(_) => Ok(After::Done),
            // What changed since the plan is in the record: another step may still help.
            Voiding::Forbidden(_) => Ok(After::Later(SOON)),
        }
    }

    /// Sends it, and says how that ended.
    async fn undone(
        &self,
        gateway: &Gateway,
        prepared: Prepared,
        permit: &VoidPermit,
        connection: Reserved,
        operation: &Operation,
    ) -> VoidEnd {
        let answer = self.heard(gateway, &prepared, permit, connection);
        let answer = match answer.await {
            Ok(answer) => answer,
            Err(Unheard::NotSent(why)) => return VoidEnd::NotSent(why),
            Err(Unheard::Broken) => return VoidEnd::Unclear(NotKnown::Unanswered),
            Err(Unheard::TooLarge) => return VoidEnd::Unclear(NotKnown::TooLarge),
        };
        // Whoever stood still on the way may have undone by a key that was forgotten meanwhile.
        let latest = permit.dispatch_by();
        if clock::boottime() > latest.after(gateway.config.timeouts.response) {
            return VoidEnd::Unclear(NotKnown::Unanswered);
        }
        let Prepared { ready, name, .. } = prepared;
        let (asked, protect) = (ready.asked, ready.protect);
        let said = look_into(move || match protect.asking.undo(&name) {
            Some(undo) => findings::of_undo(undo, &asked, &answer),
            None => Err(NotKnown::NotConfigured),
        });
        match said.await {
            Some(Ok(())) => VoidEnd::Undone(problem::undone(&operation.key)),
            Some(Err(why)) => VoidEnd::Unclear(why),
            None => VoidEnd::Unclear(NotKnown::ConditionFailed),
        }
    }

    /// The answer, with whichever credential gets one.
    async fn heard(
        &self,
        gateway: &Gateway,
        prepared: &Prepared,
        permit: &VoidPermit,
        connection: Reserved,
    ) -> Result<Answer, Unheard> {
        let most = prepared.most;
        let first = connection.undo(permit, prepared.first.clone(), most).await;
        let first = self.note_heard(gateway, first)?;
        let Some(second) = prepared.second.as_ref().filter(|_| is_refused(&first)) else {
            return Ok(first);
        };
        // Where the stand-in does not get through any more, that the credential was refused is what is known.
        let Ok(connection) = gateway.pool.reserve().await else {
            return Ok(first);
        };
        let second = connection.undo(permit, second.clone(), most).await;
        match self.note_heard(gateway, second) {
            Err(Unheard::NotSent(_)) => Ok(first),
            second => second,
        }
    }

    fn note_heard(
        &self,
        gateway: &Gateway,
        heard: Result<Answer, Unheard>,
    ) -> Result<Answer, Unheard> {
        let breaker = self.breaker_of(&gateway.config.id);
        match heard {
            Ok(_) | Err(Unheard::TooLarge) => breaker.answered(),
            Err(Unheard::Broken | Unheard::NotSent(Unsent::ConnectionLost)) => {
                breaker.failed(self.dispatcher.clock.now().boottime);
            }
            // That was our own doing.
            Err(Unheard::NotSent(
                Unsent::DispatchExpired | Unsent::Unfit | Unsent::AlreadySettled,
            )) => {}
        }
        heard
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

/// `None`: the config in force does not say what to send, or what it says cannot be made of this operation.
fn prepared(
    gateway: &Gateway,
    operation: &Operation,
    request: Option<StoredRequest>,
    step: StepIndex,
) -> Option<Prepared> {
    let ready = ready(gateway, operation, request).ok()?;
    let policy = operation.settle.steps.at(step).and_then(SettleStep::void)?;
    let undo = ready.protect.asking.undo(policy.name.as_str())?;
    let outbound = |bearing| {
        let header = ready.key_header.as_ref();
        let request = ready.asked.question(&undo.query, bearing, None, header);
        Outbound::new(&gateway.endpoint, &request.ok()?).ok()
    };
    let first = first_bearing(&ready)?;
    let has_second =
        first == Bearing::Stored && may_stand_in(gateway, &ready, undo.query.credential.as_ref());
    let second = has_second.then(|| outbound(Bearing::StandIn)).flatten();
    let first = outbound(first)?;
    let (name, most) = (undo.name.clone(), undo.answer_limit);
    Some(Prepared {
        ready,
        name,
        most,
        first,
        second,
    })
}
