//! Three sidecars that share a register in PostgreSQL are killed under random traffic, at failpoints and
//! anywhere; whoever was told nothing repeats the same operation at another of them.
//! `FENCEPOST_CRASH_KILLS=200` says how many kills else, for a long run by hand.
//!
//! What always holds: at most one effect per operation where the upstream honours keys, at most one attempt
//! where it does not; none of an older owner after one of a newer; no fence goes back; callers are told the
//! same of an operation by all three. What the killed left is settled by the others, or is said to need a
//! person, while the traffic goes on.
//!
//! What it does not do: repeat a run exactly (`campaign`), or freeze anybody (`taken_over`).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::traffic::Request;
use super::world::{World, seed};
use crate::servers::{Database, shared};
use crate::support::dice::{Dice, said};
use crate::support::gate::{Gate, until, until_after};
use crate::support::proxy::{FAILPOINTS, Proxy};
use crate::support::script::Script;
use crate::support::setup::DEAD_AFTER;
use crate::support::upstream::Keys;

/// The short form; see `FENCEPOST_CRASH_KILLS`.
const KILLS: usize = 8;
/// So many go by between two looks at everything; each look takes as long as it takes to be dead.
const KILLS_OF_ROUND: usize = 10;
const SIDECARS: usize = 3;
const CALLERS: u64 = 6;
/// Requests before a kill, at most, and as many while that one is away.
const REQUESTS: usize = 24;
/// Statements, and accounts: some are free while others wait for what the dead left.
const RESOURCES: usize = 6;

/// How often a worker without work looks whether there is some.
const LOOK: Duration = Duration::from_millis(3);

/// What the callers have of a round.
struct Round<'a> {
    world: &'a World,
    addresses: Vec<SocketAddr>,
    /// Requests that may still be begun.
    allowed: AtomicUsize,
    is_over: AtomicBool,
    /// How often a worker went to another sidecar.
    moved: AtomicUsize,
}

struct Storm {
    database: Database,
    proxies: Vec<Proxy>,
    dice: Dice,
    /// By resource: the highest token that its fence was seen to have.
    fences: HashMap<String, u64>,
    kills: usize,
    died_at_a_point: usize,
}

/// Ends the callers however the killer ends.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn storm(keys: Keys) {
    let (seed, kills) = (seed(), said("FENCEPOST_CRASH_KILLS").unwrap_or(KILLS));
    println!("FENCEPOST_CRASH_SEED={seed} FENCEPOST_CRASH_KILLS={kills}");
    let world = World::begin(keys);
    let mut storm = Storm::begin(&world, Dice(seed));
    let mut moved = 0;
    let mut number = 0;
    while storm.kills < kills {
        number += 1;
        moved += storm.round(&world, seed ^ (number << 32), kills);
        storm.audit(&world);
        let effects = world.upstream.effects().len();
        println!("{} kills, {effects} effects", storm.kills);
    }
    let Storm {
        kills,
        died_at_a_point,
        ..
    } = storm;
    println!("{kills} kills, {died_at_a_point} of them at a point; workers moved {moved} times");
    println!("callers were told {:?}", world.book.tally());
    assert!(moved > 0, "nobody's sidecar was ever missed");
}

impl Storm {
    fn begin(world: &World, dice: Dice) -> Self {
        let database = shared().database();
        let sidecar = |_| Proxy::start(world.setup().sharing(&database.url(), ""));
        Self {
            proxies: (0..SIDECARS).map(sidecar).collect(),
            database,
            dice,
            fences: HashMap::new(),
            kills: 0,
            died_at_a_point: 0,
        }
    }

    /// Kills, and then traffic until what the killed left is taken over. How often workers moved.
    fn round(&mut self, world: &World, seed: u64, kills: usize) -> usize {
        let round = Round {
            world,
            addresses: self.proxies.iter().map(Proxy::address).collect(),
            allowed: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            moved: AtomicUsize::new(0),
        };
        thread::scope(|scope| {
            let _over = Over(&round.is_over);
            for caller in 0..CALLERS {
                let round = &round;
                scope.spawn(move || round.work(Dice(seed ^ (caller << 56))));
            }
            let last = (self.kills + KILLS_OF_ROUND).min(kills);
            while self.kills < last {
                self.kill_one(&round);
                self.look_at_fences();
            }
            self.start_all_anew();
            until_after(DEAD_AFTER, "what the dead left is taken over", || {
                round.allow(usize::from(round.is_idle()));
                self.nothing_is_left_of_the_dead()
            });
            self.look_at_fences();
        });
        round.moved.into_inner()
    }

    /// Whoever reaches its point first dies, or else one of them wherever it is.
    fn kill_one(&mut self, round: &Round<'_>) {
        round.world.mishaps(&mut self.dice);
        let late = Gate::closed();
        if self.dice.below(2) == 0 {
            // Its sender may be dead by the time it takes effect.
            round.world.upstream.next(Script::hold_effect(&late));
        }
        round.allow(1 + self.dice.below(REQUESTS));
        until("somebody dies, or all is asked", || {
            round.is_idle() || self.proxies.iter_mut().any(|it| it.end().is_some())
        });
        if self.proxies.iter_mut().all(|it| it.end().is_none()) {
            let victim = self.dice.below(SIDECARS);
            self.proxies[victim].kill();
            self.kills += 1;
        } else {
            self.count_the_dead();
        }
        // The others go on without it.
        round.allow(1 + self.dice.below(REQUESTS));
        until("the others are asked", || {
            round.is_idle() || self.proxies.iter_mut().all(|it| it.end().is_some())
        });
        for victim in 0..SIDECARS {
            if self.proxies[victim].end().is_some() {
                let point = *self.dice.one_of(&FAILPOINTS);
                let passage = 1 + self.dice.below(8);
                // It may reach its point while it starts: then it is dead again, and started the next time.
                self.proxies[victim].starts_again_dying_at(&format!("{point}:{passage}"));
            }
        }
        late.open();
    }

    fn count_the_dead(&mut self) {
        for proxy in &mut self.proxies {
            if let Some(status) = proxy.end() {
                assert_eq!(status.signal(), Some(9), "{status}");
                self.kills += 1;
                self.died_at_a_point += 1;
            }
        }
    }

    /// All of them at once, as one machine; from then on nobody dies.
    fn start_all_anew(&mut self) {
        for proxy in &mut self.proxies {
            proxy.kill();
        }
        for proxy in &mut self.proxies {
            proxy.start_again();
        }
    }

    fn nothing_is_left_of_the_dead(&self) -> bool {
        let sql = "SELECT
            (SELECT count(*) FROM fencepost.instances WHERE NOT dead),
            (SELECT count(*) FROM fencepost.operations o JOIN fencepost.instances i ON i.id = o.owner
             WHERE i.dead AND o.state IN ('INTENDED', 'UNCERTAIN'))";
        self.database.query(sql) == format!("{SIDECARS}|0")
    }

    /// None is lower than it ever was.
    fn look_at_fences(&mut self) {
        let all = "SELECT convert_from(name, 'UTF8'), mark FROM fencepost.fences
            WHERE mark IS NOT NULL";
        for line in self.database.query(all).lines() {
            let (name, mark) = line.split_once('|').unwrap();
            let token = mark.rsplit(':').next().unwrap().parse().unwrap();
            let highest = self.fences.entry(name.to_owned()).or_default();
            assert!(
                token >= *highest,
                "the fence of {name} went back from {highest} to {token}"
            );
            *highest = token;
        }
    }

    fn audit(&mut self, world: &World) {
        for proxy in &mut self.proxies {
            assert!(proxy.stop().success());
        }
        world.upstream.until_quiet();
        for proxy in &mut self.proxies {
            proxy.start_again();
        }
        world.audit(&self.proxies);
        self.look_at_fences();
        assert!(!self.fences.is_empty());
    }
}

impl Round<'_> {
    fn allow(&self, requests: usize) {
        self.allowed.fetch_add(requests, Ordering::SeqCst);
    }

    /// Is nothing left to be begun?
    fn is_idle(&self) -> bool {
        self.allowed.load(Ordering::SeqCst) == 0
    }

    /// One worker, until the round is over.
    fn work(&self, mut dice: Dice) {
        while !self.is_over.load(Ordering::SeqCst) {
            let taken = self
                .allowed
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |it| it.checked_sub(1));
            if taken.is_err() {
                thread::sleep(LOOK);
                continue;
            }
            let request = Request::random(&mut dice, &self.world.book, RESOURCES);
            let mut sidecars = self.addresses.iter().cycle();
            let mut sidecars = sidecars.by_ref().skip(dice.below(SIDECARS));
            until("a sidecar answers", || {
                let answered = self
                    .world
                    .ask(&request, &request.call(*sidecars.next().unwrap()));
                if !answered {
                    self.moved.fetch_add(1, Ordering::SeqCst);
                }
                answered || self.is_over.load(Ordering::SeqCst)
            });
        }
    }
}

#[test]
fn kills_of_three_sidecars_at_an_upstream_that_honours_keys_make_no_second_effect() {
    storm(Keys::Honoured);
}

#[test]
fn kills_of_three_sidecars_at_an_upstream_that_cannot_deduplicate_make_no_second_attempt() {
    storm(Keys::Ignored);
}
