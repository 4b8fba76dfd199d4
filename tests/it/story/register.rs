//! The register itself, in an operator's hands: looked into while nobody runs on it, copied, put back.
//!
//! What always holds: nobody works on a register beside its owner, and none that was put back is used
//! without somebody saying so.

use std::process::Output;

use super::*;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_stopped_register_is_read_and_settled_without_an_instance() {
    let upstream = Upstream::start(Keys::Ignored);
    let mut proxy = Proxy::start(Setup::opaque(upstream.address()));
    upstream.next(Script::lose_answer());
    let call = pay(&proxy, "k", r#"{"amount":5}"#);
    assert_eq!(call.send().status, 504);
    until_state(&proxy, "k", "NEEDS_ATTENTION");
    let register = proxy.register();
    let register = register.to_str().unwrap();
    let list = || Proxy::command_alone(&["operations", "list", "--register", register]);

    let refused = list();
    assert_eq!(refused.status.code(), Some(1));
    assert!(complaint(&refused).contains("an instance is running"));

    proxy.stop();
    let listed = list();
    assert!(
        out(&listed).contains("NEEDS_ATTENTION"),
        "{}",
        complaint(&listed)
    );
    let resources = Proxy::command_alone(&["resources", "list", "--register", register]);
    assert!(resources.status.success(), "{}", complaint(&resources));
    let resolved = Proxy::command_alone(&[
        "operations",
        "resolve",
        "provider",
        "k",
        "--register",
        register,
        "--verdict",
        "applied",
        "--reason",
        "seen in the books",
    ]);
    assert!(
        out(&resolved).contains("COMPLETED"),
        "{}",
        complaint(&resolved)
    );
    let other = [
        "operations",
        "list",
        "--register",
        register,
        "--tenant",
        "x",
    ];
    assert!(out(&Proxy::command_alone(&other)).contains("no operations"));

    proxy.start_again();
    let told = call.send();
    assert_eq!(told.status, 200);
    assert!(told.is_replay());
    let events = operation(&proxy, "k")["events"].to_string();
    assert!(
        events.contains("by user ") && events.contains("books"),
        "{events}"
    );
    assert_eq!(upstream.heads().len(), 1);
}

#[test]
fn a_register_that_was_put_back_is_used_only_if_somebody_says_so() {
    let upstream = Upstream::start(Keys::Honoured);
    let mut proxy = Proxy::start(Setup::payments(upstream.address()));
    assert_eq!(publish(&proxy, "108", "{}").send().status, 201);
    let register = proxy.register();
    let copy = register.join("copy");
    let copied = proxy.command(&["store", "backup", "--to", copy.to_str().unwrap()]);
    assert!(
        out(&copied).contains("The key is not in it"),
        "{}",
        complaint(&copied)
    );
    assert_eq!(pay(&proxy, "lost", "{}").send().status, 201);
    proxy.kill();
    for name in ["register.db-wal", "register.db-shm"] {
        std::fs::remove_file(register.join(name)).unwrap();
    }
    std::fs::rename(&copy, register.join("register.db")).unwrap();

    let ended = proxy.starts_again_with(&[]).unwrap_err();
    assert_eq!(ended.code(), Some(1));
    let log = proxy.log();
    assert!(
        log.contains("its witness saw it at") && log.contains("--accept-restored"),
        "{log}"
    );

    // Ready once what the other copy may have sent last has ended: 10 s and 5 s here.
    let begun = std::time::Instant::now();
    proxy.starts_again_with(&["--accept-restored"]).unwrap();
    assert!(begun.elapsed() >= std::time::Duration::from_secs(15));
    let status = proxy.read("/v1/status");
    assert_eq!(status["counted"]["epoch"], 1);
    let stale = publish(&proxy, "109", "{}").send();
    assert_refused(&stale, 412, "stale-fencing-token", "never");
    assert_eq!(publish(&proxy, "1:1", "{}").send().status, 201);
    // It is the upstream's memory that knows what the register has forgotten.
    assert_eq!(pay(&proxy, "lost", "{}").send().status, 201);
    let payments = upstream
        .effects()
        .into_iter()
        .filter(|it| it.path == "/payments");
    assert_eq!(payments.count(), 1);
    proxy.stop();
    proxy.start_again();
}
