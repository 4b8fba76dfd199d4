//! The judge is not blind: each rule is broken on purpose, and he says so.
//!
//! What always holds: what is broken is the upstream's behaviour, or what the config says of it; the proxy is the real
//! one. Where no config can make the proxy break a rule, what the judge reads is changed.

use super::judge::{Evidence, faults};
use super::moods::page;
use super::rows::{FENCED_ROW, GENERIC_ROW, Row, STRIPE_ROW, TWILIO_ROW};
use super::*;
use crate::support::script::{Script, json_answer};
use crate::support::upstream::Keys;

/// So many calls before that upstream, one after the other and once each.
fn after_calls(row: &Row, text: &str, upstream: Upstream, tokens: &[Option<u64>]) -> Evidence {
    let mut trial = Trial::begin(row, text, upstream, tokens.len(), &mut Dice(1));
    for (number, token) in tokens.iter().enumerate() {
        trial.operations[number].token = *token;
        let address = trial.scene.proxy.address();
        insist(
            row,
            (address, number, 1),
            &trial.operations[number],
            &trial.told,
        );
    }
    trial.end(Duration::from_secs(4))
}

fn usual(row: &Row) -> String {
    at_pace(row.request.profile, &RECKONING)
}

/// Of one call.
fn judged(row: &Row, text: &str, upstream: Upstream) -> Vec<String> {
    faults(row, &after_calls(row, text, upstream, &[None]))
}

fn losing(upstream: Upstream) -> Upstream {
    (0..=RESENDS).for_each(|_| upstream.next(Script::lose_answer()));
    upstream
}

fn assert_said(faults: &[String], part: &str) {
    let is_said = faults.iter().any(|fault| fault.contains(part));
    assert!(is_said, "{part}: {faults:?}");
}

#[test]
fn an_upstream_that_ignores_keys_is_noticed_by_its_second_effect() {
    let row = GENERIC_ROW;
    let upstream = losing(row.request.upstream(Keys::Ignored));
    assert_said(&judged(&row, &usual(&row), upstream), " effects");
}

#[test]
fn sending_again_to_one_that_knows_no_keys_is_noticed_by_its_attempts() {
    let row = TWILIO_ROW;
    let keys =
        "capability: [idempotent]\nkey: { header: Idempotency-Key, value: caller, lifetime: 24h }";
    let text = usual(&row).replace("capability: [opaque]", keys);
    let upstream = row.upstream();
    // Nothing arrives whole but the last, so that there is one effect.
    let head = "HTTP/1.1 503 Scripted\r\nContent-Length: 0\r\n\r\n";
    upstream.next(Script::answer_raw(head));
    let faults = judged(&row, &text, upstream);
    assert_said(&faults, "2 attempts");
    assert_eq!(faults.len(), 1, "{faults:?}");
}

/// A search that knows of nothing yet.
fn nothing(_: &Question<'_>) -> Vec<u8> {
    json_answer(200, r#"{"data":[]}"#)
}

#[test]
fn a_lag_that_is_too_short_is_noticed_by_what_happened_all_the_same() {
    let row = Row {
        told: Some(nothing),
        ..STRIPE_ROW
    };
    let pace = Pace {
        minute: "1ms",
        hour: "1ms",
        ..RECKONING
    };
    let text = at_pace("stripe-v1", &pace);
    let faults = judged(&row, &text, losing(row.upstream()));
    assert_said(&faults, "as not applied, and happened");
}

#[test]
fn what_is_not_settled_in_its_time_is_noticed() {
    let row = Row {
        told: Some(|_| page(200).into_bytes()),
        ..STRIPE_ROW
    };
    let faults = judged(&row, &hastened("stripe-v1"), losing(row.upstream()));
    assert_said(&faults, "is UNCERTAIN when its time is up");
}

#[test]
fn an_upstream_that_says_what_is_not_true_is_noticed() {
    let row = GENERIC_ROW;
    let upstream = row.upstream();
    upstream.next(Script::answer_raw(page(200)));
    let told = judged(&row, &usual(&row), upstream);
    assert_said(&told, "as applied, and never happened");
    assert_said(&told, "was told that it was applied");

    let upstream = row.upstream();
    upstream.answer_usually(|_| json_answer(201, r#"{"id":"effect-1"}"#));
    let evidence = after_calls(&row, &usual(&row), upstream, &[None, None]);
    assert_said(&faults(&row, &evidence), "got another's answer");

    let upstream = row.upstream();
    upstream.next(Script::store(402, "{}"));
    let told = judged(&row, &usual(&row), upstream);
    assert_said(&told, "as refused, and happened");
}

#[test]
fn an_effect_under_an_older_token_is_noticed() {
    let route = FENCED_ROW.route.replace("mode: require", "mode: observe");
    let row = Row {
        route: route.leak(),
        ..FENCED_ROW
    };
    let tokens = [Some(101), Some(100)];
    let evidence = after_calls(&row, &usual(&row), row.upstream(), &tokens);
    assert_said(&faults(&row, &evidence), "under 100 after one under 101");
}

/// What no config can make the proxy do.
#[test]
fn whatever_else_is_wrong_with_what_is_read_is_noticed() {
    let clean = || {
        let row = GENERIC_ROW;
        after_calls(&row, &usual(&row), row.upstream(), &[None])
    };
    let changed = |change: &dyn Fn(&mut Evidence)| {
        let mut evidence = clean();
        change(&mut evidence);
        faults(&GENERIC_ROW, &evidence)
    };
    assert_eq!(changed(&|_| {}), Vec::<String>::new());
    let twice = changed(&|it| {
        let mut other = it.told[0].clone();
        other.1.body.push(b' ');
        it.told.push(other);
    });
    assert_said(&twice, "different things");
    assert_said(&changed(&|it| it.records.clear()), "is not on record");
    assert_said(&changed(&|it| it.contradictions = true), "evidence against");
    let undone = changed(&|it| {
        let outcome = &mut it.records[0]["outcome"];
        outcome["verdict"] = "refused".into();
        outcome["provenance"] = "void".into();
    });
    assert_said(&undone, "as undone, and is in force");
}
