//! A person has an operation asked after again that was given up (contract §3: `settle`).
//!
//! What always holds: it is durable, with who said so and why. What waits for a person is UNCERTAIN then, with
//! a fresh window for its questions and none of their samples, and is only asked: nothing is sent by itself,
//! neither its bytes nor an undo, until somebody has it sent. Where nothing is found it is given up again. What
//! is in doubt is being settled anyway; that somebody wants it now is a line in its log.
//!
//! What it does not do: ask, or say which question is next (`plan`).

use super::command::{Changes, Decision, Reply};
use super::decide::{line, operation_of, unchanged};
use super::ids::OperationKey;
use super::lease::LeaseFacts;
use super::operation::{Operation, Parked, State};
use super::plan::{self, Licence};
use super::settling::Quiet;
use super::time::Moment;
use super::view::View;

/// A person asks that it be settled, without anything being sent.
#[derive(Clone, Debug)]
pub struct TakeUp {
    /// Which operation.
    pub key: OperationKey,
    /// Who.
    pub operator: String,
    /// Why; never empty.
    pub reason: String,
    /// When.
    pub at: Moment,
}

/// What he is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakenUp {
    /// It is settled from now on, from this state.
    Begun(State),
    /// It needs none; `None`: there is no such operation.
    Settled(Option<State>),
    /// None of its steps asks. What forbids to send it by the rules for what is sent unattended; `None`: nothing
    /// does.
    NothingToAsk(Option<Parked>),
}

pub(super) fn take_up(view: &View, taking: &TakeUp) -> Decision {
    let say = |reply| unchanged(Reply::TakenUp(reply));
    let Some(before) = operation_of(view) else {
        return say(TakenUp::Settled(None));
    };
    let mut operation = before.clone();
    let text = match &before.state {
        State::Completed(_) | State::NotApplied(_) => {
            return say(TakenUp::Settled(Some(before.state.clone())));
        }
        State::NeedsAttention(_) if before.settle.steps.first_question().is_none() => {
            let (fence, lease) = (view.fence.as_ref(), LeaseFacts::unknown());
            let room = plan::room_for(before, fence, &lease, &taking.at, Licence::None);
            return say(TakenUp::NothingToAsk(room.err()));
        }
        // The same, written a second time.
        State::Intended | State::Uncertain if is_taken_up_by(before, taking) => {
            return say(TakenUp::Begun(before.state.clone()));
        }
        State::Intended | State::Uncertain => "had it settled at once",
        State::NeedsAttention(_) => {
            begin_anew(&mut operation, taking);
            "had it asked after again, and nothing sent"
        }
    };
    let text = format!("{} {text}: {}", taking.operator, taking.reason);
    let event = line(&operation, taking.at, None, text);
    let reply = Reply::TakenUp(TakenUp::Begun(operation.state.clone()));
    let changed = operation != *before;
    let changes = Changes {
        operation: changed.then(|| Box::new(operation)),
        events: vec![event],
        ..Changes::default()
    };
    Decision { changes, reply }
}

fn is_taken_up_by(operation: &Operation, taking: &TakeUp) -> bool {
    let taken_up = operation.settling.taken_up.as_ref();
    taken_up.is_some_and(|taken_up| taken_up.sights().contains(&taking.at))
}

fn begin_anew(operation: &mut Operation, taking: &TakeUp) {
    operation.settling.taken_up = Some(Quiet::of([taking.at]));
    for step in &mut operation.settling.steps {
        step.asked = 0;
        step.samples = 0;
        step.said = None;
        step.turn = Quiet::default();
        // When it was asked last, and when the last sample came, stays: a finding that is written twice is
        // known by the one, and a question that was on its way is no second sample by the other.
    }
    // Its first question has its turn at once; the others when theirs comes.
    if let Some(first) = operation.settle.steps.first_question() {
        operation.has_its_turn(first, taking.at);
    }
    operation.state = State::Uncertain;
    operation.changed = taking.at;
}
