//! How a request looks that has an effect at a vendor: one of each shipped profile at least.
//!
//! What always holds: `KEY` stands where the caller's key goes, and `ITEM` where it says what it acts on; the rest is
//! what the vendor documents.
//!
//! What it does not do: say how the vendor behaves, or how it is asked afterwards. The tests do.

use std::net::SocketAddr;

use super::FORM;
use crate::support::call::Call;
use crate::support::upstream::{Keys, Upstream};

const JSON: &str = "application/json";

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) profile: &'static str,
    pub(super) method: &'static str,
    pub(super) target: &'static str,
    pub(super) kind: &'static str,
    pub(super) body: &'static str,
    pub(super) key: Place,
    pub(super) fields: &'static [(&'static str, &'static str)],
}

/// Where the caller's key stands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// In that header.
    Header(&'static str),
    /// After that text, in the target or the content.
    After(&'static str),
}

impl Request {
    /// An upstream that takes this request's key for what its profile says, or otherwise.
    pub(super) fn upstream(&self, keys: Keys) -> Upstream {
        match (self.key, keys) {
            (Place::After(before), Keys::Honoured) => Upstream::honouring(before),
            (Place::After(_) | Place::Header(_), _) => Upstream::start(keys),
        }
    }

    /// It, to the proxy that listens there.
    pub(super) fn call(&self, at: SocketAddr, key: &str, item: &str) -> Call {
        let filled = |text: &str| text.replace("KEY", key).replace("ITEM", item);
        let mut call = Call::new(at, self.method, &filled(self.target));
        if let Place::Header(header) = self.key {
            call = call.field(header, key);
        }
        for (name, value) in self.fields {
            call = call.field(name, value);
        }
        call.content(self.kind, &filled(self.body))
    }
}

const POST: Request = Request {
    profile: "",
    method: "POST",
    target: "",
    kind: JSON,
    body: r#"{"amount":5,"of":"ITEM"}"#,
    key: Place::Header("Idempotency-Key"),
    fields: &[("Authorization", "Bearer s3cret")],
};

const STRIPE: Request = Request {
    profile: "stripe-v1",
    kind: FORM,
    ..POST
};

pub(super) const STRIPE_PAYMENT: Request = Request {
    target: "/v1/payment_intents",
    body: "amount=5&confirm=true",
    ..STRIPE
};

pub(super) const STRIPE_CHARGE: Request = Request {
    target: "/v1/charges",
    body: "amount=5",
    ..STRIPE
};

pub(super) const STRIPE_REFUND: Request = Request {
    target: "/v1/refunds",
    body: "charge=ch_1",
    ..STRIPE
};

pub(super) const STRIPE_CAPTURE: Request = Request {
    target: "/v1/payment_intents/pi_ITEM/capture",
    body: "amount_to_capture=5",
    ..STRIPE
};

pub(super) const STRIPE_V2: Request = Request {
    profile: "stripe-v2",
    target: "/v2/core/accounts",
    ..POST
};

pub(super) const ADYEN: Request = Request {
    profile: "adyen",
    target: "/v71/payments",
    ..POST
};

pub(super) const PAYPAL: Request = Request {
    profile: "paypal",
    target: "/v2/checkout/orders/O-ITEM/authorize",
    body: "{}",
    key: Place::Header("PayPal-Request-Id"),
    ..POST
};

pub(super) const SQUARE: Request = Request {
    profile: "square",
    target: "/v2/payments",
    body: r#"{"idempotency_key":"KEY","amount":5}"#,
    key: Place::After(r#""idempotency_key":""#),
    ..POST
};

pub(super) const GOCARDLESS: Request = Request {
    profile: "gocardless",
    target: "/payments",
    ..POST
};

pub(super) const INCREASE: Request = Request {
    profile: "increase",
    target: "/ach_transfers",
    ..POST
};

pub(super) const WISE: Request = Request {
    profile: "wise",
    target: "/v1/transfers",
    body: r#"{"quoteUuid":"q","customerTransactionId":"KEY"}"#,
    key: Place::After(r#""customerTransactionId":""#),
    ..POST
};

pub(super) const CHECKOUT_COM: Request = Request {
    profile: "checkout-com",
    target: "/payments",
    body: r#"{"amount":5,"reference":"order 42"}"#,
    key: Place::Header("Cko-Idempotency-Key"),
    ..POST
};

pub(super) const RESEND: Request = Request {
    profile: "resend",
    target: "/emails",
    body: r#"{"to":"a@example.com","subject":"hello ITEM"}"#,
    ..POST
};

pub(super) const BREVO: Request = Request {
    profile: "brevo",
    target: "/v3/smtp/email",
    body: r#"{"subject":"hello","headers":{"idempotencyKey":"KEY"}}"#,
    key: Place::After(r#""idempotencyKey":""#),
    ..POST
};

pub(super) const EC2: Request = Request {
    profile: "aws-ec2",
    target: "/",
    kind: FORM,
    body: "Action=RunInstances&ImageId=ami-1&ClientToken=KEY",
    key: Place::After("ClientToken="),
    fields: &[(
        "Authorization",
        "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host, Signature=c",
    )],
    ..POST
};

pub(super) const GOOGLE: Request = Request {
    profile: "google",
    target: "/compute/v1/projects/p/zones/z/instances?requestId=KEY",
    body: "{}",
    key: Place::After("requestId="),
    ..POST
};

pub(super) const SHOPIFY: Request = Request {
    profile: "shopify-graphql",
    target: "/admin/api/2026-01/graphql.json",
    body: r#"{"query":"mutation M($idempotencyKey: String!) { orderCreate(order: {}) @idempotent(key: $idempotencyKey) { userErrors { code } } }","variables":{"idempotencyKey":"KEY"}}"#,
    key: Place::After(r#""variables":{"idempotencyKey":""#),
    ..POST
};

pub(super) const TWILIO: Request = Request {
    profile: "twilio",
    target: "/2010-04-01/Accounts/AC1/Messages.json",
    kind: FORM,
    body: "To=ITEM&Body=hello",
    ..POST
};

pub(super) const SENDGRID: Request = Request {
    profile: "sendgrid",
    target: "/v3/mail/send",
    ..POST
};

pub(super) const GITHUB: Request = Request {
    profile: "github",
    target: "/repos/o/r/issues",
    ..POST
};

pub(super) const IETF: Request = Request {
    profile: "ietf",
    target: "/orders",
    ..POST
};

pub(super) const GENERIC: Request = Request {
    profile: "generic",
    target: "/orders",
    ..POST
};

pub(super) const S3_NEW: Request = Request {
    profile: "s3",
    method: "PUT",
    target: "/bucket/new/ITEM",
    kind: "text/plain",
    body: "bytes of ITEM",
    fields: &[("Authorization", "Bearer s3cret"), ("If-None-Match", "*")],
    ..POST
};

pub(super) const S3_INSTEAD: Request = Request {
    target: "/bucket/seeded/ITEM",
    fields: &[("Authorization", "Bearer s3cret"), ("If-Match", "\"seed\"")],
    ..S3_NEW
};
