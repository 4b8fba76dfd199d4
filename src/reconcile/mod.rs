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

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashSet;
use tokio::sync::Semaphore;

use crate::dispatch::attempt::Dispatcher;
use crate::dispatch::gateway::Gateways;
use crate::protocol::ids::OperationKey;
use crate::protocol::operation::Operation;
use crate::protocol::plan::{self, Step};
use crate::store::StoreError;

/// How often the register is searched for operations that nobody works on: attempts that went
/// silent, listeners that gave up, operations of an earlier process.
const PASS_EVERY: Duration = Duration::from_secs(5);

/// How many operations a pass reads at once.
const PAGE: usize = 256;

/// How many operations are settled at the same time.
const SLOTS: usize = 64;

/// Settles what is uncertain. Cheap to clone.
#[derive(Clone)]
pub struct Reconciler {
    dispatcher: Dispatcher,
    gateways: Arc<Gateways>,
    /// Operations that a task works on.
    working: Arc<DashSet<OperationKey>>,
    slots: Arc<Semaphore>,
}

impl Reconciler {
    /// Makes one; [`Reconciler::run`] starts it.
    pub fn new(dispatcher: Dispatcher, gateways: Arc<Gateways>) -> Self {
        Self {
            dispatcher,
            gateways,
            working: Arc::default(),
            slots: Arc::new(Semaphore::new(SLOTS)),
        }
    }

    /// Starts settling this operation now, unless somebody works on it already.
    pub fn wake(&self, key: &OperationKey) {
        if self.dispatcher.supervisor.is_draining() || !self.working.insert(key.clone()) {
            return;
        }
        let (reconciler, key) = (self.clone(), key.clone());
        self.dispatcher.supervisor.background(async move {
            // The guard leaves the set even if the step panics.
            let working = Working { reconciler, key };
            let Ok(_slot) = working.reconciler.slots.acquire().await else {
                return;
            };
            if let Err(fault) = working.reconciler.settle(&working.key).await {
                tracing::warn!(
                    operation = %working.key.id,
                    upstream = %working.key.upstream,
                    error = %fault,
                    "settling stopped; the next pass goes on"
                );
            }
        });
    }

    /// Passes over the register until draining begins: at once, then periodically.
    pub async fn run(&self) {
        loop {
            if let Err(fault) = self.pass().await {
                tracing::warn!(error = %fault, "the register could not be searched for uncertain operations");
            }
            tokio::select! {
                () = tokio::time::sleep(PASS_EVERY) => {}
                () = self.dispatcher.supervisor.draining() => return,
            }
        }
    }

    /// One pass: wakes a task for each operation that has a step to take.
    async fn pass(&self) -> Result<(), StoreError> {
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
            for (_, operation) in &page {
                if self.has_a_step(operation) {
                    self.wake(&operation.key);
                }
            }
            // The next page is read when there is room to work on it: memory stays flat however
            // much is uncertain.
            let _room = self.slots.acquire().await;
        }
    }

    /// Judged without the fence: a resend that the fence forbids is parked by its task.
    fn has_a_step(&self, operation: &Operation) -> bool {
        let living = self.dispatcher.register.living();
        let now = self.dispatcher.clock.now();
        let lease = crate::protocol::lease::LeaseFacts::unknown();
        match plan::plan(operation, None, &lease, &living, &now) {
            Step::Nothing | Step::Await => false,
            Step::CloseThenPlan { .. } | Step::Resend { .. } | Step::Park(_) => true,
        }
    }
}

struct Working {
    reconciler: Reconciler,
    key: OperationKey,
}

impl Drop for Working {
    fn drop(&mut self) {
        self.reconciler.working.remove(&self.key);
    }
}
