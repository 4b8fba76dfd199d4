//! Joining: a request that repeats an operation takes the answer of the attempt under way.
//!
//! What always holds: a joiner never makes an attempt, and never takes the answer of an attempt that
//! ended before it asked. Its patience is bounded.
//!
//! What it does not do: settle. It waits for whoever does.

use std::time::Duration;

use tokio::time::timeout;

use super::told::{Ending, Fault, Told};
use crate::clock;
use crate::dispatch::attempt::Dispatcher;
use crate::dispatch::waiters::{Ended, Ticket};
use crate::protocol::ids::{AttemptId, OperationKey};
use crate::protocol::operation::State;
use crate::protocol::outcome::{Evidence, Unsent};
use crate::protocol::rejection::Rejection;
use crate::protocol::view::Record;
use crate::telemetry::metrics::WaitedFor;

/// What is joined.
pub(super) struct Asked {
    /// The caller's own identity.
    pub(super) own: OperationKey,
    /// Whom it joins: itself, or the first of twins.
    pub(super) joined: OperationKey,
    /// The attempt it joins, where it is known.
    pub(super) attempt: Option<AttemptId>,
    /// Is it UNCERTAIN already?
    pub(super) uncertain: bool,
}

/// What came of it.
pub(super) enum Joined {
    /// This.
    Told(Told),
    /// The twin's note is void, or everything changed meanwhile: decide again from the start.
    AskAgain,
}

/// Waits, at most that long.
pub(super) async fn join(
    dispatcher: &Dispatcher,
    own_ticket: &mut Ticket,
    asked: Asked,
    at_most: Duration,
) -> Joined {
    let begun = clock::boottime();
    let mut uncertain = asked.uncertain;
    let waiting = async {
        if asked.joined == asked.own {
            wait(own_ticket, &asked, &mut uncertain).await
        } else {
            join_first(dispatcher, &asked, &mut uncertain).await
        }
    };
    let joined = timeout(at_most, waiting).await;
    dispatcher
        .metrics
        .waited(WaitedFor::Join, clock::boottime().since(begun));
    joined.unwrap_or_else(|_patience_is_over| {
        let fault = if uncertain {
            Fault::Uncertain
        } else {
            Fault::InFlight
        };
        Joined::Told(Told::Fault {
            operation: asked.joined,
            fault,
        })
    })
}

/// A twin joins the first. The ticket is taken late, so the record is read once more after it.
async fn join_first(dispatcher: &Dispatcher, asked: &Asked, uncertain: &mut bool) -> Joined {
    let mut ticket = dispatcher.waiters.watch(&asked.joined);
    match dispatcher.register.read().peek(&asked.joined, None).await {
        Ok(Some(Record::Operation(first))) if !first.state.is_unsettled() => Joined::AskAgain,
        Ok(_) | Err(_) => wait(&mut ticket, asked, uncertain).await,
    }
}

async fn wait(ticket: &mut Ticket, asked: &Asked, uncertain: &mut bool) -> Joined {
    loop {
        let ended = ticket.next().await;
        if ended.key != asked.joined {
            continue;
        }
        match &ended.state {
            State::Intended => {}
            State::Uncertain => *uncertain = true,
            State::NeedsAttention(_) => {
                let rejection = Rejection::NeedsAttention(Box::new(ended.key.clone()));
                return Joined::Told(Told::Refused {
                    operation: ended.key.clone(),
                    rejection,
                });
            }
            State::Completed(completion) => {
                return Joined::Told(Told::Stored {
                    operation: ended.key.clone(),
                    completion: Box::new(completion.clone()),
                    stale: false,
                    joined: true,
                });
            }
            State::NotApplied(_) if is_of_an_earlier_attempt(&ended, asked) => {}
            // A twin's note is void then: it goes on as new.
            State::NotApplied(_) if asked.joined != asked.own => return Joined::AskAgain,
            State::NotApplied(_) => return Joined::Told(not_applied(&ended)),
        }
    }
}

fn is_of_an_earlier_attempt(ended: &Ended, asked: &Asked) -> bool {
    match (ended.attempt, asked.attempt) {
        (Some(ended), Some(joined)) => ended != joined,
        (None, _) | (_, None) => false,
    }
}

/// The answer of the attempt that was joined, though the record does not keep it.
fn not_applied(ended: &Ended) -> Told {
    let operation = ended.key.clone();
    match &ended.evidence {
        Some(Evidence::Answered { answer, .. }) => {
            Told::Answered { operation, answer: answer.clone(), ending: Ending::NotProcessed }
        }
        Some(Evidence::NotSent(Unsent::DispatchExpired)) => {
            Told::Fault { operation, fault: Fault::DispatchExpired }
        }
        Some(Evidence::NotSent(Unsent::Unfit)) => Told::Fault { operation, fault: Fault::Unfit },
        Some(
            Evidence::NotSent(Unsent::ConnectionLost | Unsent::AlreadySettled)
            | Evidence::Interrupted { .. },
        )
        // A person said so: the same request may come again.
        | None => Told::Fault { operation, fault: Fault::Unreachable },
    }
}
