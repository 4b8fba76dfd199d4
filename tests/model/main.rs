//! The rules, explored: every state that small worlds can reach, with the real `protocol::decide` and
//! the real `protocol::plan`.
//!
//! What always holds: nothing here decides anything that the product decides. The worlds
//! (`scenarios`) are small and many; each is explored to its end. What must never happen (`never`) is
//! told from what an all-knowing witness saw. That the checks would notice is shown by breaking every
//! rule once (`table`).
//!
//! `FENCEPOST_MODEL=long` explores wider worlds, some millions of states; `FENCEPOST_MODEL=table`
//! writes the table of rules anew; `FENCEPOST_MODEL_WORLD=name` explores one world alone,
//! `FENCEPOST_MODEL_RULE=Name` breaks one rule alone.
//!
//! What it does not do: know HTTP, sockets, or a database (`tests/it`).

#![allow(
    clippy::pedantic,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    unreachable_pub,
    reason = "a test crate: a panic is a failed test, and nobody imports from it"
)]

mod company;
mod fair;
mod hashes;
mod kept;
mod mixer;
mod never;
mod policies;
mod register;
mod scenario;
mod scenarios;
mod search;
mod step;
mod table;
mod wire;
mod world;

use std::sync::Mutex;
use std::time::Instant;

use scenario::Scenario;
use search::{Bounds, Found};

/// More states than any short world has.
const SHORT: usize = 400_000;

/// Where the long form stops within one world.
const LONG: usize = 2_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Short,
    Long,
    Table,
}

fn form() -> Form {
    match std::env::var("FENCEPOST_MODEL").as_deref() {
        Ok("long") => Form::Long,
        Ok("table") => Form::Table,
        Ok(other) => panic!("FENCEPOST_MODEL is `long` or `table`, not {other:?}"),
        Err(_) => Form::Short,
    }
}

fn wanted(scenario: &Scenario) -> bool {
    std::env::var("FENCEPOST_MODEL_WORLD").map_or(true, |name| name == scenario.name)
}

#[test]
fn nothing_that_must_never_happen_is_reachable() {
    let long = form() == Form::Long;
    let states = if long { LONG } else { SHORT };
    let wanted = scenarios::all().into_iter().filter(wanted);
    let worlds: Vec<Scenario> = if long {
        wanted.map(Scenario::widened).collect()
    } else {
        wanted.collect()
    };
    let begun = Instant::now();
    let found = explore_all(&worlds, states);
    let sum = |what: fn(&Found) -> usize| found.iter().map(|(_, it)| what(it)).sum::<usize>();
    println!(
        "{} worlds, {} states, {} transitions, {:.1} s",
        found.len(),
        sum(|it| it.states),
        sum(|it| it.transitions),
        begun.elapsed().as_secs_f64()
    );
    let mut broken = String::new();
    for (scenario, it) in &found {
        if let Some(trace) = &it.broken {
            broken += &format!("{}: {}\n{trace}", scenario.name, scenario.about);
        }
        assert!(
            it.complete || long || it.broken.is_some(),
            "{} is too large for the short form",
            scenario.name
        );
    }
    assert!(broken.is_empty(), "\n{broken}");
}

/// Explores on two threads; prints what was found.
fn explore_all(worlds: &[Scenario], states: usize) -> Vec<(&Scenario, Found)> {
    let left = Mutex::new(worlds.iter());
    let found = Mutex::new(Vec::new());
    let next = || left.lock().unwrap().next();
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                while let Some(scenario) = next() {
                    let steps = usize::MAX;
                    let it = search::explore(scenario, Bounds { states, steps });
                    println!(
                        "{:32} {:>8} states, {:>8} transitions, {:>2} steps deep{}",
                        scenario.name,
                        it.states,
                        it.transitions,
                        it.depth,
                        if it.complete { "" } else { ", cut off" }
                    );
                    if let Some(trace) = &it.broken {
                        println!("{}: {}\n{trace}", scenario.name, scenario.about);
                    }
                    found.lock().unwrap().push((scenario, it));
                }
            });
        }
    });
    found.into_inner().unwrap()
}

/// The contract promises this much and no more: beyond the margins the promise breaks, and the model
/// shows it.
#[test]
fn beyond_the_margins_the_promise_breaks() {
    for scenario in scenarios::beyond() {
        let bounds = Bounds {
            states: SHORT,
            steps: usize::MAX,
        };
        let found = search::explore(&scenario, bounds);
        let trace = found
            .broken
            .unwrap_or_else(|| panic!("{}: nothing broke", scenario.name));
        println!("{}: {}\n{trace}", scenario.name, scenario.about);
    }
}

#[test]
fn every_rule_is_missed_when_it_is_broken() {
    let table = std::fs::read_to_string(table::path()).unwrap_or_default();
    let anew = form() == Form::Table;
    let world_of = |rule| (!anew).then(|| table::world_in(&table, rule)).flatten();
    let rows = table::break_all(world_of, SHORT);
    let told = table::told(&rows);
    if anew {
        std::fs::write(table::path(), &told).unwrap();
    }
    for row in &rows {
        println!("{:?}, in `{}`:\n{}", row.rule, row.scenario, row.trace);
    }
    if std::env::var("FENCEPOST_MODEL_RULE").is_ok() {
        print!("{told}");
        return;
    }
    assert!(
        anew || told == table,
        "src/protocol/proofs.md is not what was found; FENCEPOST_MODEL=table writes it anew"
    );
}
