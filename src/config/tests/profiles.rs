//! Profiles: what each brings, what its answers prove, and those of a directory of one's own.

use super::*;
use crate::protocol::policy::Capability;
use bytes::Bytes;

/// Name, place of the key, whose key, longest, lifetimes of its effects in minutes.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    Option<usize>,
    &'static [u64],
);

const HOUR: u64 = 60;
const DAY: u64 = 24 * HOUR;

const ROWS: [Row; 16] = [
    (
        "adyen",
        "header idempotency-key",
        "caller",
        Some(64),
        &[7 * DAY],
    ),
    ("aws-ec2", "form ClientToken", "caller", Some(64), &[]),
    (
        "brevo",
        "json /headers/idempotencyKey",
        "caller",
        Some(36),
        &[15],
    ),
    (
        "checkout-com",
        "header cko-idempotency-key",
        "caller",
        None,
        &[DAY, DAY, DAY, DAY],
    ),
    ("generic", "header idempotency-key", "caller", None, &[]),
    ("gocardless", "header idempotency-key", "caller", None, &[]),
    (
        "google",
        "query requestId",
        "caller",
        Some(36),
        &[HOUR, HOUR, HOUR, HOUR],
    ),
    ("ietf", "header idempotency-key", "caller", None, &[]),
    (
        "increase",
        "header idempotency-key",
        "caller",
        Some(200),
        &[],
    ),
    (
        "paypal",
        "header paypal-request-id",
        "caller",
        Some(38),
        &[6 * HOUR, 6 * HOUR, 6 * HOUR, 6 * HOUR, 45 * DAY, 30 * DAY],
    ),
    (
        "resend",
        "header idempotency-key",
        "caller",
        Some(256),
        &[DAY, DAY],
    ),
    (
        "shopify-graphql",
        "graphql $idempotencyKey",
        "caller",
        Some(36),
        &[DAY],
    ),
    ("square", "json /idempotency_key", "caller", Some(45), &[]),
    (
        "stripe-v1",
        "header idempotency-key",
        "caller",
        Some(255),
        &[DAY, DAY, DAY, DAY, DAY, DAY, DAY],
    ),
    (
        "stripe-v2",
        "header idempotency-key",
        "caller",
        None,
        &[30 * DAY, 30 * DAY],
    ),
    (
        "wise",
        "json /customerTransactionId",
        "caller",
        Some(36),
        &[],
    ),
];

fn of(profile: &str) -> Config {
    good(&upstream(&format!("    profile: {profile}\n")))
}

#[test]
fn each_profile_says_where_its_key_goes_and_for_how_long_it_counts() {
    for (name, place, value, longest, lifetimes) in ROWS {
        let config = of(name);
        let upstream = &config.upstreams[0];
        let key = upstream.key.as_ref().unwrap();
        assert_eq!(
            (key.slot.to_string().as_str(), key.longest),
            (place, longest),
            "{name}"
        );
        assert_eq!(key.is_callers(), value == "caller", "{name}");
        let of_effects: Vec<u64> = upstream
            .protects()
            .filter_map(|protect| protect.policy.settle.key?.lifetime)
            .map(|lifetime| lifetime.0 / 60_000)
            .collect();
        assert_eq!(of_effects, lifetimes, "{name}");
        // What an upstream asks to be a UUID is one, and nothing else is.
        let is_uuid = ["brevo", "google", "shopify-graphql", "wise"].contains(&name);
        assert_eq!(key.format == KeyFormat::Uuid, is_uuid, "{name}");
    }
}

#[test]
fn an_upstream_without_keys_gets_one_attempt() {
    for name in ["github", "sendgrid", "twilio"] {
        let config = of(name);
        let upstream = &config.upstreams[0];
        assert!(
            upstream.capability.is_opaque() && upstream.key.is_none(),
            "{name}"
        );
        assert!(upstream.fresh_connections, "{name}");
    }
    let s3 = of("s3");
    let conditional = Capability {
        conditional: true,
        ..Capability::default()
    };
    assert_eq!(s3.upstreams[0].capability, conditional);
    let known: Vec<&str> = ROWS.iter().map(|row| row.0).collect();
    let others = ["github", "sendgrid", "twilio", "s3"];
    for name in profile::names() {
        assert!(
            known.contains(&name) || others.contains(&name),
            "{name} is in no test"
        );
    }
}

/// Profile, effect, and its steps: `?` is a question that can say "applied", `!` one that says "not applied" too.
const WAYS: &[(&str, &str, &str)] = &[
    ("adyen", "POST /{path...}", "send_again"),
    ("brevo", "POST /v3/smtp/email", "send_again"),
    ("checkout-com", "POST /payments", "look_up?"),
    ("checkout-com", "POST /transfers", ""),
    (
        "google",
        "POST /compute/v1/projects/{project}/global/{collection}",
        "send_again look_up?",
    ),
    ("google", "POST /{path...}", "send_again"),
    ("increase", "POST /{collection}", "send_again look_up?"),
    ("paypal", "POST /v2/checkout/orders", "send_again"),
    (
        "paypal",
        "POST /v2/checkout/orders/{order}/capture",
        "send_again look_up?",
    ),
    ("s3", "PUT /{bucket}/{key...}", "compare"),
    ("sendgrid", "POST /v3/mail/send", ""),
    ("square", "POST /v2/payments", "send_again void"),
    ("square", "POST /v2/refunds", "send_again"),
    (
        "stripe-v1",
        "POST /v1/payment_intents",
        "send_again look_up!",
    ),
    ("stripe-v1", "POST /v1/charges", "send_again look_up!"),
    ("stripe-v1", "POST /v1/refunds", "send_again look_up?"),
    ("stripe-v1", "POST /{path...}", "send_again"),
    ("wise", "POST /v1/transfers", "send_again look_up?"),
];

/// "Not found" is "not applied" only where the vendor says how late its list may be, and only after twice that: with
/// Stripe's search alone.
#[test]
fn each_profile_has_its_way_to_the_truth() {
    for (name, effect, ways) in WAYS {
        let config = of(name);
        let mut effects = config.upstreams[0].effects.iter();
        let effect = effects.find(|it| it.name == *effect).unwrap();
        let Action::Protect(protect) = &effect.action else {
            panic!("{name}: {} is passed", effect.name);
        };
        let told = protect.policy.settle.steps.iter().map(|(_, step)| {
            let question = step.question().map(|asked| asked.name.as_str());
            let asked = question.and_then(|name| protect.asking.look_up(name));
            let says = match asked.map(|it| (it.applied.is_some(), it.not_applied.is_some())) {
                None => "",
                Some((true, true)) => "!",
                Some((true, false)) => "?",
                Some((false, _)) => "no",
            };
            format!("{}{says}", step.word().replace(' ', "_"))
        });
        assert_eq!(
            told.collect::<Vec<_>>().join(" "),
            *ways,
            "{name} {}",
            effect.name
        );
    }
    for name in profile::names() {
        for protect in of(name).upstreams[0].protects() {
            for (_, step) in protect.policy.settle.steps.iter() {
                let Some(question) = step.question() else {
                    continue;
                };
                let asked = protect.asking.look_up(question.name.as_str());
                let denies = asked.is_some_and(|asked| asked.not_applied.is_some());
                assert!(!denies || name == "stripe-v1", "{name}");
                assert!(!denies || question.lag.0 == 2 * HOUR * 60_000, "{name}");
            }
        }
    }
}

/// What an answer with this JSON content proves of the first effect.
fn proves_with(profile: &str, status: u16, body: &str) -> AnswerClass {
    let fields = [(Bytes::from("content-type"), Bytes::from("application/json"))];
    let facts = AnswerFacts {
        status,
        fields: &fields,
        body: Some(body.as_bytes()),
    };
    protect_of(&of(profile)).answers.class(&facts, false)
}

/// Profile, status, content, and what it proves.
const ANSWERS: &[(&str, u16, &str, AnswerClass)] = {
    use AnswerClass::{Ambiguous, Applied, NotProcessed, Refused};
    &[
        ("stripe-v1", 200, "{}", Applied),
        ("stripe-v1", 402, "{}", Refused),
        (
            "stripe-v1",
            400,
            r#"{"error":{"type":"idempotency_error"}}"#,
            Ambiguous,
        ),
        (
            "stripe-v1",
            400,
            r#"{"error":{"type":"invalid_request_error"}}"#,
            NotProcessed,
        ),
        // Whoever cannot tell does not say that nothing happened.
        ("stripe-v1", 400, "<html>", Ambiguous),
        (
            "stripe-v1",
            409,
            r#"{"error":{"code":"idempotency_key_in_use"}}"#,
            Ambiguous,
        ),
        ("stripe-v1", 424, "{}", Ambiguous),
        ("stripe-v1", 500, "{}", Ambiguous),
        (
            "stripe-v2",
            400,
            r#"{"error":{"type":"idempotency_error"}}"#,
            Ambiguous,
        ),
        (
            "stripe-v2",
            400,
            r#"{"error":{"type":"invalid"}}"#,
            NotProcessed,
        ),
        ("adyen", 422, r#"{"errorCode":"704"}"#, Ambiguous),
        ("adyen", 422, r#"{"errorCode":"100"}"#, NotProcessed),
        ("adyen", 422, "{}", NotProcessed),
        ("adyen", 503, r#"{"errorCode":"703"}"#, Ambiguous),
        (
            "paypal",
            409,
            r#"{"name":"PREVIOUS_REQUEST_IN_PROGRESS"}"#,
            Ambiguous,
        ),
        (
            "paypal",
            422,
            r#"{"details":[{"issue":"PREVIOUS_REQUEST_IN_PROGRESS"}]}"#,
            Ambiguous,
        ),
        (
            "paypal",
            422,
            r#"{"details":[{"issue":"OTHER"}]}"#,
            NotProcessed,
        ),
        (
            "square",
            400,
            r#"{"errors":[{"code":"IDEMPOTENCY_KEY_REUSED"}]}"#,
            Ambiguous,
        ),
        (
            "square",
            400,
            r#"{"errors":[{"code":"OTHER"}]}"#,
            NotProcessed,
        ),
        ("brevo", 400, r#"{"code":"duplicate_parameter"}"#, Ambiguous),
        (
            "brevo",
            400,
            r#"{"code":"missing_parameter"}"#,
            NotProcessed,
        ),
        ("gocardless", 409, "{}", Ambiguous),
        (
            "increase",
            409,
            r#"{"type":"idempotency_key_already_used_error"}"#,
            Ambiguous,
        ),
        (
            "resend",
            409,
            r#"{"name":"invalid_idempotent_request"}"#,
            Ambiguous,
        ),
        ("aws-ec2", 400, "{}", Ambiguous),
        ("ietf", 422, "{}", Ambiguous),
        ("generic", 422, "{}", NotProcessed),
    ]
};

#[test]
fn an_error_that_is_about_the_key_proves_nothing() {
    for (profile, status, body, class) in ANSWERS {
        let proved = proves_with(profile, *status, body);
        assert_eq!(proved, *class, "{profile} {status} {body}");
    }
}

#[test]
fn an_error_inside_a_200_is_seen() {
    use AnswerClass::{Ambiguous, Applied, NotProcessed, Refused};
    let data = |inner: &str| format!(r#"{{"data":{{"pay":{inner}}}}}"#);
    for (body, class) in [
        (data(r#"{"id":1}"#), Applied),
        (data(r#"{"id":1,"userErrors":[]}"#), Applied),
        (data(r#"{"userErrors":[{"code":"INVALID"}]}"#), Refused),
        // It may be about the key: the document did not ask for the code.
        (data(r#"{"userErrors":[{"message":"no"}]}"#), Ambiguous),
        (
            data(r#"{"userErrors":[{"code":"INVALID"},{"message":"no","code":null}]}"#),
            Ambiguous,
        ),
        (
            data(r#"{"userErrors":[{"code":"IDEMPOTENCY_CONCURRENT_REQUEST"}]}"#),
            Ambiguous,
        ),
        // One of two happened.
        (
            r#"{"data":{"a":{"id":1},"b":{"userErrors":[{"code":"INVALID"}]}}}"#.to_owned(),
            Ambiguous,
        ),
        (
            r#"{"errors":[{"extensions":{"code":"THROTTLED"}}]}"#.to_owned(),
            NotProcessed,
        ),
        (
            r#"{"errors":[{"message":"internal"}]}"#.to_owned(),
            Ambiguous,
        ),
        (
            r#"{"data":{"pay":null},"errors":[{"extensions":{"code":"THROTTLED"}}]}"#.to_owned(),
            Ambiguous,
        ),
        (data("null"), Ambiguous),
        ("[]".to_owned(), Ambiguous),
        ("<html>".to_owned(), Ambiguous),
    ] {
        assert_eq!(proves_with("shopify-graphql", 200, &body), class, "{body}");
    }
}

#[test]
fn object_storage_says_that_it_stored_by_an_etag() {
    let class = |status, field: &'static str, conditional| {
        let fields = [(Bytes::from(field), Bytes::from("\"v\""))];
        let facts = AnswerFacts {
            status,
            fields: &fields,
            body: None,
        };
        protect_of(&of("s3")).answers.class(&facts, conditional)
    };
    assert_eq!(class(200, "etag", true), AnswerClass::Applied);
    // A copy that fails says so inside of a 200.
    assert_eq!(class(200, "x-amz-request-id", true), AnswerClass::Ambiguous);
    assert_eq!(
        class(412, "x-amz-request-id", true),
        AnswerClass::ConditionFailed
    );
    assert_eq!(
        class(412, "x-amz-request-id", false),
        AnswerClass::Ambiguous
    );
}

#[test]
fn a_profile_of_ones_own_directory_stands_before_the_one_that_is_compiled_in() {
    let own = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(own.path().join(name), text).unwrap();
    write(
        "mine.yaml",
        "capability: [idempotent]\nkey: { query: k, lifetime: 1h }\neffects: [ { on: POST /x } ]\n",
    );
    write(
        "square.yaml",
        "capability: [opaque]\neffects: [ { on: POST /x } ]\n",
    );
    write("bad.yaml", "capability: [\n");
    write(
        "wrong.yaml",
        "capability: [idempotent]\nkey: { header: K, lifetime: soon }\n",
    );
    let directory = own.path().display();
    let with = |profile: &str| {
        upstream(&format!("    profile: {profile}\n"))
            .replace("version: 1", &format!("version: 1\nprofiles: {directory}"))
    };
    let mine = good(&with("mine"));
    assert_eq!(
        mine.upstreams[0].key.as_ref().unwrap().slot.to_string(),
        "query k"
    );
    assert!(
        mine.files.contains(&own.path().join("mine.yaml")),
        "it is watched"
    );
    assert!(good(&with("square")).upstreams[0].key.is_none());
    assert!(good(&with("stripe-v1")).upstreams[0].key.is_some());
    for (profile, part) in [
        ("bad", "profile `bad`, line "),
        ("wrong", "`soon` is not"),
        ("other", "there is no profile `other`"),
        ("../mine", "is not the name of a profile"),
    ] {
        let problems = refused(&with(profile)).to_string();
        assert!(problems.contains(part), "{profile}: {problems}");
    }
    let nowhere = with("mine").replace(&directory.to_string(), "/nowhere/at/all");
    assert!(refused(&nowhere).to_string().contains("is no directory"));

    write("bad.yaml", "");
    let all = profiles(Some(own.path())).unwrap();
    let named = |name: &str| all.iter().find(|it| it.name == name).unwrap();
    assert_eq!(all.len(), profile::names().len() + 3);
    assert_eq!(named("mine").file, Some(own.path().join("mine.yaml")));
    assert_eq!(named("square").fields["capability"][0], "opaque");
    assert!(named("adyen").yaml.contains("docs.adyen.com") && named("adyen").file.is_none());
}
