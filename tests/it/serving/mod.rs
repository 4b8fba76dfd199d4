//! The servers that tests start do what they say, seen with `psql` and from the machine.
//!
//! What always holds: each way of breaking them is shown to break what it is for, and no more.

mod behind;
mod bouncer;
mod disk;
mod orphans;
mod postgres;
mod wire;

use std::thread::{self, JoinHandle};

use crate::servers::psql;

/// A client of its own that waits for an answer.
fn ask(url: String, sql: &str) -> JoinHandle<Result<String, String>> {
    let sql = sql.to_owned();
    thread::spawn(move || psql(&url, &sql))
}
