//! Who waits for an operation in this process: a cache of waiters, never the truth.
//!
//! What always holds: a ticket taken before a question to the register misses no end that is
//! published after that question was decided. Waiters are woken, not polled. An end is published
//! only after its record has committed.
//!
//! What it does not do: know whether an operation is settled (the register does), or hear of ends that other
//! processes bring about (`abroad` does, for what is said to be waited for).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;
use tokio::sync::{Notify, SetOnce};

use crate::protocol::command::Turn;
use crate::protocol::ids::{AttemptId, Incarnation, OperationKey};
use crate::protocol::operation::State;
use crate::protocol::outcome::Evidence;

/// What became of an operation, after the transaction that says so.
#[derive(Debug)]
pub struct Ended {
    /// Whose end, incarnation included.
    pub key: OperationKey,
    /// Which admission of it, and which form, the record is at now.
    pub turn: Turn,
    /// The attempt that ended; `None` if somebody else settled it.
    pub attempt: Option<AttemptId>,
    /// What the record holds now.
    pub state: State,
    /// What the attempt showed, for those who joined it: a record does not keep the answer of an
    /// attempt that had no effect.
    pub evidence: Option<Evidence>,
}

/// Everybody who waits, by operation.
#[derive(Clone, Default)]
pub struct Waiters {
    flights: Arc<DashMap<OperationKey, Flight>>,
    expected: Arc<Expected>,
}

/// What somebody waits for, whoever may bring it about.
#[derive(Default)]
struct Expected {
    /// And how many do.
    by: DashMap<OperationKey, usize>,
    another: Notify,
}

/// Held by whoever waits for the end of an operation that another process may carry.
pub struct Expectation {
    key: OperationKey,
    expected: Arc<Expected>,
}

struct Flight {
    /// The end that comes next.
    next: Arc<Page>,
    /// Live tickets.
    tickets: usize,
    /// Those of attempts that have more to say than their record will.
    working: usize,
    /// Tells the attempts that listen for a late answer to close.
    close: Arc<Requests>,
}

/// One end, and where the one after it will be.
#[derive(Default)]
struct Page {
    end: SetOnce<(Arc<Ended>, Arc<Page>)>,
}

impl Drop for Page {
    /// Frees the pages behind this one in a loop: a ticket that looked away for long holds so many of
    /// them that freeing each from within the one before would overflow the stack.
    fn drop(&mut self) {
        let mut end = std::mem::take(&mut self.end).into_inner();
        while let Some((_ended, page)) = end {
            end = Arc::into_inner(page)
                .and_then(|mut page| std::mem::take(&mut page.end).into_inner());
        }
    }
}

/// Requests to close attempts that listen for a late answer.
#[derive(Default)]
struct Requests {
    made: AtomicUsize,
    wake: Notify,
}

/// How one attempt learns that it is to close. Whoever waits for the operation may outlive many
/// attempts: a request that was made for an earlier one is not for this.
pub struct Closing {
    requests: Arc<Requests>,
    before: usize,
}

impl Closing {
    /// Resolves once somebody asks.
    pub async fn asked(&self) {
        loop {
            let woken = self.requests.wake.notified();
            if self.requests.made.load(Ordering::Acquire) > self.before {
                return;
            }
            woken.await;
        }
    }
}

impl Requests {
    fn make(&self) {
        self.made.fetch_add(1, Ordering::Release);
        self.wake.notify_waiters();
    }
}

/// A place among the waiters of one operation.
pub struct Ticket {
    key: OperationKey,
    place: OperationKey,
    page: Arc<Page>,
    working: bool,
    waiters: Waiters,
}

impl Waiters {
    /// Takes a place. Everything published from now on will be seen.
    ///
    /// A caller asks before it knows the incarnation, so incarnations share a place: an [`Ended`]
    /// says whose it is.
    pub fn watch(&self, key: &OperationKey) -> Ticket {
        self.take_place(key, false)
    }

    /// The same for an attempt, which will publish its end here.
    pub fn work_on(&self, key: &OperationKey) -> Ticket {
        self.take_place(key, true)
    }

    /// Says that somebody waits for the end of this operation, as long as it is held; in its own
    /// incarnation.
    pub fn expect(&self, key: &OperationKey) -> Expectation {
        let mut by = self.expected.by.entry(key.clone()).or_default();
        *by = by.saturating_add(1);
        let is_first = *by == 1;
        drop(by);
        if is_first {
            self.expected.another.notify_one();
        }
        Expectation {
            key: key.clone(),
            expected: Arc::clone(&self.expected),
        }
    }

    /// What is waited for, and not worked on here.
    pub fn abroad(&self) -> Vec<OperationKey> {
        let all = self.expected.by.iter().map(|entry| entry.key().clone());
        // Collected first: no two locks of these maps are held at once.
        let mut abroad: Vec<_> = all.collect();
        abroad.retain(|key| !self.is_worked_on(key));
        abroad
    }

    /// Is there an attempt of this process that will publish its end?
    pub fn is_worked_on(&self, key: &OperationKey) -> bool {
        let flight = self.flights.get(&key.within(Incarnation::default()));
        flight.is_some_and(|flight| flight.working > 0)
    }

    /// Resolves once another operation is abroad; for one that asks, who misses none between two questions.
    pub async fn another_is_abroad(&self) {
        self.expected.another.notified().await;
    }

    fn take_place(&self, key: &OperationKey, working: bool) -> Ticket {
        let place = key.within(Incarnation::default());
        let mut flight = self.flights.entry(place.clone()).or_insert_with(|| Flight {
            next: Arc::default(),
            tickets: 0,
            working: 0,
            close: Arc::default(),
        });
        flight.tickets = flight.tickets.saturating_add(1);
        flight.working = flight.working.saturating_add(usize::from(working));
        let page = Arc::clone(&flight.next);
        drop(flight);
        Ticket {
            key: key.clone(),
            place,
            page,
            working,
            waiters: self.clone(),
        }
    }

    /// Publishes an end to everybody who waits. Only after its commit.
    pub fn publish(&self, ended: Ended) {
        let place = ended.key.within(Incarnation::default());
        let Some(mut flight) = self.flights.get_mut(&place) else {
            return;
        };
        let following: Arc<Page> = Arc::default();
        let page = std::mem::replace(&mut flight.next, Arc::clone(&following));
        drop(flight);
        // Every page is taken out of its flight before it is set: nobody else can have set it.
        let _ = page.end.set((Arc::new(ended), following));
    }

    /// Asks the attempt that listens for a late answer of this operation to close. It answers by
    /// publishing its end.
    pub fn ask_to_close(&self, key: &OperationKey) {
        if let Some(flight) = self.flights.get(&key.within(Incarnation::default())) {
            flight.close.make();
        }
    }

    /// How many operations somebody waits for or works on.
    pub fn len(&self) -> usize {
        self.flights.len()
    }

    /// Does nobody wait?
    pub fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    fn leave(&self, key: &OperationKey) {
        if let Some(mut flight) = self.flights.get_mut(key) {
            flight.tickets = flight.tickets.saturating_sub(1);
        }
        self.flights.remove_if(key, |_, flight| flight.tickets == 0);
    }
}

impl Ticket {
    /// The operation.
    pub fn key(&self) -> &OperationKey {
        &self.key
    }

    /// Waits for the next end. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Arc<Ended> {
        let (ended, following) = self.page.end.wait().await.clone();
        self.page = following;
        ended
    }

    /// The attempt has said what it had to say: all that may still come is in the register as soon as it is
    /// here.
    pub fn rest(&mut self) {
        if !std::mem::take(&mut self.working) {
            return;
        }
        if let Some(mut flight) = self.waiters.flights.get_mut(&self.place) {
            flight.working = flight.working.saturating_sub(1);
        }
        if self.waiters.expected.by.contains_key(&self.key) {
            self.waiters.expected.another.notify_one();
        }
    }

    /// How an attempt of this operation is asked to close. To be taken before the attempt begins:
    /// whoever reads in its record that it listens can then ask, and is heard.
    pub fn closing(&self) -> Closing {
        let flight = self.waiters.flights.get(&self.place);
        let requests = flight.map(|flight| Arc::clone(&flight.close));
        let requests = requests.unwrap_or_default();
        Closing {
            before: requests.made.load(Ordering::Acquire),
            requests,
        }
    }
}

impl Drop for Expectation {
    fn drop(&mut self) {
        if let Some(mut by) = self.expected.by.get_mut(&self.key) {
            *by = by.saturating_sub(1);
        }
        self.expected.by.remove_if(&self.key, |_, by| *by == 0);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.rest();
        self.waiters.leave(&self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ids::{
        Fingerprint, InstanceId, OperationId, Principal, Tenant, UpstreamId,
    };
    use crate::protocol::operation::WhyNot;
    use crate::protocol::outcome::Unsent;

    fn key(id: &str) -> OperationKey {
        OperationKey {
            tenant: Tenant::new("t"),
            upstream: UpstreamId::new("u"),
            principal: Principal::None,
            id: OperationId::new(id),
            incarnation: Incarnation(0),
        }
    }

    fn ended(number: u64) -> Ended {
        Ended {
            key: key("a"),
            turn: Turn {
                admitted: 1,
                form: Fingerprint {
                    key: 0,
                    form: 1,
                    digest: [0; 32],
                },
            },
            attempt: Some(AttemptId {
                instance: InstanceId(1),
                number,
            }),
            state: State::NotApplied(WhyNot::NotSent(Unsent::ConnectionLost)),
            evidence: None,
        }
    }

    fn number(ended: &Ended) -> u64 {
        ended.attempt.map(|attempt| attempt.number).unwrap()
    }

    #[tokio::test]
    async fn a_ticket_sees_every_end_from_its_taking_in_order() {
        let waiters = Waiters::default();
        let mut early = waiters.watch(&key("a"));
        waiters.publish(ended(1));
        let mut late = waiters.watch(&key("a"));
        waiters.publish(ended(2));
        assert_eq!(number(&*early.next().await), 1);
        assert_eq!(number(&*early.next().await), 2);
        assert_eq!(number(&*late.next().await), 2);
    }

    #[tokio::test]
    async fn a_thousand_waiters_are_woken_by_one_end() {
        let waiters = Waiters::default();
        let mut set = tokio::task::JoinSet::new();
        for _ in 0..1_000 {
            let mut ticket = waiters.watch(&key("a"));
            set.spawn(async move { number(&*ticket.next().await) });
        }
        waiters.publish(ended(7));
        while let Some(seen) = set.join_next().await {
            assert_eq!(seen.unwrap(), 7);
        }
        assert!(waiters.is_empty(), "nobody is left behind");
    }

    #[tokio::test]
    async fn leaving_early_affects_nobody_else() {
        let waiters = Waiters::default();
        let mut stays = waiters.watch(&key("a"));
        drop(waiters.watch(&key("a")));
        waiters.publish(ended(1));
        assert_eq!(number(&*stays.next().await), 1);
        drop(stays);
        assert!(waiters.is_empty());
    }

    /// A waiter that waits for something else meanwhile reads none of it.
    #[tokio::test]
    async fn a_ticket_that_missed_very_many_ends_can_be_dropped() {
        let waiters = Waiters::default();
        let ticket = waiters.watch(&key("a"));
        let many = ended(1);
        for _ in 0..200_000 {
            waiters.publish(Ended {
                key: many.key.clone(),
                state: many.state.clone(),
                evidence: None,
                ..many
            });
        }
        drop(ticket);
        assert!(waiters.is_empty());
    }

    #[tokio::test]
    async fn a_request_to_close_reaches_the_attempt_that_had_begun_and_no_later_one() {
        let waiters = Waiters::default();
        let ticket = waiters.watch(&key("a"));
        let closing = ticket.closing();
        waiters.ask_to_close(&key("a"));
        closing.asked().await;
        let next = ticket.closing();
        assert!(
            at_once(next.asked()).is_none(),
            "the next attempt listens on"
        );
        waiters.ask_to_close(&key("a"));
        next.asked().await;
    }

    /// What the future has to say at once.
    fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(future).poll(&mut context) {
            std::task::Poll::Ready(said) => Some(said),
            std::task::Poll::Pending => None,
        }
    }
}
