//! From wherever the world is: does everything get settled if nothing more goes wrong?
//!
//! What always holds: the fair run does what the product does by itself (packets arrive, the dead are
//! declared dead, the reconciler follows its plan, time passes), and a person speaks only of what
//! was given to a person. It may pass the scenario's horizon.

use super::hashes::Hashes;
use super::mixer::hash;
use super::never::Violation;
use super::step::{Action, Came, Looking, Said, Steps};
use super::wire::{Packet, Task};
use super::world::World;
use crate::scenario::Handling;
use fencepost::protocol::operation::State;

/// More steps than any settlement needs; so few that none waits for a listener that is not there to
/// be given up (`policy::LISTEN`, which is a net below the rules).
const PATIENCE: usize = 55;

/// `hashed` is the hash of that world; `settled` holds those of states that are known to lead to settlement.
///
/// A run that cannot settle it, or that meets another violation on its way, is told in words.
pub fn settles(
    steps: &Steps,
    from: &World,
    hashed: u64,
    settled: &mut Hashes,
) -> Result<(), (Violation, Vec<String>)> {
    if !from.is_unsettled() || settled.contains(hashed) {
        return Ok(());
    }
    run(steps, from, settled, &mut None).map_err(|violation| {
        let mut words = Some(Vec::new());
        let _the_same = run(steps, from, settled, &mut words);
        (violation, words.unwrap_or_default())
    })
}

fn run(
    steps: &Steps,
    from: &World,
    settled: &mut Hashes,
    words: &mut Option<Vec<String>>,
) -> Result<(), Violation> {
    let mut way = Vec::new();
    let mut world = Box::new(from.clone());
    for _ in 0..PATIENCE {
        let here = hash(&*world);
        if !world.is_unsettled() || settled.contains(here) {
            for passed in way {
                settled.insert(passed);
            }
            return Ok(());
        }
        way.push(here);
        world = next(steps, &world, words)?;
    }
    *words = None;
    Err(Violation(
        "nothing leads to settlement within minutes".to_owned(),
    ))
}

/// The first thing that the product would do by itself; else time passes.
fn next(
    steps: &Steps,
    world: &World,
    words: &mut Option<Vec<String>>,
) -> Result<Box<World>, Violation> {
    for action in by_itself(world) {
        let mut said = String::new();
        let came = steps.take(world, action, words.as_ref().map(|_| &mut said));
        if let (Came::World(_) | Came::Never(_), Some(words)) = (&came, &mut *words) {
            words.push(said);
        }
        match came {
            Came::Nothing => {}
            Came::World(after) if *after == *world => {}
            Came::World(after) => return Ok(after),
            Came::Never(violation) => return Err(violation),
        }
    }
    let mut said = String::new();
    let came = steps.take(world, Action::Tick, words.as_ref().map(|_| &mut said));
    if let Some(words) = words {
        words.push(said);
    }
    match came {
        Came::World(later) => Ok(later),
        Came::Never(violation) => Err(violation),
        Came::Nothing => Err(Violation("time does not pass".to_owned())),
    }
}

fn by_itself(world: &World) -> Vec<Action> {
    let mut actions = Vec::new();
    // Not before the reconciler had its turn.
    let mut last = Vec::new();
    for (attempt, it) in (0..).zip(&world.tries) {
        match it.task {
            Task::Permitted => actions.extend([Action::Send(attempt), Action::GiveUp(attempt)]),
            Task::Frozen(_) => actions.push(Action::Thaw(attempt)),
            Task::Waiting(_) | Task::Listening | Task::Gone => {}
        }
        match it.packet {
            Packet::Flying(_) => actions.push(Action::Deliver(attempt, Handling::Proper)),
            Packet::Answered(_) => actions.push(Action::Answer {
                attempt,
                lost: false,
            }),
            Packet::Over if it.task == Task::Listening => {
                last.push(Action::StopListening(attempt));
            }
            Packet::Unsent | Packet::Over => {}
        }
    }
    for (question, it) in (0..).zip(&world.questions) {
        actions.push(match it.seen {
            Some(_) => Action::Learn {
                question,
                lost: false,
            },
            None => Action::Look {
                question,
                how: Looking::Shown,
            },
        });
    }
    let letters = (0..).zip(&world.letters);
    actions.extend(letters.map(|(letter, _)| Action::CallBack {
        letter,
        lost: false,
    }));
    for (undo, it) in (0..).zip(&world.undos) {
        match it.packet {
            Packet::Unsent => actions.extend([Action::SendUndo(undo), Action::GiveUpUndo(undo)]),
            Packet::Flying(_) => actions.push(Action::DeliverUndo(undo)),
            Packet::Answered(_) if it.at_work => actions.push(Action::AnswerUndo(undo)),
            Packet::Answered(_) | Packet::Over => {}
        }
    }
    let dead = world.living.iter().filter(|it| !world.is_current(**it));
    actions.extend(dead.map(|instance| Action::DeclareDead(*instance)));
    actions.extend(
        (0..)
            .zip(&world.repeats)
            .map(|(index, _)| Action::Repeat(index)),
    );
    for (record, it) in (0..).zip(&world.records) {
        if let State::NeedsAttention(_) = it.operation.state {
            let say = |verdict| Action::Say { record, verdict };
            actions.extend([say(Said::Applied), say(Said::NotApplied)]);
            continue;
        }
        for (proxy, _) in (0..).zip(&world.proxies) {
            actions.push(Action::Settle {
                proxy,
                record,
                lost: false,
            });
        }
    }
    actions.extend(last);
    actions
}
