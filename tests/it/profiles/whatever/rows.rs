//! Each shipped profile before an upstream that behaves as documented: what it makes of keys, how it refuses, and
//! how it answers questions by what it has done.
//!
//! What always holds: every profile has a row. What an upstream says of itself is true, as far as it says anything;
//! what it lists names its effects `effect-<number>`, and somebody else's things otherwise.
//!
//! What it does not do: lose, hold or cut anything (`moods`).

use super::super::requests::{
    ADYEN, BREVO, CHECKOUT_COM, EC2, GENERIC, GITHUB, GOCARDLESS, GOOGLE, IETF, INCREASE, PAYPAL,
    RESEND, Request, S3_INSTEAD, S3_NEW, SENDGRID, SHOPIFY, SQUARE, STRIPE_PAYMENT, STRIPE_V2,
    TWILIO, WISE,
};
use super::answers::{
    Question, checkout_com, google, increase, ordered, paypal, s3, square, stored, stripe, wise,
};
use crate::support::upstream::{Keys, Upstream};

/// One of them.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) request: Request,
    /// What the config says besides the profile.
    pub(super) route: &'static str,
    pub(super) dedupes: By,
    /// Has the request a token, for one resource of which the order is strict?
    pub(super) fenced: bool,
    pub(super) shapes: Shapes,
    /// Answers a question; `None`: it cannot be asked.
    pub(super) told: Option<fn(&Question<'_>) -> Vec<u8>>,
    /// What an effect is answered; `None`: 201, and its name.
    pub(super) usual: Option<fn(usize) -> Vec<u8>>,
}

/// What tells an upstream that it has done something already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Key,
    Condition,
    Nothing,
}

/// How it says what, with status and content.
#[derive(Clone, Copy)]
pub(super) struct Shapes {
    /// A definitive no.
    pub(super) refusal: (u16, &'static str),
    /// Is that what the key gets from then on?
    pub(super) remembers_refusals: bool,
    /// Nothing was begun.
    pub(super) unprocessed: (u16, &'static str),
    /// The first request is still running.
    pub(super) running: (u16, &'static str),
    /// The key met another payload.
    pub(super) conflict: (u16, &'static str),
}

impl Row {
    /// An upstream that behaves as this row says.
    pub(super) fn upstream(&self) -> Upstream {
        let upstream = self.request.upstream(match self.dedupes {
            By::Key => Keys::Honoured,
            By::Condition | By::Nothing => Keys::Ignored,
        });
        if self.dedupes == By::Condition {
            upstream.judge_conditions();
        }
        if let Some(usual) = self.usual {
            upstream.answer_usually(usual);
        }
        upstream
    }
}

const SHAPES: Shapes = Shapes {
    refusal: (402, r#"{"error":"declined"}"#),
    remembers_refusals: false,
    unprocessed: (429, r#"{"error":"slow down"}"#),
    running: (409, r#"{"error":"is running"}"#),
    conflict: (409, r#"{"error":"another payload"}"#),
};

const STRIPES: Shapes = Shapes {
    refusal: (402, r#"{"error":{"type":"card_error"}}"#),
    remembers_refusals: true,
    unprocessed: (429, r#"{"error":{"type":"rate_limit_error"}}"#),
    running: (
        409,
        r#"{"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}"#,
    ),
    conflict: (400, r#"{"error":{"type":"idempotency_error"}}"#),
};

/// The least that a row says.
const PLAIN: Row = Row {
    name: "",
    request: GENERIC,
    route: "",
    dedupes: By::Key,
    fenced: false,
    shapes: SHAPES,
    told: None,
    usual: None,
};

/// One that neither takes keys nor can be asked.
const OPAQUE: Row = Row {
    dedupes: By::Nothing,
    ..PLAIN
};

/// For an API whose documentation says how long a key counts.
const LIFETIME: &str = "key: { lifetime: 24h }\n";

pub(super) const GENERIC_ROW: Row = Row {
    name: "generic",
    route: LIFETIME,
    ..PLAIN
};

pub(super) const STRIPE_ROW: Row = Row {
    name: "stripe-v1",
    request: STRIPE_PAYMENT,
    shapes: STRIPES,
    told: Some(stripe),
    ..PLAIN
};

pub(super) const TWILIO_ROW: Row = Row {
    name: "twilio",
    request: TWILIO,
    ..OPAQUE
};

pub(super) const FENCED_ROW: Row = Row {
    name: "generic, fenced",
    request: Request {
        method: "PUT",
        target: "/ledgers/1",
        ..GENERIC
    },
    route: r#"key: { lifetime: 24h }
effects:
  - on: PUT /ledgers/{ledger}
    once: { header: Idempotency-Key, required: true }
    join: 1s
    settle:
      - send_again: { attempts: 2, backoff: { from: 50ms, to: 50ms } }
    fence:
      resource: "ledger:{path.ledger}"
      token: { header: Fencing-Token, mode: require }
      if_older_unsettled: { wait: 1s }
"#,
    fenced: true,
    ..PLAIN
};

pub(super) const ROWS: &[Row] = &[
    STRIPE_ROW,
    Row {
        name: "stripe-v2",
        request: STRIPE_V2,
        shapes: Shapes {
            remembers_refusals: false,
            ..STRIPES
        },
        ..PLAIN
    },
    Row {
        name: "adyen",
        request: ADYEN,
        shapes: Shapes {
            running: (422, r#"{"status":422,"errorCode":"704"}"#),
            conflict: (503, r#"{"status":503,"errorCode":"703"}"#),
            ..SHAPES
        },
        ..PLAIN
    },
    Row {
        name: "paypal",
        request: PAYPAL,
        shapes: Shapes {
            running: (
                422,
                r#"{"details":[{"issue":"PREVIOUS_REQUEST_IN_PROGRESS"}]}"#,
            ),
            unprocessed: (422, r#"{"details":[{"issue":"INVALID"}]}"#),
            ..SHAPES
        },
        told: Some(paypal),
        ..PLAIN
    },
    Row {
        name: "square",
        request: SQUARE,
        shapes: Shapes {
            conflict: (400, r#"{"errors":[{"code":"IDEMPOTENCY_KEY_REUSED"}]}"#),
            ..SHAPES
        },
        told: Some(square),
        ..PLAIN
    },
    Row {
        name: "gocardless",
        request: GOCARDLESS,
        shapes: Shapes {
            conflict: (
                409,
                r#"{"error":{"errors":[{"reason":"idempotent_creation_conflict","links":{"conflicting_resource_id":"PM1"}}]}}"#,
            ),
            ..SHAPES
        },
        ..PLAIN
    },
    Row {
        name: "increase",
        request: INCREASE,
        shapes: Shapes {
            conflict: (
                409,
                r#"{"type":"idempotency_key_already_used_error","resource_id":"t_0"}"#,
            ),
            ..SHAPES
        },
        told: Some(increase),
        ..PLAIN
    },
    Row {
        name: "wise",
        request: WISE,
        told: Some(wise),
        ..PLAIN
    },
    Row {
        name: "checkout-com",
        request: CHECKOUT_COM,
        told: Some(checkout_com),
        ..PLAIN
    },
    Row {
        name: "resend",
        request: RESEND,
        shapes: Shapes {
            running: (409, r#"{"name":"concurrent_idempotent_requests"}"#),
            conflict: (409, r#"{"name":"invalid_idempotent_request"}"#),
            ..SHAPES
        },
        ..PLAIN
    },
    Row {
        name: "brevo",
        request: BREVO,
        shapes: Shapes {
            conflict: (400, r#"{"code":"duplicate_parameter"}"#),
            ..SHAPES
        },
        ..PLAIN
    },
    Row {
        name: "aws-ec2",
        request: EC2,
        shapes: Shapes {
            unprocessed: (403, r#"{"Code":"UnauthorizedOperation"}"#),
            conflict: (400, r#"{"Code":"IdempotentParameterMismatch"}"#),
            ..SHAPES
        },
        ..PLAIN
    },
    Row {
        name: "google",
        request: GOOGLE,
        told: Some(google),
        ..PLAIN
    },
    Row {
        name: "shopify-graphql",
        request: SHOPIFY,
        shapes: Shapes {
            refusal: (
                200,
                r#"{"data":{"orderCreate":{"userErrors":[{"code":"INVALID"}]}}}"#,
            ),
            unprocessed: (200, r#"{"errors":[{"extensions":{"code":"THROTTLED"}}]}"#),
            running: (
                200,
                r#"{"data":{"orderCreate":{"userErrors":[{"code":"IDEMPOTENCY_CONCURRENT_REQUEST"}]}}}"#,
            ),
            conflict: (
                200,
                r#"{"data":{"orderCreate":{"userErrors":[{"code":"IDEMPOTENCY_KEY_PARAMETER_MISMATCH"}]}}}"#,
            ),
            ..SHAPES
        },
        usual: Some(ordered),
        ..PLAIN
    },
    TWILIO_ROW,
    Row {
        name: "sendgrid",
        request: SENDGRID,
        ..OPAQUE
    },
    Row {
        name: "github",
        request: GITHUB,
        ..OPAQUE
    },
    Row {
        name: "ietf",
        request: IETF,
        route: LIFETIME,
        shapes: Shapes {
            conflict: (422, r#"{"title":"another payload"}"#),
            unprocessed: (400, r#"{"title":"malformed"}"#),
            ..SHAPES
        },
        ..PLAIN
    },
    GENERIC_ROW,
    Row {
        name: "s3, created",
        request: S3_NEW,
        dedupes: By::Condition,
        told: Some(s3),
        usual: Some(stored),
        ..PLAIN
    },
    Row {
        name: "s3, replaced",
        request: S3_INSTEAD,
        dedupes: By::Condition,
        told: Some(s3),
        usual: Some(stored),
        ..PLAIN
    },
    FENCED_ROW,
    Row {
        name: "twilio, fenced",
        request: Request {
            target: "/2010-04-01/Accounts/AC1/Queues/1.json",
            ..TWILIO
        },
        route: r#"effects:
  - on: POST /2010-04-01/Accounts/{account}/Queues/{queue}
    once: { header: Idempotency-Key }
    join: 1s
    fence:
      resource: "queue:{path.queue}"
      token: { header: Fencing-Token, mode: require }
      order: strict
      if_older_unsettled: { wait: 1s }
"#,
        fenced: true,
        ..OPAQUE
    },
];
