//! Every state that a scenario can reach, breadth first, and the shortest way to a violation.
//!
//! What always holds: a state is visited once; states are told apart by a 64-bit hash, which for some
//! millions of them leaves one chance in a million of a state overlooked. From every state with an
//! unsettled operation a fair run must lead to settlement (`fair`). A violation comes with the
//! shortest way to it, in words.

use super::fair;
use super::hashes::Hashes;
use super::mixer::hash;
use super::never::Violation;
use super::scenario::Scenario;
use super::step::{Action, Came, Steps};
use super::world::World;

/// What was found.
#[derive(Clone, Debug)]
pub struct Found {
    pub states: usize,
    pub transitions: usize,
    /// Steps of the longest shortest way.
    pub depth: usize,
    /// Was every reachable state visited?
    pub complete: bool,
    pub broken: Option<Trace>,
}

/// The way to a violation.
#[derive(Clone, Debug)]
pub struct Trace {
    pub violation: Violation,
    /// Each step in words.
    pub steps: Vec<String>,
}

/// The states that are so many steps away, and their numbers.
type Level = Vec<(u32, Box<World>)>;

/// How a state was reached: from which one, by what.
struct Origin {
    from: u32,
    by: Action,
}

/// How far to go.
#[derive(Clone, Copy)]
pub struct Bounds {
    /// Until so many states were visited.
    pub states: usize,
    /// Only ways of so many steps.
    pub steps: usize,
}

/// Explores `scenario` within `bounds`.
pub fn explore(scenario: &Scenario, bounds: Bounds) -> Found {
    let steps = Steps::new(scenario);
    let first = World::new(scenario);
    let mut search = Search {
        steps: &steps,
        visited: Hashes::default(),
        origins: vec![Origin {
            from: 0,
            by: Action::Tick,
        }],
        settled: Hashes::default(),
        fair: None,
        transitions: 0,
    };
    search.visited.insert(hash(&first));
    let mut level = vec![(0, Box::new(first))];
    let mut depth = 0;
    while !level.is_empty() && search.origins.len() < bounds.states && depth < bounds.steps {
        match search.next_level(level) {
            Ok(next) => level = next,
            Err(trace) => return search.found(depth, false, Some(trace)),
        }
        depth += 1;
        // A longer way was seen by a fair run; nothing shorter is left.
        if let Some(trace) = search.fair.take_if(|trace| trace.steps.len() <= depth + 1) {
            return search.found(depth, false, Some(trace));
        }
    }
    let broken = search
        .fair
        .take_if(|trace| trace.steps.len() <= bounds.steps);
    search.found(depth, level.is_empty(), broken)
}

struct Search<'a> {
    steps: &'a Steps<'a>,
    visited: Hashes,
    origins: Vec<Origin>,
    /// States from which a fair run settles everything.
    settled: Hashes,
    /// The shortest way to a violation that some fair run has met.
    fair: Option<Trace>,
    transitions: usize,
}

impl Search<'_> {
    fn next_level(&mut self, level: Level) -> Result<Level, Trace> {
        let mut next = Vec::new();
        for (index, world) in level {
            for action in self.steps.possible(&world) {
                let after = match self.steps.take(&world, action, None) {
                    Came::Nothing => continue,
                    Came::World(after) => after,
                    Came::Never(violation) => {
                        return Err(self.trace(index, Some(action), violation));
                    }
                };
                self.transitions += 1;
                let hashed = hash(&*after);
                if self.visited.insert(hashed) {
                    let number = u32::try_from(self.origins.len()).unwrap();
                    self.origins.push(Origin {
                        from: index,
                        by: action,
                    });
                    if let Err((violation, words)) =
                        fair::settles(self.steps, &after, hashed, &mut self.settled)
                    {
                        let mut trace = self.trace(number, None, violation);
                        trace.steps.extend(words);
                        let shorter = |known: &Trace| known.steps.len() > trace.steps.len();
                        if self.fair.as_ref().is_none_or(shorter) {
                            self.fair = Some(trace);
                        }
                    }
                    next.push((number, after));
                }
            }
        }
        Ok(next)
    }

    fn trace(&self, mut index: u32, last: Option<Action>, violation: Violation) -> Trace {
        let mut actions: Vec<Action> = last.into_iter().collect();
        while index != 0 {
            let Origin { from, by } = &self.origins[usize::try_from(index).unwrap()];
            actions.push(*by);
            index = *from;
        }
        actions.reverse();
        let mut steps = Vec::new();
        let mut world = World::new(self.steps.scenario);
        for action in actions {
            let mut words = String::new();
            if let Came::World(after) = self.steps.take(&world, action, Some(&mut words)) {
                world = *after;
            }
            steps.push(words);
        }
        Trace { violation, steps }
    }

    fn found(&self, depth: usize, complete: bool, broken: Option<Trace>) -> Found {
        Found {
            states: self.origins.len(),
            transitions: self.transitions,
            depth,
            complete,
            broken,
        }
    }
}

impl std::fmt::Display for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (number, step) in (1..).zip(&self.steps) {
            writeln!(f, "  {number:2}. {step}")?;
        }
        writeln!(f, "  NEVER: {}", self.violation.0)
    }
}
