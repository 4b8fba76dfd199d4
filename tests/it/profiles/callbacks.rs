//! Vendors' webhooks, by their profiles: the config adds where they arrive, and the secret.

use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ring::hmac;

use super::*;
use crate::support::call::Call;
use crate::support::ports;
use crate::support::script::{Script, json_answer};
use crate::support::upstream::Keys;

/// An event as Stripe signs it.
fn event(hooks: SocketAddr, body: &str) -> Call {
    event_of(Duration::ZERO, hooks, body)
}

/// The same, signed so long ago.
fn event_of(age: Duration, hooks: SocketAddr, body: &str) -> Call {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = now.saturating_sub(age).as_secs();
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"whsec_s3cret");
    let tag = hmac::sign(&key, format!("{now}.{body}").as_bytes());
    let digits = tag.as_ref().iter().map(|byte| format!("{byte:02x}"));
    let signature = format!("t={now},v1={}", digits.collect::<String>());
    let call = Call::new(hooks, "POST", "/stripe").json(body);
    call.field("stripe-signature", &signature)
}

/// F10: the event that a request caused names its key; of several events, the one about its own object counts.
#[test]
fn an_event_settles_the_request_that_caused_it_by_its_key() {
    let hooks = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()));
    let route = format!(
        "{QUICK}callbacks: {{ listen: \"{hooks}\", signature: {{ secrets: [whsec_s3cret] }} }}\n"
    );
    let scene = Scene::new("stripe-v1", Upstream::start(Keys::Honoured), &route);
    scene.upstream.when_asked(|_, _, _| json_answer(500, "{}"));
    (0..=RESENDS).for_each(|_| scene.upstream.next(Script::lose_answer()));
    let pay = scene.proxy.post("/v1/payment_intents").key(KEY);
    let pay = pay.content(FORM, "amount=5&confirm=true");
    let paying = pay.start();
    until("everything was sent", || scene.sent().len() > RESENDS);

    let told = |kind: &str, key: &str, object: &str| {
        format!(
            r#"{{"type":"{kind}","request":{{"idempotency_key":{key}}},"data":{{"object":{object}}}}}"#
        )
    };
    let key = format!("\"{KEY}\"");
    let sent = scene.upstream.effect(1).body;
    let (_, reference) = sent.split_once("fencepost_operation%5D=").unwrap();
    let carrying = |more: &str, reference: &str| {
        format!(r#"{{{more},"metadata":{{"fencepost_operation":"{reference}"}}}}"#)
    };
    let intent = &carrying(r#""id":"pi_1""#, reference);
    let charge = &carrying(r#""id":"ch_1","payment_intent":"pi_1""#, reference);
    let chosen = &carrying(r#""id":"pi_2""#, "r");
    for other in [
        // What the payment was made of; a text that somebody chose; what an invoice made; somebody else's;
        // nobody's; a decline.
        told("charge.succeeded", &key, charge),
        told("payment_intent.succeeded", &key, chosen),
        told(
            "payment_intent.succeeded",
            &key,
            r#"{"id":"pi_2","metadata":{}}"#,
        ),
        told("payment_intent.succeeded", "\"another\"", intent),
        told("payment_intent.succeeded", "null", intent),
        told("payment_intent.payment_failed", &key, intent),
    ] {
        assert_eq!(event(hooks, &other).send().status, 204, "{other}");
        assert_ne!(scene.operation(KEY)["state"], "COMPLETED", "{other}");
    }
    let of_account =
        told("payment_intent.succeeded", &key, intent).replacen('{', r#"{"account":"acct_1","#, 1);
    assert_eq!(event(hooks, &of_account).send().status, 204);
    assert_ne!(
        scene.operation(KEY)["state"],
        "COMPLETED",
        "another account's"
    );

    let succeeded = told("payment_intent.succeeded", &key, intent);
    // Somebody plays it again an hour later.
    let old = event_of(Duration::from_secs(3_600), hooks, &succeeded).send();
    assert_eq!(old.status, 401);
    assert_ne!(scene.operation(KEY)["state"], "COMPLETED");
    assert_eq!(event(hooks, &succeeded).send().status, 204);

    let paid = paying.answer();
    assert_eq!((paid.status, &paid.text()), (200, intent));
    assert_eq!(paid.field("fencepost-provenance"), Some("callback"));
    assert_eq!(scene.upstream.effects().len(), 1);
}

/// By the vendor's own key, so that none of this is signed by ourselves alone.
const ADYEN_KEY: &str = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056";

/// What the profile tells to write where references are unique.
const BY_REFERENCE: &str = r#"
effects:
  - on: POST /{version}/payments
    once: "payment:{body.merchantAccount}:{body.reference}"
    key: { value: derived }
    answers: { refused: "response.status == 200 && response.body.resultCode in ['Refused', 'Cancelled']" }
    settle: [ { send_again: { attempts: 1, backoff: { from: 50ms, to: 50ms } } }, { callback: {} } ]
"#;

/// An item as Adyen signs it.
fn item(account: &str, reference: &str, event: &str, success: &str) -> Value {
    let key: Vec<u8> = (0..ADYEN_KEY.len() / 2)
        .map(|at| u8::from_str_radix(&ADYEN_KEY[2 * at..2 * at + 2], 16).unwrap())
        .collect();
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let joined = format!("psp-1::{account}:{reference}:5:EUR:{event}:{success}");
    let digest = base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        hmac::sign(&key, joined.as_bytes()),
    );
    serde_json::json!({ "NotificationRequestItem": {
        "pspReference": "psp-1", "merchantAccountCode": account, "merchantReference": reference,
        "amount": { "value": 5, "currency": "EUR" }, "eventCode": event, "success": success,
        "additionalData": { "hmacSignature": digest },
    } })
}

fn notify(hooks: SocketAddr, items: &[&Value]) -> (u16, String) {
    let body = serde_json::json!({ "live": "false", "notificationItems": items });
    let told = Call::new(hooks, "POST", "/adyen")
        .json(&body.to_string())
        .send();
    (told.status, told.text())
}

/// Adyen: items are signed one by one, and name a payment by its reference; several come at once, and again.
#[test]
fn a_signed_item_settles_the_payment_of_its_reference() {
    let hooks = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()));
    let route = format!(
        "{QUICK}callbacks: {{ listen: \"{hooks}\", signature: {{ secrets: [ {ADYEN_KEY} ] }} }}\n{BY_REFERENCE}"
    );
    let scene = Scene::new("adyen", Upstream::start(Keys::Honoured), &route);
    let pay = |reference: &str| {
        let body = format!(
            r#"{{"merchantAccount":"Shop","reference":"{reference}","amount":{{"value":5,"currency":"EUR"}}}}"#
        );
        scene.proxy.post("/v71/payments").key(KEY).json(&body)
    };
    let id = |reference: &str| format!("payment%3AShop%3A{reference}");
    let accepted = (200, "[accepted]".to_owned());
    let lose = |reference: &str| {
        (0..2).for_each(|_| scene.upstream.next(Script::lose_answer()));
        let sent = scene.sent().len();
        let paying = pay(reference).start();
        until("it was sent twice", || scene.sent().len() == sent + 2);
        paying
    };
    let first = lose("order-1");
    let second = lose("order-2");

    let own = item("Shop", "order-1", "AUTHORISATION", "true");
    for other in [
        item("Shop", "order-1", "AUTHORISATION", "false"),
        item("Shop", "order-1", "CAPTURE", "true"),
        item("Shop", "order-3", "AUTHORISATION", "true"),
        item("Other", "order-1", "AUTHORISATION", "true"),
    ] {
        assert_eq!(notify(hooks, &[&other]), accepted, "{other}");
    }
    let mut forged = own.clone();
    forged["NotificationRequestItem"]["merchantReference"] = "order-2".into();
    let mut unsigned = own.clone();
    unsigned["NotificationRequestItem"]["additionalData"] = Value::Null;
    for bad in [&forged, &unsigned] {
        // Nothing of it is believed, also not what is signed beside it.
        assert_eq!(notify(hooks, &[&own, bad]), (401, String::new()), "{bad}");
    }
    for reference in ["order-1", "order-2"] {
        assert_ne!(scene.operation(&id(reference))["state"], "COMPLETED");
    }

    let of_both = item("Shop", "order-2", "AUTHORISATION", "true");
    for _ in 0..2 {
        assert_eq!(notify(hooks, &[&own, &of_both]), accepted);
    }

    for (paying, reference) in [(first, "order-1"), (second, "order-2")] {
        let paid = paying.answer();
        assert_eq!(paid.status, 200, "{}", paid.text());
        assert_eq!(paid.field("fencepost-provenance"), Some("callback"));
        assert_eq!(paid.json()["merchantReference"], reference);
        assert!(pay(reference).send().is_replay());
    }
    assert_eq!(scene.upstream.effects().len(), 2);
    assert!(scene.proxy.metric("fencepost_contradictions_total") < 1.0);
}
