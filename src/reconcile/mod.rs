//! Settling: what nobody knows is found out, or said to need a person.
//!
//! What lives here: [`Reconciler`], one code path for the pass at start, the periodic pass and the
//! signal of a request that repeats an uncertain operation: load, plan, act, and plan again.
//!
//! What always holds: the plan is pure (`protocol::plan`) and only a hint; every resend is admitted
//! in a transaction of its own, under the same key. One task works on an operation at a time. A
//! late listener is closed before a step acts. Nothing is settled while draining. Memory stays flat however
//! much is uncertain, an upstream that is dead is not hammered, and no resource takes all the room of its
//! upstream.
//!
//! What it does not do: answer callers.

mod asking;
mod attended;
mod breaker;
pub mod callback;
mod keys;
mod later;
mod licences;
mod meant;
mod resending;
mod room;
pub mod standing;
mod steps;
mod undoing;
mod way;

pub use attended::Attending;
pub use keys::least_of_all;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;

use crate::dispatch::attempt::Dispatcher;
use crate::dispatch::gateway::Gateways;
use crate::dispatch::live::Live;
use crate::protocol::ids::{OperationKey, UpstreamId};
use crate::protocol::operation::Operation;
use crate::protocol::plan::{self, Step};
use crate::protocol::policy::Order;
use crate::protocol::time::Millis;
use crate::store::StoreError;
use later::Later;
pub(crate) use room::Pace;
use room::{Counted, OfResource, Room, Slots};
use standing::{Standing, Watch};

/// What is due so soon is woken by the pass that finds it.
const SOON: Millis = Millis(5_000);

/// How many operations a pass reads at once.
const PAGE: usize = 256;

/// Reading the register for a pass takes up this part of the time: the next one waits so many times as long as
/// that took. How long the upstreams took to answer does not count: that is what passes are for.
const REST: u32 = 9;

/// The longest rest.
const LONGEST_REST: Duration = Duration::from_secs(30);

/// Signals are listened to while fewer tasks than this are there; the rest waits for a pass.
const MOST_WORKING: usize = 8_192;

/// Settles what is uncertain. Cheap to clone.
#[derive(Clone)]
pub struct Reconciler {
    dispatcher: Dispatcher,
    gateways: Live<Gateways>,
    /// Operations that a task works on. `true`: woken again meanwhile.
    working: Arc<DashMap<OperationKey, bool>>,
    slots: Arc<Slots>,
    /// Operations of a resource that passes have let be worked on.
    of_resource: OfResource,
    later: Arc<Later>,
    /// Does somebody wake those who are due?
    wakes: Arc<AtomicBool>,
    pace: Pace,
    watches: Arc<DashMap<Option<UpstreamId>, Arc<Watch>>>,
    keys: Arc<keys::Keys>,
    licences: Arc<licences::Licences>,
    /// Upstreams that are passed over; `None`: those that the config no longer has.
    passing: Arc<Mutex<HashSet<Option<UpstreamId>>>>,
}

/// Who woke an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// A signal, or its own time.
    Signal,
    /// A pass.
    Pass,
}

impl Reconciler {
    /// Makes one; [`Reconciler::start`] starts it.
    pub fn new(dispatcher: Dispatcher, gateways: Arc<Gateways>) -> Self {
        Self::paced(dispatcher, gateways, Pace::default())
    }

    /// The same, at another pace.
    pub(crate) fn paced(dispatcher: Dispatcher, gateways: Arc<Gateways>, pace: Pace) -> Self {
        Self {
            dispatcher,
            gateways: Live::new(gateways),
            working: Arc::default(),
            slots: Arc::new(Slots::new(pace)),
            of_resource: Arc::default(),
            later: Arc::new(Later::new(pace.woken_later)),
            wakes: Arc::default(),
            pace,
            watches: Arc::default(),
            keys: Arc::default(),
            licences: Arc::default(),
            passing: Arc::default(),
        }
    }

    /// From the next step on, settles by these. A step under way ends as it began.
    pub fn replace(&self, gateways: Arc<Gateways>) {
        self.gateways.replace(gateways);
        self.start();
    }

    /// How settling goes.
    pub fn standings(&self) -> Vec<Standing> {
        let now = self.dispatcher.clock.now().boottime;
        let watches: Vec<_> = self
            .watches
            .iter()
            .map(|watch| (watch.key().clone(), Arc::clone(watch.value())))
            .collect();
        let standing = |(upstream, watch): (_, Arc<Watch>)| watch.standing(upstream, now);
        let mut all: Vec<_> = watches.into_iter().map(standing).collect();
        all.sort_by(|one, other| one.upstream.cmp(&other.upstream));
        all
    }

    /// Starts settling this operation now. If somebody works on it already, he looks once more
    /// before he goes.
    pub fn wake(&self, key: &OperationKey) {
        self.wake_by(By::Signal, key, None);
    }

    fn wake_by(&self, by: By, key: &OperationKey, counted: Option<Counted>) {
        if self.dispatcher.supervisor.is_draining() {
            return;
        }
        let is_signal = by == By::Signal;
        if is_signal && self.working.len() >= MOST_WORKING && !self.working.contains_key(key) {
            return;
        }
        match self.working.entry(key.clone()) {
            Entry::Occupied(mut working) => {
                working.insert(true);
                return;
            }
            Entry::Vacant(nobody) => drop(nobody.insert(false)),
        }
        let working = Working {
            reconciler: self.clone(),
            key: key.clone(),
            finished: false,
            by,
            _counted: counted,
        };
        self.dispatcher.supervisor.background(working.settle());
    }

    /// Wakes it again after this pause. Where too many are to be woken before it, or it is long, a pass finds it.
    fn wake_later(&self, key: &OperationKey, pause: Millis) {
        if pause > later::LONGEST {
            return;
        }
        let due = self.dispatcher.clock.now().boottime.after(pause);
        self.later.put(key, due);
        if !self.wakes.swap(true, Ordering::AcqRel) {
            let reconciler = self.clone();
            let waking = async move { reconciler.wake_in_time().await };
            self.dispatcher.supervisor.background(waking);
        }
    }

    /// Until draining begins.
    async fn wake_in_time(&self) {
        loop {
            let now = self.dispatcher.clock.now().boottime;
            for key in self.later.take_due(now) {
                self.wake(&key);
            }
            let pause = self.later.first().map(|due| due.since(now));
            let pause = pause.unwrap_or(later::LONGEST);
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(pause.0)) => {}
                () = self.later.sooner.notified() => {}
                () = self.dispatcher.supervisor.draining() => return,
            }
        }
    }

    fn watch_of(&self, upstream: Option<&UpstreamId>) -> Arc<Watch> {
        Arc::clone(&self.watches.entry(upstream.cloned()).or_default())
    }

    /// How its upstream fared lately.
    fn breaker_of(&self, upstream: &UpstreamId) -> Breakers {
        let known = self.gateways.now().by_id(upstream).is_some();
        Breakers(self.watch_of(known.then_some(upstream)))
    }

    /// Starts passing over the register until draining begins: at once, then periodically; for each
    /// upstream apart.
    pub fn start(&self) {
        let gateways = self.gateways.now();
        let known = gateways.iter().map(|gateway| Some(&gateway.config.id));
        // The first of them for good.
        let is_first = self.passing().is_empty();
        if is_first {
            let reconciler = self.clone();
            let walks = async move { reconciler.walk_keys().await };
            self.dispatcher.supervisor.background(walks);
        }
        for upstream in known.chain([None]) {
            let upstream = upstream.cloned();
            if self.passing().insert(upstream.clone()) {
                let reconciler = self.clone();
                let passes = async move { reconciler.run(upstream.as_ref()).await };
                self.dispatcher.supervisor.background(passes);
            }
        }
    }

    fn passing(&self) -> MutexGuard<'_, HashSet<Option<UpstreamId>>> {
        self.passing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the passes of an upstream that the config no longer has: the others' take over.
    fn is_over(&self, upstream: Option<&UpstreamId>) -> bool {
        let mut passing = self.passing();
        let gone = upstream.filter(|id| self.gateways.now().by_id(id).is_none());
        gone.is_some_and(|id| passing.remove(&Some(id.clone())))
    }

    /// `None`: for upstreams that the config no longer has.
    async fn run(&self, upstream: Option<&UpstreamId>) {
        let mut from = 0;
        while !self.is_over(upstream) {
            let watch = self.watch_of(upstream);
            let began = self.dispatcher.clock.now();
            watch.begin(began);
            let mut reading = Millis::default();
            let fault = self
                .pass(upstream, &watch, &mut from, &mut reading)
                .await
                .err();
            if let Some(fault) = &fault {
                tracing::warn!(error = %fault, "the register could not be searched for uncertain operations");
            }
            let took = self.dispatcher.clock.now().boottime.since(began.boottime);
            watch.note(|pass| {
                pass.took = Some(took);
                pass.fault = fault.map(|fault| fault.to_string());
            });
            tokio::select! {
                () = tokio::time::sleep(rest_after(reading, self.pace.pass_every)) => {}
                () = self.dispatcher.supervisor.draining() => return,
            }
        }
    }

    /// One pass: wakes a task for each operation that has a step to take. `from`: behind which one it begins, and goes
    /// round; the next one's begins before the first that this one had no room for. `reading`: how long the register
    /// took.
    async fn pass(
        &self,
        upstream: Option<&UpstreamId>,
        watch: &Watch,
        from: &mut u64,
        reading: &mut Millis,
    ) -> Result<(), StoreError> {
        let (begin, mut after) = (*from, *from);
        let mut is_round = begin == 0;
        let mut first_held_back = None;
        loop {
            let began = self.dispatcher.clock.now().boottime;
            let page = self
                .dispatcher
                .register
                .read()
                .in_doubt(after, PAGE)
                .await?;
            let is_again = |sequence: u64| is_round && begin > 0 && sequence > begin;
            let new = page.iter().take_while(|(sequence, _)| !is_again(*sequence));
            let last = page.last().map(|(last, _)| *last);
            let mut woken = false;
            for (sequence, operation) in new {
                if !self.is_of(operation, upstream) {
                    continue;
                }
                watch.note(|pass| pass.in_doubt = pass.in_doubt.saturating_add(1));
                match self.due_in(operation) {
                    Some(left) if !is_soon(left) => {
                        self.wake_later(&operation.key, left);
                        watch.note(|pass| pass.later = pass.later.saturating_add(1));
                    }
                    None => watch.note(|pass| pass.later = pass.later.saturating_add(1)),
                    Some(_) if self.wake_fairly(operation) => {
                        watch.note(|pass| pass.due = pass.due.saturating_add(1));
                        woken = true;
                    }
                    Some(_) => {
                        first_held_back.get_or_insert(sequence.saturating_sub(1));
                        watch.note(|pass| pass.held_back = pass.held_back.saturating_add(1));
                    }
                }
            }
            *reading = reading.plus(self.dispatcher.clock.now().boottime.since(began));
            if woken {
                // The next page is read when there is room to work on it: memory stays flat however
                // much is uncertain.
                let room = self.room_of(upstream);
                let _slot = room.of_pass().await;
            }
            match last {
                Some(last) if !is_again(last) => after = last,
                None if !is_round => (is_round, after) = (true, 0),
                Some(_) | None => break,
            }
        }
        *from = first_held_back.unwrap_or_default();
        Ok(())
    }

    /// Wakes it, unless enough of its resource are worked on.
    fn wake_fairly(&self, operation: &Operation) -> bool {
        let counted = match &operation.place {
            None => None,
            Some(place) => {
                let of = (operation.key.upstream.clone(), place.resource.clone());
                match Counted::one_more(&self.of_resource, of) {
                    Some(counted) => Some(counted),
                    None => return false,
                }
            }
        };
        self.wake_by(By::Pass, &operation.key, counted);
        true
    }

    fn is_of(&self, operation: &Operation, upstream: Option<&UpstreamId>) -> bool {
        match upstream {
            Some(upstream) => operation.key.upstream == *upstream,
            None => self.gateways.now().by_id(&operation.key.upstream).is_none(),
        }
    }

    fn room_of(&self, upstream: Option<&UpstreamId>) -> Arc<Room> {
        let gateways = self.gateways.now();
        let known = upstream.filter(|id| gateways.by_id(id).is_some());
        self.slots.of(known)
    }

    /// When there is something to do; `None`: nothing that could be said. Judged without the fence, as if it
    /// forbade everything and as if it forbade nothing: whether it does is for the task to find out.
    fn due_in(&self, operation: &Operation) -> Option<Millis> {
        let living = self.dispatcher.register.living();
        let now = self.dispatcher.clock.now();
        let lease = crate::protocol::lease::LeaseFacts::unknown();
        let due_in =
            |operation: &Operation| match plan::plan(operation, None, &lease, &living, &now) {
                Step::Nothing | Step::Await => None,
                Step::Park(_) | Step::Start { .. } => Some(Millis::default()),
                Step::Listen { left } => Some(left),
                Step::CloseThenPlan { after }
                | Step::Resend { after }
                | Step::Ask { after, .. }
                | Step::Void { after, .. } => Some(after),
            };
        let due = due_in(operation);
        if operation.place.is_none() || due.is_some_and(is_soon) {
            return due;
        }
        let free = Operation {
            place: None,
            order: Order::Free,
            ..operation.clone()
        };
        [due, due_in(&free)].into_iter().flatten().min()
    }
}

/// How long there is no pass after one whose reading took so long.
fn rest_after(reading: Millis, at_least: Duration) -> Duration {
    let rest = Duration::from_millis(reading.0).saturating_mul(REST);
    rest.clamp(at_least, LONGEST_REST.max(at_least))
}

fn is_soon(after: Millis) -> bool {
    after <= SOON
}

/// How one upstream fares; derefs to its breaker.
struct Breakers(Arc<Watch>);

impl std::ops::Deref for Breakers {
    type Target = breaker::Breaker;

    fn deref(&self) -> &Self::Target {
        &self.0.breaker
    }
}

/// Work on one operation; leaves the set even if a step panics.
struct Working {
    reconciler: Reconciler,
    key: OperationKey,
    finished: bool,
    by: By,
    /// Until it is finished.
    _counted: Option<Counted>,
}

impl Working {
    async fn settle(mut self) {
        let Self {
            reconciler, key, ..
        } = &self;
        let (reconciler, key) = (reconciler.clone(), key.clone());
        let room = reconciler.room_of(Some(&key.upstream));
        let slot = match self.by {
            By::Signal => room.of_woken().await,
            By::Pass => room.of_pass().await,
        };
        let Some(_slot) = slot else {
            return;
        };
        while !self.finished {
            if let Err(fault) = reconciler.settle(&key).await {
                tracing::warn!(
                    operation = %key.id,
                    upstream = %key.upstream,
                    error = %fault,
                    "settling stopped; the next pass goes on"
                );
            }
            self.finish_unless_woken();
        }
    }

    fn finish_unless_woken(&mut self) {
        let working = &self.reconciler.working;
        let finished = working.remove_if_mut(&self.key, |_, again| !std::mem::take(again));
        self.finished = finished.is_some();
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        // Once it has finished, the place may be somebody else's.
        if !self.finished {
            self.reconciler.working.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_between_passes_follows_the_reading_within_bounds() {
        let every = Duration::from_secs(5);
        assert_eq!(rest_after(Millis(0), every), every);
        assert_eq!(rest_after(Millis(1_000), every), Duration::from_secs(9));
        // A hundred thousand operations, read slowly: the next pass is not hours away.
        assert_eq!(rest_after(Millis(1_560_000), every), LONGEST_REST);
    }
}
