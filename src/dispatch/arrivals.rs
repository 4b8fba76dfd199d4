//! Requests as they come in, so that a repeat can be told by which layer it was made.
//!
//! What always holds: bounded, in memory, and a hint: nothing is decided by it. What it says of a repeat is what
//! was seen here: whether the request before still waits, how long its caller waited before he gave up, from
//! where both came. No content, no credential, no identity of a caller.
//!
//! What it does not do: know what other sidecars saw.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock;
use crate::protocol::ids::OperationKey;
use crate::protocol::time::{BootInstant, Millis};

/// So many operations are remembered.
const REMEMBERED: usize = 4_096;

/// So many repeats of one operation are told.
const TOLD: u32 = 3;

/// Closer together than any caller's deadline.
const AT_ONCE: Millis = Millis(50);

/// The far end of a request's connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: Option<IpAddr>,
    /// Which connection of this process.
    pub connection: u64,
}

/// What came in. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Arrivals(Arc<Mutex<Book>>);

#[derive(Debug, Default)]
struct Book {
    last: HashMap<OperationKey, Arrival>,
    /// Oldest first.
    order: VecDeque<OperationKey>,
    arrived: u64,
}

#[derive(Clone, Copy, Debug)]
struct Arrival {
    number: u64,
    at: BootInstant,
    from: Peer,
    end: End,
    told: u32,
}

/// What became of a request, for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Waits,
    GaveUp(BootInstant),
    Answered(BootInstant),
}

/// A request that came in; dropped without an answer, its caller gave up.
#[derive(Debug)]
pub struct Arrived {
    arrivals: Arrivals,
    key: OperationKey,
    number: u64,
}

/// What was seen of a repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeat(String);

impl Arrivals {
    /// A request for this operation comes in. `Some`: it is not the first one here, and worth telling.
    pub fn arrive(&self, key: &OperationKey, from: Peer) -> (Arrived, Option<Repeat>) {
        self.arrive_at(key, from, clock::boottime())
    }

    fn arrive_at(
        &self,
        key: &OperationKey,
        from: Peer,
        at: BootInstant,
    ) -> (Arrived, Option<Repeat>) {
        let mut book = self.book();
        book.arrived = book.arrived.saturating_add(1);
        let number = book.arrived;
        let before = book.last.get(key).copied();
        let repeat = before.filter(|it| it.told < TOLD);
        let arrival = Arrival {
            number,
            at,
            from,
            end: End::Waits,
            told: before.map_or(0, |it| it.told.saturating_add(1)),
        };
        if book.last.insert(key.clone(), arrival).is_none() {
            book.order.push_back(key.clone());
            if book.order.len() > REMEMBERED
                && let Some(oldest) = book.order.pop_front()
            {
                book.last.remove(&oldest);
            }
        }
        let arrived = Arrived {
            arrivals: self.clone(),
            key: key.clone(),
            number,
        };
        (arrived, repeat.map(|before| Repeat::of(&before, from, at)))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arrived {
    /// Its caller has his answer.
    pub fn answered(self) {
        self.end(End::Answered(clock::boottime()));
    }

    fn end(&self, end: End) {
        let mut book = self.arrivals.book();
        let own = book.last.get_mut(&self.key);
        if let Some(own) = own.filter(|it| it.number == self.number && it.end == End::Waits) {
            own.end = end;
        }
    }
}

impl Drop for Arrived {
    fn drop(&mut self) {
        self.end(End::GaveUp(clock::boottime()));
    }
}

impl Repeat {
    fn of(before: &Arrival, from: Peer, at: BootInstant) -> Self {
        let gap = at.since(before.at);
        let layer = match (before.end, before.from.address == from.address) {
            (_, false) => format!(
                "from another address ({} before): another replica of the caller",
                shown(before.from)
            ),
            (End::GaveUp(when), true) => format!(
                "the caller had given up after {} ms, and asked again {} ms later: its own retry at its deadline",
                when.since(before.at).0,
                at.since(when).0
            ),
            (End::Answered(when), true) => format!(
                "the one before was answered {} ms ago: the answer was lost on the way back, or the caller began \
                 anew",
                at.since(when).0
            ),
            (End::Waits, true) if gap <= AT_ONCE => {
                "the one before still waits: two at once, a race within the caller".to_owned()
            }
            (End::Waits, true) => {
                "the one before still waits: a layer that repeats without giving up".to_owned()
            }
        };
        let over = if before.from.connection == from.connection {
            "the same connection"
        } else {
            "another connection"
        };
        Self(format!(
            "asked for again after {} ms, over {over} of {}; {layer}",
            gap.0,
            shown(from)
        ))
    }

    /// For the event log.
    pub fn text(&self) -> &str {
        &self.0
    }
}

fn shown(peer: Peer) -> String {
    peer.address
        .map_or_else(|| "an unknown address".to_owned(), |it| it.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::conformance::commands::key;

    fn peer(last: u8, connection: u64) -> Peer {
        Peer {
            address: Some(IpAddr::from([127, 0, 0, last])),
            connection,
        }
    }

    fn told(repeat: Option<Repeat>) -> String {
        repeat.unwrap().text().to_owned()
    }

    /// F14: the gap is measured against what became of the request before, and from where both came.
    #[test]
    fn a_repeat_is_told_by_the_layer_that_made_it() {
        let arrivals = Arrivals::default();
        let k = key("k");
        let at = clock::boottime();
        let (first, none) = arrivals.arrive_at(&k, peer(1, 1), at);
        assert_eq!(none, None);
        let (second, race) = arrivals.arrive_at(&k, peer(1, 2), at.after(Millis(2)));
        let race = told(race);
        assert!(
            race.contains("after 2 ms, over another connection of 127.0.0.1")
                && race.contains("a race within the caller"),
            "{race}"
        );
        drop(second);
        let (third, retry) = arrivals.arrive_at(&k, peer(1, 3), at.after(Millis(5_000)));
        let retry = told(retry);
        assert!(retry.contains("its own retry at its deadline"), "{retry}");
        let (_fourth, replica) = arrivals.arrive_at(&k, peer(2, 4), at.after(Millis(5_001)));
        let replica = told(replica);
        assert!(replica.contains("another replica"), "{replica}");
        // A storm is not told for ever.
        let (_fifth, none) = arrivals.arrive_at(&k, peer(2, 5), at.after(Millis(5_002)));
        assert_eq!(none, None);
        drop((first, third));

        let other = key("other");
        let (one, _) = arrivals.arrive_at(&other, peer(1, 1), at);
        one.answered();
        let (_two, again) = arrivals.arrive_at(&other, peer(1, 1), at.after(Millis(9_000)));
        let again = told(again);
        assert!(again.contains("over the same connection"), "{again}");
        assert!(again.contains("was answered"), "{again}");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let arrivals = Arrivals::default();
        for number in 0..REMEMBERED + 10 {
            drop(arrivals.arrive(&key(&number.to_string()), Peer::default()));
        }
        assert_eq!(arrivals.book().last.len(), REMEMBERED);
        let (_, forgotten) = arrivals.arrive(&key("0"), Peer::default());
        assert_eq!(forgotten, None);
    }
}
