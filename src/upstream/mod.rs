//! The door to the third party: the effect pool and the pass-through client.
//!
//! What always holds: an effect goes out on a connection that nobody else uses, at most once per
//! permit, and what is told of it afterwards rests on bytes that this room counted itself. No library
//! below repeats a request.
//!
//! The way of an effect: [`EffectPool::reserve`] (or [`EffectPool::idle`], which never connects),
//! then admission elsewhere, then [`Reserved::send`], which consumes the permit and ends in a
//! receipt; what undoes an effect goes the same way ([`Reserved::undo`]). Requests that are no effects go through
//! [`PassThrough`], questions about them through [`Questions`].
//!
//! What it does not do: decide whether to send, write the register, or say what evidence changes.
//! HTTP/2 towards upstreams is not here yet.

mod answer;
mod connect;
mod counted_io;
mod endpoint;
mod evidence;
mod exchange;
mod fields;
mod look_up;
mod onward;
mod outbound;
mod pass_through;
pub mod pem;
mod reserve;
mod send;
mod stream;
mod undo;

pub use connect::Unreachable;
pub use endpoint::{Endpoint, EndpointError, TlsMaterial};
pub use look_up::{Questions, Unanswered};
pub use onward::{Arrival, Incomplete, Onward, Oversized, Passing, PassingBody, onward};
pub use outbound::{Outbound, UnfitRequest};
pub use pass_through::{PassThrough, PassThroughError};
pub use reserve::{EffectPool, Limits, Reserved};
pub use send::{LateReader, Sent};
pub use undo::Unheard;

#[cfg(test)]
mod tests;
