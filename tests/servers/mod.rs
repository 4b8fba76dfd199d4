//! What tests stand on that need a database: real servers, started, broken and stopped by them.
//!
//! What always holds: nothing outlives the test process that started it, however that ends; nothing
//! here knows the crate, so that unit tests and `tests/it` share it. Everything is synchronous, and what
//! it promises has come true when it returns.
//!
//! What it needs: PostgreSQL's server and pgbouncer, which `tests/run` installs. What it does not do:
//! assert. Ordinary tests share one server and have a database each:
//!
//! ```ignore
//! let database = shared().database();
//! database.query("CREATE TABLE kept (id int)");
//! assert_eq!(psql(&database.url(), "SELECT count(*) FROM kept").unwrap(), "0");
//! ```
//!
//! Those that break something have a server of their own, and what stands before it:
//!
//! ```ignore
//! let mut primary = Postgres::start_with(&Settings::default().with("max_connections", "30"));
//! let (replica, wire) = (primary.replica(), Wire::to(primary.address()));
//! let database = primary.database();
//! let bouncer = Bouncer::start(wire.address(), Pool::default());
//! wire.lose_answer_to("COMMIT");
//! assert!(psql(&database.url_at(bouncer.address()), "BEGIN; …; COMMIT").is_err());
//! primary.kill();
//! replica.promote();
//! wire.lead_to(replica.address());
//! ```
//!
//! Include it once in a binary, or there are two `shared` servers.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "whoever includes this uses a part of it; in a test a panic is the report; tests bound their waiting by the clock themselves"
)]

pub mod ports;
pub mod waiting;

mod account;
mod bouncer;
mod conversation;
pub mod daemon;
mod database;
mod disk;
mod folder;
mod postgres;
mod replica;
mod restore;
mod settings;
mod tls;
mod wire;

pub use bouncer::{Bouncer, Mode, Pool};
pub use database::{Database, pgbench, psql};
pub use postgres::{OWNER, PASSWORD, Postgres, shared};
pub use restore::{Backup, RestorePoint};
pub use settings::Settings;
pub use wire::{Direction, Wire};
