//! Licences: whoever owns a resource now has repeated an operation that was admitted under a lease that is lost
//! (contract §5, *Current*).
//!
//! What always holds: a licence is for one resend, and is gone with it, or with the task that found no use for it. It
//! is not kept: a process that ends forgets it, and the repeat comes again.
//!
//! What it does not do: say who owns anything. The register judges the lease once more in the transaction that admits
//! the resend.

use dashmap::DashSet;

use super::Reconciler;
use crate::protocol::ids::{OperationKey, ResourceKey};
use crate::protocol::lease::LeaseFacts;
use crate::protocol::operation::Operation;
use crate::protocol::policy::Ownership;

/// So many at once; one more is given when its caller repeats again.
const MOST: usize = 8_192;

/// Which operations their new owners have repeated.
#[derive(Debug, Default)]
pub(super) struct Licences(DashSet<OperationKey>);

impl Licences {
    fn give(&self, key: &OperationKey) {
        if self.0.len() < MOST {
            self.0.insert(key.clone());
        }
    }

    /// It is used up.
    pub(super) fn end(&self, key: &OperationKey) {
        self.0.remove(key);
    }
}

impl Reconciler {
    /// The owner of its resource repeats it: it may be sent once more, under his lease.
    pub fn license(&self, key: &OperationKey) {
        self.licences.give(key);
        self.wake(key);
    }

    /// What this process knows of who owns the operation's resource.
    pub(super) fn lease_of(&self, operation: &Operation) -> LeaseFacts {
        let place = operation.place.as_ref();
        let needed = place.filter(|_| operation.require == Ownership::Current);
        let Some(place) = needed else {
            return LeaseFacts::unknown();
        };
        let resource = ResourceKey {
            tenant: operation.key.tenant.clone(),
            name: place.resource.clone(),
        };
        LeaseFacts {
            live: self.dispatcher.leases.live(&resource),
            licensed: self.licences.0.contains(&operation.key),
        }
    }
}
