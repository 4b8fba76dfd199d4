//! What can be watched: numbers, readiness, logs.
//!
//! What always holds: what happened is counted, and nothing that belongs to a customer leaves by a
//! log or a label.

use super::*;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

/// Counts of the register may be a second old.
fn until_metric(proxy: &Proxy, name: &str, expected: f64) {
    until(&format!("{name} is {expected}"), || {
        (proxy.metric(name) - expected).abs() < f64::EPSILON
    });
}

#[test]
fn the_metrics_say_what_happened() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    assert_eq!(publish(&proxy, "108", "{}").send().status, 201);
    assert_eq!(publish(&proxy, "107", "{}").send().status, 412);
    assert_eq!(pay(&proxy, "k", "{}").send().status, 201);
    assert_eq!(pay(&proxy, "k", "{}").send().status, 201);
    assert_eq!(pay(&proxy, "k", "[]").send().status, 422);

    until_metric(&proxy, "fencepost_stale_token_rejections_total", 1.0);
    until_metric(&proxy, "fencepost_rejections_total", 2.0);
    until_metric(&proxy, "fencepost_contradictions_total", 0.0);
    until_metric(&proxy, "fencepost_unsettled", 0.0);
    until_metric(&proxy, "fencepost_in_flight", 0.0);
    let text = proxy.health("/metrics").text();
    assert!(text.contains(r#"reason="stale-fencing-token""#), "{text}");
    assert!(
        text.contains(r#"reason="idempotency-key-reused""#),
        "{text}"
    );
    for (result, count) in [("applied", 2), ("replayed", 1)] {
        let counted = text.lines().filter(|line| {
            line.starts_with("fencepost_operations_total")
                && line.contains(&format!("result=\"{result}\""))
        });
        let sum: u32 = counted
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u32>().unwrap())
            .sum();
        assert_eq!(sum, count, "{result}: {text}");
    }
    // Never a label with a resource, an operation or a customer in it.
    assert!(!text.contains("2026-09-13"), "{text}");
}

#[test]
fn what_waits_for_a_person_shows_until_he_has_spoken() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::opaque(upstream.address()));
    assert_eq!(proxy.health("/readyz").status, 200);
    upstream.next(Script::lose_answer());
    assert_eq!(pay(&proxy, "k", "{}").send().status, 504);
    until_state(&proxy, "k", "NEEDS_ATTENTION");
    until_metric(&proxy, "fencepost_unsettled", 1.0);
    let counted = &proxy.read("/v1/status")["counted"];
    assert_eq!(counted["operations"]["NEEDS_ATTENTION"], 1);
    let said = r#"{"verdict":"applied","reason":"seen in their books"}"#;
    let resolved = proxy
        .admin("POST", "/v1/operations/provider/k/resolve")
        .json(said)
        .send();
    assert_eq!(resolved.status, 200, "{}", resolved.text());
    until_metric(&proxy, "fencepost_unsettled", 0.0);
}

#[test]
fn logs_name_operations_and_never_what_is_in_them() {
    let upstream = Upstream::start(Keys::Honoured);
    let mut proxy = Proxy::start(Setup::payments(upstream.address()));
    let body = r#"{"card":"4242424242424242","to":"bobs-secret-account"}"#;
    let paid = |key: &str| {
        pay(&proxy, key, body)
            .field("Authorization", "Bearer sk_live_0815")
            .send()
    };
    assert_eq!(paid("k").status, 201);
    upstream.next(Script::lose_answer());
    assert_eq!(paid("l").status, 201);
    upstream.next(Script::refuse(
        500,
        r#"{"secret":"upstreams-secret-answer"}"#,
    ));
    assert_eq!(paid("m").status, 500);
    assert_eq!(
        pay(&proxy, "k", r#"{"card":"bobs-secret-card"}"#)
            .send()
            .status,
        422
    );
    assert_eq!(
        publish(&proxy, "108", r#"{"by":"bobs-secret-object"}"#)
            .send()
            .status,
        201
    );
    assert_eq!(
        publish(&proxy, "107", r#"{"by":"alices-secret-object"}"#)
            .send()
            .status,
        412
    );
    assert_eq!(proxy.stop().code(), Some(0));

    let log = proxy.log();
    for secret in [
        "4242",
        "secret",
        "sk_live",
        crate::support::setup::OPERATOR.1,
    ] {
        assert!(!log.contains(secret), "{secret} in the log");
    }
    for key in upstream
        .heads()
        .iter()
        .filter_map(|head| head.fields.first("idempotency-key"))
    {
        assert!(!log.contains(key), "the upstream's key in the log");
    }
    // Not silent for all that: a stale owner and a settled operation are worth a line.
    for told in ["stale-fencing-token", "\"l\""] {
        assert!(log.contains(told), "{told} is not in the log:\n{log}");
    }
    // What is said of the config comes before logging begins.
    for line in log.lines().filter(|line| !line.contains(": warning: ")) {
        assert!(
            serde_json::from_str::<Value>(line).is_ok(),
            "not JSON: {line}"
        );
    }
}
