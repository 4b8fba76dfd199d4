//! What must never happen, told from what was seen, not from how the rules work.
//!
//! What always holds: a judgement uses the state before the step, the state after it and the witness;
//! it never calls the rules that it judges.

mod answers;
mod grants;
mod leases;
mod steered;

use fencepost::protocol::ids::FencingToken;
use fencepost::protocol::operation::{AttemptEnd, Effect, State, WhyNot};
use fencepost::protocol::outcome::{Provenance, Verdict};
use fencepost::protocol::policy::Order;

use super::register::{form_of, number_of};
use super::scenario::{Call, Scenario, TICK_MS};
use super::wire::{Proof, Task, Try};
use super::world::{CallerState, Name, Record, Told, World};

pub use answers::ruled;
pub use grants::{admitted, resent, undoing, undoing_twice};
pub use leases::{leased, released, renewed};
pub use steered::steered;

/// What happened though it must never happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub String);

pub type Judged = Result<(), Violation>;

fn never(it: bool, what: impl FnOnce() -> String) -> Judged {
    if it { Err(Violation(what())) } else { Ok(()) }
}

/// Milliseconds after the admission at which a silent attempt is overdue.
const OVERDUE_MS: u64 = TICK_MS + 4_000 + 5_000;

/// A position in the order of the resource.
#[derive(Clone, Copy)]
struct Position {
    resource: u8,
    incarnation: u8,
    token: Option<FencingToken>,
    number: u8,
    strict: bool,
}

impl Position {
    fn of_try(attempt: &Try) -> Option<Self> {
        (attempt.place > 0).then_some(Self {
            resource: attempt.resource,
            incarnation: attempt.incarnation,
            token: attempt.token,
            number: attempt.place,
            strict: attempt.strict,
        })
    }

    fn of_record(record: &Record) -> Option<Self> {
        let place = record.operation.place.as_ref()?;
        Some(Self {
            resource: u8::try_from(number_of(&place.resource)).unwrap(),
            incarnation: u8::try_from(place.incarnation.0).unwrap(),
            token: place.token,
            number: u8::try_from(place.number.0).unwrap(),
            strict: record.operation.order == Order::Strict,
        })
    }

    /// Must this one's effect come before the other's? Between generations, the older one's; with a
    /// request without a token, and within a generation where one is strict, by admission.
    fn precedes(self, other: Self) -> bool {
        if self.resource != other.resource {
            return false;
        }
        if self.incarnation != other.incarnation {
            return self.incarnation < other.incarnation;
        }
        match (self.token, other.token) {
            (Some(mine), Some(other_token)) if mine != other_token => mine < other_token,
            (Some(_), Some(_)) => (self.strict || other.strict) && self.number < other.number,
            (None, _) | (_, None) => self.number < other.number,
        }
    }
}

/// The first byte of an attempt is about to leave.
pub fn leaving(before: &World, index: usize) -> Judged {
    let attempt = &before.tries[index];
    let someone_said = before
        .tries_of(attempt.name)
        .any(|other| other.proof == Proof::Said);
    let completed = before
        .record(attempt.name)
        .is_some_and(|record| matches!(record.operation.state, State::Completed(_)));
    never(attempt.call.is_some() && someone_said && completed, || {
        format!(
            "{} was sent again after a wrong verdict, though its record is COMPLETED",
            attempt.name
        )
    })
}

/// The upstream accepted the effect of the attempt `index`, the last one of `after`.
pub fn effect(scenario: &Scenario, before: &World, index: usize) -> Judged {
    let attempt = &before.tries[index];
    let name = attempt.name;
    let excused = |name: Name| {
        if scenario.nothing_is_excused {
            return false;
        }
        let lie = before.seen.lies.iter().find(|(lie, _)| *lie == name);
        lie.is_some_and(|(_, new_key)| {
            *new_key || !deduplicates(scenario, name) || forgotten(scenario, before, name)
        })
    };
    never(before.effects_of(name) > 0 && !excused(name), || {
        format!("a second effect of {name}")
    })?;
    if let Some(mine) = Position::of_try(attempt) {
        for earlier in &before.effects {
            let other = &before.tries[usize::from(*earlier)];
            let newer = Position::of_try(other).is_some_and(|other| mine.precedes(other));
            let later = if attempt.place > other.place {
                name
            } else {
                other.name
            };
            let let_pass = scenario.call_for(later).is_some_and(Call::is_observed);
            let free = (before.lied(name) || let_pass) && !scenario.nothing_is_excused;
            never(newer && other.name != name && !free, || {
                format!(
                    "the effect of {name} came after the newer one of {}",
                    other.name
                )
            })?;
        }
    }
    match before.record(name).map(|record| &record.operation.state) {
        Some(State::Completed(completion)) if completion.verdict == Verdict::Refused => {
            never(!before.lied(name), || {
                format!("an effect of {name}, whose record says refused")
            })
        }
        Some(State::NotApplied(_)) => never(!before.lied(name), || {
            format!("an effect of {name}, whose record says NOT_APPLIED")
        }),
        Some(
            State::Completed(_) | State::Intended | State::Uncertain | State::NeedsAttention(_),
        )
        | None => Ok(()),
    }
}

pub fn deduplicates(scenario: &Scenario, name: Name) -> bool {
    scenario.calls.iter().any(|call| {
        let capability = call.policy.settle.capability;
        call.operation == name.operation && (capability.idempotent || call.condition.is_some())
    })
}

/// Has the upstream forgotten a key of the operation?
fn forgotten(scenario: &Scenario, world: &World, name: Name) -> bool {
    world
        .memory
        .iter()
        .any(|memory| memory.name == name && world.now > memory.since + scenario.upstream.lifetime)
}

/// The answer of the attempt `index`, that it was applied, was recorded to that effect. One that is not the first
/// is told, where it is a second effect; so is one that was not there yet when another's was asked after.
pub fn answered(scenario: &Scenario, world: &World, index: u8, effect: Effect) -> Judged {
    let name = world.tries[usize::from(index)].name;
    let seen = &world.seen;
    // By its key: a condition that was met twice was met by two effects.
    let is_keyed = scenario
        .calls
        .iter()
        .any(|call| call.operation == name.operation && call.policy.settle.capability.idempotent);
    if is_keyed || seen.answered.contains(&index) {
        return Ok(());
    }
    let of_it = |other: &u8| world.tries[usize::from(*other)].name == name;
    let second = seen.answered.iter().any(of_it);
    let after = seen
        .found
        .iter()
        .any(|(found, saw, tries)| *found == name && *saw != index && index >= *tries);
    never((second || after) && effect != Effect::Contradiction, || {
        format!("a second effect of {name} was answered, and nobody was told")
    })
}

/// A person's verdict was accepted.
pub fn verdict(scenario: &Scenario, before: &World, name: Name) -> Judged {
    let mut tries = before.tries_of(name);
    never(tries.any(|it| is_acting(scenario, before, it)), || {
        format!("a verdict on {name} while an attempt of it acts")
    })
}

/// An operation was given to a person.
pub fn parked(scenario: &Scenario, before: &World, name: Name) -> Judged {
    let mut tries = before.tries_of(name);
    let hopeful = |it: &Try| is_acting(scenario, before, it) || is_listening(before, it);
    never(tries.any(hopeful), || {
        format!("{name} was given to a person while an attempt of it acts or listens")
    })?;
    let operation = before.record(name).map(|record| &record.operation);
    let Some(operation) = operation else {
        return Ok(());
    };
    let mut timed = operation
        .settle
        .steps
        .iter()
        .filter(|(_, it)| it.is_timed());
    let had_none = timed.find(|(step, _)| {
        let progress = operation.settling.of(*step);
        progress.is_none_or(|known| known.turn.sights().is_empty())
    });
    never(had_none.is_some(), || {
        format!("{name} was given to a person, and a step of it never had its turn")
    })
}

/// A finding settled an operation as NOT_APPLIED.
pub fn disproved(scenario: &Scenario, before: &World, name: Name) -> Judged {
    let mut tries = before.tries_of(name);
    let hopeful = |it: &Try| is_acting(scenario, before, it) || is_listening(before, it);
    never(tries.any(hopeful), || {
        format!("{name} was found to be NOT_APPLIED while an attempt of it acts or listens")
    })
}

/// Everything that must hold of the records after any step.
pub fn records(scenario: &Scenario, before: &World, after: &World) -> Judged {
    for record in &after.records {
        let earlier = before.record(record.name);
        if earlier == Some(record) {
            continue;
        }
        record_is_true(after, record)?;
        if let Some(earlier) = earlier {
            record_stays(scenario, earlier, record)?;
        }
    }
    for caller in &after.calls {
        if let CallerState::Told(name, told) = caller.state {
            told_stays(scenario, after, name, told)?;
        }
    }
    Ok(())
}

fn record_is_true(world: &World, record: &Record) -> Judged {
    let name = record.name;
    let effects = world.effects_of(name);
    match &record.operation.state {
        State::NotApplied(WhyNot::NotSent(_) | WhyNot::NotProcessed(_)) => {
            let unproven = world.tries_of(name).any(|it| it.proof == Proof::None);
            never(unproven, || {
                format!("{name} is NOT_APPLIED without proof for every attempt")
            })?;
            never(effects > 0 && !world.lied(name), || {
                format!("{name} is NOT_APPLIED, and had an effect")
            })
        }
        State::Completed(completion) if completion.provenance == Provenance::Answer => {
            let status = completion.answer.as_ref().map_or(0, |answer| answer.status);
            let form = form_of(&record.operation);
            match completion.verdict {
                Verdict::Applied => {
                    never(!world.had_effect(name, form), || {
                        format!("{name} is COMPLETED as a form that had no effect")
                    })?;
                    let stands = world.in_force(name) && !world.may_be_undone(name);
                    never(world.seen.undone.contains(&name) && !stands, || {
                        format!(
                            "{name} is COMPLETED as applied, and an undo of it may have the last word"
                        )
                    })
                }
                // Where a person was wrong, an opaque upstream's own refusal is believed.
                Verdict::Refused => {
                    let believed = world.lied(name) && status == 402;
                    never(effects > 0 && !believed, || {
                        format!("{name} is recorded as refused, and had an effect")
                    })?;
                    let sent = world.tries_of(name).any(|it| it.form == form);
                    never(!sent, || format!("{name} is refused as a form never sent"))
                }
            }
        }
        State::NotApplied(WhyNot::Said(Provenance::LookUp | Provenance::Callback)) => {
            never(world.in_force(name) && !world.lied(name), || {
                format!("{name} was found to be NOT_APPLIED, and had an effect")
            })
        }
        State::Completed(completion) if completion.provenance == Provenance::Void => {
            never(world.in_force(name), || {
                format!("{name} is recorded as undone, and its effect is in force")
            })
        }
        State::Completed(completion)
            if matches!(
                completion.provenance,
                Provenance::LookUp | Provenance::Callback
            ) =>
        {
            let form = form_of(&record.operation);
            never(!world.had_effect(name, form), || {
                format!("{name} is COMPLETED as a form that had no effect")
            })?;
            never(!world.in_force(name) || world.may_be_undone(name), || {
                format!("{name} was found to be applied, and an undo of it may have the last word")
            })
        }
        State::NotApplied(WhyNot::Said(_))
        | State::Completed(_)
        | State::Intended
        | State::Uncertain
        | State::NeedsAttention(_) => Ok(()),
    }
}

fn record_stays(scenario: &Scenario, earlier: &Record, record: &Record) -> Judged {
    let Some(ended) = told_of(earlier) else {
        return Ok(());
    };
    never(
        told_of(record) != Some(ended) && !may_be_corrected(scenario, record.name, ended),
        || format!("{} was COMPLETED, and its outcome changed", record.name),
    )
}

fn told_stays(scenario: &Scenario, world: &World, name: Name, told: Told) -> Judged {
    let now = world.record(name).and_then(told_of);
    never(
        now != Some(told) && !may_be_corrected(scenario, name, told),
        || format!("a caller was told how {name} ended, and the record says something else"),
    )
}

/// A stored refusal under an identity that the proxy derived leaves it free.
fn may_be_corrected(scenario: &Scenario, name: Name, told: Told) -> bool {
    told.verdict == Verdict::Refused
        && scenario
            .calls
            .iter()
            .any(|call| call.operation == name.operation && call.derived && !call.own_key())
}

/// How a record says that its operation ended.
pub fn told_of(record: &Record) -> Option<Told> {
    match &record.operation.state {
        State::Completed(completion) => Some(Told {
            verdict: completion.verdict,
            status: completion.answer.as_ref().map_or(0, |answer| answer.status),
            form: form_of(&record.operation),
        }),
        State::NotApplied(_) | State::Intended | State::Uncertain | State::NeedsAttention(_) => {
            None
        }
    }
}

/// Is it at work, within its limits, in an instance that nobody has declared dead? Not one of which
/// it is proved already that it can have no effect.
fn is_acting(scenario: &Scenario, world: &World, attempt: &Try) -> bool {
    let alive = if scenario.proxies == 1 {
        world.is_current(attempt.instance)
    } else {
        world.living.contains(&attempt.instance)
    };
    let age = u64::from(world.now - attempt.at) * TICK_MS;
    let at_work = matches!(
        attempt.task,
        Task::Permitted | Task::Frozen(_) | Task::Waiting(_)
    );
    alive && at_work && age <= OVERDUE_MS && attempt.proof == Proof::None
}

/// Does it listen, in a living instance, as the record says too? One that ran into its limit only
/// after it was overdue listens on unrecorded: it can no longer act.
fn is_listening(world: &World, attempt: &Try) -> bool {
    let id = super::register::attempt_id(attempt.instance, attempt.number);
    let open = world.record(attempt.name).is_some_and(|record| {
        record
            .operation
            .attempts
            .iter()
            .any(|known| known.id == id && matches!(known.end, AttemptEnd::Open(..)))
    });
    open && attempt.task == Task::Listening && world.living.contains(&attempt.instance)
}
