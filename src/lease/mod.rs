//! Leases: where ownership and its tokens come from.
//!
//! What lives here: `own`, the leases that the register itself keeps; `source`, what every service is that leases
//! come from; `held`, a lease on behalf of a worker that knows nothing of tokens, with the `probe` that sees whether
//! it lives and what is `remembered` of its last ownership; `claim`, what the proxy looks into;
//! `pins`, when work came in; `secret`, how
//! acquisitions are named to others.
//!
//! What always holds: correctness never depends on anybody here: the fence refuses whoever has lost his lease.
//!
//! What it does not do: decide who owns what (`protocol::lease`).

pub mod claim;
pub mod held;
pub mod own;
pub mod pins;
mod probe;
mod remembered;
pub mod secret;
pub mod source;
