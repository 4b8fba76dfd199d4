//! Settling: what nobody knows is found out, or said to need a person.
//!
//! What lives here: [`Reconciler`], one code path for the pass at start, the periodic pass and the
//! signal of a request that repeats an uncertain operation: load, plan, act, and plan again.
//!
//! What always holds: the plan is pure (`protocol::plan`) and only a hint; every resend is admitted
//! in a transaction of its own, under the same key. One task works on an operation at a time. A
//! late listener is closed before a step acts. Nothing is settled while draining.
//!
//! What it does not do: look up, receive callbacks (they come with their own steps), or answer
//! callers.

mod attended;
mod steps;

pub use attended::Attending;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use tokio::sync::Semaphore;

use crate::dispatch::attempt::Dispatcher;
use crate::dispatch::gateway::Gateways;
use crate::dispatch::live::Live;
use crate::protocol::ids::{OperationKey, UpstreamId};
use crate::protocol::operation::Operation;
use crate::protocol::plan::{self, Step};
use crate::store::StoreError;

/// How often the register is searched for operations that nobody works on: attempts that went
/// silent, listeners that gave up, operations of an earlier process.
const PASS_EVERY: Duration = Duration::from_secs(5);

/// How many operations a pass reads at once.
const PAGE: usize = 256;

/// How many operations of one upstream are settled at the same time.
const SLOTS: usize = 64;

/// Settles what is uncertain. Cheap to clone.
#[derive(Clone)]
pub struct Reconciler {
    dispatcher: Dispatcher,
    gateways: Live<Gateways>,
    /// Operations that a task works on. `true`: woken again meanwhile.
    working: Arc<DashMap<OperationKey, bool>>,
    slots: Arc<Slots>,
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
            passing: Arc::default(),
        }
    }

    /// From the next step on, settles by these. A step under way ends as it began.
    pub fn replace(&self, gateways: Arc<Gateways>) {
        self.gateways.replace(gateways);
        self.start();
    }

    /// Starts settling this operation now. If somebody works on it already, he looks once more
    /// before he goes.
    pub fn wake(&self, key: &OperationKey) {
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
        };
        self.dispatcher.supervisor.background(working.settle());
    }

    /// Starts passing over the register until draining begins: at once, then periodically; for each
    /// upstream apart.
    pub fn start(&self) {
        let gateways = self.gateways.now();
        let known = gateways.iter().map(|gateway| Some(&gateway.config.id));
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
            if let Err(fault) = self.pass(upstream).await {
                tracing::warn!(error = %fault, "the register could not be searched for uncertain operations");
            }
            tokio::select! {
                () = tokio::time::sleep(PASS_EVERY) => {}
                () = self.dispatcher.supervisor.draining() => return,
            }
        }
    }

    /// One pass: wakes a task for each operation that has a step to take.
    async fn pass(&self, upstream: Option<&UpstreamId>) -> Result<(), StoreError> {
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
                if self.is_of(operation, upstream) && self.has_a_step(operation) {
                    self.wake(&operation.key);
                    woken = true;
                }
            }
            if woken {
                // The next page is read when there is room to work on it: memory stays flat however
                // much is uncertain.
                let _room = self.slots_of(upstream).acquire_owned().await;
            }
        }
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

    /// Judged without the fence: a resend that the fence forbids is parked by its task.
    fn has_a_step(&self, operation: &Operation) -> bool {
        let living = self.dispatcher.register.living();
        let now = self.dispatcher.clock.now();
        let lease = crate::protocol::lease::LeaseFacts::unknown();
        match plan::plan(operation, None, &lease, &living, &now) {
            Step::Nothing => false,
            // Without the fence a fenced operation that listens looks as if nothing could help.
            Step::Await => operation.place.is_some() && !operation.is_acting(&living, &now),
            Step::CloseThenPlan { .. } | Step::Resend { .. } | Step::Park(_) => true,
        }
    }
}

/// Work on one operation; leaves the set even if a step panics.
struct Working {
    reconciler: Reconciler,
    key: OperationKey,
    finished: bool,
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
