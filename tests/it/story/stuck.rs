//! What cannot be settled now holds up nobody else: F06.
//!
//! What always holds: whoever can be settled is settled within two passes, however many were there before him that
//! cannot; a resource waits for its own head, and no other does.

use std::time::{Duration, Instant};

use super::*;
use crate::support::http::Head;
use crate::support::script::{Script, json_answer};
use crate::support::setup::Setup;
use crate::support::upstream::{Effect, Keys};

/// The register is searched that often for what is in doubt.
const PASS: Duration = Duration::from_secs(5);

const STUCK: usize = 50;

const LISTING: &str = r#"
capability: [query]
timeouts: { connect: 2s, response: 300ms, dispatch: 5s }
effects:
  - on: POST /payments
    once: { header: Idempotency-Key }
    settle:
      - look_up:
          get: "/payments?reference={operation.id}"
          applied: "response.status == 200 && response.body.found"
          lag: 5m
          every: { from: 100ms, to: 2s }
"#;

/// Nobody is told what became of a payment, and whoever asks about a stuck one is never answered.
fn upstream() -> Upstream {
    let upstream = Upstream::start(Keys::Ignored);
    upstream.answer_usually(|_| json_answer(500, "{}"));
    upstream.when_asked(|_: &[Effect], head: &Head, _: &str| {
        if head.word(1).contains("stuck") {
            Vec::new()
        } else {
            json_answer(200, r#"{"found":true}"#)
        }
    });
    upstream
}

fn pay_in_vain(proxy: &Proxy, key: &str) {
    let told = pay(proxy, key, "{}").send();
    assert_eq!(
        (told.status, told.field("fencepost-state")),
        (500, Some("uncertain"))
    );
}

/// F06: fifty that nobody answers about, and one that is answered.
#[test]
fn whoever_is_answered_is_settled_however_many_are_not() {
    let upstream = upstream();
    let proxy = Proxy::start(Setup::new(upstream.address(), LISTING));
    for number in 0..STUCK {
        pay_in_vain(&proxy, &format!("stuck-{number}"));
    }
    until("settling leaves the upstream alone", || {
        let status = proxy.read("/v1/status");
        let settling = status["settling"].as_array().unwrap();
        let left_alone = settling
            .iter()
            .filter_map(|it| it["left_alone_ms"].as_u64());
        left_alone.max() > Some(2_000)
    });
    let begun = Instant::now();
    pay_in_vain(&proxy, "good");
    until_state(&proxy, "good", "COMPLETED");
    let took = begun.elapsed();
    assert!(took < 2 * PASS, "it took {took:?}");
    assert_eq!(state(&proxy, "stuck-0"), "UNCERTAIN");
}

/// F06: a head that waits for a person holds up its own resource alone.
#[test]
fn a_head_that_waits_for_a_person_holds_up_its_own_resource_alone() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::opaque(upstream.address()));
    upstream.next(Script::lose_answer());
    let head = publish(&proxy, "5", "{}").send();
    assert_refused(&head, 504, "outcome-uncertain", "same-operation");
    until_state(&proxy, "publish:2026-09-13:5", "NEEDS_ATTENTION");
    for token in ["6", "7"] {
        let behind = publish(&proxy, token, "{}").send();
        assert_refused(&behind, 409, "predecessor-unsettled", "after-settlement");
        let other = proxy.put("/statements/2026-09-14").token(token).json("{}");
        assert_eq!(other.send().status, 201);
        assert_eq!(pay(&proxy, token, "{}").send().status, 201);
    }
    assert_eq!(upstream.effects().len(), 5);
}
