//! How lost answers are settled: steps that have their time, and those of a profile whose upstream can do less.

use super::*;
use crate::protocol::steps::SettleStep;

/// An upstream that can be asked; `step` stands at line 10, from column 13.
fn asked(step: &str) -> String {
    upstream(&format!(
        "    capability: [query]\n    effects:\n      - on: POST /x\n        settle:\n          - {step}\n"
    ))
}

const LOOK: &str = "get: /x, applied: \"response.status == 200\"";

/// It would be over before "not found" ever counts.
#[test]
fn a_question_has_time_for_its_lag_and_all_its_samples() {
    let look = |time: &str| asked(&format!("look_up: {{ {LOOK}, {time} }}"));
    let at = 13 + format!("look_up: {{ {LOOK}, ").len();
    refused_at(
        &look("lag: 10s, within: 10s"),
        10,
        at + 18,
        "before the lag is",
    );
    let short = "lag: 10s, within: 40s, samples: 3, every: { from: 10s, to: 10s }";
    refused_at(&look(short), 10, at + 18, "before its samples are");
    let unwritten = "lag: 1s, samples: 100, every: { from: 1m, to: 1m }";
    refused_at(&look(unwritten), 10, at + 5, "before its samples are");
    good(&look(
        "lag: 10s, within: 41s, samples: 3, every: { from: 10s, to: 10s }",
    ));
    let void = upstream(
        "    capability: [idempotent]\n    key: { header: K }\n    effects:\n      - on: POST /x\n        settle:\n          - void: { post: /v, done: \"true\", lag: 2s, within: 1s }\n",
    );
    refused_at(&void, 11, 62, "before the lag is");
}

fn words(config: &Config) -> Vec<Vec<&'static str>> {
    let effects = config.upstreams[0].effects.iter();
    let steps = effects.filter_map(|effect| match &effect.action {
        Action::Protect(protect) => Some(protect),
        Action::Pass => None,
    });
    let words = |protect: &std::sync::Arc<Protect>| {
        let steps = protect.policy.settle.steps.iter();
        steps.map(|(_, step)| step.word()).collect()
    };
    steps.map(words).collect()
}

/// A profile says what there is; the config may know that there is less.
#[test]
fn steps_of_a_profile_that_the_upstream_cannot_take_are_passed_over() {
    let whole = good(&upstream("    profile: stripe-v1\n"));
    assert_eq!(words(&whole)[0], ["send again", "look up"]);
    let less = good(&upstream(
        "    profile: stripe-v1\n    capability: [idempotent]\n",
    ));
    assert_eq!(words(&less)[0], ["send again"]);
    assert!(words(&less).iter().all(|steps| !steps.contains(&"look up")));
    // Its own it has to be able to take.
    let own = "    profile: stripe-v1\n    capability: [idempotent]\n    effects:\n      - on: POST /x\n        settle: [ { look_up: { get: /x, lag: 1s, applied: \"true\" } } ]\n";
    refused_at(&upstream(own), 10, 30, "capability `query`");
}

/// A condition that was met no longer holds: what carries one can be sent again.
#[test]
fn a_conditional_upstream_may_be_sent_to_again() {
    let text = "    capability: [conditional]\n    effects:\n      - on: PUT /x\n        settle: [ { send_again: {} } ]\n";
    assert_eq!(words(&good(&upstream(text))), [["send again"]]);
    // Unasked nothing is sent again.
    let text = "    capability: [conditional]\n    effects:\n      - on: PUT /x\n";
    assert!(words(&good(&upstream(text)))[0].is_empty());
}

/// So is what it says of callbacks: where they name an account that no operation has.
#[test]
fn callbacks_of_a_profile_name_the_principal_that_the_config_has() {
    let hooks = "    callbacks: { listen: 127.0.0.1:15009, signature: { secrets: [ \"whsec_x\" ] }";
    let with = |principal: &str, more: &str| {
        upstream(&format!(
            "    profile: stripe-v1\n    principal: {principal}\n{hooks}{more} }}\n"
        ))
    };
    let none = good(&with("none", ""));
    let rules = &none.upstreams[0].callbacks.as_ref().unwrap().rules;
    assert!(rules[0].subject.principal.is_empty());
    let other = with("[ { header: X-Shop } ]", "");
    refused_at(&other, 8, 16, "`principal: { x-shop: \"{body.account}\" }`");
    let said = with(
        "[ { header: X-Shop } ]",
        ", principal: { X-Shop: \"{body.shop}\" }",
    );
    let rules = good(&said).upstreams[0].callbacks.clone().unwrap();
    assert_eq!(rules.rules[0].subject.principal.len(), 1);
    let misnamed = with("none", ", principal: { X-Shop: \"{body.shop}\" }");
    refused_at(&misnamed, 8, 103, "no part of the upstream's");
}

/// What is signed and goes without its key is neither sent again nor undone; it can be asked about.
#[test]
fn what_goes_without_its_key_keeps_its_questions() {
    let config = good(&upstream(
        "    capability: [idempotent, query]\n    key: { json: /k, lifetime: 24h }\n    signed: leave-alone\n    effects:\n      - on: POST /x\n        settle:\n          - send_again: {}\n          - look_up: { get: /x, lag: 1s, applied: \"true\" }\n          - void: { post: /v, lag: 1s, done: \"true\" }\n",
    ));
    let protect = protect_of(&config);
    assert_eq!(words(&config), [["send again", "look up", "void"]]);
    let keyless = protect.keyless.as_ref().unwrap();
    let mut steps = keyless.settle.steps.iter();
    let (_, only) = steps.next().unwrap();
    assert!(matches!(only, SettleStep::LookUp(policy) if policy.name.as_str() == "look_up"));
    assert!(steps.next().is_none() && keyless.keep_request);
    assert!(!keyless.settle.capability.idempotent && keyless.settle.key.is_none());
}
