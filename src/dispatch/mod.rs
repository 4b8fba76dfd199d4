//! One attempt, from its permit to its record, and whoever waits for it.
//!
//! What lives here: [`attempt`] sends on a permit, records what was seen and tells the waiters;
//! [`passing`] hands on an answer too large to keep; [`gateway`] is one upstream ready to be sent to;
//! [`waiters`] wakes those who joined, and [`abroad`] finds
//! the ends that other processes bring about; [`supervisor`] keeps the tasks; [`live`] and [`turnstile`] are
//! how a config changes meanwhile.
//!
//! What always holds: once its intent is committed an attempt belongs to a tracked task that no
//! caller can cancel; nobody is told an end before it is recorded.
//!
//! What it does not do: decide whether to send (`protocol`), or read a request (`wire`).

pub mod abroad;
pub mod arrivals;
pub mod attempt;
pub mod gateway;
pub mod live;
pub mod passing;
pub mod supervisor;
#[cfg(test)]
mod tests;
pub mod turnstile;
pub mod waiters;
