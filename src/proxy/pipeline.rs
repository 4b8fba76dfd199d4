//! The effect pipeline: reserve, admit, send, record, or wait for whoever does.
//!
//! What always holds: connecting comes before the durable write; whoever waits or joins gives its
//! connection back first; after a wait everything is decided again from the start; a joiner gets the
//! answer of the attempt that it joined, never an attempt of its own.
//!
//! What it does not do: read HTTP (`wire::identify`), write it (`reply`), or decide (`protocol`).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::timeout;

use super::bound::Stamped;
use super::joining::{self, Join, Joined};
use super::patience::Patience;
use super::told::{Teller, Told};
use crate::clock;
use crate::config::Protect;
use crate::dispatch::arrivals::Repeat;
use crate::dispatch::attempt::{Asked, Dispatcher, Granted, Report};
use crate::dispatch::gateway::Gateway;
use crate::dispatch::turnstile::Names;
use crate::dispatch::waiters::{Ended, Ticket};
use crate::protocol::command::{Admission, Note, Ruling};
use crate::protocol::ids::{AttemptId, OperationKey, ResourceKey};
use crate::protocol::operation::{IdentityOrigin, State};
use crate::protocol::outcome::{Evidence, Interruption, Unsent};
use crate::protocol::rejection::Rejection;
use crate::protocol::time::Millis;
use crate::protocol::view::Record;
use crate::reconcile::Reconciler;
use crate::store::StoreError;
use crate::telemetry::metrics::{Answered, WaitedFor};
use crate::upstream::{Reserved, UnfitRequest};
use crate::wire::answer::Listener;
use crate::wire::fingerprint::FingerprintKey;
use crate::wire::identify::{Identified, Original};
use crate::wire::problem::Fault;

/// What a request needs on its way.
pub(super) struct Effect {
    pub(super) dispatcher: Dispatcher,
    pub(super) reconciler: Reconciler,
    pub(super) gateway: Arc<Gateway>,
    pub(super) protect: Arc<Protect>,
    pub(super) teller: Teller,
    /// What the request is.
    pub(super) identified: Identified,
    /// The ownership that its token is of, where the sidecar holds it on its caller's behalf.
    pub(super) stamped: Stamped,
    /// What it was read from.
    pub(super) original: Original,
    /// To say in what it differs from the first of its identity.
    pub(super) fingerprints: FingerprintKey,
    /// What it was identified by.
    pub(super) names: Names,
    /// What was seen of it, if it is a repeat.
    pub(super) repeat: Option<Repeat>,
    /// Told once its operation goes on without it.
    pub(super) granted: Granted,
    /// Can its caller see where an answer breaks off? Then one that is too large to keep is passed on.
    pub(super) sees_breaks: bool,
}

/// What of `would_refuse` was seen on the way.
pub(super) type Observed = Option<Rejection>;

impl Effect {
    /// Carries the request out. When the process ends before that, or a fault of ours ends it, the
    /// caller is told what is certain: that nothing was sent for it, or else that nobody knows. Its
    /// effect, if any, goes on without it or is settled by the next process.
    pub(super) async fn run(&self) -> (Told, Observed) {
        let mut patience = Patience::default();
        let carrying_out = AssertUnwindSafe(self.carry_out(&mut patience)).catch_unwind();
        let carried_out = tokio::select! {
            biased;
            carried_out = carrying_out => carried_out.map_err(|_panic| Broken::Panicked),
            () = self.dispatcher.supervisor.over() => Err(Broken::Over),
        };
        let key = &self.identified.key;
        match carried_out {
            Ok(told) => told,
            Err(Broken::Over) if patience.only_waits => {
                (self.teller.fault(key, &Fault::Draining), None)
            }
            Err(Broken::Over) => (self.teller.uncertain(key), None),
            Err(Broken::Panicked) => {
                tracing::error!(operation = %key.id, "a request was given up: a fault of ours");
                (self.teller.uncertain(key), None)
            }
        }
    }

    async fn carry_out(&self, patience: &mut Patience) -> (Told, Observed) {
        let mut observed = None;
        let mut ticket = self.dispatcher.waiters.watch(&self.identified.key);
        loop {
            patience.only_waits = true;
            let connection = match self.reserve(patience.must_reserve).await {
                Ok(connection) => connection,
                Err(fault) => return (self.teller.fault(&self.identified.key, &fault), observed),
            };
            patience.only_waits = false;
            let (admission, report) = match self.ask(connection).await {
                Ok(asked) => asked,
                Err(told) => return (told, observed),
            };
            observed = observed.or(admission.would_refuse);
            let key = admission.key;
            let told = match admission.ruling {
                Ruling::Granted(_) => match self.after(&key, report, &mut ticket).await {
                    After::Told(told) => Some(told),
                    After::NothingSent(told) => patience.give_up_on_connections().then_some(told),
                },
                Ruling::ReserveFirst => {
                    patience.must_reserve = true;
                    let is_over = !self.stamped.may_be_sent();
                    is_over.then(|| self.teller.fault(&key, &Stamped::over()))
                }
                Ruling::Replay { completion, stale } => {
                    Some(Teller::stored(&key, &completion, stale, Answered::Replayed))
                }
                Ruling::Join {
                    key: joined,
                    attempt,
                    admitted,
                    uncertain,
                    licenses,
                } => {
                    match self.identified.resource().filter(|_| licenses) {
                        Some(resource) => self.reconciler.license(&joined, resource),
                        None if uncertain => self.reconciler.wake(&joined),
                        None => {}
                    }
                    self.granted.tell(&joined);
                    self.note_repeat(&joined);
                    let asked = joining::Asked {
                        own: key,
                        joined,
                        meaning: self.identified.meaning.clone(),
                        attempt,
                        admitted,
                        uncertain,
                    };
                    let blindly = self.joins_blindly(&asked);
                    let told = self.join(&mut ticket, asked).await;
                    told.map(|told| if blindly { told.joined_blindly() } else { told })
                }
                Ruling::Wait {
                    predecessor,
                    at_most,
                } => {
                    patience.only_waits = true;
                    self.wait_for(&key, predecessor, at_most, patience).await
                }
                Ruling::Refused(Rejection::KeyReused) => Some(self.reused(&key).await),
                Ruling::Refused(rejection) => Some(self.teller.refused(&key, &rejection)),
            };
            if let Some(told) = told {
                return (told, observed);
            }
        }
    }

    /// A connection for a request that will need one. What the register would answer from its
    /// record needs none; a look that is wrong costs one more question, never an attempt.
    async fn reserve(&self, must: bool) -> Result<Option<Reserved>, Fault> {
        if !self.stamped.may_be_sent() {
            return Ok(None);
        }
        if !self.gateway.endpoint.fresh_connections()
            && let Some(idle) = self.gateway.pool.idle()
        {
            return Ok(Some(idle));
        }
        if !must && self.is_answered_from_record().await {
            return Ok(None);
        }
        let begun = clock::boottime();
        let connection = self.gateway.pool.reserve().await.map_err(|unreachable| {
            tracing::warn!(
                upstream = %self.gateway.config.id,
                error = %crate::telemetry::errors::chain(&unreachable),
                "nothing was sent: the upstream cannot be reached"
            );
            Fault::UpstreamUnreachable
        })?;
        self.dispatcher
            .metrics
            .waited(WaitedFor::Connection, clock::boottime().since(begun));
        Ok(Some(connection))
    }

    async fn is_answered_from_record(&self) -> bool {
        let read = self.dispatcher.register.read();
        match read.peek(&self.identified.key, self.incarnated_by()).await {
            Ok(Some(Record::Operation(operation))) => {
                !matches!(operation.state, State::NotApplied(_))
            }
            Ok(Some(Record::Twin(_))) => true,
            Ok(None) => false,
            // The register will say so itself, in the transaction; do not connect for it.
            Err(_) => true,
        }
    }

    fn incarnated_by(&self) -> Option<&ResourceKey> {
        let presented = self
            .identified
            .presented
            .as_ref()
            .filter(|_| self.identified.follows_incarnation)?;
        Some(&presented.resource)
    }

    async fn ask(&self, connection: Option<Reserved>) -> Result<(Admission, Option<Report>), Told> {
        let key = &self.identified.key;
        let load = match self.gateway.load(&self.identified.request, &self.protect) {
            Ok(load) => load.passing_on(self.sees_breaks),
            Err(unfit) => return Err(self.unfit(unfit)),
        };
        // Under a config that names operations otherwise it would be another one, and a repeat would
        // not find it.
        let Some(names) = self.names.hold().await else {
            return Err(self.teller.fault(key, &Fault::ConfigChanged));
        };
        // Its time runs from here: what waited for a config is not late.
        let (attempt, at) = (self.dispatcher.next_attempt(), self.dispatcher.clock.now());
        let admit = self.identified.admit(attempt, at, connection.is_some());
        let admit = self.stamped.limit(admit);
        let admit = admit.map_err(|fault| self.teller.fault(key, &fault))?;
        let granted = self.granted.clone();
        let asked = self.dispatcher.ask(admit, connection, load, names, granted);
        match asked.await {
            Some(Ok(Asked::Made(admission, report))) => Ok((*admission, Some(*report))),
            // The connection, if any, goes back before anybody waits.
            Some(Ok(Asked::Ruled(admission, connection))) => {
                drop(connection);
                Ok((*admission, None))
            }
            Some(Ok(Asked::Draining)) => Err(self.teller.fault(key, &Fault::Draining)),
            Some(Err(StoreError::CommitUnknown(_))) => Err(self.teller.uncertain(key)),
            Some(Err(error)) => {
                tracing::error!(error = %error, "nothing was sent: the register cannot commit");
                Err(self.teller.fault(key, &Fault::StoreUnavailable))
            }
            // The task died between commit and report.
            None => Err(self.teller.uncertain(key)),
        }
    }

    /// What the caller is told after its own attempt.
    async fn after(
        &self,
        key: &OperationKey,
        report: Option<Report>,
        ticket: &mut Ticket,
    ) -> After {
        if let Some(report) = &report {
            self.reconciler.heard_by_caller(key, report);
        }
        let meaning = &self.identified.meaning;
        let (attempt, state, admitted, evidence) = match report {
            // Late proof completed it as an earlier form, and that is what the record holds.
            Some(Report::Recorded { state, turn, .. })
                if !meaning.is(&turn.form) && matches!(*state, State::Completed(_)) =>
            {
                return After::Told(self.reused(key).await);
            }
            Some(Report::Recorded {
                attempt,
                state,
                turn,
                evidence,
            }) => (attempt, Some(*state), turn.admitted, evidence),
            Some(Report::PassedOn(passed)) => {
                self.settle_once_it_ends(passed.attempt, ticket);
                return After::Told(Teller::passed_on(key, passed));
            }
            // The record did not commit in time: whatever the upstream said, it is not certain yet.
            Some(Report::Unrecorded { attempt, evidence }) => (attempt, None, 0, evidence),
            None => return After::Told(self.teller.uncertain(key)),
        };
        let in_doubt = state.as_ref().is_some_and(State::is_unsettled);
        if in_doubt {
            // Settling begins now.
            self.reconciler.wake(key);
        }
        let told = self
            .teller
            .ended(key, attempt, state.as_ref(), &evidence, Listener::Sender);
        match evidence {
            Evidence::NotSent(Unsent::ConnectionLost) if !in_doubt => After::NothingSent(told),
            // The upstream's own ambiguous answer goes to the caller as it is.
            Evidence::Answered { .. } => After::Told(told),
            // A caller whose answer was lost waits for the settlement like a repeat would.
            Evidence::NotSent(_) | Evidence::Interrupted { .. }
                if in_doubt && !self.identified.policy.settle.steps.is_empty() =>
            {
                let (own, joined) = (key.clone(), key.clone());
                let asked = joining::Asked {
                    own,
                    joined,
                    meaning: meaning.clone(),
                    attempt: Some(attempt),
                    admitted,
                    uncertain: true,
                };
                After::Told(self.join(ticket, asked).await.unwrap_or(told))
            }
            Evidence::NotSent(_) | Evidence::Interrupted { .. } => After::Told(told),
        }
    }

    /// Its caller is told already: should the attempt end in doubt, settling begins then. An attempt that
    /// outlasts its limit goes on, and its answer goes on being passed on: that one is for the pass.
    fn settle_once_it_ends(&self, attempt: AttemptId, ticket: &mut Ticket) {
        let key = ticket.key().clone();
        // The one that is older than the attempt misses nothing of it.
        let mut ticket = std::mem::replace(ticket, self.dispatcher.waiters.watch(&key));
        let (supervisor, reconciler) =
            (self.dispatcher.supervisor.clone(), self.reconciler.clone());
        self.dispatcher.supervisor.background(async move {
            tokio::select! {
                ended = end_of(attempt, &mut ticket) => if ended.state.is_in_doubt() && !may_go_on(&ended) {
                    reconciler.wake(&ended.key);
                },
                () = supervisor.draining() => {}
            }
        });
    }

    /// Which layer asks again while nobody knows the outcome yet, for whoever looks for it later: a hint, so
    /// that nobody waits for it.
    fn note_repeat(&self, joined: &OperationKey) {
        let Some(repeat) = &self.repeat else {
            return;
        };
        let note = Note {
            key: joined.clone(),
            text: repeat.text().to_owned(),
            at: self.dispatcher.clock.now(),
        };
        let register = self.dispatcher.register.clone();
        self.dispatcher.supervisor.background(async move {
            if let Err(error) = register.note(note).await {
                tracing::debug!(error = %error, "a repeat was not noted");
            }
        });
    }

    /// `None`: decide again from the start.
    async fn join(&self, ticket: &mut Ticket, asked: joining::Asked) -> Option<Told> {
        let join = Join {
            dispatcher: &self.dispatcher,
            teller: &self.teller,
            asked,
        };
        match join.run(ticket, self.protect.join).await {
            Joined::Told(told) => Some(told),
            Joined::Reused => Some(self.reused(&self.identified.key).await),
            Joined::AskAgain => None,
        }
    }

    /// Is what it joins neither its own operation nor that of a twin under a fence?
    fn joins_blindly(&self, asked: &joining::Asked) -> bool {
        self.identified.origin == IdentityOrigin::Fresh && asked.joined != asked.own
    }

    /// The identity is of another request. In what it differs is asked after the decision: a hint, and
    /// if the record has changed since, a hint about what it is now.
    async fn reused(&self, key: &OperationKey) -> Told {
        let record = self.dispatcher.register.read().peek(key, None).await;
        let differs = match record {
            Ok(Some(Record::Operation(first))) => {
                let (key, rule) = (&self.fingerprints, &self.protect.means);
                self.original.differences(key, rule, &first.members)
            }
            Ok(Some(Record::Twin(_)) | None) | Err(_) => Vec::new(),
        };
        self.teller.reused(key, &differs)
    }

    /// Waits until the predecessor is settled or needs a person, then `None`: decide again from the
    /// start. `Some` once the patience is over.
    async fn wait_for(
        &self,
        own: &OperationKey,
        predecessor: OperationKey,
        at_most: Millis,
        patience: &mut Patience,
    ) -> Option<Told> {
        let begun = clock::boottime();
        let left = Millis(at_most.0.saturating_sub(patience.waited.0));
        self.reconciler.wake(&predecessor);
        let settled = self.settled(&predecessor);
        let ended = timeout(Duration::from_millis(left.0), settled).await;
        let waited = clock::boottime().since(begun);
        patience.waited = patience.waited.plus(waited);
        self.dispatcher
            .metrics
            .waited(WaitedFor::Predecessor, waited);
        match ended {
            Ok(()) => None,
            Err(_elapsed) => {
                let predecessor = Box::new(predecessor);
                let rejection = Rejection::PredecessorUnsettled {
                    predecessor,
                    waiting_may_help: true,
                };
                Some(self.teller.refused(own, &rejection))
            }
        }
    }

    async fn settled(&self, predecessor: &OperationKey) {
        let _expected = self.dispatcher.waiters.expect(predecessor);
        let mut ticket = self.dispatcher.waiters.watch(predecessor);
        // It may have ended between the decision and the ticket.
        while self.is_in_doubt(predecessor).await {
            let ended = ticket.next().await;
            if ended.key == *predecessor && !ended.state.is_in_doubt() {
                return;
            }
        }
    }

    async fn is_in_doubt(&self, key: &OperationKey) -> bool {
        match self.dispatcher.register.read().peek(key, None).await {
            Ok(Some(Record::Operation(operation))) => {
                matches!(operation.state, State::Intended | State::Uncertain)
            }
            Ok(Some(Record::Twin(_)) | None) => false,
            // Unreadable is not settled.
            Err(_) => true,
        }
    }

    fn unfit(&self, unfit: UnfitRequest) -> Told {
        tracing::warn!(error = %unfit, "nothing was sent: the request does not fit HTTP/1.1");
        let why = "it cannot be put into HTTP/1.1 for this upstream";
        self.teller
            .fault(&self.identified.key, &Fault::NoRoute { why })
    }
}

/// The end of an attempt, as it is recorded first.
async fn end_of(attempt: AttemptId, ticket: &mut Ticket) -> Arc<Ended> {
    loop {
        let ended = ticket.next().await;
        if ended.attempt == Some(attempt) {
            return ended;
        }
    }
}

/// May its answer still come, or is it at least not certain that it does not?
fn may_go_on(ended: &Ended) -> bool {
    matches!(
        ended.evidence,
        Some(Evidence::Interrupted {
            why: Interruption::Timeout,
            ..
        })
    )
}

/// Why a request was not carried out to its end.
enum Broken {
    /// The drain is over.
    Over,
    Panicked,
}

enum After {
    Told(Told),
    /// Nothing was sent, and a fresh connection may do better; else this is the answer.
    NothingSent(Told),
}
