//! What is owned on behalf of workers, as the proxy looks it up.
//!
//! What always holds: nobody owns by memory: whether a claim holds is found out from the clock whenever somebody asks.
//! Whoever looked and is told of no change since has seen what is in force.
//!
//! What it does not do: acquire or renew (`held`), or know connections (`proxy`).

use std::sync::Arc;

use http::HeaderMap;
use tokio::sync::{mpsc, oneshot, watch};

use super::pins::{Note, Noted, Past, Pinned, Pins};
use crate::clock::Clock;
use crate::protocol::ids::{AcquisitionId, FencingToken, ResourceName, TokenSource};
use crate::protocol::time::BootInstant;

/// What a sidecar may say of a resource on behalf of its worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is the worker's, until then.
    Owned(Ownership),
    /// It is not the worker's yet, and why.
    NotYet(String),
    /// This process of the worker had it, and will not have it again. Why.
    Lost(String),
}

/// A resource that is owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// Orders the owner.
    pub token: FencingToken,
    /// Which acquisition it is.
    pub acquisition: AcquisitionId,
    /// It is over then.
    pub until: BootInstant,
}

/// All resources that are held here on behalf of a worker. Cheap to clone.
#[derive(Clone)]
pub struct Claims {
    inner: Arc<Inner>,
    pins: Pins,
}

struct Inner {
    /// `None`: none is held, and nobody asks.
    clock: Option<Clock>,
    held: Vec<Entry>,
    changes: Changes,
}

/// One of them.
pub struct Entry {
    /// On which resource.
    pub resource: ResourceName,
    /// Who issues its tokens.
    pub source: TokenSource,
    /// How it stands.
    pub claim: watch::Receiver<Claim>,
    /// Where it is said that the worker begins anew.
    pub acknowledge: mpsc::Sender<oneshot::Sender<()>>,
}

/// Counted up whenever an acquisition begins or ends. Clones share it.
#[derive(Clone, Debug)]
pub struct Changes(Arc<watch::Sender<u64>>);

/// The acquisitions in force at a moment, and whether that changed since.
#[derive(Clone, Debug)]
pub struct InForce {
    acquisitions: Arc<[(ResourceName, AcquisitionId)]>,
    changes: watch::Receiver<u64>,
}

impl Default for Changes {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Changes {
    /// Tells whoever looked before.
    pub fn tell(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl Default for Claims {
    fn default() -> Self {
        Self::of_inner(Inner {
            clock: None,
            held: Vec::new(),
            changes: Changes::default(),
        })
    }
}

impl Claims {
    /// Of these.
    pub fn new(clock: Clock, held: Vec<Entry>, changes: Changes) -> Self {
        Self::of_inner(Inner {
            clock: Some(clock),
            held,
            changes,
        })
    }

    fn of_inner(inner: Inner) -> Self {
        Self {
            inner: Arc::new(inner),
            pins: Pins::default(),
        }
    }

    /// The same, with the ways in by which work is pinned to them.
    #[must_use]
    pub fn pinning(self, pins: Pins) -> Self {
        Self { pins, ..self }
    }

    /// Work comes in by the way of that number, and has not been begun.
    pub fn came_in(&self, way: usize, headers: &HeaderMap) -> Noted {
        self.pins
            .note(way, headers, |resource| match self.of(resource) {
                Some(Claim::Owned(owned)) => Some(Past {
                    token: owned.token,
                    acquisition: owned.acquisition,
                }),
                Some(Claim::NotYet(_) | Claim::Lost(_)) | None => None,
            })
    }

    /// It never reached the worker.
    pub fn withdraw(&self, note: &Note) {
        self.pins.withdraw(note);
    }

    /// It has its answer, or nobody waits for one any more.
    pub fn answered(&self, note: &Note) {
        self.pins.answered(note);
    }

    /// What is known of the work of a request that the worker sends, for one resource.
    pub fn pinned(&self, resource: &ResourceName, headers: &HeaderMap) -> Pinned {
        self.pins.of(resource, headers)
    }

    /// How it stands with a resource now; `None`: it is not held on anybody's behalf.
    pub fn of(&self, resource: &ResourceName) -> Option<Claim> {
        let entry = self.entry(resource)?;
        Some(self.now(entry))
    }

    /// All of them, and how it stands with each now.
    pub fn all(&self) -> impl Iterator<Item = (&ResourceName, &TokenSource, Claim)> {
        let held = self.inner.held.iter();
        held.map(|entry| (&entry.resource, &entry.source, self.now(entry)))
    }

    /// Until when a resource is owned under that very acquisition; `None`: it is not, or no more.
    pub fn until(
        &self,
        resource: &ResourceName,
        acquisition: &AcquisitionId,
    ) -> Option<BootInstant> {
        let entry = self.entry(resource)?;
        let now = self.inner.clock.as_ref()?.boottime();
        match &*entry.claim.borrow() {
            Claim::Owned(owned) if owned.acquisition == *acquisition => {
                Some(owned.until).filter(|until| *until > now)
            }
            Claim::Owned(_) | Claim::NotYet(_) | Claim::Lost(_) => None,
        }
    }

    /// What is in force now.
    pub fn in_force(&self) -> InForce {
        // Before it is looked at: what changes meanwhile shows as a change.
        let mut changes = self.inner.changes.0.subscribe();
        changes.mark_unchanged();
        let owned = self.all().filter_map(|(resource, _, claim)| match claim {
            Claim::Owned(owned) => Some((resource.clone(), owned.acquisition)),
            Claim::NotYet(_) | Claim::Lost(_) => None,
        });
        InForce {
            acquisitions: owned.collect(),
            changes,
        }
    }

    /// Nothing, as of before anything was owned: where anything can be, that has changed since.
    pub fn nothing_in_force(&self) -> InForce {
        let mut changes = self.inner.changes.0.subscribe();
        if self.inner.held.is_empty() {
            changes.mark_unchanged();
        } else {
            changes.mark_changed();
        }
        InForce {
            acquisitions: Arc::default(),
            changes,
        }
    }

    /// What the worker does from now on is new, it says: waits until nothing is stamped any more as before. Answers
    /// how it stands then; `None`: it is not held on anybody's behalf.
    pub async fn acknowledge(&self, resource: &ResourceName) -> Option<Claim> {
        let entry = self.entry(resource)?;
        let (tell, told) = oneshot::channel();
        // Nobody there to be told: nothing is stamped either.
        if entry.acknowledge.send(tell).await.is_ok() {
            let _taken = told.await;
        }
        self.of(resource)
    }

    fn entry(&self, resource: &ResourceName) -> Option<&Entry> {
        let mut held = self.inner.held.iter();
        held.find(|entry| entry.resource == *resource)
    }

    fn now(&self, entry: &Entry) -> Claim {
        let claim = entry.claim.borrow().clone();
        let now = self.inner.clock.as_ref().map(Clock::boottime);
        match claim {
            Claim::Owned(owned) if now.is_none_or(|now| owned.until <= now) => {
                Claim::Lost(ENDED.to_owned())
            }
            Claim::Owned(_) | Claim::NotYet(_) | Claim::Lost(_) => claim,
        }
    }
}

/// What is said of a claim whose time is over.
pub(super) const ENDED: &str = "the lease ran out before it was renewed";

impl InForce {
    /// The acquisition of a resource.
    pub fn acquisition(&self, resource: &ResourceName) -> Option<&AcquisitionId> {
        let mut acquisitions = self.acquisitions.iter();
        let found = acquisitions.find(|(name, _)| name == resource);
        found.map(|(_, acquisition)| acquisition)
    }

    /// Resolves once something changed since.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            // Nobody is left who could change anything.
            std::future::pending::<()>().await;
        }
    }
}
