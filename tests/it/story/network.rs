//! The same, with the pause in the network: Alice's request was admitted in time and is still on its
//! way when Bob takes over.
//!
//! What always holds: Bob's request leaves only after Alice's is known to have ended.

use super::*;
use crate::support::gate::Gate;
use crate::support::link::Link;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

/// Bob waits half a second, no longer.
const IMPATIENT: &str = r#"
capability: [idempotent]
key: { header: Idempotency-Key, lifetime: 24h, value: derived }
effects:
  - on: PUT /statements/{date}
    once: "publish:{path.date}:{token.generation}"
    fence:
      resource: "statement:{path.date}"
      token: { header: Fencing-Token, mode: require }
      if_older_unsettled: { wait: 500ms }
"#;

#[test]
fn bob_waits_for_alices_request_that_is_still_in_the_network() {
    let upstream = Upstream::start(Keys::Honoured);
    let network = Link::to(upstream.address());
    let proxy = Proxy::start(Setup::payments(network.address()));
    network.hold_requests();
    let alice = publish(&proxy, "107", r#"{"by":"alice"}"#).start();
    until("Alice's request is in the network", || {
        network.request_bytes_held() > 0
    });

    let bob = publish(&proxy, "108", r#"{"by":"bob"}"#).start();
    until("Bob has taken over", || {
        mark(&proxy, RESOURCE).as_deref() == Some("108")
    });
    let arrival = Gate::closed();
    upstream.next(Script::hold_effect(&arrival));
    network.release_requests();
    arrival.until_reached();
    // Whatever of Bob's had been let out would be at the provider before this.
    assert_eq!(pay(&proxy, "unrelated", "{}").send().status, 201);
    assert!(!bob.is_answered());
    arrival.open();

    assert_eq!(alice.answer().status, 201);
    assert_eq!(bob.answer().status, 201);
    assert_eq!(
        bodies(&upstream),
        ["{}", r#"{"by":"alice"}"#, r#"{"by":"bob"}"#]
    );
}

#[test]
fn when_bobs_patience_ends_he_is_told_to_try_again_and_nothing_of_his_was_sent() {
    let upstream = Upstream::start(Keys::Honoured);
    let network = Link::to(upstream.address());
    let proxy = Proxy::start(Setup::new(network.address(), IMPATIENT));
    network.hold_requests();
    let alice = publish(&proxy, "107", r#"{"by":"alice"}"#).start();
    until("Alice's request is in the network", || {
        network.request_bytes_held() > 0
    });

    let bob = publish(&proxy, "108", r#"{"by":"bob"}"#);
    let told = bob.send();

    assert_refused(&told, 409, "predecessor-unsettled", "same-operation");
    assert!(told.field("retry-after").is_some());
    network.release_requests();
    assert_eq!(alice.answer().status, 201);
    assert_eq!(bodies(&upstream), [r#"{"by":"alice"}"#]);
    assert_eq!(bob.send().status, 201);
    assert_eq!(bodies(&upstream), [r#"{"by":"alice"}"#, r#"{"by":"bob"}"#]);
}

#[test]
fn bob_waits_also_for_an_answer_of_alices_that_was_lost() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let resend = Gate::closed();
    upstream.next(Script::lose_answer());
    upstream.next(Script::hold_answer(&resend));
    let alice = publish(&proxy, "107", r#"{"by":"alice"}"#).start();
    // Alice's operation is being settled when Bob comes.
    resend.until_reached();
    let bob = publish(&proxy, "108", r#"{"by":"bob"}"#).start();
    until("Bob has taken over", || {
        mark(&proxy, RESOURCE).as_deref() == Some("108")
    });
    assert!(!bob.is_answered());
    resend.open();

    assert_eq!(bob.answer().status, 201);
    assert_eq!(alice.answer().status, 201);
    assert_eq!(bodies(&upstream), [r#"{"by":"alice"}"#, r#"{"by":"bob"}"#]);
}

#[test]
fn behind_an_operation_that_needs_a_person_bob_is_told_at_once() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::opaque(upstream.address()));
    upstream.next(Script::lose_answer());
    let alice = publish(&proxy, "107", r#"{"by":"alice"}"#).send();
    assert_refused(&alice, 504, "outcome-uncertain", "same-operation");
    until_state(&proxy, "publish:2026-09-13:107", "NEEDS_ATTENTION");

    let bob = publish(&proxy, "108", r#"{"by":"bob"}"#).send();

    assert_refused(&bob, 409, "predecessor-unsettled", "after-settlement");
    assert!(
        bob.text().contains("publish:2026-09-13:107"),
        "{}",
        bob.text()
    );
    assert_eq!(bodies(&upstream), [r#"{"by":"alice"}"#]);
}
