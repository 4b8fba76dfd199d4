//! The effect pipeline: reserve, admit, send, record, or wait for whoever does.
//!
//! What always holds: connecting comes before the durable write; whoever waits or joins gives its
//! connection back first; after a wait everything is decided again from the start; a joiner gets the
//! answer of the attempt that it joined, never an attempt of its own.
//!
//! What it does not do: read HTTP (`wire::identify`), write it (`reply`), or decide (`protocol`).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::joining::{self, Joined};
use super::told::{Ending, Fault, Told};
use crate::clock;
use crate::config::Protect;
use crate::dispatch::attempt::{Asked, Dispatcher, Report};
use crate::dispatch::gateway::Gateway;
use crate::dispatch::waiters::Ticket;
use crate::protocol::command::{Admission, Admit, Ruling};
use crate::protocol::ids::{OperationKey, ResourceKey};
use crate::protocol::operation::State;
use crate::protocol::outcome::{Evidence, Unsent, Verdict};
use crate::protocol::rejection::Rejection;
use crate::protocol::time::Millis;
use crate::protocol::view::Record;
use crate::reconcile::Reconciler;
use crate::store::StoreError;
use crate::telemetry::metrics::WaitedFor;
use crate::upstream::Reserved;

/// How often a request whose connection died before its first byte is admitted again.
const FRESH_TRIES: u32 = 2;

/// What a request needs on its way.
pub(crate) struct Effect {
    pub(crate) dispatcher: Dispatcher,
    pub(crate) reconciler: Reconciler,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) protect: Arc<Protect>,
    /// The request, identified; `reserved`, `attempt` and `at` are set for each try.
    pub(crate) admit: Admit,
}

/// What of `would_refuse` was seen on the way.
pub(crate) type Observed = Option<Rejection>;

impl Effect {
    /// Carries the request out.
    pub(crate) async fn run(self) -> (Told, Observed) {
        let mut observed = None;
        let mut ticket = self.dispatcher.waiters.watch(&self.admit.key);
        let mut waited_ms = Millis::default();
        let mut tries = 0;
        let mut must_reserve = false;
        loop {
            let connection = match self.reserve(must_reserve).await {
                Ok(connection) => connection,
                Err(fault) => return (self.fault(fault), observed),
            };
            let (admission, report) = match self.ask(connection).await {
                Ok(asked) => asked,
                Err(told) => return (told, observed),
            };
            observed = observed.or(admission.would_refuse);
            let key = admission.key;
            let told = match (admission.ruling, report) {
                (Ruling::Granted(_), Some(report)) => {
                    match self.after(key, report, &mut ticket).await {
                        After::Told(told) => told,
                        After::TryAgain(_) if tries < FRESH_TRIES => {
                            (tries, must_reserve) = (tries + 1, true);
                            continue;
                        }
                        After::TryAgain(told) => told,
                    }
                }
                (Ruling::Granted(_), None) => fault(key, Fault::Uncertain),
                (Ruling::ReserveFirst, _) => {
                    must_reserve = true;
                    continue;
                }
                (Ruling::Replay { completion, stale }, _) => Told::Stored {
                    operation: key,
                    completion,
                    stale,
                    joined: false,
                },
                (
                    Ruling::Join {
                        key: joined,
                        attempt,
                        uncertain,
                    },
                    _,
                ) => {
                    if uncertain {
                        self.reconciler.wake(&joined);
                    }
                    let asked = joining::Asked {
                        own: key,
                        joined,
                        attempt,
                        uncertain,
                    };
                    match joining::join(&self.dispatcher, &mut ticket, asked, self.protect.join)
                        .await
                    {
                        Joined::Told(told) => told,
                        Joined::AskAgain => continue,
                    }
                }
                (
                    Ruling::Wait {
                        predecessor,
                        at_most,
                    },
                    _,
                ) => {
                    let left = Millis(at_most.0.saturating_sub(waited_ms.0));
                    match self.wait_for(&predecessor, left).await {
                        Some(waited) => {
                            waited_ms = waited_ms.plus(waited);
                            continue;
                        }
                        None => refused(key, behind(predecessor)),
                    }
                }
                (Ruling::Refused(rejection), _) => refused(key, rejection),
            };
            return (told, observed);
        }
    }

    /// A connection for a request that will need one. What the register would answer from its
    /// record needs none; a look that is wrong costs one more question, never an attempt.
    async fn reserve(&self, must: bool) -> Result<Option<Reserved>, Fault> {
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
            Fault::Unreachable
        })?;
        self.dispatcher
            .metrics
            .waited(WaitedFor::Connection, clock::boottime().since(begun));
        Ok(Some(connection))
    }

    async fn is_answered_from_record(&self) -> bool {
        let read = self.dispatcher.register.read();
        match read.peek(&self.admit.key, self.incarnated_by()).await {
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
            .admit
            .presented
            .as_ref()
            .filter(|_| self.admit.follows_incarnation)?;
        Some(&presented.resource)
    }

    async fn ask(&self, connection: Option<Reserved>) -> Result<(Admission, Option<Report>), Told> {
        let key = || self.admit.key.clone();
        let load = match self.gateway.load(&self.admit.request, &self.protect) {
            Ok(load) => load,
            Err(_unfit) => return Err(fault(key(), Fault::Unfit)),
        };
        let admit = Admit {
            reserved: connection.is_some(),
            attempt: self.dispatcher.next_attempt(),
            at: self.dispatcher.clock.now(),
            ..self.admit.clone()
        };
        match self.dispatcher.ask(admit, connection, load).await {
            Ok(Ok(Asked::Made(admission, report))) => Ok((admission, Some(report))),
            // The connection, if any, goes back before anybody waits.
            Ok(Ok(Asked::Ruled(admission, connection))) => {
                drop(connection);
                Ok((admission, None))
            }
            Ok(Err(StoreError::CommitUnknown(_))) => Err(fault(key(), Fault::Uncertain)),
            Ok(Err(error)) => {
                tracing::error!(error = %error, "nothing was sent: the register cannot commit");
                Err(fault(key(), Fault::StoreUnavailable))
            }
            // The task died between commit and report.
            Err(_) => Err(fault(key(), Fault::Uncertain)),
        }
    }

    /// What the caller is told after its own attempt.
    async fn after(&self, key: OperationKey, report: Report, ticket: &mut Ticket) -> After {
        let (state, evidence, attempt) = match report {
            Report::Recorded {
                state,
                evidence,
                attempt,
            } => (state, evidence, attempt),
            Report::Unrecorded { evidence } => return After::Told(unrecorded(key, evidence)),
        };
        match (state, evidence) {
            (State::Completed(completion), evidence) => {
                After::Told(completed(key, completion, attempt, evidence))
            }
            (State::NotApplied(_), Evidence::Answered { answer, .. }) => {
                After::Told(Told::Answered {
                    operation: key,
                    answer,
                    ending: Ending::NotProcessed,
                })
            }
            (State::NotApplied(_), Evidence::NotSent(unsent)) => not_sent(key, unsent),
            // Its own attempt may have sent, yet somebody knows better already: ask the record.
            (State::NotApplied(_), Evidence::Interrupted { .. }) => {
                After::Told(fault(key, Fault::Uncertain))
            }
            (State::Intended | State::Uncertain | State::NeedsAttention(_), evidence) => {
                After::Told(self.uncertain(key, evidence, ticket).await)
            }
        }
    }

    /// Settling begins now. The upstream's own ambiguous answer goes to the caller as it is; a caller
    /// whose answer was lost waits for the settlement like a repeat would.
    async fn uncertain(&self, key: OperationKey, evidence: Evidence, ticket: &mut Ticket) -> Told {
        self.reconciler.wake(&key);
        match evidence {
            Evidence::Answered { answer, .. } => Told::Ambiguous {
                operation: key,
                answer,
            },
            Evidence::NotSent(_) | Evidence::Interrupted { .. } => {
                if self.admit.policy.settle.resend.is_none() {
                    return fault(key, Fault::Uncertain);
                }
                let asked = joining::Asked {
                    own: key.clone(),
                    joined: key.clone(),
                    attempt: None,
                    uncertain: true,
                };
                match joining::join(&self.dispatcher, ticket, asked, self.protect.join).await {
                    Joined::Told(told) => told,
                    Joined::AskAgain => fault(key, Fault::Uncertain),
                }
            }
        }
    }

    /// Waits until the predecessor is settled or needs a person; how long it took. `None`: the
    /// patience is over.
    async fn wait_for(&self, predecessor: &OperationKey, at_most: Millis) -> Option<Millis> {
        let begun = clock::boottime();
        let mut ticket = self.dispatcher.waiters.watch(predecessor);
        self.reconciler.wake(predecessor);
        let settled = async {
            // It may have ended between the decision and the ticket.
            while self.is_in_doubt(predecessor).await {
                let ended = ticket.next().await;
                let in_doubt = matches!(ended.state, State::Intended | State::Uncertain);
                if ended.key == *predecessor && !in_doubt {
                    return;
                }
            }
        };
        let ended = timeout(Duration::from_millis(at_most.0), settled).await;
        let waited = clock::boottime().since(begun);
        self.dispatcher
            .metrics
            .waited(WaitedFor::Predecessor, waited);
        ended.ok().map(|()| waited)
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

    fn fault(&self, fault: Fault) -> Told {
        Told::Fault {
            operation: self.admit.key.clone(),
            fault,
        }
    }
}

enum After {
    Told(Told),
    /// Nothing was sent, and a fresh connection may do better; else this is the answer.
    TryAgain(Told),
}

fn completed(
    operation: OperationKey,
    completion: crate::protocol::operation::Completion,
    attempt: crate::protocol::ids::AttemptId,
    evidence: Evidence,
) -> Told {
    let ending = match completion.verdict {
        Verdict::Applied => Ending::Applied,
        Verdict::Refused => Ending::Refused,
    };
    match evidence {
        Evidence::Answered { answer, .. } if completion.attempt == Some(attempt) => {
            Told::Answered {
                operation,
                answer,
                ending,
            }
        }
        Evidence::Answered { .. } | Evidence::NotSent(_) | Evidence::Interrupted { .. } => {
            let completion = Box::new(completion);
            Told::Stored {
                operation,
                completion,
                stale: false,
                joined: true,
            }
        }
    }
}

fn not_sent(key: OperationKey, unsent: Unsent) -> After {
    match unsent {
        Unsent::ConnectionLost => After::TryAgain(fault(key, Fault::Unreachable)),
        Unsent::DispatchExpired => After::Told(fault(key, Fault::DispatchExpired)),
        Unsent::Unfit => After::Told(fault(key, Fault::Unfit)),
        Unsent::AlreadySettled => After::Told(fault(key, Fault::Uncertain)),
    }
}

/// The record did not commit in time: whatever the upstream said, it is not certain yet.
fn unrecorded(operation: OperationKey, evidence: Evidence) -> Told {
    match evidence {
        Evidence::Answered { answer, .. } => Told::Ambiguous { operation, answer },
        Evidence::Interrupted { .. } => fault(operation, Fault::Uncertain),
        Evidence::NotSent(_) => fault(operation, Fault::StoreUnavailable),
    }
}

fn behind(predecessor: OperationKey) -> Rejection {
    Rejection::PredecessorUnsettled {
        predecessor: Box::new(predecessor),
        waiting_may_help: true,
    }
}

fn refused(operation: OperationKey, rejection: Rejection) -> Told {
    Told::Refused {
        operation,
        rejection,
    }
}

fn fault(operation: OperationKey, fault: Fault) -> Told {
    Told::Fault { operation, fault }
}
