//! Whole files: what they become, and that everything wrong with them is said at once, where it is.

mod inbound;
mod insertion;
mod leases;
mod length;
mod means;
mod mode;
mod profiles;
mod refusals;
mod register;
mod settling;

use std::path::Path;
use std::time::Duration;

use http::Method;

use super::*;
use crate::expression::{AnswerFacts, PathParams, RequestFacts, RequestPath};
use crate::protocol::operation::IdentityOrigin;
use crate::protocol::outcome::AnswerClass;
use crate::protocol::policy::{
    FencePolicy, IfOlderUnsettled, IfTwin, KeyValue, Order, Ownership, PerGeneration, TokenMode,
};
use crate::protocol::steps::ResendPolicy;
use crate::protocol::time::Millis;

fn good(text: &str) -> Config {
    match parse(text, "test.yaml") {
        Ok((config, _)) => config,
        Err(problems) => panic!("{problems}"),
    }
}

fn warnings(text: &str) -> String {
    parse(text, "test.yaml").unwrap().1.to_string()
}

fn refused(text: &str) -> Problems {
    match parse(text, "test.yaml") {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(problems) => problems,
    }
}

/// Refused, with an error at that place that says this.
fn refused_at(text: &str, line: usize, column: usize, part: &str) {
    let problems = refused(text);
    let hit = problems.list().iter().any(|problem| {
        problem.severity == Severity::Error
            && (problem.line, problem.column) == (line, column)
            && problem.message.contains(part)
    });
    assert!(
        hit,
        "no {line}:{column} {part:?} in\n{problems}\nof\n{text}"
    );
}

/// An upstream with these further lines (eight spaces deep is an effect's field).
fn upstream(lines: &str) -> String {
    format!(
        "version: 1\nupstreams:\n  a:\n    listen: 127.0.0.1:15001\n    url: http://127.0.0.1:8080\n{lines}"
    )
}

/// An idempotent upstream with one effect, `PUT /x/{id}`, whose further lines start at line 10.
fn effect(lines: &str) -> String {
    upstream(&format!(
        "    capability: [idempotent]\n    key: {{ header: K, lifetime: 24h }}\n    effects:\n      - on: PUT /x/{{id}}\n{lines}"
    ))
}

fn protect_of(config: &Config) -> std::sync::Arc<Protect> {
    match &config.upstreams[0].effects[0].action {
        Action::Protect(protect) => std::sync::Arc::clone(protect),
        Action::Pass => panic!("not protected"),
    }
}

#[test]
fn the_smallest_file_has_the_documented_defaults() {
    let config = good(include_str!("../../../config/stripe.yaml"));
    assert_eq!(config.tenant.as_str(), "default");
    let usual = Embedded {
        path: "/var/lib/fencepost".into(),
        ephemeral: false,
        witness: None,
    };
    assert_eq!(config.register.place, RegisterPlace::Embedded(usual));
    assert_eq!(
        config.admin.as_ref().unwrap().address.to_string(),
        "127.0.0.1:15000"
    );
    assert_eq!(config.health.unwrap().to_string(), "127.0.0.1:15020");
    assert_eq!(config.limits.buffered_bodies, 256 << 20);
    assert_eq!(config.drain, Duration::from_secs(35));
    assert_eq!(config.digest.len(), 64);
    let upstream = &config.upstreams[0];
    assert_eq!(
        (upstream.name.as_str(), upstream.id.as_str()),
        ("stripe", "stripe")
    );
    assert_eq!(upstream.timeouts.connect, Millis(5_000));
    assert_eq!(upstream.timeouts.response, Millis(30_000));
    assert_eq!(upstream.timeouts.dispatch, Millis(5_000));
    assert!(!upstream.fresh_connections && !upstream.accept_close_framed);
    let key = upstream.key.as_ref().unwrap();
    assert_eq!(
        (key.slot.to_string().as_str(), key.longest),
        ("header idempotency-key", Some(255))
    );
    assert_eq!(key.policy.value, KeyValue::Caller);
    assert_eq!(key.policy.lifetime, Some(Millis(86_400_000)));
    assert!(key.policy.remembers_refusals);
    let protect = protect_of(&config);
    assert_eq!(protect.once.origin, IdentityOrigin::Caller);
    assert!(!protect.once.required);
    assert_eq!(protect.join, Duration::from_secs(10));
    assert_eq!(
        (protect.body_limit, protect.answer_limit),
        (1 << 20, 1 << 20)
    );
    assert_eq!(protect.uncertain_status, 504);
    assert_eq!(protect.policy.order, Order::Free);
    let resend = ResendPolicy {
        attempts: 5,
        backoff_from: Millis(200),
        backoff_to: Millis(30_000),
    };
    assert_eq!(protect.policy.settle.steps.send_again(), Some(resend));
    assert!(protect.policy.keep_request);
    for (status, class) in [
        (200, AnswerClass::Applied),
        (402, AnswerClass::Refused),
        // Without its content nobody knows whether it is about the key.
        (400, AnswerClass::Ambiguous),
        (401, AnswerClass::NotProcessed),
        (409, AnswerClass::Ambiguous),
        (500, AnswerClass::Ambiguous),
    ] {
        assert_eq!(proves(&protect.answers, status), class, "{status}");
    }
}

#[test]
fn a_fence_has_the_documented_defaults() {
    let config = good(include_str!("../../../config/statements.yaml"));
    let protect = protect_of(&config);
    let fence = protect.fence.as_ref().unwrap();
    assert_eq!(fence.token.to_string(), "header fencing-token");
    assert_eq!(fence.acquisition.as_str(), "fencing-acquisition");
    assert_eq!(fence.sequence.as_str(), "fencing-sequence");
    let policy = protect.policy.fence.unwrap();
    assert_eq!(policy.token, TokenMode::Require);
    assert_eq!(policy.per_generation, PerGeneration::Many);
    assert_eq!(policy.require, Ownership::NotOlder);
    assert_eq!(
        policy.if_older_unsettled,
        IfOlderUnsettled::Wait(Millis(10_000))
    );
    assert_eq!(policy.if_twin, IfTwin::Refuse);
    assert_eq!(policy.max_step, None);
    assert_eq!(protect.policy.order, Order::Strict);
    assert_eq!(protect.once.origin, IdentityOrigin::Derived);
    assert!(protect.once.required && protect.once.template.follows_incarnation());
}

#[test]
fn every_file_in_config_loads_and_profiles_bring_no_problem() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let mut seen = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            // Their secrets are elsewhere.
            let text = std::fs::read_to_string(&path).unwrap();
            parse_without_secrets(&text, &path.display().to_string())
                .unwrap_or_else(|problems| panic!("{problems}"));
            seen += 1;
        }
    }
    assert!(seen >= 4);
    for name in profile::names() {
        good(&upstream(&format!("    profile: {name}\n")));
    }
}

#[test]
fn the_reference_states_the_defaults() {
    let reference = good(include_str!("../../../config/fencepost.yaml"));
    let (stated, default) = (
        protect_of(&reference),
        protect_of(&good(&effect("        fence: { resource: x }\n"))),
    );
    for status in 200..600 {
        assert_eq!(
            proves(&stated.answers, status),
            proves(&default.answers, status),
            "{status}"
        );
    }
    assert_eq!(stated.policy.settle.steps, default.policy.settle.steps);
    assert_eq!(stated.policy.timeouts, default.policy.timeouts);
    assert_eq!(stated.policy.order, default.policy.order);
    assert_eq!(stated.means, default.means);
    assert_eq!(
        (stated.join, stated.blind_retry, stated.uncertain_status),
        (default.join, default.blind_retry, default.uncertain_status)
    );
    assert_eq!(
        (stated.body_limit, stated.answer_limit),
        (default.body_limit, default.answer_limit)
    );
    let fence = stated.policy.fence.map(without_step);
    assert_eq!(fence, default.policy.fence);
    let (own, other) = (
        stated.fence.as_ref().unwrap(),
        default.fence.as_ref().unwrap(),
    );
    assert_eq!((&own.token, &own.source), (&other.token, &other.source));
    assert_eq!(
        (&own.acquisition, &own.sequence),
        (&other.acquisition, &other.sequence)
    );
    let bare = good(&effect(""));
    assert_eq!(reference.drain, bare.drain);
    assert_eq!(reference.record_timeout, bare.record_timeout);
    assert_eq!(reference.limits, bare.limits);
    assert_eq!(reference.register, bare.register);
    assert_eq!(reference.health, bare.health);
}

fn without_step(mut fence: FencePolicy) -> FencePolicy {
    fence.max_step = None;
    fence
}

#[test]
fn a_callers_key_sent_on_must_be_the_identity() {
    let text = upstream(
        "    profile: stripe-v1\n    effects: [ { on: POST /v1/x, once: \"x:{body.id}\" } ]\n",
    );
    refused_at(&text, 7, 40, "`once` must be that header");
    let config = good(&format!("{text}    key: {{ value: derived }}\n"));
    // The profile's own effects stand, after the config's.
    let names = |config: &Config| -> Vec<String> {
        let effects = config.upstreams[0].effects.iter();
        effects.map(|effect| effect.name.clone()).collect()
    };
    let of_profile = names(&good(&upstream("    profile: stripe-v1\n")));
    assert_eq!(of_profile.last().unwrap(), "POST /{path...}");
    let with_own: Vec<String> = ["POST /v1/x".to_owned()]
        .into_iter()
        .chain(of_profile)
        .collect();
    assert_eq!(names(&config), with_own);
    assert_eq!(
        config.upstreams[0].key.as_ref().unwrap().policy.lifetime,
        Some(Millis(86_400_000))
    );
}

#[test]
fn answers_are_laid_over_one_another() {
    let config = good(&upstream(
        "    profile: stripe-v1\n    answers: { not_applied: [409] }\n    effects: [ { on: PUT /x, answers: { applied: [404] } } ]\n",
    ));
    let protect = protect_of(&config);
    assert_eq!(proves(&protect.answers, 409), AnswerClass::NotProcessed);
    assert_eq!(proves(&protect.answers, 404), AnswerClass::Applied);
    assert_eq!(proves(&protect.answers, 424), AnswerClass::Ambiguous);
    assert_eq!(proves(&protect.answers, 402), AnswerClass::Refused);
}

#[test]
fn without_a_resend_no_request_is_kept() {
    let opaque = protect_of(&good(&upstream("    effects: [ { on: POST /x } ]\n")));
    assert!(opaque.policy.settle.steps.is_empty() && !opaque.policy.keep_request);
    let never = protect_of(&good(&effect("        keep_request: never\n")));
    assert!(never.policy.settle.steps.is_empty() && !never.policy.keep_request);
    let none = protect_of(&good(&effect("        settle: []\n")));
    assert!(none.policy.settle.steps.is_empty());
}

#[test]
fn what_somebody_should_know_is_a_warning() {
    let shown = warnings(&upstream(""));
    assert!(
        shown.contains("fences only the callers of this one process"),
        "{shown}"
    );
    assert!(shown.contains("no effect is protected here"), "{shown}");
    let shown = warnings(&upstream("    unlisted: protect\n"));
    assert!(shown.contains("waits for a person"), "{shown}");
    let shown = warnings(&upstream(
        "    capability: idempotent\n    key: { header: K }\n",
    ));
    assert!(
        shown.contains("test.yaml:7:10: warning: upstreams.a.key: without a `lifetime`"),
        "{shown}"
    );
    let shown = warnings(&upstream(
        "register: { embedded: { path: x, ephemeral: true } }\n",
    ));
    assert!(shown.contains("is lost with it"), "{shown}");
    let shown = warnings(&upstream("    profile: stripe-v1\n"));
    assert!(shown.contains("DELETE requests are forwarded"), "{shown}");
}

#[test]
fn secrets_come_from_elsewhere_and_are_never_shown() {
    let text = upstream("admin: { operators: { a: \"${env:CARGO_PKG_NAME}\", b: hunter2 } }\n");
    let (config, warnings) = parse(&text, "test.yaml").unwrap();
    let operators = &config.admin.as_ref().unwrap().operators;
    assert!(operators[0].1.matches(b"fencepost"));
    assert!(operators[1].1.matches(b"hunter2"));
    assert!(
        warnings
            .to_string()
            .contains("admin.operators.b: a secret stands in the file")
    );
    let shown = format!("{config:?}{warnings:?}{warnings}");
    assert!(!shown.contains("hunter2"), "{shown}");
    let missing = upstream("admin: { operators: { a: \"${env:NO_SUCH_VARIABLE}\", b: \"\" } }\n");
    refused_at(&missing, 6, 26, "NO_SUCH_VARIABLE is not set");
    refused_at(&missing, 6, 56, "is empty");
}

#[test]
fn requests_find_their_effect() {
    let config = good(&upstream(
        "    unlisted: deny\n    effects:\n      - on: POST /oauth/token\n        pass: {}\n      - on: PUT|PATCH /x/{id}\n      - on: \"* /jobs/{rest...}\"\n",
    ));
    let upstream = &config.upstreams[0];
    let route = |method: Method, path: &str| match upstream
        .route(&method, &RequestPath::parse(path).unwrap())
    {
        Route::Pass => "pass".to_owned(),
        Route::Observe => "observe".to_owned(),
        Route::Deny => "deny".to_owned(),
        Route::Protect { name, params, .. } => {
            format!("{name} {}", params.value("id").unwrap_or_default())
        }
    };
    assert_eq!(route(Method::POST, "/oauth/token"), "pass");
    assert_eq!(route(Method::PUT, "/x/7"), "PUT|PATCH /x/{id} 7");
    assert_eq!(route(Method::PATCH, "/x/7/"), "PUT|PATCH /x/{id} 7");
    assert_eq!(route(Method::DELETE, "/x/7"), "deny");
    assert_eq!(route(Method::GET, "/x/7"), "pass");
    assert_eq!(route(Method::DELETE, "/jobs/1/2"), "* /jobs/{rest...} ");
    assert_eq!(route(Method::GET, "/jobs/1"), "pass");
    assert_eq!(route(Method::POST, "/elsewhere"), "deny");
    let observing = good(&effect(""));
    let hidden = RequestPath::parse("/x%2F7").unwrap();
    assert!(matches!(
        observing.upstreams[0].route(&Method::PUT, &hidden),
        Route::Deny
    ));
    let plain = RequestPath::parse("/y").unwrap();
    assert!(matches!(
        observing.upstreams[0].route(&Method::PUT, &plain),
        Route::Observe
    ));
}

#[test]
fn only_an_absent_header_may_be_lacking() {
    let params = PathParams::default();
    let mut headers = http::HeaderMap::new();
    let read = |once: &Identity, headers: &http::HeaderMap| {
        once.read(&RequestFacts {
            method: &Method::POST,
            raw_path: "/x/7",
            path: &params,
            query: None,
            headers,
            body: b"",
            token: None,
            operation: None,
        })
    };
    let once = |lines: &str| protect_of(&good(&effect(lines))).once.clone();
    let optional = once("        once: { header: K }\n");
    let required = once("        once: { header: K, required: true }\n");
    let default = once("");
    let composed = once("        once: \"a:{headers.k}\"\n");
    assert_eq!(read(&optional, &headers), Ok(None));
    assert!(read(&required, &headers).is_err());
    assert!(read(&default, &headers).is_err());
    assert!(read(&composed, &headers).is_err());
    headers.append("k", http::HeaderValue::from_static("7"));
    assert_eq!(read(&optional, &headers), Ok(Some("7".to_owned())));
    headers.append("k", http::HeaderValue::from_static("8"));
    assert!(read(&optional, &headers).is_err(), "two keys are no key");
}

/// What an answer of this status proves, whatever else it holds.
fn proves(rules: &AnswerRules, status: u16) -> AnswerClass {
    let facts = AnswerFacts {
        status,
        fields: &[],
        body: None,
    };
    rules.class(&facts, false)
}
