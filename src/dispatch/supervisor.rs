//! Tasks that must not be lost: effects, recordings, settle steps.
//!
//! What always holds: every task is tracked, so that a drain waits for it; none is tied to a
//! caller's connection, so that a caller who hangs up cancels nothing.
//!
//! What it does not do: retry a task, or bound its time (the task does).

use std::future::Future;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Runs tracked tasks. Cheap to clone.
#[derive(Clone, Default)]
pub struct Supervisor {
    tasks: TaskTracker,
    background: TaskTracker,
    draining: CancellationToken,
    over: CancellationToken,
}

impl Supervisor {
    /// Runs a task that a drain waits for: an effect under way, a record to be written. A task that
    /// begins one asks [`Supervisor::is_draining`] itself, before it acts: it is counted by then.
    pub fn effect<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.tasks.spawn(task)
    }

    /// Runs a task that ends by itself when draining begins.
    pub fn background<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.background.spawn(task)
    }

    /// Has draining begun?
    pub fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Resolves when draining begins.
    pub async fn draining(&self) {
        self.draining.cancelled().await;
    }

    /// Cancelled when draining begins.
    pub fn draining_token(&self) -> CancellationToken {
        self.draining.clone()
    }

    /// The tasks that a drain waits for.
    pub fn effects(&self) -> TaskTracker {
        self.tasks.clone()
    }

    /// Begins draining: no new effect is admitted from now on.
    pub fn begin_drain(&self) {
        self.draining.cancel();
    }

    /// How many effects are under way.
    pub fn under_way(&self) -> usize {
        self.tasks.len()
    }

    /// Waits until no effect is under way and none can begin, at most that long. True if so.
    pub async fn drained(&self, at_most: Duration) -> bool {
        let all = async {
            // A settle step may be about to begin an effect: it comes first.
            self.background.close();
            self.background.wait().await;
            self.tasks.close();
            self.tasks.wait().await;
        };
        tokio::time::timeout(at_most, all).await.is_ok()
    }

    /// The drain is over: whoever still waits for something waits in vain.
    pub fn end_drain(&self) {
        self.over.cancel();
    }

    /// Resolves when the drain is over.
    pub async fn over(&self) {
        self.over.cancelled().await;
    }
}
