//! One operation, killed at each place where it matters.
//!
//! What always holds: what the register says after the restart is exactly what can be known.

use crate::support::call::{Answer, Call};
use crate::support::gate::until;
use crate::support::proxy::Proxy;
use crate::support::setup::Setup;
use crate::support::upstream::{Keys, Upstream};

/// Where the process dies, and what the upstream has of the one operation by then.
struct Point {
    name: &'static str,
    heads: usize,
    effects: usize,
}

/// Before the outcome is on disk: nobody can know.
const IN_DOUBT: [Point; 5] = [
    Point {
        name: "after-intent",
        heads: 0,
        effects: 0,
    },
    Point {
        name: "after-first-byte",
        heads: 0,
        effects: 0,
    },
    Point {
        name: "after-last-byte",
        heads: 1,
        effects: 1,
    },
    Point {
        name: "after-answer",
        heads: 1,
        effects: 1,
    },
    Point {
        name: "before-outcome-commit",
        heads: 1,
        effects: 1,
    },
];

fn call(proxy: &Proxy) -> Call {
    proxy.post("/payments").key("k").json(r#"{"amount":5}"#)
}

/// Sends the operation to a proxy that dies of it.
fn dies_of(proxy: &mut Proxy, point: &str) {
    assert!(
        call(proxy).attempt().is_err(),
        "nobody is told before the outcome is on disk"
    );
    let status = proxy.ended();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(9),
        "{point}: {status}"
    );
}

fn assert_effect_1(answer: &Answer, point: &str) {
    let seen = (answer.status, answer.text());
    assert_eq!(seen, (201, r#"{"id":"effect-1"}"#.to_owned()), "{point}");
}

#[test]
fn what_was_never_committed_is_as_if_nobody_had_asked() {
    let upstream = Upstream::start(Keys::Ignored);
    let mut proxy = Proxy::dying_at(Setup::opaque(upstream.address()), "before-intent");
    dies_of(&mut proxy, "before-intent");
    assert_eq!(upstream.text(), "", "not a byte");
    proxy.start_again();
    let list = proxy.read("/v1/operations");
    assert_eq!(list["operations"].as_array().unwrap().len(), 0);
    let told = call(&proxy).send();
    assert_effect_1(&told, "before-intent");
    assert!(!told.is_replay());
    assert_eq!(upstream.heads().len(), 1);
}

/// B01: in doubt at once, not "in progress" until something expires.
#[test]
fn an_upstream_that_honours_keys_has_one_effect_wherever_the_proxy_dies() {
    for Point { name, heads, .. } in IN_DOUBT {
        let upstream = Upstream::start(Keys::Honoured);
        let mut proxy = Proxy::dying_at(Setup::payments(upstream.address()), name);
        dies_of(&mut proxy, name);
        proxy.start_again();
        // Nobody asks again; it is settled all the same.
        until(&format!("{name}: it is settled"), || {
            proxy.read("/v1/operations/provider/k")["state"] == "COMPLETED"
        });
        assert_effect_1(&call(&proxy).send(), name);
        assert_eq!(upstream.effects().len(), 1, "{name}");
        assert_eq!(upstream.heads().len(), heads + 1, "{name}: one resend");
    }
}

#[test]
fn a_caller_that_asks_again_right_after_the_restart_gets_the_answer() {
    for Point { name, .. } in IN_DOUBT {
        let upstream = Upstream::start(Keys::Honoured);
        let mut proxy = Proxy::dying_at(Setup::payments(upstream.address()), name);
        dies_of(&mut proxy, name);
        proxy.start_again();
        assert_effect_1(&call(&proxy).send(), name);
        assert_eq!(upstream.effects().len(), 1, "{name}");
    }
}

#[test]
fn an_upstream_that_cannot_deduplicate_is_never_sent_a_second_attempt() {
    for Point {
        name,
        heads,
        effects,
    } in IN_DOUBT
    {
        let upstream = Upstream::start(Keys::Ignored);
        let mut proxy = Proxy::dying_at(Setup::opaque(upstream.address()), name);
        dies_of(&mut proxy, name);
        proxy.start_again();
        // Whoever asks before the pass at start has looked is told no better.
        let early = call(&proxy).send();
        assert!(
            matches!(early.status, 409 | 504),
            "{name}: {}",
            early.text()
        );
        until(&format!("{name}: it is said to need a person"), || {
            proxy.read("/v1/operations/provider/k")["state"] == "NEEDS_ATTENTION"
        });
        let told = call(&proxy).send();
        assert_eq!(
            told.verdict(),
            (409, "needs-attention".to_owned()),
            "{name}"
        );
        let seen = (upstream.heads().len(), upstream.effects().len());
        assert_eq!(seen, (heads, effects), "{name}");
    }
}

#[test]
fn an_outcome_that_is_on_disk_outlives_the_process_though_nobody_was_told() {
    for setup in [Setup::payments, Setup::opaque] {
        let upstream = Upstream::start(Keys::Ignored);
        let mut proxy = Proxy::dying_at(setup(upstream.address()), "after-outcome-commit");
        dies_of(&mut proxy, "after-outcome-commit");
        proxy.start_again();
        let told = call(&proxy).send();
        assert_effect_1(&told, "after-outcome-commit");
        assert!(told.is_replay());
        assert_eq!(upstream.heads().len(), 1);
    }
}

#[test]
fn a_settlement_that_dies_is_settled_by_the_next_process() {
    let upstream = Upstream::start(Keys::Honoured);
    let mut proxy = Proxy::dying_at(Setup::payments(upstream.address()), "after-last-byte");
    dies_of(&mut proxy, "after-last-byte");
    for point in ["after-first-byte", "after-last-byte", "after-answer"] {
        // The resend of the pass at start reaches it, perhaps before the proxy is ready.
        proxy.starts_again_dying_at(point);
        proxy.ended();
    }
    proxy.start_again();
    assert_effect_1(&call(&proxy).send(), "the fifth process");
    assert_eq!(upstream.effects().len(), 1);
}

#[test]
fn a_newer_owner_waits_for_what_an_older_process_left_in_doubt() {
    let upstream = Upstream::start(Keys::Honoured);
    let mut proxy = Proxy::dying_at(Setup::payments(upstream.address()), "after-intent");
    let publish = |proxy: &Proxy, token: &str, by: &str| {
        let body = format!(r#"{{"by":"{by}"}}"#);
        proxy.put("/statements/2026-09-13").token(token).json(&body)
    };
    assert!(publish(&proxy, "107", "alice").attempt().is_err());
    proxy.ended();
    proxy.start_again();
    assert_eq!(publish(&proxy, "108", "bob").send().status, 201);
    let bodies: Vec<_> = upstream.effects().into_iter().map(|it| it.body).collect();
    assert_eq!(bodies, [r#"{"by":"alice"}"#, r#"{"by":"bob"}"#]);
    let alice = publish(&proxy, "107", "alice").send();
    assert_eq!((alice.status, alice.is_replay()), (201, true));
    let late = publish(&proxy, "107", "alice, later").send();
    assert_eq!(late.verdict(), (412, "stale-fencing-token".to_owned()));
}
