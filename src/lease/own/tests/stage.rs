//! A register in memory that can be held up before and after it commits, and whose answers can be lost.
//!
//! What always holds: what is committed is what `MemoryBackend` commits.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use super::*;
use crate::protocol::command::{Command, Reply};
use crate::protocol::fence::Fence;
use crate::protocol::ids::OperationKey;
use crate::protocol::operation::Operation;
use crate::protocol::view::{Living, Record};
use crate::store::{
    Backend, OperationPage, OperationQuery, Pending, Stored, StoredResource, Summary,
};

pub(super) struct Staged {
    pub(super) inner: MemoryBackend,
    /// Commands that came.
    pub(super) asked: AtomicUsize,
    /// Commands that changed something.
    pub(super) committed: AtomicUsize,
    /// Answers are held back while this is closed.
    pub(super) answers: Semaphore,
    pub(super) holds_back: AtomicBool,
    /// So many answers are lost.
    pub(super) loses: AtomicUsize,
    /// Then so many commands do not reach it.
    pub(super) refuses: AtomicUsize,
    /// Somebody else has his turn so often before it commits, and after that.
    pub(super) dallies: Mutex<Option<Box<dyn FnMut() -> usize + Send>>>,
    before: Mutex<Option<Fence>>,
}

impl Staged {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryBackend::new(InstanceId(1)),
            asked: AtomicUsize::new(0),
            committed: AtomicUsize::new(0),
            answers: Semaphore::new(0),
            holds_back: AtomicBool::new(false),
            loses: AtomicUsize::new(0),
            refuses: AtomicUsize::new(0),
            dallies: Mutex::default(),
            before: Mutex::default(),
        })
    }

    /// Waits until so many commands were committed.
    pub(super) async fn until_committed(&self, number: usize) {
        while self.committed.load(Ordering::SeqCst) < number {
            tokio::task::yield_now().await;
        }
    }

    async fn dally(&self) {
        let often = (self.dallies.lock().unwrap().as_mut()).map_or(0, |often| often());
        for _ in 0..often {
            tokio::task::yield_now().await;
        }
    }

    pub(super) async fn lease(&self, name: &str) -> Option<Lease> {
        let found = self.inner.resource(&resource(name)).await.unwrap();
        found.and_then(|found| found.fence.lease)
    }
}

impl Backend for Staged {
    fn apply(&self, command: Command) -> Pending<'_, Reply> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let one_less = |left: usize| left.checked_sub(1);
            let takes = |from: &AtomicUsize| {
                from.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
                    .is_ok()
            };
            if self.loses.load(Ordering::SeqCst) == 0 && takes(&self.refuses) {
                return Err(StoreError::Unavailable("it is away".to_owned()));
            }
            self.dally().await;
            let reply = self.inner.apply(command).await?;
            if let Some(fence) = self.inner.resources(None, 1).await?.pop() {
                let mut before = self.before.lock().unwrap();
                if before.as_ref() != Some(&fence) {
                    *before = Some(fence);
                    self.committed.fetch_add(1, Ordering::SeqCst);
                }
            }
            self.dally().await;
            if self.holds_back.load(Ordering::SeqCst) {
                self.answers.acquire().await.unwrap().forget();
            }
            if takes(&self.loses) {
                return Err(StoreError::CommitUnknown("its reply was lost".to_owned()));
            }
            Ok(reply)
        })
    }

    fn peek<'a>(
        &'a self,
        key: &'a OperationKey,
        resource: Option<&'a ResourceKey>,
    ) -> Pending<'a, Option<Record>> {
        self.inner.peek(key, resource)
    }

    fn operation<'a>(
        &'a self,
        key: &'a OperationKey,
        with_request: bool,
    ) -> Pending<'a, Option<Stored>> {
        self.inner.operation(key, with_request)
    }

    fn operations<'a>(&'a self, query: &'a OperationQuery) -> Pending<'a, OperationPage> {
        self.inner.operations(query)
    }

    fn resource<'a>(&'a self, key: &'a ResourceKey) -> Pending<'a, Option<StoredResource>> {
        self.inner.resource(key)
    }

    fn resources<'a>(&'a self, after: Option<&'a str>, limit: usize) -> Pending<'a, Vec<Fence>> {
        self.inner.resources(after, limit)
    }

    fn in_doubt(&self, after: u64, limit: usize) -> Pending<'_, Vec<(u64, Operation)>> {
        self.inner.in_doubt(after, limit)
    }

    fn unsettled(&self, after: u64, limit: usize) -> Pending<'_, Vec<(u64, Operation)>> {
        self.inner.unsettled(after, limit)
    }

    fn summary(&self) -> Pending<'_, Summary> {
        self.inner.summary()
    }

    fn ready(&self) -> Pending<'_, ()> {
        self.inner.ready()
    }

    fn instance(&self) -> InstanceId {
        self.inner.instance()
    }

    fn living(&self) -> Living {
        self.inner.living()
    }

    fn close(&self) -> Pending<'_, ()> {
        self.inner.close()
    }
}
