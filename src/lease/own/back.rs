//! Giving leases back.
//!
//! What always holds: what was begun is brought to its end, whoever hangs up; and whoever waits learns of it, also
//! where nobody knows how it ended. What cannot be given back ends by itself.
//!
//! What it does not do: decide what is to be given back.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::Handle;

use super::{NoLease, Own, journal, refusal};
use crate::protocol::ids::{AcquisitionId, ResourceKey};
use crate::protocol::lease::{LeaseReply, Leasing, Wish};
use crate::store::StoreError;

/// So often is it tried where it is not known whether it is to be given back.
const TRIES: u32 = 6;

/// Before it is tried again; twice as long each time.
const PAUSE: Duration = Duration::from_millis(100);

impl Own {
    /// Best effort: nobody's correctness depends on it. Begun, it is brought to its end.
    pub async fn release(
        &self,
        resource: &ResourceKey,
        acquisition: &AcquisitionId,
    ) -> Result<(), NoLease> {
        self.forget(resource, acquisition);
        let (own, resource, acquisition) = (self.clone(), resource.clone(), acquisition.clone());
        let released = async move {
            let released = own.let_go(&resource, &acquisition).await;
            if let Err(why) = &released {
                journal::not_released(&resource, &acquisition, why);
            }
            released
        };
        let released = self.tasks.spawn(released).await;
        released.unwrap_or_else(|broken| {
            Err(StoreError::CommitUnknown(format!("its release broke off: {broken}")).into())
        })
    }

    /// Whoever waits is told, also where it is not known whether it is on record still.
    async fn let_go(
        &self,
        resource: &ResourceKey,
        acquisition: &AcquisitionId,
    ) -> Result<(), NoLease> {
        self.forget(resource, acquisition);
        let line = self.lines.known_or_apart(resource);
        let leasing = Leasing {
            resource: resource.clone(),
            wish: Wish::Release {
                acquisition: acquisition.clone(),
            },
            seen: line.seen(),
            at: self.clock.now(),
        };
        match self.register.lease(leasing).await {
            Ok(LeaseReply::Released) => {
                let token = line.is_without(acquisition);
                journal::released(resource, acquisition, token);
                line.free();
                Ok(())
            }
            Ok(other) => {
                line.doubt_of(acquisition);
                Err(refusal(other))
            }
            Err(error) => {
                line.doubt_of(acquisition);
                Err(error.into())
            }
        }
    }

    /// Goes on without whoever asked for it.
    pub(super) fn goes_on(&self, task: impl Future<Output = ()> + Send + 'static) {
        // At the very end there may be nothing left to run it.
        if let Ok(runtime) = Handle::try_current() {
            self.tasks.spawn_on(task, &runtime);
        }
    }

    /// What may be on record, though nobody was told of it.
    pub(super) async fn give_back_surely(
        &self,
        resource: &ResourceKey,
        acquisition: &AcquisitionId,
    ) {
        let mut pause = PAUSE;
        for _ in 1..TRIES {
            match self.let_go(resource, acquisition).await {
                Err(NoLease::Store(_)) => {}
                // Given back, or not on record.
                Ok(()) | Err(_) => return,
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        self.give_back(resource, acquisition).await;
    }

    /// What nobody was told of.
    pub(super) async fn give_back(&self, resource: &ResourceKey, acquisition: &AcquisitionId) {
        if let Err(error) = self.let_go(resource, acquisition).await {
            tracing::warn!(
                resource = %resource.name,
                %error,
                "a lease that nobody was told of was not given back; it ends by itself"
            );
        }
    }
}
