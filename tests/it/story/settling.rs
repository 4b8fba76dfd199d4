//! Nobody knows whether it happened: it is found out where the upstream deduplicates.
//!
//! What always holds: a resend carries the same bytes under the same key; one effect, however many
//! heads; whoever waits gets the answer.

use super::*;
use crate::support::gate::Gate;
use crate::support::http::Head;
use crate::support::script::{Ending, Script};
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

/// The key that a request reached the provider with.
fn key(head: &Head) -> &str {
    head.fields.first("idempotency-key").unwrap()
}

/// All heads are of one request, sent again under its own key.
fn assert_same_request(heads: &[Head]) {
    for head in heads {
        assert_eq!(head.first_line, heads[0].first_line);
        assert_eq!(key(head), key(&heads[0]));
    }
}

/// A11: a resend carries what was stored, or is not made.
#[test]
fn a_lost_answer_is_settled_by_the_same_bytes_under_the_same_key_and_reaches_the_caller() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    upstream.next(Script::lose_answer());

    let paid = pay(&proxy, "k", r#"{"amount":5}"#).send();

    assert_eq!(
        (paid.status, paid.text().as_str()),
        (201, r#"{"id":"effect-1"}"#)
    );
    assert_eq!(bodies(&upstream), [r#"{"amount":5}"#]);
    let heads = upstream.heads();
    assert_eq!(heads.len(), 2);
    assert_same_request(&heads);
    assert_eq!(upstream.text().matches(r#"{"amount":5}"#).count(), 2);
    assert_eq!(state(&proxy, "k"), "COMPLETED");
    assert_eq!(operation(&proxy, "k")["resends"], 1);
}

#[test]
fn wherever_the_connection_breaks_there_is_one_effect() {
    let length = "HTTP/1.1 201 Scripted".len();
    for script in [
        Script::cut_request_after(1),
        Script::cut_request_after(150),
        Script::cut_answer_after(0),
        Script::cut_answer_after(length),
        Script::cut_answer_after(100),
        Script::answer_raw("no HTTP at all\r\n\r\n").then(Ending::Close),
        Script::lose_answer(),
    ] {
        let upstream = Upstream::start(Keys::Honoured);
        let proxy = Proxy::start(Setup::payments(upstream.address()));
        upstream.next(script);
        let paid = pay(&proxy, "k", r#"{"amount":5}"#).send();
        assert_eq!(paid.status, 201, "{}", paid.text());
        assert_replayed(&pay(&proxy, "k", r#"{"amount":5}"#).send(), &paid);
        assert_eq!(upstream.effects().len(), 1);
        assert_same_request(&upstream.heads());
    }
}

#[test]
fn an_ambiguous_answer_reaches_the_caller_as_it_is_while_settling_begins() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    upstream.next(Script::refuse(500, r#"{"code":"E1234"}"#));

    let told = pay(&proxy, "k", r#"{"amount":5}"#).send();

    assert_eq!(
        (told.status, told.text().as_str()),
        (500, r#"{"code":"E1234"}"#)
    );
    assert_eq!(told.field("fencepost-state"), Some("uncertain"));
    assert_eq!(told.field("fencepost-source"), Some("upstream"));
    assert!(
        told.field("location").is_some(),
        "where to look what became of it"
    );
    let again = pay(&proxy, "k", r#"{"amount":5}"#).send();
    assert_eq!((again.status, again.is_replay()), (201, true));
    assert_eq!(upstream.effects().len(), 1);
}

#[test]
fn a_refusal_of_a_repeat_says_nothing_of_the_first_attempt() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    // It happened, and the next two answers would have us believe that it did not.
    upstream.next(Script::lose_answer());
    upstream.next(Script::refuse(400, r#"{"error":"busy parsing"}"#));
    upstream.next(Script::refuse(402, r#"{"error":"no money"}"#));

    let paid = pay(&proxy, "k", r#"{"amount":5}"#).send();

    assert_eq!(
        (paid.status, paid.text().as_str()),
        (201, r#"{"id":"effect-1"}"#)
    );
    assert_eq!((upstream.effects().len(), upstream.heads().len()), (1, 4));
}

#[test]
fn an_answer_that_is_too_slow_is_asked_for_again_under_the_same_key() {
    let upstream = Upstream::start(Keys::Honoured);
    let route = r"
capability: [idempotent]
key: { header: Idempotency-Key, lifetime: 24h, value: derived }
timeouts: { connect: 2s, response: 300ms, dispatch: 5s }
effects:
  - on: POST /payments
    once: { header: Idempotency-Key }
";
    let proxy = Proxy::start(Setup::new(upstream.address(), route));
    let never = Gate::closed();
    upstream.next(Script::hold_answer(&never));
    let paid = pay(&proxy, "k", "{}").send();
    assert_eq!(
        (paid.status, paid.text().as_str()),
        (201, r#"{"id":"effect-1"}"#)
    );
    assert_same_request(&upstream.heads());
    assert_eq!((upstream.effects().len(), upstream.heads().len()), (1, 2));
    never.open();
}

/// B28.
#[test]
fn a_caller_whose_patience_ends_is_told_that_nobody_knows_and_gets_the_answer_later() {
    let upstream = Upstream::start(Keys::Honoured);
    let route = r"
capability: [idempotent]
key: { header: Idempotency-Key, lifetime: 24h, value: derived }
effects:
  - on: POST /payments
    once: { header: Idempotency-Key }
    join: 300ms
";
    let proxy = Proxy::start(Setup::new(upstream.address(), route));
    let resend = Gate::closed();
    upstream.next(Script::lose_answer());
    upstream.next(Script::hold_answer(&resend));
    let call = pay(&proxy, "k", "{}");

    let told = call.send();

    assert_refused(&told, 504, "outcome-uncertain", "same-operation");
    assert!(told.field("retry-after").is_some());
    assert!(told.field("location").is_some());
    resend.open();
    until_state(&proxy, "k", "COMPLETED");
    let again = call.send();
    assert_eq!(
        (again.status, again.text().as_str()),
        (201, r#"{"id":"effect-1"}"#)
    );
    assert!(again.is_replay());
    assert_eq!((upstream.effects().len(), upstream.heads().len()), (1, 2));
}

#[test]
fn the_key_is_the_same_on_another_register_and_another_for_another_operation() {
    // Should the register be lost, the provider's own memory still protects.
    let upstream = Upstream::start(Keys::Honoured);
    for _ in 0..2 {
        let proxy = Proxy::start(Setup::payments(upstream.address()));
        assert_eq!(pay(&proxy, "k", "{}").send().status, 201);
    }
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    assert_eq!(pay(&proxy, "l", "{}").send().status, 201);
    let heads = upstream.heads();
    assert_eq!(key(&heads[0]), key(&heads[1]));
    assert_ne!(key(&heads[0]), key(&heads[2]));
    assert_ne!(key(&heads[0]), "k", "derived, not the caller's");
    assert_eq!(upstream.effects().len(), 2);
}

/// An upstream that orders by itself; two resends.
const ORDERING: &str = r#"
capability: [conditional]
timeouts: { connect: 2s, response: 300ms, dispatch: 5s }
effects:
  - on: PUT /statements/{date}
    once: "publish:{path.date}:{token.generation}"
    settle: [ { send_again: { attempts: 2, backoff: { from: 10ms, to: 10ms } } } ]
    fence:
      resource: "statement:{path.date}"
      token: { header: Fencing-Token, mode: require }
"#;

/// Contract §5: the same condition is sent again (2xx: applied, 412: nobody knows). Judged per request: without one
/// nothing is.
#[test]
fn a_condition_is_sent_again_where_there_is_one() {
    let id = "publish:2026-09-13:107";
    let only_new = |proxy: &Proxy| publish(proxy, "107", "{}").field("if-none-match", "*");

    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), ORDERING));
    // It never arrives whole.
    upstream.next(Script::cut_request_after(60));
    let told = only_new(&proxy).send();
    assert_eq!(told.status, 201, "{}", told.text());
    let heads = upstream.heads();
    assert_eq!(heads.len(), 1, "once whole");
    assert_eq!(heads[0].fields.first("if-none-match"), Some("*"));
    assert_eq!(heads[0].fields.first("idempotency-key"), None);

    // It arrived, and its own effect is what the condition meets.
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), ORDERING));
    upstream.next(Script::lose_answer());
    (0..2).for_each(|_| upstream.next(Script::refuse(412, "{}")));
    only_new(&proxy).send();
    until_state(&proxy, id, "NEEDS_ATTENTION");
    assert_eq!((upstream.heads().len(), upstream.effects().len()), (3, 1));

    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), ORDERING));
    upstream.next(Script::lose_answer());
    publish(&proxy, "107", "{}").send();
    until_state(&proxy, id, "NEEDS_ATTENTION");
    assert_eq!(upstream.heads().len(), 1);
}
