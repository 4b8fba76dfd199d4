//! Fences.
//!
//! What always holds: a fence is shown as it is recorded.
//!
//! What it does not do: say how much is left of a lease; whoever asks does (`lease`).

use serde::{Deserialize, Serialize};

use super::words::{time, wall_time};
use super::{KeyView, LeaseView, Looker, OperationView};
use crate::lease::secret::digest;
use crate::protocol::fence::{Deed, Fence, Intervention};
use crate::protocol::ids::OperationKey;
use crate::protocol::lease::OWN_SOURCE;
use crate::protocol::operation::Operation;
use crate::protocol::time::Millis;
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
    /// Is the mark of an earlier epoch than the one in force, so that nobody may act under it?
    #[serde(default)]
    pub stale: bool,
    /// Was the resource cancelled?
    pub cancelled: bool,
    /// Who issues its tokens.
    pub source: Option<String>,
    /// The acquisition first named with the token; of the register's own leases, whose acquisition is their holder's
    /// secret, its digest.
    pub acquisition: Option<String>,
    /// The last sequence admitted under the token.
    pub sequence: Option<String>,
    /// The first operation admitted under the token.
    pub first_operation: Option<KeyView>,
    /// Operations admitted, ever.
    pub admissions: u64,
    /// Operations admitted up to this number are never sent again.
    pub cut_off: u64,
    /// What operators did to it, oldest first: the last few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interventions: Vec<InterventionView>,
}

/// What an operator did to a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterventionView {
    /// When.
    pub at: String,
    /// `cancelled`, `advanced`, `reopened`, `accepted` or `repaired`.
    pub did: String,
    /// The token that was let in, or that it began again at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Who.
    pub operator: String,
    /// Why.
    pub reason: String,
}

/// What an operator did to a resource, and what that leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SteeredView {
    /// Name of the resource.
    pub resource: String,
    /// `cancelled`, `advanced`, `reopened`, `accepted` or `repaired`.
    pub done: String,
    /// The incarnation it is in now.
    pub incarnation: u64,
    /// Its mark, which never goes down within an incarnation; null: no token was ever presented for it.
    pub token: Option<String>,
    /// Is the mark itself cut off, so that only a newer token is let in?
    #[serde(default)]
    pub closed: bool,
    /// Operations that were admitted before and are not settled, in the order of their admission.
    pub in_flight: Vec<InFlightView>,
}

/// The epoch that an operator started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochView {
    /// In force from now on.
    pub epoch: u64,
}

/// An operation that was admitted before an operator stepped in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFlightView {
    /// Which.
    #[serde(flatten)]
    pub operation: KeyView,
    /// Its state; null: the register does not say any more.
    pub state: Option<String>,
    /// Until then it may still act by itself; null: it will not.
    pub may_act_until: Option<String>,
    /// The same from now on.
    pub may_act_for_ms: Option<u64>,
}

/// A fence with what stands in its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceDetail {
    /// The fence.
    #[serde(flatten)]
    pub resource: ResourceView,
    /// Who owns it for a while.
    pub lease: LeaseView,
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
    /// A fence in this epoch.
    pub fn of(fence: &Fence, epoch: u64) -> Self {
        Self {
            resource: fence.resource.name.to_string(),
            incarnation: fence.incarnation.0,
            token: fence.mark.map(|mark| mark.to_string()),
            closed: fence.closed,
            stale: fence.mark.is_some_and(|mark| mark.epoch() < epoch),
            cancelled: fence.cancelled,
            source: fence.source.as_ref().map(ToString::to_string),
            acquisition: acquisition(fence),
            sequence: fence.sequence.map(|sequence| sequence.to_string()),
            first_operation: fence.first.as_ref().map(KeyView::of),
            admissions: fence.admissions.0,
            cut_off: fence.cut_off.0,
            interventions: fence
                .interventions
                .iter()
                .map(InterventionView::of)
                .collect(),
        }
    }
}

fn acquisition(fence: &Fence) -> Option<String> {
    let acquisition = fence.acquisition.as_ref()?;
    let is_own = (fence.source.as_ref()).is_some_and(|source| source.as_str() == OWN_SOURCE);
    Some(if is_own {
        digest(acquisition)
    } else {
        acquisition.to_string()
    })
}

impl InterventionView {
    fn of(intervention: &Intervention) -> Self {
        Self {
            at: time(&intervention.at),
            did: intervention.how.past().to_owned(),
            token: match intervention.how {
                Deed::Accepted(token) | Deed::Repaired(token) => Some(token.to_string()),
                Deed::Cancelled | Deed::Advanced | Deed::Reopened => None,
            },
            operator: intervention.operator.clone(),
            reason: intervention.reason.clone(),
        }
    }
}

impl InFlightView {
    /// As `looker` sees it. An attempt that is acting may send until its own time is up, and what it sent may
    /// be answered until then; one whose end is known does nothing more.
    pub fn of(key: &OperationKey, operation: Option<&Operation>, looker: &Looker) -> Self {
        let for_ms = operation.and_then(|operation| looker.may_act_for(operation));
        let until = |left: Millis| wall_time(looker.now.wall_ms.saturating_add(left.0));
        Self {
            operation: KeyView::of(key),
            state: operation.map(|operation| looker.state_word(operation).to_owned()),
            may_act_until: for_ms.map(until),
            may_act_for_ms: for_ms.map(|left| left.0),
        }
    }
}

impl ResourceDetail {
    /// As `looker` sees it in this epoch.
    pub fn of(stored: &StoredResource, lease: LeaseView, looker: &Looker, epoch: u64) -> Self {
        let view = |operation| OperationView::of(operation, looker);
        Self {
            resource: ResourceView::of(&stored.fence, epoch),
            lease,
            unsettled: stored.unsettled.iter().map(view).collect(),
            last_completed: stored.last_completed.as_ref().map(view),
        }
    }
}
