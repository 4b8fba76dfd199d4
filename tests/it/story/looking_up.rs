//! Nobody knows whether it happened, and the upstream can be asked: it is found out, by questions without
//! effect.
//!
//! What always holds: an effect is never sent again on the word of a question that came too early, or once; a
//! question that cannot be understood is *not known*; who waits gets what was found.

use super::*;
use crate::support::http::Head;
use crate::support::script::{Script, json_answer};
use crate::support::setup::Setup;
use crate::support::upstream::{Effect, Keys};

/// An API without keys that lists what it has done.
const LISTING: &str = r#"
capability: [query]
timeouts: { connect: 2s, response: 300ms, dispatch: 5s }
effects:
  - on: POST /payments
    once: { header: Idempotency-Key }
    settle:
      - look_up:
          get: "/payments?reference={body.reference}"
          applied: "response.status == 200 && response.body.items.exists(i, i.reference == body.reference)"
          not_applied: "response.status == 200 && size(response.body.items) == 0"
          lag: 1s
          samples: 3
          every: { from: 100ms, to: 200ms }
          within: 20s
          outcome: { status: 201, body: "response.body.items[0]" }
"#;

const PAYMENT: &str = r#"{"amount":5,"reference":"order 42/é"}"#;

/// What an API lists of the payments that were made with a reference.
fn listing(effects: &[Effect], head: &Head, _: &str) -> Vec<u8> {
    let reference = "reference=order%2042%2F%C3%A9";
    assert!(head.word(1).contains(reference), "{}", head.first_line);
    let items: Vec<String> = effects
        .iter()
        .enumerate()
        .map(|(index, _)| {
            format!(
                r#"{{"id":"effect-{}","reference":"order 42/é"}}"#,
                index + 1
            )
        })
        .collect();
    json_answer(200, &format!(r#"{{"items":[{}]}}"#, items.join(",")))
}

fn events(proxy: &Proxy, id: &str) -> String {
    operation(proxy, id)["events"].to_string()
}

#[test]
fn a_lost_answer_is_found_where_the_upstream_lists_what_it_did() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), LISTING));
    upstream.when_asked(listing);
    upstream.next(Script::lose_answer());

    let paid = pay(&proxy, "k", PAYMENT)
        .field("authorization", "Bearer s3cret")
        .send();

    let found = r#"{"id":"effect-1","reference":"order 42/é"}"#;
    assert_eq!(
        (paid.status, paid.text().as_str()),
        (201, found),
        "{}",
        proxy.log()
    );
    assert_eq!(paid.field("fencepost-provenance"), Some("look-up"));
    assert_eq!(upstream.effects().len(), 1, "never sent again");
    // It asked as the one who had paid, and nothing of the payment went along.
    let question = upstream.heads().pop().unwrap();
    assert_eq!(
        question.fields.first("authorization"),
        Some("Bearer s3cret")
    );
    assert_eq!(question.fields.first("idempotency-key"), None);
    assert_eq!(question.fields.first("content-length"), None);
    let again = pay(&proxy, "k", PAYMENT)
        .field("authorization", "Bearer s3cret")
        .send();
    assert_replayed(&again, &paid);
}

/// A06, F12: "not found" within the lag is not "not applied"; after it, several of them are.
#[test]
fn what_is_not_found_is_sent_again_only_after_the_lag_and_several_looks() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), LISTING));
    upstream.when_asked(listing);
    // It never arrives whole.
    upstream.next(Script::cut_request_after(60));
    pay(&proxy, "k", PAYMENT).send();
    until_state(&proxy, "k", "NOT_APPLIED");
    let asked = upstream.heads().len() - 1;
    assert!(
        asked > 3,
        "the first of {asked} came before the lag was over"
    );
    assert!(
        events(&proxy, "k").contains("look_up"),
        "{}",
        events(&proxy, "k")
    );

    let paid = pay(&proxy, "k", PAYMENT).send();
    assert_eq!(paid.status, 201, "{}", paid.text());
    assert_eq!(upstream.effects().len(), 1);
}

/// The search lags: what was done shows up late, but within the lag that was declared.
#[test]
fn what_shows_up_late_is_not_taken_for_not_done() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), LISTING));
    let looks = std::sync::atomic::AtomicUsize::new(0);
    upstream.when_asked(move |effects, head, body| {
        match looks.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0..=3 => json_answer(200, r#"{"items":[]}"#),
            _ => listing(effects, head, body),
        }
    });
    upstream.next(Script::lose_answer());
    let paid = pay(&proxy, "k", PAYMENT).send();
    assert_eq!(paid.status, 201, "{}", paid.text());
    assert_eq!(upstream.effects().len(), 1);
}

/// Each of these is *not known*, says why, and ends with a person when its time is up.
#[test]
fn an_answer_that_says_nothing_is_not_known_and_says_why() {
    let impatient = LISTING
        .replace("lag: 1s", "lag: 300ms")
        .replace("within: 20s", "within: 2s");
    let html = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>";
    let large = format!(r#"{{"items":[],"padding":"{}"}}"#, "x".repeat(2 << 20));
    let redirect = "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n";
    for (answer, why) in [
        (html.as_bytes().to_vec(), "not what the conditions read"),
        (json_answer(200, r#"{"items":7}"#), "could not be computed"),
        (json_answer(500, r#"{"items":[]}"#), "500"),
        (json_answer(401, "{}"), "credential"),
        (json_answer(200, &large), "larger"),
        (redirect.as_bytes().to_vec(), "was redirected"),
        (b"no HTTP at all\r\n\r\n".to_vec(), "no complete answer"),
    ] {
        let upstream = Upstream::start(Keys::Ignored);
        let proxy = Proxy::start(Setup::new(upstream.address(), &impatient));
        upstream.when_asked(move |_, _, _| answer.clone());
        upstream.next(Script::lose_answer());
        let told = pay(&proxy, "k", PAYMENT).send();
        assert!(matches!(told.status, 504 | 409), "{why}: {}", told.text());
        until_state(&proxy, "k", "NEEDS_ATTENTION");
        let log = events(&proxy, "k");
        assert!(log.contains(why), "{why}: {log}");
        assert_eq!(log.matches(why).count(), 1, "told once: {log}");
        assert_eq!(upstream.effects().len(), 1);
    }
}

/// A list without an end is read to a bound.
#[test]
fn endless_pages_are_not_known() {
    let paged = LISTING.replace(
        "          lag: 1s",
        "          pages: { parameter: after, next: response.body.next, most: 4 }\n          lag: 300ms",
    );
    let paged = paged.replace("within: 20s", "within: 2s");
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), &paged));
    let pages = std::sync::atomic::AtomicUsize::new(0);
    upstream.when_asked(move |_, _, _| {
        let next = pages.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        json_answer(200, &format!(r#"{{"items":[],"next":"p {next}"}}"#))
    });
    upstream.next(Script::lose_answer());
    pay(&proxy, "k", PAYMENT).send();
    until_state(&proxy, "k", "NEEDS_ATTENTION");
    assert!(
        events(&proxy, "k").contains("pages"),
        "{}",
        events(&proxy, "k")
    );
    let heads = upstream.heads();
    assert!(
        heads[2].word(1).ends_with("&after=p%200"),
        "{}",
        heads[2].first_line
    );
}

/// On the second page.
#[test]
fn what_is_on_a_later_page_is_found() {
    let paged = LISTING.replace(
        "          lag: 1s",
        "          pages: { parameter: after, next: response.body.next }\n          lag: 1s",
    );
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), &paged));
    upstream.when_asked(|effects, head, body| {
        if head.word(1).contains("after=") {
            listing(effects, head, body)
        } else {
            json_answer(200, r#"{"items":[],"next":"second"}"#)
        }
    });
    upstream.next(Script::lose_answer());
    let paid = pay(&proxy, "k", PAYMENT).send();
    assert_eq!(paid.status, 201, "{}", paid.text());
    assert_eq!(upstream.effects().len(), 1);
}

/// The stored credential has expired: the config's own stands in.
#[test]
fn a_credential_that_has_expired_is_stood_in_for() {
    let standing_in = LISTING.replace(
        "          lag: 1s",
        "          credential: { value: \"Bearer lasting\" }\n          lag: 1s",
    );
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), &standing_in));
    upstream.when_asked(
        |effects, head, body| match head.fields.first("authorization") {
            Some("Bearer lasting") => listing(effects, head, body),
            _ => json_answer(401, "{}"),
        },
    );
    upstream.next(Script::lose_answer());
    let short = pay(&proxy, "k", PAYMENT).field("authorization", "Bearer short");
    assert_eq!(short.send().status, 201);
    assert_eq!(upstream.effects().len(), 1);
}

/// Square-style: an effect that says so is undone by its key where nobody knows.
#[test]
fn an_uncertain_effect_is_undone_where_its_rules_say_so() {
    let route = r#"
capability: [idempotent]
key: { header: Idempotency-Key, lifetime: 24h, value: caller }
timeouts: { connect: 2s, response: 300ms, dispatch: 5s }
effects:
  - on: POST /payments
    once: { header: Idempotency-Key }
    settle:
      - void:
          post: /void
          json: { key: "{operation.key}" }
          done: "response.status == 200"
          lag: 300ms
          every: { from: 100ms, to: 100ms }
"#;
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::new(upstream.address(), route));
    upstream.when_asked(|_, head, body| {
        assert_eq!((head.word(0), body), ("POST", r#"{"key":"k"}"#));
        json_answer(200, "{}")
    });
    upstream.next(Script::lose_answer());
    let told = pay(&proxy, "k", "{}").send();
    assert_eq!(told.status, 409, "{}", told.text());
    assert_eq!(
        told.json()["type"],
        "urn:fencepost:problem:operation-voided"
    );
    assert_replayed(&pay(&proxy, "k", "{}").send(), &told);
    assert_eq!(
        upstream.effects().len(),
        1,
        "nothing was sent again under it"
    );
    assert_eq!(state(&proxy, "k"), "COMPLETED");
}

/// What is there now is what was sent: it was applied. That nothing is there proves something only where nobody
/// removes anything: else it may have been there, and be gone again.
#[test]
fn a_conditional_upstream_is_compared_with() {
    let route = r#"
capability: [conditional]
timeouts: { connect: 2s, response: 300ms, dispatch: 5s }
effects:
  - on: PUT /objects/{name}
    once: "put:{path.name}"
    settle:
      - compare: { lag: 300ms, samples: 2, every: { from: 100ms, to: 100ms }, within: 3s, never_reverts: NEVER }
"#;
    for (there, never, status, effects) in [
        (json_answer(200, r#"{ "a": 1 }"#), "false", 200, 1),
        (json_answer(404, "{}"), "true", 201, 2),
        (json_answer(404, "{}"), "false", 409, 1),
    ] {
        let upstream = Upstream::start(Keys::Ignored);
        let route = route.replace("NEVER", never);
        let proxy = Proxy::start(Setup::new(upstream.address(), &route));
        upstream.when_asked(move |_, head, _| {
            assert_eq!(head.word(1), "/objects/x");
            there.clone()
        });
        upstream.next(Script::lose_answer());
        let put = proxy
            .put("/objects/x")
            .field("if-none-match", "*")
            .json(r#"{"a":1}"#);
        let mut told = put.send();
        if status != 200 {
            let ends = if status == 201 {
                "NOT_APPLIED"
            } else {
                "NEEDS_ATTENTION"
            };
            until_state(&proxy, "put:x", ends);
            told = put.send();
        }
        assert_eq!(told.status, status, "{}", told.text());
        assert_eq!(upstream.effects().len(), effects);
    }
}
