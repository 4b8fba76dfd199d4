//! `explain` as a newcomer reads it: whole outputs, word for word.
//!
//! What always holds: nothing runs and nothing is sent; the configs are those in `config/`. Outputs that
//! are to change are written anew by hand or by `fencepost explain`, and read.

use std::path::PathBuf;

use serde_json::Value;

use crate::support::proxy::Proxy;
use crate::support::tls::Authority;

const STATEMENTS: &str = "config/statements.yaml";
const STRIPE: &str = "config/stripe.yaml";
const REFERENCE: &str = "config/fencepost.yaml";

fn explain(config: &str, request: &[&str]) -> (Option<i32>, String, String) {
    explain_with(&[], config, request)
}

fn explain_with(before: &[&str], config: &str, request: &[&str]) -> (Option<i32>, String, String) {
    let config = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(config);
    let command = [
        before,
        &["explain", "--config", config.to_str().unwrap()],
        request,
    ]
    .concat();
    let output = Proxy::command_alone(&command);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn assert_explained(config: &str, request: &[&str], golden: &str) {
    let (code, said, complaint) = explain(config, request);
    assert_eq!((code, complaint.as_str()), (Some(0), ""));
    assert_eq!(said, golden, "--- said ---\n{said}");
}

/// A request for a statement, as for curl.
fn statement<'a>(day: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let usual = ["-X", "PUT", "-H", "Content-Type: application/json", day];
    [&usual[..], more].concat()
}

fn payment<'a>(token: &'a str, content: &'a str) -> Vec<&'a str> {
    vec![
        "-H",
        token,
        "-H",
        "Content-Type: application/json",
        "-d",
        content,
        "http://127.0.0.1:15002/accounts/42/payments",
    ]
}

const DAY: &str = "http://127.0.0.1:15002/accounts/42/statements/2026-09-13";

#[test]
fn a_fenced_publication_step_by_step() {
    let more = [
        "-H",
        "Fencing-Token: 108",
        "-H",
        "Authorization: Bearer s3cret",
        "-d",
        r#"{"object_key":"k","checksum":"c"}"#,
    ];
    assert_explained(
        STATEMENTS,
        &statement(DAY, &more),
        include_str!("golden/statement.txt"),
    );
}

#[test]
fn a_publication_without_its_token_is_refused_and_told_why() {
    let golden = include_str!("golden/no_token.txt");
    assert_explained(STATEMENTS, &statement(DAY, &[]), golden);
}

#[test]
fn an_sdk_request_without_a_key() {
    let request = ["-d", "amount=5", "https://api.stripe.com/v1/charges"];
    assert_explained(STRIPE, &request, include_str!("golden/stripe.txt"));
}

#[test]
fn another_owner_repeats_a_payment_and_it_is_one_operation() {
    let content = r#"{"payment_id":"p-1","amount":5}"#;
    let first = payment("Fencing-Token: 107", content);
    // The same JSON, written otherwise.
    let second = payment(
        "Fencing-Token: 108",
        r#"{ "amount": 5, "payment_id": "p-1" }"#,
    );
    let both = [&first[..], &["--and"], &second[..]].concat();
    assert_explained(STATEMENTS, &both, include_str!("golden/one_operation.txt"));
}

fn verdict(config: &str, one: &[&str], other: &[&str]) -> String {
    let (code, said, complaint) = explain(config, &[one, &["--and"], other].concat());
    assert_eq!((code, complaint.as_str()), (Some(0), ""));
    said.split("\n\n").next().unwrap().trim_end().to_owned()
}

#[test]
fn what_tells_two_requests_apart_is_named() {
    let pay = |content| payment("Fencing-Token: 107", content);
    let one = pay(r#"{"payment_id":"p-1","amount":5}"#);
    assert_eq!(
        verdict(STATEMENTS, &one, &pay(r#"{"payment_id":"p-2","amount":5}"#)),
        "Two operations. What tells them apart:\n  once, json /payment_id: p-1, p-2"
    );
    assert_eq!(
        verdict(STATEMENTS, &one, &pay(r#"{"payment_id":"p-1","amount":6}"#)),
        "One operation that says two things: the second is refused, 422 idempotency-key-reused. What \
         differs:\n  json /amount"
    );
    let publish = |token| statement(DAY, &["-H", token, "-d", "{}"]);
    assert_eq!(
        verdict(
            STATEMENTS,
            &publish("Fencing-Token: 107"),
            &publish("Fencing-Token: 108")
        ),
        "Two operations. What tells them apart:\n  once, token: 107, 108"
    );
    let charge = |account| {
        let url = "https://api.stripe.com/v1/charges";
        [
            "-H",
            "Idempotency-Key: k",
            "-H",
            account,
            "-d",
            "amount=5",
            url,
        ]
    };
    assert_eq!(
        verdict(
            STRIPE,
            &charge("Stripe-Account: a"),
            &charge("Stripe-Account: b")
        ),
        "Two operations. What tells them apart:\n  principal, header stripe-account: a, b"
    );
    let keyless = ["-d", "amount=5", "https://api.stripe.com/v1/charges"];
    assert_eq!(
        verdict(STRIPE, &keyless, &keyless),
        "Two operations: a request that brings no key is new every time. But while it is not known what \
         became of the first, and for 300 s at most, the second joins it."
    );
    let other = ["-d", "amount=6", "https://api.stripe.com/v1/charges"];
    assert_eq!(
        verdict(STRIPE, &keyless, &other),
        "Two operations: a request that brings no key is new every time."
    );
}

#[test]
fn a_captured_request_and_the_one_typed_are_told_to_be_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("captured.http");
    let captured = "PUT /accounts/42/statements/2026-09-13 HTTP/1.1\r\nHost: 127.0.0.1:15002\r\n\
                    Fencing-Token: 108\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    std::fs::write(&file, captured).unwrap();
    let file = format!("@{}", file.display());
    let typed = statement(DAY, &["-H", "Fencing-Token: 108", "-d", "{ }"]);
    assert_eq!(
        verdict(STATEMENTS, &[&file], &typed),
        "One operation: the second is a repeat, is not sent, and gets the answer of the first."
    );
}

#[test]
fn credentials_are_not_shown_in_words_or_json() {
    let request = [
        "-H",
        "Authorization: Bearer s3cret",
        "-H",
        "X-Account: acme",
        "-H",
        "Fencing-Token: 108",
        "-X",
        "PUT",
        "/accounts/1/statements/2?api_key=s3cret",
    ];
    for before in [&[][..], &["--json"]] {
        let (code, said, _) = explain_with(before, REFERENCE, &request);
        assert_eq!(code, Some(0));
        assert!(!said.contains("s3cret") && said.contains("acme"), "{said}");
    }
    let (_, said, _) = explain_with(&["--json"], REFERENCE, &request);
    let told: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(told["operation"]["id"], "publish:1:2:108");
    assert_eq!(told["outcome"]["outcome"], "put-to-register");
}

/// Whatever can settle a lost answer, in its order.
const EVERY_STEP: &str = r#"
version: 1
register: { embedded: { path: register } }
upstreams:
  provider:
    listen: 127.0.0.1:15001
    url: https://api.example
    capability: [idempotent, conditional, query, callback]
    key: { header: Idempotency-Key, lifetime: 24h }
    callbacks:
      listen: 127.0.0.1:15003
      signature: { scheme: github, secrets: [s] }
      operation: "{body.id}"
      applied: "body.paid"
    effects:
      - on: PUT /orders/{order}
        once: "order:{path.order}"
        settle:
          - send_again: { attempts: 1 }
          - look_up:
              name: by-order
              get: "/orders?id={path.order}"
              applied: "response.status == 200"
              not_applied: "response.status == 404"
              lag: 60s
              samples: 1
              every: { from: 5s, to: 5s }
              pages: { parameter: after, next: response.body.next, most: 4 }
          - look_up: { post: /search, json: { a: "{path.order}" }, applied: "response.body.found", lag: 2m, within: 2h }
          - compare: { lag: 10s, samples: 2, never_reverts: true }
          - void: { post: /cancel, json: { key: "{operation.key}" }, done: "response.status == 200", lag: 30s, attempts: 2 }
          - callback: { within: 12h }
"#;

#[test]
fn every_step_of_settling_is_told_in_its_order() {
    let folder = crate::support::ports::folder();
    let config = folder.path().join("config.yaml");
    std::fs::write(&config, EVERY_STEP).unwrap();
    let request = ["-X", "PUT", "-d", "{}", "/orders/7"];
    let (code, said, complaint) = explain(config.to_str().unwrap(), &request);
    assert_eq!((code, complaint.as_str()), (Some(0), ""), "{said}");
    let steps: Vec<_> = said
        .lines()
        .filter_map(|line| Some(line.split_once("settle: ")?.1))
        .collect();
    assert_eq!(
        steps,
        [
            "1. send again: the stored bytes under the same key, at most once, within four fifths of 1day",
            "2. look up `by-order`: GET /orders?id={path order}, 4 pages at most; `not applied` counts 1m after \
             everything was quiet, once in a row; asked every 5s, for 1h 2m from its turn",
            "3. look up `look_up-2`: POST /search; it never says `not applied`; asked every 1s to 1m, for 2h from \
             its turn",
            "4. compare `compare`: GET of the request's own target, with what was sent; `not applied` counts 10s \
             after everything was quiet, 2 times in a row; asked every 1s to 1m, for 1h 20s from its turn",
            "5. undo `void`: POST /cancel; 30s after everything was quiet, at most 2 times, for 5h 3m 20s after \
             the newest attempt and within four fifths of 1day. Nothing is sent under the key from then on",
            "6. callback: a signed one is waited for, for 12h from its turn; a later one counts all the \
             same",
            "7. a person",
        ]
    );
}

#[test]
fn what_is_no_effect_and_what_is_nobodys() {
    let (_, said, _) = explain(
        STRIPE,
        &["-X", "DELETE", "http://localhost:15001/v1/customers/1"],
    );
    assert!(
        said.contains("forwarded unprotected, and counted"),
        "{said}"
    );
    let said = explain(STATEMENTS, &["-d", "x", "/accounts/42/other"]).1;
    assert!(said.contains("refused: 421 no-route"), "{said}");
    let (code, _, complaint) = explain(STRIPE, &["--upstream", "x", "/v1"]);
    assert_eq!(code, Some(2), "{complaint}");
}

/// The certificate of a caller is part of a request like its headers: it tells two of them apart.
#[test]
fn callers_are_told_apart_by_their_certificates() {
    let folder = crate::support::ports::folder();
    let file = |name: &str| folder.path().join(name);
    let authority = Authority::new("callers");
    for (name, owner) in [("a.pem", "alice"), ("b.pem", "bob"), ("again.pem", "alice")] {
        authority.caller(owner).write(&file(name), &file("key.pem"));
    }
    std::fs::write(file("config.yaml"), BY_CERTIFICATE).unwrap();
    let path = |name: &str| file(name).to_str().unwrap().to_owned();
    let (config, alice) = (path("config.yaml"), path("a.pem"));
    let pay = ["-d", "a=1", "-H", "Idempotency-Key: k", "/payments"];
    let explain = |before: &[&str], after: &[&str]| {
        let request = [before, &pay, after].concat();
        explain(&config, &request)
    };

    let (_, said, _) = explain(&[], &[]);
    assert!(said.contains("refused: 400 identity-missing"), "{said}");
    let why =
        "client certificate subject is not there: the caller's connection showed no certificate";
    assert!(said.contains(why), "{said}");

    let (_, said, _) = explain(&["--client-cert", &alice], &[]);
    assert!(
        said.contains("client certificate subject = CN=alice"),
        "{said}"
    );
    assert!(said.contains("put to the register"), "{said}");

    let with_alice = |other: &str| {
        let one = ["--cert", &alice, "--key", "k.pem", "--and"];
        explain(&[&pay, &one[..]].concat(), &["-E", other]).1
    };
    let said = with_alice(&path("b.pem"));
    let apart = "Two operations. What tells them apart:\n  \
                 principal, client certificate subject: CN=alice, CN=bob";
    assert!(said.starts_with(apart), "{said}");
    let said = with_alice(&path("again.pem"));
    assert!(
        said.starts_with("One operation: the second is a repeat"),
        "{said}"
    );

    let (code, _, complaint) = explain(&["--client-cert", &config], &[]);
    assert_eq!(code, Some(2), "{complaint}");
    assert!(complaint.contains("holds no certificate"), "{complaint}");
}

const BY_CERTIFICATE: &str = "
version: 1
upstreams:
  bank:
    listen: 0.0.0.0:15001
    url: http://bank.internal
    capability: [idempotent]
    key: { header: Idempotency-Key, lifetime: 24h }
    listen_tls: { cert: c.pem, key: k.pem, client_ca: ca.pem }
    principal: [ { client_certificate: subject } ]
    effects: [ { on: POST /payments } ]
";

/// A request without a token, for a resource whose lease its sidecar holds.
#[test]
fn it_says_under_which_lease_a_request_is_stamped() {
    let folder = crate::support::ports::folder();
    let path = folder.path().join("on-behalf.yaml");
    let text = include_str!("../../../config/on-behalf.yaml");
    let (before, rest) = text.split_once("register:\n").unwrap();
    let (_, leases) = rest.split_once("worker:").unwrap();
    std::fs::write(&path, format!("{before}worker:{leases}")).unwrap();
    let path = path.to_str().unwrap();
    let asked = |account: &str, more: &[&str]| {
        let target = format!("http://127.0.0.1:15001/accounts/{account}/payments");
        let usual = ["-H", "Idempotency-Key: k", "-d", "{}", &target];
        explain(path, &[&usual[..], more].concat()).1
    };
    let stamped = asked("42", &[]);
    assert!(stamped.contains("that of the lease `payer`"), "{stamped}");
    assert!(stamped.contains("put to the register"), "{stamped}");
    for other in [asked("43", &[]), asked("42", &["-H", "Fencing-Token: 7"])] {
        assert!(!other.contains("of the lease `payer`"), "{other}");
    }
}
