//! Integration tests: real sockets, real processes, a scripted upstream that counts effects.
//!
//! What always holds: a test waits for conditions and never sleeps for luck; what it starts is ended
//! by the value that started it, by its own id, also when the test fails; ports and folders belong
//! to one test alone.
//!
//! What lives elsewhere: tests of one room's insides stand beside its code.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "in a test a panic is the report; tests bound their waiting by the clock themselves; and nobody imports from here"
)]

#[path = "../servers/mod.rs"]
mod servers;

mod architecture;
mod basics;
mod config;
mod crash;
mod faults;
mod fuzz;
mod matrix;
mod profiles;
mod serving;
mod shared_register;
mod story;
mod stripe;
mod support;
mod workers;
