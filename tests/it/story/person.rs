//! An upstream that can neither deduplicate nor be asked: a person finds out.
//!
//! What always holds: at most one attempt; the uncertainty is said, never guessed away; what the
//! person says is what every caller gets from then on.

use super::*;
use crate::support::gate::Gate;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

/// Half a second for an answer.
const SLOW: &str = r"
capability: [opaque]
timeouts: { connect: 2s, response: 300ms, dispatch: 5s }
effects:
  - on: POST /payments
    once: { header: Idempotency-Key }
";

/// What an operator says over the API.
fn resolve(proxy: &Proxy, id: &str, said: &str) -> Answer {
    let path = format!("/v1/operations/provider/{}/resolve", in_path(id));
    proxy.admin("POST", &path).json(said).send()
}

/// A payment whose answer was lost, at an upstream that cannot tell.
fn lost(upstream: &Upstream, proxy: &Proxy) -> Call {
    upstream.next(Script::lose_answer());
    let call = pay(proxy, "k", r#"{"amount":5}"#);
    let told = call.send();
    assert_refused(&told, 504, "outcome-uncertain", "same-operation");
    until_state(proxy, "k", "NEEDS_ATTENTION");
    call
}

#[test]
fn a_lost_answer_is_said_to_be_uncertain_and_never_sent_again() {
    let upstream = Upstream::start(Keys::Ignored);
    let mut proxy = Proxy::start(Setup::opaque(upstream.address()));
    let call = lost(&upstream, &proxy);
    assert_refused(&call.send(), 409, "needs-attention", "after-settlement");
    // Nor does another process know better.
    proxy.kill();
    proxy.start_again();
    assert_refused(&call.send(), 409, "needs-attention", "after-settlement");
    assert_eq!(state(&proxy, "k"), "NEEDS_ATTENTION");
    assert_eq!((upstream.heads().len(), upstream.effects().len()), (1, 1));
}

#[test]
fn an_operator_says_that_it_was_applied_and_callers_get_what_he_said() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::opaque(upstream.address()));
    let call = lost(&upstream, &proxy);
    let said = r#"{"verdict":"applied","reason":"seen in the provider's books","status":201,"body":{"id":"effect-1"}}"#;

    assert_eq!(resolve(&proxy, "k", said).status, 200);

    let told = call.send();
    assert_eq!(
        (told.status, told.json()["id"].as_str()),
        (201, Some("effect-1"))
    );
    assert!(told.is_replay());
    let recorded = operation(&proxy, "k");
    assert_eq!(recorded["outcome"]["provenance"], "operator");
    let events = recorded["events"].to_string();
    assert!(
        events.contains("carol") && events.contains("books"),
        "{events}"
    );
    // Ended is ended.
    for verdict in ["applied", "not_applied"] {
        let said = format!(r#"{{"verdict":"{verdict}","reason":"second thoughts"}}"#);
        assert_eq!(resolve(&proxy, "k", &said).status, 409);
    }
    assert_eq!(call.send().body, told.body);
    assert_eq!(upstream.heads().len(), 1);
}

#[test]
fn an_operator_says_that_it_was_not_applied_and_the_operation_may_be_sent_once_more() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::opaque(upstream.address()));
    upstream.next(Script::cut_request_after(60));
    let call = pay(&proxy, "k", r#"{"amount":5}"#);
    assert_refused(&call.send(), 504, "outcome-uncertain", "same-operation");
    until_state(&proxy, "k", "NEEDS_ATTENTION");
    let said = r#"{"verdict":"not_applied","reason":"not in the provider's books"}"#;
    assert_eq!(resolve(&proxy, "k", said).status, 200);
    assert_eq!(state(&proxy, "k"), "NOT_APPLIED");
    // Saying it twice is refused: the second one may come too late.
    assert_eq!(resolve(&proxy, "k", said).status, 409);

    let paid = call.send();

    assert_eq!((paid.status, paid.is_replay()), (201, false));
    assert_eq!(upstream.effects().len(), 1);
}

#[test]
fn an_operator_resolves_on_the_command_line() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::opaque(upstream.address()));
    let call = lost(&upstream, &proxy);
    let listed = proxy.command(&["operations", "list", "--state", "needs-attention", "--json"]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(text.contains("\"k\""), "{text}");

    let body = r#"{"id":"effect-1"}"#;
    let said = proxy.command(&[
        "operations",
        "resolve",
        "provider",
        "k",
        "--verdict",
        "applied",
        "--reason",
        "seen in the provider's books",
        "--status",
        "201",
        "--body",
        body,
    ]);

    let words = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{words}");
    let told = call.send();
    assert_eq!((told.status, told.text().as_str()), (201, body));
    // Refused commands say so in their exit code.
    let again = [
        "operations",
        "resolve",
        "provider",
        "k",
        "--verdict",
        "applied",
        "--reason",
        "x",
    ];
    assert_eq!(proxy.command(&again).status.code(), Some(1));
}

/// A08, A18: the limit is shorter than the work, and nobody can deduplicate.
#[test]
fn a_late_answer_completes_what_was_uncertain() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), SLOW));
    let answer = Gate::closed();
    upstream.next(Script::hold_answer(&answer));
    let call = pay(&proxy, "k", "{}");

    assert_refused(&call.send(), 504, "outcome-uncertain", "same-operation");
    assert_eq!(state(&proxy, "k"), "UNCERTAIN");
    answer.open();
    until_state(&proxy, "k", "COMPLETED");

    let told = call.send();
    assert_eq!(
        (told.status, told.text().as_str()),
        (201, r#"{"id":"effect-1"}"#)
    );
    assert_eq!(operation(&proxy, "k")["outcome"]["provenance"], "answer");
    assert_eq!(upstream.heads().len(), 1);
}

#[test]
fn whoever_waits_for_an_uncertain_operation_gets_what_the_operator_says() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), SLOW));
    let answer = Gate::closed();
    upstream.next(Script::hold_answer(&answer));
    let call = pay(&proxy, "k", "{}");
    assert_refused(&call.send(), 504, "outcome-uncertain", "same-operation");

    let waiting = call.start();
    let said = r#"{"verdict":"applied","reason":"phoned them","status":201,"body":{"by":"phone"}}"#;
    assert_eq!(resolve(&proxy, "k", said).status, 200);

    let told = waiting.answer();
    assert_eq!(
        (told.status, told.json()["by"].as_str()),
        (201, Some("phone"))
    );
    // What the upstream says afterwards agrees, and changes nothing.
    answer.open();
    assert_eq!(call.send().body, told.body);
}
