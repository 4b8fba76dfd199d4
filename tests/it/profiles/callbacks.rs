//! Stripe's webhooks, by its profile: the config adds where they arrive, and the secret.

use std::net::Ipv4Addr;
use std::time::{SystemTime, UNIX_EPOCH};

use ring::hmac;

use super::*;
use crate::support::call::Call;
use crate::support::ports;
use crate::support::script::{Script, json_answer};
use crate::support::upstream::Keys;

/// An event as Stripe signs it.
fn event(hooks: SocketAddr, body: &str) -> Call {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = now.as_secs();
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
    assert_eq!(event(hooks, &succeeded).send().status, 204);

    let paid = paying.answer();
    assert_eq!((paid.status, &paid.text()), (200, intent));
    assert_eq!(paid.field("fencepost-provenance"), Some("callback"));
    assert_eq!(scene.upstream.effects().len(), 1);
}
