//! Fences.
//!
//! What always holds: a fence is shown as it is recorded.
//!
//! What it does not do: say who holds a lease; leases come with their own view.

use serde::{Deserialize, Serialize};

use super::{KeyView, Looker, OperationView};
use crate::protocol::fence::Fence;
use crate::store::StoredResource;

/// A fence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceView {
    /// Name of the resource.
    pub resource: String,
    /// Counted up when it is reopened or repaired.
    pub incarnation: u64,
    /// The highest token presented: the generation in authority. Null until one was presented.
    pub token: Option<String>,
    /// Is the mark itself cut off?
    pub closed: bool,
    /// Was the resource cancelled?
    pub cancelled: bool,
    /// Who issues its tokens.
    pub source: Option<String>,
    /// The acquisition first named with the token.
    pub acquisition: Option<String>,
    /// The last sequence admitted under the token.
    pub sequence: Option<String>,
    /// The first operation admitted under the token.
    pub first_operation: Option<KeyView>,
    /// Operations admitted, ever.
    pub admissions: u64,
    /// Operations admitted up to this number are never sent again.
    pub cut_off: u64,
}

/// A fence with what stands in its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceDetail {
    /// The fence.
    #[serde(flatten)]
    pub resource: ResourceView,
    /// Unsettled operations, oldest first.
    pub unsettled: Vec<OperationView>,
    /// The last COMPLETED operation, if one is remembered.
    pub last_completed: Option<OperationView>,
}

/// Resources by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceList {
    /// The page.
    pub resources: Vec<ResourceView>,
    /// Give this as `after` for the next page; null at the end.
    pub next: Option<String>,
}

impl ResourceView {
    /// A fence.
    pub fn of(fence: &Fence) -> Self {
        Self {
            resource: fence.resource.name.to_string(),
            incarnation: fence.incarnation.0,
            token: fence.mark.map(|mark| mark.to_string()),
            closed: fence.closed,
            cancelled: fence.cancelled,
            source: fence.source.as_ref().map(ToString::to_string),
            acquisition: fence.acquisition.as_ref().map(ToString::to_string),
            sequence: fence.sequence.map(|sequence| sequence.to_string()),
            first_operation: fence.first.as_ref().map(KeyView::of),
            admissions: fence.admissions.0,
            cut_off: fence.cut_off.0,
        }
    }
}

impl ResourceDetail {
    /// As `looker` sees it.
    pub fn of(stored: &StoredResource, looker: &Looker) -> Self {
        let view = |operation| OperationView::of(operation, looker);
        Self {
            resource: ResourceView::of(&stored.fence),
            unsettled: stored.unsettled.iter().map(view).collect(),
            last_completed: stored.last_completed.as_ref().map(view),
        }
    }
}
