//! A person asks that an operation be settled now.
//!
//! What always holds: nothing is sent unless he says so: what waits for a person is asked after again, durably and
//! in his name. What is sent is admitted in a transaction of its own, like every attempt, and is the stored bytes,
//! under the same key, by the way that the config in force knows; a late listener is closed before. Where nothing
//! can be asked or sent, nothing is changed.
//!
//! What it does not do: wait for an upstream that is away; the person can ask again.

use super::Reconciler;
use super::resending::OTHERWISE;
use super::way::is_otherwise;
use crate::protocol::command::{Attended, Resend};
use crate::protocol::ids::{AttemptId, OperationKey};
use crate::protocol::operation::{Operation, Parked, State};
use crate::protocol::outcome::Unsent;
use crate::protocol::take_up::{TakeUp, TakenUp};
use crate::store::{Resent, StoreError};
use crate::telemetry::errors::chain;

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attending {
    /// The steps are taken now; this is the state that they begin in.
    Begun(State),
    /// The stored bytes are being sent again, by this attempt.
    Sent(AttemptId),
    /// An attempt is acting or listening.
    NotNow,
    /// It needs none; `None`: there is no such operation.
    Settled(Option<State>),
    /// None of its steps asks, and the rules forbid to send it unattended; `None`: they do not.
    NothingToAsk(Option<Parked>),
    /// The rules forbid it.
    Forbidden(Parked),
    /// The config in force would send something else.
    HeldBack(&'static str),
    /// No connection could be made.
    Unreachable(String),
    /// Another process carries it and is alive.
    Elsewhere,
    /// This process is stopping.
    Draining,
}

impl Reconciler {
    /// Takes the steps of an operation now; one that waits for a person is only asked after. One that a person
    /// wants sent again gets one attempt, if the rules allow it.
    pub async fn attend(
        &self,
        key: &OperationKey,
        attended: Attended,
        send: bool,
    ) -> Result<Attending, StoreError> {
        if self.dispatcher.supervisor.is_draining() {
            return Ok(Attending::Draining);
        }
        let register = &self.dispatcher.register;
        let Some(stored) = register.read().operation(key, false).await? else {
            return Ok(Attending::Settled(None));
        };
        let operation = stored.operation;
        if !operation.state.is_unsettled() {
            return Ok(Attending::Settled(Some(operation.state)));
        }
        if !register.read().may_settle(&operation) {
            return Ok(Attending::Elsewhere);
        }
        if send {
            return self.send_for(&operation, attended).await;
        }
        let Attended { operator, reason } = attended;
        let taking = TakeUp {
            key: key.clone(),
            operator,
            reason,
            at: self.dispatcher.clock.now(),
        };
        Ok(match register.take_up(taking).await? {
            TakenUp::Begun(state) => {
                self.wake(key);
                Attending::Begun(state)
            }
            TakenUp::Settled(state) => Attending::Settled(state),
            TakenUp::NothingToAsk(why) => Attending::NothingToAsk(why),
        })
    }

    async fn send_for(
        &self,
        operation: &Operation,
        attended: Attended,
    ) -> Result<Attending, StoreError> {
        let key = &operation.key;
        let gateways = self.gateways.now();
        let Some(gateway) = gateways.by_id(&key.upstream) else {
            return Ok(Attending::HeldBack("the config no longer has its upstream"));
        };
        let Some((request, load)) = self.loaded(gateway, key).await? else {
            return Ok(Attending::Forbidden(Parked::RequestNotKept));
        };
        if is_otherwise(operation, &gateway.config, load.insert()) {
            return Ok(Attending::HeldBack(OTHERWISE));
        }
        let connection = match gateway.pool.reserve().await {
            Ok(connection) => connection,
            Err(why) => return Ok(Attending::Unreachable(chain(&why).to_string())),
        };
        self.close_listener_of(operation).await;
        if self.dispatcher.supervisor.is_draining() {
            return Ok(Attending::Draining);
        }
        let (timeouts, attempt) = (gateway.config.timeouts, self.dispatcher.next_attempt());
        let resend = Resend {
            key: key.clone(),
            attempt,
            dispatch: timeouts.dispatch,
            overdue_after: timeouts.overdue_after(),
            attended: Some(attended),
            lease: self.lease_of(operation),
            at: self.dispatcher.clock.now(),
        };
        let permit = match self.dispatcher.register.resend(resend).await? {
            Resent::Granted(permit) => permit,
            Resent::NotNow => return Ok(Attending::NotNow),
            Resent::Settled(state) => return Ok(Attending::Settled(state)),
            Resent::Forbidden(why) => return Ok(Attending::Forbidden(why)),
        };
        if permit.grant().request.as_deref() != Some(&request) {
            // It was settled and admitted again with another request meanwhile: that is not what he saw.
            self.dispatcher.give_up(permit, Unsent::Unfit).await;
            return Ok(Attending::NotNow);
        }
        let ended = self.dispatcher.send_again(permit, connection, load);
        let (reconciler, before) = (self.clone(), operation.clone());
        self.dispatcher.supervisor.effect(async move {
            let ended = ended.await.is_ok();
            reconciler.note_settled(&before, ended).await;
            reconciler.wake(&before.key);
        });
        Ok(Attending::Sent(attempt))
    }

    async fn close_listener_of(&self, operation: &Operation) {
        let (living, now) = (
            self.dispatcher.register.living(),
            self.dispatcher.clock.now(),
        );
        let listens =
            operation.has_live_attempt(&living, &now) && !operation.is_acting(&living, &now);
        if listens {
            self.close_listener(&operation.key).await;
        }
    }
}
