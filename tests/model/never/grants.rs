//! What must never be granted: an admission, a resend.

use fencepost::protocol::operation::{AttemptEnd, Operation, Parked, State};
use fencepost::protocol::outcome::{Provenance, Verdict};
use fencepost::protocol::policy::{FencePolicy, IfOlderUnsettled, Ownership, PerGeneration};

use super::super::register::{attempt_id, form_of};
use super::super::scenario::{Call, Scenario, TICK_MS};
use super::super::wire::{Packet, Proof, Task, Try, Undo};
use super::super::world::{Name, World};
use super::answers::repeats;
use super::leases::{is_licensed, is_owner};
use super::{Judged, Position, Violation, deduplicates, is_acting, is_listening, never};

/// An admission was granted to `call`; its attempt is the last of `after`.
pub fn admitted(scenario: &Scenario, before: &World, after: &World, call: &Call) -> Judged {
    let attempt = last(after);
    let name = attempt.name;
    never(!reserved(before, call), || {
        format!("{name} was admitted without a connection")
    })?;
    let twice = |known: &Try| (known.instance, known.number) == (attempt.instance, attempt.number);
    never(before.tries.iter().any(twice), || {
        format!("an attempt of {name} was granted twice")
    })?;
    nothing_was_undone(before, attempt)?;
    intended(after, attempt)?;
    identity_is_free(before, call, attempt)?;
    never(call.token.is_some() && before.seen.cancelled, || {
        format!("{name} was admitted after a durable cancel")
    })?;
    // Where tokens are observed nothing is refused for one.
    if !call.is_observed() {
        token_is_good(before, after, call, attempt)?;
        generation_is_free(before, call, attempt)?;
        nothing_older_is_unsettled(before, call, attempt)?;
        let current = |fence: FencePolicy| fence.require == Ownership::Current;
        if call.policy.fence.is_some_and(current) {
            is_owner(before, attempt)?;
        }
    }
    repeats_nothing(before, call, attempt)?;
    never(before.seen.twins.contains(&name), || {
        format!("{name} was refused as a twin and admitted all the same")
    })?;
    alone(
        scenario,
        before,
        attempt,
        call.policy.settle.capability.idempotent,
    )
}

/// Once an undo may have left, nothing else is sent under the key.
fn nothing_was_undone(before: &World, attempt: &Try) -> Judged {
    let name = attempt.name;
    never(before.seen.undone.contains(&name), || {
        format!("{name} was sent again after an undo of it had begun")
    })
}

/// A write that begins an undo was granted a second time: by then nothing of it may leave any more.
pub fn undoing_twice(undo: &Undo, now: u8) -> Judged {
    let may_leave = u64::from(now) * TICK_MS <= u64::from(undo.dispatch_by);
    never(may_leave, || {
        format!("an undo of {} was granted twice", undo.name)
    })
}

/// What a person had asked after again is not sent, and not undone, unless he says so.
fn was_only_to_be_asked(before: &World, name: Name) -> Judged {
    never(before.seen.taken_up.contains(&name), || {
        format!("{name} was only to be asked after, and something was sent for it")
    })
}

/// An undo was granted.
pub fn undoing(scenario: &Scenario, before: &World, name: Name) -> Judged {
    was_only_to_be_asked(before, name)?;
    let mut tries = before.tries_of(name);
    let hopeful = |it: &Try| is_acting(scenario, before, it) || is_listening(before, it);
    never(tries.any(hopeful), || {
        format!("{name} is being undone while an attempt of it acts or listens")
    })
}

fn last(world: &World) -> &Try {
    world.tries.last().unwrap()
}

fn reserved(before: &World, call: &Call) -> bool {
    before.calls[usize::from(call.index)].grants > 0
}

/// The intent, with its attempt, is on disk before anything is sent.
fn intended(after: &World, attempt: &Try) -> Judged {
    let id = attempt_id(attempt.instance, attempt.number);
    let listed = after.record(attempt.name).is_some_and(|record| {
        record.operation.state.is_unsettled()
            && record
                .operation
                .attempts
                .iter()
                .any(|known| known.id == id && known.end == AttemptEnd::Silent)
    });
    never(!listed, || {
        format!(
            "an attempt of {} is granted that no intent lists",
            attempt.name
        )
    })
}

fn token_is_good(before: &World, after: &World, call: &Call, attempt: &Try) -> Judged {
    let name = attempt.name;
    let Some(Some(token)) = call.token else {
        return Ok(());
    };
    never(token.epoch() < before.epoch, || {
        format!("{name} was admitted with token {token} of an epoch that is over")
    })?;
    let is_void = before.seen.void_from.is_some_and(|from| token >= from);
    never(call.wild || is_void, || {
        format!("{name} was admitted with token {token}, which nobody can place")
    })?;
    let below = after.seen.mark.is_some_and(|mark| token < mark);
    never(below, || {
        format!("{name} was admitted with token {token}, below the mark")
    })?;
    let closed = before.seen.closed.is_some_and(|closed| token <= closed);
    never(closed, || {
        format!("{name} was admitted with token {token}, whose mark is closed")
    })?;
    let other = before.seen.mark == Some(token)
        && before.seen.holder.is_some()
        && before.seen.holder != call.acquisition;
    never(other, || {
        format!("{name} was admitted with token {token}, which another acquisition holds")
    })
}

fn identity_is_free(before: &World, call: &Call, attempt: &Try) -> Judged {
    let name = attempt.name;
    let Some(record) = before.record(name) else {
        return Ok(());
    };
    match &record.operation.state {
        State::NotApplied(_) => Ok(()),
        State::Completed(completion) => {
            let corrected = completion.verdict == Verdict::Refused
                && completion.provenance != Provenance::Void
                && call.derived
                && !call.own_key()
                && form_of(&record.operation) != call.form;
            never(!corrected, || {
                format!("{name} is COMPLETED and was admitted again")
            })?;
            let same_key = before.tries_of(name).any(|it| it.round == attempt.round);
            never(same_key, || {
                format!(
                    "{name} was corrected, and goes out under the key that was refused for good"
                )
            })
        }
        State::Intended | State::Uncertain | State::NeedsAttention(_) => never(true, || {
            format!(
                "{name} is {} and was admitted again",
                record.operation.state.word()
            )
        }),
    }
}

/// A request without a key does not do again what an equal one may be doing.
fn repeats_nothing(before: &World, call: &Call, attempt: &Try) -> Judged {
    for record in &before.records {
        let operation = &record.operation;
        let repeated = repeats(before, call, attempt.at, record) && operation.state.is_unsettled();
        never(repeated && record.name != attempt.name, || {
            let (name, first) = (attempt.name, record.name);
            let word = operation.state.word();
            format!("{name} was admitted and repeats {first}, which is {word}; neither has a key")
        })?;
    }
    Ok(())
}

fn generation_is_free(before: &World, call: &Call, attempt: &Try) -> Judged {
    let (Some(fence), Some(Some(token))) = (call.fenced(), call.token) else {
        return Ok(());
    };
    let mut same = before.tries.iter().filter(|earlier| {
        earlier.token == Some(token) && earlier.incarnation == attempt.incarnation
    });
    let name = attempt.name;
    match fence.per_generation {
        PerGeneration::Many => Ok(()),
        PerGeneration::One => never(same.any(|earlier| earlier.name != name), || {
            format!("{name} was admitted in a generation that another operation has")
        }),
        PerGeneration::Numbered => {
            let behind = same.any(|earlier| {
                let its_own = earlier.name == name && earlier.sequence == call.sequence;
                earlier.sequence >= call.sequence && !its_own
            });
            never(behind || call.sequence.is_none(), || {
                format!("{name} was admitted though its sequence is not above the last one")
            })
        }
    }
}

fn nothing_older_is_unsettled(before: &World, call: &Call, attempt: &Try) -> Judged {
    let (Some(fence), Some(mine)) = (call.fenced(), Position::of_try(attempt)) else {
        return Ok(());
    };
    let goes_ahead = matches!(fence.if_older_unsettled, IfOlderUnsettled::Send(_));
    if goes_ahead && call.condition.is_some() {
        return Ok(());
    }
    for other in &before.records {
        let Some(position) = Position::of_record(other) else {
            continue;
        };
        let unsettled = other.operation.state.is_unsettled() && other.name != attempt.name;
        never(unsettled && position.precedes(mine), || {
            format!(
                "{} was admitted over {}, which is {}",
                attempt.name,
                other.name,
                other.operation.state.word()
            )
        })?;
    }
    Ok(())
}

/// Never two attempts at once; at most one where the upstream cannot deduplicate.
fn alone(scenario: &Scenario, before: &World, attempt: &Try, deduplicates: bool) -> Judged {
    let name = attempt.name;
    for other in before.tries_of(name) {
        never(is_acting(scenario, before, other), || {
            format!("two attempts of {name} at once")
        })?;
        never(is_listening(before, other), || {
            format!("a second attempt of {name} while the first still listens")
        })?;
        let may_have_acted = other.proof == Proof::None;
        never(may_have_acted && !deduplicates, || {
            format!(
                "a second attempt of {name}, though nothing proves that the first had no effect"
            )
        })?;
    }
    Ok(())
}

/// A resend was granted; its attempt is the last of `after`. `attended`: to a person, who may have sent again what
/// waits for one, was cut off, has used up its resends, or is ordered with nothing.
pub fn resent(scenario: &Scenario, before: &World, after: &World, attended: bool) -> Judged {
    let attempt = last(after);
    let name = attempt.name;
    let Some(record) = before.record(name) else {
        return Err(Violation(format!("{name} was resent, and is not there")));
    };
    let operation = &record.operation;
    let waits_for_owner = operation.state == State::NeedsAttention(Parked::NotCurrent);
    let may_need = operation.state.is_in_doubt()
        || (attended && operation.state.is_unsettled())
        || (waits_for_owner && before.licences.iter().any(|(_, it)| *it == name));
    never(!may_need, || {
        format!("{name} was resent though it is {}", operation.state.word())
    })?;
    nothing_was_undone(before, attempt)?;
    intended(after, attempt)?;
    let same_key = before
        .tries_of(name)
        .last()
        .is_some_and(|it| it.round == attempt.round);
    never(!same_key, || format!("{name} was resent under another key"))?;
    if !attended {
        unattended(before, operation, attempt)?;
    }
    // By its key, or by a condition that no longer holds once it was met.
    alone(scenario, before, attempt, deduplicates(scenario, name))?;
    keeps_order(before, attempt)?;
    leaves_in_time(scenario, before, attempt)?;
    if operation.require == Ownership::Current {
        is_owner(before, attempt)?;
        is_licensed(before, attempt, attended)?;
    }
    Ok(())
}

/// What is sent again by itself, and by nobody's word.
fn unattended(before: &World, operation: &Operation, attempt: &Try) -> Judged {
    let name = attempt.name;
    was_only_to_be_asked(before, name)?;
    let tries: Vec<&Try> = before.tries_of(name).collect();
    let resends = tries.iter().rev().take_while(|it| it.call.is_none());
    let used = resends.filter(|it| it.proof != Proof::NotSent).count();
    let most = operation
        .settle
        .steps
        .send_again()
        .map_or(0, |resend| resend.attempts);
    never(used >= usize::try_from(most).unwrap(), || {
        format!("{name} was resent more often than allowed")
    })?;
    never(attempt.place == 0 && attempt.strict, || {
        format!("{name} is not ordered with anything, does not commute, and was resent")
    })?;
    never(
        attempt.place > 0 && attempt.place <= before.seen.cut_off,
        || format!("{name} was cut off and resent"),
    )?;
    never(attempt.place > 0 && before.seen.cancelled, || {
        format!("{name} was resent after a durable cancel")
    })
}

fn keeps_order(before: &World, attempt: &Try) -> Judged {
    let name = attempt.name;
    let Some(mine) = Position::of_try(attempt) else {
        return Ok(());
    };
    let overtaken = before.tries.iter().any(|other| {
        let dispatched = other.packet != Packet::Unsent || other.task != Task::Gone;
        let later = Position::of_try(other)
            .is_some_and(|other| other.number > mine.number && mine.precedes(other));
        other.name != name && dispatched && later
    });
    never(overtaken, || {
        format!("{name} was resent after a later operation had been dispatched")
    })
}

/// The lifetime runs from the first attempt that may have sent under the key.
fn leaves_in_time(scenario: &Scenario, before: &World, attempt: &Try) -> Judged {
    let first = before
        .tries_of(attempt.name)
        .filter(|earlier| earlier.round == attempt.round && earlier.proof != Proof::NotSent)
        .map(|earlier| earlier.at)
        .min();
    let limit = |first: u8| {
        u64::from(first) * TICK_MS + u64::from(scenario.upstream.lifetime) * TICK_MS * 4 / 5
    };
    let late = first.is_some_and(|first| u64::from(attempt.dispatch_by) > limit(first));
    never(late, || {
        format!(
            "a resend of {} could leave after four fifths of its key's lifetime",
            attempt.name
        )
    })
}
