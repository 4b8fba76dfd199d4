//! Twins: an SDK that makes a new key for each retry, under a fence with strict order (A15).
//!
//! What always holds: a twin is judged at once, never sent beside the first, and whatever happens to
//! the first decides what the twin gets.

use super::*;
use crate::support::call::InFlight;
use crate::support::gate::Gate;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

fn strict(upstream: &Upstream, if_twin: &str) -> Proxy {
    let route = format!(
        r#"
capability: [idempotent]
key: {{ header: Idempotency-Key, lifetime: 24h, value: derived }}
effects:
  - on: POST /accounts/{{account}}/payments
    once: {{ header: Idempotency-Key }}
    fence:
      resource: "account:{{path.account}}"
      token: {{ header: Fencing-Token, mode: require }}
      order: strict
      if_twin: {if_twin}
"#
    );
    Proxy::start(Setup::new(upstream.address(), &route))
}

fn paid(proxy: &Proxy, key: &str) -> Call {
    pays(proxy, key, 5)
}

fn pays(proxy: &Proxy, key: &str, amount: u8) -> Call {
    proxy
        .post("/accounts/42/payments")
        .token("7")
        .key(key)
        .json(&format!(r#"{{"amount":{amount}}}"#))
}

/// The first one has come to the upstream; its answer waits at the gate.
fn held(upstream: &Upstream, proxy: &Proxy, script: Script) -> (Gate, InFlight) {
    let gate = Gate::closed();
    upstream.next(script.held_at(&gate));
    let first = paid(proxy, "first").start();
    gate.until_reached();
    (gate, first)
}

#[test]
fn a_twin_is_refused_at_once_and_for_good() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = strict(&upstream, "refuse");
    let (gate, first) = held(&upstream, &proxy, Script::default());
    let twin = paid(&proxy, "twin").send();
    assert_refused(&twin, 409, "near-duplicate", "never");
    assert_eq!(twin.json()["first"]["operation"], "first");
    gate.open();
    assert_eq!(first.answer().status, 201);
    // It was noted: also when the first has ended.
    assert_refused(&paid(&proxy, "twin").send(), 409, "near-duplicate", "never");
    assert_eq!(upstream.effects().len(), 1);
}

#[test]
fn a_twin_gets_the_answer_of_the_first_now_and_later() {
    let upstream = Upstream::start(Keys::Honoured);
    let mut proxy = strict(&upstream, "answer");
    let (gate, first) = held(&upstream, &proxy, Script::default());
    let twin = paid(&proxy, "twin").start();
    until("the twin has joined", || {
        operation(&proxy, "first")
            .to_string()
            .contains("repeated by its twin twin")
    });
    gate.open();
    let (first, twin) = (first.answer(), twin.answer());
    assert_replayed(&twin, &first);
    assert_eq!(twin.field("fencepost-operation"), Some("first"));
    proxy.stop();
    proxy.start_again();
    assert_replayed(&paid(&proxy, "twin").send(), &first);
    let changed = pays(&proxy, "twin", 6).send();
    assert_refused(&changed, 422, "idempotency-key-reused", "never");
    assert_eq!(upstream.heads().len(), 1);
}

#[test]
fn a_twin_goes_on_as_new_where_the_first_came_to_nothing() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = strict(&upstream, "answer");
    let (gate, first) = held(&upstream, &proxy, Script::refuse(400, "{}"));
    let twin = paid(&proxy, "twin").start();
    until("the twin has joined", || {
        operation(&proxy, "first")
            .to_string()
            .contains("repeated by its twin twin")
    });
    gate.open();
    assert_eq!(first.answer().status, 400);
    let twin = twin.answer();
    assert_eq!(twin.status, 201);
    assert_eq!(twin.field("fencepost-operation"), Some("twin"));
    assert_eq!(upstream.effects().len(), 1);
}

#[test]
fn with_send_a_twin_waits_its_turn_and_is_sent() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = strict(&upstream, "send");
    let (gate, first) = held(&upstream, &proxy, Script::default());
    let twin = paid(&proxy, "twin").start();
    assert!(!twin.is_answered());
    assert_eq!(upstream.heads().len(), 1);
    gate.open();
    assert_eq!((first.answer().status, twin.answer().status), (201, 201));
    assert_eq!(upstream.effects().len(), 2);
}
