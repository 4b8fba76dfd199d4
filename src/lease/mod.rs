//! Leases: where ownership and its tokens come from.
//!
//! What lives here: `own`, the leases that the register itself keeps, and `secret`, how they are named to others. What
//! will: `LeaseSource` and other sources, and
//! holding a lease on behalf of a worker that knows nothing of tokens (`held`).
//!
//! What always holds: correctness never depends on anybody here: the fence refuses whoever has lost his lease.
//!
//! What it does not do: decide who owns what (`protocol::lease`).

pub mod own;
pub mod secret;
