//! A resend: the stored bytes once more, under the same key.
//!
//! What always holds: whatever can be known before it is asked for is known by then: that the config in force would
//! send the same to the same place, and that there is a way there. A resend that the rules forbid by now sends
//! nothing, and what may still help is planned afresh.
//!
//! What it does not do: decide whether it may (`protocol::plan`, `protocol::repeat`).

use super::Reconciler;
use super::steps::{After, SOON};
use super::way::is_otherwise;
use crate::dispatch::attempt::Report;
use crate::dispatch::gateway::{Gateway, Load};
use crate::protocol::command::Resend;
use crate::protocol::ids::OperationKey;
use crate::protocol::operation::{Operation, Parked};
use crate::protocol::outcome::{Evidence, StoredRequest, Unsent};
use crate::store::{Resent, StoreError};

pub(super) const OTHERWISE: &str = "held back: the config no longer sends it under its key, or to the same place, or \
                                    puts other things into it";

const UNFIT: &str = "its request cannot be sent again: passed over";

impl Reconciler {
    pub(super) async fn send_again(
        &self,
        gateway: &Gateway,
        operation: &Operation,
    ) -> Result<After, StoreError> {
        let key = &operation.key;
        let Some((request, load)) = self.loaded(gateway, key).await? else {
            if self.say(key, UNFIT).await? {
                tracing::error!(operation = %key.id, upstream = %key.upstream, "{UNFIT}");
            }
            return Ok(After::Unfit);
        };
        if is_otherwise(operation, &gateway.config, load.insert()) {
            self.hold_back(key, OTHERWISE).await?;
            return Ok(After::Done);
        }
        let connection = match gateway.pool.reserve().await {
            Ok(connection) => connection,
            Err(unreachable) => {
                self.note_away(key, &unreachable).await?;
                return Ok(After::Later(SOON));
            }
        };
        if self.dispatcher.supervisor.is_draining() {
            return Ok(After::Done);
        }
        let timeouts = gateway.config.timeouts;
        let lease = self.lease_of(operation);
        self.licences.end(key, &lease);
        let resend = Resend {
            key: key.clone(),
            attempt: self.dispatcher.next_attempt(),
            dispatch: timeouts.dispatch,
            overdue_after: timeouts.overdue_after(),
            attended: None,
            lease,
            at: self.dispatcher.clock.now(),
        };
        match self.dispatcher.register.resend(resend).await? {
            Resent::Granted(permit) if permit.grant().request.as_deref() != Some(&request) => {
                // It was settled and admitted again with another request meanwhile.
                self.dispatcher.give_up(permit, Unsent::Unfit).await;
                Ok(After::Later(SOON))
            }
            Resent::Granted(permit) => {
                let told = self.dispatcher.send_again(permit, connection, load);
                let ended = told.await;
                self.note_exchange(key, ended.as_ref().ok());
                self.note_settled(operation, ended.is_ok()).await;
                Ok(After::Again)
            }
            Resent::NotNow | Resent::Settled(_) => Ok(After::Done),
            // The lease is over, or the register knows of a later one.
            Resent::Forbidden(Parked::NotCurrent) => {
                self.park(operation).await?;
                Ok(After::Done)
            }
            // What changed since the plan is in the record and the fence: another step may still help.
            Resent::Forbidden(_) => Ok(After::Later(SOON)),
        }
    }

    /// What would be sent. `None`: it is not there, or no request any more.
    pub(super) async fn loaded(
        &self,
        gateway: &Gateway,
        key: &OperationKey,
    ) -> Result<Option<(StoredRequest, Load)>, StoreError> {
        let read = self.dispatcher.register.read();
        let stored = read.operation(key, true).await?;
        let request = stored.and_then(|stored| stored.request);
        Ok(request.and_then(|request| {
            let load = gateway.reload(&request).ok()?;
            Some((request, load))
        }))
    }

    /// A caller's own attempt was answered: an upstream that answers is not away, however many questions it leaves
    /// open. One that was not answered counts for nothing here: settling finds out by itself.
    pub(crate) fn heard_by_caller(&self, key: &OperationKey, report: &Report) {
        if let Report::Recorded { evidence, .. } | Report::Unrecorded { evidence, .. } = report
            && matches!(evidence, Evidence::Answered { .. })
        {
            self.breaker_of(&key.upstream).answered();
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
            Evidence::Interrupted { .. } | Evidence::NotSent(Unsent::ConnectionLost) => {
                breaker.failed(self.dispatcher.clock.now().boottime);
            }
            // That was our own doing.
            Evidence::NotSent(Unsent::DispatchExpired | Unsent::Unfit | Unsent::AlreadySettled) => {
            }
        }
    }
}
