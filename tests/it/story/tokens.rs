//! Fencing tokens at the edge: their one text form, what a generation may do, who holds it.
//!
//! What always holds: a token that cannot be judged lets nothing through, and nothing is sent.

use super::*;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

fn one_per_generation(upstream: &Upstream, rule: &str) -> Proxy {
    let route = format!(
        r#"
capability: [idempotent]
key: {{ header: Idempotency-Key, lifetime: 24h, value: derived }}
effects:
  - on: POST /accounts/{{account}}/payments
    once: {{ header: Idempotency-Key }}
    fence:
      resource: "account:{{path.account}}"
      token: {{ header: Fencing-Token, mode: require }}
      {rule}
"#
    );
    Proxy::start(Setup::new(upstream.address(), &route))
}

/// C24.
#[test]
fn a_token_has_one_text_form() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let wrong = [
        "+5",
        "-5",
        "05",
        "0:5",
        "5.0",
        "9.007e15",
        "9223372036854775808",
        "1:",
        ":1",
        "1:2:3",
        "0x5",
        "abc",
        "5, 6",
    ];
    for text in wrong {
        let told = publish(&proxy, text, "{}").send();
        assert_refused(&told, 400, "fencing-token-malformed", "never");
    }
    let twice = publish(&proxy, "5", "{}").token("6").send();
    assert_refused(&twice, 400, "fencing-token-malformed", "never");
    assert_eq!(upstream.heads().len(), 0);
    assert_eq!(mark(&proxy, RESOURCE), None);
    // The largest one there is.
    assert_eq!(
        publish(&proxy, "9223372036854775807", "{}").send().status,
        201
    );
    let alice = publish(&proxy, "9223372036854775806", "{}").send();
    assert_refused(&alice, 412, "stale-fencing-token", "never");
}

/// C24: one more than a double can count to, through every door that shows a token.
#[test]
fn a_token_keeps_its_last_digit() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let large = "9007199254740993";
    assert_eq!(publish(&proxy, large, "{}").send().status, 201);
    let resource = proxy.read(&format!("/v1/resources/{}", in_path(RESOURCE)));
    assert_eq!(
        resource["token"], large,
        "text, since readers parse doubles"
    );
    let id = format!("publish:2026-09-13:{large}");
    let shown = operation(&proxy, &id).to_string();
    assert!(shown.contains(&format!("\"{large}\"")), "{shown}");
    let listed = proxy.command(&["resources", "list"]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains(large));
    let again = publish(&proxy, resource["token"].as_str().unwrap(), "{}").send();
    assert!(again.is_replay());
    let one_less = publish(&proxy, "9007199254740992", "{}").send();
    assert_refused(&one_less, 412, "stale-fencing-token", "never");
}

/// C20.
#[test]
fn a_missing_token_is_asked_for() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let told = proxy
        .post("/accounts/42/payments")
        .key("k")
        .json("{}")
        .send();
    assert_refused(&told, 428, "fencing-token-required", "never");
    assert_eq!(upstream.heads().len(), 0);
}

#[test]
fn a_token_of_an_epoch_that_has_not_begun_is_unknown() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let told = publish(&proxy, "1:5", "{}").send();
    assert_refused(&told, 412, "fencing-token-unknown", "after-settlement");
    assert_eq!(publish(&proxy, "5", "{}").send().status, 201);
    assert_eq!(upstream.heads().len(), 1);
}

#[test]
fn a_wild_token_does_not_brick_a_resource_with_a_largest_step() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = one_per_generation(&upstream, "max_step: 1000");
    assert_eq!(
        pay_from(&proxy, "42", "500000", "a").send().status,
        201,
        "the first one is free"
    );
    let wild = pay_from(&proxy, "42", "501001", "b").send();
    assert_refused(&wild, 412, "fencing-token-unknown", "after-settlement");
    assert_eq!(pay_from(&proxy, "42", "501000", "b").send().status, 201);
}

#[test]
fn a_token_belongs_to_the_acquisition_first_named_with_it() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let by = |acquisition: &str, key: &str| {
        pay_from(&proxy, "42", "107", key)
            .field("Fencing-Acquisition", acquisition)
            .send()
    };
    assert_eq!(
        pay_from(&proxy, "42", "107", "a").send().status,
        201,
        "nobody is named yet"
    );
    assert_eq!(by("alice-1", "b").status, 201);
    assert_refused(&by("bob-1", "c"), 412, "token-held-by-another", "never");
    let unnamed = pay_from(&proxy, "42", "107", "c").send();
    assert_refused(&unnamed, 412, "token-held-by-another", "never");
    assert_eq!(by("alice-1", "c").status, 201);
    let next = pay_from(&proxy, "42", "108", "d")
        .field("Fencing-Acquisition", "bob-1")
        .send();
    assert_eq!(next.status, 201);
    assert_eq!(upstream.heads().len(), 4);
}

#[test]
fn one_operation_per_generation_is_the_first_one_admitted() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = one_per_generation(&upstream, "per_generation: one");
    let first = pay_from(&proxy, "42", "107", "a").send();
    let other = pay_from(&proxy, "42", "107", "b").send();
    assert_refused(&other, 412, "generation-used", "never");
    assert_replayed(&pay_from(&proxy, "42", "107", "a").send(), &first);
    assert_eq!(pay_from(&proxy, "42", "108", "b").send().status, 201);
    assert_eq!(upstream.heads().len(), 2);
}

#[test]
fn numbered_operations_only_go_up() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = one_per_generation(&upstream, "per_generation: numbered");
    let numbered = |token: &str, number: &str, key: &str| {
        pay_from(&proxy, "42", token, key)
            .field("Fencing-Sequence", number)
            .send()
    };
    assert_eq!(numbered("107", "5", "a").status, 201);
    assert_refused(
        &numbered("107", "5", "b"),
        412,
        "sequence-regressed",
        "never",
    );
    assert_refused(
        &numbered("107", "4", "b"),
        412,
        "sequence-regressed",
        "never",
    );
    let unnumbered = pay_from(&proxy, "42", "107", "b").send();
    assert_refused(&unnumbered, 412, "sequence-regressed", "never");
    assert!(numbered("107", "5", "a").is_replay());
    assert_eq!(numbered("107", "6", "b").status, 201);
    assert_eq!(
        numbered("108", "1", "c").status,
        201,
        "each generation counts for itself"
    );
    assert_refused(
        &numbered("107", "7", "d"),
        412,
        "stale-fencing-token",
        "never",
    );
    let sloppy = numbered("108", "+2", "d");
    assert_eq!(sloppy.status, 400, "{}", sloppy.text());
    assert_eq!(upstream.heads().len(), 3);
}

#[test]
fn an_sdk_that_makes_a_new_key_per_retry_is_caught_where_order_is_strict() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = one_per_generation(&upstream, "order: strict");
    let answer = crate::support::gate::Gate::closed();
    upstream.next(crate::support::script::Script::hold_answer(&answer));
    let body = r#"{"amount":5}"#;
    let first = pay_from(&proxy, "42", "107", "key-1").json(body);
    let first = first.start();
    answer.until_reached();

    let twin = pay_from(&proxy, "42", "107", "key-2").json(body);
    let told = twin.send();

    assert_refused(&told, 409, "near-duplicate", "never");
    assert!(told.text().contains("key-1"), "{}", told.text());
    answer.open();
    assert_eq!(first.answer().status, 201);
    // It is remembered under the twin's own name, also when the first is long over.
    assert_refused(&twin.send(), 409, "near-duplicate", "never");
    assert_eq!(upstream.effects().len(), 1);
}
