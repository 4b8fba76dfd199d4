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
use super::super::settings::{Embedded, Register, RegisterPlace, Remember, Upstream};
use super::{path, shared};

const DEFAULT_PATH: &str = "/var/lib/fencepost";
const ALONE: &str = "the embedded register fences only the callers of this one process";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const DEFAULT_ANSWERS: Duration = DAY.saturating_mul(7);
const DEFAULT_IDENTITIES: Duration = DAY.saturating_mul(400);

/// Reads it.
pub(super) fn register(fields: &mut Fields<'_>, upstreams: &[Arc<Upstream>]) -> Register {
    let field = fields.take("register");
    let place = field.as_ref().unwrap_or(fields.own()).clone();
    let longest = longest_key(upstreams);
    let fields = field.and_then(|field| field.map());
    let Some(mut fields) = fields else {
        place.warn(ALONE);
        return Register {
            place: RegisterPlace::Embedded(usual_place()),
            remember: usual(longest),
            keys: Vec::new(),
        };
    };
    fields.or("if_down", (), |field| {
        field.choice_or_later(&[("refuse", ())], &["forward-with-key"])
    });
    let embedded = fields.take("embedded");
    let database = fields.take("postgres");
    let remember = fields.or("remember", usual(longest), |field| remember(field, longest));
    let encryption = fields.take("encryption");
    let register = if let Some(field) = database {
        if embedded.is_some() {
            field.error("`embedded` stands there too: a register is in one place");
        }
        Register {
            place: shared::place(&field, upstreams),
            remember,
            keys: shared_keys(&field, encryption),
        }
    } else {
        place.warn(ALONE);
        let embedded = embedded.and_then(|field| self::embedded(&field));
        Register {
            place: RegisterPlace::Embedded(embedded.unwrap_or_else(usual_place)),
            remember,
            keys: embedded_keys(encryption),
        }
    };
    fields.finish();
    register
}

fn usual_place() -> Embedded {
    Embedded {
        path: PathBuf::from(DEFAULT_PATH),
        ephemeral: false,
        witness: None,
    }
}

fn embedded(field: &Field<'_>) -> Option<Embedded> {
    let mut fields = field.map()?;
    let path = fields.or("path", PathBuf::from(DEFAULT_PATH), path);
    let ephemeral = fields.or("ephemeral", false, shared::ephemeral);
    let witness = fields.take("witness");
    if let (Some(field), true) = (&witness, ephemeral) {
        field.error(
            "an ephemeral register may be lost without a fault: a witness that is kept elsewhere would \
             refuse every start after that",
        );
    }
    let witness = witness.and_then(|field| super::path(&field));
    fields.finish();
    Some(Embedded {
        path,
        ephemeral,
        witness,
    })
}

/// The longest lifetime of a key at any upstream.
fn longest_key(upstreams: &[Arc<Upstream>]) -> Duration {
    let lifetimes = upstreams.iter().flat_map(|upstream| {
        let of_effects = upstream.protects().map(|it| it.insert.key.as_ref());
        std::iter::once(upstream.key.as_ref())
            .chain(of_effects)
            .filter_map(|key| key?.policy.lifetime)
    });
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

/// What a register is sealed with.
enum Encryption {
    None,
    Keys(Vec<EncryptionKey>),
}

fn embedded_keys(encryption: Option<Field<'_>>) -> Vec<EncryptionKey> {
    let Some(field) = encryption else {
        return Vec::new();
    };
    match self::encryption(&field) {
        Some(Encryption::Keys(keys)) => keys,
        Some(Encryption::None) => {
            field.error(
                "is for a register in PostgreSQL: leave it out for a key file beside the register",
            );
            Vec::new()
        }
        None => Vec::new(),
    }
}

/// Others than the machine's own administrators read a database: whoever wants nothing sealed says so.
fn shared_keys(place: &Field<'_>, encryption: Option<Field<'_>>) -> Vec<EncryptionKey> {
    let Some(field) = encryption else {
        place.error(
            "needs `encryption: { keys: [ … ] }` beside it: requests, with their credentials, and answers \
             are kept there. Without it, write `encryption: none`",
        );
        return Vec::new();
    };
    match self::encryption(&field) {
        Some(Encryption::Keys(keys)) => keys,
        Some(Encryption::None) => {
            field.warn(
                "whoever reads the database reads the stored requests, their credentials and the answers",
            );
            vec![EncryptionKey::KNOWN_TO_ALL]
        }
        None => Vec::new(),
    }
}

fn encryption(field: &Field<'_>) -> Option<Encryption> {
    if field.is_word("none") {
        return Some(Encryption::None);
    }
    let mut fields = field.map()?;
    let keys = fields.need("keys").and_then(|field| {
        let items = field.list()?;
        if items.is_empty() {
            field.error("names no key; leave `encryption` out for a key file beside the register");
        }
        Some(keys(&items))
    });
    fields.finish();
    keys.map(Encryption::Keys)
}

fn keys(items: &[Field<'_>]) -> Vec<EncryptionKey> {
    let mut keys: Vec<EncryptionKey> = Vec::new();
    for item in items {
        let Some(text) = item.secret_text() else {
            continue;
        };
        // It opens what was kept before there were keys, and seals nothing any more.
        if text == "none" && !keys.is_empty() {
            keys.push(EncryptionKey::KNOWN_TO_ALL);
            continue;
        }
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
