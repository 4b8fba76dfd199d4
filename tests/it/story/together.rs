//! The same request, many times at once.
//!
//! What always holds: the claim is the first durable write; one head goes out, everybody gets its
//! answer, and nobody gets a 5xx for having lost a race.

use std::thread;

use super::*;
use crate::support::gate::Gate;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

/// A05 (the same key twice at once), B17, B18.
#[test]
fn two_identical_requests_at_once_are_one() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let answer = Gate::closed();
    upstream.next(Script::hold_answer(&answer));
    let call = pay(&proxy, "k", r#"{"amount":5}"#);
    let (one, other) = (call.start(), call.start());
    answer.until_reached();
    // A third one, to be sure that a repeat of a request in flight waits rather than acts.
    let late = call.start();
    answer.open();

    let answers = [one.answer(), other.answer(), late.answer()];

    for answer in &answers {
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (201, r#"{"id":"effect-1"}"#)
        );
    }
    assert_eq!(upstream.heads().len(), 1);
}

/// B17.
#[test]
fn a_repeat_that_hangs_up_while_it_waits_changes_nothing_for_the_first() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let answer = Gate::closed();
    upstream.next(Script::hold_answer(&answer));
    let call = pay(&proxy, "k", "{}");
    let first = call.start();
    answer.until_reached();
    call.start().hang_up_and_be_missed();
    answer.open();
    assert_eq!(first.answer().status, 201);
    assert_eq!(upstream.heads().len(), 1);
}

/// B17, B28.
#[test]
fn a_repeat_whose_patience_ends_is_told_that_the_first_is_in_flight() {
    let upstream = Upstream::start(Keys::Ignored);
    let route = r"
capability: [idempotent]
key: { header: Idempotency-Key, lifetime: 24h, value: derived }
effects:
  - on: POST /payments
    once: { header: Idempotency-Key }
    join: 300ms
";
    let proxy = Proxy::start(Setup::new(upstream.address(), route));
    let answer = Gate::closed();
    upstream.next(Script::hold_answer(&answer));
    let call = pay(&proxy, "k", "{}");
    let first = call.start();
    answer.until_reached();

    let told = call.send();

    assert_refused(&told, 409, "operation-in-flight", "same-operation");
    assert!(told.field("retry-after").is_some());
    answer.open();
    assert_replayed(&call.send(), &first.answer());
    assert_eq!(upstream.heads().len(), 1);
}

/// B16.
#[test]
fn sixty_four_at_once_under_each_of_ten_keys_make_ten_effects() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    for number in 1..=10 {
        let call = pay(&proxy, &format!("key-{number}"), r#"{"amount":5}"#);
        let answers: Vec<_> = thread::scope(|scope| {
            let all: Vec<_> = (0..64).map(|_| scope.spawn(|| call.send())).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        for answer in answers {
            let expected = format!(r#"{{"id":"effect-{number}"}}"#);
            assert_eq!((answer.status, answer.text()), (201, expected));
        }
        assert_eq!(upstream.heads().len(), number);
    }
}
