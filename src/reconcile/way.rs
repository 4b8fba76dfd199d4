//! Whether the config in force says anything of an operation that went out by an earlier one.
//!
//! What always holds: a request elsewhere, under another key or under none, or with other texts in it, is about
//! another effect: sent, it would be a second one; asked, it would find nothing. Whatever acts compares first; a
//! start asks nobody whether a config may say so.
//!
//! What it does not do: compare what is asked, and of whom a repeat would be (`wire::recorded`).

use crate::config::{Insert, Upstream};
use crate::protocol::operation::{IdentityOrigin, Operation};

/// Would its requests go elsewhere now, or with other texts in them, or under another key or none?
pub(super) fn is_otherwise(operation: &Operation, now: &Upstream, insert: &Insert) -> bool {
    is_elsewhere(operation, now) || !is_put_in_as(operation, insert)
}

/// Is its upstream at another place now? Records that are older do not say where it was.
fn is_elsewhere(operation: &Operation, now: &Upstream) -> bool {
    let way = operation.settle.way.as_ref();
    way.is_some_and(|way| way.destination != now.destination())
}

/// Would the same texts go to the same places of its request, and the same key?
fn is_put_in_as(operation: &Operation, now: &Insert) -> bool {
    let of_key = operation.settle.key.and_then(|key| key.placing);
    let before = operation.settle.way.as_ref().map(|way| way.placing);
    let is_placed = before
        .or(of_key)
        .is_none_or(|before| before == now.placing());
    is_placed && has_its_key(operation, now)
}

fn has_its_key(operation: &Operation, now: &Insert) -> bool {
    let Some(own) = operation.settle.key else {
        return true;
    };
    let is_rule = |value| operation.origin != IdentityOrigin::Caller || own.value == value;
    now.key
        .as_ref()
        .is_some_and(|key| is_rule(key.policy.value))
}
