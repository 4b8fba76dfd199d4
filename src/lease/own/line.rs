//! Those who wait for a resource, and what this process has seen of its lease.
//!
//! What always holds: first come, first served; whoever stops waiting leaves the line and costs nobody his place; the
//! first sight of a lease counts, and is kept as long as the lease is not known to be given back. Memory is bounded:
//! where too many leases are remembered, those go that were seen last, because they lose the least: whoever is seen
//! anew has its full time again, which is only longer. What is known is never undone by an answer that is older.
//!
//! What it does not do: ask the register, or decide.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dashmap::DashMap;
use tokio::sync::futures::OwnedNotified;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::protocol::ids::{AcquisitionId, FencingToken, ResourceKey};
use crate::protocol::lease::{Lease, Sight};
use crate::protocol::time::{BootInstant, Millis, Moment};

/// So many resources are remembered before some are let go that nobody waits for.
const REMEMBERED: usize = 65_536;

/// No look at the register takes longer: what was told before that is older than whatever it shows.
const LOOKED_FOR: Millis = Millis(10_000);

/// The line of every resource that somebody waits for or was seen leased.
pub(super) struct Lines {
    of: DashMap<ResourceKey, Arc<Line>>,
    most: usize,
    /// Held by whoever lets go: one at a time is enough.
    letting_go: Mutex<()>,
}

/// Those who wait for a resource.
pub(super) struct Line {
    /// Semaphores are fair: first come first served.
    turn: Arc<Semaphore>,
    /// It may be had now.
    freed: Arc<Notify>,
    seen: Mutex<Seen>,
    /// Nobody else finds it.
    is_apart: bool,
}

/// What is known of a resource's lease.
#[derive(Debug, Default)]
struct Seen {
    known: Option<Known>,
    /// Counted up by whatever makes older answers worthless.
    changes: u64,
    /// It is on record no more, whatever an older answer says.
    gone: Option<FencingToken>,
}

/// When something was asked for: an answer to it is as new as what was known then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked(u64);

/// A lease as it was seen first.
#[derive(Clone, Debug)]
struct Known {
    sight: Sight,
    acquisition: AcquisitionId,
    ttl: Millis,
    /// When it was on record for sure.
    told: Option<BootInstant>,
}

/// How the lease before has ended, as far as this process knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// It was given back, or cut off.
    Ended,
    /// Its time was over.
    Expired,
}

impl Default for Lines {
    fn default() -> Self {
        Self::remembering(REMEMBERED)
    }
}

impl Lines {
    pub(super) fn remembering(most: usize) -> Self {
        Self {
            of: DashMap::new(),
            most,
            letting_go: Mutex::default(),
        }
    }

    /// The line for a resource. `true`: some were let go.
    pub(super) fn of(&self, resource: &ResourceKey) -> (Arc<Line>, bool) {
        let full = self.of.len() >= self.most && self.let_go();
        let line = self.of.entry(resource.clone());
        let line = Arc::clone(&line.or_insert_with(|| Arc::new(Line::new())));
        (line, full)
    }

    /// The line for a resource, if there is one.
    pub(super) fn known(&self, resource: &ResourceKey) -> Option<Arc<Line>> {
        Some(Arc::clone(&*self.of.get(resource)?))
    }

    /// The line for a resource; where there is none, one apart that nobody else finds: whoever asks for what was never
    /// seen here leaves nothing behind.
    pub(super) fn known_or_apart(&self, resource: &ResourceKey) -> Arc<Line> {
        let known = self.known(resource);
        known.unwrap_or_else(|| {
            Arc::new(Line {
                is_apart: true,
                ..Line::new()
            })
        })
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    fn let_go(&self) -> bool {
        let Ok(_alone) = self.letting_go.try_lock() else {
            return false;
        };
        // Whoever holds one is about to use it.
        let in_use = |line: &Arc<Line>| Arc::strong_count(line) > 1;
        self.of
            .retain(|_, line| in_use(line) || line.seen_at().is_some());
        if self.of.len() > self.most / 2 {
            let mut seen: Vec<BootInstant> = self.of.iter().filter_map(|it| it.seen_at()).collect();
            let middle = seen.len() / 2;
            if middle < seen.len() {
                let (_, middle, _) = seen.select_nth_unstable(middle);
                let middle = *middle;
                self.of.retain(|_, line| {
                    in_use(line) || line.seen_at().is_some_and(|seen| seen < middle)
                });
            }
        }
        true
    }
}

impl Line {
    fn new() -> Self {
        Self {
            turn: Arc::new(Semaphore::new(1)),
            freed: Arc::default(),
            seen: Mutex::default(),
            is_apart: false,
        }
    }

    /// The turn to ask, where nobody is before.
    pub(super) fn turn_at_once(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.turn).try_acquire_owned().ok()
    }

    /// The turn to ask; `None`: it did not come in time.
    pub(super) async fn turn(&self, wait: Millis) -> Option<OwnedSemaphorePermit> {
        let turn = Arc::clone(&self.turn).acquire_owned();
        let turn = timeout(Duration::from_millis(wait.0), turn).await;
        turn.ok()?.ok()
    }

    pub(super) fn is_apart(&self) -> bool {
        self.is_apart
    }

    /// Resolves once it may be had, from now on.
    pub(super) fn freed(&self) -> OwnedNotified {
        Arc::clone(&self.freed).notified_owned()
    }

    /// It may be had now.
    pub(super) fn free(&self) {
        self.freed.notify_waiters();
    }

    /// How it was seen first as it is, if it was.
    pub(super) fn seen(&self) -> Option<Sight> {
        (self.lock().known.as_ref()).map(|known| known.sight.clone())
    }

    /// The same, for whoever asks now.
    pub(super) fn asked(&self) -> (Option<Sight>, Asked) {
        let seen = self.lock();
        let sight = seen.known.as_ref().map(|known| known.sight.clone());
        (sight, Asked(seen.changes))
    }

    /// Another's is on record, by an answer that came at `at`. Where something has changed since it was asked for, it
    /// may be older than what is known, and counts for nothing.
    pub(super) fn held_by(&self, lease: &Lease, asked: Asked, at: Moment) {
        let mut seen = self.lock();
        if seen.changes == asked.0 {
            seen.see(lease, at, Some(at.boottime));
        }
    }

    /// It was granted, by an answer that came at `at`. Where something has changed since it was asked for, only what is
    /// newer counts, and it is asked for before it is believed.
    pub(super) fn granted(&self, lease: &Lease, asked: Asked, at: Moment) {
        let mut seen = self.lock();
        if seen.changes == asked.0 {
            seen.see(lease, at, Some(at.boottime));
        } else if seen.is_newer(lease) {
            seen.see(lease, at, None);
        }
    }

    /// Somebody looked, and it was on record then: it is timed from now on if nothing newer is known.
    pub(super) fn glance(&self, lease: &Lease, now: &Moment) {
        let mut seen = self.lock();
        let is_old =
            |known: &Known| (known.told).is_none_or(|told| told.after(LOOKED_FOR) < now.boottime);
        if (seen.known.as_ref()).is_none_or(|it| !it.is_of(lease) && is_old(it)) {
            seen.see(lease, *now, None);
        }
    }

    /// Nothing is known for sure: it is to be asked for.
    pub(super) fn doubt(&self) {
        self.lock().doubt();
        self.free();
    }

    /// What is left of it, and for how long that is believed, where it was on record less than `fresh` ago.
    pub(super) fn held(&self, now: &Moment, fresh: Millis) -> Option<(Millis, Millis)> {
        let seen = self.lock();
        let known = seen.known.as_ref()?;
        let left = known.left(now);
        let believed = known.told?.after(fresh).since(now.boottime);
        (left > Millis(0) && believed > Millis(0)).then_some((left, believed))
    }

    /// It is not known any more whether this one is on record.
    pub(super) fn doubt_of(&self, acquisition: &AcquisitionId) {
        let is_known =
            (self.lock().known.as_ref()).is_some_and(|it| it.acquisition == *acquisition);
        if is_known {
            self.doubt();
        }
    }

    /// This one is on record no more. Answers with its token, if that is known.
    pub(super) fn is_without(&self, acquisition: &AcquisitionId) -> Option<FencingToken> {
        let mut seen = self.lock();
        seen.changes += 1;
        let gone = (seen.known).take_if(|known| known.acquisition == *acquisition)?;
        seen.gone = Some(gone.sight.token);
        seen.gone
    }

    /// What is left of the lease that was seen last.
    pub(super) fn left(&self, now: &Moment) -> Millis {
        (self.lock().known.as_ref()).map_or(Millis(0), |it| it.left(now))
    }

    /// Whose lease was seen last, and how it must have ended where another is granted now.
    pub(super) fn before(&self, now: &Moment) -> Option<(AcquisitionId, Before)> {
        let seen = self.lock();
        let known = seen.known.as_ref()?;
        let how = if known.left(now) == Millis(0) {
            Before::Expired
        } else {
            Before::Ended
        };
        Some((known.acquisition.clone(), how))
    }

    fn seen_at(&self) -> Option<BootInstant> {
        (self.lock().known.as_ref()).map(|known| known.sight.at.boottime)
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// It is on record, and was for sure at `told`. The first sight counts.
    fn see(&mut self, lease: &Lease, at: Moment, told: Option<BootInstant>) {
        if let Some(known) = self.known.as_mut().filter(|known| known.is_of(lease)) {
            known.told = known.told.max(told);
            return;
        }
        self.changes += 1;
        self.known = Some(Known {
            sight: lease.seen(at),
            acquisition: lease.acquisition.clone(),
            ttl: lease.ttl,
            told,
        });
    }

    fn is_newer(&self, lease: &Lease) -> bool {
        let is_gone = self.gone.is_some_and(|gone| lease.token <= gone);
        let is_above = |known: &Known| {
            (lease.token, lease.renewals) > (known.sight.token, known.sight.renewals)
        };
        !is_gone && self.known.as_ref().is_none_or(is_above)
    }

    fn doubt(&mut self) {
        self.changes += 1;
        if let Some(known) = &mut self.known {
            known.told = None;
        }
    }
}

impl Known {
    fn is_of(&self, lease: &Lease) -> bool {
        (self.sight.token, self.sight.renewals) == (lease.token, lease.renewals)
    }

    fn left(&self, now: &Moment) -> Millis {
        let passed = now.elapsed_within_boot(&self.sight.at).unwrap_or_default();
        Millis(self.ttl.0.saturating_sub(passed.0))
    }
}
