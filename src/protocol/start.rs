//! A step of settling has its turn: from then on its time runs (contract §3, §8).
//!
//! What always holds: it is in the register that a step has its turn before the step is taken, or could not be,
//! because its upstream is away: so a step that cannot be taken has its time all the same, and comes to an end. The
//! time runs on the own clock: every machine notes its own first sight. Nothing is sent or asked by it.
//!
//! What it does not do: say how long a step has (`steps`), or which is next (`plan`).

use super::command::{Changes, Decision, Reply};
use super::decide::{close_dead_attempts, line, operation_of, unchanged};
use super::ids::OperationKey;
use super::operation::{Operation, State};
use super::plan;
use super::steps::{SettleStep, StepIndex};
use super::time::Moment;
use super::view::View;

/// The reconciler says that a step has its turn.
#[derive(Clone, Debug)]
pub struct Start {
    /// Of which operation.
    pub key: OperationKey,
    /// Which step.
    pub step: StepIndex,
    /// When.
    pub at: Moment,
}

pub(super) fn start(view: &View, start: &Start) -> Decision {
    let Some(before) = operation_of(view) else {
        return unchanged(Reply::Started(None));
    };
    let is_in_doubt = before.state.is_in_doubt();
    // A person may have had it asked after anew since the plan was made, from the first step on.
    let is_early = plan::has_time_before(before, start.step, &start.at);
    if !is_in_doubt || is_early || before.has_live_attempt(&view.living, &start.at) {
        return unchanged(Reply::Started(Some(before.state.clone())));
    }
    let mut operation = before.clone();
    close_dead_attempts(&mut operation, view, &start.at);
    operation.see_quiet(&view.living, &start.at);
    operation.has_its_turn(start.step, start.at);
    let mut changes = Changes::default();
    if operation.state == State::Intended {
        operation.state = State::Uncertain;
        operation.changed = start.at;
        let text = "nothing more is heard of its attempt: UNCERTAIN".to_owned();
        changes.events.push(line(&operation, start.at, None, text));
    }
    let reply = Reply::Started(Some(operation.state.clone()));
    if operation != *before {
        changes.operation = Some(Box::new(operation));
    }
    Decision { changes, reply }
}

impl Operation {
    /// That step has its turn now, if its time runs from there; the first sight counts.
    pub(super) fn has_its_turn(&mut self, step: StepIndex, now: Moment) {
        let timed = self.settle.steps.at(step).is_some_and(SettleStep::is_timed);
        if let (true, Some(progress)) = (timed, self.settling.of_mut(step)) {
            progress.turn.see(now);
        }
    }
}
