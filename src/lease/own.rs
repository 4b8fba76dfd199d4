//! Leases that the register itself keeps.
//!
//! What always holds: every wait is bounded. Who waits for a resource waits in line, first come first served, and only
//! the first of the line asks the register, and only where it can have become free: however many wait, a transfer
//! costs two commits. A lease that another holds is timed from this process's own first sight of it, *after* the
//! answer that showed it; an own one from *before* the request that brought it: so no two clocks need
//! agree. Several are taken in sorted order, all or none. Where the register does not answer nothing is acquired.
//! What was granted to somebody who has hung up, or too late, or may have been, is given back.
//!
//! What it does not do: decide (`protocol::lease`), renew by itself, or know HTTP.

mod back;
mod journal;
mod line;
mod unclaimed;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::task::TaskTracker;

use crate::clock::{Clock, boottime_us};
use crate::protocol::ids::{AcquisitionId, ResourceKey, TokenSource};
use crate::protocol::lease::{Lease, LeaseReply, Leasing, LiveLease, OWN_SOURCE, Wish};
use crate::protocol::time::{BootInstant, Millis, Moment};
use crate::store::{Register, StoreError};
use crate::telemetry::metrics::{Metrics, WaitedFor};

use line::{Before, Line, Lines};
use unclaimed::{InDoubt, Taken, Unclaimed};

/// Other processes say nothing when they release: so often is asked at least where there may be some.
const POLL: Millis = Millis(500);

/// So often where there are none: whoever changes a lease says so here.
const POLL_ALONE: Millis = Millis(5_000);

/// For so long is it found out whether an acquisition was committed, also for whoever does not wait.
const UNKNOWN: Millis = Millis(2_000);

/// Between two looks at that.
const UNKNOWN_PAUSE: Millis = Millis(50);

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

/// Leases of the register, for workers and for those on whose behalf they are held. Cheap to clone, and one for a
/// process: those who wait here are told of what is released here.
#[derive(Clone)]
pub struct Own(Arc<Shared>);

/// What all clones of it share.
pub struct Shared {
    register: Register,
    clock: Clock,
    metrics: Metrics,
    tasks: TaskTracker,
    lines: Lines,
    live: DashMap<ResourceKey, LiveLease>,
}

impl Deref for Own {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Own {
    /// On this register.
    pub fn new(register: Register, clock: Clock) -> Self {
        Self::reporting(register, clock, Metrics::new(), TaskTracker::new())
    }

    /// The same, counting into `metrics`; what goes on without its caller is one of `tasks`.
    pub fn reporting(
        register: Register,
        clock: Clock,
        metrics: Metrics,
        tasks: TaskTracker,
    ) -> Self {
        Self(Arc::new(Shared {
            register,
            clock,
            metrics,
            tasks,
            lines: Lines::default(),
            live: DashMap::new(),
        }))
    }

    /// The lease on a resource, once it is absent or expired. Dropped while it waits, it leaves the line; later, what
    /// was granted is given back.
    pub async fn acquire(&self, resource: &ResourceKey, wanted: &Wanted) -> Result<Owned, NoLease> {
        let begun_us = boottime_us();
        let deadline = self.clock.boottime().after(wanted.wait);
        let line = self.line(resource);
        let mut waiting = None;
        let mut turn = line.turn_at_once();
        if turn.is_none() && wanted.wait > Millis::default() {
            waiting = Some(self.metrics.waits_for_lease());
            turn = line.turn(wanted.wait).await;
        }
        if turn.is_none() {
            self.waited(begun_us);
            // Others come first, also where it may be had.
            let left = line.left(&self.clock.now());
            return Err(NoLease::Held(left));
        }
        let acquisition = new_acquisition()?;
        // It may be his already, though nobody knows.
        let mut doubt = InDoubt::none(self, resource, &acquisition);
        let wish = Wish::Acquire {
            acquisition,
            holder: wanted.holder.clone(),
            ttl: wanted.ttl,
        };
        let known_by = self.clock.boottime().after(UNKNOWN);
        let told = loop {
            let now = self.clock.now();
            let freed = line.freed();
            let sure = self.held_for_sure(&line, &now, wanted.wait);
            let (refused, pause, until) = match sure.filter(|_| !doubt.is_there()) {
                Some((left, believed)) => (NoLease::Held(left), left.min(believed), deadline),
                None => {
                    match doubt.after(self.claim(resource, &line, wish.clone(), &mut turn).await) {
                        Ok(owned) => break Ok(owned),
                        Err(NoLease::Held(left)) => {
                            (NoLease::Held(left), left.min(self.poll()), deadline)
                        }
                        // Asked again under the same acquisition: then it is known whether it is this one's, and its
                        // time counts from then on.
                        Err(refused @ NoLease::Store(StoreError::CommitUnknown(_))) => {
                            (refused, UNKNOWN_PAUSE, deadline.max(known_by))
                        }
                        Err(refused) => break Err(refused),
                    }
                }
            };
            let patience = until.since(self.clock.boottime());
            if patience == Millis::default() {
                break Err(refused);
            }
            waiting.get_or_insert_with(|| self.metrics.waits_for_lease());
            let pause = pause.max(Millis(1)).min(patience);
            let pause = tokio::time::sleep(Duration::from_millis(pause.0));
            tokio::select! {
                () = pause => {}
                () = freed => {}
            }
        };
        if waiting.is_some() {
            self.waited(begun_us);
        }
        let owned = told?;
        self.metrics
            .lease_acquired(boottime_us().saturating_sub(begun_us));
        Ok(owned)
    }

    /// All of them or none, in sorted order: two who want the same ones never wait for each other. Where there are none,
    /// it says which one was not to be had.
    pub async fn acquire_all(
        &self,
        resources: impl IntoIterator<Item = ResourceKey>,
        wanted: &Wanted,
    ) -> Result<Vec<Owned>, (ResourceKey, NoLease)> {
        let deadline = self.clock.boottime().after(wanted.wait);
        let sorted: std::collections::BTreeSet<ResourceKey> = resources.into_iter().collect();
        let mut taken = Taken::new(self);
        for resource in sorted {
            let wanted = Wanted {
                wait: deadline.since(self.clock.boottime()),
                ..wanted.clone()
            };
            match self.acquire(&resource, &wanted).await {
                Ok(owned) => taken.push(owned),
                Err(why) => {
                    taken.given_back().await;
                    return Err((resource, why));
                }
            }
        }
        // Whoever waited long for the last may have lost the first meanwhile.
        let now = self.clock.boottime();
        let over = taken.all().iter().find(|owned| owned.until <= now);
        if let Some(over) = over.map(|owned| owned.resource.clone()) {
            taken.given_back().await;
            return Err((over, NoLease::Lost));
        }
        Ok(taken.kept())
    }

    /// Its whole time again, for its holder. Where it is not his any more, or he would learn of it after the time that
    /// he had, it is lost; where the register does not answer, he has what he had until that is over.
    pub async fn renew(
        &self,
        resource: &ResourceKey,
        acquisition: &AcquisitionId,
    ) -> Result<Owned, NoLease> {
        let line = self.lines.known_or_apart(resource);
        let had = self.had(resource, acquisition);
        let wish = Wish::Renew {
            acquisition: acquisition.clone(),
        };
        let renewed = match self.ask(resource, &line, wish).await {
            Ok(owned) => self.in_time(owned, had),
            Err(why) => Err(why),
        };
        match &renewed {
            // Whoever resumes it is the first here who knows of it.
            Ok(owned) if line.is_apart() => {
                self.line(resource).glance(&owned.lease, &self.clock.now());
            }
            Ok(_) => {}
            Err(why) => {
                self.metrics.lease_renewal_failed();
                journal::not_renewed(resource, acquisition, why);
            }
        }
        renewed
    }

    /// What this process knows of it as its holder's; `None`: it did not acquire or renew it, or it is over.
    pub fn live(&self, resource: &ResourceKey) -> Option<LiveLease> {
        let live = self.live.get(resource)?;
        (live.until > self.clock.boottime()).then(|| live.clone())
    }

    /// Counts what is live now.
    pub fn count(&self) {
        let now = self.clock.boottime();
        self.live.retain(|_, live| live.until > now);
        self.metrics.leases_held(OWN_SOURCE, self.live.len());
    }

    /// What is left of a lease that was read now, at most.
    pub fn left(&self, resource: &ResourceKey, lease: &Lease) -> Millis {
        let now = self.clock.now();
        let line = self.line(resource);
        line.glance(lease, &now);
        lease.left(line.seen().as_ref(), &now)
    }

    /// Somebody else than its holder changed it: whoever waits asks.
    pub fn changed(&self, resource: &ResourceKey) {
        if let Some(line) = self.lines.known(resource) {
            line.doubt();
        }
    }

    /// Asks for a lease, to the end whoever still waits for it.
    async fn claim(
        &self,
        resource: &ResourceKey,
        line: &Arc<Line>,
        wish: Wish,
        turn: &mut Option<OwnedSemaphorePermit>,
    ) -> Result<Owned, NoLease> {
        let (own, line) = (self.clone(), Arc::clone(line));
        let (wanted, acquisition) = (resource.clone(), acquisition_of(&wish).clone());
        let asked = async move { own.ask(&wanted, &line, wish).await };
        let unclaimed = Unclaimed::new(self, resource, &acquisition, turn);
        let owned = unclaimed.ask(asked).await?;
        if owned.until > self.clock.boottime() {
            self.is_live(&owned);
            return Ok(owned);
        }
        // Granted, and over before he could be told.
        let mut late = Taken::new(self);
        late.push(owned);
        late.given_back().await;
        Err(NoLease::Lost)
    }

    /// Asks once, and remembers what the answer shows.
    async fn ask(&self, resource: &ResourceKey, line: &Line, wish: Wish) -> Result<Owned, NoLease> {
        let before = self.clock.now();
        let is_wanted = matches!(wish, Wish::Acquire { .. });
        let own = acquisition_of(&wish).clone();
        let (seen, asked) = line.asked();
        let leasing = Leasing {
            resource: resource.clone(),
            wish,
            seen,
            at: before,
        };
        let reply = self.register.lease(leasing).await;
        let now = self.clock.now();
        match reply {
            Ok(LeaseReply::Granted(lease)) => {
                if is_wanted {
                    self.passed_on(resource, &lease, line.before(&now).as_ref());
                }
                line.granted(&lease, asked, now);
                Ok(Owned {
                    resource: resource.clone(),
                    until: before.boottime.after(lease.ttl),
                    lease,
                })
            }
            Ok(other) => {
                match &other {
                    LeaseReply::Held(lease, _) => line.held_by(lease, asked, now),
                    LeaseReply::Lost
                    | LeaseReply::Released
                    | LeaseReply::Granted(_)
                    | LeaseReply::Cancelled
                    | LeaseReply::OtherSource(_)
                    | LeaseReply::Exhausted => line.doubt_of(&own),
                }
                self.forget(resource, &own);
                Err(refusal(other))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Renewed, while it was still his: he had it until `had`, as far as this process knows.
    fn in_time(&self, owned: Owned, had: Option<BootInstant>) -> Result<Owned, NoLease> {
        let now = self.clock.boottime();
        let acquisition = &owned.lease.acquisition;
        // He may have given it back meanwhile.
        let is_his = |had| had > now && self.had(&owned.resource, acquisition).is_some();
        if owned.until > now && had.is_none_or(is_his) {
            self.is_live(&owned);
            return Ok(owned);
        }
        self.forget(&owned.resource, acquisition);
        // Nobody is to wait for what is nobody's.
        let mut late = Taken::new(self);
        late.push(owned);
        drop(late);
        Err(NoLease::Lost)
    }

    /// Until when it was his when he was told last.
    fn had(&self, resource: &ResourceKey, acquisition: &AcquisitionId) -> Option<BootInstant> {
        let live = self.live.get(resource)?;
        (live.acquisition == *acquisition).then_some(live.until)
    }

    /// Of two renewals the later end counts, whichever is told last: each was before what others have seen of it.
    fn is_live(&self, owned: &Owned) {
        let told = LiveLease {
            acquisition: owned.lease.acquisition.clone(),
            until: owned.until,
        };
        let live = self.live.entry(owned.resource.clone());
        let mut live = live.or_insert_with(|| told.clone());
        if live.acquisition != told.acquisition || live.until < told.until {
            *live = told;
        }
    }

    /// Tells of a new owner, and counts him where somebody owned the resource before.
    fn passed_on(
        &self,
        resource: &ResourceKey,
        lease: &Lease,
        before: Option<&(AcquisitionId, Before)>,
    ) {
        journal::granted(resource, lease, before);
        match before {
            Some((_, Before::Expired)) => self.metrics.ownership_passed("expiry"),
            Some((_, Before::Ended)) => self.metrics.ownership_passed("release"),
            None if lease.token.generation() > 1 => self.metrics.ownership_passed("release"),
            // The first token of all passes nothing on.
            None => {}
        }
    }

    /// What is left of a lease that need not be asked for: this process alone could have changed it, or whoever waits
    /// may learn of another's release a little later.
    fn held_for_sure(&self, line: &Line, now: &Moment, wait: Millis) -> Option<(Millis, Millis)> {
        let may_be_told = self.is_alone() || wait > Millis::default();
        line.held(now, self.poll()).filter(|_| may_be_told)
    }

    fn is_alone(&self) -> bool {
        self.register.read().elsewhere().is_none()
    }

    fn poll(&self) -> Millis {
        if self.is_alone() { POLL_ALONE } else { POLL }
    }

    fn waited(&self, begun_us: u64) {
        let waited = boottime_us().saturating_sub(begun_us) / 1_000;
        self.metrics.waited(WaitedFor::Lease, Millis(waited));
    }

    fn forget(&self, resource: &ResourceKey, acquisition: &AcquisitionId) {
        self.live
            .remove_if(resource, |_, live| live.acquisition == *acquisition);
    }

    fn line(&self, resource: &ResourceKey) -> Arc<Line> {
        let (line, full) = self.lines.of(resource);
        if full {
            let now = self.clock.boottime();
            self.live.retain(|_, live| live.until > now);
        }
        line
    }
}

fn acquisition_of(wish: &Wish) -> &AcquisitionId {
    match wish {
        Wish::Acquire { acquisition, .. }
        | Wish::Renew { acquisition }
        | Wish::Release { acquisition } => acquisition,
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
