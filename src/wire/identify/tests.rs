//! What a request is found to be, field by field, and what refuses it.

mod principals;

use super::*;
use crate::config::{Insert, Unlisted};
use crate::expression::{PathTemplate, RequestPath};
use crate::protocol::ids::InstanceId;
use crate::protocol::policy::KeyValue;
use crate::wire::fixtures::{fenced, key_rule, keyed, upstream};
use crate::wire::route::{Routed, Router};
use http::{Request, StatusCode};

const PATH: &str = "/accounts/{account}/statements/{date}";
const TARGET: &str = "/accounts/a-42/statements/2026-09-13?draft=no";

/// A request as a caller sends it.
struct Sent<'a> {
    rules: Upstream,
    protect: Protect,
    target: &'a str,
    fields: Vec<(&'a str, &'a str)>,
    body: &'a str,
    caller: Caller,
    stamps: Stamps,
}

impl<'a> Sent<'a> {
    fn to(protect: Protect) -> Self {
        Self {
            rules: upstream(Vec::new(), Unlisted::Observe),
            protect,
            target: TARGET,
            fields: vec![("content-type", "application/json")],
            body: r#"{"object_key":"k/1","checksum":"c"}"#,
            caller: Caller::default(),
            stamps: Stamps::default(),
        }
    }

    fn with(mut self, name: &'a str, value: &'a str) -> Self {
        self.fields.push((name, value));
        self
    }

    fn body(mut self, body: &'a str) -> Self {
        self.body = body;
        self
    }

    fn identify(&self) -> Result<Identified, Unidentified> {
        let mut request = Request::put(self.target);
        for (name, value) in &self.fields {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let path = RequestPath::parse(head.uri.path()).unwrap();
        let params = PathTemplate::parse(PATH).unwrap().captures(&path).unwrap();
        let scope = Scope {
            tenant: &Tenant::new("payments"),
            upstream: &self.rules,
            fingerprints: &FingerprintKey::new(&[1; 32]),
        };
        let effect = Effect {
            protect: &self.protect,
            params: &params,
            head: &head,
            body: Bytes::copy_from_slice(self.body.as_bytes()),
            caller: &self.caller,
            first_attempt: AttemptId {
                instance: InstanceId(7),
                number: 3,
            },
            stamps: &self.stamps,
        };
        identify(scope, effect)
    }

    fn id(&self) -> String {
        self.identify().unwrap().key.id.as_str().to_owned()
    }

    fn presented(&self) -> Presented {
        self.identify().unwrap().presented.unwrap()
    }

    fn problem(&self) -> String {
        let reply = self.identify().unwrap_err().reply(None);
        let document: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        let kind = document["type"].as_str().unwrap();
        kind.replace("urn:fencepost:problem:", "")
    }
}

fn publication() -> Protect {
    fenced(
        "publish:{path.account}:{path.date}:{token.generation}",
        "statement:{path.account}:{path.date}",
    )
}

#[test]
fn a_publication_is_once_per_generation_of_its_statement() {
    let sent = Sent::to(publication())
        .with("Fencing-Token", "3:108")
        .with("Fencing-Acquisition", "acq-1")
        .with("Fencing-Sequence", "9")
        .with("Authorization", "Bearer x");
    let identified = sent.identify().unwrap();
    assert_eq!(
        identified.key.id.as_str(),
        "publish:a-42:2026-09-13:3%3A108"
    );
    assert_eq!(identified.key.tenant.as_str(), "payments");
    assert_eq!(identified.key.upstream.as_str(), "bank");
    assert!(identified.follows_incarnation);
    assert_eq!(identified.origin, IdentityOrigin::Derived);
    let presented = identified.presented.clone().unwrap();
    assert_eq!(
        presented.resource.name.as_str(),
        "statement:a-42:2026-09-13"
    );
    assert_eq!(
        presented.token,
        TokenField::Token(FencingToken::parse("3:108").unwrap())
    );
    assert_eq!(presented.acquisition, Some(AcquisitionId::new("acq-1")));
    assert_eq!(presented.sequence, Sequence::parse("9"));
    assert_eq!(presented.source.as_str(), "workers");
    let request = &identified.request;
    assert_eq!(request.target, TARGET);
    assert_eq!(request.method, "PUT");
    let names: Vec<_> = request
        .fields
        .iter()
        .map(|(name, _)| name.clone())
        .collect();
    assert_eq!(names, ["content-type", "authorization"], "ours stay here");
}

#[test]
fn an_id_without_the_generation_is_once_ever() {
    let once_ever = || fenced("pay:{body.object_key}", "statement:{path.account}");
    let of = |token| Sent::to(once_ever()).with("Fencing-Token", token);
    assert_eq!(of("107").id(), "pay:k%2F1");
    assert_eq!(of("107").id(), of("108").id());
    assert!(!of("107").identify().unwrap().follows_incarnation);
}

/// The next owner, with other credentials, asks for the same.
#[test]
fn fingerprints_know_neither_token_nor_credential_nor_key() {
    let of = |fields: &[(&'static str, &'static str)], body: &'static str| {
        let mut sent = Sent::to(fenced("pay:1", "r:1")).body(body);
        sent.fields.extend(fields);
        sent.identify().unwrap().meaning.fingerprint
    };
    let first = of(
        &[("fencing-token", "107"), ("authorization", "a")],
        r#"{"a":1,"b":2}"#,
    );
    let next = of(
        &[("fencing-token", "108"), ("idempotency-key", "x")],
        r#"{"b":2, "a":1}"#,
    );
    assert_eq!(first, next);
    assert_ne!(first, of(&[("fencing-token", "107")], r#"{"a":1,"b":3}"#));
}

/// C24.
#[test]
fn a_token_is_exactly_one_readable_field() {
    let field = |values: &[&'static str]| {
        let mut sent = Sent::to(fenced("pay:1", "r:1"));
        sent.fields
            .extend(values.iter().map(|value| ("fencing-token", *value)));
        sent.presented().token
    };
    assert_eq!(field(&[]), TokenField::Absent);
    assert_eq!(
        field(&["9007199254740993"]),
        TokenField::Token(FencingToken::new(0, 9_007_199_254_740_993).unwrap())
    );
    for values in [
        &["107", "107"][..],
        &["107", "108"],
        &[""],
        &["107, 108"],
        &["9007199254740992.0"],
        &["9.007e15"],
        &["+5"],
        &["٥"],
        &["18446744073709551616"],
    ] {
        assert_eq!(field(values), TokenField::Malformed, "{values:?}");
    }
}

#[test]
fn an_unreadable_sequence_or_acquisition_spoils_the_token() {
    for fields in [
        &[("fencing-sequence", "1.0")][..],
        &[("fencing-sequence", "1"), ("fencing-sequence", "1")],
        &[("fencing-sequence", "")],
        &[("fencing-acquisition", "a"), ("fencing-acquisition", "a")],
        &[("fencing-acquisition", "")],
    ] {
        let mut sent = Sent::to(fenced("pay:1", "r:1")).with("fencing-token", "107");
        sent.fields.extend(fields);
        assert_eq!(sent.presented().token, TokenField::Malformed, "{fields:?}");
    }
}

#[test]
fn an_identity_with_the_generation_refuses_for_the_token_and_not_for_itself() {
    assert_eq!(Sent::to(publication()).problem(), "fencing-token-required");
    let malformed = Sent::to(publication()).with("fencing-token", "0108");
    assert_eq!(malformed.problem(), "fencing-token-malformed");
}

#[test]
fn the_callers_key_is_one_bare_or_quoted() {
    let of = |key| Sent::to(keyed(true)).with("Idempotency-Key", key);
    assert_eq!(of("abc").id(), "abc");
    assert_eq!(of("\"abc\"").id(), "abc");
    assert_eq!(of("abc").identify().unwrap().origin, IdentityOrigin::Caller);
    let within =
        |key| Sent::to(fenced("pay:{headers.idempotency-key}", "r:1")).with("idempotency-key", key);
    assert_eq!(within("a:b").id(), "pay:a%3Ab");
    assert_eq!(within("\"a:b\"").id(), within("a:b").id());
    let request = of("abc").identify().unwrap().request;
    assert!(
        request
            .fields
            .iter()
            .all(|(name, _)| name != "idempotency-key")
    );
}

#[test]
fn a_key_that_cannot_be_read_is_never_taken_for_none() {
    for required in [true, false] {
        for key in ["", "a b", "\"a", &"k".repeat(256)] {
            let sent = Sent::to(keyed(required)).with("Idempotency-Key", key);
            assert_eq!(sent.problem(), "idempotency-key-malformed", "{key}");
        }
        let doubled = Sent::to(keyed(required))
            .with("Idempotency-Key", "a")
            .with("idempotency-key", "a");
        assert_eq!(doubled.problem(), "idempotency-key-malformed");
    }
}

#[test]
fn without_a_key_it_is_refused_or_a_fresh_operation() {
    assert_eq!(Sent::to(keyed(true)).problem(), "idempotency-key-required");
    let fresh = Sent::to(keyed(false)).identify().unwrap();
    assert_eq!(fresh.origin, IdentityOrigin::Fresh);
    assert_eq!(
        fresh.key.id.as_str(),
        "fresh:00000000000000000000000000000007-3"
    );
}

#[test]
fn a_value_that_cannot_be_had_refuses_and_is_named() {
    for (once, body, expected) in [
        ("pay:{body.order.id}", r#"{"order":{}}"#, "json /order/id"),
        (
            "pay:{body.order.id}",
            r#"{"order":{"id":null}}"#,
            "json /order/id",
        ),
        (
            "pay:{body.order.id}",
            r#"{"order":{"id":1.5}}"#,
            "json /order/id",
        ),
        ("pay:{body.order.id}", "not json", "json /order/id"),
        ("pay:{query.missing}", "{}", "query missing"),
        ("pay:{headers.x-order}", "{}", "header x-order"),
    ] {
        let sent = Sent::to(fenced(once, "r:1")).body(body);
        let Unidentified::Fault(Fault::IdentityMissing { field }) = sent.identify().unwrap_err()
        else {
            panic!("{once}");
        };
        assert!(field.starts_with(expected), "{field}");
    }
    let resource = Sent::to(fenced("pay:1", "r:{query.missing}"));
    assert_eq!(resource.problem(), "identity-missing");
}

/// B05.
#[test]
fn content_that_can_mean_two_things_is_refused() {
    for body in [r#"{"a":1,"a":1,"b":2}"#, "\u{FEFF}{}", "{\"a\":1,}"] {
        let sent = Sent::to(keyed(false)).body(body);
        assert_eq!(sent.problem(), "identity-missing", "{body}");
        assert_eq!(
            sent.identify().unwrap_err().reply(None).status,
            StatusCode::BAD_REQUEST
        );
    }
}

#[test]
fn a_key_that_is_passed_on_has_to_fit_the_upstream() {
    let of = |key| {
        let mut sent = Sent::to(keyed(true)).with("Idempotency-Key", key);
        let rule = Some(key_rule(KeyValue::Caller, Some(8)));
        sent.protect.insert = Arc::new(Insert::of_key(rule));
        sent
    };
    assert_eq!(of("12345678").id(), "12345678");
    assert_eq!(of("123456789").problem(), "identity-missing");
}

#[test]
fn a_request_is_conditional_only_with_a_condition_that_orders() {
    let of = |name, value| {
        let mut sent = Sent::to(keyed(false)).with(name, value);
        sent.rules.capability.conditional = true;
        sent.identify().unwrap().conditional
    };
    assert!(of("if-match", "\"v1\""));
    assert!(of("if-none-match", "*"));
    assert!(!of("if-match", "*"));
    assert!(
        !of("if-none-match", "\"v1\""),
        "it holds again after every write but one"
    );
    assert!(!of("x-other", "1"));
    let plain = Sent::to(keyed(false)).with("if-match", "\"v1\"");
    assert!(!plain.identify().unwrap().conditional, "not checked there");
}

#[test]
fn the_question_carries_what_was_identified() {
    let identified = Sent::to(publication())
        .with("fencing-token", "108")
        .identify()
        .unwrap();
    let attempt = AttemptId {
        instance: InstanceId(7),
        number: 9,
    };
    let at = Moment {
        boot: crate::protocol::time::BootId(1),
        boottime: crate::protocol::time::BootInstant(5),
        wall_ms: 5,
    };
    let admit = identified.admit(attempt, at, true);
    assert_eq!(admit.key, identified.key);
    assert_eq!(admit.attempt, attempt);
    assert_eq!(admit.presented, identified.presented);
    assert!(admit.reserved && admit.follows_incarnation);
    assert_eq!(identified.about().resource, identified.resource());
}

/// The ready-made files, from the request line to the identity.
#[test]
fn the_files_that_are_delivered_identify_as_their_comments_say() {
    let read = |text, target: &str, fields: &[(&str, &str)], body: &'static str| {
        let (config, _) = crate::config::parse(text, "test").unwrap();
        let router = Router::new(Arc::clone(&config.upstreams[0]));
        let mut request = Request::post(target);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let Routed::Protect {
            protect, params, ..
        } = router.route(&head.method, head.uri.path()).unwrap()
        else {
            panic!("{target} is not protected");
        };
        let scope = Scope {
            tenant: &config.tenant,
            upstream: router.upstream(),
            fingerprints: &FingerprintKey::new(&[1; 32]),
        };
        let effect = Effect {
            protect,
            params: &params,
            head: &head,
            body: Bytes::from_static(body.as_bytes()),
            caller: &Caller::default(),
            first_attempt: AttemptId {
                instance: InstanceId(7),
                number: 3,
            },
            stamps: &Stamps::default(),
        };
        identify(scope, effect).unwrap()
    };
    let form = ("content-type", "application/x-www-form-urlencoded");
    let key = ("idempotency-key", "2f1c-7");
    let stripe = include_str!("../../../config/stripe.yaml");
    let charge = read(stripe, "/v1/charges", &[form, key], "amount=1&currency=eur");
    assert_eq!(charge.key.id.as_str(), "2f1c-7");
    assert_eq!(charge.origin, IdentityOrigin::Caller);
    assert_eq!(charge.presented, None);
    let keyless = read(stripe, "/v1/charges", &[form], "amount=1&currency=eur");
    assert_eq!(keyless.origin, IdentityOrigin::Fresh);
    assert_eq!(keyless.meaning, charge.meaning);

    let json = ("content-type", "application/json");
    let statements = include_str!("../../../config/statements.yaml");
    let of = |token| {
        let fields = [json, ("fencing-token", token)];
        read(
            statements,
            "/accounts/a-42/payments",
            &fields,
            r#"{"payment_id":17}"#,
        )
    };
    assert_eq!(of("107").key.id.as_str(), "payment:a-42:17");
    assert_eq!(of("107").key, of("108").key, "once ever");
    assert_eq!(of("107").origin, IdentityOrigin::Derived);
    let resource = of("107").resource().unwrap().name.clone();
    assert_eq!(resource.as_str(), "account:a-42");
}
