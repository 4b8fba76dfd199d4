//! What tests of every kind stand on, those beside the code too.
#![allow(
    clippy::disallowed_methods,
    reason = "tests bound their waiting by the clock themselves"
)]

pub mod ports;
pub mod waiting;
