//! What vendors do at their worst, as documented or seen: stored errors, conflicts with a request that still runs,
//! forgotten keys, answers of today in place of the first, answers that come too late.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::support::script::json_answer;
use crate::support::upstream::Keys;

/// Scenario 3; B07, A15. Stripe stores a 500 of a payment that it made: every repeat gets it, and a new key would pay twice.
#[test]
fn a_stored_500_is_found_by_its_metadata_and_no_new_key_is_used() {
    let scene = Scene::new("stripe-v1", Upstream::start(Keys::Honoured), QUICK);
    let looks = AtomicUsize::new(0);
    scene.upstream.when_asked(move |effects, _, _| {
        let (_, reference) = effects[0].body.split_once("operation%5D=").unwrap();
        // The search lags.
        match looks.fetch_add(1, Ordering::SeqCst) {
            0..4 => json_answer(200, r#"{"data":[]}"#),
            _ => json_answer(
                200,
                &format!(
                    r#"{{"data":[{{"id":"pi_1","status":"succeeded","metadata":{{"fencepost_operation":"{reference}"}}}}]}}"#
                ),
            ),
        }
    });
    let failed = r#"{"error":{"type":"api_error"}}"#;
    scene.upstream.next(Script::store(500, failed));
    let pay = scene.proxy.post("/v1/payment_intents").key(KEY);
    let pay = pay.content(FORM, "amount=5&confirm=true");

    let told = pay.send();

    assert_eq!((told.status, told.text().as_str()), (500, failed));
    assert_eq!(told.field("fencepost-state"), Some("uncertain"));
    scene.until_state(KEY, "COMPLETED");
    let again = pay.send();
    assert_eq!((again.status, again.is_replay()), (200, true));
    assert_eq!(again.json()["id"], "pi_1");
    assert_eq!(again.field("fencepost-provenance"), Some("look-up"));
    assert_eq!(scene.upstream.effects().len(), 1);
    let sent = scene.sent();
    assert_eq!(sent.len(), 1 + RESENDS);
    assert!(
        sent.iter()
            .all(|head| head.fields.first("idempotency-key") == Some(KEY))
    );
}

/// A08: the key went to Stripe past the proxy, before there was one. The retry carries a reference, so Stripe says that
/// it is another request; the first one paid, and no search finds it by a reference that it never had.
#[test]
fn what_was_paid_past_the_proxy_is_not_disproved_by_a_search() {
    let scene = Scene::new("stripe-v1", Upstream::start(Keys::Honoured), QUICK);
    let looks = std::sync::Arc::new(AtomicUsize::new(0));
    let looked = std::sync::Arc::clone(&looks);
    scene.upstream.when_asked(move |_, _, _| {
        looked.fetch_add(1, Ordering::SeqCst);
        json_answer(200, r#"{"data":[]}"#)
    });
    let another = r#"{"error":{"type":"idempotency_error"}}"#;
    scene.upstream.next(Script::store(400, another));
    let pay = scene.proxy.post("/v1/payment_intents").key(KEY);
    let told = pay.content(FORM, "amount=5&confirm=true").send();

    assert_eq!((told.status, told.text().as_str()), (400, another));
    assert_eq!(told.field("fencepost-state"), Some("uncertain"));
    // Ten looks a second, and two seconds are the lag here.
    until("it has looked long after the lag", || {
        looks.load(Ordering::SeqCst) > 50
    });
    assert_eq!(scene.operation(KEY)["state"], "UNCERTAIN");
}

/// F07: 409 means that the first request runs right now, and is nobody's outcome.
#[test]
fn a_409_while_the_first_request_runs_is_no_outcome() {
    let scene = Scene::new("stripe-v1", Upstream::start(Keys::Honoured), QUICK);
    let running = r#"{"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}"#;
    scene.upstream.while_running(json_answer(409, running));
    let gate = Gate::closed();
    scene.upstream.next(Script::hold_effect(&gate));
    // A profile's every other POST is sent again as often as usual.
    let pay = scene.proxy.post("/v1/transfers").key(KEY);
    let paying = pay.content(FORM, "amount=5").start();
    gate.until_reached();
    until("it was told that the first one runs", || {
        scene.sent().len() > 2
    });
    assert!(!paying.is_answered());
    assert_eq!(scene.operation(KEY)["state"], "UNCERTAIN");
    gate.open();
    let paid = paying.answer();
    assert_eq!(
        (paid.status, paid.text().as_str()),
        (201, r#"{"id":"effect-1"}"#)
    );
    assert_eq!(scene.upstream.effects().len(), 1);
}

/// Scenario 4; B20, F01. PayPal has forgotten the key by the time that anybody looks: whatever comes under it pays again.
#[test]
fn a_forgotten_key_is_never_sent_again_and_the_order_is_looked_at() {
    let lifetime = Duration::from_secs(2);
    let route = "key: { lifetime: 2s }\n";
    let mut scene = Scene::new("paypal", Upstream::start(Keys::Honoured), route);
    let captured = r#"{"id":"O-1","status":"COMPLETED","purchase_units":[{"payments":{"captures":[{"id":"C-1","status":"COMPLETED"}]}}]}"#;
    scene.upstream.when_asked(move |_, head, _| {
        assert_eq!(head.word(1), "/v2/checkout/orders/O-1");
        json_answer(200, captured)
    });
    let capture = scene.proxy.post("/v2/checkout/orders/O-1/capture");
    let capture = capture.field("PayPal-Request-Id", KEY).json("{}");
    scene.loses_past_the_key(&capture, lifetime);

    scene.until_state(KEY, "COMPLETED");
    let again = capture.send();
    assert_eq!((again.status, again.text().as_str()), (201, captured));
    assert!(again.is_replay());
    assert_eq!(scene.upstream.effects().len(), 1, "captured once");
    assert_eq!(scene.sent().len(), 1, "nothing was sent under it again");
}

/// PayPal answers a repeat with what has become of the object since: it was applied all the same.
#[test]
fn a_repeat_may_be_answered_with_what_is_now() {
    let scene = Scene::new("paypal", Upstream::start(Keys::Honoured), QUICK);
    scene.upstream.next(Script::lose_answer());
    let refunded = r#"{"id":"O-1","status":"COMPLETED","refunded":true}"#;
    scene.upstream.next(Script::refuse(200, refunded));
    let capture = scene.proxy.post("/v2/checkout/orders/O-1/capture");
    let capture = capture.field("PayPal-Request-Id", KEY).json("{}");
    let told = capture.send();
    assert_eq!((told.status, told.text().as_str()), (200, refunded));
    let again = capture.send();
    assert_eq!((again.status, again.is_replay()), (200, true));
    assert_eq!(scene.upstream.effects().len(), 1);
}

/// Scenario 5; A14, A18. An SMS gateway without keys is slow, and the caller's library repeats a POST on every 5xx.
#[test]
fn a_late_answer_of_a_gateway_without_keys_completes_its_one_message() {
    let scene = Scene::new("twilio", Upstream::start(Keys::Ignored), QUICK);
    let gate = Gate::closed();
    scene.upstream.next(Script::hold_answer(&gate));
    let message = |to: &str| {
        let target = "/2010-04-01/Accounts/AC1/Messages.json";
        let body = format!("To={to}&Body=hello");
        scene.proxy.post(target).content(FORM, &body)
    };
    let told = message("1").send();
    assert_eq!(told.status, 504, "{}", told.text());
    // The library knows nothing of keys: it sends the same bytes again.
    let retry = message("1").start();
    assert_eq!(message("2").send().status, 201, "others are not held up");
    gate.open();
    let retried = retry.answer();
    assert_eq!(
        (retried.status, retried.text().as_str()),
        (201, r#"{"id":"effect-1"}"#)
    );
    assert_eq!(retried.field("fencepost-joined"), Some("blind-retry"));
    assert_eq!(scene.sent().len(), 2, "one head for each message");
    assert_eq!(scene.upstream.effects().len(), 2);
}
