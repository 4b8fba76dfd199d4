//! The answer is lost on its way to the worker, who asks again; or he asks for something else under
//! the same name.
//!
//! What always holds: one effect; the saved answer, byte for byte; a changed payload is a conflict.

use super::*;
use crate::support::gate::Gate;
use crate::support::link::Link;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

#[test]
fn bob_loses_his_answer_and_gets_the_saved_one_when_he_asks_again() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::opaque(upstream.address()));
    let road = Link::to(proxy.address());
    road.lose_next_answer();
    let publication = Call::new(road.address(), "PUT", STATEMENT)
        .token("108")
        .json(r#"{"by":"bob"}"#);

    assert!(publication.attempt().is_err(), "his answer is lost");
    let again = publication.send();

    assert_eq!(
        (again.status, again.text().as_str()),
        (201, r#"{"id":"effect-1"}"#)
    );
    assert!(again.is_replay());
    assert_eq!(again.field("fencepost-source"), Some("stored"));
    assert_eq!(
        again.field("fencepost-operation"),
        Some("publish:2026-09-13:108")
    );
    assert_eq!(upstream.heads().len(), 1);
}

#[test]
fn a_first_answer_is_not_called_a_replay_and_keeps_its_bytes() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::opaque(upstream.address()));
    let body = "{ \"spaces\" :  \"and\\u0020escapes\",\r\n\"order\":[2,1] }";
    upstream.next(Script::answer_raw(format!(
        "HTTP/1.1 201 Made\r\nContent-Type: text/x-odd; q=1\r\nLocation: /payments/7\r\nETag: \"v1\"\r\nX-Many: a\r\nX-Many: b\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )));
    let first = pay(&proxy, "k", "{}").send();
    let again = pay(&proxy, "k", "{}").send();

    assert_eq!((first.status, first.text().as_str()), (201, body));
    assert!(!first.is_replay());
    assert_eq!(first.field("fencepost-source"), Some("upstream"));
    assert_replayed(&again, &first);
    for answer in [&first, &again] {
        assert_eq!(answer.field("content-type"), Some("text/x-odd; q=1"));
        assert_eq!(answer.field("location"), Some("/payments/7"));
        assert_eq!(answer.field("etag"), Some("\"v1\""));
        let many = answer.head.fields.0.iter();
        let many: Vec<_> = many
            .filter(|(name, _)| name.eq_ignore_ascii_case("x-many"))
            .collect();
        assert_eq!(many.len(), 2, "{}", answer.head.text);
    }
}

#[test]
fn a_changed_payload_under_the_same_identity_is_refused_after_it_completed() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let paid = pay(&proxy, "k", r#"{"amount":5}"#).send();

    let changed = pay(&proxy, "k", r#"{"amount":6}"#).send();

    assert_refused(&changed, 422, "idempotency-key-reused", "never");
    assert!(changed.field("retry-after").is_none());
    assert_replayed(&pay(&proxy, "k", r#"{"amount":5}"#).send(), &paid);
    assert_eq!(bodies(&upstream), [r#"{"amount":5}"#]);
}

/// B15.
#[test]
fn a_changed_payload_is_refused_at_once_while_the_first_is_in_flight() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let answer = Gate::closed();
    upstream.next(Script::hold_answer(&answer));
    let first = pay(&proxy, "k", r#"{"amount":5}"#).start();
    answer.until_reached();

    let changed = pay(&proxy, "k", r#"{"amount":6}"#).send();

    assert_refused(&changed, 422, "idempotency-key-reused", "never");
    assert!(
        changed.field("retry-after").is_none(),
        "retrying can never help"
    );
    answer.open();
    assert_eq!(first.answer().status, 201);
    assert_eq!(bodies(&upstream), [r#"{"amount":5}"#]);
}

#[test]
fn the_same_payload_in_another_spelling_is_the_same_payload() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let paid = pay(&proxy, "k", r#"{"amount":5,"to":"é"}"#).send();
    let spelled = pay(&proxy, "k", "{ \"to\": \"\\u00e9\",\n  \"amount\": 5 }").send();
    assert_replayed(&spelled, &paid);
    let quoted = pay(&proxy, "\"k\"", r#"{"amount":5,"to":"é"}"#).send();
    assert_replayed(&quoted, &paid);
    assert_eq!(upstream.effects().len(), 1);
}

#[test]
fn once_ever_and_once_per_generation_are_told_apart_by_the_identity() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let first = proxy
        .post("/orders")
        .json(r#"{"order":"o-1","note":"a"}"#)
        .send();
    let again = proxy
        .post("/orders")
        .json(r#"{"note":"a","order":"o-1"}"#)
        .send();
    assert_replayed(&again, &first);
    // A publication belongs to its generation: the next owner's is another one.
    for token in ["107", "107", "108"] {
        assert_eq!(publish(&proxy, token, "{}").send().status, 201);
    }
    assert_eq!(upstream.effects_on("/orders"), 1);
    assert_eq!(upstream.effects_on(STATEMENT), 2);
}

#[test]
fn a_caller_that_hangs_up_does_not_stop_its_effect() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let arrival = Gate::closed();
    upstream.next(Script::hold_effect(&arrival));
    let call = pay(&proxy, "k", r#"{"amount":5}"#);
    let first = call.start();
    arrival.until_reached();

    first.hang_up_and_be_missed();
    arrival.open();

    let again = call.send();
    assert_eq!(
        (again.status, again.text().as_str()),
        (201, r#"{"id":"effect-1"}"#)
    );
    assert_eq!(again.field("fencepost-source"), Some("stored"));
    // The provider's connection was never touched: the next effect uses it.
    assert_eq!(pay(&proxy, "l", "{}").send().status, 201);
    assert_eq!((upstream.heads().len(), upstream.connections()), (2, 1));
}

#[test]
fn a_request_that_never_arrives_whole_is_not_sent() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let call = pay(&proxy, "k", r#"{"amount":5}"#);
    let half = call.start_with(call.bytes().len() - 1);
    half.hang_up_and_be_missed();
    assert_eq!(recorded(&proxy), 0);
    assert_eq!(upstream.heads().len(), 0);
    assert_eq!(call.send().status, 201);
}
