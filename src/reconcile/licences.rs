//! Licences: whoever owns a resource now has repeated an operation that was admitted under a lease that is lost
//! (contract §5, *Current*).
//!
//! What always holds: a licence is for one resend under the lease of whoever gave it: it is gone before the resend is
//! asked for, and counts for nothing once another owns the resource. It is not kept: a process that ends forgets it,
//! and the repeat comes again.
//!
//! What it does not do: say who owns anything. The register judges the lease once more in the transaction that admits
//! the resend.

use dashmap::DashMap;

use super::Reconciler;
use crate::protocol::ids::{AcquisitionId, OperationKey, ResourceKey};
use crate::protocol::lease::LeaseFacts;
use crate::protocol::operation::Operation;
use crate::protocol::policy::Ownership;

/// So many are remembered before those are let go whose owners are gone.
const MOST: usize = 8_192;

/// Which operations their new owners have repeated.
#[derive(Debug, Default)]
pub(super) struct Licences(DashMap<OperationKey, Licence>);

#[derive(Debug)]
struct Licence {
    resource: ResourceKey,
    by: AcquisitionId,
}

impl Licences {
    /// This one is used up, or there is no use for it. One that was given since is another.
    pub(super) fn end(&self, key: &OperationKey, lease: &LeaseFacts) {
        let used = lease.live.as_ref().filter(|_| lease.licensed);
        if let Some(used) = used {
            self.0
                .remove_if(key, |_, licence| licence.by == used.acquisition);
        }
    }
}

impl Reconciler {
    /// The owner of its resource repeats it: it may be sent once more, under his lease.
    pub fn license(&self, key: &OperationKey, resource: &ResourceKey) {
        let leases = &self.dispatcher.leases;
        if self.licences.0.len() >= MOST {
            self.licences.0.retain(|_, licence| {
                let live = leases.live(&licence.resource);
                live.is_some_and(|live| live.acquisition == licence.by)
            });
        }
        if let Some(live) = leases.live(resource)
            && self.licences.0.len() < MOST
        {
            let licence = Licence {
                resource: resource.clone(),
                by: live.acquisition,
            };
            self.licences.0.insert(key.clone(), licence);
        }
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
        let live = self.dispatcher.leases.live(&resource);
        let licence = self.licences.0.get(&operation.key);
        let licensed = licence.is_some_and(|licence| {
            live.as_ref()
                .is_some_and(|live| live.acquisition == licence.by)
        });
        LeaseFacts { live, licensed }
    }
}
