//! The proxy is told to end while an effect is in flight.
//!
//! What always holds: what is under way is finished and recorded; nothing new is admitted, and
//! callers are told why.

use super::*;
use crate::support::gate::Gate;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

#[test]
fn an_effect_in_flight_is_finished_and_recorded_before_the_proxy_ends() {
    let upstream = Upstream::start(Keys::Ignored);
    let mut proxy = Proxy::start(Setup::opaque(upstream.address()));
    let answer = Gate::closed();
    upstream.next(Script::hold_answer(&answer));
    let call = pay(&proxy, "k", r#"{"amount":5}"#);
    let in_flight = call.start();
    answer.until_reached();

    proxy.begin_to_stop();
    until("it drains", || proxy.health("/readyz").status == 503);
    let late = pay(&proxy, "l", "{}").send();
    assert_refused(&late, 503, "draining", "same-operation");
    assert!(late.field("retry-after").is_some());
    assert_eq!(proxy.health("/livez").status, 200);
    answer.open();

    let paid = in_flight.answer();
    assert_eq!(paid.status, 201);
    assert_eq!(proxy.ended().code(), Some(0));
    proxy.start_again();
    assert_replayed(&call.send(), &paid);
    assert_eq!(upstream.heads().len(), 1);
}

#[test]
fn an_effect_whose_caller_is_gone_is_finished_too() {
    let upstream = Upstream::start(Keys::Ignored);
    let mut proxy = Proxy::start(Setup::opaque(upstream.address()));
    let answer = Gate::closed();
    upstream.next(Script::hold_answer(&answer));
    let call = pay(&proxy, "k", "{}");
    let gone = call.start();
    answer.until_reached();
    gone.hang_up_and_be_missed();
    proxy.begin_to_stop();
    until("it drains", || proxy.health("/readyz").status == 503);
    answer.open();
    assert_eq!(proxy.ended().code(), Some(0));
    proxy.start_again();
    let told = call.send();
    assert_eq!((told.status, told.is_replay()), (201, true));
    assert_eq!(upstream.heads().len(), 1);
}

/// The first pause of settling is longer than any test.
const SETTLES_LATER: &str = r#"
capability: [idempotent]
key: { header: Idempotency-Key, lifetime: 24h, value: derived }
effects:
  - on: PUT /statements/{date}
    once: "publish:{path.date}:{token.generation}"
    join: 2m
    settle: [ { send_again: { backoff: { from: 1m, to: 1m } } } ]
    fence:
      resource: "statement:{path.date}"
      token: { header: Fencing-Token, mode: require }
      if_older_unsettled: { wait: 2m }
"#;

#[test]
fn nothing_is_settled_any_more_and_whoever_waits_for_it_is_told_so() {
    let upstream = Upstream::start(Keys::Honoured);
    let mut proxy = Proxy::start(Setup::new(upstream.address(), SETTLES_LATER));
    upstream.next(Script::lose_answer());
    let alice = publish(&proxy, "107", r#"{"by":"alice"}"#).start();
    until("Alice's answer is lost", || {
        recorded(&proxy) == 1 && state(&proxy, "publish:2026-09-13:107") == "UNCERTAIN"
    });
    let again = publish(&proxy, "107", r#"{"by":"alice"}"#).start();
    let bob = publish(&proxy, "108", r#"{"by":"bob"}"#).start();
    until("Bob has taken over", || {
        mark(&proxy, RESOURCE).as_deref() == Some("108")
    });

    assert_eq!(proxy.stop().code(), Some(0));

    // Never a bare close: that invites a blind resend.
    for told in [alice.answer(), again.answer()] {
        assert_refused(&told, 504, "outcome-uncertain", "same-operation");
    }
    // Of Bob's nothing was sent, and he is told so.
    assert_refused(&bob.answer(), 503, "draining", "same-operation");
    assert_eq!(
        upstream.heads().len(),
        1,
        "nothing was sent while it drained"
    );
    assert!(
        !proxy.log().contains("the register is closed"),
        "{}",
        proxy.log()
    );
    proxy.start_again();
    assert_eq!(state(&proxy, "publish:2026-09-13:107"), "UNCERTAIN");
}

#[test]
fn an_idle_proxy_ends_at_once() {
    let upstream = Upstream::start(Keys::Ignored);
    let mut proxy = Proxy::start(Setup::opaque(upstream.address()));
    assert_eq!(proxy.stop().code(), Some(0));
}
