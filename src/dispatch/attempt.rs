//! One attempt: sent on its permit, recorded, told to whoever waits.
//!
//! What always holds: the caller is answered with what the record holds after the transaction, never
//! with what its attempt read; if that takes longer than `record_timeout` the caller is told that
//! nothing is recorded yet, and recording is tried again while the process lives. The one exception is
//! an answer too large to keep: it goes out while it comes, but for its end (`passing`). An attempt that
//! runs into its response limit is recorded as interrupted and goes on listening until somebody settles
//! it or the process drains. A request that its caller gave up before it was decided is not decided.
//!
//! What it does not do: choose what to send (`wire`), or whether (`protocol`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::arrivals::Arrivals;
use super::gateway::Load;
use super::passing::{PassedOn, Telling};
use super::supervisor::Supervisor;
use super::turnstile::Held;
use super::waiters::{Ended, Ticket, Waiters};
use crate::clock::{self, Clock};
use crate::lease::own::Own;
use crate::protocol::command::{Admission, Admit, Grant, Turn};
use crate::protocol::ids::{AttemptId, OperationKey};
use crate::protocol::lease::LeaseFacts;
use crate::protocol::operation::{Effect, State};
use crate::protocol::outcome::{Evidence, Unsent};
use crate::protocol::policy::{LISTEN, Ownership};
use crate::protocol::view::Record as Found;
use crate::store::permit::{Permit, Receipt};
use crate::store::{self, Admitted, Register, StoreError};
use crate::telemetry::metrics::Metrics;
use crate::upstream::{self, Outbound, Reserved, Sent};

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
    /// What came in.
    pub arrivals: Arrivals,
    /// Leases that were acquired or renewed through this process.
    pub leases: Own,
}

/// Tells whoever wants to know that a request has an operation that goes on without it. Clones share it.
#[derive(Clone, Debug)]
pub struct Granted(Arc<watch::Sender<Option<OperationKey>>>);

impl Granted {
    /// It goes on, under this key.
    pub fn tell(&self, key: &OperationKey) {
        self.0.send_replace(Some(key.clone()));
    }

    /// Waits until it does.
    pub async fn told(&self) -> OperationKey {
        let mut seen = self.0.subscribe();
        loop {
            if let Some(key) = seen.borrow_and_update().clone() {
                return key;
            }
            // The sender is held here, so that it cannot be gone.
            let _news = seen.changed().await;
        }
    }
}

impl Default for Granted {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
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
    /// The answer is too large to keep and still comes; its last piece waits for the record.
    PassedOn(PassedOn),
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
    /// are held until the register has answered; `granted` is told once an attempt is to be made. Dropping the future withdraws what is not decided yet.
    /// `None`: the task died.
    pub async fn ask(
        &self,
        mut admit: Admit,
        connection: Option<Reserved>,
        load: Load,
        names: Held,
        granted: Granted,
    ) -> Option<Result<Asked, StoreError>> {
        admit.lease = self.lease_for(&admit);
        let (tell, told) = oneshot::channel();
        // Given up with this future, when the caller hangs up.
        let (_interest, wanted) = store::interest();
        let dispatcher = self.clone();
        self.supervisor.effect(async move {
            if dispatcher.supervisor.is_draining() {
                return told_or_gone(tell, Ok(Asked::Draining));
            }
            let admitted = dispatcher.register.admit_while(wanted, admit).await;
            // It is in the register now: whoever wants to change names finds it there.
            drop(names);
            match admitted {
                Ok(admitted) => {
                    if admitted.permit.is_some() {
                        granted.tell(&admitted.admission.key);
                    }
                    dispatcher.ruled(admitted, connection, load, tell).await;
                }
                Err(fault) => told_or_gone(tell, Err(fault)),
            }
        });
        told.await.ok()
    }

    /// What is known here of who owns its resource, where that is asked for.
    fn lease_for(&self, admit: &Admit) -> LeaseFacts {
        let fence = admit.policy.fence.as_ref();
        let needed = fence.is_some_and(|fence| fence.require == Ownership::Current);
        let presented = admit.presented.as_ref().filter(|_| needed);
        LeaseFacts::of(presented.and_then(|shown| self.leases.live(&shown.resource)))
    }

    /// Makes the attempt, if one was granted.
    async fn ruled(
        &self,
        admitted: Admitted,
        connection: Option<Reserved>,
        load: Load,
        tell: oneshot::Sender<Result<Asked, StoreError>>,
    ) {
        let Admitted { admission, permit } = admitted;
        let Some(permit) = permit else {
            return told_or_gone(tell, Ok(Asked::Ruled(Box::new(admission), connection)));
        };
        let key = admission.key.clone();
        let report = move |report| {
            told_or_gone(tell, Ok(Asked::Made(Box::new(admission), Box::new(report))));
        };
        let telling = Telling::Report(report);
        if let Some(connection) = connection {
            return self.make(permit, connection, load, telling).await;
        }
        // Not granted without a connection; if it ever were, nothing can have been sent.
        let receipt = permit.finish(Evidence::NotSent(Unsent::ConnectionLost));
        let ticket = self.waiters.watch(&key);
        self.settle_receipt(&ticket, receipt, telling).await;
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
            let telling = Telling::Report(move |report| told_or_gone(tell, report));
            dispatcher.make(permit, connection, load, telling).await;
        });
        told
    }

    /// Ends an attempt that was granted and will not be made, like any other: recorded, for as long as it
    /// takes, and told to everybody who waits.
    pub async fn give_up(&self, permit: Permit, why: Unsent) {
        let ticket = self.waiters.watch(&permit.grant().key);
        let receipt = permit.finish(Evidence::NotSent(why));
        let dispatcher = self.clone();
        let recorded = self.supervisor.effect(async move {
            let nobody = Telling::<fn(Report)>::Nobody;
            dispatcher.settle_receipt(&ticket, receipt, nobody).await;
        });
        // If the task dies the attempt is overdue in the end, as after any death.
        let _ = recorded.await;
    }

    async fn make(
        &self,
        permit: Permit,
        connection: Reserved,
        load: Load,
        telling: Telling<impl FnOnce(Report) + Send>,
    ) {
        let _in_flight = self.metrics.in_flight();
        let key = permit.grant().key.clone();
        // Keeps the flight alive, so that a request to close always finds it.
        let mut ticket = self.waiters.work_on(&key);
        let closing = ticket.closing();
        if let Some(unsent) = self.last_look(permit.grant()).await {
            // Dropped unused, the connection goes back.
            drop(connection);
            let receipt = permit.finish(Evidence::NotSent(unsent));
            return self.settle_receipt(&ticket, receipt, telling).await;
        }
        let outbound = match load.outbound(permit.grant()).await {
            Ok(outbound) => outbound,
            Err(unfit) => {
                tracing::error!(operation = %key.id, error = %unfit, "the upstream's key does not fit");
                let receipt = permit.finish(Evidence::NotSent(Unsent::Unfit));
                return self.settle_receipt(&ticket, receipt, telling).await;
            }
        };
        let begun = clock::boottime();
        let (sent, telling) = send(connection, permit, outbound, &load, telling).await;
        match sent {
            Sent::Ended(receipt) => {
                if matches!(receipt.evidence(), Evidence::Answered { .. }) {
                    self.metrics.upstream_took(clock::boottime().since(begun));
                }
                self.settle_receipt(&ticket, receipt, telling).await;
            }
            Sent::Interrupted { receipt, late } => {
                let (now, later) = telling.now_and_later();
                self.settle_receipt(&ticket, receipt, now).await;
                ticket.rest();
                // A drain does not wait for what may never come: the next process settles.
                let close = async {
                    tokio::select! {
                        () = closing.asked() => {}
                        () = self.supervisor.draining() => {}
                    }
                };
                let receipt = late.wait(Duration::from_millis(LISTEN.0), close).await;
                self.settle_receipt(&ticket, receipt, later).await;
            }
        }
    }

    /// The last look before the first byte, where an earlier verdict may have been wrong: is there a
    /// reason not to send?
    async fn last_look(&self, grant: &Grant) -> Option<Unsent> {
        if !grant.look_again {
            return None;
        }
        let found = self.register.read().peek(&grant.key, None).await;
        why_not_send(grant.attempt, &found)
    }

    /// Records a receipt, then tells its request and everybody who waits.
    async fn settle_receipt(
        &self,
        ticket: &Ticket,
        receipt: Receipt,
        mut telling: Telling<impl FnOnce(Report)>,
    ) {
        let unrecorded = || Report::Unrecorded {
            attempt: receipt.attempt(),
            evidence: receipt.evidence().clone(),
        };
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
                std::mem::replace(&mut telling, Telling::Nobody).unrecorded(unrecorded);
                recording.await
            }
        };
        let Some((state, turn)) = recorded else {
            return telling.unrecorded(unrecorded);
        };
        let (attempt, evidence) = (receipt.attempt(), receipt.evidence().clone());
        self.waiters.publish(Ended {
            key: ticket.key().clone(),
            turn,
            attempt: Some(attempt),
            state: state.clone(),
            evidence: Some(evidence.clone()),
        });
        telling.recorded(state, |state| Report::Recorded {
            attempt,
            state: Box::new(state),
            turn,
            evidence,
        });
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

/// What the last look showed.
fn why_not_send(attempt: AttemptId, found: &Result<Option<Found>, StoreError>) -> Option<Unsent> {
    match found {
        Ok(Some(Found::Operation(operation))) if matches!(operation.state, State::Completed(_)) => {
            Some(Unsent::AlreadySettled)
        }
        Ok(Some(Found::Operation(operation))) if operation.lists(attempt) => None,
        // Who cannot look does not send, as if the time for it had passed; nor does who looks at a
        // register in which this attempt is not admitted, though it was a moment ago.
        Ok(Some(Found::Operation(_) | Found::Twin(_)) | None) | Err(_) => {
            Some(Unsent::DispatchExpired)
        }
    }
}

/// Sends, and passes an answer on that is too large to keep, to whoever takes one.
async fn send<F: FnOnce(Report) + Send>(
    connection: Reserved,
    permit: Permit,
    outbound: Outbound,
    load: &Load,
    telling: Telling<F>,
) -> (Sent, Telling<F>) {
    let attempt = permit.grant().attempt;
    let (onward, mut arrival) = upstream::onward();
    let onward = load.passes_on().then_some(onward);
    let (judge, judging) = (load.judge(), load.judge());
    let sending = connection.send_passing_on(
        permit,
        outbound,
        move |answer| judging.class(answer),
        onward,
    );
    tokio::pin!(sending);
    tokio::select! {
        biased;
        Some(oversized) = arrival.wait() => {
            let telling = telling.pass_on(attempt, oversized, &judge);
            (sending.await, telling)
        }
        sent = &mut sending => match arrival.take() {
            Some(oversized) => (sent, telling.pass_on(attempt, oversized, &judge)),
            None => (sent, telling),
        },
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ids::InstanceId;
    use crate::protocol::view::TwinNote;
    use crate::store::conformance::commands as c;
    use crate::store::memory::MemoryBackend;

    const OWN: InstanceId = InstanceId(1);

    /// Only a record that lists the attempt says that it may be made.
    #[tokio::test]
    async fn who_does_not_find_his_own_attempt_does_not_send() {
        let register = Register::new(Arc::new(MemoryBackend::new(OWN)));
        let admit = c::admit("a", OWN);
        let permit = register.admit(admit.clone()).await.unwrap().permit.unwrap();
        let own = permit.grant().attempt;
        let found = register.read().peek(&admit.key, None).await;
        assert_eq!(why_not_send(own, &found), None);
        let receipt = permit.finish(c::applied());
        register.record(&receipt, admit.at).await.unwrap();
        let settled = register.read().peek(&admit.key, None).await;
        assert_eq!(why_not_send(own, &settled), Some(Unsent::AlreadySettled));

        let Ok(Some(Found::Operation(operation))) = &found else {
            panic!("{found:?}");
        };
        let another = AttemptId {
            number: own.number + 1,
            ..own
        };
        let twin = TwinNote {
            key: admit.key.clone(),
            first: c::key("b"),
            fingerprint: operation.fingerprint,
        };
        let late = || Err(StoreError::Unavailable("away".to_owned()));
        for (attempt, found) in [
            (another, found),
            (own, Ok(None)),
            (own, Ok(Some(Found::Twin(twin)))),
            (own, late()),
        ] {
            let why = why_not_send(attempt, &found);
            assert_eq!(why, Some(Unsent::DispatchExpired), "{found:?}");
        }
    }
}
