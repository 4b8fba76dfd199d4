//! The binary as a newcomer meets it: the first effect, what is asked of a request, the other
//! listeners, the command line.
//!
//! What always holds: whatever is refused here was not sent.

use serde_json::Value;

use crate::support::call::Call;
use crate::support::demo::Demo;
use crate::support::ports;
use crate::support::proxy::Proxy;
use crate::support::setup::Setup;
use crate::support::upstream::{Keys, Upstream};

/// Effects that ask for something, and nothing but effects.
const DEMANDING: &str = r#"
capability: [idempotent]
key: { header: Idempotency-Key, lifetime: 24h, value: derived }
unlisted: deny
effects:
  - on: POST /payments
    once: { header: Idempotency-Key, required: true }
  - on: POST /orders
    once: "order:{body.order}"
    limits: { body: 1KiB, answer: 1KiB }
"#;

#[test]
fn an_effect_goes_through_once_and_its_answer_comes_back() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let call = proxy
        .post("/payments?dry=no")
        .key("order-1")
        .json(r#"{"amount":5}"#);

    let first = call.send();
    let again = call.send();

    assert_eq!(
        (first.status, first.text().as_str()),
        (201, r#"{"id":"effect-1"}"#)
    );
    assert_eq!(first.field("fencepost-operation"), Some("order-1"));
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    assert!(!first.is_replay() && again.is_replay());
    let effects = upstream.effects();
    assert_eq!(effects.len(), 1);
    assert_eq!(effects[0].path, "/payments?dry=no");
    assert_eq!(effects[0].body, r#"{"amount":5}"#);
    assert!(effects[0].key.as_ref().is_some_and(|key| key.len() == 36));
}

#[test]
fn a_request_must_say_which_operation_it_is() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::new(upstream.address(), DEMANDING));
    let no_key = proxy.post("/payments").json("{}").send();
    assert_eq!(
        no_key.verdict(),
        (400, "idempotency-key-required".to_owned())
    );
    let long = "k".repeat(10_000);
    for key in ["", long.as_str(), "\"unclosed"] {
        let bad_key = proxy.post("/payments").key(key).json("{}").send();
        assert_eq!(bad_key.status, 400, "{}", bad_key.text());
    }
    let two_keys = proxy.post("/payments").key("a").key("b").json("{}").send();
    assert_eq!(two_keys.status, 400, "{}", two_keys.text());
    let nameless = proxy.post("/orders").json(r#"{"note":"x"}"#).send();
    assert_eq!(nameless.verdict(), (400, "identity-missing".to_owned()));
    assert!(nameless.text().contains("order"), "{}", nameless.text());
    assert_eq!(upstream.heads().len(), 0);
}

#[test]
fn a_request_without_a_key_where_none_is_required_is_an_operation_of_its_own() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let call = proxy.post("/payments").json("{}");
    assert_eq!((call.send().status, call.send().status), (201, 201));
    assert_eq!(upstream.effects().len(), 2);
    let counted = proxy.metric("fencepost_operations_without_identity_total");
    assert!((counted - 2.0).abs() < f64::EPSILON, "{counted}");
}

#[test]
fn what_no_rule_lets_out_is_not_sent() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::new(upstream.address(), DEMANDING));
    let unlisted = proxy.call("DELETE", "/payments/1").send();
    assert_eq!(unlisted.verdict(), (421, "no-route".to_owned()));
    let note = "x".repeat(2_000);
    let large = proxy
        .post("/orders")
        .json(&format!(r#"{{"order":"o","note":"{note}"}}"#))
        .send();
    assert_eq!(large.verdict(), (413, "body-too-large".to_owned()));
    // Two servers may read this path as two different ones.
    for path in [
        "/payments%2F",
        "/x/../payments",
        "//payments",
        "/payments;a=b",
    ] {
        let told = proxy.post(path).key("k").json("{}").send();
        assert_ne!(told.status, 201, "{path}");
    }
    assert_eq!(upstream.heads().len(), 0);
}

#[test]
fn an_answer_too_large_to_keep_is_given_once_and_its_replay_says_so() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::new(upstream.address(), DEMANDING));
    let large = format!(r#"{{"id":"{}"}}"#, "y".repeat(5_000));
    upstream.next(crate::support::script::Script::refuse(201, &large));
    let call = proxy.post("/orders").json(r#"{"order":"o"}"#);
    let first = call.send();
    let again = call.send();
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(first.text(), large);
    assert!(again.is_replay());
    assert_eq!(again.field("fencepost-body"), Some("not-kept"));
    assert!(again.body.is_empty());
    assert_eq!(upstream.heads().len(), 1);
}

#[test]
fn operators_have_names() {
    let upstream = Upstream::start(Keys::Honoured);
    let setup = Setup::payments(upstream.address());
    let admin = setup.admin;
    let proxy = Proxy::start(setup);
    assert_eq!(Call::new(admin, "GET", "/v1/operations").send().status, 401);
    let wrong = Call::new(admin, "GET", "/v1/operations").field("Authorization", "Bearer guess");
    assert_eq!(wrong.send().status, 401);
    let none = proxy.read("/v1/operations");
    assert_eq!(none["operations"].as_array().map(Vec::len), Some(0));
    assert_eq!(
        proxy
            .admin("GET", "/v1/operations/provider/k")
            .send()
            .status,
        404
    );
    assert_eq!(proxy.health("/livez").status, 200);
}

#[test]
fn a_register_has_one_owner() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let second = proxy.command(&["serve"]);
    assert!(!second.status.success());
    assert_eq!(
        proxy.health("/readyz").status,
        200,
        "the first one is not disturbed"
    );
}

#[test]
fn check_names_every_problem_with_its_place() {
    let folder = ports::folder();
    let (good, bad) = (
        folder.path().join("good.yaml"),
        folder.path().join("bad.yaml"),
    );
    let smallest = "version: 1\nregister:\n  embedded: { path: reg }\nupstreams:\n  stripe:\n    listen: 127.0.0.1:15001\n    url: https://api.stripe.com\n    profile: stripe-v1\n";
    std::fs::write(&good, smallest).unwrap();
    let broken = smallest
        .replace("listen: 127.0.0.1:15001", "listen: nowhere")
        .replace("profile:", "profil:");
    std::fs::write(&bad, broken).unwrap();
    let check = |path: &std::path::Path| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fencepost"));
        command.arg("check").arg(path).output().unwrap()
    };
    assert!(check(&good).status.success());
    let refused = check(&bad);
    assert_eq!(refused.status.code(), Some(1));
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&refused.stdout),
        String::from_utf8_lossy(&refused.stderr)
    );
    assert!(text.contains("6:13") && text.contains("8:5"), "{text}");
}

#[test]
fn resources_are_listed_for_people_and_for_programs() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let put = proxy.put("/statements/2026-09-13").token("108").json("{}");
    assert_eq!(put.send().status, 201);
    let table = proxy.command(&["resources", "list"]);
    let text = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(
        text.contains("statement:2026-09-13") && text.contains("108"),
        "{text}"
    );
    let shown = proxy.command(&["resources", "show", "statement:2026-09-13", "--json"]);
    let json: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(json["token"], "108");
    assert_eq!(json["last_completed"]["id"], "publish:2026-09-13:108");
}

/// B09: an answer never crosses from one account to another, though key, path and body are equal.
#[test]
fn two_accounts_behind_one_key_never_share_an_answer() {
    let upstream = Upstream::start(Keys::Honoured);
    let route = "capability: [idempotent]\nprincipal: [ { header: X-Account } ]\n\
                 key: { header: Idempotency-Key, lifetime: 24h, value: derived }\n\
                 effects:\n  - on: POST /payments\n    once: { header: Idempotency-Key }\n";
    let proxy = Proxy::start(Setup::new(upstream.address(), route));
    let of = |account| {
        let call = proxy.post("/payments").key("k").json("{}");
        call.field("X-Account", account).send()
    };
    let (a, b) = (of("A"), of("B"));
    assert_ne!(a.text(), b.text());
    assert_eq!(upstream.heads().len(), 2);
    let again = of("A");
    assert!(again.is_replay());
    assert_eq!(again.text(), a.text());
    assert_eq!(upstream.heads().len(), 2);
}

#[test]
fn the_demo_counts_right_and_plays_the_person_where_nobody_is_there() {
    let played = Proxy::command_alone(&["demo", "--once"]);
    let text = String::from_utf8_lossy(&played.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&played.stderr);
    assert!(played.status.success(), "{text}{complaint}");
    for (line, saw) in [
        (
            "the caller waits while it is asked",
            "200, found by a look-up",
        ),
        ("the caller ", "504 outcome-uncertain"),
        (
            "a person says that it was sent; it asks again",
            "200, as the person said",
        ),
    ] {
        let is_told =
            |told: &str| told.starts_with(line) && told.contains(saw) && told.ends_with('1');
        assert!(text.lines().any(is_told), "{line}: {text}");
    }
}

/// The very line that it prints settles what waits, from a shell.
#[test]
fn a_person_who_watches_the_demo_resolves_its_mail_by_what_it_says() {
    let shell = |line: &str| {
        let mut shell = std::process::Command::new("sh");
        let output = shell.args(["-c", line]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {said}{complaint}");
        said
    };
    let mut demo = Demo::start();
    let resolves = demo.line_with("operations resolve mail");
    let mail = demo.line_with("/mails");
    let lists = demo.line_with("operations list");
    assert!(shell(&mail).contains("needs-attention"));
    assert!(shell(&lists).contains("NEEDS_ATTENTION"));
    shell(&resolves);
    let told = shell(&mail);
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    assert!(!shell(&lists).contains("NEEDS_ATTENTION"));
}
