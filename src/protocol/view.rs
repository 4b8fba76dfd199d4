//! What a decision sees of the register.
//!
//! What always holds: a View is read inside the transaction that the decision's changes are written
//! in; it holds everything `decide` may ask, and nothing else.
//!
//! What it does not do: load itself (`store`).

use std::sync::Arc;

use super::broken::{Rule, broken};
use super::company::Company;
use super::fence::{Fence, Generation};
use super::ids::{Fingerprint, InstanceId, OperationKey};
use super::operation::{Attempt, Operation, State};
use super::outcome::StoredRequest;
use super::policy::Order;
use super::time::{Millis, Moment};

/// The register, as far as one command concerns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The epoch in force.
    pub epoch: u64,
    /// Instances that are not dead.
    pub living: Living,
    /// The fence of the command's resource; `None`: never seen, or no resource.
    pub fence: Option<Fence>,
    /// What stands under the command's identity.
    pub record: Option<Record>,
    /// The note under an identity that has a NOT_APPLIED operation too: it was tried again, as a twin.
    pub note: Option<TwinNote>,
    /// For a twin's note: the operation that it names.
    pub first: Option<Operation>,
    /// For a request without a key: the newest unsettled operation of the same caller and upstream that
    /// had none either, and the same fingerprint.
    pub keyless: Option<Operation>,
    /// The unsettled operations of the resource, in the order of their admission. Shared, because a
    /// register that remembers them shows the same list to one command after the other.
    pub unsettled: Arc<Vec<Unsettled>>,
    /// For a resend: the bytes to send again.
    pub request: Option<StoredRequest>,
}

impl View {
    /// Nothing was seen yet: no record, no fence.
    pub fn of_nothing(epoch: u64, living: Living) -> Self {
        Self {
            epoch,
            living,
            fence: None,
            record: None,
            note: None,
            first: None,
            keyless: None,
            unsettled: Arc::default(),
            request: None,
        }
    }
}

/// What stands under an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// An operation.
    Operation(Box<Operation>),
    /// The note that this identity is a twin of another.
    Twin(TwinNote),
}

impl Record {
    /// The operation, if it is one.
    pub fn into_operation(self) -> Option<Box<Operation>> {
        match self {
            Self::Operation(operation) => Some(operation),
            Self::Twin(_) => None,
        }
    }
}

/// The durable note that a request under one id repeated the unsettled request of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwinNote {
    /// The twin's own identity.
    pub key: OperationKey,
    /// Whom it repeats.
    pub first: OperationKey,
    /// The request of both.
    pub fingerprint: Fingerprint,
}

/// An unsettled operation, as others of its resource see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsettled {
    /// Which.
    pub key: OperationKey,
    /// Where it stands in the order.
    pub generation: Generation,
    /// Ordered within its generation?
    pub order: Order,
    /// What it sends.
    pub fingerprint: Fingerprint,
    /// With a credential?
    pub credentialed: bool,
    /// Does it need a person?
    pub needs_attention: bool,
    /// Does its upstream order by itself?
    pub conditional: bool,
}

/// Which instances are not dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Living {
    /// The register has one owner; every other instance is dead.
    Only(InstanceId),
    /// Several share it; those that are declared dead are.
    Among(Arc<Company>),
}

impl Living {
    /// Is it alive, as far as this register knows?
    pub fn contains(&self, instance: InstanceId) -> bool {
        match self {
            Self::Only(own) => *own == instance,
            Self::Among(company) => company.is_alive(instance),
        }
    }

    /// Has `limit` passed since the attempt was admitted, for all that this register knows? Beyond a boot an
    /// own attempt is past; another's is dated by its first sight.
    pub fn is_past(&self, attempt: &Attempt, limit: Millis, now: &Moment) -> bool {
        match self {
            Self::Only(_) => now.is_past(&attempt.at, limit),
            Self::Among(_) if broken(Rule::AnotherBootIsDatedBySight) => {
                now.is_past(&attempt.at, limit)
            }
            Self::Among(company) => company.is_past(attempt, limit, now),
        }
    }
}

impl Unsettled {
    /// The summary of an operation; `None` if it is settled or has no resource.
    pub fn of(operation: &Operation) -> Option<Self> {
        let place = operation.place.as_ref()?;
        let needs_attention = match operation.state {
            State::Intended | State::Uncertain => false,
            State::NeedsAttention(_) => true,
            State::NotApplied(_) | State::Completed(_) => return None,
        };
        Some(Self {
            key: operation.key.clone(),
            generation: (place.incarnation, place.token),
            order: operation.order,
            fingerprint: operation.fingerprint,
            credentialed: operation.credentialed,
            needs_attention,
            conditional: operation.settle.capability.conditional,
        })
    }
}
