//! A register whose file somebody else holds: a tool that an operator runs on it, for example.
//!
//! What always holds: nobody is kept waiting for longer than `record_timeout`, and nobody is told more
//! than is recorded; what cannot be written yet is written once the file is free.

use rusqlite::Connection;

use super::*;
use crate::support::gate::Gate;
use crate::support::script::Script;

/// Answers of more than 1 KiB are not kept.
const ROUTE: &str = "capability: [opaque]\neffects:\n  - on: POST /payments\n    \
                     once: { header: Idempotency-Key }\n    limits: { answer: 1KiB }\n";

fn hold(proxy: &Proxy) -> Connection {
    let holder = Connection::open(proxy.register().join("register.db")).unwrap();
    holder
        .busy_timeout(std::time::Duration::from_secs(20))
        .unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    holder
}

#[test]
fn an_answer_whose_record_takes_too_long_is_told_marked_and_recorded_in_the_end() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), ROUTE));
    let answer = Gate::closed();
    upstream.next(Script::hold_answer(&answer));
    let waiting = pay(&proxy, "k").start();
    answer.until_reached();
    let holder = hold(&proxy);

    answer.open();
    let told = waiting.answer();

    assert_eq!((told.status, &*told.text()), EFFECT_1);
    assert_eq!(told.field("fencepost-state"), Some("uncertain"));
    assert_eq!(
        told.field("location"),
        Some("/v1/operations/provider/k?principal=none&incarnation=0")
    );
    assert_eq!(operation(&proxy, "k")["state"], "INTENDED");
    holder.execute_batch("ROLLBACK").unwrap();
    until_state(&proxy, "k", "COMPLETED");
    let again = pay(&proxy, "k").send();
    assert_effect_1(&again);
    assert!(again.is_replay());
    assert_eq!(upstream.heads().len(), 1);
}

/// Its head has gone out by then and can no longer be marked: it ends incomplete.
#[test]
fn an_answer_too_large_to_keep_whose_record_takes_too_long_never_looks_whole() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), ROUTE));
    let answer = Gate::closed();
    let much = crate::support::script::json_answer(201, &"x".repeat(100_000));
    upstream.next(Script::answer_raw(much).held_at(&answer));
    let waiting = pay(&proxy, "k").start();
    answer.until_reached();
    let holder = hold(&proxy);

    answer.open();
    waiting.until_answered();
    let told = waiting.try_answer();

    assert!(told.is_err(), "it looks whole, and nothing is recorded");
    assert_eq!(operation(&proxy, "k")["state"], "INTENDED");
    holder.execute_batch("ROLLBACK").unwrap();
    until_state(&proxy, "k", "COMPLETED");
    let again = pay(&proxy, "k").send();
    assert_eq!((again.status, again.is_replay()), (201, true));
    assert_eq!(again.field("fencepost-body"), Some("not-kept"));
    assert_eq!(upstream.heads().len(), 1);
}
