//! Operators work straight in a shared register, beside its sidecars.

use super::{complaint, out, pay, publish, until_state};
use crate::servers::{PASSWORD, shared};
use crate::support::proxy::Proxy;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::{Keys, Upstream};

#[test]
fn a_register_is_read_and_settled_while_sidecars_are_at_work() {
    let upstream = Upstream::start(Keys::Ignored);
    let database = shared().database();
    let url = database.url();
    let sidecar = || Proxy::start(Setup::opaque(upstream.address()).sharing(&url, ""));
    let (one, other) = (sidecar(), sidecar());
    upstream.next(Script::lose_answer());
    assert_eq!(pay(&one, "k").send().status, 504);
    until_state(&one, "k", "NEEDS_ATTENTION");
    assert_eq!(publish(&one, "108").send().status, 201);

    let config = one.config();
    let direct = |command: &[&str]| {
        let place = ["--register", &url, "--config", config.to_str().unwrap()];
        Proxy::command_alone(&[command, &place].concat())
    };
    let listed = direct(&["operations", "list", "--state", "needs-attention"]);
    assert!(
        out(&listed).contains("NEEDS_ATTENTION"),
        "{}",
        complaint(&listed)
    );
    let resources = direct(&["resources", "list"]);
    assert!(out(&resources).contains("108"), "{}", complaint(&resources));
    let verdict = ["--verdict", "applied", "--reason", "seen in the books"];
    let resolved = direct(&[&["operations", "resolve", "provider", "k"][..], &verdict].concat());
    assert!(
        out(&resolved).contains("COMPLETED"),
        "{}",
        complaint(&resolved)
    );

    let told = pay(&other, "k").send();
    assert_eq!(told.status, 200, "{}", told.text());
    assert!(told.is_replay());
    assert_eq!(upstream.effects_on("/payments"), 1);
    // Whoever only looked in or settled was no instance.
    assert_eq!(
        database.query("SELECT count(*) FROM fencepost.instances"),
        "2"
    );
}

#[test]
fn without_its_keys_nobody_is_told_anything() {
    let upstream = Upstream::start(Keys::Honoured);
    let database = shared().database();
    let proxy = Proxy::start(Setup::payments(upstream.address()).sharing(&database.url(), ""));
    assert_eq!(pay(&proxy, "k").send().status, 201);
    let listed = Proxy::command_alone(&["operations", "list", "--register", &database.url()]);
    assert_eq!(listed.status.code(), Some(1));
    let said = complaint(&listed);
    assert!(said.contains("was it made with other keys"), "{said}");
    assert!(!said.contains(PASSWORD), "{said}");
}

#[test]
fn a_database_is_not_ours_to_copy() {
    let database = shared().database();
    let url = database.url();
    let refused = ["store", "backup", "--register", &url, "--to", "/nowhere"];
    let refused = Proxy::command_alone(&refused);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        complaint(&refused).contains("pg_basebackup"),
        "{}",
        complaint(&refused)
    );
}

/// From its answer on: also a sidecar that was not asked, and has heard nothing.
#[test]
fn an_epoch_is_that_of_every_sidecar() {
    let upstream = Upstream::start(Keys::Honoured);
    let database = shared().database();
    let url = database.url();
    let sidecar = || Proxy::start(Setup::payments(upstream.address()).sharing(&url, ""));
    let (one, other) = (sidecar(), sidecar());
    for (proxy, token) in [(&one, "107"), (&other, "108")] {
        assert_eq!(publish(proxy, token).send().status, 201);
    }
    let advance = ["epoch", "advance", "--reason", "etcd was restored"];
    let told = one.command(&advance);
    assert!(
        out(&told).contains("epoch 1 is in force"),
        "{}",
        complaint(&told)
    );
    for proxy in [&other, &one] {
        let late = publish(proxy, "109").send();
        assert_eq!(late.status, 412, "{}", late.text());
        assert!(
            late.text().contains("of epoch 0, and epoch 1 is in force"),
            "{}",
            late.text()
        );
    }
    assert_eq!(publish(&other, "1:1").send().status, 201);
    // And straight in the register, beside them.
    let config = one.config();
    let place = ["--register", &url, "--config", config.to_str().unwrap()];
    let told = Proxy::command_alone(&[&advance[..], &place].concat());
    assert!(
        out(&told).contains("epoch 2 is in force"),
        "{}",
        complaint(&told)
    );
    for proxy in [&other, &one] {
        assert_eq!(publish(proxy, "1:2").send().status, 412);
        assert_eq!(proxy.read("/v1/status")["counted"]["epoch"], 2);
    }
    let doctor = other.command(&["doctor"]);
    assert!(
        out(&doctor).contains("epoch 1 begins, as carol says: etcd was restored"),
        "{}",
        out(&doctor)
    );
    assert_eq!(publish(&one, "2:1").send().status, 201);
}
