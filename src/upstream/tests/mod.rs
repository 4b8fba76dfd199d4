//! The room against a scripted upstream on real sockets.

#![expect(
    clippy::disallowed_methods,
    reason = "tests run tasks of their own beside what they test"
)]

mod answers;
mod connections;
mod late;
mod onward;
mod pass_through;
mod scripted;
mod tls;
mod undone;
mod unsent;
