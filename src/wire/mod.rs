//! HTTP on one side, the words of the contract on the other.
//!
//! What lives here: what a request *is* ([`route`], [`identify`], [`canonical`], [`fingerprint`],
//! [`keys`]), what of it may travel ([`hygiene`], [`body`]), and what its caller is told
//! ([`answer`], [`problem`], [`reply`]).
//!
//! What always holds: everything here is a pure function of what it is given, but for [`body`],
//! which reads one. Bodies are shared, never copied. Nothing here logs.
//!
//! What it does not do: accept connections (`proxy`), send anything (`upstream`), decide
//! (`protocol`).

pub mod answer;
pub mod body;
pub mod canonical;
pub mod fingerprint;
pub mod hygiene;
pub mod identify;
mod json;
pub mod keys;
pub mod problem;
pub mod recorded;
pub mod reply;
pub mod route;

#[cfg(test)]
mod fixtures;
