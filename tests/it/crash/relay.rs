//! Three sidecars, each with workers that relay the same thousand intents, as replicas of one service do that read
//! the same table: F02.
//!
//! What always holds: the upstream can neither deduplicate nor be asked, and its ledger decides. Without a death every
//! intent has its one head; with some, none has two, and what nobody can know is left to a person.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::traffic::OPERATION;
use super::world::seed;
use crate::servers::{Database, shared};
use crate::support::call::Call;
use crate::support::dice::{Dice, said};
use crate::support::gate::{until, until_after};
use crate::support::proxy::Proxy;
use crate::support::setup::{DEAD_AFTER, Setup};
use crate::support::upstream::{Keys, Upstream};

const SIDECARS: usize = 3;
const INTENTS: usize = 1_000;

/// Where nobody dies, fewer show as much.
const FEWER: usize = 200;

/// Of each sidecar; they share its list.
const WORKERS: usize = 4;

/// The short form; see `FENCEPOST_CRASH_KILLS`.
const KILLS: usize = 3;

const ROUTE: &str = "
capability: [opaque]
effects:
  - on: POST /payments
    once: { header: Idempotency-Key }
    join: 1s
";

struct Relay {
    upstream: Upstream,
    database: Database,
    proxies: Vec<Proxy>,
}

/// One sidecar's list, in an order of its own.
struct Queue {
    intents: Vec<usize>,
    next: AtomicUsize,
}

impl Relay {
    fn begin() -> Self {
        let upstream = Upstream::start(Keys::Ignored);
        let database = shared().database();
        let sidecar = |_| {
            let setup = Setup::new(upstream.address(), ROUTE);
            Proxy::start(setup.sharing(&database.url(), ""))
        };
        Self {
            proxies: (0..SIDECARS).map(sidecar).collect(),
            upstream,
            database,
        }
    }

    /// Everybody relays everything, while somebody is killed so many times.
    fn run(&mut self, dice: &mut Dice, intents: usize, kills: usize) {
        let addresses: Vec<_> = self.proxies.iter().map(Proxy::address).collect();
        let queues: Vec<_> = (0..SIDECARS)
            .map(|_| Queue::shuffled(dice, intents))
            .collect();
        thread::scope(|scope| {
            for (queue, address) in queues.iter().zip(addresses) {
                for _ in 0..WORKERS {
                    scope.spawn(move || {
                        while let Some(intent) = queue.take() {
                            relay(&name(intent), &|| Call::new(address, "POST", "/payments"));
                        }
                    });
                }
            }
            for kill in 1..=kills {
                let heads = kill * intents / (kills + 1) + dice.below(intents / (2 * kills + 2));
                let over = || queues.iter().all(Queue::is_empty);
                until("that much is relayed", || {
                    self.upstream.heads().len() >= heads || over()
                });
                let victim = dice.below(SIDECARS);
                self.proxies[victim].kill();
                // One that does not get its database in time ends, and whoever started it starts it again.
                until("it is there again", || {
                    self.proxies[victim].starts_again_with(&[]).is_ok()
                });
            }
        });
    }

    /// How many heads each intent had.
    fn heads(&self) -> HashMap<String, usize> {
        let mut count = HashMap::new();
        for head in self.upstream.heads() {
            let intent = head.fields.first(OPERATION).unwrap().to_owned();
            *count.entry(intent).or_default() += 1;
        }
        count
    }

    fn recorded(&self, state: &str) -> HashSet<String> {
        let of = format!(
            "SELECT convert_from(id, 'UTF8') FROM fencepost.operations WHERE state = '{state}'"
        );
        self.database
            .query(&of)
            .lines()
            .map(str::to_owned)
            .collect()
    }

    fn unsettled(&self) -> usize {
        self.recorded("INTENDED").len() + self.recorded("UNCERTAIN").len()
    }
}

impl Queue {
    fn shuffled(dice: &mut Dice, count: usize) -> Self {
        let mut intents: Vec<_> = (0..count).collect();
        for last in (1..intents.len()).rev() {
            intents.swap(last, dice.below(last + 1));
        }
        Self {
            intents,
            next: AtomicUsize::new(0),
        }
    }

    fn take(&self) -> Option<usize> {
        let at = self.next.fetch_add(1, Ordering::SeqCst);
        self.intents.get(at).copied()
    }

    fn is_empty(&self) -> bool {
        self.next.load(Ordering::SeqCst) >= self.intents.len()
    }
}

fn name(intent: usize) -> String {
    format!("intent-{intent}")
}

/// Until somebody says what became of it, or that nobody knows.
fn relay(intent: &str, post: &dyn Fn() -> Call) {
    until("the intent is relayed", || {
        let call = post().key(intent).field(OPERATION, intent).json("{}");
        let told = call.attempt();
        told.is_ok_and(|told| {
            let is_known = matches!(told.status, 201 | 409 | 504);
            assert!(is_known || told.status == 503, "{intent}: {}", told.text());
            is_known
        })
    });
}

/// F02.
#[test]
fn what_three_relay_arrives_once() {
    let seed = seed();
    println!("FENCEPOST_CRASH_SEED={seed}");
    let mut relay = Relay::begin();
    relay.run(&mut Dice(seed), FEWER, 0);
    let heads = relay.heads();
    assert_eq!(relay.upstream.heads().len(), FEWER);
    assert_eq!(heads.len(), FEWER, "distinct");
    until("all is recorded", || {
        relay.recorded("COMPLETED").len() == FEWER
    });
}

/// F02.
#[test]
fn what_three_relay_arrives_at_most_once_though_they_are_killed() {
    let (seed, kills) = (seed(), said("FENCEPOST_CRASH_KILLS").unwrap_or(KILLS));
    println!("FENCEPOST_CRASH_SEED={seed} FENCEPOST_CRASH_KILLS={kills}");
    let mut relay = Relay::begin();
    relay.run(&mut Dice(seed), INTENTS, kills.min(INTENTS / 10));
    until_after(DEAD_AFTER, "nothing is left of the dead", || {
        relay.unsettled() == 0
    });
    let (heads, completed) = (relay.heads(), relay.recorded("COMPLETED"));
    let twice: Vec<_> = heads.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "more than one head: {twice:?}");
    let left = relay.recorded("NEEDS_ATTENTION");
    println!("{} heads, {} left to a person", heads.len(), left.len());
    assert_eq!(completed.len() + left.len(), INTENTS, "distinct");
    assert!(completed.iter().all(|intent| heads.contains_key(intent)));
    assert!(
        heads
            .keys()
            .all(|it| completed.contains(it) || left.contains(it))
    );
}
