//! The real binary is killed with SIGKILL, frozen and thawed, and started again on its register.
//!
//! What always holds: the upstream's own ledger decides; at most one effect per operation where it
//! honours keys, at most one attempt where it does not; nothing that a caller saw is lost or changes;
//! whatever nobody knows is said to be so. Random runs print their seed and take it from
//! `FENCEPOST_CRASH_SEED`; `FENCEPOST_CRASH_KILLS` makes them longer.
//!
//! What lives elsewhere: a disk that fails, and damage (`faults`).

mod book;
mod campaign;
mod freeze;
mod points;
mod relay;
mod storm;
mod taken_over;
mod traffic;
mod upgrade;
mod world;
