//! Operations recorded under one config, judged by another.

use std::num::NonZeroU32;

use super::*;
use crate::config;
use crate::protocol::ids::StepName;
use crate::protocol::ids::{AdmissionNumber, FencingToken, Fingerprint, Round};
use crate::protocol::meaning::Members;
use crate::protocol::operation::{KeyUse, Place, State, WhyNot};
use crate::protocol::outcome::Provenance;
use crate::protocol::policy::Ownership;
use crate::protocol::settling::Settling;
use crate::protocol::steps::{Backoff, LookUpPolicy, SettleStep, Steps};
use crate::protocol::time::{BootId, BootInstant, Millis, Moment};
use crate::wire::identify::Identified;

const CONFIG: &str = r#"
version: 1
tenant: payments
upstreams:
  bank:
    listen: 127.0.0.1:1
    url: http://bank.internal
    capability: [idempotent]
    key: { header: Idempotency-Key, lifetime: 24h }
    principal: [ { header: X-Account } ]
    effects:
      - on: POST /payments
        once: { header: Idempotency-Key }
      - on: PUT /statements/{date}
        once: "publish:{path.date}:{token.generation}"
        fence: { resource: "statement:{path.date}" }
"#;

fn config(text: &str) -> Config {
    config::parse(text, "test")
        .unwrap_or_else(|it| panic!("{it}\n{text}"))
        .0
}

const START: Moment = Moment {
    boot: BootId(1),
    boottime: BootInstant(0),
    wall_ms: 0,
};

/// A question, and nothing that sends.
fn asking() -> Steps {
    let (every, lag) = (Millis(1_000), Millis(1_000));
    let question = SettleStep::LookUp(LookUpPolicy {
        name: StepName::new("look_up"),
        lag,
        samples: NonZeroU32::MIN,
        every: Backoff {
            from: every,
            to: every,
        },
        within: Millis(60_000),
        tells_forms: false,
    });
    Steps::new(vec![question]).unwrap()
}

/// The same config but for one place.
fn changed(from: &str, to: &str) -> Config {
    assert!(CONFIG.contains(from), "{from}");
    config(&CONFIG.replace(from, to))
}

/// An operation as its admission would have recorded it, with its request.
fn recorded(method: &str, path: &str, fields: &[(&str, &str)]) -> (Operation, StoredRequest) {
    let config = config(CONFIG);
    let router = Router::new(Arc::clone(&config.upstreams[0]));
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in [("x-account", "acme")].iter().chain(fields) {
        request = request.header(*name, *value);
    }
    let (head, ()) = request.body(()).unwrap().into_parts();
    let Ok(Routed::Protect {
        protect, params, ..
    }) = router.route(&head.method, path)
    else {
        panic!("no effect")
    };
    let scope = Scope {
        tenant: &config.tenant,
        upstream: router.upstream(),
        fingerprints: &FingerprintKey::new(&[0; 32]),
    };
    let effect = Effect {
        protect,
        params: &params,
        head: &head,
        body: Bytes::from_static(b"{}"),
        caller: &Caller::default(),
        first_attempt: NOBODY,
        stamps: &Stamps::default(),
    };
    let identified = identify(scope, effect).unwrap();
    (operation(&identified), (*identified.request).clone())
}

fn operation(identified: &Identified) -> Operation {
    let token = FencingToken::parse("108");
    Operation {
        key: identified.key.clone(),
        origin: identified.origin,
        place: identified.resource().map(|resource| Place {
            resource: resource.name.clone(),
            incarnation: identified.key.incarnation,
            token,
            sequence: None,
            number: AdmissionNumber(1),
        }),
        order: identified.policy.order,
        fingerprint: Fingerprint {
            key: 0,
            form: 1,
            digest: [0; 32],
        },
        key_use: KeyUse {
            round: Round(0),
            first: None,
        },
        settle: identified.policy.settle.clone(),
        state: State::Uncertain,
        attempts: Vec::new(),
        admitted: 1,
        resends: 0,
        require: Ownership::NotOlder,
        request_kept: true,
        first_seen: START,
        changed: START,
        credentialed: false,
        members: Members::default(),
        settling: Settling::default(),
    }
}

fn payment() -> (Operation, StoredRequest) {
    recorded("POST", "/payments", &[("idempotency-key", "k-1")])
}

fn statement() -> (Operation, StoredRequest) {
    recorded("PUT", "/statements/2026-09-13", &[("fencing-token", "108")])
}

/// With the request, knowing the config of before; with it alone; without it but knowing; knowing
/// nothing but the record.
fn judged(after: &Config, (operation, request): &(Operation, StoredRequest)) -> [Vec<Change>; 4] {
    let before = config(CONFIG);
    let knowing = Judge::new(after, Some(&before));
    let alone = Judge::new(after, None);
    [
        knowing.changes(operation, Some(request)),
        alone.changes(operation, Some(request)),
        knowing.changes(operation, None),
        alone.changes(operation, None),
    ]
}

#[test]
fn nothing_changes_by_what_has_nothing_to_do_with_it() {
    for after in [
        config(CONFIG),
        changed("listen: 127.0.0.1:1", "listen: 127.0.0.1:2"),
        changed("  bank:", "  renamed:\n    id: bank"),
        changed("lifetime: 24h", "lifetime: 12h"),
        changed(
            "    effects:\n",
            "    effects:\n      - on: POST /other\n        once: \"o:{body.id}\"\n",
        ),
    ] {
        for recorded in [payment(), statement()] {
            assert_eq!(judged(&after, &recorded), [const { Vec::new() }; 4]);
        }
    }
}

#[test]
fn what_is_the_same_for_the_whole_upstream() {
    for recorded in [payment(), statement()] {
        let all = |changes: &[Change]| [(); 4].map(|()| changes.to_vec());
        let judged = |from, to| judged(&changed(from, to), &recorded);
        assert_eq!(judged("payments", "other"), all(&[Change::Tenant]));
        assert_eq!(judged("  bank:", "  other:"), all(&[Change::UpstreamGone]));
        assert_eq!(
            judged("principal: [ { header: X-Account } ]", "principal: none"),
            all(&[Change::Principal])
        );
        let other = judged("header: X-Account", "header: X-Customer");
        assert_eq!(other[..3], all(&[Change::Principal])[..3]);
        assert_eq!(other[3], [], "the record alone does not say which header");
        let elsewhere = judged("bank.internal", "bank2.internal");
        assert_eq!(elsewhere[0], [Change::Elsewhere]);
        assert_eq!(elsewhere[2], [Change::Elsewhere]);
    }
}

/// The certificate is not stored: whose an operation is, the rules say; everything else, its request.
#[test]
fn callers_by_certificate_are_compared_by_the_rules() {
    let by = |name: &str, id: &str| {
        let principal = format!(
            "listen_tls: {{ cert: c, key: k, client_ca: a }}\n    \
             principal: [ {{ client_certificate: {name} }} ]"
        );
        let text = CONFIG.replace("principal: [ { header: X-Account } ]", &principal);
        config(&text.replace("publish:", id))
    };
    let before = by("subject", "publish:");
    let judged = |after: &Config| {
        let (operation, request) = statement();
        Judge::new(after, Some(&before)).changes(&operation, Some(&request))
    };
    assert_eq!(judged(&before), []);
    assert_eq!(judged(&by("uri", "publish:")), [Change::Principal]);
    assert!(!is_same_for_all(&before, &by("uri", "publish:")));
    assert!(matches!(
        &judged(&by("subject", "put:"))[..],
        [Change::Id(Some(id))] if id.starts_with("put:")
    ));
    let header = config(CONFIG);
    let others = by("dns", "publish:");
    let (operation, request) = statement();
    let changes = Judge::new(&others, Some(&header)).changes(&operation, Some(&request));
    assert_eq!(changes, [Change::Principal]);
}

#[test]
fn whether_any_name_changes_at_all() {
    let same = |after: &Config| is_same_for_all(&config(CONFIG), after);
    for (from, to) in [
        ("listen: 127.0.0.1:1", "listen: 127.0.0.1:2"),
        ("lifetime: 24h", "lifetime: 12h"),
        ("  bank:", "  renamed:\n    id: bank"),
        (
            "    effects:",
            "    timeouts: { response: 9s }\n    effects:",
        ),
    ] {
        assert!(same(&changed(from, to)), "{to}");
    }
    for (from, to) in [
        ("payments", "other"),
        ("  bank:", "  other:"),
        ("bank.internal", "bank2.internal"),
        ("X-Account", "X-Customer"),
        (
            "header: Idempotency-Key, lifetime",
            "header: X-Key, lifetime",
        ),
        (
            "once: { header: Idempotency-Key }",
            "once: { header: X-Key }",
        ),
        (
            "once: { header: Idempotency-Key }",
            "once: { header: Idempotency-Key, required: true }",
        ),
        ("once: { header: Idempotency-Key }", "pass: {}"),
        ("publish:", "p:"),
        ("\"statement:", "\"s:"),
        ("PUT /statements", "PUT|PATCH /statements"),
        ("    effects:", "    unlisted: protect\n    effects:"),
        ("tenant:", "mode: observe\ntenant:"),
        ("    effects:", "    mode: observe\n    effects:"),
        (
            "- on: POST /payments",
            "- on: POST /payments\n        mode: observe",
        ),
    ] {
        assert!(!same(&changed(from, to)), "{to}");
    }
}

/// Another rule that could have named the payment goes; the request that would tell is not stored.
#[test]
fn in_doubt_it_is_the_unsettled_operation_that_counts_as_changed() {
    let two =
        "    effects:\n      - on: POST /refunds\n        once: { header: Idempotency-Key }\n";
    let before = changed("    effects:\n", two);
    let (mut operation, request) = payment();
    let after = config(CONFIG);
    let judge = Judge::new(&after, Some(&before));
    assert_eq!(judge.changes(&operation, Some(&request)), []);
    assert_eq!(judge.changes(&operation, None), [Change::Id(None)]);
    operation.state = State::NotApplied(WhyNot::Said(Provenance::Operator));
    assert_eq!(judge.changes(&operation, None), []);
}

/// What is only observed is forwarded: a repeat of what is not settled would be sent, under any key.
#[test]
fn what_is_only_observed_from_now_on_is_unprotected() {
    let observed = changed("tenant:", "mode: observe\ntenant:");
    for recorded in [payment(), statement()] {
        for changes in judged(&observed, &recorded) {
            assert!(!changes.is_empty());
        }
        let (operation, request) = &recorded;
        let judge = Judge::new(&observed, Some(&observed));
        assert_eq!(
            judge.changes(operation, Some(request)),
            [Change::Unprotected]
        );
    }
}

#[test]
fn what_is_never_sent_again_may_move() {
    let (mut operation, request) = statement();
    operation.settle.steps = Steps::none();
    let elsewhere = changed("bank.internal", "bank2.internal");
    assert_eq!(
        judged(&elsewhere, &(operation, request)),
        [const { Vec::new() }; 4]
    );
}

#[test]
fn an_identity_from_the_callers_key() {
    let other = changed(
        "once: { header: Idempotency-Key }",
        "once: \"pay:{body.id}\"",
    );
    for changes in judged(&other, &payment()) {
        assert!(matches!(&changes[..], [Change::Id(_)]), "{changes:?}");
    }
    // Where callers put it is known from the config of before only.
    let renamed = changed(
        "once: { header: Idempotency-Key }",
        "once: { header: X-Key }",
    );
    let [known, alone, ..] = judged(&renamed, &payment());
    assert_eq!((known, alone), (vec![Change::Id(None)], vec![]));
    for changes in judged(&other, &statement()) {
        assert_eq!(changes, []);
    }
}

#[test]
fn a_composed_identity_and_its_resource() {
    let published = |once: &str| changed("publish:{path.date}:{token.generation}", once);
    let [known, alone, by_rule, by_record] =
        judged(&published("publish:{path.date}"), &statement());
    let now = Change::Id(Some("publish:2026-09-13".to_owned()));
    assert_eq!((&known[..], &alone[..]), (&[now.clone()][..], &[now][..]));
    assert_eq!(
        (&by_rule[..], &by_record[..]),
        (&[Change::Id(None)][..], &[Change::Id(None)][..])
    );

    let [known, ..] = judged(
        &changed("\"statement:{path.date}\"", "\"s:{path.date}\""),
        &statement(),
    );
    assert_eq!(known, [Change::Resource(Some("s:2026-09-13".to_owned()))]);

    let gone = changed("PUT /statements/{date}", "PUT /reports/{date}");
    let [known, alone, by_rule, by_record] = judged(&gone, &statement());
    assert_eq!(
        (known, alone),
        (vec![Change::Unprotected], vec![Change::Unprotected])
    );
    assert_eq!(by_rule, [Change::Id(None)]);
    assert_eq!(by_record, [], "a rule is left that could have named it");
}

#[test]
fn the_key_that_a_resend_goes_under() {
    // With `value: caller` every `once` must be the caller's header.
    let statements = CONFIG.find("      - on: PUT").unwrap();
    let payments = &CONFIG[..statements];
    let value = config(&payments.replace("lifetime: 24h", "lifetime: 24h, value: caller"));
    let header = changed(
        "header: Idempotency-Key, lifetime",
        "header: X-Key, lifetime",
    );
    let gone = changed(
        "capability: [idempotent]\n    key: { header: Idempotency-Key, lifetime: 24h }",
        "capability: [opaque]",
    );
    assert_eq!(judged(&value, &payment())[1], [Change::KeyOther]);
    assert_eq!(judged(&header, &statement())[0], [Change::KeyOther]);
    assert_eq!(judged(&gone, &statement())[1], [Change::KeyGone]);

    // The same key in other company is another request under it.
    let (mut operation, request) = statement();
    let before = config(CONFIG);
    let key = operation.settle.key.as_mut().unwrap();
    key.placing = before.upstreams[0].placings().next();
    let referring = changed(
        "lifetime: 24h }",
        "lifetime: 24h }\n    reference: [ { header: X-Op } ]",
    );
    let placed = (operation, request);
    for changes in judged(&referring, &placed) {
        assert!(changes.contains(&Change::Otherwise), "{changes:?}");
    }
    assert_eq!(judged(&before, &placed)[1], []);

    // Where nothing is sent again, it is asked for by the same.
    let (mut operation, request) = statement();
    operation.settle.steps = asking();
    let asked = (operation, request);
    assert_eq!(judged(&gone, &asked)[1], [Change::KeyGone]);
    let moved = changed("url: http://bank.internal", "url: http://bank2.internal");
    assert!(judged(&moved, &asked)[0].contains(&Change::Elsewhere));

    // Settled, it is not sent again.
    let (mut operation, request) = statement();
    operation.state = State::NotApplied(WhyNot::Said(Provenance::Operator));
    assert_eq!(judged(&gone, &(operation, request))[1], []);
}

/// The upstream's key, and another effect's, are what they were; that of its own effect is not.
#[test]
fn what_its_own_effect_puts_in_counts() {
    let other = |fields: &str| {
        changed(
            "      - on: PUT",
            &format!("        {fields}\n      - on: PUT"),
        )
    };
    let key = other("key: { header: Other-Key, lifetime: 24h }");
    let reference = other("reference: [ { header: X-Op } ]");
    let paid = payment();
    for changes in [judged(&key, &paid), judged(&reference, &paid)].concat() {
        let tells = changes.iter().any(Change::sends_otherwise);
        assert!(tells, "{changes:?}");
    }
    for after in [key, reference] {
        for changes in judged(&after, &statement()) {
            assert!(!changes.iter().any(Change::sends_otherwise), "{changes:?}");
        }
    }
}
