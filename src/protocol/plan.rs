//! What may be done next for an unsettled operation: the reconciler's plan (contract §5).
//!
//! What always holds: an expired claim is a right to settle, never a right to send again; a resend
//! goes out only under the same key, within 80 % of the key's lifetime, while the bytes are kept,
//! nothing newer that must be ordered with it was admitted, and nobody cut the operation off.
//!
//! What it does not do: act, or look anything up. Look-ups and callbacks come with their own steps.

use super::broken::{Rule, broken};
use super::fence::Fence;
use super::lease::LeaseFacts;
use super::operation::{Operation, Parked, State};
use super::policy::{Order, Ownership};
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
    /// No step can help.
    Park(Parked),
}

/// The largest part of a key's lifetime that a resend may use, in hundredths.
pub const LIFETIME_PERCENT: u64 = 80;

/// Plans the next step.
pub fn plan(
    operation: &Operation,
    fence: Option<&Fence>,
    lease: &LeaseFacts,
    living: &Living,
    now: &Moment,
) -> Step {
    match operation.state {
        State::Completed(_) | State::NotApplied(_) | State::NeedsAttention(_) => {
            return Step::Nothing;
        }
        State::Intended | State::Uncertain => {}
    }
    if operation.is_acting(living, now) {
        return Step::Await;
    }
    let listening = operation.has_live_attempt(living, now);
    match room_for_resend(operation, fence, lease, now) {
        Ok(_) => {
            let after = backoff(operation);
            if listening && !broken(Rule::PlanClosesFirst) {
                Step::CloseThenPlan { after }
            } else {
                Step::Resend { after }
            }
        }
        // Where no step can help, the late answer is the only hope left: let it come.
        Err(_) if listening => Step::Await,
        Err(_) if broken(Rule::PlanParks) => Step::Await,
        Err(obstacle) => Step::Park(obstacle),
    }
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
    let deduplicates =
        operation.settle.capability.idempotent || broken(Rule::ResendNeedsDeduplication);
    let (Some(key), true) = (operation.settle.key, deduplicates) else {
        return Err(Parked::NoStep);
    };
    let attempts = match operation.settle.resend {
        Some(resend) => resend.attempts,
        None if attended => 0,
        None => return Err(Parked::NoStep),
    };
    if !operation.request_kept {
        return Err(Parked::RequestNotKept);
    }
    may_go_out_of_turn(operation, fence, licence)?;
    let mut room = room_in_lifetime(operation, key.lifetime, now)?;
    if operation.require == Ownership::Current && !broken(Rule::ResendNeedsLiveLease) {
        let live = lease.live.as_ref().ok_or(Parked::NotCurrent)?;
        room = room.min(live.until.since(now.boottime));
        if room == Millis::default() {
            return Err(Parked::NotCurrent);
        }
    }
    if operation.resends >= attempts && !attended && !broken(Rule::ResendsAreCounted) {
        return Err(Parked::ResendsUsedUp);
    }
    Ok(room)
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

fn backoff(operation: &Operation) -> Millis {
    let Some(resend) = operation.settle.resend else {
        return Millis::default();
    };
    let doubled = resend
        .backoff_from
        .0
        .saturating_mul(2_u64.saturating_pow(operation.resends.min(32)));
    Millis(doubled).min(resend.backoff_to)
}
