//! `leases`: what is held on behalf of a worker, as it is read, and what is refused.

use std::path::Path;

use super::{effect, good, refused, warnings};
use crate::config::{OnLoss, Sign, StartIdentity};
use crate::protocol::time::Millis;

const HTTP: &str = "{ http: \"http://127.0.0.1:8080/healthz\", identity: { header: X-Started } }";

/// With a fence whose tokens come from there, and these leases.
fn file(source: &str, leases: &str) -> String {
    let fence = format!(
        "        fence: {{ resource: \"r:{{path.id}}\", token: {{ header: T, source: {source} }} }}\n"
    );
    format!("{}leases:\n{leases}\n", effect(&fence))
}

fn one(fields: &str) -> String {
    file(
        "fencepost",
        &format!("  payer: {{ resource: 'r:1', {fields} }}"),
    )
}

#[test]
fn what_is_not_said_has_a_default() {
    let config = good(&one(&format!("alive: {HTTP}")));
    let [lease] = config.leases.as_slice() else {
        panic!("{:?}", config.leases);
    };
    assert_eq!(
        (lease.name.as_str(), lease.resource.as_str()),
        ("payer", "r:1")
    );
    assert_eq!((lease.ttl, lease.on_loss), (Millis(30_000), OnLoss::Refuse));
    assert_eq!(
        (lease.alive.every, lease.alive.timeout),
        (Millis(2_000), Millis(1_000))
    );
    assert_eq!(lease.state, Path::new("/var/lib/fencepost"));
    assert_eq!(lease.holder, None);
    let Sign::Http {
        identity: Some(StartIdentity::Header(name)),
        ..
    } = &lease.alive.sign
    else {
        panic!("{:?}", lease.alive.sign);
    };
    assert_eq!(name, "x-started");
    // A short one is looked at as often as it needs.
    let short = good(&one(&format!("ttl: 1s, on_loss: exit, alive: {HTTP}")));
    let lease = &short.leases[0];
    assert_eq!(
        (lease.alive.every, lease.alive.timeout),
        (Millis(166), Millis(166))
    );
    assert_eq!(lease.on_loss, OnLoss::Exit);
}

#[test]
fn every_sign_of_life_is_read() {
    let sign = |alive: &str| {
        good(&one(&format!("alive: {alive}"))).leases[0]
            .alive
            .sign
            .clone()
    };
    assert_eq!(
        sign("{ process: { pid_file: /run/p } }"),
        Sign::PidFile("/run/p".into())
    );
    assert_eq!(
        sign("{ process: { command: payer } }"),
        Sign::Command("payer".to_owned())
    );
    assert_eq!(
        sign("{ file: /etc/start }"),
        Sign::File("/etc/start".into())
    );
    let json = sign("{ http: \"http://a/x\", identity: { json: /started } }");
    assert!(json.tells_starts_apart());
}

fn assert_refused(cases: &[(String, &str)]) {
    for (text, part) in cases {
        let problems = refused(text).to_string();
        assert!(
            problems.contains(part),
            "no {part:?} in\n{problems}\nof\n{text}"
        );
    }
}

#[test]
fn what_cannot_work_is_refused() {
    assert_refused(&[
        (one("ttl: 30s"), "`alive` is missing"),
        (
            one(&format!("source: etcd, alive: {HTTP}")),
            "not supported by this version",
        ),
        (
            one(&format!("source: paper, alive: {HTTP}")),
            "`paper` is not one of",
        ),
        (
            one(&format!("ttl: 999ms, alive: {HTTP}")),
            "from `1s` to `24h`",
        ),
        (
            one(&format!("ttl: 25h, alive: {HTTP}")),
            "from `1s` to `24h`",
        ),
        (
            one("alive: {}"),
            "needs one of `http`, `process` and `file`",
        ),
        (
            one("alive: { file: /a, http: \"http://a/\" }"),
            "needs one of `http`, `process` and `file`",
        ),
        (
            one("alive: { file: /a, identity: { header: X } }"),
            "is of an `http` probe",
        ),
        (
            one("alive: { http: \"https://a/\" }"),
            "is not an `http` URL",
        ),
        (
            one("alive: { http: \"http://a/\", identity: { json: started } }"),
            "is not a JSON pointer",
        ),
        (
            one("alive: { process: { command: a-name-that-is-too-long } }"),
            "at most 15 bytes",
        ),
        (
            one("ttl: 3s, alive: { file: /a, every: 900ms, timeout: 200ms }"),
            "a third of `ttl`",
        ),
    ]);
}

/// Whoever reaches an effect on a held resource gets the worker's token.
#[test]
fn others_than_the_worker_do_not_reach_what_is_held_for_it() {
    let beside = one(&format!("alive: {HTTP}"));
    good(&beside.replace("listen: 127.0.0.1:15001", "listen: '[::1]:15001'"));
    for elsewhere in ["0.0.0.0:15001", "'[::]:15001'", "10.1.2.3:15001"] {
        let text = beside.replace("127.0.0.1:15001", elsewhere);
        assert_refused(&[(text, "others than the worker beside this sidecar")]);
    }
}

#[test]
fn what_does_not_fit_what_is_around_it_is_refused() {
    let postgres =
        "register:\n  postgres: { url: \"postgres://u@127.0.0.1/d\" }\n  encryption: none\n";
    assert_refused(&[
        (
            file(
                "fencepost",
                &format!("  payer: {{ resource: 'r:{{path.id}}', alive: {HTTP} }}"),
            ),
            "in plain text",
        ),
        (
            file(
                "fencepost",
                &format!(
                    "  a: {{ resource: 'r:1', alive: {HTTP} }}\n  b: {{ resource: 'r:1', alive: {HTTP} }}"
                ),
            ),
            "`a` holds that resource already",
        ),
        (
            file(
                "caller",
                &format!("  payer: {{ resource: 'r:1', alive: {HTTP} }}"),
            ),
            "takes its tokens from `caller`",
        ),
        (
            format!("{}{postgres}", one(&format!("alive: {HTTP}"))),
            "needs `state`",
        ),
    ]);
}

#[test]
fn who_proves_nothing_is_told_so() {
    let without = one("alive: { http: \"http://127.0.0.1:8080/healthz\" }");
    let told = warnings(&without);
    assert!(
        told.contains("no probe proves that the worker was replaced"),
        "{told}"
    );
    assert!(told.contains("no `worker` listener"), "{told}");
    let listening = format!("{without}worker: {{ address: 127.0.0.1:15010 }}\n");
    assert!(!warnings(&listening).contains("no `worker` listener"));
    assert!(!warnings(&one(&format!("alive: {HTTP}"))).contains("no probe proves"));
    let idle = file(
        "fencepost",
        &format!("  payer: {{ resource: 's:1', alive: {HTTP} }}"),
    );
    assert!(warnings(&idle).contains("no effect acts on it"));
}

/// Contract section 5: under a lease that is lost nothing is sent again, and the next owner's repeat is another operation.
#[test]
fn who_needs_an_owner_and_asks_nobody_is_told_who_settles_it() {
    let of = |once: &str| {
        effect(&format!(
            "        once: \"{once}\"\n        fence: {{ resource: \"x:{{path.id}}\", require: current, token: {{ header: \
             Fencing-Token, source: fencepost }} }}\n"
        ))
    };
    let told = "each lost answer goes to a person";
    assert!(warnings(&of("{path.id}:{token.generation}")).contains(told));
    assert!(!warnings(&of("{path.id}")).contains(told));
}
