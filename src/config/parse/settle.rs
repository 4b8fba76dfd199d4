//! How a lost answer is settled.
//!
//! What always holds: bytes are sent again only to an upstream that deduplicates by key, and only if
//! they are kept.
//!
//! What it does not do: look-ups (a later version).

use crate::config::field::{Field, Fields};
use crate::config::scalar::{self, DURATION};
use crate::protocol::policy::Capability;
use crate::protocol::steps::{ResendPolicy, Steps};
use crate::protocol::time::Millis;

const DEFAULT: ResendPolicy = ResendPolicy {
    attempts: 5,
    backoff_from: Millis(200),
    backoff_to: Millis(30_000),
};

const MOST_ATTEMPTS: u64 = 1_000;

/// Reads `settle` and `keep_request`: the steps, and whether the request is kept.
pub(super) fn settle(fields: &mut Fields<'_>, capability: Capability) -> (Steps, bool) {
    let keep = fields.or("keep_request", true, |field| {
        field.choice(&[("until-settled", true), ("never", false)])
    });
    let resend = match fields.take("settle") {
        None => (capability.idempotent && keep).then_some(DEFAULT),
        Some(field) => steps(&field, capability, keep),
    };
    // Without a resend nobody would ever read the bytes again.
    (Steps::resends(resend), keep && resend.is_some())
}

fn steps(field: &Field<'_>, capability: Capability, keep: bool) -> Option<ResendPolicy> {
    let mut resend = None;
    for step in field.list()? {
        let Some(mut fields) = step.map() else {
            continue;
        };
        fields.refuse_later(&["look_up"]);
        if let Some(field) = fields.take("send_again") {
            if !capability.idempotent {
                field.error("only an upstream with capability `idempotent` may be sent to again");
            } else if !keep {
                field.error("nothing can be sent again with `keep_request: never`");
            } else if resend.is_some() {
                field.error("stands here already");
            }
            resend = send_again(&field);
        }
        fields.finish();
    }
    resend
}

fn send_again(field: &Field<'_>) -> Option<ResendPolicy> {
    let mut fields = field.map()?;
    let attempts = fields.or("attempts", DEFAULT.attempts, |field| {
        field.number("a number from 1 to 1000", 1..=MOST_ATTEMPTS)
    });
    let (backoff_from, backoff_to) = fields
        .take("backoff")
        .and_then(|field| backoff(&field))
        .unwrap_or((DEFAULT.backoff_from, DEFAULT.backoff_to));
    fields.finish();
    Some(ResendPolicy {
        attempts,
        backoff_from,
        backoff_to,
    })
}

fn backoff(field: &Field<'_>) -> Option<(Millis, Millis)> {
    let mut fields = field.map()?;
    let mut read = |name, default| fields.or(name, default, |f| f.read(DURATION, scalar::millis));
    let from = read("from", DEFAULT.backoff_from);
    let to = read("to", DEFAULT.backoff_to.max(from));
    if to < from {
        field.error("`to` is shorter than `from`");
    }
    fields.finish();
    Some((from, to))
}
