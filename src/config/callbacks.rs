//! Callbacks: what an upstream tells of its own accord, and how it proves that it is the one who tells.
//!
//! What always holds: a callback is believed only under a signature; there is at least one secret; what a
//! callback proves is said by conditions, and what none says proves nothing.
//!
//! What it does not do: verify (`wire::signed`), or settle (`reconcile::callback`).

use std::net::SocketAddr;
use std::time::Duration;

use http::{HeaderName, Uri};

use super::callers::ListenTls;
use super::secret::Secret;
use crate::expression::{PathTemplate, Pick, RequestCondition, Template};

/// Where an upstream's callbacks arrive, and what they mean.
#[derive(Clone, Debug)]
pub struct Callbacks {
    /// Where the upstream, or what stands before us, reaches it.
    pub listen: SocketAddr,
    /// How it speaks TLS; `None`: in the clear.
    pub listen_tls: Option<ListenTls>,
    /// Where the application takes them, unchanged; `None`: nobody else does, and they are answered here.
    pub forward: Option<Uri>,
    /// Longest content, in bytes.
    pub body_limit: usize,
    /// How long the content may take to come in, and then the application to answer.
    pub response: Duration,
    /// In the order of the file; the first whose path matches counts.
    pub rules: Vec<CallbackRule>,
}

/// Callbacks that are treated alike.
#[derive(Clone, Debug)]
pub struct CallbackRule {
    /// `POST /webhooks/stripe`: as in the file; for logs and metrics.
    pub name: String,
    /// Which paths.
    pub path: PathTemplate,
    /// Who may tell.
    pub signature: Signature,
    /// Which operation it speaks of.
    pub subject: Subject,
    /// When it says that the effect was applied.
    pub applied: Option<RequestCondition>,
    /// When it says that it was not.
    pub not_applied: Option<RequestCondition>,
    /// Does "not applied" speak for good of everything that may have acted?
    pub definitive: bool,
    /// Does "applied" mean the very form that is in force, where there are two?
    pub tells_forms: bool,
    /// What callers get, where it was applied.
    pub outcome: FoundOutcome<Pick>,
}

/// How a callback names its operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Its id.
    pub operation: Template,
    /// Its principal: of each header that is part of it, in order, what the header had; a value that the
    /// callback lacks is a header that was absent.
    pub principal: Vec<Template>,
}

/// The answer that callers of an operation get whose own answer nobody has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundOutcome<P> {
    /// Its status.
    pub status: u16,
    /// Its content, part of what was found; `None`: it has none.
    pub body: Option<P>,
}

/// A way to sign callbacks.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Which.
    pub scheme: Scheme,
    /// Any of them may have been used: at least one, the newest first.
    pub secrets: Vec<Secret>,
    /// How far the time that was signed may be from ours; not used where none is signed.
    pub tolerance: Duration,
}

/// What is signed, and where the signature stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Stripe's: `Stripe-Signature: t=…,v1=…`, over `{t}.{body}`
    /// (<https://docs.stripe.com/webhooks?verify=verify-manually>).
    Stripe,
    /// Standard Webhooks: `webhook-id`, `webhook-timestamp`, `webhook-signature: v1,…`, over
    /// `{id}.{timestamp}.{body}`; also under the older names that begin with `svix-`
    /// (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>).
    Standard,
    /// GitHub's: `X-Hub-Signature-256: sha256=…` over the body. No time is signed
    /// (<https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries>).
    GitHub,
    /// An HMAC in a header.
    Hmac(HmacHeader),
}

/// An HMAC in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HmacHeader {
    /// The header that carries it.
    pub header: HeaderName,
    /// With which digest.
    pub digest: HmacDigest,
    /// How it is written.
    pub encoding: HmacEncoding,
    /// What stands before it.
    pub prefix: String,
    /// The header with the time, in seconds since 1970, that is signed before the body as
    /// `{timestamp}.{body}`; `None`: the body alone is signed.
    pub timestamp: Option<HeaderName>,
}

/// A digest for an HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HmacDigest {
    /// SHA-1: old, still unbroken in an HMAC, and all that some offer.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// How an HMAC is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HmacEncoding {
    /// Hexadecimal, either case.
    Hex,
    /// Base64 with padding.
    Base64,
}
