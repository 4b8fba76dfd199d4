//! What readers get of a register, and how they ask for it.
//!
//! What always holds: it is as it was committed.
//!
//! What it does not do: decide what of it is shown (`admin`).

use crate::protocol::command::Event;
use crate::protocol::fence::Fence;
use crate::protocol::ids::{ResourceKey, UpstreamId};
use crate::protocol::operation::Operation;
use crate::protocol::outcome::StoredRequest;

/// An operation with what is stored beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The record.
    pub operation: Operation,
    /// Its event log, oldest first.
    pub events: Vec<Event>,
    /// The bytes to send again, where asked for and kept.
    pub request: Option<StoredRequest>,
}

/// A resource with what stands in its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResource {
    /// The record.
    pub fence: Fence,
    /// Its unsettled operations, oldest first.
    pub unsettled: Vec<Operation>,
    /// Of its COMPLETED operations whose effect was accepted, the one admitted last, if remembered.
    pub last_completed: Option<Operation>,
}

/// Which operations to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationQuery {
    /// Only in this state, by the contract's word.
    pub state: Option<&'static str>,
    /// Only of this resource.
    pub resource: Option<ResourceKey>,
    /// Only of this upstream.
    pub upstream: Option<UpstreamId>,
    /// Only with this id, in any principal and incarnation.
    pub id: Option<String>,
    /// Below this cursor of an earlier page.
    pub before: Option<u64>,
    /// At most so many.
    pub limit: usize,
}

/// A page of operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationPage {
    /// Newest first.
    pub operations: Vec<Operation>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<u64>,
}
