//! Rolling out: a service is watched first, then its tokens are checked where it sends them, and then
//! required.
//!
//! What always holds: what is only observed reaches the provider as its caller sent it, and its caller
//! gets what the provider said; what was only observed refuses nobody later; what was enforced is.

use super::*;
use crate::support::gate::Gate;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

/// Payments from accounts, only watched. The notes are what the stories change.
const WATCHED: &str = r#"
capability: [idempotent]
key: { header: Idempotency-Key, lifetime: 24h, value: derived }
effects:
  - on: POST /accounts/{account}/payments
    mode: observe # effect
    once: { header: Idempotency-Key }
    fence:
      resource: "account:{path.account}"
      token: { header: Fencing-Token, mode: require } # token
"#;

const PAYMENTS: &str = "POST /accounts/{account}/payments";

fn watched(keys: Keys) -> (Upstream, Proxy) {
    let upstream = Upstream::start(keys);
    let proxy = Proxy::start(Setup::new(upstream.address(), WATCHED));
    (upstream, proxy)
}

/// Version 1 of the service knows nothing of tokens.
fn version_1(proxy: &Proxy, key: &str) -> Answer {
    let body = format!(r#"{{"payment":"{key}"}}"#);
    let call = proxy.post("/accounts/42/payments").key(key);
    call.json(&body).send()
}

/// Version 2 presents its own.
fn version_2(proxy: &Proxy, token: &str, key: &str) -> Answer {
    pay_from(proxy, "42", token, key).send()
}

/// Another config, put in force while running.
fn turn(proxy: &Proxy, from: &str, to: &str) {
    let digest = || proxy.read("/v1/config")["digest"].clone();
    let before = digest();
    proxy.change_config(from, to);
    proxy.hang_up();
    until("another config is in force", || digest() != before);
}

fn row(proxy: &Proxy, effect: &str, treatment: &str) -> Value {
    let report = proxy.read("/v1/report");
    let rows = report["effects"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["effect"] == effect && row["treatment"] == treatment);
    row.cloned().unwrap_or_default()
}

/// How often it was found, of what.
fn found(row: &Value, finding: &str, of: Option<&str>) -> u64 {
    let found = row["found"].as_array().into_iter().flatten();
    let mut found =
        found.filter(|it| it["finding"] == finding && it.get("of").and_then(Value::as_str) == of);
    found.next().map_or(0, |it| it["count"].as_u64().unwrap())
}

fn until_judged(proxy: &Proxy, effect: &str, requests: u64) -> Value {
    until("they are judged", || {
        row(proxy, effect, "observed")["requests"] == requests
    });
    row(proxy, effect, "observed")
}

/// Scenario 6.
#[test]
fn a_service_is_watched_then_checked_and_then_held_to_its_tokens() {
    let (upstream, proxy) = watched(Keys::Honoured);
    // Watched: all pass, and the conflict is reported.
    assert_eq!(version_1(&proxy, "a").status, 201);
    assert_eq!(version_2(&proxy, "900", "b").status, 201);
    assert_eq!(version_2(&proxy, "899", "c").status, 201);
    let seen = until_judged(&proxy, PAYMENTS, 3);
    assert_eq!(found(&seen, "refused", Some("fencing-token-required")), 1);
    assert_eq!(found(&seen, "refused", Some("stale-fencing-token")), 1);
    assert!(proxy.metric("fencepost_would_refuse_total") > 1.5);
    assert_eq!(
        mark(&proxy, "account:42"),
        None,
        "nothing of it is in the register"
    );
    assert_eq!(recorded(&proxy), 0);

    // Tokens observed: identities hold, tokens rise, nobody is refused for one. What was only watched
    // counts for nothing: 107 is the first token that the register sees.
    turn(&proxy, "mode: observe # effect", "mode: enforce # effect");
    turn(&proxy, "mode: require } # token", "mode: observe } # token");
    assert_eq!(version_2(&proxy, "107", "d").status, 201);
    assert_eq!(version_2(&proxy, "108", "e").status, 201);
    assert_eq!(version_2(&proxy, "107", "f").status, 201);
    assert_eq!(version_1(&proxy, "g").status, 201);
    assert!(version_1(&proxy, "g").is_replay());
    assert_eq!(mark(&proxy, "account:42").as_deref(), Some("108"));
    let seen = row(&proxy, PAYMENTS, "enforced");
    assert_eq!(found(&seen, "let-pass", Some("stale-fencing-token")), 1);
    assert_eq!(found(&seen, "let-pass", Some("fencing-token-required")), 2);
    assert_eq!(found(&seen, "replayed", None), 1);

    // Checked when present.
    turn(&proxy, "mode: observe } # token", "mode: prefer } # token");
    assert_eq!(version_1(&proxy, "h").status, 201);
    assert_refused(
        &version_2(&proxy, "107", "i"),
        412,
        "stale-fencing-token",
        "never",
    );
    let seen = row(&proxy, PAYMENTS, "enforced");
    assert_eq!(
        found(&seen, "without-token", None),
        1,
        "`require` would refuse it"
    );

    // Required.
    turn(&proxy, "mode: prefer } # token", "mode: require } # token");
    assert_refused(
        &version_1(&proxy, "j"),
        428,
        "fencing-token-required",
        "never",
    );
    assert_refused(
        &version_2(&proxy, "107", "i"),
        412,
        "stale-fencing-token",
        "never",
    );
    assert_eq!(version_2(&proxy, "108", "k").status, 201);

    // And back: version 1 passes again, the old token does not.
    turn(&proxy, "mode: require } # token", "mode: prefer } # token");
    assert_eq!(version_1(&proxy, "j").status, 201);
    assert_refused(
        &version_2(&proxy, "107", "i"),
        412,
        "stale-fencing-token",
        "never",
    );
    assert_eq!(upstream.effects().len(), 10);
}

/// What a provider was sent, but for its own name and what belongs to the connection.
fn sent(upstream: &Upstream) -> Vec<(String, Vec<(String, String)>)> {
    let heads = upstream.heads().into_iter();
    let fields = |fields: Vec<(String, String)>| {
        let lower = fields
            .into_iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value));
        let mut fields: Vec<_> = lower
            .filter(|(name, _)| name != "host" && name != "connection")
            .collect();
        fields.sort();
        fields
    };
    heads
        .map(|head| (head.first_line, fields(head.fields.0)))
        .collect()
}

#[test]
fn what_is_only_watched_reaches_the_provider_as_its_caller_sent_it_every_time() {
    let direct = Upstream::start(Keys::Ignored);
    let (upstream, proxy) = watched(Keys::Ignored);
    let calls = |to: &dyn Fn(&str, &str) -> Call| {
        let pay = |key: &str, body: &str| {
            to("POST", "/accounts/42/payments?x=%20y")
                .key(key)
                .json(body)
        };
        let plain = to("POST", "/accounts/42/payments");
        vec![
            pay("k", r#"{"a":1}"#)
                .field("X-Request-Id", "r-1")
                .field("X-B", "2")
                .field("X-B", "1"),
            // A repeat, another meaning under the same key, keys that nobody can read, none at all.
            pay("k", r#"{"a":1}"#),
            pay("k", r#"{"a":2}"#),
            pay("k", "{}").key("l"),
            plain.json("{ not json"),
            to("POST", "/accounts//42/payments"),
            to("DELETE", "/elsewhere"),
        ]
    };
    let straight = calls(&|method, path| Call::new(direct.address(), method, path));
    let through = calls(&|method, path| proxy.call(method, path));
    for (straight, through) in straight.iter().zip(&through) {
        let (straight, through) = (straight.send(), through.send());
        assert_eq!(
            (straight.status, &straight.body),
            (through.status, &through.body)
        );
        assert!(!through.head.text.to_ascii_lowercase().contains("fencepost"));
    }
    assert_eq!(upstream.heads().len(), 7, "none was held back or repeated");
    assert_eq!(bodies(&direct), bodies(&upstream));
    assert_eq!(sent(&direct), sent(&upstream));
    let seen = until_judged(&proxy, PAYMENTS, 5);
    assert!(
        found(&seen, "refused", Some("idempotency-key-malformed")) == 1,
        "{seen}"
    );
    assert_eq!(recorded(&proxy), 0);
}

#[test]
fn what_enforcing_would_do_is_reported_by_what_it_would_be() {
    let route = r"
capability: [idempotent]
key: { header: Idempotency-Key, lifetime: 24h, value: derived }
mode: observe
unlisted: deny
effects:
  - on: POST /payments
    once: { header: Idempotency-Key }
  - on: POST /orders
    once: { json: /order }
";
    let upstream = Upstream::start(Keys::Honoured);
    let mut proxy = Proxy::start(Setup::new(upstream.address(), route));
    for _ in 0..3 {
        assert_eq!(
            pay(&proxy, "secret-key", r#"{"card":"4242"}"#)
                .send()
                .status,
            201
        );
    }
    assert_eq!(
        pay(&proxy, "secret-key", r#"{"card":"4243"}"#)
            .send()
            .status,
        201
    );
    assert_eq!(proxy.post("/payments").json("{}").send().status, 201);
    assert_eq!(
        proxy.post("/orders").json(r#"{"ordre":7}"#).send().status,
        201
    );
    assert_eq!(proxy.post("/nowhere").json("{}").send().status, 201);
    let payments = until_judged(&proxy, "POST /payments", 5);
    assert_eq!(found(&payments, "replayed", None), 2);
    assert_eq!(
        found(&payments, "refused", Some("idempotency-key-reused")),
        1
    );
    assert_eq!(found(&payments, "without-identity", None), 1);
    let orders = until_judged(&proxy, "POST /orders", 1);
    assert_eq!(found(&orders, "refused", Some("identity-missing")), 1);
    let lacking = orders["found"].as_array().unwrap().iter();
    let mut lacking = lacking.filter(|it| it["finding"] == "lacking");
    let member = lacking.next().unwrap()["of"].as_str().unwrap();
    assert!(member.contains("/order"), "{member}");
    let unlisted = until_judged(&proxy, "unlisted", 1);
    assert_eq!(found(&unlisted, "refused", Some("no-route")), 1);
    assert!(proxy.metric("fencepost_observed_total") >= 9.0);

    // It survives restarts, tells nobody's secrets, and is there without an instance.
    proxy.stop();
    let register = proxy.register().display().to_string();
    let stopped = Proxy::command_alone(&["report", "--json", "--register", &register]);
    let text = String::from_utf8(stopped.stdout).unwrap();
    for secret in ["secret-key", "4242", "4243"] {
        assert!(!text.contains(secret), "{text}");
    }
    proxy.start_again();
    assert_eq!(
        proxy.read("/v1/report"),
        serde_json::from_str::<Value>(&text).unwrap()
    );
    assert_eq!(pay(&proxy, "k", "{}").send().status, 201);
    until_judged(&proxy, "POST /payments", 6);
    let table = String::from_utf8(proxy.command(&["report"]).stdout).unwrap();
    assert!(
        table.contains("would be refused: idempotency-key-reused"),
        "{table}"
    );
    assert!(table.contains("would be replayed"), "{table}");
}

/// Both effects are of one account.
const SHARED: &str = r#"
capability: [idempotent]
key: { header: Idempotency-Key, lifetime: 24h, value: derived }
effects:
  - on: POST /accounts/{account}/payments
    once: { header: Idempotency-Key }
    fence: { resource: "account:{path.account}" }
  - on: POST /accounts/{account}/refunds
    mode: observe
    once: { header: Idempotency-Key }
    fence: { resource: "account:{path.account}" }
"#;

#[test]
fn what_is_only_watched_takes_nothing_from_what_is_enforced_on_the_same_resource() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::new(upstream.address(), SHARED));
    assert_eq!(version_2(&proxy, "108", "a").status, 201);
    let refund = |token: &str, key: &str| {
        proxy
            .post("/accounts/42/refunds")
            .token(token)
            .key(key)
            .json("{}")
            .send()
    };
    // A wild token would cut everybody off; a used key would be taken.
    assert_eq!(refund("9000000", "x").status, 201);
    assert_eq!(refund("107", "y").status, 201);
    let seen = until_judged(&proxy, "POST /accounts/{account}/refunds", 2);
    assert_eq!(found(&seen, "refused", Some("stale-fencing-token")), 1);
    assert_eq!(mark(&proxy, "account:42").as_deref(), Some("108"));
    assert_eq!(version_2(&proxy, "108", "x").status, 201);
    assert_eq!(version_2(&proxy, "109", "y").status, 201);
    // It is judged by what the register holds: 5 was presented where it is enforced.
    assert_eq!(pay_from(&proxy, "43", "5", "z").send().status, 201);
    let refund = proxy
        .post("/accounts/43/refunds")
        .token("4")
        .key("z")
        .json("{}");
    assert_eq!(refund.send().status, 201);
    let seen = until_judged(&proxy, "POST /accounts/{account}/refunds", 3);
    assert_eq!(found(&seen, "refused", Some("stale-fencing-token")), 2);
    assert_eq!(upstream.effects().len(), 7);
    assert_eq!(recorded(&proxy), 4);
}

#[test]
fn what_is_under_way_or_in_doubt_is_told_from_what_is_done() {
    let (upstream, proxy) = watched(Keys::Ignored);
    let answer = Gate::closed();
    upstream.next(Script::hold_answer(&answer));
    let first = pay_from(&proxy, "42", "108", "k").start();
    answer.until_reached();
    assert_eq!(version_2(&proxy, "108", "k").status, 201);
    assert_eq!(version_2(&proxy, "109", "l").status, 201);
    let seen = until_judged(&proxy, PAYMENTS, 3);
    assert_eq!(
        (found(&seen, "joined", None), found(&seen, "waited", None)),
        (1, 1),
        "{seen}"
    );
    answer.open();
    assert_eq!(first.answer().status, 201);
    assert_eq!(version_2(&proxy, "109", "k").status, 201);
    upstream.next(Script::lose_answer());
    assert_eq!(
        version_2(&proxy, "109", "m").status,
        502,
        "nobody knows, and nobody pretends to"
    );
    until("its end is judged", || {
        found(&row(&proxy, PAYMENTS, "observed"), "in-doubt", None) == 1
    });
    let seen = row(&proxy, PAYMENTS, "observed");
    assert_eq!(
        (seen["requests"].as_u64(), found(&seen, "replayed", None)),
        (Some(5), 1)
    );
    assert_eq!(
        upstream.heads().len(),
        5,
        "none was held back or sent again"
    );
}
