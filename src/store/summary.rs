//! The register at a glance.
//!
//! What always holds: it is counts and the oldest operations, never all of them.
//!
//! What it does not do: read (`Backend`).

use crate::protocol::operation::Operation;
use crate::protocol::time::Moment;

/// The register at a glance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many operations stand in each state, by the contract's word; states without any are absent.
    pub by_state: Vec<(&'static str, u64)>,
    /// When the oldest unsettled operation was first seen.
    pub oldest_unsettled: Option<Moment>,
    /// The epoch in force.
    pub epoch: u64,
}

/// What is unsettled, at a glance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pressing {
    /// How many operations stand in each unsettled state, by the contract's word; states without any are
    /// absent. Where more than [`COUNTED`] are unsettled, of so many of the oldest at least.
    pub by_state: Vec<(&'static str, u64)>,
    /// The oldest ones by order of record, at most [`LOOKED_AT`].
    pub oldest: Vec<Operation>,
}

/// So many of the oldest unsettled operations are looked at one by one.
pub const LOOKED_AT: usize = 256;

/// Up to so many unsettled operations are counted wherever a register has to look at each to count it.
pub const COUNTED: u32 = 5_000;

/// The unsettled states of a count.
pub(super) fn unsettled_of(by_state: &[(&'static str, u64)]) -> Vec<(&'static str, u64)> {
    let is_unsettled = |it: &&(&'static str, u64)| !matches!(it.0, "NOT_APPLIED" | "COMPLETED");
    by_state.iter().filter(is_unsettled).copied().collect()
}

/// The states by the contract's words, in the order of an operation's life.
pub(super) const STATE_WORDS: [&str; 5] = [
    "INTENDED",
    "UNCERTAIN",
    "NEEDS_ATTENTION",
    "NOT_APPLIED",
    "COMPLETED",
];
