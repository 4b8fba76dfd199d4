//! What an answer of the upstream proves, and what it leaves open; and an upstream that is not there.
//!
//! What always holds: "nothing happened" frees the identity, a definitive no is kept, and the
//! upstream's own words reach the caller in every case.

use super::*;
use crate::support::ports;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

/// B07, B08.
#[test]
fn a_400_is_passed_on_and_leaves_the_identity_free_for_the_corrected_request() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    upstream.next(Script::refuse(400, r#"{"error":"amount is a string"}"#));

    let refused = pay(&proxy, "k", r#"{"amount":"5"}"#).send();

    assert_eq!(refused.verdict(), (400, String::new()));
    assert_eq!(refused.text(), r#"{"error":"amount is a string"}"#);
    assert_eq!(refused.field("fencepost-source"), Some("upstream"));
    assert_eq!(state(&proxy, "k"), "NOT_APPLIED");
    let corrected = pay(&proxy, "k", r#"{"amount":5}"#).send();
    assert_eq!((corrected.status, corrected.is_replay()), (201, false));
    assert_eq!(bodies(&upstream), [r#"{"amount":5}"#]);
    // The identity is that request's now.
    let first = pay(&proxy, "k", r#"{"amount":"5"}"#).send();
    assert_refused(&first, 422, "idempotency-key-reused", "never");
    // A wrong verdict would still have been caught: the key is the same.
    let keys: Vec<_> = upstream
        .heads()
        .into_iter()
        .map(|head| head.fields.first("idempotency-key").map(str::to_owned))
        .collect();
    assert_eq!(keys[0], keys[1]);
}

/// B07.
#[test]
fn a_402_is_kept_and_given_again_without_asking() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    upstream.next(Script::refuse(402, r#"{"error":"card declined"}"#));
    let declined = pay(&proxy, "k", "{}").send();
    assert_eq!(
        (declined.status, declined.text().as_str()),
        (402, r#"{"error":"card declined"}"#)
    );

    assert_replayed(&pay(&proxy, "k", "{}").send(), &declined);

    let other = pay(&proxy, "k", r#"{"amount":1}"#).send();
    assert_refused(&other, 422, "idempotency-key-reused", "never");
    assert_eq!((upstream.heads().len(), upstream.effects().len()), (1, 0));
}

#[test]
fn a_stored_refusal_of_a_derived_identity_lets_a_corrected_request_in_under_a_new_key() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    upstream.next(Script::refuse(402, r#"{"error":"card declined"}"#));
    let order = |card: &str| {
        let body = format!(r#"{{"order":"o-1","card":"{card}"}}"#);
        proxy.post("/orders").json(&body).send()
    };
    assert_eq!(order("empty").status, 402);
    assert!(order("empty").is_replay());
    assert_eq!((order("full").status, order("full").status), (201, 201));
    let heads = upstream.heads();
    assert_eq!((heads.len(), upstream.effects().len()), (2, 1));
    assert_ne!(
        heads[0].fields.first("idempotency-key"),
        heads[1].fields.first("idempotency-key")
    );
}

/// B07.
#[test]
fn a_500_at_an_upstream_that_cannot_deduplicate_waits_for_a_person() {
    for status in [302, 408, 409, 500, 502, 503, 504] {
        let upstream = Upstream::start(Keys::Ignored);
        let proxy = Proxy::start(Setup::opaque(upstream.address()));
        upstream.next(Script::refuse(status, r#"{"code":"E1234"}"#));
        let told = pay(&proxy, "k", "{}").send();
        assert_eq!(
            (told.status, told.text().as_str()),
            (status, r#"{"code":"E1234"}"#)
        );
        assert_eq!(told.field("fencepost-state"), Some("uncertain"));
        until_state(&proxy, "k", "NEEDS_ATTENTION");
        assert_refused(
            &pay(&proxy, "k", "{}").send(),
            409,
            "needs-attention",
            "after-settlement",
        );
        assert_eq!(upstream.heads().len(), 1);
    }
}

#[test]
fn a_dead_upstream_costs_nothing() {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()));
    let proxy = Proxy::start(Setup::payments(address));
    let call = pay(&proxy, "k", r#"{"amount":5}"#);

    let told = call.send();

    assert_refused(&told, 502, "upstream-unreachable", "same-operation");
    assert_eq!(recorded(&proxy), 0);
    let upstream = Upstream::start_at(address, Keys::Honoured);
    let paid = call.send();
    assert_eq!((paid.status, paid.is_replay()), (201, false));
    assert_eq!(upstream.heads().len(), 1);
}

#[test]
fn a_stored_answer_needs_no_upstream() {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()));
    let proxy = Proxy::start(Setup::payments(address));
    let upstream = Upstream::start_at(address, Keys::Honoured);
    let paid = pay(&proxy, "k", "{}").send();
    drop(upstream);
    until("the provider is gone", || {
        TcpStream::connect(address).is_err()
    });
    assert_replayed(&pay(&proxy, "k", "{}").send(), &paid);
    let changed = pay(&proxy, "k", r#"{"amount":1}"#).send();
    assert_refused(&changed, 422, "idempotency-key-reused", "never");
}

#[test]
fn a_kept_connection_that_died_meanwhile_costs_nothing() {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()));
    let proxy = Proxy::start(Setup::payments(address));
    let upstream = Upstream::start_at(address, Keys::Honoured);
    assert_eq!(pay(&proxy, "k", "{}").send().status, 201);
    drop(upstream);
    until("the provider is gone", || {
        TcpStream::connect(address).is_err()
    });
    let upstream = Upstream::start_at(address, Keys::Honoured);
    let paid = pay(&proxy, "l", "{}").send();
    assert_eq!(
        (
            paid.status,
            upstream.heads().len(),
            upstream.effects().len()
        ),
        (201, 1, 1)
    );
}
