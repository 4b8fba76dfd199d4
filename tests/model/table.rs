//! Every rule, broken: which world shows it, and in how few steps.
//!
//! What always holds: the table in the source (`src/protocol/proofs.md`) is what the exploration
//! finds; a rule whose breach no world shows is no rule of the table, and fails the test.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use fencepost::protocol::broken::{Rule, break_rule};

use super::scenario::Scenario;
use super::scenarios;
use super::search::{Bounds, Trace, explore};

/// A rule and how its breach shows.
pub struct Row {
    pub rule: Rule,
    pub scenario: &'static str,
    pub trace: Trace,
}

/// Breaks each rule in the world that `world_of` names, all worlds if it names none; the shortest
/// trace counts.
pub fn break_all(
    world_of: impl Fn(Rule) -> Option<&'static str> + Sync,
    states: usize,
) -> Vec<Row> {
    let alone = std::env::var("FENCEPOST_MODEL_RULE").ok();
    let wanted = |rule: &Rule| {
        alone
            .as_ref()
            .is_none_or(|name| *name == format!("{rule:?}"))
    };
    let left = Mutex::new(Rule::ALL.iter().copied().filter(wanted));
    let found = Mutex::new(Vec::new());
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                while let Some(rule) = next(&left) {
                    let row = shortest(rule, &worlds(world_of(rule)), states);
                    found.lock().unwrap().push(row);
                }
            });
        }
    });
    let mut rows = found.into_inner().unwrap();
    rows.sort_by_key(|row: &Row| Rule::ALL.iter().position(|rule| *rule == row.rule));
    rows
}

fn next(rules: &Mutex<impl Iterator<Item = Rule>>) -> Option<Rule> {
    rules.lock().unwrap().next()
}

fn worlds(named: Option<&'static str>) -> Vec<Scenario> {
    named.map_or_else(scenarios::all, |name| vec![scenarios::named(name)])
}

/// A first look, so that a way is known that the thorough one need not exceed.
const GLANCE: usize = 10_000;

fn shortest(rule: Rule, worlds: &[Scenario], states: usize) -> Row {
    break_rule(Some(rule));
    let mut best = None;
    for states in [GLANCE, states] {
        for scenario in worlds {
            let known = best.as_ref().map(|row: &Row| row.trace.steps.len());
            let steps = known.map_or(usize::MAX, |steps| steps - 1);
            if let Some(trace) = explore(scenario, Bounds { states, steps }).broken {
                best = Some(Row {
                    rule,
                    scenario: scenario.name,
                    trace,
                });
            }
        }
    }
    break_rule(None);
    best.unwrap_or_else(|| panic!("nobody notices that {rule:?} is broken: {}", rule.says()))
}

/// The table in words for people.
pub fn told(rows: &[Row]) -> String {
    let mut text = String::from(INTRODUCTION);
    for Row {
        rule,
        scenario,
        trace,
    } in rows
    {
        let violation = &trace.violation.0;
        writeln!(
            text,
            "| {} | `{rule:?}` | {scenario} | {} | {violation} |",
            rule.says(),
            trace.steps.len(),
        )
        .unwrap();
    }
    text
}

const INTRODUCTION: &str = "\
# What happens when a rule is broken

Each rule of the protocol has a switch that breaks it, in a build for tests only. `tests/model` then
explores a small world with the rule broken, and finds the shortest way to something that must never
happen. This table is checked against what it finds; `FENCEPOST_MODEL=table` writes it anew.

| rule | switch | world | steps | what then happens |
|---|---|---|---|---|
";

/// Where the table lives.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/protocol/proofs.md")
}

/// Which world shows the breach of a rule, by the table as it is.
pub fn world_in(table: &str, rule: Rule) -> Option<&'static str> {
    let switch = format!("`{rule:?}`");
    let row = table.lines().find(|line| line.contains(&switch))?;
    let world = row.split('|').nth(3)?.trim();
    let mut all = scenarios::all().into_iter();
    all.find(|scenario| scenario.name == world)
        .map(|scenario| scenario.name)
}
