//! What was asked for and is told to nobody, because whoever asked hung up.
//!
//! What always holds: a lease that was granted to somebody who is gone is given back as soon as it is known to be
//! granted, and nobody else of this process asks for the resource before that. What cannot be given back ends by
//! itself.
//!
//! What it does not do: know of an answer that was lost on its way out of this process; that lease ends by itself.

use std::future::Future;
use std::pin::Pin;

use tokio::sync::OwnedSemaphorePermit;

use super::{NoLease, Own, Owned};

type Asked = Pin<Box<dyn Future<Output = Result<Owned, NoLease>> + Send>>;

/// Somebody asks; dropped, it is brought to its end all the same.
pub(super) struct Unclaimed<'t> {
    own: Own,
    asked: Option<Asked>,
    turn: &'t mut Option<OwnedSemaphorePermit>,
}

/// Leases that are given back when this is dropped.
pub(super) struct Taken {
    own: Own,
    all: Vec<Owned>,
}

impl<'t> Unclaimed<'t> {
    /// `turn`: goes on being held where nobody is left who asks.
    pub(super) fn new(own: &Own, turn: &'t mut Option<OwnedSemaphorePermit>) -> Self {
        Self {
            own: own.clone(),
            asked: None,
            turn,
        }
    }

    pub(super) async fn ask(
        &mut self,
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
        self.own.goes_on(async move {
            if let Ok(owned) = asked.await {
                own.give_back(&owned.resource, &owned.lease.acquisition)
                    .await;
            }
            drop(turn);
        });
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
