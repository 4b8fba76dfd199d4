//! An explanation: what text and JSON are made of.
//!
//! What always holds: values of credentials are hidden before they get here, but for what is kept to
//! compare two requests and never shown.
//!
//! What it does not do: find anything out (`explanation`).

use serde::Serialize;

use crate::config::Means;
use crate::wire::identify::{Identified, Original};

/// Everything that can be said without sending or asking.
#[derive(Debug, Serialize)]
pub(super) struct Explanation {
    pub(super) request: String,
    pub(super) content_bytes: usize,
    pub(super) listener: String,
    pub(super) upstream: String,
    pub(super) upstream_url: String,
    /// The rules in their order, until one matches.
    pub(super) considered: Vec<Considered>,
    /// The rule: of an effect, `unlisted`, or none.
    pub(super) effect: Option<String>,
    pub(super) path: Vec<Named>,
    pub(super) once: Option<Composed>,
    pub(super) operation: Option<Operation>,
    pub(super) principal: Option<Vec<Named>>,
    pub(super) resource: Option<Composed>,
    pub(super) token: Option<Token>,
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) upstream_key: Option<UpstreamKey>,
    /// What else is put into the request.
    pub(super) references: Vec<Named>,
    pub(super) policy: Vec<Named>,
    pub(super) outcome: Outcome,
    /// The rule is only observed: the request is forwarded, whatever the outcome would be.
    pub(super) observed: bool,
    /// For comparing; not shown.
    #[serde(skip)]
    pub(super) identified: Option<Identified>,
    /// What it was read from, and what of it counts.
    #[serde(skip)]
    pub(super) original: Option<(Original, Means)>,
}

/// A rule, and why it does not match.
#[derive(Debug, Serialize)]
pub(super) struct Considered {
    pub(super) rule: String,
    pub(super) matches: bool,
    pub(super) why: String,
}

/// A name and a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Named {
    pub(super) name: String,
    /// `None`: it cannot be had.
    pub(super) value: Option<String>,
    /// Why it cannot be had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) missing: Option<String>,
    /// Hidden values are told apart all the same.
    #[serde(skip)]
    pub(super) plain: Option<String>,
}

/// A text made of parts of the request.
#[derive(Debug, Serialize)]
pub(super) struct Composed {
    pub(super) template: String,
    pub(super) parts: Vec<Named>,
    pub(super) value: Option<String>,
}

/// The identity, whole.
#[derive(Debug, Serialize)]
pub(super) struct Operation {
    pub(super) tenant: String,
    pub(super) upstream: String,
    /// Digest of the account or caller.
    pub(super) principal: Option<String>,
    pub(super) id: String,
    /// `caller`, `derived` or `fresh`.
    pub(super) origin: &'static str,
    /// `ever` or `per generation`.
    pub(super) once: &'static str,
}

/// The token.
#[derive(Debug, Serialize)]
pub(super) struct Token {
    pub(super) from: String,
    pub(super) value: Option<String>,
    /// The lease whose token it gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stamped: Option<String>,
    pub(super) readable: bool,
    pub(super) mode: &'static str,
    pub(super) source: String,
}

/// What the request means.
#[derive(Debug, Serialize)]
pub(super) struct Fingerprint {
    pub(super) form: u8,
    pub(super) key: &'static str,
    pub(super) covers: String,
    /// The first half of it, under a key of zeros: equal here means equal there.
    pub(super) compare: String,
}

/// What the upstream gets.
#[derive(Debug, Serialize)]
pub(super) struct UpstreamKey {
    /// The name of a header, or another place: `json /idempotency_key`.
    pub(super) place: String,
    pub(super) value: String,
    pub(super) how: &'static str,
}

/// What would become of it.
#[derive(Debug, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub(super) enum Outcome {
    /// It is no effect.
    Forwarded { counted: bool },
    /// It would be refused whatever the register holds.
    Refused {
        status: u16,
        problem: String,
        detail: String,
        retry: String,
    },
    /// The register decides.
    PutToRegister,
}
