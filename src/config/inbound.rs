//! Ways in to the worker: what asks it for work passes through the sidecar, which notes when it came in.
//!
//! What always holds: each pins work to at least one resource that is held on the worker's behalf.
//!
//! What it does not do: note (`lease::pins`), or pass anything on (`proxy::inbound`).

use std::net::SocketAddr;

use http::{HeaderName, Uri};

use super::callers::ListenTls;
use crate::protocol::ids::ResourceName;
use crate::protocol::time::Millis;

/// A listener before the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbound {
    /// As in the file; for logs.
    pub name: String,
    /// Where those who ask the worker for work reach it.
    pub listen: SocketAddr,
    /// How they speak TLS; `None`: in the clear.
    pub listen_tls: Option<ListenTls>,
    /// Where the worker is: `http`, with a host; neither path nor query.
    pub url: Uri,
    /// What work is known by.
    pub pin: Pin,
    /// For how long at least it is remembered when work came in, from the last time on that its id did.
    pub keep: Millis,
    /// So many ids are remembered; work that has no room is not let in. At least 1.
    pub at_most: usize,
    /// What must have been owned then: resources of `leases`.
    pub resources: Vec<ResourceName>,
}

/// What work is known by, on its way in and in what it sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Where its id stands.
    pub by: PinBy,
    /// Is a request without one turned away, on its way in?
    pub required: bool,
    /// Is what the worker sends refused, unless it is known when its work came in?
    pub strict: bool,
}

/// Where the id of work stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PinBy {
    /// The trace id of `traceparent` (<https://www.w3.org/TR/trace-context/>).
    Trace,
    /// A header, as it is.
    Header(HeaderName),
}
