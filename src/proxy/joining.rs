//! Joining: a request that repeats an operation takes the answer of the attempt under way.
//!
//! What always holds: a joiner never makes an attempt, and never takes the answer of an attempt that
//! ended before it asked. Its patience is bounded.
//!
//! What it does not do: settle. It waits for whoever does.

use std::time::Duration;

use tokio::time::timeout;

use super::told::{Teller, Told};
use crate::clock;
use crate::dispatch::attempt::Dispatcher;
use crate::dispatch::waiters::{Ended, Ticket};
use crate::protocol::ids::{AttemptId, OperationKey};
use crate::protocol::meaning::Meaning;
use crate::protocol::operation::{Operation, State};
use crate::protocol::rejection::Rejection;
use crate::protocol::view::Record;
use crate::telemetry::metrics::{Answered, WaitedFor};
use crate::wire::answer::Listener;
use crate::wire::problem::Fault;

/// What is joined.
pub(super) struct Asked {
    /// The caller's own identity.
    pub(super) own: OperationKey,
    /// Whom it joins: itself, or the first of twins.
    pub(super) joined: OperationKey,
    /// What the caller asked for.
    pub(super) meaning: Meaning,
    /// The attempt it joins, where it is known.
    pub(super) attempt: Option<AttemptId>,
    /// How many attempts were admitted by then. A ticket is older than the question, and holds what
    /// was said before it: of this caller's own earlier attempt, which sent nothing, for example.
    pub(super) admitted: u32,
    /// Is it UNCERTAIN already?
    pub(super) uncertain: bool,
}

/// A request that joins.
pub(super) struct Join<'a> {
    pub(super) dispatcher: &'a Dispatcher,
    pub(super) teller: &'a Teller,
    pub(super) asked: Asked,
}

/// What came of it.
pub(super) enum Joined {
    /// This.
    Told(Told),
    /// Late proof completed it as another form.
    Reused,
    /// The twin's note is void, or everything changed meanwhile: decide again from the start.
    AskAgain,
}

impl Join<'_> {
    /// Waits, at most that long.
    pub(super) async fn run(self, own_ticket: &mut Ticket, at_most: Duration) -> Joined {
        let begun = clock::boottime();
        let _expected = self.dispatcher.waiters.expect(&self.asked.joined);
        let mut uncertain = self.asked.uncertain;
        let waiting = async {
            if self.asked.joined == self.asked.own {
                self.wait(own_ticket, &mut uncertain).await
            } else {
                self.wait_for_first(&mut uncertain).await
            }
        };
        let joined = timeout(at_most, waiting).await;
        let waited = clock::boottime().since(begun);
        self.dispatcher.metrics.waited(WaitedFor::Join, waited);
        joined.unwrap_or_else(|_patience_is_over| {
            let key = &self.asked.joined;
            Joined::Told(if uncertain {
                self.teller.uncertain(key)
            } else {
                self.teller.fault(key, &Fault::OperationInFlight)
            })
        })
    }

    /// A twin joins the first. The ticket is taken late, so the record is read once more after it.
    async fn wait_for_first(&self, uncertain: &mut bool) -> Joined {
        let mut ticket = self.dispatcher.waiters.watch(&self.asked.joined);
        match self
            .dispatcher
            .register
            .read()
            .peek(&self.asked.joined, None)
            .await
        {
            Ok(Some(Record::Operation(first))) if !first.state.is_unsettled() => self.ended(&first),
            Ok(_) | Err(_) => self.wait(&mut ticket, uncertain).await,
        }
    }

    /// It ended before anybody could wait for it. To ask again is to be decided anew: without a key
    /// nothing would be found by then, and the request would be sent.
    fn ended(&self, first: &Operation) -> Joined {
        match &first.state {
            State::Completed(completion) if self.asked.meaning.is(&first.fingerprint) => {
                Joined::Told(Teller::stored(
                    &first.key,
                    completion,
                    false,
                    Answered::Joined,
                ))
            }
            State::Completed(_)
            | State::NotApplied(_)
            | State::Intended
            | State::Uncertain
            | State::NeedsAttention(_) => Joined::AskAgain,
        }
    }

    async fn wait(&self, ticket: &mut Ticket, uncertain: &mut bool) -> Joined {
        loop {
            let ended = ticket.next().await;
            if ended.key != self.asked.joined || ended.turn.admitted < self.asked.admitted {
                continue;
            }
            match &ended.state {
                State::Intended => {}
                State::Uncertain => *uncertain = true,
                State::NeedsAttention(_) => {
                    let rejection = Rejection::NeedsAttention(Box::new(ended.key.clone()));
                    return Joined::Told(self.teller.refused(&ended.key, &rejection));
                }
                State::Completed(_) if !self.asked.meaning.is(&ended.turn.form) => {
                    return Joined::Reused;
                }
                State::Completed(completion) => {
                    let stored = Teller::stored(&ended.key, completion, false, Answered::Joined);
                    return Joined::Told(stored);
                }
                State::NotApplied(_) if self.is_of_an_earlier_attempt(&ended) => {}
                // A twin's note is void then: it goes on as new.
                State::NotApplied(_) if self.asked.joined != self.asked.own => {
                    return Joined::AskAgain;
                }
                State::NotApplied(_) => return Joined::Told(self.not_applied(&ended)),
            }
        }
    }

    fn is_of_an_earlier_attempt(&self, ended: &Ended) -> bool {
        match (ended.attempt, self.asked.attempt) {
            (Some(ended), Some(joined)) => ended != joined,
            (None, _) | (_, None) => false,
        }
    }

    /// The answer of the attempt that was joined, though the record does not keep it. Where a person
    /// said so, there is none: the same operation may come again.
    fn not_applied(&self, ended: &Ended) -> Told {
        let key = &ended.key;
        match (ended.attempt, &ended.evidence) {
            (Some(attempt), Some(evidence)) => {
                self.teller
                    .ended(key, attempt, Some(&ended.state), evidence, Listener::Joiner)
            }
            (None, _) | (_, None) => self.teller.fault(key, &Fault::OperationInFlight),
        }
    }
}
