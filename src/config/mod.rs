//! The configuration: a YAML file becomes a typed, immutable [`Config`].
//!
//! What always holds: every problem is reported, with path, line and column, not just the first;
//! unknown fields are refused; what a later version brings is refused and never silently accepted;
//! secrets are not shown by `Debug` or `Display`. The environment is read here and nowhere else. The
//! schema comes out of the parser, not out of a list beside it.
//!
//! What it does not do: watch its file (`app::reload`), or explain a request (`cli::explain`).

#![warn(missing_docs)]

mod answers;
mod asking;
mod callbacks;
mod callers;
mod database;
mod encryption;
mod errors;
mod field;
mod inbound;
mod insertion;
mod inside;
mod leases;
mod parse;
mod problems;
mod profile;
mod questions;
mod scalar;
mod schema;
mod secret;
mod settings;
mod tree;

pub use answers::AnswerRules;
pub use asking::{Asking, Compare, Content, Credential, LookUp, Pages, Query, Undo, Value};
pub use callbacks::{
    CallbackRule, Callbacks, FoundOutcome, HmacDigest, HmacEncoding, HmacHeader, Scheme, Signature,
    Subject,
};
pub use callers::{CertificateName, ClientCertificates, ListenTls, PrincipalPart};
pub use database::{DatabaseTls, DatabaseUrl};
pub use encryption::EncryptionKey;
pub use errors::ErrorShape;
#[cfg(test)]
pub(crate) use errors::{PROBLEMS, RETRIES};
pub use inbound::{Inbound, Pin, PinBy};
pub use insertion::{
    IfPresent, Insert, KeyFormat, KeyRule, ReferencePart, ReferenceRule, Signed, Slot,
};
pub use leases::{Alive, HeldLease, OnLoss, Sign, StartIdentity};
pub use problems::{Problem, Problems, Severity, Warnings};
pub use profile::{ProfileText, profiles};
pub use scalar::{millis as duration, pause};
pub use schema::schema;
pub use secret::Secret;
pub use settings::{
    Action, Admin, Config, EffectRule, Embedded, Fence, Identity, Limits, Means, Methods, Mode,
    Protect, Register, RegisterPlace, Remember, Route, Selected, SharedRegister, TlsFiles,
    Unlisted, Upstream,
};

use std::path::Path;

use field::Field;
use problems::Findings;

/// Reads and parses a file. Relative paths in it are taken as they are.
pub fn load(path: &Path) -> Result<(Config, Warnings), Problems> {
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&text, &path.display().to_string()),
        Err(error) => Err(Problems::unreadable(path, &error)),
    }
}

/// Parses a config; `name` is what problems call it.
pub fn parse(text: &str, name: &str) -> Result<(Config, Warnings), Problems> {
    parsed(text, name, Findings::default())
}

/// The same, but secrets are left as they are written: no file of one and no variable is read. For whoever
/// judges a config that is not to be used here; operators and keys of it are worth nothing.
pub fn parse_without_secrets(text: &str, name: &str) -> Result<(Config, Warnings), Problems> {
    parsed(text, name, Findings::without_secrets())
}

fn parsed(text: &str, name: &str, findings: Findings) -> Result<(Config, Warnings), Problems> {
    let config = tree::build(text, &findings)
        .and_then(|root| parse::config(&Field::root(&root, &findings), digest(text)))
        .map(|config| Config {
            files: findings.files(),
            ..config
        });
    let list = findings.into_list();
    let refused = list
        .iter()
        .any(|problem| problem.severity == Severity::Error);
    match config {
        Some(config) if !refused => Ok((config, Warnings::new(name, list))),
        Some(_) | None => Err(Problems::new(name, list)),
    }
}

fn digest(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest
        .as_ref()
        .iter()
        .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

#[cfg(test)]
mod tests;
