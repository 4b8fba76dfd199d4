//! Real database servers for tests: started, broken and stopped.
//!
//! What always holds: nothing outlives the test process that started it.
#![allow(
    dead_code,
    unused_imports,
    clippy::disallowed_methods,
    reason = "whoever includes this uses a part of it; tests bound their waiting by the clock themselves"
)]

pub mod ports;
pub mod waiting;

mod account;
mod daemon;
mod database;
mod disk;
mod folder;
mod postgres;
mod settings;
mod tls;

pub use database::{Database, psql};
pub use postgres::{OWNER, PASSWORD, Postgres, shared};
pub use settings::Settings;
