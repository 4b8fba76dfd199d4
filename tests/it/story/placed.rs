//! An upstream wants its key elsewhere than in a header, or something to find the operation by; or a
//! request must not be touched.
//!
//! What always holds: every attempt carries the same bytes; the provider, which knows repeats by what
//! stands in them, has one effect; nothing but the text that is put in differs from what was sent; where
//! it cannot be put in, nothing is sent and nothing is recorded.

use super::*;
use crate::support::gate::Gate;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";
const UPLOAD: &str = "multipart/form-data; boundary=b-1";

/// A key's place, what stands before it on the wire, and a request with `KEY` where it will be.
struct Placed {
    place: &'static str,
    before: &'static str,
    kind: &'static str,
    target: &'static str,
    body: &'static str,
}

const PLACES: [Placed; 5] = [
    Placed {
        place: "json: /idempotency_key",
        before: r#""idempotency_key":""#,
        kind: JSON,
        target: "/payments",
        body: r#"{"idempotency_key":"KEY", "amount" : 5.0 }"#,
    },
    Placed {
        place: "json: /headers/idempotencyKey",
        before: r#""idempotencyKey":""#,
        kind: JSON,
        target: "/payments",
        body: r#"{"to":[{"n":1}],"headers":{"idempotencyKey":"KEY","a":"b"}}"#,
    },
    Placed {
        place: "form: ClientToken",
        before: "ClientToken=",
        kind: FORM,
        target: "/payments",
        body: "Action=Run&Count=+1&ClientToken=KEY",
    },
    Placed {
        place: "query: requestId",
        before: "requestId=",
        kind: JSON,
        target: "/payments?alt=json&requestId=KEY",
        body: "{}",
    },
    Placed {
        place: "graphql: key",
        before: r#""key":""#,
        kind: JSON,
        target: "/payments",
        body: r#"{"query":"mutation M($key: ID!) { pay @idempotent(key: $key) { id } }","variables":{"key":"KEY","n":1}}"#,
    },
];

impl Placed {
    fn proxy(&self, upstream: &Upstream, value: &str, once: &str) -> Proxy {
        let place = self.place;
        let route = format!(
            "capability: [idempotent]\nkey: {{ {place}, lifetime: 24h, value: {value}, format: uuid }}\neffects:\n  - on: POST /payments\n    once: {once}\n"
        );
        Proxy::start(Setup::new(upstream.address(), &route))
    }

    /// As its caller sends it: without a key, or with his own.
    fn call(&self, proxy: &Proxy, key: Option<&str>) -> Call {
        let (target, body) = match key {
            Some(key) => (
                self.target.replace("KEY", key),
                self.body.replace("KEY", key),
            ),
            None => (without_key(self.target), without_key(self.body)),
        };
        proxy.post(&target).content(self.kind, &body)
    }
}

/// What is put in is a member, a pair or a parameter with what parts it from its neighbours.
fn without_key(text: &str) -> String {
    let with = [
        r#""idempotency_key":"KEY","#,
        r#""idempotencyKey":"KEY","#,
        "&ClientToken=KEY",
        "&requestId=KEY",
        r#""key":"KEY","#,
    ];
    with.iter()
        .fold(text.to_owned(), |text, with| text.replace(with, ""))
}

/// The content of every request that arrived whole, whether it had an effect or not.
fn arrived(upstream: &Upstream, body: &str) -> usize {
    upstream.text().matches(body).count()
}

#[test]
fn wherever_the_key_goes_a_lost_answer_is_asked_for_again_with_the_same_bytes() {
    for placed in PLACES {
        let upstream = Upstream::honouring(placed.before);
        let proxy = placed.proxy(&upstream, "derived", "{ header: Idempotency-Key }");
        upstream.next(Script::lose_answer());
        let call = placed.call(&proxy, None).key("k");

        let paid = call.send();

        let place = placed.place;
        assert_eq!(
            (paid.status, paid.text().as_str()),
            (201, r#"{"id":"effect-1"}"#),
            "{place}"
        );
        let effect = upstream.effect(1);
        let key = effect.key.clone().unwrap();
        assert_eq!((key.len(), &key[14..15]), (36, "4"), "{place}: {key}");
        assert_eq!(effect.body, placed.body.replace("KEY", &key), "{place}");
        assert_eq!(effect.path, placed.target.replace("KEY", &key), "{place}");
        let heads = upstream.heads();
        assert_eq!((upstream.effects().len(), heads.len()), (1, 2), "{place}");
        assert_eq!(heads[0].first_line, heads[1].first_line);
        let length = effect.body.len().to_string();
        for head in &heads {
            assert_eq!(head.fields.first("idempotency-key"), None, "{place}");
            assert_eq!(
                head.fields.first("content-length"),
                Some(length.as_str()),
                "{place}"
            );
        }
        assert_eq!(arrived(&upstream, &effect.body), 2, "{place}");
        assert_replayed(&call.send(), &paid);
        // Another operation has another key; the same one with other content is refused.
        let other = placed.call(&proxy, None).key("l").send();
        assert_eq!(other.text(), r#"{"id":"effect-2"}"#, "{place}");
    }
}

#[test]
fn a_callers_own_key_is_his_operations_name_and_is_left_where_it_stands() {
    const OWN: &str = "0b5fa5b6-55d1-4b8a-93c5-2f6a55f0a3a1";
    for placed in PLACES {
        let place = placed.place;
        let upstream = Upstream::honouring(placed.before);
        let proxy = placed.proxy(
            &upstream,
            "caller",
            &format!("{{ {place}, required: false }}"),
        );
        upstream.next(Script::lose_answer());
        let call = placed.call(&proxy, Some(OWN));

        let paid = call.send();

        assert_eq!(
            (paid.status, state(&proxy, OWN).as_str()),
            (201, "COMPLETED"),
            "{place}"
        );
        let effect = upstream.effect(1);
        assert_eq!(effect.body, placed.body.replace("KEY", OWN), "{place}");
        assert_eq!(arrived(&upstream, &effect.body), 2, "{place}");
        assert_replayed(&call.send(), &paid);
        // One without a key gets one, and one that is no UUID is not sent.
        let fresh = placed.call(&proxy, None).send();
        assert_eq!(
            (fresh.status, upstream.effects().len()),
            (201, 2),
            "{place}"
        );
        assert_eq!(upstream.effect(2).key.unwrap().len(), 36, "{place}");
        let bad = placed.call(&proxy, Some("mine")).send();
        assert_refused(&bad, 400, "identity-missing", "never");
        assert_eq!(upstream.effects().len(), 2, "{place}");
    }
}

#[test]
fn a_field_of_an_upload_is_put_before_its_parts() {
    let upstream = Upstream::honouring("name=\"key\"\r\n\r\n");
    let route = "capability: [idempotent]\nkey: { form: key, lifetime: 24h }\neffects:\n  - on: POST /payments\n";
    let proxy = Proxy::start(Setup::new(upstream.address(), route));
    let upload = "--b-1\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nabc\r\n--b-1--\r\n";
    upstream.next(Script::lose_answer());
    let paid = proxy
        .post("/payments")
        .key("k")
        .content(UPLOAD, upload)
        .send();
    assert_eq!(paid.status, 201, "{}", paid.text());
    let effect = upstream.effect(1);
    assert!(effect.body.ends_with(upload), "{}", effect.body);
    assert_eq!(
        (upstream.effects().len(), arrived(&upstream, &effect.body)),
        (1, 2)
    );
}

#[test]
fn a_request_that_cannot_carry_its_key_is_refused_before_anything_is_recorded() {
    let upstream = Upstream::honouring("idempotency_key");
    let proxy = PLACES[0].proxy(&upstream, "derived", "{ header: Idempotency-Key }");
    let call = |kind, body| proxy.post("/payments").key("k").content(kind, body);
    for (kind, body, why) in [
        (JSON, "[1]", "not a JSON object"),
        (JSON, "{\"a\":}", "cannot be read"),
        (JSON, "", "cannot be read"),
        (FORM, "a=1", "cannot be read"),
        (
            JSON,
            r#"{"idempotency_key":"mine"}"#,
            "stands there already",
        ),
        (
            JSON,
            r#"{"idempotency_key":"a","idempotency_key":"b"}"#,
            "more than once",
        ),
    ] {
        let refused = call(kind, body).send();
        // What has no canonical form is refused for that already.
        if refused.problem().as_deref() != Some("identity-missing") {
            assert_refused(&refused, 400, "insertion-refused", "never");
            assert!(refused.text().contains(why), "{body}: {}", refused.text());
            assert!(!refused.text().contains("mine"), "no content in a problem");
        }
    }
    let coded = call(JSON, "{}").field("Content-Encoding", "gzip").send();
    assert_refused(&coded, 400, "insertion-refused", "never");
    assert_eq!((upstream.heads().len(), recorded(&proxy)), (0, 0));
    // The very same name is free for a request that can.
    assert_eq!(call(JSON, "{}").send().status, 201);
}

#[test]
fn content_that_grows_beyond_its_limit_is_too_large() {
    let upstream = Upstream::start(Keys::Ignored);
    let route = "capability: [idempotent]\nkey: { json: /k, lifetime: 24h }\neffects:\n  - on: POST /payments\n    limits: { body: 50 }\n";
    let proxy = Proxy::start(Setup::new(upstream.address(), route));
    // `"k":"…36…",` are 43 bytes.
    let fits = proxy.post("/payments").key("k").json(r#"{"a":1}"#).send();
    assert_eq!((fits.status, upstream.effect(1).body.len()), (201, 50));
    let grows = proxy.post("/payments").key("l").json(r#"{"a":10}"#).send();
    assert_refused(&grows, 413, "body-too-large", "never");
    assert_eq!(upstream.effects().len(), 1);
}

#[test]
fn a_reference_goes_with_every_attempt_and_changes_nothing_for_who_repeats() {
    let upstream = Upstream::start(Keys::Honoured);
    let route = "capability: [idempotent]\nkey: { header: Idempotency-Key, lifetime: 24h }\neffects:\n  - on: POST /payments\n";
    let mut proxy = Proxy::start(Setup::new(upstream.address(), route));
    let call = |proxy: &Proxy, key: &str, body: &str| {
        proxy.post("/payments").key(key).content(FORM, body).send()
    };
    let before = call(&proxy, "k", "a=1");
    proxy.stop();
    let reference = "reference: [ { form: \"metadata[op]\" } ]\n    effects:";
    proxy.change_config("effects:", reference);
    proxy.start_again();

    // What was sent before the reference is the same operation still.
    assert_replayed(&call(&proxy, "k", "a=1"), &before);
    upstream.next(Script::lose_answer());
    let paid = call(&proxy, "l", "a=1");
    assert_eq!(paid.status, 201);
    let effect = upstream.effect(2);
    let (sent, reference) = effect.body.split_once("&metadata%5Bop%5D=fp-").unwrap();
    assert_eq!((sent, reference.len()), ("a=1", 32));
    assert_eq!(
        (upstream.effects().len(), arrived(&upstream, &effect.body)),
        (2, 2)
    );
    assert_replayed(&call(&proxy, "l", "a=1"), &paid);
    let other = call(&proxy, "l", "a=2");
    assert_refused(&other, 422, "idempotency-key-reused", "never");
    let own = call(&proxy, "m", "metadata[op]=mine");
    assert_refused(&own, 400, "insertion-refused", "never");
    assert_eq!(upstream.effects().len(), 2);
}

/// A config that puts other things into a request makes another request of it, under the same key.
#[test]
fn what_is_unsettled_is_not_sent_again_in_other_bytes() {
    for (from, to) in [
        ("json: /k", "json: /other"),
        ("format: any", "format: uuid"),
        ("effects:", "reference: [ { json: /ref } ]\n    effects:"),
    ] {
        let upstream = Upstream::honouring(r#""k":""#);
        let route = "capability: [idempotent]\nkey: { json: /k, format: any, lifetime: 24h }\neffects:\n  - on: POST /payments\n";
        let mut proxy = Proxy::start(Setup::new(upstream.address(), route));
        let gate = Gate::closed();
        upstream.next(Script::lose_answer());
        upstream.next(Script::cut_request_after(1).held_at(&gate));
        upstream.next(Script::hold_effect(&gate));
        let waiting = proxy.post("/payments").key("k").json("{}").start();
        gate.until_reached();
        proxy.kill();
        waiting.hang_up();
        gate.open();
        upstream.until_quiet();
        let (effects, heads) = (upstream.effects().len(), upstream.heads().len());
        proxy.change_config(from, to);
        proxy.start_again();

        until("it is held back", || {
            proxy.log().contains("puts other things into it")
        });
        assert_eq!(upstream.heads().len(), heads, "{to}");
        assert_ne!(state(&proxy, "k"), "COMPLETED", "{to}");

        // A config that is put right settles it.
        proxy.stop();
        proxy.change_config(to, from);
        proxy.start_again();
        until_state(&proxy, "k", "COMPLETED");
        assert_eq!((upstream.effects().len(), effects), (1, 1), "{to}");
    }
}

const AWS: &str = "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host, Signature=c";

#[test]
fn a_signed_request_is_refused_where_something_would_be_put_in() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = PLACES[2].proxy(&upstream, "derived", "{ header: Idempotency-Key }");
    for (name, value) in [
        ("Authorization", AWS),
        ("Content-Digest", "sha-256=:YQ==:"),
        ("Digest", "SHA-256=YQ=="),
        ("Content-MD5", "YQ=="),
        ("Signature", "sig1=:YQ==:"),
    ] {
        let signed = PLACES[2]
            .call(&proxy, None)
            .key("k")
            .field(name, value)
            .send();
        assert_refused(&signed, 400, "insertion-refused", "never");
        assert!(signed.text().contains("is signed"), "{}", signed.text());
    }
    assert_eq!((upstream.heads().len(), recorded(&proxy)), (0, 0));
}

#[test]
fn a_signed_request_that_is_left_alone_has_one_attempt_unless_it_brings_its_key() {
    let upstream = Upstream::honouring("ClientToken=");
    let route = "profile: aws-ec2\nkey: { lifetime: 24h }\n";
    let proxy = Proxy::start(Setup::new(upstream.address(), route));
    let call = |body: &str| {
        proxy
            .post("/")
            .content(FORM, body)
            .field("Authorization", AWS)
    };

    upstream.next(Script::lose_answer());
    let own = call("Action=Run&ClientToken=mine").send();
    assert_eq!((own.status, upstream.effects().len()), (201, 1));
    assert_eq!(
        upstream.heads().len(),
        2,
        "its own key makes it safe to send again"
    );

    upstream.next(Script::lose_answer());
    let without = call("Action=Run").send();
    assert_refused(&without, 504, "outcome-uncertain", "same-operation");
    let effect = upstream.effect(2);
    assert_eq!((effect.body.as_str(), effect.key), ("Action=Run", None));
    let id = without.field("fencepost-operation").unwrap().to_owned();
    until_state(&proxy, &id, "NEEDS_ATTENTION");
    assert_eq!((upstream.effects().len(), upstream.heads().len()), (2, 3));
    let connections = upstream.connections();
    assert!(
        connections >= 3,
        "each had a connection of its own: {connections}"
    );
}
