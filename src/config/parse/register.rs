//! The register: where it is, how long it remembers, what it is sealed with.
//!
//! What always holds: an answer is not forgotten before the last key's lifetime ends, and an identity
//! not before its answer.
//!
//! What it does not do: look at the file system. That is judged where the register is opened.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::super::encryption::EncryptionKey;
use super::super::field::{Field, Fields};
use super::super::scalar::{self, DURATION};
use super::super::settings::{Register, Remember, Upstream};
use super::path;

const DEFAULT_PATH: &str = "/var/lib/fencepost";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const DEFAULT_ANSWERS: Duration = DAY.saturating_mul(7);
const DEFAULT_IDENTITIES: Duration = DAY.saturating_mul(400);

/// Reads it.
pub(super) fn register(fields: &mut Fields<'_>, upstreams: &[Arc<Upstream>]) -> Register {
    let field = fields.take("register");
    let place = field.as_ref().unwrap_or(fields.own());
    place.warn("the embedded register fences only the callers of this one process");
    let longest = longest_key(upstreams);
    let mut register = Register {
        path: PathBuf::from(DEFAULT_PATH),
        ephemeral: false,
        witness: None,
        remember: usual(longest),
        keys: Vec::new(),
    };
    let Some(mut fields) = field.and_then(|field| field.map()) else {
        return register;
    };
    fields.refuse_later(&["postgres"]);
    fields.or("if_down", (), |field| {
        field.choice_or_later(&[("refuse", ())], &["forward-with-key"])
    });
    if let Some(field) = fields.take("embedded") {
        embedded(&field, &mut register);
    }
    register.remember = fields.or("remember", register.remember, |field| {
        remember(field, longest)
    });
    register.keys = fields.or("encryption", Vec::new(), encryption);
    fields.finish();
    register
}

fn embedded(field: &Field<'_>, register: &mut Register) {
    let Some(mut fields) = field.map() else {
        return;
    };
    register.path = fields.or("path", PathBuf::from(DEFAULT_PATH), path);
    register.ephemeral = fields.or("ephemeral", false, |field| {
        let ephemeral = field.boolean()?;
        if ephemeral {
            field.warn(
                "what an ephemeral register knew is lost with it, and repeats are sent again",
            );
        }
        Some(ephemeral)
    });
    let witness = fields.take("witness");
    if let (Some(field), true) = (&witness, register.ephemeral) {
        field.error(
            "an ephemeral register may be lost without a fault: a witness that is kept elsewhere would \
             refuse every start after that",
        );
    }
    register.witness = witness.and_then(|field| path(&field));
    fields.finish();
}

/// The longest lifetime of a key at any upstream.
fn longest_key(upstreams: &[Arc<Upstream>]) -> Duration {
    let lifetimes = upstreams
        .iter()
        .filter_map(|upstream| upstream.key.as_ref()?.policy.lifetime);
    Duration::from_millis(lifetimes.map(|it| it.0).max().unwrap_or_default())
}

fn usual(longest_key: Duration) -> Remember {
    let answers = DEFAULT_ANSWERS.max(longest_key);
    Remember {
        answers,
        identities: DEFAULT_IDENTITIES.max(answers),
    }
}

fn remember(field: &Field<'_>, longest_key: Duration) -> Option<Remember> {
    let usual = usual(longest_key);
    let mut fields = field.map()?;
    let answers = fields.or("answers", usual.answers, |field| {
        let answers = field.read(DURATION, scalar::duration)?;
        if answers < longest_key {
            field.error(format!(
                "a key lives for {}: an answer is not forgotten before the upstream forgets its key",
                humantime::format_duration(longest_key)
            ));
        }
        Some(answers)
    });
    let identities = fields.or("identities", DEFAULT_IDENTITIES.max(answers), |field| {
        let identities = field.read(DURATION, scalar::duration)?;
        if identities < answers {
            field.error(format!(
                "is shorter than `answers`, {}: an identity is not forgotten before its answer",
                humantime::format_duration(answers)
            ));
        }
        Some(identities)
    });
    fields.finish();
    Some(Remember {
        answers,
        identities,
    })
}

fn encryption(field: &Field<'_>) -> Option<Vec<EncryptionKey>> {
    let mut fields = field.map()?;
    let keys = fields.need("keys").and_then(|field| {
        let items = field.list()?;
        if items.is_empty() {
            field.error("names no key; leave `encryption` out for a key file beside the register");
        }
        Some(keys(&items))
    });
    fields.finish();
    keys
}

fn keys(items: &[Field<'_>]) -> Vec<EncryptionKey> {
    let mut keys: Vec<EncryptionKey> = Vec::new();
    for item in items {
        let Some(text) = item.secret_text() else {
            continue;
        };
        if item.leaves_secrets() {
            continue;
        }
        match EncryptionKey::resolve(text) {
            Ok((key, _)) if keys.contains(&key) => {
                item.error("the same key stands there already");
            }
            Ok((key, is_literal)) => {
                if is_literal {
                    item.warn("a secret stands in the file; use `${env:NAME}` or `${file:/path}`");
                }
                keys.push(key);
            }
            Err(problem) => item.error(problem),
        }
    }
    keys
}
