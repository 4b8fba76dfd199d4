//! Leases: where ownership and its tokens come from.
//!
//! What will live here: `LeaseSource` and its sources (`own`, in the register), and holding a lease on
//! behalf of a worker that knows nothing of tokens (`held`). The rules are laid out already
//! (`protocol::lease`): every View has a place for lease facts, and `require: current` refuses
//! wherever they are unknown.
//!
//! What always holds: until then every View carries `LeaseFacts::unknown`, tokens come with the
//! requests, and `check` refuses what would need a live lease.
//!
//! What it does not do yet: issue, renew or hold anything.
