//! Refusals and faults, told to the caller as problem+json (RFC 9457).
//!
//! What always holds: the mapping is exhaustive, from every [`Rejection`] and every [`Fault`] to one
//! row of the contract's table (§6). Every problem says whether a retry can help, and a sentence a
//! person can act on. It names ids, tokens and fields, never the values or content of a request.
//!
//! Members beyond RFC 9457: `retry` (`never`, `same-operation`, `after-settlement`), `operation` and
//! `resource` where they are known, and what the refusal is about: `presented`, `current`,
//! `acquisition`, `sequence`, `last_sequence` (all as text), `predecessor`, `first`, `by`, and
//! `differs` (names of members, as text).
//!
//! What it does not do: decide (`protocol`), or shape errors like a vendor's own (`shaped`).

mod row;
mod undone;
mod wording;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::{Map, Value};

use super::reply::{Reply, Source};
use super::shaped::Facts;
use super::stamp::Standing;
use crate::expression::Member;
use crate::protocol::ids::{OperationKey, ResourceKey, ResourceName};
use crate::protocol::rejection::Rejection;

pub use row::{Retry, Row};
pub use undone::undone;
use wording::Wording;

/// Why the proxy itself could not do what was asked, or would not read it. Nothing was sent, except
/// where the operation is in flight or uncertain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No route, or a path that two servers could read as two routes.
    NoRoute {
        /// What is wrong with the request line, for its author.
        why: &'static str,
    },
    /// The caller's key is required and absent.
    KeyRequired {
        /// The header it belongs in.
        header: HeaderName,
    },
    /// The caller's key cannot be read.
    KeyMalformed {
        /// The header it came in.
        header: HeaderName,
    },
    /// A value that the identity or the fingerprint is made of cannot be had.
    IdentityMissing {
        /// Which, and why; no content of it.
        field: String,
    },
    /// The upstream's key, or a reference, cannot be put into the request.
    NotInsertable {
        /// Which, where, and why not; no content.
        what: String,
    },
    /// The content is longer than the route allows.
    BodyTooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// All room for buffered bodies is taken.
    Overloaded,
    /// The proxy is stopping.
    Draining,
    /// Another config names operations otherwise, and this request was read under the one before.
    ConfigChanged,
    /// The register cannot commit.
    StoreUnavailable,
    /// No connection could be made.
    UpstreamUnreachable,
    /// No connection to the worker could be made.
    WorkerUnreachable,
    /// The worker broke off before it answered: nobody knows what it did.
    WorkerBroke {
        /// For whoever asked it.
        status: StatusCode,
    },
    /// No more work can be remembered, and what is not remembered is not let in.
    TooMuchWork {
        /// So many ids are.
        at_most: usize,
    },
    /// The time to send had passed before the first byte could leave.
    DispatchExpired,
    /// The sender's sidecar does not own the resource on his behalf yet.
    LeaseHeld {
        /// Of which resource.
        resource: ResourceName,
        /// Why not.
        why: String,
    },
    /// It owned it, and does no more; or the request comes by a connection that is older.
    LeaseLost {
        /// Of which resource, where nothing else says so.
        resource: Option<ResourceName>,
        /// Why.
        why: String,
        /// What can be done.
        remedy: Remedy,
    },
    /// The operation is under way, and the time to join it has passed.
    OperationInFlight,
    /// Nobody knows how the operation ended.
    OutcomeUncertain {
        /// The route's status for it; 504 unless configured.
        status: StatusCode,
    },
}

/// What can be done about a lease that is lost, for whoever sent the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The worker is to be another one, or to say that it begins anew.
    BeginAnew,
    /// Its work came in at another time: it may be asked for again.
    AskAgain,
    /// The worker is to say what its work is known by.
    CarryId,
    /// Only the worker beside the sidecar is stamped.
    SendFromThere,
}

/// What a problem is about, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct About<'a> {
    /// The caller's operation.
    pub operation: Option<&'a OperationKey>,
    /// Its resource.
    pub resource: Option<&'a ResourceKey>,
    /// In what it differs from the first request of its identity: names of members.
    pub differs: &'a [String],
    /// Where its token belongs.
    pub token: Option<&'a Member>,
    /// Which token it was stamped with.
    pub stamped: Option<Standing>,
}

/// The reply to a request that the rules refused.
pub fn refused(rejection: &Rejection, about: About<'_>) -> Reply {
    let row = Row::of_rejection(rejection);
    let about = About {
        operation: named_by(rejection).or(about.operation),
        ..about
    };
    let mut wording = Wording::of_rejection(rejection, about);
    if !about.differs.is_empty() {
        let names = about.differs.join(", ");
        wording.detail = format!("{} It differs in: {names}.", wording.detail);
    }
    written(row, row.status(), &wording, about)
}

/// The reply to a request that the proxy could not serve.
pub fn fault(fault: &Fault, about: About<'_>) -> Reply {
    let row = Row::of_fault(fault);
    let status = match fault {
        Fault::OutcomeUncertain { status } | Fault::WorkerBroke { status } => *status,
        _ => row.status(),
    };
    let mut reply = written(row, status, &Wording::of_fault(fault), about);
    // The rest of the content is not read; or what comes after it would be refused too: in either case the
    // connection is of no more use.
    if matches!(fault, Fault::BodyTooLarge { .. } | Fault::LeaseLost { .. }) {
        let close = HeaderValue::from_static("close");
        reply.headers.insert(CONNECTION, close);
    }
    reply
}

/// The caller's operation as the register knows it, where the refusal carries it.
fn named_by(rejection: &Rejection) -> Option<&OperationKey> {
    match rejection {
        Rejection::AnswerExpired(expired) => Some(&expired.key),
        Rejection::NeedsAttention(key)
        | Rejection::NotComparable(key)
        | Rejection::CredentialRequired(key) => Some(key),
        Rejection::TokenRequired
        | Rejection::TokenMalformed
        | Rejection::StaleToken { .. }
        | Rejection::TokenUnknown { .. }
        | Rejection::TokenHeldByAnother { .. }
        | Rejection::KeyReused
        | Rejection::LeaseNotCurrent
        | Rejection::ResourceCancelled
        | Rejection::GenerationUsed { .. }
        | Rejection::SequenceRegressed { .. }
        | Rejection::PredecessorUnsettled { .. }
        | Rejection::NearDuplicate { .. } => None,
    }
}

fn written(row: Row, status: StatusCode, wording: &Wording, about: About<'_>) -> Reply {
    let mut reply = Reply::new(status, Source::Proxy);
    let headers = &mut reply.headers;
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/problem+json"),
    );
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(seconds) = row.retry_after() {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Some(key) = about.operation {
        reply.about(key);
        if row.is_unsettled() {
            reply.locate(key);
        }
    }
    reply.body = document(row, status, wording, about);
    reply.problem = Some(Box::new(Facts {
        row,
        detail: wording.detail.clone(),
        operation: about
            .operation
            .map_or_else(String::new, |key| key.id.to_string()),
    }));
    reply
}

fn document(row: Row, status: StatusCode, wording: &Wording, about: About<'_>) -> Bytes {
    let mut members = Map::new();
    let mut member = |name: &str, value: Value| members.insert(name.to_owned(), value);
    let kind = format!("urn:fencepost:problem:{}", row.name());
    member("type", Value::from(kind));
    member("title", Value::from(row.title()));
    member("status", Value::from(status.as_u16()));
    member("detail", Value::from(wording.detail.as_str()));
    member("retry", Value::from(row.retry().word()));
    if let Some(key) = about.operation {
        member("operation", Value::from(key.id.as_str()));
        member("upstream", Value::from(key.upstream.as_str()));
    }
    if let Some(key) = about.resource {
        member("resource", Value::from(key.name.as_str()));
    }
    if !about.differs.is_empty() {
        member("differs", Value::from(about.differs.to_vec()));
    }
    for (name, value) in &wording.members {
        member(name, value.clone());
    }
    Bytes::from(Value::Object(members).to_string())
}

#[cfg(test)]
pub(in crate::wire) use tests::every_row;

#[cfg(test)]
mod tests;
