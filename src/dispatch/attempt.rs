//! One attempt: sent on its permit, recorded, told to whoever waits.
//!
//! What always holds: the caller is answered with what the record holds after the transaction, never
//! with what its attempt read; if that takes longer than `record_timeout` the caller is told that
//! nothing is recorded yet, and recording is tried again while the process lives. An attempt that
//! runs into its response limit is recorded as interrupted and goes on listening.
//!
//! What it does not do: choose what to send (`wire`), or whether (`protocol`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;

use super::gateway::Load;
use super::supervisor::Supervisor;
use super::turnstile::Held;
use super::waiters::{Ended, Ticket, Waiters};
use crate::clock::{self, Clock};
use crate::protocol::command::{Admission, Admit, Grant, Turn};
use crate::protocol::ids::{AttemptId, OperationKey};
use crate::protocol::operation::{Effect, State};
use crate::protocol::outcome::{Evidence, Unsent};
use crate::protocol::policy::LISTEN;
use crate::protocol::view::Record as Found;
use crate::store::permit::{Permit, Receipt};
use crate::store::{Admitted, Register, StoreError};
use crate::telemetry::metrics::Metrics;
use crate::upstream::{Reserved, Sent};

/// Everything an attempt needs that outlives it. Cheap to clone.
#[derive(Clone)]
pub struct Dispatcher {
    /// The register.
    pub register: Register,
    /// The clocks.
    pub clock: Clock,
    /// Who waits.
    pub waiters: Waiters,
    /// Where tasks live.
    pub supervisor: Supervisor,
    /// The numbers.
    pub metrics: Metrics,
    /// How long an answer is held back for its record to commit.
    pub record_timeout: Duration,
    /// Attempts of this instance so far.
    pub attempts: Arc<AtomicU64>,
}

/// What became of a request for an effect.
#[derive(Debug)]
pub enum Asked {
    /// Nothing was granted: this is the ruling, and the connection back.
    Ruled(Box<Admission>, Option<Reserved>),
    /// It was granted and an attempt was made.
    Made(Box<Admission>, Box<Report>),
    /// The process is stopping: nothing was asked.
    Draining,
}

/// What became of an attempt, for the request that started it.
#[derive(Debug)]
pub enum Report {
    /// Recorded: this is what the record holds.
    Recorded {
        /// The attempt.
        attempt: AttemptId,
        /// The state after the transaction.
        state: Box<State>,
        /// Which admission, and which form, the record is at after it.
        turn: Turn,
        /// What the attempt showed.
        evidence: Evidence,
    },
    /// Not recorded within `record_timeout`, or never again by this process: nothing is certain.
    Unrecorded {
        /// The attempt.
        attempt: AttemptId,
        /// What the attempt showed.
        evidence: Evidence,
    },
}

impl Dispatcher {
    /// The id of the next attempt of this instance.
    pub fn next_attempt(&self) -> AttemptId {
        let number = self.attempts.fetch_add(1, Ordering::Relaxed);
        AttemptId {
            instance: self.register.instance(),
            number,
        }
    }

    /// Asks for admission and, where it is granted, makes the attempt: all in a task of its own,
    /// detached from whoever asked, so that a granted permit is never dropped with its caller. `names`
    /// are held until the register has answered.
    /// The receiver fails only if the task died.
    pub fn ask(
        &self,
        admit: Admit,
        connection: Option<Reserved>,
        load: Load,
        names: Held,
    ) -> oneshot::Receiver<Result<Asked, StoreError>> {
        let (tell, told) = oneshot::channel();
        let dispatcher = self.clone();
        self.supervisor.effect(async move {
            // A caller that hung up before the commit withdraws.
            if tell.is_closed() {
                return;
            }
            if dispatcher.supervisor.is_draining() {
                return told_or_gone(tell, Ok(Asked::Draining));
            }
            let admitted = dispatcher.register.admit(admit).await;
            // It is in the register now: whoever wants to change names finds it there.
            drop(names);
            let Admitted { admission, permit } = match admitted {
                Ok(admitted) => admitted,
                Err(fault) => return told_or_gone(tell, Err(fault)),
            };
            match (permit, connection) {
                (Some(permit), Some(connection)) => {
                    let report = move |report| {
                        told_or_gone(tell, Ok(Asked::Made(Box::new(admission), Box::new(report))));
                    };
                    dispatcher.make(permit, connection, load, report).await;
                }
                (Some(permit), None) => {
                    // Not granted without a connection; if it ever were, nothing can have been sent.
                    let receipt = permit.finish(Evidence::NotSent(Unsent::ConnectionLost));
                    let ticket = dispatcher.waiters.watch(&admission.key);
                    let report = move |report| {
                        told_or_gone(tell, Ok(Asked::Made(Box::new(admission), Box::new(report))));
                    };
                    dispatcher
                        .settle_receipt(&ticket, receipt, Some(report))
                        .await;
                }
                (None, connection) => {
                    told_or_gone(tell, Ok(Asked::Ruled(Box::new(admission), connection)));
                }
            }
        });
        told
    }

    /// Makes a resend that was granted, in a task of its own.
    pub fn send_again(
        &self,
        permit: Permit,
        connection: Reserved,
        load: Load,
    ) -> oneshot::Receiver<Report> {
        let (tell, told) = oneshot::channel();
        let dispatcher = self.clone();
        self.supervisor.effect(async move {
            dispatcher
                .make(permit, connection, load, move |report| {
                    told_or_gone(tell, report);
                })
                .await;
        });
        told
    }

    async fn make(
        &self,
        permit: Permit,
        connection: Reserved,
        load: Load,
        tell: impl FnOnce(Report) + Send,
    ) {
        let _in_flight = self.metrics.in_flight();
        let key = permit.grant().key.clone();
        // Keeps the flight alive, so that a request to close always finds it.
        let ticket = self.waiters.watch(&key);
        let closing = ticket.closing();
        if let Some(unsent) = self.last_look(permit.grant()).await {
            // Dropped unused, the connection goes back.
            drop(connection);
            let receipt = permit.finish(Evidence::NotSent(unsent));
            return self.settle_receipt(&ticket, receipt, Some(tell)).await;
        }
        let outbound = match load.outbound(permit.grant()) {
            Ok(outbound) => outbound,
            Err(unfit) => {
                tracing::error!(operation = %key.id, error = %unfit, "the upstream's key does not fit");
                let receipt = permit.finish(Evidence::NotSent(Unsent::Unfit));
                return self.settle_receipt(&ticket, receipt, Some(tell)).await;
            }
        };
        let judge = load.judge();
        let begun = clock::boottime();
        match connection
            .send(permit, outbound, move |answer| judge.class(answer))
            .await
        {
            Sent::Ended(receipt) => {
                if matches!(receipt.evidence(), Evidence::Answered { .. }) {
                    self.metrics.upstream_took(clock::boottime().since(begun));
                }
                self.settle_receipt(&ticket, receipt, Some(tell)).await;
            }
            Sent::Interrupted { receipt, late } => {
                self.settle_receipt(&ticket, receipt, Some(tell)).await;
                let receipt = late
                    .wait(Duration::from_millis(LISTEN.0), closing.asked())
                    .await;
                self.settle_receipt(&ticket, receipt, None::<fn(Report)>)
                    .await;
            }
        }
    }

    /// The last look before the first byte, where an earlier verdict may have been wrong: is there a
    /// reason not to send?
    async fn last_look(&self, grant: &Grant) -> Option<Unsent> {
        if !grant.look_again {
            return None;
        }
        match self.register.read().peek(&grant.key, None).await {
            Ok(Some(Found::Operation(operation))) => {
                let completed = matches!(operation.state, State::Completed(_));
                completed.then_some(Unsent::AlreadySettled)
            }
            Ok(Some(Found::Twin(_)) | None) => None,
            // Who cannot look does not send: as if the time for it had passed.
            Err(_) => Some(Unsent::DispatchExpired),
        }
    }

    /// Records a receipt, then tells its request and everybody who waits.
    async fn settle_receipt(
        &self,
        ticket: &Ticket,
        receipt: Receipt,
        mut tell: Option<impl FnOnce(Report)>,
    ) {
        let recording = self.record(ticket.key(), &receipt);
        tokio::pin!(recording);
        let in_time = tokio::time::timeout(self.record_timeout, &mut recording).await;
        let recorded = match in_time {
            Ok(recorded) => recorded,
            Err(_elapsed) => {
                tracing::warn!(
                    operation = %ticket.key().id,
                    attempt = %receipt.attempt(),
                    "the outcome is not recorded in time; the caller is told that it is uncertain"
                );
                if let Some(tell) = tell.take() {
                    tell(Report::Unrecorded {
                        attempt: receipt.attempt(),
                        evidence: receipt.evidence().clone(),
                    });
                }
                recording.await
            }
        };
        let (attempt, evidence) = (receipt.attempt(), receipt.evidence().clone());
        let Some((state, turn)) = recorded else {
            if let Some(tell) = tell {
                tell(Report::Unrecorded { attempt, evidence });
            }
            return;
        };
        let ended = Ended {
            key: ticket.key().clone(),
            turn,
            attempt: Some(attempt),
            state: state.clone(),
            evidence: Some(evidence.clone()),
        };
        self.waiters.publish(ended);
        if let Some(tell) = tell {
            tell(Report::Recorded {
                attempt,
                state: Box::new(state),
                turn,
                evidence,
            });
        }
    }

    /// Records until it is recorded; `None` where this process never can again.
    async fn record(&self, key: &OperationKey, receipt: &Receipt) -> Option<(State, Turn)> {
        let mut pause = Duration::from_millis(20);
        loop {
            match self.register.record(receipt, self.clock.now()).await {
                Ok(recorded) => {
                    if recorded.effect == Effect::Contradiction {
                        self.metrics.contradiction();
                        tracing::error!(
                            operation = %key.id,
                            upstream = %key.upstream,
                            attempt = %receipt.attempt(),
                            "contradiction: the evidence of this attempt speaks against the record"
                        );
                    }
                    return recorded.state.zip(recorded.turn);
                }
                Err(error) if !may_pass(&error) => {
                    tracing::error!(
                        operation = %key.id,
                        attempt = %receipt.attempt(),
                        error = %error,
                        "the outcome of an attempt cannot be recorded; it is UNCERTAIN until settled"
                    );
                    return None;
                }
                Err(error) => {
                    tracing::warn!(
                        operation = %key.id,
                        attempt = %receipt.attempt(),
                        error = %error,
                        "recording is tried again"
                    );
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(2));
        }
    }
}

/// Can the same write succeed later in this process?
fn may_pass(error: &StoreError) -> bool {
    match error {
        StoreError::Unavailable(_) | StoreError::CommitUnknown(_) => true,
        StoreError::Corrupt(_) | StoreError::FormatTooNew { .. } | StoreError::Poisoned(_) => false,
    }
}

/// Whoever hung up is not there any more; the attempt is recorded all the same.
fn told_or_gone<T>(tell: oneshot::Sender<T>, word: T) {
    let _gone = tell.send(word);
}
