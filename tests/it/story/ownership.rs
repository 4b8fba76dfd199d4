//! A worker pauses, another takes over, the first one wakes up.
//!
//! What always holds: the last word at the provider is the present owner's.

use super::*;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;
use crate::workers::Worker;

#[test]
fn alice_pauses_bob_publishes_and_alice_wakes_up_too_late() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let line = format!("PUT {STATEMENT}");
    let mut alice = Worker::ready(proxy.address(), &line, "107", r#"{"by":"alice"}"#);
    alice.pause();
    alice.go();

    let bob = publish(&proxy, "108", r#"{"by":"bob"}"#).send();
    alice.wake();
    let seen = alice.seen();

    assert_eq!(bob.status, 201);
    assert_eq!(seen.status, 412, "{}", seen.body);
    assert!(seen.body.contains("stale-fencing-token"), "{}", seen.body);
    assert_eq!(bodies(&upstream), [r#"{"by":"bob"}"#]);
    assert_eq!(
        upstream.heads().len(),
        1,
        "nothing of Alice's was ever sent"
    );
}

#[test]
fn bob_replaces_what_alice_published_and_alice_cannot_take_it_back() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    assert_eq!(
        publish(&proxy, "107", r#"{"by":"alice"}"#).send().status,
        201
    );
    assert_eq!(publish(&proxy, "108", r#"{"by":"bob"}"#).send().status, 201);

    // Nothing of her generation may go out any more, neither new nor in the old one's name.
    let other = publish(&proxy, "107", r#"{"by":"alice, later"}"#).send();
    assert_refused(&other, 412, "stale-fencing-token", "never");
    assert_eq!(bodies(&upstream), [r#"{"by":"alice"}"#, r#"{"by":"bob"}"#]);
}

#[test]
fn the_fence_rises_even_if_the_newer_owner_only_repeats_an_old_operation() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let paid = pay_from(&proxy, "42", "107", "rent").send();
    assert_eq!(paid.status, 201);

    let repeated = pay_from(&proxy, "42", "108", "rent").send();

    assert_replayed(&repeated, &paid);
    let stale = pay_from(&proxy, "42", "107", "power").send();
    assert_refused(&stale, 412, "stale-fencing-token", "never");
    // What was done once ever is told to whoever asks for it; Alice learns that she must not go on.
    let told = pay_from(&proxy, "42", "107", "rent").send();
    assert_replayed(&told, &paid);
    assert_eq!(told.field("fencepost-state"), Some("stale-token"));
    assert_eq!(upstream.effects_on("/accounts/42/payments"), 1);
}

#[test]
fn the_fence_rises_even_if_the_newer_owners_request_is_refused() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    assert_eq!(pay_from(&proxy, "42", "107", "rent").send().status, 201);
    let reused = pay_from(&proxy, "42", "108", "rent").json(r#"{"payment":"other"}"#);

    assert_refused(&reused.send(), 422, "idempotency-key-reused", "never");

    let stale = pay_from(&proxy, "42", "107", "power").send();
    assert_refused(&stale, 412, "stale-fencing-token", "never");
}

#[test]
fn another_resource_is_none_of_bobs_business() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    assert_eq!(publish(&proxy, "108", r#"{"by":"bob"}"#).send().status, 201);
    let other_day = proxy
        .put("/statements/2026-09-14")
        .token("3")
        .json("{}")
        .send();
    assert_eq!(other_day.status, 201);
    assert_eq!(mark(&proxy, RESOURCE).as_deref(), Some("108"));
}

#[test]
fn a_fence_outlives_the_process_that_raised_it() {
    let upstream = Upstream::start(Keys::Honoured);
    let mut proxy = Proxy::start(Setup::payments(upstream.address()));
    assert_eq!(publish(&proxy, "108", r#"{"by":"bob"}"#).send().status, 201);
    proxy.kill();
    proxy.start_again();
    let alice = publish(&proxy, "107", r#"{"by":"alice"}"#).send();
    assert_refused(&alice, 412, "stale-fencing-token", "never");
    assert_eq!(bodies(&upstream), [r#"{"by":"bob"}"#]);
}
