//! What was asked for and is told to nobody, because whoever asked hung up.
//!
//! What always holds: a lease that was granted to somebody who is gone is given back as soon as it is known to be
//! granted, and nobody else of this process asks for the resource before that. One that is in doubt when nobody asks
//! for it any more is given back as well. What cannot be given back ends by itself.
//!
//! What it does not do: know of an answer that was lost on its way out of this process; that lease ends by itself.

use std::future::Future;
use std::pin::Pin;

use tokio::sync::OwnedSemaphorePermit;

use super::{NoLease, Own, Owned};
use crate::protocol::ids::{AcquisitionId, ResourceKey};
use crate::store::StoreError;

type Asked = Pin<Box<dyn Future<Output = Result<Owned, NoLease>> + Send>>;

/// Somebody asks; dropped, it is brought to its end all the same.
pub(super) struct Unclaimed<'t> {
    own: Own,
    resource: ResourceKey,
    acquisition: AcquisitionId,
    asked: Option<Asked>,
    turn: &'t mut Option<OwnedSemaphorePermit>,
}

/// An acquisition that may be on record though nobody knows: dropped so, it is given back.
pub(super) struct InDoubt {
    own: Own,
    resource: ResourceKey,
    acquisition: AcquisitionId,
    is_there: bool,
}

/// Leases that are given back when this is dropped.
pub(super) struct Taken {
    own: Own,
    all: Vec<Owned>,
}

impl<'t> Unclaimed<'t> {
    /// `turn`: goes on being held where nobody is left who asks.
    pub(super) fn new(
        own: &Own,
        resource: &ResourceKey,
        acquisition: &AcquisitionId,
        turn: &'t mut Option<OwnedSemaphorePermit>,
    ) -> Self {
        Self {
            own: own.clone(),
            resource: resource.clone(),
            acquisition: acquisition.clone(),
            asked: None,
            turn,
        }
    }

    pub(super) async fn ask(
        mut self,
        asked: impl Future<Output = Result<Owned, NoLease>> + Send + 'static,
    ) -> Result<Owned, NoLease> {
        let told = self.asked.insert(Box::pin(asked)).await;
        self.asked = None;
        told
    }
}

impl Drop for Unclaimed<'_> {
    fn drop(&mut self) {
        let Some(asked) = self.asked.take() else {
            return;
        };
        let (own, turn) = (self.own.clone(), self.turn.take());
        let (resource, acquisition) = (self.resource.clone(), self.acquisition.clone());
        self.own.goes_on(async move {
            match asked.await {
                Ok(_) => own.give_back(&resource, &acquisition).await,
                Err(NoLease::Store(StoreError::CommitUnknown(_))) => {
                    own.give_back_surely(&resource, &acquisition).await;
                }
                Err(_) => {}
            }
            drop(turn);
        });
    }
}

impl InDoubt {
    /// None yet.
    pub(super) fn none(own: &Own, resource: &ResourceKey, acquisition: &AcquisitionId) -> Self {
        Self {
            own: own.clone(),
            resource: resource.clone(),
            acquisition: acquisition.clone(),
            is_there: false,
        }
    }

    pub(super) fn is_there(&self) -> bool {
        self.is_there
    }

    /// What is known of it after this answer, which is passed on.
    pub(super) fn after(&mut self, asked: Result<Owned, NoLease>) -> Result<Owned, NoLease> {
        match &asked {
            Err(NoLease::Store(StoreError::CommitUnknown(_))) => self.is_there = true,
            Ok(_) | Err(NoLease::Held(_) | NoLease::Lost) => self.is_there = false,
            Err(_) => {}
        }
        asked
    }
}

impl Drop for InDoubt {
    fn drop(&mut self) {
        if !self.is_there {
            return;
        }
        let own = self.own.clone();
        let (resource, acquisition) = (self.resource.clone(), self.acquisition.clone());
        self.own
            .goes_on(async move { own.give_back_surely(&resource, &acquisition).await });
    }
}

impl Taken {
    pub(super) fn new(own: &Own) -> Self {
        Self {
            own: own.clone(),
            all: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, owned: Owned) {
        self.all.push(owned);
    }

    pub(super) fn all(&self) -> &[Owned] {
        &self.all
    }

    /// They are somebody's.
    pub(super) fn kept(mut self) -> Vec<Owned> {
        std::mem::take(&mut self.all)
    }

    /// Best effort: what is not given back ends by itself.
    pub(super) async fn given_back(mut self) {
        while let Some(Owned {
            resource, lease, ..
        }) = self.all.last()
        {
            let (resource, acquisition) = (resource.clone(), lease.acquisition.clone());
            self.own.give_back(&resource, &acquisition).await;
            self.all.pop();
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.all.is_empty() {
            return;
        }
        let left = Self {
            own: self.own.clone(),
            all: std::mem::take(&mut self.all),
        };
        self.own.goes_on(left.given_back());
    }
}
