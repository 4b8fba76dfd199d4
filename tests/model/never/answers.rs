//! What must never be answered: a request that is taken for another's repeat and is none, one that is
//! refused though tokens are only observed.
//!
//! What always holds: who repeats whom is told from the calls and from when the first attempt was made,
//! not from what a record says of it.

use fencepost::protocol::command::Ruling;
use fencepost::protocol::operation::IdentityOrigin;
use fencepost::protocol::rejection::Rejection;

use super::super::register::form_of;
use super::super::scenario::{Call, TICK_MS};
use super::super::world::{Name, Record, World};
use super::{Judged, Position, never};

/// `call` was answered with `ruling`, as `name`. `at`: the tick of its request.
pub fn ruled(before: &World, call: &Call, at: u8, name: Name, ruling: &Ruling) -> Judged {
    if call.is_observed() {
        never(is_for_its_token(ruling), || {
            format!("{name} was refused or made to wait, though its token is only observed")
        })?;
    }
    let told_of = match ruling {
        Ruling::Join { key, .. } => key,
        Ruling::Refused(Rejection::NeedsAttention(key)) => key,
        Ruling::Granted(_)
        | Ruling::Replay { .. }
        | Ruling::Wait { .. }
        | Ruling::ReserveFirst
        | Ruling::Refused(_) => return Ok(()),
    };
    let first = Name::of(told_of);
    match before
        .record(first)
        .filter(|_| first != name && call.blind_retry.is_some())
    {
        Some(record) => never(!repeats(before, call, at, record), || {
            format!("{name} was taken for a repeat of {first}, and is none")
        }),
        None => Ok(()),
    }
}

fn is_for_its_token(ruling: &Ruling) -> bool {
    match ruling {
        Ruling::Wait { .. } => true,
        Ruling::Refused(rejection) => match rejection {
            Rejection::TokenRequired
            | Rejection::TokenMalformed
            | Rejection::StaleToken { .. }
            | Rejection::TokenUnknown { .. }
            | Rejection::TokenHeldByAnother { .. }
            | Rejection::LeaseNotCurrent
            | Rejection::GenerationUsed { .. }
            | Rejection::SequenceRegressed { .. }
            | Rejection::PredecessorUnsettled { .. }
            | Rejection::NearDuplicate { .. } => true,
            // The identity's, not the token's; and a cancel is a person's word.
            Rejection::KeyReused
            | Rejection::NotComparable(_)
            | Rejection::CredentialRequired(_)
            | Rejection::AnswerExpired(_)
            | Rejection::NeedsAttention(_)
            | Rejection::ResourceCancelled => false,
        },
        Ruling::Granted(_) | Ruling::Replay { .. } | Ruling::Join { .. } | Ruling::ReserveFirst => {
            false
        }
    }
}

/// Is the call, made at that tick, the blind repeat of what is recorded?
pub(super) fn repeats(before: &World, call: &Call, at: u8, first: &Record) -> bool {
    let Some(window) = call.blind_retry else {
        return false;
    };
    let begun = before.tries_of(first.name).map(|it| it.at).min();
    let recent =
        begun.is_some_and(|begun| u64::from(at.saturating_sub(begun)) * TICK_MS <= window.0);
    let resource = Position::of_record(first).map(|position| position.resource);
    recent
        && first.operation.origin == IdentityOrigin::Fresh
        && form_of(&first.operation) == call.form
        && resource == call.token.map(|_| call.resource)
}
