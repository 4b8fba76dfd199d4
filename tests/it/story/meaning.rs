//! The same request or another one: what a repeat must have in common with the first of its identity,
//! and what a caller is told that changed something.
//!
//! What always holds: whatever differs is named, its value never is; nothing of it is sent.

use super::*;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

const HONOURED: &str = r"
capability: [idempotent]
key: { header: Idempotency-Key, lifetime: 24h, value: derived }
effects:
";

fn before(upstream: &Upstream, effects: &str) -> Proxy {
    Proxy::start(Setup::new(
        upstream.address(),
        &format!("{HONOURED}{effects}"),
    ))
}

/// What the problem says differs.
fn differs(told: &Answer) -> Vec<String> {
    assert_refused(told, 422, "idempotency-key-reused", "never");
    assert!(told.field("retry-after").is_none());
    let names = told.json()["differs"].as_array().unwrap().clone();
    names
        .iter()
        .map(|it| it.as_str().unwrap().to_owned())
        .collect()
}

/// Scenario 2.
#[test]
fn a_decline_is_final_for_its_key_and_another_card_needs_another_one() {
    let upstream = Upstream::start(Keys::Honoured);
    let mut proxy = Proxy::start(Setup::payments(upstream.address()));
    upstream.next(Script::refuse(402, r#"{"error":"card_declined"}"#));
    let card = |number: &str| format!(r#"{{"amount":5,"card":{{"number":"{number}"}}}}"#);
    let declined = pay(&proxy, "pay:o42:1", &card("4000-0002")).send();
    assert_eq!(declined.status, 402);
    assert_replayed(
        &pay(&proxy, "pay:o42:1", &card("4000-0002")).send(),
        &declined,
    );
    assert_eq!(upstream.heads().len(), 1);

    // The stored request is gone since the decline; what it was made of is still known.
    proxy.stop();
    proxy.start_again();
    let other = pay(&proxy, "pay:o42:1", &card("4242-4242")).send();
    assert_eq!(differs(&other), ["json /card/number"]);
    assert!(!other.text().contains("4242"), "{}", other.text());
    assert!(!other.text().contains("4000"), "{}", other.text());
    assert!(!proxy.log().contains("4242-4242"));

    assert_eq!(
        pay(&proxy, "pay:o42:2", &card("4242-4242")).send().status,
        201
    );
    assert_eq!(upstream.effects().len(), 1);

    upstream.next(Script::refuse(400, r#"{"error":"parameter_missing"}"#));
    assert_eq!(
        pay(&proxy, "pay:o43:1", r#"{"amount":5}"#).send().status,
        400
    );
    let corrected = pay(&proxy, "pay:o43:1", &card("4242-4242")).send();
    assert_eq!(corrected.status, 201, "nothing happened under it: sent");
    assert_eq!(upstream.effects().len(), 2);
}

/// A refusal under an id that the proxy made leaves it free for a corrected request, under a new key.
#[test]
fn a_corrected_request_after_a_stored_refusal_takes_a_new_key() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let order = |card: &str| {
        proxy
            .post("/orders")
            .json(&format!(r#"{{"order":"o42","card":"{card}"}}"#))
            .send()
    };
    upstream.next(Script::refuse(402, "{}"));
    assert_eq!(order("a").status, 402);
    assert_eq!(order("a").status, 402, "stored");
    assert_eq!(order("b").status, 201);
    assert!(order("b").is_replay());
    assert_eq!(differs(&order("a")), ["json /card"]);
    let keys: Vec<_> = upstream
        .heads()
        .iter()
        .map(|head| head.fields.first("idempotency-key").unwrap().to_owned())
        .collect();
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1]);
}

/// B08: one key on two endpoints never gets the other's answer.
#[test]
fn a_key_used_on_another_path_or_method_is_refused() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = before(&upstream, "  - on: POST|PUT /x/{id}\n");
    let send = |method: &str, path: &str| proxy.call(method, path).key("k").json("{}").send();
    assert_eq!(send("POST", "/x/1").status, 201);
    assert_eq!(differs(&send("POST", "/x/2")), ["path"]);
    assert_eq!(differs(&send("PUT", "/x/1")), ["method"]);
    assert_eq!(differs(&send("POST", "/x/1?now=1")), ["query now"]);
    assert_eq!(upstream.effects().len(), 1);
}

/// B05, as a whole and byte by byte.
#[test]
fn what_another_serialiser_writes_is_the_same_request_unless_bytes_count() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = before(
        &upstream,
        "  - on: POST /whole\n  - on: POST /raw\n    means: raw\n",
    );
    let first = r#"{"a":1,"b":2}"#;
    for path in ["/whole", "/raw"] {
        assert_eq!(proxy.post(path).key(path).json(first).send().status, 201);
    }
    let repeated = "idempotency-key-reused";
    for (body, whole) in [
        (r#"{"b":2,"a":1}"#, (201, "")),
        ("{ \"a\":1,\n\"b\":2 }", (201, "")),
        (r#"{"\u0061":1,"b":2}"#, (201, "")),
        (r#"{"a":1.0,"b":2}"#, (422, repeated)),
        (r#"{"a":1,"a":1,"b":2}"#, (400, "identity-missing")),
        ("\u{feff}{\"a\":1,\"b\":2}", (400, "identity-missing")),
    ] {
        let told = proxy.post("/whole").key("/whole").json(body).send();
        assert_eq!(told.verdict(), (whole.0, whole.1.to_owned()), "{body}");
        assert_eq!(told.is_replay(), whole.0 == 201, "{body}");
        let told = proxy.post("/raw").key("/raw").json(body).send();
        assert_refused(&told, 422, repeated, "never");
    }
    assert!(
        proxy
            .post("/raw")
            .key("/raw")
            .json(first)
            .send()
            .is_replay()
    );
    assert_eq!(upstream.heads().len(), 2);
}

/// B23: a retry of an upload makes a new boundary.
#[test]
fn an_upload_is_the_same_under_another_boundary() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = before(&upstream, "  - on: POST /files\n");
    let upload = |boundary: &str, preamble: &str, parts: &[(&str, &str)]| {
        let mut body = preamble.to_owned();
        for (header, content) in parts {
            body = format!(
                "{body}--{boundary}\r\nContent-Disposition: form-data; {header}\r\n\r\n{content}\r\n"
            );
        }
        let kind = format!("multipart/form-data; boundary={boundary}");
        let body = format!("{body}--{boundary}--\r\n");
        proxy.post("/files").key("u").content(&kind, &body).send()
    };
    let note = ("name=\"note\"", "hello");
    let file = ("name=\"file\"; filename=\"a.txt\"", "one\r\n--YYYY\r\ntwo");
    let first = upload("XXXX", "", &[note, file]);
    assert_eq!(first.status, 201);
    assert_replayed(&upload("Y-Y.Y", "", &[note, file]), &first);
    assert_replayed(&upload("XXXX", "\r\n", &[note, file]), &first);
    let renamed = ("name=\"file\"; filename=\"b.txt\"", file.1);
    let changed = (file.0, "one\r\n--YYYY\r\ntwO");
    assert_eq!(differs(&upload("Z", "", &[note, renamed])), ["part file"]);
    assert_eq!(differs(&upload("Z", "", &[note, changed])), ["part file"]);
    assert_eq!(
        differs(&upload("Z", "", &[file, note])),
        ["content"],
        "their order"
    );
    assert_eq!(upstream.heads().len(), 1);
}

#[test]
fn a_list_says_what_counts_and_what_must_be_there() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = before(
        &upstream,
        r"  - on: POST /publish
    means: [ { json: /object }, { header: X-Mode, optional: true } ]
",
    );
    let publish = |body: &str| proxy.post("/publish?at=1").key("k").json(body);
    let first = publish(r#"{"object":{"id":1.50},"link":"https://tmp/1"}"#).send();
    assert_eq!(first.status, 201);
    let fresh_link = publish(r#"{"link":"https://tmp/2","object":{ "id":1.50 }}"#).send();
    assert_replayed(&fresh_link, &first);
    let other = publish(r#"{"object":{"id":1.5}}"#).send();
    assert_eq!(differs(&other), ["json /object"]);
    let mode = publish(r#"{"object":{"id":1.50}}"#)
        .field("X-Mode", "live")
        .send();
    assert_eq!(differs(&mode), ["header x-mode"]);
    let nothing = publish(r#"{"objekt":{"id":1.50}}"#).send();
    assert_refused(&nothing, 400, "identity-missing", "never");
    assert!(
        nothing.text().contains("json /object"),
        "{}",
        nothing.text()
    );
    assert_eq!(upstream.heads().len(), 1);
}

/// What was recorded under another rule is neither another request nor, unless it is all the same,
/// the same one.
#[test]
fn a_rule_that_changed_never_reads_as_a_reused_key() {
    let upstream = Upstream::start(Keys::Honoured);
    let mut proxy = before(&upstream, "  - on: POST /publish\n");
    let body = r#"{"object":1,"link":"https://tmp/1"}"#;
    let publish =
        |proxy: &Proxy, key: &str, body: &str| proxy.post("/publish").key(key).json(body).send();
    let first = publish(&proxy, "k", body);
    assert_eq!(first.status, 201);
    proxy.stop();
    proxy.change_config(
        "on: POST /publish",
        "on: POST /publish\n        means: [ { json: /object } ]",
    );
    proxy.start_again();
    assert_replayed(&publish(&proxy, "k", body), &first);
    let other_link = publish(&proxy, "k", r#"{"object":1,"link":"https://tmp/2"}"#);
    assert_refused(&other_link, 409, "meaning-not-comparable", "never");
    assert_eq!(other_link.json()["operation"], "k");
    assert_eq!(upstream.heads().len(), 1);
    let under_the_rule = publish(&proxy, "k2", body);
    let fresh_link = publish(&proxy, "k2", r#"{"object":1,"link":"https://tmp/2"}"#);
    assert_replayed(&fresh_link, &under_the_rule);
}
