//! Fencepost: a sidecar fencing proxy.
//!
//! A proxy beside every worker, sharing one durable register, which lets an effect out only if the
//! caller's fencing token is not stale, the logical operation was not applied or sent already, and
//! the intent is on disk first; and which finds out what happened when nobody knows.
//!
//! The promise, worded this way everywhere: at most one accepted effect per operation, given the
//! upstream's declared capability; otherwise an explicit `uncertain`, never a guess.
//!
//! The rooms, from the door inwards. A room imports only rooms further down this list; a test reads
//! the imports and fails on a breach.

pub mod admin;
pub mod app;
pub mod cli;
pub mod clock;
pub mod config;
pub mod dispatch;
pub mod expression;
pub mod failpoint;
pub mod lease;
pub mod manual;
pub mod observe;
pub mod protocol;
pub mod proxy;
pub mod reconcile;
pub mod store;
pub mod telemetry;
pub mod upstream;
pub mod wire;
