//! The reverse proxy: what stands between a worker and the API it calls.
//!
//! What lives here: [`doors`] are opened and closed, `listener` accepts ([`tls`] with a handshake), [`front`] reads a request and chooses its way, `pipeline`
//! carries an effect out, with what its connection is `bound` to on behalf of the worker; `joining` waits for somebody else's attempt, `detached` does not wait, `reply` tells the
//! caller; [`callbacks`] takes what an upstream tells of its own accord; [`inbound`] passes on what the worker is asked
//! for, and has it noted when that came in.
//!
//! What always holds: nothing that matches an effect goes upstream but through the pipeline; whatever
//! goes wrong here, a caller that is still there gets a complete answer, or sees that it is not.
//!
//! What it does not do: forward and transparent proxying (their listeners come later and lead to the
//! same front).

mod bound;
pub mod callbacks;
mod detached;
pub mod doors;
mod forward;
pub mod front;
pub mod inbound;
mod joining;
mod listener;
mod patience;
mod pipeline;
#[cfg(test)]
mod tests;
pub mod tls;
mod told;
