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
mod meant;
pub mod standing;
mod steps;
mod undoing;

pub use attended::Attending;
pub use keys::least_of_all;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use tokio::sync::Semaphore;

use crate::dispatch::attempt::Dispatcher;
use crate::dispatch::gateway::Gateways;
use crate::dispatch::live::Live;
use crate::protocol::ids::{OperationKey, ResourceName, UpstreamId};
use crate::protocol::operation::Operation;
use crate::protocol::plan::{self, Step};
use crate::protocol::policy::Order;
use crate::protocol::time::Millis;
use crate::store::StoreError;
use standing::{Standing, Watch};

/// How often the register is searched for operations that nobody works on: attempts that went
/// silent, listeners that gave up, operations of an earlier process.
const PASS_EVERY: Duration = Duration::from_secs(5);

/// How many operations a pass reads at once.
const PAGE: usize = 256;

/// How many operations of one upstream are settled at the same time.
const SLOTS: usize = 64;

/// How many of one resource a pass lets be worked on: the others of its upstream get their turn.
const SLOTS_OF_RESOURCE: usize = 8;

/// A pass takes up at most this part of the time: the next one waits so many times as long as it took.
const REST: u32 = 9;

/// How many operations are woken again at their own time; whatever is beyond that waits for a pass.
const WOKEN_LATER: usize = 4_096;

/// Settles what is uncertain. Cheap to clone.
#[derive(Clone)]
pub struct Reconciler {
    dispatcher: Dispatcher,
    gateways: Live<Gateways>,
    /// Operations that a task works on. `true`: woken again meanwhile.
    working: Arc<DashMap<OperationKey, bool>>,
    slots: Arc<Slots>,
    /// Operations of a resource that passes have let be worked on.
    of_resource: Arc<DashMap<(UpstreamId, ResourceName), usize>>,
    later: Arc<Semaphore>,
    watches: Arc<DashMap<Option<UpstreamId>, Arc<Watch>>>,
    keys: Arc<keys::Keys>,
    /// Upstreams that are passed over; `None`: those that the config no longer has.
    passing: Arc<Mutex<HashSet<Option<UpstreamId>>>>,
}

/// Each upstream has its own: one that is away, or answers nobody, holds up no other's operations.
struct Slots {
    by_upstream: DashMap<UpstreamId, Arc<Semaphore>>,
    /// For operations of upstreams that the config no longer has.
    others: Arc<Semaphore>,
}

impl Reconciler {
    /// Makes one; [`Reconciler::start`] starts it.
    pub fn new(dispatcher: Dispatcher, gateways: Arc<Gateways>) -> Self {
        let slots = Slots {
            by_upstream: DashMap::new(),
            others: Arc::new(Semaphore::new(SLOTS)),
        };
        Self {
            dispatcher,
            gateways: Live::new(gateways),
            working: Arc::default(),
            slots: Arc::new(slots),
            of_resource: Arc::default(),
            later: Arc::new(Semaphore::new(WOKEN_LATER)),
            watches: Arc::default(),
            keys: Arc::default(),
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
        self.wake_counted(key, None);
    }

    fn wake_counted(&self, key: &OperationKey, counted: Option<Counted>) {
        if self.dispatcher.supervisor.is_draining() {
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
            _counted: counted,
        };
        self.dispatcher.supervisor.background(working.settle());
    }

    /// Wakes it again after this pause. Where too many are to be woken, a pass finds it.
    fn wake_later(&self, key: &OperationKey, pause: Millis) {
        let Ok(room) = Arc::clone(&self.later).try_acquire_owned() else {
            return;
        };
        let (reconciler, key) = (self.clone(), key.clone());
        self.dispatcher.supervisor.background(async move {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(pause.0)) => reconciler.wake(&key),
                () = reconciler.dispatcher.supervisor.draining() => {}
            }
            drop(room);
        });
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
        while !self.is_over(upstream) {
            let watch = self.watch_of(upstream);
            let began = self.dispatcher.clock.now();
            watch.begin(began);
            let fault = self.pass(upstream, &watch).await.err();
            if let Some(fault) = &fault {
                tracing::warn!(error = %fault, "the register could not be searched for uncertain operations");
            }
            let took = self.dispatcher.clock.now().boottime.since(began.boottime);
            watch.note(|pass| {
                pass.took = Some(took);
                pass.fault = fault.map(|fault| fault.to_string());
            });
            let rest = Duration::from_millis(took.0).saturating_mul(REST);
            tokio::select! {
                () = tokio::time::sleep(rest.max(PASS_EVERY)) => {}
                () = self.dispatcher.supervisor.draining() => return,
            }
        }
    }

    /// One pass: wakes a task for each operation that has a step to take.
    async fn pass(&self, upstream: Option<&UpstreamId>, watch: &Watch) -> Result<(), StoreError> {
        let mut after = 0;
        loop {
            let page = self
                .dispatcher
                .register
                .read()
                .in_doubt(after, PAGE)
                .await?;
            let Some((last, _)) = page.last() else {
                return Ok(());
            };
            after = *last;
            let mut woken = false;
            for (_, operation) in &page {
                if !self.is_of(operation, upstream) {
                    continue;
                }
                watch.note(|pass| pass.in_doubt = pass.in_doubt.saturating_add(1));
                if !self.has_a_step(operation) {
                    watch.note(|pass| pass.later = pass.later.saturating_add(1));
                } else if self.wake_fairly(operation) {
                    watch.note(|pass| pass.due = pass.due.saturating_add(1));
                    woken = true;
                } else {
                    watch.note(|pass| pass.held_back = pass.held_back.saturating_add(1));
                }
            }
            if woken {
                // The next page is read when there is room to work on it: memory stays flat however
                // much is uncertain.
                let _room = self.slots_of(upstream).acquire_owned().await;
            }
        }
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
        self.wake_counted(&operation.key, counted);
        true
    }

    fn is_of(&self, operation: &Operation, upstream: Option<&UpstreamId>) -> bool {
        match upstream {
            Some(upstream) => operation.key.upstream == *upstream,
            None => self.gateways.now().by_id(&operation.key.upstream).is_none(),
        }
    }

    fn slots_of(&self, upstream: Option<&UpstreamId>) -> Arc<Semaphore> {
        let gateways = self.gateways.now();
        match upstream.filter(|id| gateways.by_id(id).is_some()) {
            Some(id) => {
                let own = self.slots.by_upstream.entry(id.clone());
                Arc::clone(&own.or_insert_with(|| Arc::new(Semaphore::new(SLOTS))))
            }
            None => Arc::clone(&self.slots.others),
        }
    }

    /// Is there something to do before the next pass? Judged without the fence, as if it forbade everything
    /// and as if it forbade nothing: whether it does is for the task to find out.
    fn has_a_step(&self, operation: &Operation) -> bool {
        let living = self.dispatcher.register.living();
        let now = self.dispatcher.clock.now();
        let lease = crate::protocol::lease::LeaseFacts::unknown();
        let is_due =
            |operation: &Operation| match plan::plan(operation, None, &lease, &living, &now) {
                Step::Nothing | Step::Await => false,
                Step::Park(_) | Step::Start { .. } => true,
                Step::Listen { left } => is_soon(left),
                Step::CloseThenPlan { after }
                | Step::Resend { after }
                | Step::Ask { after, .. }
                | Step::Void { after, .. } => is_soon(after),
            };
        if operation.place.is_none() || is_due(operation) {
            return is_due(operation);
        }
        let free = Operation {
            place: None,
            order: Order::Free,
            ..operation.clone()
        };
        is_due(&free)
    }
}

fn is_soon(after: Millis) -> bool {
    u128::from(after.0) <= PASS_EVERY.as_millis()
}

/// How one upstream fares; derefs to its breaker.
struct Breakers(Arc<Watch>);

impl std::ops::Deref for Breakers {
    type Target = breaker::Breaker;

    fn deref(&self) -> &Self::Target {
        &self.0.breaker
    }
}

/// One of so many of a resource that are worked on.
struct Counted {
    all: Arc<DashMap<(UpstreamId, ResourceName), usize>>,
    of: (UpstreamId, ResourceName),
}

impl Counted {
    fn one_more(
        all: &Arc<DashMap<(UpstreamId, ResourceName), usize>>,
        of: (UpstreamId, ResourceName),
    ) -> Option<Self> {
        let mut count = all.entry(of.clone()).or_insert(0);
        if *count >= SLOTS_OF_RESOURCE {
            return None;
        }
        *count = count.saturating_add(1);
        drop(count);
        Some(Self {
            all: Arc::clone(all),
            of,
        })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = self.all.entry(self.of.clone()) {
            *count.get_mut() = count.get().saturating_sub(1);
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// Work on one operation; leaves the set even if a step panics.
struct Working {
    reconciler: Reconciler,
    key: OperationKey,
    finished: bool,
    /// Until it is finished.
    _counted: Option<Counted>,
}

impl Working {
    async fn settle(mut self) {
        let Self {
            reconciler, key, ..
        } = &self;
        let (reconciler, key) = (reconciler.clone(), key.clone());
        let slots = reconciler.slots_of(Some(&key.upstream));
        let Ok(_slot) = slots.acquire_owned().await else {
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
