//! The embedded register: one SQLite file, one owner, one writer.
//!
//! What always holds: WAL with `synchronous=FULL`, verified at start; whoever is answered can rely on
//! what was committed; a second owner is refused; a file of a newer format is refused. It fences only
//! the callers of its one process.
//!
//! What it does not do: decide (`protocol`), share the register between processes.

mod about;
mod backup;
mod checkpoint;
mod checksums;
mod damage;
mod filesystem;
mod ground;
mod identity;
mod keeping;
mod keys;
mod load;
mod locator;
mod migrate;
mod moving;
mod open_error;
mod opening;
mod persist;
mod poison;
mod purge;
mod read;
mod remembered;
mod reserve;
mod rewrite;
#[cfg(test)]
mod sabotage;
mod schema;
mod soundness;
#[cfg(test)]
mod tests;
mod witness;
mod writer;

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use super::about::About;
use super::{
    Backend, NewEpoch, OperationPage, OperationQuery, Pending, Pressing, StoreError, Stored,
    StoredResource, Summary, Wanted,
};
use crate::protocol::command::{Command, Reply};
use crate::protocol::fence::Fence;
use crate::protocol::ids::{InstanceId, OperationKey, ResourceKey};
use crate::protocol::operation::Operation;
use crate::protocol::view::{Living, Record};

pub use super::remember::{Purged, Remember};
pub use backup::{BackupError, Copied, backup};
pub use checksums::install as compare_checksums;
pub use ground::outlives;
pub use moving::{export, take_back};
pub use open_error::OpenError;
pub use opening::{Committed, Opened, Options, Owner, Restored, USUAL_RESERVE, open};
use poison::Poison;
use read::Readers;
pub use rewrite::mend;
pub use witness::Doubt;
use witness::Witness;
pub use writer::Tended;
use writer::{Answer, Asker, Errand};

/// Where to look an operation up, for registers that benchmarks fill by hand.
#[cfg(feature = "bench")]
pub fn locator_of(key: &OperationKey) -> i64 {
    locator::of(key)
}

/// The embedded register.
#[derive(Debug)]
pub struct SqliteBackend {
    instance: InstanceId,
    errands: mpsc::Sender<Errand>,
    readers: Arc<Readers>,
    poison: Poison,
    writer: Mutex<Option<JoinHandle<()>>>,
    witness: Arc<Witness>,
    /// Only that: its witness is told nothing.
    is_looked_at: bool,
    /// What speaks against it then.
    doubt: Option<Doubt>,
    #[cfg(test)]
    sabotage: Arc<sabotage::Sabotage>,
}

impl SqliteBackend {
    /// Sends the writer on an errand and waits for its answer.
    async fn ask<T>(&self, errand: impl FnOnce(Answer<T>) -> Errand) -> Result<T, StoreError> {
        if let Some(why) = self.poison.why() {
            return Err(StoreError::Poisoned(why.to_owned()));
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
        Box::pin(self.ask(|answer| Errand::Apply(Box::new(command), Asker::new(answer, None))))
    }

    fn apply_while(&self, wanted: Wanted, command: Command) -> Pending<'_, Reply> {
        let command = Box::new(command);
        Box::pin(self.ask(|answer| Errand::Apply(command, Asker::new(answer, Some(wanted)))))
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

    fn leased<'a>(&'a self, after: Option<&'a str>, limit: usize) -> Pending<'a, Vec<Fence>> {
        let after = after.map(str::to_owned);
        Box::pin(
            self.readers
                .run(move |connection, _| read::leased(connection, after.as_deref(), limit)),
        )
    }

    fn in_doubt(&self, after: u64, limit: usize) -> Pending<'_, Vec<(u64, Operation)>> {
        Box::pin(
            self.readers
                .run(move |connection, tables| read::in_doubt(connection, tables, after, limit)),
        )
    }

    fn unsettled(&self, after: u64, limit: usize) -> Pending<'_, Vec<(u64, Operation)>> {
        Box::pin(
            self.readers.run(move |connection, tables| {
                read::unsettled(connection, tables, after, limit, "")
            }),
        )
    }

    fn summary(&self) -> Pending<'_, Summary> {
        Box::pin(
            self.readers
                .run(|connection, tables| read::summary(connection, tables)),
        )
    }

    fn pressing(&self) -> Pending<'_, Pressing> {
        Box::pin(
            self.readers
                .run(|connection, tables| read::pressing(connection, tables)),
        )
    }

    fn begin_epoch<'a>(&'a self, new: &'a NewEpoch) -> Pending<'a, u64> {
        Box::pin(self.try_begin_epoch(new))
    }

    fn about(&self) -> Pending<'_, About> {
        let (witness, doubt) = (Arc::clone(&self.witness), self.doubt.clone());
        Box::pin(self.readers.run(move |connection, _| {
            let mut about = read::about(connection)?;
            // Both numbers, for whoever compares them.
            let seen = witness.read().ok().flatten().and_then(Result::ok);
            about
                .facts
                .extend(seen.map(|seen| ("witness saw", seen.told())));
            about
                .differences
                .extend(doubt.map(|doubt| doubt.to_string()));
            Ok(about)
        }))
    }

    fn ready(&self) -> Pending<'_, ()> {
        Box::pin(self.ask(Errand::Prove))
    }

    /// The embedded register has one owner.
    fn instance(&self) -> InstanceId {
        self.instance
    }

    fn living(&self) -> Living {
        Living::Only(self.instance)
    }

    fn close(&self) -> Pending<'_, ()> {
        Box::pin(self.end())
    }
}
