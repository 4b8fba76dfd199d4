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

mod steps;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use tokio::sync::Semaphore;

use crate::dispatch::attempt::Dispatcher;
use crate::dispatch::gateway::Gateways;
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
    gateways: Arc<Gateways>,
    /// Operations that a task works on. `true`: woken again meanwhile.
    working: Arc<DashMap<OperationKey, bool>>,
    slots: Arc<Slots>,
}

/// Each upstream has its own: one that is away, or answers nobody, holds up no other's operations.
struct Slots {
    by_upstream: HashMap<UpstreamId, Semaphore>,
    /// For operations of upstreams that the config no longer has.
    others: Semaphore,
}

impl Reconciler {
    /// Makes one; [`Reconciler::start`] starts it.
    pub fn new(dispatcher: Dispatcher, gateways: Arc<Gateways>) -> Self {
        let upstreams = gateways.iter().map(|gateway| gateway.config.id.clone());
        let slots = Slots {
            by_upstream: upstreams.map(|id| (id, Semaphore::new(SLOTS))).collect(),
            others: Semaphore::new(SLOTS),
        };
        Self {
            dispatcher,
            gateways,
            working: Arc::default(),
            slots: Arc::new(slots),
        }
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
        let known = self.gateways.iter().map(|gateway| Some(&gateway.config.id));
        for upstream in known.chain([None]) {
            let (reconciler, upstream) = (self.clone(), upstream.cloned());
            let passes = async move { reconciler.run(upstream.as_ref()).await };
            self.dispatcher.supervisor.background(passes);
        }
    }

    /// `None`: for upstreams that the config no longer has.
    async fn run(&self, upstream: Option<&UpstreamId>) {
        loop {
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
                let _room = self.slots.of(upstream).acquire().await;
            }
        }
    }

    fn is_of(&self, operation: &Operation, upstream: Option<&UpstreamId>) -> bool {
        match upstream {
            Some(upstream) => operation.key.upstream == *upstream,
            None => self.gateways.by_id(&operation.key.upstream).is_none(),
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

impl Slots {
    fn of(&self, upstream: Option<&UpstreamId>) -> &Semaphore {
        upstream
            .and_then(|upstream| self.by_upstream.get(upstream))
            .unwrap_or(&self.others)
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
        let Ok(_slot) = reconciler.slots.of(Some(&key.upstream)).acquire().await else {
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
