//! Kills under random traffic, a hundred at each kind of upstream, and a quarter as many power cuts;
//! `FENCEPOST_CRASH_KILLS=500` says how many kills else, for a long run by hand.
//!
//! What always holds: after every restart the callers' book and the upstream's ledger agree, and in
//! the end every operation is settled, or was said to need a person.
//!
//! What it does not do: repeat a run exactly. The seed gives the same choices; the machine's own
//! order of events differs.

use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;
use std::{slice, thread};

use super::traffic::Request;
use super::world::{World, seed};
use crate::support::dice::{Dice, said};
use crate::support::proxy::{FAILPOINTS, Proxy};
use crate::support::upstream::Keys;

/// The short form; see `FENCEPOST_CRASH_KILLS`.
const KILLS: usize = 100;
const CALLERS: u64 = 6;
/// So many requests of each caller; then the proxy is killed wherever it is.
const REQUESTS: usize = 25;
/// Statements, and accounts.
const RESOURCES: usize = 4;
/// How many kills go by between two looks at everything.
const AUDIT_EVERY: usize = 10;

/// What goes with the process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// Nothing: what was written is there.
    Process,
    /// The power: what was not synced is gone.
    Power,
}

struct Campaign {
    world: World,
    loss: Loss,
    proxy: Proxy,
    kills: usize,
    seed: u64,
    dice: Dice,
}

impl Campaign {
    fn begin(keys: Keys, loss: Loss) -> Self {
        let seed = seed();
        let kills = said("FENCEPOST_CRASH_KILLS").unwrap_or(KILLS);
        println!("FENCEPOST_CRASH_SEED={seed} FENCEPOST_CRASH_KILLS={kills}");
        let world = World::begin(keys);
        let mut setup = world.setup();
        if loss == Loss::Power {
            setup = setup.on_a_disk_that_fails();
            setup.disk().unwrap().remembers_what_is_synced();
        }
        let mut proxy = Proxy::start(setup);
        proxy.kill();
        let kills = match loss {
            Loss::Process => kills,
            // Every sync costs a copy.
            Loss::Power => kills / 4,
        };
        Self {
            world,
            loss,
            proxy,
            kills,
            seed,
            dice: Dice(seed),
        }
    }

    fn run(&mut self) {
        let mut points: HashMap<&str, usize> = HashMap::new();
        for number in 1..=self.kills {
            let point = *self.dice.one_of(&FAILPOINTS);
            let passage = 1 + self.dice.below(25);
            let died_there = self.round(number, &format!("{point}:{passage}"));
            *points
                .entry(if died_there { point } else { "anywhere" })
                .or_default() += 1;
            self.world.assert_ledger();
            if number % AUDIT_EVERY == 0 || number == self.kills {
                self.audit();
                let effects = self.world.upstream.effects();
                println!("{number} kills, {} effects", effects.len());
            }
        }
        println!("killed at {points:?}");
        println!("callers were told {:?}", self.world.book.tally());
        let heads = self.world.upstream.heads();
        println!("{} requests arrived", heads.len());
    }

    /// From one start to one kill. `false`: it had to be killed by hand.
    fn round(&mut self, number: usize, point: &str) -> bool {
        self.world.mishaps(&mut self.dice);
        if self.proxy.starts_again_dying_at(point) {
            let Self {
                world, proxy, seed, ..
            } = &*self;
            thread::scope(|scope| {
                for caller in 0..CALLERS {
                    let number = u64::try_from(number).unwrap();
                    let dice = Dice(seed ^ (number << 32) ^ (caller << 56));
                    scope.spawn(move || work(world, proxy, dice));
                }
            });
        }
        let died = self.proxy.end();
        match died {
            Some(status) => assert_eq!(status.signal(), Some(9), "{point}: {status}"),
            None => self.proxy.kill(),
        }
        self.lose();
        died.is_some()
    }

    /// Starts it unarmed and looks at everything.
    fn audit(&mut self) {
        self.world.upstream.until_quiet();
        self.proxy.start_again();
        self.world.audit(slice::from_ref(&self.proxy));
        self.proxy.kill();
        self.lose();
    }

    /// What else is gone with the process.
    fn lose(&self) {
        match self.loss {
            Loss::Process => {}
            Loss::Power => self.proxy.disk().loses_what_was_not_synced(),
        }
    }
}

/// One caller, until it has done enough or the proxy is gone.
fn work(world: &World, proxy: &Proxy, mut dice: Dice) {
    for _ in 0..REQUESTS {
        let request = Request::random(&mut dice, &world.book, RESOURCES);
        if !world.ask(&request, &request.call(proxy.address())) {
            return;
        }
    }
}

/// B01.
#[test]
fn kills_at_an_upstream_that_honours_keys_make_no_second_effect() {
    Campaign::begin(Keys::Honoured, Loss::Process).run();
}

#[test]
fn kills_at_an_upstream_that_cannot_deduplicate_make_no_second_attempt() {
    Campaign::begin(Keys::Ignored, Loss::Process).run();
}

/// E11.
#[test]
fn power_cuts_at_an_upstream_that_cannot_deduplicate_make_no_second_attempt() {
    Campaign::begin(Keys::Ignored, Loss::Power).run();
}
