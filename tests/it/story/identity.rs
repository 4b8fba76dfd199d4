//! Who asks for which operation: keys as they are found in the wild, accounts, and requests without
//! any key.
//!
//! What always holds: nobody is answered with what another account was told.

use super::*;
use crate::support::gate::Gate;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

/// Scenario 7, B09.
#[test]
fn two_accounts_behind_one_key_never_share_an_answer() {
    let upstream = Upstream::start(Keys::Honoured);
    let route = r"
capability: [idempotent]
key: { header: Idempotency-Key, lifetime: 24h, value: derived }
principal: [ { header: X-Account } ]
effects: [ { on: POST /payments } ]
";
    let proxy = Proxy::start(Setup::new(upstream.address(), route));
    let from = |account: &str, credential: Option<&str>| {
        let call = pay(&proxy, "k", r#"{"amount":5}"#).field("X-Account", account);
        match credential {
            Some(credential) => call.field("Authorization", credential).send(),
            None => call.send(),
        }
    };
    let (a, b) = (from("A", Some("Bearer a1")), from("B", Some("Bearer b1")));
    assert_eq!((a.status, b.status), (201, 201));
    assert_ne!(a.body, b.body);
    assert_eq!(upstream.heads().len(), 2);
    let keys: Vec<_> = upstream.effects().into_iter().map(|it| it.key).collect();
    assert_ne!(keys[0], keys[1], "nor do they share a key at the upstream");

    assert_replayed(&from("A", Some("Bearer a2")), &a);
    assert_replayed(&from("B", Some("Bearer b2")), &b);
    assert_refused(&from("A", None), 403, "credential-required", "never");
    assert_refused(&from("A", Some("")), 403, "credential-required", "never");
    assert_eq!(upstream.heads().len(), 2);
    assert!(!proxy.log().contains("Bearer"));
}

/// B22: bare and quoted are one key; what cannot be read is refused alike and never logged.
#[test]
fn keys_as_they_are_found_in_the_wild() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let first = pay(&proxy, "abc-1", "{}").send();
    assert_eq!(first.status, 201);
    assert_replayed(&pay(&proxy, "\"abc-1\"", "{}").send(), &first);
    assert_replayed(&pay(&proxy, "  abc-1\t", "{}").send(), &first);
    assert_eq!(
        pay(&proxy, "ABC-1", "{}").send().status,
        201,
        "bytes, not letters"
    );
    let long = "s".repeat(256);
    let longest = "l".repeat(255);
    assert_eq!(pay(&proxy, &longest, "{}").send().status, 201);
    let heads = upstream.heads().len();
    for key in [
        "",
        "\"\"",
        "   ",
        long.as_str(),
        "abc-1, abc-1",
        "\"abc-1\", \"abc-1\"",
        "\"abc-1\"; q=1",
        "secret key",
        "secret\tkey",
        "sécret",
        "\"secret",
        "\"sec\\ret\"",
        ":c2VjcmV0: ?",
    ] {
        let told = pay(&proxy, key, "{}").send();
        assert_refused(&told, 400, "idempotency-key-malformed", "never");
        assert!(!told.text().contains("secret"), "{}", told.text());
    }
    let twice = pay(&proxy, "abc-1", "{}").key("abc-1").send();
    assert_refused(&twice, 400, "idempotency-key-malformed", "never");
    assert_eq!(upstream.heads().len(), heads);
    assert!(!proxy.log().contains("secret") && !proxy.log().contains(&long));
}

/// Callers of an upstream that has a header of its own for keys use that one.
#[test]
fn other_headers_carry_keys_too() {
    for header in [
        "PayPal-Request-Id",
        "X-Idempotency-Key",
        "Idempotency-Token",
    ] {
        let upstream = Upstream::start(Keys::Ignored);
        let route = format!(
            "capability: [idempotent]\nkey: {{ header: {header}, lifetime: 6h }}\n\
             effects: [ {{ on: POST /capture }} ]\n"
        );
        let proxy = Proxy::start(Setup::new(upstream.address(), &route));
        let capture = |key: &str| proxy.post("/capture").field(header, key).json("{}").send();
        let first = capture("c-1");
        assert_eq!(first.field("fencepost-operation"), Some("c-1"));
        assert_replayed(&capture("\"c-1\""), &first);
        assert_eq!(capture("c-2").status, 201);
        let other = proxy.post("/capture").key("c-1").json("{}").send();
        assert_refused(&other, 400, "idempotency-key-required", "never");
        let heads = upstream.heads();
        assert_eq!(heads.len(), 2);
        // Derived from the identity, and never the caller's own beside it.
        let sent = |head: &crate::support::http::Head| {
            let all = head.fields.0.iter();
            all.filter(|(name, _)| name.eq_ignore_ascii_case(header))
                .map(|(_, value)| value.clone())
                .collect::<Vec<_>>()
        };
        assert!(
            heads
                .iter()
                .all(|head| sent(head).len() == 1 && sent(head)[0].len() == 36)
        );
    }
}

/// Middleware that repeats a request without a key does so while nobody knows.
#[test]
fn an_equal_request_without_a_key_joins_the_one_in_flight_and_says_so() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let pay = |body: &str| proxy.post("/payments").json(body);
    let gate = Gate::closed();
    upstream.next(Script::hold_answer(&gate));
    let first = pay(r#"{"amount":5}"#).start();
    gate.until_reached();
    let retry = pay(r#"{ "amount":5 }"#).start();
    let other = pay(r#"{"amount":6}"#).send();
    assert_eq!(other.status, 201);
    assert_eq!(other.field("fencepost-joined"), None);
    until("the retry has joined", || {
        let list = proxy.read("/v1/operations?state=INTENDED");
        let held = list["operations"][0]["id"].as_str().unwrap().to_owned();
        let told = operation(&proxy, &held).to_string();
        told.contains("joined by an equal request without a key")
    });
    gate.open();
    let (first, retry) = (first.answer(), retry.answer());
    assert_eq!(first.field("fencepost-joined"), None);
    assert_eq!(retry.field("fencepost-joined"), Some("blind-retry"));
    assert_eq!((retry.status, &retry.body), (first.status, &first.body));
    assert_eq!(
        retry.field("fencepost-operation"),
        first.field("fencepost-operation")
    );
    assert_eq!(upstream.effects().len(), 2);
    // It has ended: the next equal one is another payment.
    assert_eq!(pay(r#"{"amount":5}"#).send().status, 201);
    assert_eq!(upstream.effects().len(), 3);
}
