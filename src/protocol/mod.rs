//! The rules, and nothing but the rules.
//!
//! What lives here: the words of the contract as types, and two pure functions over them,
//! [`decide::decide`] (what one command does to one view of the register) and [`plan::plan`] (what
//! may be done next for an unsettled operation).
//!
//! What always holds: no I/O, no clock, no randomness, no logging. Time comes in with the command.
//! Every store backend loads a [`view::View`], calls `decide` and persists its `Changes` in one
//! transaction, so two backends cannot differ in logic. The same function is what the model checker
//! explores.
//!
//! What it does not do: parse HTTP, know a database, know a provider.

#![cfg_attr(
    not(test),
    deny(
        clippy::wildcard_enum_match_arm,
        clippy::as_conversions,
        clippy::arithmetic_side_effects
    )
)]
#![deny(missing_docs)]

mod accept;
mod admission;
pub mod broken;
pub mod command;
pub mod company;
pub mod decide;
pub mod fence;
pub mod finding;
pub mod ids;
pub mod lease;
pub mod meaning;
mod observe;
pub mod operation;
mod others;
pub mod outcome;
pub mod plan;
pub mod policy;
pub mod proofs;
pub mod pulse;
pub mod rejection;
pub mod remaining;
mod repair;
mod repeat;
pub mod settling;
pub mod share;
pub mod start;
mod steer;
pub mod steps;
mod supersede;
pub mod take_up;
pub mod time;
mod undo;
pub mod view;
pub mod void;
mod weigh;

#[cfg(test)]
mod tests;
