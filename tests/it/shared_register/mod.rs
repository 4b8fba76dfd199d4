//! Sidecars that share a register in PostgreSQL: real processes, a real server.
//!
//! What always holds: every test has a database of its own; whoever breaks a server has that server for
//! himself.
//!
//! What lives elsewhere: that no interleaving of sidecars breaks the rules (`store::conformance`, and the
//! tests of `store::postgres`).

mod away;
mod forgotten;
mod leases;
mod opening;
mod operators;
mod roles;
mod together;
mod trust;
mod walk_through;

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::support::call::Call;
use crate::support::gate::until;
use crate::support::proxy::Proxy;
use crate::support::setup::Setup;

fn pay(proxy: &Proxy, key: &str) -> Call {
    proxy.post("/payments").key(key).json(r#"{"amount":5}"#)
}

fn publish(proxy: &Proxy, token: &str) -> Call {
    proxy.put("/statements/2026-09-13").token(token).json("{}")
}

fn state(proxy: &Proxy, id: &str) -> Value {
    proxy.read(&format!("/v1/operations/provider/{id}"))["state"].clone()
}

fn until_state(proxy: &Proxy, id: &str, wanted: &str) {
    until(&format!("{id} is {wanted}"), || state(proxy, id) == wanted);
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn migrate(setup: &Setup) -> Output {
    run(&["store", "migrate"], &setup.config())
}

fn run(command: &[&str], config: &Path) -> Output {
    let config = ["--config", config.to_str().unwrap()];
    Proxy::command_alone(&[command, &config].concat())
}
