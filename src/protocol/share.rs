//! Who of those that share a register takes what somebody has to take: by rendezvous, without asking.
//!
//! What always holds: whoever sees the same others comes to the same order of them, a different one for each
//! thing; when one of them goes, only what he would have taken goes to another. So the many do not all try
//! at once, and if the first does not act, the next one does after a while.
//!
//! What it does not do: exclude anybody. Two that see different others may both act; the transaction in
//! which they act decides.

use super::ids::InstanceId;
use super::time::Millis;

/// How long each leaves to the one before him.
pub const TURN: Millis = Millis(20_000);

/// Is it `own`'s turn to take `thing`, which has been there to be taken for `waited`? `others` are those that
/// live, with or without `own`.
pub fn is_due(own: InstanceId, others: &[InstanceId], thing: u128, waited: Millis) -> bool {
    let mine = weight(own, thing);
    let before = others
        .iter()
        .filter(|other| **other != own && (weight(**other, thing), **other) > (mine, own));
    let turns = u64::try_from(before.count()).unwrap_or(u64::MAX);
    waited.0 >= TURN.0.saturating_mul(turns)
}

/// Is `own` the one whose turn is first?
pub fn is_first(own: InstanceId, others: &[InstanceId], thing: u128) -> bool {
    is_due(own, others, thing, Millis::default())
}

/// The same in every version of the binary.
fn weight(InstanceId(instance): InstanceId, thing: u128) -> u64 {
    let halves = [
        low(instance),
        low(instance.rotate_right(64)),
        low(thing),
        low(thing.rotate_right(64)),
    ];
    halves.into_iter().fold(0, |sum, half| mixed(sum ^ half))
}

fn low(number: u128) -> u64 {
    u64::try_from(number & u128::from(u64::MAX)).unwrap_or_default()
}

/// SplitMix64's step (Steele, Lea, Flood 2014): every bit of the result depends on every bit given.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
