//! Every profile that can ask finds its own operation, and takes nobody else's for it.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::requests::{
    CHECKOUT_COM, GOOGLE, INCREASE, PAYPAL, Request, STRIPE_CAPTURE, STRIPE_CHARGE, STRIPE_PAYMENT,
    STRIPE_REFUND, WISE,
};
use super::*;
use crate::support::script::{Script, json_answer};
use crate::support::upstream::Keys;

/// A request whose answers are all lost, and what its upstream says when it is asked. `REF` is the text that the
/// request carried to be found by.
struct Row {
    request: Request,
    /// What stands before `REF` in the effect; `None`: it is the key.
    reference: Option<&'static str>,
    /// Is it sent again, before anybody asks?
    sends_again: bool,
    asked: &'static str,
    /// Others' objects, or ours before it shows the effect.
    others: &'static str,
    own: &'static str,
    told: (u16, &'static str),
}

const METADATA: Option<&str> = Some("metadata%5Bfencepost_operation%5D=");

const ROWS: &[Row] = &[
    Row {
        request: STRIPE_PAYMENT,
        reference: METADATA,
        sends_again: true,
        asked: "/v1/payment_intents/search?query=metadata%5B%27fencepost_operation%27%5D%3A%27REF%27",
        // Declined, as far as can be seen: the answer was no success.
        others: r#"{"data":[{"id":"pi_1","status":"requires_payment_method","metadata":{"fencepost_operation":"REF"}}]}"#,
        own: r#"{"data":[{"id":"pi_1","status":"succeeded","metadata":{"fencepost_operation":"REF"}}]}"#,
        told: (
            200,
            r#"{"id":"pi_1","status":"succeeded","metadata":{"fencepost_operation":"REF"}}"#,
        ),
    },
    Row {
        request: STRIPE_CHARGE,
        reference: METADATA,
        sends_again: true,
        asked: "/v1/charges/search?query=metadata%5B%27fencepost_operation%27%5D%3A%27REF%27",
        others: r#"{"data":[{"id":"ch_0","status":"succeeded","metadata":{"fencepost_operation":"other"}}]}"#,
        own: r#"{"data":[{"id":"ch_1","status":"pending","metadata":{"fencepost_operation":"REF"}}]}"#,
        told: (
            200,
            r#"{"id":"ch_1","status":"pending","metadata":{"fencepost_operation":"REF"}}"#,
        ),
    },
    Row {
        request: STRIPE_REFUND,
        reference: METADATA,
        sends_again: true,
        asked: "/v1/refunds?limit=100",
        others: r#"{"data":[{"id":"re_0","metadata":{}}]}"#,
        own: r#"{"data":[{"id":"re_0","metadata":{}},{"id":"re_1","metadata":{"fencepost_operation":"REF"}}]}"#,
        told: (
            200,
            r#"{"id":"re_1","metadata":{"fencepost_operation":"REF"}}"#,
        ),
    },
    Row {
        request: STRIPE_CAPTURE,
        reference: None,
        sends_again: true,
        asked: "/v1/payment_intents/pi_1",
        // Captured by somebody else's request, who wanted more.
        others: r#"{"id":"pi_1","status":"succeeded","amount":10,"amount_received":10}"#,
        own: r#"{"id":"pi_1","status":"succeeded","amount":10,"amount_received":5}"#,
        told: (
            200,
            r#"{"id":"pi_1","status":"succeeded","amount":10,"amount_received":5}"#,
        ),
    },
    Row {
        request: Request {
            body: "",
            ..STRIPE_CAPTURE
        },
        reference: None,
        sends_again: true,
        asked: "/v1/payment_intents/pi_1",
        // All of it was asked for; a part was captured.
        others: r#"{"id":"pi_1","status":"succeeded","amount":10,"amount_received":5}"#,
        own: r#"{"id":"pi_1","status":"succeeded","amount":10,"amount_received":10}"#,
        told: (
            200,
            r#"{"id":"pi_1","status":"succeeded","amount":10,"amount_received":10}"#,
        ),
    },
    Row {
        request: Request {
            target: "/v1/payment_intents/pi_1/confirm",
            body: "payment_method=pm_1",
            ..STRIPE_CAPTURE
        },
        reference: None,
        sends_again: true,
        asked: "/v1/payment_intents/pi_1",
        // Paid with another card.
        others: r#"{"id":"pi_1","status":"succeeded","payment_method":"pm_2"}"#,
        own: r#"{"id":"pi_1","status":"succeeded","payment_method":"pm_1"}"#,
        told: (
            200,
            r#"{"id":"pi_1","status":"succeeded","payment_method":"pm_1"}"#,
        ),
    },
    Row {
        request: PAYPAL,
        reference: None,
        sends_again: true,
        asked: "/v2/checkout/orders/O-1",
        others: r#"{"id":"O-1","status":"APPROVED","purchase_units":[{}]}"#,
        own: r#"{"id":"O-1","status":"COMPLETED","purchase_units":[{"payments":{"authorizations":[{"status":"CREATED"}]}}]}"#,
        told: (
            201,
            r#"{"id":"O-1","status":"COMPLETED","purchase_units":[{"payments":{"authorizations":[{"status":"CREATED"}]}}]}"#,
        ),
    },
    Row {
        request: INCREASE,
        reference: None,
        sends_again: false,
        asked: "/ach_transfers?idempotency_key=REF",
        // A filter that nobody heeded.
        others: r#"{"data":[{"id":"t_0","idempotency_key":"other"}]}"#,
        own: r#"{"data":[{"id":"t_1","idempotency_key":"REF"}]}"#,
        told: (200, r#"{"id":"t_1","idempotency_key":"REF"}"#),
    },
    Row {
        request: WISE,
        reference: None,
        sends_again: false,
        asked: "/v1/transfers?limit=100",
        others: r#"[{"id":1,"customerTransactionId":"other"}]"#,
        own: r#"[{"id":1,"customerTransactionId":"other"},{"id":2,"customerTransactionId":"REF"}]"#,
        told: (200, r#"{"id":2,"customerTransactionId":"REF"}"#),
    },
    Row {
        request: CHECKOUT_COM,
        reference: Some(r#""fencepost_operation":""#),
        sends_again: false,
        asked: "/payments?limit=100&reference=order%2042",
        // An earlier attempt of the shop's own at the same order.
        others: r#"{"data":[{"id":"pay_0"}]}"#,
        own: r#"{"data":[{"id":"pay_0"},{"id":"pay_1","metadata":{"fencepost_operation":"REF"}}]}"#,
        told: (
            201,
            r#"{"id":"pay_1","metadata":{"fencepost_operation":"REF"}}"#,
        ),
    },
    Row {
        request: GOOGLE,
        reference: None,
        sends_again: true,
        asked: "/compute/v1/projects/p/zones/z/operations?filter=clientOperationId%3D%22REF%22",
        others: r#"{"items":[{"id":"1","clientOperationId":"REF","error":{}}]}"#,
        own: r#"{"items":[{"id":"1","clientOperationId":"REF","status":"RUNNING"}]}"#,
        told: (
            200,
            r#"{"id":"1","clientOperationId":"REF","status":"RUNNING"}"#,
        ),
    },
];

impl Row {
    /// What it is to be found by, as the upstream got it.
    fn found_by(&self, body: &str) -> String {
        let Some(before) = self.reference else {
            return KEY.to_owned();
        };
        let (_, text) = body.split_once(before).unwrap();
        let end = text.find(['"', '&']).unwrap_or(text.len());
        text[..end].to_owned()
    }
}

/// F12: an answer about something else is no answer, however often it comes; what is found is the
/// operation's own, by what it carried.
#[test]
fn what_a_vendor_lists_settles_its_own_operation_and_no_other() {
    for row in ROWS {
        let upstream = row.request.upstream(Keys::Honoured);
        let scene = Scene::new(row.request.profile, upstream, QUICK);
        let looks = AtomicUsize::new(0);
        scene.upstream.when_asked(move |effects, head, _| {
            let own = row.found_by(&effects[0].body);
            assert_eq!(head.word(1), row.asked.replace("REF", &own));
            let listed = match looks.fetch_add(1, Ordering::SeqCst) {
                0..3 => row.others,
                _ => row.own,
            };
            json_answer(200, &listed.replace("REF", &own))
        });
        let sent = if row.sends_again { 1 + RESENDS } else { 1 };
        (0..sent).for_each(|_| scene.upstream.next(Script::lose_answer()));

        let told = row.request.call(scene.proxy.address(), KEY, "1").send();

        let (status, body) = row.told;
        let own = row.found_by(&scene.upstream.effect(1).body);
        let target = row.request.target;
        assert_eq!(
            (told.status, told.text()),
            (status, body.replace("REF", &own)),
            "{target}: {}",
            scene.proxy.log()
        );
        assert_eq!(told.field("fencepost-provenance"), Some("look-up"));
        assert_eq!(scene.upstream.effects().len(), 1, "{target}");
        assert_eq!(scene.sent().len(), sent, "{target}");
        let questions = scene.upstream.heads().len() - sent;
        assert!(questions > 3, "{target}: the others' were looked at");
    }
}

/// Square: a payment of which nobody knows is cancelled by its key, and never sent again.
#[test]
fn square_cancels_by_its_key_what_nobody_knows() {
    let upstream = Upstream::honouring(r#""idempotency_key":""#);
    let scene = Scene::new("square", upstream, QUICK);
    let tries = AtomicUsize::new(0);
    scene.upstream.when_asked(move |_, head, body| {
        assert_eq!(head.word(1), "/v2/payments/cancel");
        assert_eq!(body, format!(r#"{{"idempotency_key":"{KEY}"}}"#));
        // Not cancelled yet, for all that is known.
        match tries.fetch_add(1, Ordering::SeqCst) {
            0 => json_answer(200, r#"{"errors":[{"code":"BAD_REQUEST"}]}"#),
            _ => json_answer(200, "{}"),
        }
    });
    scene.upstream.next(Script::lose_answer());
    let pay = scene
        .proxy
        .post("/v2/payments")
        .json(&format!(r#"{{"idempotency_key":"{KEY}","amount":5}}"#));
    let told = pay.send();
    assert_eq!(told.status, 409, "{}", told.text());
    let kind = told.json()["type"].clone();
    assert_eq!(kind, "urn:fencepost:problem:operation-voided");
    let again = pay.send();
    assert_eq!((again.status, again.is_replay()), (409, true));
    assert_eq!(scene.sent().len(), 1);
}

/// S3: what is there now is what was sent, or it is not; a signature is for its own request alone.
#[test]
fn object_storage_is_compared_with_where_its_credential_asks() {
    let created = "HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nContent-Length: 5\r\n\r\nbytes";
    let denied = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";
    let signature = "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host, Signature=c";
    for (credential, answer) in [("Bearer s3cret", created), (signature, denied)] {
        let scene = Scene::new("s3", Upstream::start(Keys::Ignored), QUICK);
        scene
            .upstream
            .when_asked(move |_, _, _| answer.as_bytes().to_vec());
        scene.upstream.next(Script::lose_answer());
        let put = scene.proxy.put("/bucket/a/b.txt").key(KEY);
        let put = put
            .field("if-none-match", "*")
            .content("text/plain", "bytes");
        let told = put.field("authorization", credential).send();
        if credential == signature {
            assert_eq!(told.status, 504, "{}", told.text());
            let events = scene.operation(KEY)["events"].to_string();
            assert!(events.contains("signature"), "{events}");
        } else {
            assert_eq!(told.status, 200, "{}", told.text());
            assert_eq!(told.field("etag"), Some("\"v1\""));
        }
        assert_eq!(scene.upstream.effects().len(), 1);
    }
}
