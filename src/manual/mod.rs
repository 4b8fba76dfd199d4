//! The manual: what an operator should know, by chapter. Documentation only; no code lives here.
//!
//! What always holds: it describes this version, and says so where something is not built yet.
//!
//! What it does not do: repeat the reference of the config (`config/fencepost.yaml`).

pub mod answers;
pub mod config;
pub mod expressions;
pub mod identity;
pub mod insertion;
pub mod leases;
pub mod moving;
pub mod on_behalf;
pub mod operations;
pub mod profiles;
pub mod register;
pub mod rolling_out;
pub mod settling;
pub mod shared_register;
