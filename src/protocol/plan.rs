//! What may be done next for an unsettled operation: the reconciler's plan (contract §5).
//!
//! What always holds: an expired claim is a right to settle, never a right to send again; a resend
//! goes out only under the same key, within 80 % of the key's lifetime, or with its own condition to an
//! upstream that orders by itself; while the bytes are kept, nothing newer that must be ordered with it
//! was admitted, and nobody cut the operation off.
//!
//! What it does not do: act, ask, or weigh what was found (`weigh`).

use super::broken::{Rule, broken};
use super::fence::Fence;
use super::lease::{LeaseFacts, LiveLease};
use super::operation::{Operation, Parked, State};
use super::policy::{KeyPolicy, Order, Ownership, SettlePolicy};
use super::steps::{LookUpPolicy, SettleStep, StepIndex, VoidPolicy};
use super::time::{Millis, Moment};
use super::view::Living;

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// It is settled, or waits for a person already.
    Nothing,
    /// An attempt of a living instance is still acting.
    Await,
    /// An attempt listens for a late answer; close it, then plan again after this pause.
    CloseThenPlan {
        /// The pause.
        after: Millis,
    },
    /// Send the stored bytes again under the same key, after this pause.
    Resend {
        /// The pause.
        after: Millis,
    },
    /// Note that it is that step's turn.
    Start {
        /// Which step's.
        step: StepIndex,
    },
    /// Ask the question of that step, after this pause.
    Ask {
        /// Of which step.
        step: StepIndex,
        /// The pause.
        after: Millis,
    },
    /// Undo it by that step, after this pause.
    Void {
        /// By which step.
        step: StepIndex,
        /// The pause.
        after: Millis,
    },
    /// Wait for a callback; plan again when it came, or after this pause.
    Listen {
        /// The pause.
        left: Millis,
    },
    /// No step can help.
    Park(Parked),
}

/// The largest part of a key's lifetime that a resend may use, in hundredths.
pub const LIFETIME_PERCENT: u64 = 80;

/// For so long after it was first asked for is a condition sent again unattended. No key's lifetime bounds it, and
/// the longer ago it was, the likelier it holds once more although it was met: what was made then may be gone since.
pub const CONDITION_FOR: Millis = Millis(60 * 60 * 1_000);

/// Plans the next step: the first one, in order, that can still succeed in its window. One that cannot is
/// passed over.
pub fn plan(
    operation: &Operation,
    fence: Option<&Fence>,
    lease: &LeaseFacts,
    living: &Living,
    now: &Moment,
) -> Step {
    match operation.state {
        State::NeedsAttention(Parked::NotCurrent) if lease.licensed => {
            return match room_for_resend(operation, fence, lease, now) {
                Ok(_) => Step::Resend {
                    after: Millis::default(),
                },
                Err(_) => Step::Nothing,
            };
        }
        State::Completed(_) | State::NotApplied(_) | State::NeedsAttention(_) => {
            return Step::Nothing;
        }
        State::Intended | State::Uncertain => {}
    }
    if operation.is_acting(living, now) {
        return Step::Await;
    }
    let listening = operation.has_live_attempt(living, now);
    match first_able(operation, fence, lease, now) {
        Ok(step) if listening => closing_before(operation, step, now),
        Ok(step) => step,
        // Where no step can help, the late answer is the only hope left: let it come.
        Err(_) if listening => Step::Await,
        Err(_) if broken(Rule::PlanParks) => Step::Await,
        Err(obstacle) => Step::Park(obstacle),
    }
}

/// Late answers are read until the first step acts, and that one closes them.
fn closing_before(operation: &Operation, step: Step, now: &Moment) -> Step {
    match step {
        // Its turn begins when all is quiet.
        Step::Start { step } => match operation.question(step) {
            Some(question) => Step::CloseThenPlan {
                after: until_asked(operation, step, question, now),
            },
            None => Step::Await,
        },
        Step::Resend { .. } | Step::Ask { .. } | Step::Void { .. }
            if broken(Rule::PlanClosesFirst) =>
        {
            step
        }
        Step::Resend { after } | Step::Ask { after, .. } | Step::Void { after, .. } => {
            Step::CloseThenPlan { after }
        }
        Step::Listen { .. } => Step::Await,
        Step::Nothing | Step::Await | Step::CloseThenPlan { .. } | Step::Park(_) => step,
    }
}

fn first_able(
    operation: &Operation,
    fence: Option<&Fence>,
    lease: &LeaseFacts,
    now: &Moment,
) -> Result<Step, Parked> {
    let mut obstacle = match operation.settling.void {
        Some(_) => Parked::UndoUnclear,
        None => Parked::NoStep,
    };
    for (index, step) in operation.settle.steps.iter() {
        if is_only_asked(operation) && step.question().is_none() {
            continue;
        }
        let able = match step {
            SettleStep::SendAgain(_) => {
                room_for_resend(operation, fence, lease, now).map(|_| Step::Resend {
                    after: until_resent(operation, now),
                })
            }
            SettleStep::LookUp(question) | SettleStep::Compare(question) => {
                match asked_since(operation, index, now) {
                    None => Ok(Step::Start { step: index }),
                    Some(age) => left_of(question.within, age)
                        .map(|_| Step::Ask {
                            step: index,
                            after: until_asked(operation, index, question, now),
                        })
                        .ok_or(Parked::NotToldInTime),
                }
            }
            SettleStep::Void(policy) => room_for_void(operation, index, now).map(|_| Step::Void {
                step: index,
                after: until_undone(operation, policy, now),
            }),
            SettleStep::Callback(callback) => match asked_since(operation, index, now) {
                None => Ok(Step::Start { step: index }),
                Some(age) => left_of(callback.within, age)
                    .map(|left| Step::Listen { left })
                    .ok_or(Parked::NotCalledBack),
            },
        };
        match able {
            Ok(step) => return Ok(step),
            Err(why) => obstacle = why,
        }
    }
    Err(obstacle)
}

/// What is left of a window that began then, by whatever clock shows most.
fn within(began: &Moment, window: Millis, now: &Moment) -> Option<Millis> {
    left_of(window, now.age_at_most(began)?)
}

/// For how long a question or a callback has had its turn. It may end too late without harm, and so the own clock
/// counts, from the own first sight: another machine's may be an hour ahead. `None`: that sight is to be noted first.
fn asked_since(operation: &Operation, step: StepIndex, now: &Moment) -> Option<Millis> {
    if broken(Rule::TimeRunsFromTheTurn) {
        let own = now.elapsed_within_boot(&newest_attempt(operation));
        return own.or_else(|| operation.quiet().lasted(now));
    }
    let progress = operation.settling.of(step);
    let lasted = progress.and_then(|known| known.turn.lasted(now));
    if broken(Rule::TurnIsNoted) {
        return Some(lasted.unwrap_or_default());
    }
    lasted
}

/// Has a step that is asked, or waited for, before that one still time?
pub(super) fn has_time_before(operation: &Operation, step: StepIndex, now: &Moment) -> bool {
    let mut earlier = operation.settle.steps.iter();
    earlier.any(|(index, it)| {
        let window = match it {
            SettleStep::LookUp(question) | SettleStep::Compare(question) => question.within,
            SettleStep::Callback(callback) if !is_only_asked(operation) => callback.within,
            SettleStep::Callback(_) | SettleStep::SendAgain(_) | SettleStep::Void(_) => {
                return false;
            }
        };
        let left = |age| left_of(window, age).is_some();
        index.0 < step.0 && asked_since(operation, index, now).is_none_or(left)
    })
}

/// Has a person taken it up, to be asked after and not sent?
fn is_only_asked(operation: &Operation) -> bool {
    operation.settling.taken_up.is_some() && !broken(Rule::TakenUpIsOnlyAsked)
}

fn newest_attempt(operation: &Operation) -> Moment {
    let newest = operation.attempts.last();
    newest.map_or(operation.first_seen, |attempt| attempt.at)
}

fn left_of(window: Millis, age: Millis) -> Option<Millis> {
    let left = Millis(window.0.saturating_sub(age.0));
    (left > Millis::default()).then_some(left)
}

/// Until the question is due: when "not found" begins to count at the latest.
fn until_asked(
    operation: &Operation,
    step: StepIndex,
    question: &LookUpPolicy,
    now: &Moment,
) -> Millis {
    let Some((progress, last)) = operation
        .settling
        .of(step)
        .and_then(|known| Some((known, known.last_asked?)))
    else {
        return rest_of(question.every.from, &operation.changed, now);
    };
    if operation.settling.taken_up.is_some() && progress.asked == 0 {
        return Millis::default();
    }
    let pause = match progress.samples {
        0 => question.every.after(progress.asked),
        samples => question.every.after(samples),
    };
    let due = rest_of(pause, &last, now);
    let lasted = operation.quiet().lasted(now);
    match lasted.map(|lasted| Millis(question.lag.0.saturating_sub(lasted.0))) {
        Some(left) if left > Millis::default() => due.min(left),
        Some(_) | None => due,
    }
}

/// Until the undo is due: the first when it has been quiet for long enough, the others after a pause.
fn until_undone(operation: &Operation, policy: &VoidPolicy, now: &Moment) -> Millis {
    match &operation.settling.void {
        Some(void) => rest_of(policy.every.after(void.begun), &void.last.at, now),
        // What nobody has seen yet, the first try sees.
        None => match operation.settling.quiet.lasted(now) {
            Some(lasted) => Millis(policy.lag.0.saturating_sub(lasted.0)),
            None => rest_of(policy.every.from, &operation.changed, now),
        },
    }
}

/// What is left of a pause that began then; nothing, if it began in another boot: a pause is politeness, and
/// one that no clock can end would never end.
fn rest_of(pause: Millis, began: &Moment, now: &Moment) -> Millis {
    let passed = now.elapsed_within_boot(began).unwrap_or(pause);
    Millis(pause.0.saturating_sub(passed.0))
}

/// How long from `now` the first byte of an undo may leave at the latest, or why there is to be none.
pub fn room_for_void(
    operation: &Operation,
    step: StepIndex,
    now: &Moment,
) -> Result<Millis, Parked> {
    let policy = operation.settle.steps.at(step).and_then(SettleStep::void);
    let policy = policy.ok_or(Parked::NoStep)?;
    if is_only_asked(operation) {
        return Err(Parked::NotToldInTime);
    }
    let begun = operation.settling.void.as_ref().map_or(0, |it| it.begun);
    if begun >= policy.attempts {
        return Err(Parked::UndoUnclear);
    }
    let mut room = within(&newest_attempt(operation), policy.within, now)
        .ok_or_else(|| Parked::of_undo(operation))?;
    let lifetime = operation.settle.key.and_then(|key| key.lifetime);
    if lifetime.is_some() && !broken(Rule::UndoWithinLifetime) {
        room = room.min(room_in_lifetime(operation, lifetime, now)?);
    }
    Ok(room)
}

/// Who says that a resend may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Licence {
    /// Nobody: it is made unattended, by the settle policy.
    None,
    /// A person, who looked. Neither a cut-off nor the policy stands in the way then; what no person can
    /// know better than the record does: order, the key's lifetime, the lease, the bytes.
    Person,
}

/// How long from `now` an unattended resend's first byte may leave at the latest, or why there is to be
/// none.
pub fn room_for_resend(
    operation: &Operation,
    fence: Option<&Fence>,
    lease: &LeaseFacts,
    now: &Moment,
) -> Result<Millis, Parked> {
    room_for(operation, fence, lease, now, Licence::None)
}

/// The same by whoever says so.
pub fn room_for(
    operation: &Operation,
    fence: Option<&Fence>,
    lease: &LeaseFacts,
    now: &Moment,
    licence: Licence,
) -> Result<Millis, Parked> {
    let attended = licence == Licence::Person;
    let guard = guard_of(operation).ok_or(Parked::NoStep)?;
    let attempts = match (operation.settle.steps.send_again(), guard) {
        (Some(resend), _) => resend.attempts,
        (None, Guard::Key(_)) if attended => 0,
        (None, Guard::Key(_) | Guard::Condition) => return Err(Parked::NoStep),
    };
    if operation.settling.void.is_some() && !broken(Rule::UndoIsTheLast) {
        return Err(Parked::UndoUnclear);
    }
    if !attended && is_only_asked(operation) {
        return Err(Parked::NotToldInTime);
    }
    if !operation.request_kept {
        return Err(Parked::RequestNotKept);
    }
    may_go_out_of_turn(operation, fence, licence)?;
    let mut room = match guard {
        Guard::Key(key) => room_in_lifetime(operation, key.lifetime, now)?,
        Guard::Condition if attended => Millis(u64::MAX),
        Guard::Condition => {
            within(&operation.first_seen, CONDITION_FOR, now).ok_or(Parked::NotToldInTime)?
        }
    };
    if operation.require == Ownership::Current && !broken(Rule::ResendNeedsLiveLease) {
        room = room.min(room_in_lease(operation, fence, lease, now, attended)?);
    }
    if operation.resends >= attempts && !attended && !broken(Rule::ResendsAreCounted) {
        return Err(Parked::ResendsUsedUp);
    }
    Ok(room)
}

/// What keeps a resend from being a second effect.
#[derive(Clone, Copy)]
enum Guard {
    /// The upstream remembers the key, for a while.
    Key(KeyPolicy),
    /// The request carries a condition that no longer holds once it was met.
    Condition,
}

fn guard_of(operation: &Operation) -> Option<Guard> {
    let SettlePolicy {
        capability, key, ..
    } = &operation.settle;
    let deduplicates = capability.idempotent || broken(Rule::ResendNeedsDeduplication);
    let key = key.filter(|_| deduplicates).map(Guard::Key);
    key.or(capability.conditional.then_some(Guard::Condition))
}

fn may_go_out_of_turn(
    operation: &Operation,
    fence: Option<&Fence>,
    licence: Licence,
) -> Result<(), Parked> {
    let attended = licence == Licence::Person;
    let Some(place) = &operation.place else {
        return match operation.order {
            Order::Free => Ok(()),
            Order::Strict if attended || broken(Rule::ResendNeedsOrder) => Ok(()),
            Order::Strict => Err(Parked::NotOrdered),
        };
    };
    // A fence that is gone from the register is a register that went back.
    let fence = fence.ok_or(Parked::CutOff)?;
    let cut_off =
        fence.cancelled || place.number <= fence.cut_off || place.incarnation < fence.incarnation;
    if cut_off && !attended && !broken(Rule::CutOffIsNotResent) {
        return Err(Parked::CutOff);
    }
    if fence.overtaken(
        place.number,
        (place.incarnation, place.token),
        operation.order,
    ) {
        return Err(Parked::Overtaken);
    }
    Ok(())
}

/// Under the lease that it was admitted under; under a later one only where its owner, or a person, says so.
fn room_in_lease(
    operation: &Operation,
    fence: Option<&Fence>,
    lease: &LeaseFacts,
    now: &Moment,
    attended: bool,
) -> Result<Millis, Parked> {
    let held = fence.and_then(|fence| fence.lease.as_ref());
    let admitted_under = operation.place.as_ref().and_then(|place| place.token);
    let of_its_own = held.is_some_and(|held| Some(held.token) == admitted_under);
    let is_licensed = lease.licensed || attended || broken(Rule::LaterOwnerLicenses);
    let is_recorded = |live: &LiveLease| {
        held.is_some_and(|held| held.acquisition == live.acquisition)
            || broken(Rule::LiveIsTheRecorded)
    };
    if !lease.live.as_ref().is_some_and(is_recorded) {
        return Err(Parked::NotCurrent);
    }
    let left = lease.left(now.boottime);
    if left == Millis::default() || !(of_its_own || is_licensed) {
        return Err(Parked::NotCurrent);
    }
    Ok(left)
}

fn room_in_lifetime(
    operation: &Operation,
    lifetime: Option<Millis>,
    now: &Moment,
) -> Result<Millis, Parked> {
    let lifetime = lifetime.ok_or(Parked::KeyTooOld)?;
    let usable = lifetime.percent(LIFETIME_PERCENT);
    let age = match &operation.key_use.first {
        None => Millis::default(),
        Some((_, since)) => now.age_at_most(since).ok_or(Parked::KeyTooOld)?,
    };
    let left = Millis(usable.0.saturating_sub(age.0));
    if broken(Rule::ResendWithinLifetime) {
        return Ok(usable);
    }
    if left == Millis::default() {
        Err(Parked::KeyTooOld)
    } else {
        Ok(if broken(Rule::ResendLeavesInTime) {
            lifetime
        } else {
            left
        })
    }
}

/// Until the next resend is due: a pause after what is known changed last.
fn until_resent(operation: &Operation, now: &Moment) -> Millis {
    let Some(resend) = operation.settle.steps.send_again() else {
        return Millis::default();
    };
    rest_of(
        resend.every().after(operation.resends),
        &operation.changed,
        now,
    )
}
