//! The embedded register: one SQLite file, one owner, one writer.
//!
//! What always holds: WAL with `synchronous=FULL`, verified at start; whoever is answered can rely on
//! what was committed; a second owner is refused; a file of a newer format is refused. It fences only
//! the callers of its one process.
//!
//! What it does not do: decide (`protocol`), share the register between processes.

mod checkpoint;
mod filesystem;
mod ground;
mod load;
mod opening;
mod persist;
mod read;
#[cfg(test)]
mod sabotage;
mod schema;
#[cfg(test)]
mod tests;
mod writer;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use super::{
    Backend, OperationPage, OperationQuery, Pending, StoreError, Stored, StoredResource, Summary,
};
use crate::protocol::command::{Command, Reply};
use crate::protocol::fence::Fence;
use crate::protocol::ids::{OperationKey, ResourceKey};
use crate::protocol::operation::Operation;
use crate::protocol::view::Record;

pub use opening::{Committed, OpenError, Opened, Options, Owner, open};
use read::Readers;
use writer::{Answer, Errand, Poison};

/// The embedded register.
#[derive(Debug)]
pub struct SqliteBackend {
    errands: mpsc::Sender<Errand>,
    readers: Arc<Readers>,
    poison: Poison,
    writer: Mutex<Option<JoinHandle<()>>>,
    #[cfg(test)]
    sabotage: Arc<sabotage::Sabotage>,
}

impl SqliteBackend {
    /// Sends the writer on an errand and waits for its answer.
    async fn ask<T>(&self, errand: impl FnOnce(Answer<T>) -> Errand) -> Result<T, StoreError> {
        if let Some(why) = self.poison.get() {
            return Err(StoreError::Poisoned(why.clone()));
        }
        let (answer, answered) = oneshot::channel();
        self.errands
            .send(errand(answer))
            .await
            .map_err(|_| StoreError::Unavailable("the register is closed".to_owned()))?;
        // A writer that goes without an answer may have committed.
        answered.await.unwrap_or_else(|_| {
            Err(StoreError::CommitUnknown(
                "the register's writer is gone".to_owned(),
            ))
        })
    }
}

impl Backend for SqliteBackend {
    fn apply(&self, command: Command) -> Pending<'_, Reply> {
        Box::pin(self.ask(|answer| Errand::Apply(Box::new(command), answer)))
    }

    fn peek<'a>(
        &'a self,
        key: &'a OperationKey,
        resource: Option<&'a ResourceKey>,
    ) -> Pending<'a, Option<Record>> {
        let (key, resource) = (key.clone(), resource.cloned());
        Box::pin(
            self.readers
                .run(move |_, tables| read::peek(tables, &key, resource.as_ref())),
        )
    }

    fn operation<'a>(
        &'a self,
        key: &'a OperationKey,
        with_request: bool,
    ) -> Pending<'a, Option<Stored>> {
        let key = key.clone();
        Box::pin(
            self.readers.run(move |connection, tables| {
                read::operation(connection, tables, &key, with_request)
            }),
        )
    }

    fn operations<'a>(&'a self, query: &'a OperationQuery) -> Pending<'a, OperationPage> {
        let query = query.clone();
        Box::pin(
            self.readers
                .run(move |connection, tables| read::operations(connection, tables, &query)),
        )
    }

    fn resource<'a>(&'a self, key: &'a ResourceKey) -> Pending<'a, Option<StoredResource>> {
        let key = key.clone();
        Box::pin(
            self.readers
                .run(move |connection, tables| read::resource(connection, tables, &key)),
        )
    }

    fn resources<'a>(&'a self, after: Option<&'a str>, limit: usize) -> Pending<'a, Vec<Fence>> {
        let after = after.map(str::to_owned);
        Box::pin(
            self.readers
                .run(move |connection, _| read::resources(connection, after.as_deref(), limit)),
        )
    }

    fn in_doubt(&self, after: u64, limit: usize) -> Pending<'_, Vec<(u64, Operation)>> {
        Box::pin(
            self.readers
                .run(move |connection, tables| read::in_doubt(connection, tables, after, limit)),
        )
    }

    fn summary(&self) -> Pending<'_, Summary> {
        Box::pin(
            self.readers
                .run(|connection, tables| read::summary(connection, tables)),
        )
    }

    fn ready(&self) -> Pending<'_, ()> {
        Box::pin(self.ask(Errand::Prove))
    }

    fn close(&self) -> Pending<'_, ()> {
        Box::pin(async {
            let (answer, answered) = oneshot::channel();
            // Closed already: nothing is left to wait for but the thread.
            let closed = match self.errands.send(Errand::Close(answer)).await {
                Ok(()) => answered.await.unwrap_or(Ok(())),
                Err(_) => Ok(()),
            };
            let thread = self
                .writer
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(thread) = thread {
                let joined = tokio::task::spawn_blocking(move || thread.join()).await;
                if !matches!(joined, Ok(Ok(()))) {
                    return Err(StoreError::Unavailable(
                        "the register's writer ended in a panic".to_owned(),
                    ));
                }
            }
            closed
        })
    }
}
