//! Leases that the register itself keeps.
//!
//! What always holds: every wait is bounded. Who waits for a resource waits in line, first come first served, and only
//! the first of the line asks the register: however many wait, a transfer costs two commits. A lease that another
//! holds is timed from this process's own first sight of it, *after* the answer that showed it; an own one from
//! *before* the request that asked for it: so no two clocks need agree. Several are taken in sorted order, all or
//! none. Where the register does not answer nothing is acquired.
//!
//! What it does not do: decide (`protocol::lease`), renew by itself, or know HTTP.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dashmap::DashMap;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

use crate::clock::Clock;
use crate::protocol::ids::{AcquisitionId, ResourceKey, TokenSource};
use crate::protocol::lease::{Lease, LeaseReply, Leasing, LiveLease, Sight, Wish};
use crate::protocol::time::{BootInstant, Millis};
use crate::store::{Register, StoreError};

/// Other processes say nothing when they release: so often is asked at least.
const POLL: Millis = Millis(500);

/// For so long is it found out whether an acquisition was committed, also for whoever does not wait.
const UNKNOWN: Millis = Millis(2_000);

/// Between two looks at that.
const UNKNOWN_PAUSE: Millis = Millis(50);

/// So many resources are remembered before those are let go that nobody waits for.
const REMEMBERED: usize = 65_536;

/// What somebody wants.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Who, as he calls himself.
    pub holder: String,
    /// For how long, from each renewal on.
    pub ttl: Millis,
    /// How long he waits for it at most.
    pub wait: Millis,
}

/// A lease that this process acquired or renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// On which resource.
    pub resource: ResourceKey,
    /// As it is recorded.
    pub lease: Lease,
    /// It is over then, on the own clock.
    pub until: BootInstant,
}

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoLease {
    /// Another holds it; what is left of it at most.
    #[error("another holds it, for {} ms at most", .0.0)]
    Held(Millis),
    /// It was lost, or never his.
    #[error("it is not his any more")]
    Lost,
    /// The resource is cancelled.
    #[error("the resource is cancelled")]
    Cancelled,
    /// Its tokens come from elsewhere.
    #[error("the tokens of the resource come from {0:?}")]
    OtherSource(TokenSource),
    /// No token is left.
    #[error("no token above its mark is left")]
    Exhausted,
    /// The register does not answer, or cannot say.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Leases of the register, for workers and for those on whose behalf they are held. Cheap to clone.
#[derive(Clone)]
pub struct Own {
    register: Register,
    clock: Clock,
    lines: Arc<DashMap<ResourceKey, Arc<Line>>>,
    live: Arc<DashMap<ResourceKey, LiveLease>>,
}

/// Those who wait for a resource.
struct Line {
    /// Semaphores are fair: first come first served.
    turn: Semaphore,
    /// Somebody here released it.
    freed: Notify,
    seen: Mutex<Option<Sight>>,
}

impl Own {
    /// On this register.
    pub fn new(register: Register, clock: Clock) -> Self {
        Self {
            register,
            clock,
            lines: Arc::default(),
            live: Arc::default(),
        }
    }

    /// The lease on a resource, once it is absent or expired.
    pub async fn acquire(&self, resource: &ResourceKey, wanted: &Wanted) -> Result<Owned, NoLease> {
        let deadline = self.clock.boottime().after(wanted.wait);
        let line = self.line(resource);
        let in_line = timeout(Duration::from_millis(wanted.wait.0), line.turn.acquire());
        let Ok(Ok(_turn)) = in_line.await else {
            // Who did not come to ask does not know more.
            return Err(NoLease::Held(wanted.ttl));
        };
        let acquisition = new_acquisition()?;
        let known_by = self.clock.boottime().after(UNKNOWN);
        loop {
            let wish = Wish::Acquire {
                acquisition: acquisition.clone(),
                holder: wanted.holder.clone(),
                ttl: wanted.ttl,
            };
            let refused = match self.ask(resource, &line, wish).await {
                Ok(owned) => return Ok(owned),
                Err(refused) => refused,
            };
            let (left, until) = match &refused {
                NoLease::Held(left) => ((*left).min(POLL), deadline),
                // Asked again under the same acquisition: then it is known whether it is this one's.
                NoLease::Store(StoreError::CommitUnknown(_)) => {
                    (UNKNOWN_PAUSE, deadline.max(known_by))
                }
                NoLease::Lost
                | NoLease::Cancelled
                | NoLease::OtherSource(_)
                | NoLease::Exhausted
                | NoLease::Store(_) => return Err(refused),
            };
            let patience = until.since(self.clock.boottime());
            if patience == Millis::default() {
                return Err(refused);
            }
            let pause = left.max(Millis(1)).min(patience);
            let pause = tokio::time::sleep(Duration::from_millis(pause.0));
            tokio::select! {
                () = pause => {}
                () = line.freed.notified() => {}
            }
        }
    }

    /// All of them or none, in sorted order: two who want the same ones never wait for each other.
    pub async fn acquire_all(
        &self,
        resources: impl IntoIterator<Item = ResourceKey>,
        wanted: &Wanted,
    ) -> Result<Vec<Owned>, NoLease> {
        let deadline = self.clock.boottime().after(wanted.wait);
        let sorted: std::collections::BTreeSet<ResourceKey> = resources.into_iter().collect();
        let mut taken: Vec<Owned> = Vec::new();
        for resource in sorted {
            let wanted = Wanted {
                wait: deadline.since(self.clock.boottime()),
                ..wanted.clone()
            };
            match self.acquire(&resource, &wanted).await {
                Ok(owned) => taken.push(owned),
                Err(why) => {
                    for owned in taken.into_iter().rev() {
                        // Best effort: what is not released ends by itself.
                        let _released = self
                            .release(&owned.resource, &owned.lease.acquisition)
                            .await;
                    }
                    return Err(why);
                }
            }
        }
        // Whoever waited long for the last may have lost the first meanwhile.
        let now = self.clock.boottime();
        if taken.iter().any(|owned| owned.until <= now) {
            return Err(NoLease::Lost);
        }
        Ok(taken)
    }

    /// Its whole time again, for its holder. A failure is loss of ownership.
    pub async fn renew(
        &self,
        resource: &ResourceKey,
        acquisition: &AcquisitionId,
    ) -> Result<Owned, NoLease> {
        let line = self.line(resource);
        let acquisition = acquisition.clone();
        self.ask(resource, &line, Wish::Renew { acquisition }).await
    }

    /// Best effort: nobody's correctness depends on it.
    pub async fn release(
        &self,
        resource: &ResourceKey,
        acquisition: &AcquisitionId,
    ) -> Result<(), NoLease> {
        let line = self.line(resource);
        let leasing = Leasing {
            resource: resource.clone(),
            wish: Wish::Release {
                acquisition: acquisition.clone(),
            },
            seen: line.seen().clone(),
            at: self.clock.now(),
        };
        self.forget(resource, acquisition);
        let reply = self.register.lease(leasing).await?;
        line.freed.notify_one();
        match reply {
            LeaseReply::Released => Ok(()),
            other => Err(refusal(other)),
        }
    }

    /// What this process knows of it as its holder's; `None`: it did not acquire or renew it, or it is over.
    pub fn live(&self, resource: &ResourceKey) -> Option<LiveLease> {
        let live = self.live.get(resource)?;
        (live.until > self.clock.boottime()).then(|| live.clone())
    }

    /// What is left of a lease that was read now, at most.
    pub fn left(&self, resource: &ResourceKey, lease: &Lease) -> Millis {
        let line = self.line(resource);
        let now = self.clock.now();
        line.see(lease.seen(now));
        let seen = line.seen().clone();
        lease.left(seen.as_ref(), &now)
    }

    /// Asks once, and remembers what the answer shows.
    async fn ask(&self, resource: &ResourceKey, line: &Line, wish: Wish) -> Result<Owned, NoLease> {
        let own = match &wish {
            Wish::Acquire { acquisition, .. }
            | Wish::Renew { acquisition }
            | Wish::Release { acquisition } => acquisition.clone(),
        };
        let before = self.clock.now();
        let leasing = Leasing {
            resource: resource.clone(),
            wish,
            seen: line.seen().clone(),
            at: before,
        };
        let reply = self.register.lease(leasing).await;
        if let Ok(LeaseReply::Granted(lease) | LeaseReply::Held(lease, _)) = &reply {
            line.see(lease.seen(self.clock.now()));
        }
        match reply {
            Ok(LeaseReply::Granted(lease)) => {
                let until = before.boottime.after(lease.ttl);
                let live = LiveLease {
                    acquisition: own,
                    until,
                };
                self.live.insert(resource.clone(), live);
                Ok(Owned {
                    resource: resource.clone(),
                    lease,
                    until,
                })
            }
            Ok(other) => {
                self.forget(resource, &own);
                Err(refusal(other))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn forget(&self, resource: &ResourceKey, acquisition: &AcquisitionId) {
        self.live
            .remove_if(resource, |_, live| live.acquisition == *acquisition);
    }

    fn line(&self, resource: &ResourceKey) -> Arc<Line> {
        if self.lines.len() >= REMEMBERED {
            // Whoever is not remembered has its full time again: that is only longer.
            self.lines.retain(|_, line| Arc::strong_count(line) > 1);
        }
        let line = self.lines.entry(resource.clone());
        Arc::clone(&line.or_insert_with(|| Arc::new(Line::new())))
    }
}

impl Line {
    fn new() -> Self {
        Self {
            turn: Semaphore::new(1),
            freed: Notify::new(),
            seen: Mutex::new(None),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Option<Sight>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first sight counts.
    fn see(&self, sight: Sight) {
        let mut seen = self.seen();
        let is_new = seen
            .as_ref()
            .is_none_or(|known| (known.token, known.renewals) != (sight.token, sight.renewals));
        if is_new {
            *seen = Some(sight);
        }
    }
}

fn refusal(reply: LeaseReply) -> NoLease {
    match reply {
        LeaseReply::Held(_, left) => NoLease::Held(left),
        LeaseReply::Cancelled => NoLease::Cancelled,
        LeaseReply::OtherSource(other) => NoLease::OtherSource(other),
        LeaseReply::Exhausted => NoLease::Exhausted,
        LeaseReply::Lost | LeaseReply::Released | LeaseReply::Granted(_) => NoLease::Lost,
    }
}

/// 128 random bits: nobody guesses another's.
fn new_acquisition() -> Result<AcquisitionId, NoLease> {
    let mut bytes = [0; 16];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| StoreError::Unavailable("the system gives no random numbers".to_owned()))?;
    Ok(AcquisitionId::new(format!(
        "{:032x}",
        u128::from_be_bytes(bytes)
    )))
}

#[cfg(test)]
mod tests;
