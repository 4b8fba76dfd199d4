//! How far the settling of an operation has come: since when everything was quiet, what was asked how
//! often, whether an undo has begun. Durable, with the operation.
//!
//! What always holds: quiet is counted on the own clock only. Every machine notes its own first sight of it,
//! and a new attempt makes all of them void; so a clock of another machine, or a wall clock that steps, never
//! makes the lag shorter.
//!
//! What it does not do: decide what a finding is worth (`finding`), or begin an undo (`void`).

use super::broken::{Rule, broken};
use super::finding::NotKnown;
use super::operation::{Attempt, Operation};
use super::steps::{SettleStep, StepIndex};
use super::time::{Millis, Moment};
use super::view::Living;

/// So many machines' sights of quiet are kept.
const SIGHTS: usize = 16;

/// Progress of settling. Nothing yet, by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Settling {
    /// Since when no attempt is on its way any more.
    pub quiet: Quiet,
    /// What came of the steps, by their index; a step beyond the end did nothing yet.
    pub steps: Vec<Progress>,
    /// The undo that has begun, if one has. From then on nothing is sent under the key but it.
    pub void: Option<Void>,
    /// Since when a person has had it asked after again, as each machine saw it first; `None`: nobody has, or it
    /// was given up again, or sent. Meanwhile nothing is sent by itself.
    pub taken_up: Option<Quiet>,
}

/// Since when everything is quiet, as each machine saw it first. Empty: something may still be on its way, or
/// nobody has looked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Quiet {
    sights: Vec<Moment>,
}

/// What came of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Progress {
    /// How often it was asked.
    pub asked: u32,
    /// When first.
    pub first_asked: Option<Moment>,
    /// When last.
    pub last_asked: Option<Moment>,
    /// How many counted samples say in a row that it was not applied.
    pub samples: u32,
    /// When the last of them was brought in: the next one has to be asked a pause later.
    pub last_sample: Option<Moment>,
    /// Since when it has had its turn, as each machine saw it first. Empty: not yet.
    pub turn: Quiet,
    /// What the event log said of it last; the same again is not said.
    pub said: Option<Said>,
}

/// What a step last said in the event log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Said {
    /// Not found, which does not count yet or not often enough.
    NotYet,
    /// Not known.
    NotKnown(NotKnown),
}

/// An undo that has begun.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Void {
    /// By which step.
    pub step: StepIndex,
    /// How many requests of it may have left.
    pub begun: u32,
    /// The newest of them. It acts like an attempt, and never has the effect itself.
    pub last: Attempt,
    /// Since when none of them is on its way any more.
    pub quiet: Quiet,
}

impl Quiet {
    /// Of these sights, at most so many; what a record holds.
    pub fn of(sights: impl IntoIterator<Item = Moment>) -> Self {
        Self {
            sights: sights.into_iter().take(SIGHTS).collect(),
        }
    }

    /// The sights, oldest first.
    pub fn sights(&self) -> &[Moment] {
        &self.sights
    }

    /// Is it quiet now, as `now`'s machine sees it? Its first sight counts.
    pub fn see(&mut self, now: Moment) {
        if self.sights.iter().any(|known| known.boot == now.boot) {
            return;
        }
        // Whoever has counted for long keeps its count: else, where there are many, none would ever have one.
        self.sights.truncate(SIGHTS - 1);
        self.sights.push(now);
    }

    /// For how long it has been quiet at `now` for sure, on the clock that `now` is of. `None`: that machine
    /// has not seen it yet.
    pub fn lasted(&self, now: &Moment) -> Option<Millis> {
        self.sights
            .iter()
            .find_map(|seen| now.elapsed_within_boot(seen))
    }
}

impl Settling {
    /// What came of that step.
    pub fn of(&self, step: StepIndex) -> Option<&Progress> {
        self.steps.get(usize::from(step.0))
    }

    /// To be written.
    pub(super) fn of_mut(&mut self, step: StepIndex) -> Option<&mut Progress> {
        let index = usize::from(step.0);
        if self.steps.len() <= index {
            self.steps
                .resize_with(index.saturating_add(1), Progress::default);
        }
        self.steps.get_mut(index)
    }

    /// A resend may act: what was seen or sampled before says nothing of it.
    pub(super) fn attempt_begins(&mut self) {
        self.taken_up = None;
        for step in &mut self.steps {
            step.turn = Quiet::default();
        }
        if broken(Rule::AttemptEndsQuiet) {
            return;
        }
        self.quiet = Quiet::default();
        for step in &mut self.steps {
            step.samples = 0;
            step.last_sample = None;
        }
    }
}

impl Operation {
    /// Since when nothing of it is on its way any more: no attempt, and no undo.
    pub fn quiet(&self) -> &Quiet {
        match &self.settling.void {
            Some(void) => &void.quiet,
            None => &self.settling.quiet,
        }
    }

    /// Its attempts, and the undo that acts like one.
    pub fn everything_sent(&self) -> impl Iterator<Item = &Attempt> {
        let undo = self.settling.void.as_ref().map(|void| &void.last);
        self.attempts.iter().chain(undo)
    }

    /// Notes that nothing of it is on its way any more, where that is so and something counts from it. The
    /// first step has its turn from then on.
    pub(super) fn see_quiet(&mut self, living: &Living, now: &Moment) {
        if !self.state.is_unsettled() || self.has_live_attempt(living, now) {
            return;
        }
        self.has_its_turn(StepIndex(0), *now);
        if !self.settle.steps.count_quiet() {
            return;
        }
        match &mut self.settling.void {
            Some(void) => void.quiet.see(*now),
            None => self.settling.quiet.see(*now),
        }
    }

    /// The step of that index, if it asks.
    pub(super) fn question(&self, step: StepIndex) -> Option<&super::steps::LookUpPolicy> {
        self.settle.steps.at(step).and_then(SettleStep::question)
    }
}
