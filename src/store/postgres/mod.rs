//! The shared register, in PostgreSQL: many sidecars, one truth.
//!
//! Why no interleaving of sidecars breaks contract §4. Every row that a decision depends on is either
//! locked until the decision has committed, or its version is compared in the transaction that writes:
//!
//! - *The fence.* An admission writes it, guarded by the version it was decided on. Two admissions on one
//!   resource therefore commit one after the other, and the second was decided on what the first left.
//! - *Who is unsettled.* An operation becomes unsettled only by an admission, which counts its fence up. So
//!   the fence's version also guards against an operation that nobody saw; one that is settled meanwhile only
//!   makes the decision more careful than it need be.
//! - *The operation.* It is written guarded by its version, or inserted where there was none: its identity,
//!   within its tenant, is the primary key. Two sidecars that admit one operation under different resources meet here. Versions of
//!   an identity that was forgotten do not come again.
//! - *A twin's note, equal requests without a key, the epoch*: looked at again inside the writing
//!   transaction; equal requests without a key take an advisory lock first, because what one of them must see
//!   is a row that is not there yet. A note counts its fence up: whoever waited for that while the note was
//!   written finds another version.
//! - *Who is dead.* Whoever declares an instance dead writes its row, as each of its own transactions does:
//!   what it was committing commits before, and nothing after. Whoever settles what a dead one carried finds
//!   it dead in the very transaction in which he does; nobody comes alive again.
//! - *What may have been committed.* An admission is found by its attempt, or decided again and makes its
//!   first write impossible. A verdict is decided again only on the versions that it was given on: no write
//!   of it is ever applied to what came later.
//!
//! A reply that writes nothing (a replay, a refusal) is one of a single snapshot, and was right at its
//! moment. READ COMMITTED is enough for all of it, and demanded (`write_1`): whoever has waited for a row looks
//! at what stands then. Nothing is serialised by the database beyond rows.
//!
//! What always holds: a reply is handed out only after its transaction has committed. On the happy path a
//! durable step is one statement, one round trip; concurrent steps share a transaction. Two connections carry
//! everything that decisions and signs of life need, many at once, which is why there is no pool: a pool lends a
//! connection to one at a time.
//!
//! What it does not do: decide, or keep time by the database's clock.

mod about;
mod abroad;
mod batch;
mod doubt;
mod engine;
mod epoch;
mod forget;
mod identity;
mod known;
mod lane;
mod life;
mod listing;
mod moving;
mod opening;
mod pressing;
mod read;
mod restored;
mod rows;
#[cfg(test)]
#[path = "../../../tests/servers/mod.rs"]
pub(crate) mod servers;
mod session;
mod shared;
mod tables;
#[cfg(test)]
mod tests;
mod tls;
mod trouble;
mod wants;
mod whereabouts;
mod written;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

pub use forget::Tended;
pub use life::USUAL_LIMIT;
pub use moving::{export, import, take_back};
pub use opening::{FORMAT, OpenError, Opened, Options, Owner, Part, open};
pub use restored::{Accepted, accept_restored};

use super::about::{About, Standing};
use super::{
    Backend, Elsewhere, NewEpoch, OperationPage, OperationQuery, Pending, Pressing, Remember,
    StoreError, Stored, StoredResource, Summary, Wanted,
};
use crate::protocol::command::{Command, Reply};
use crate::protocol::fence::Fence;
use crate::protocol::ids::{InstanceId, OperationKey, ResourceKey};
use crate::protocol::operation::Operation;
use crate::protocol::view::{Living, Record};
use lane::{Answer, Ask, Errand};
use read::Reader;
use session::Connector;
use shared::Shared;

/// How long whoever asked waits for what nobody knows. In tests shorter than a statement is waited for, and longer
/// than a commit takes on a busy machine.
const UNKNOWN: Duration = Duration::from_secs(if cfg!(test) { 5 } else { 12 });

/// The shared register.
pub struct PostgresBackend {
    errands: mpsc::Sender<Errand>,
    reader: Arc<Reader>,
    shared: Arc<Shared>,
    connector: Connector,
    remember: Remember,
    /// Does it end before what it has sent?
    is_outlived: AtomicBool,
    /// The lane.
    work: Mutex<JoinSet<()>>,
    /// What goes on beside it until the end.
    beside: Mutex<JoinSet<()>>,
}

impl PostgresBackend {
    async fn carry_out(
        &self,
        command: Command,
        wanted: Option<Wanted>,
    ) -> Result<Reply, StoreError> {
        let swiftly = matches!(command, Command::Admit(_) | Command::Record(_));
        if swiftly {
            match self.ask(command.clone(), wanted.clone(), true).await? {
                Answer::Reply(reply) => return Ok(*reply),
                Answer::Look => {}
            }
        }
        if matches!(command, Command::Admit(_))
            && let Some(reply) = self.reader.look(&command).await?
        {
            return Ok(reply);
        }
        match self.ask(command, wanted, false).await? {
            Answer::Reply(reply) => Ok(*reply),
            Answer::Look => Err(StoreError::Corrupt("nothing was decided".to_owned())),
        }
    }

    async fn ask(
        &self,
        command: Command,
        wanted: Option<Wanted>,
        swiftly: bool,
    ) -> Result<Answer, StoreError> {
        let (answer, mut answered) = oneshot::channel();
        let ask = Ask {
            command: Box::new(command),
            wanted,
            swiftly,
            answer,
            doubt: None,
        };
        self.send(Errand::Apply(ask)).await?;
        let unknown = |why: &str| Err(StoreError::CommitUnknown(why.to_owned()));
        match timeout(UNKNOWN, &mut answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_gone)) => unknown("the register was closed meanwhile"),
            Err(_elapsed) => {
                // Whoever answers from now on learns that nobody listens; one that just did is heard.
                answered.close();
                answered
                    .try_recv()
                    .unwrap_or_else(|_| unknown("the database has not answered"))
            }
        }
    }

    async fn send(&self, errand: Errand) -> Result<(), StoreError> {
        let sent = self.errands.send(errand).await;
        sent.map_err(|_| StoreError::Unavailable("the register is closed".to_owned()))
    }
}

impl Backend for PostgresBackend {
    fn apply(&self, command: Command) -> Pending<'_, Reply> {
        Box::pin(self.carry_out(command, None))
    }

    fn apply_while(&self, wanted: Wanted, command: Command) -> Pending<'_, Reply> {
        Box::pin(self.carry_out(command, Some(wanted)))
    }

    fn peek<'a>(
        &'a self,
        key: &'a OperationKey,
        resource: Option<&'a ResourceKey>,
    ) -> Pending<'a, Option<Record>> {
        Box::pin(self.reader.peek(key, resource))
    }

    fn operation<'a>(
        &'a self,
        key: &'a OperationKey,
        with_request: bool,
    ) -> Pending<'a, Option<Stored>> {
        Box::pin(self.reader.operation(key, with_request))
    }

    fn operations<'a>(&'a self, query: &'a OperationQuery) -> Pending<'a, OperationPage> {
        Box::pin(self.reader.operations(query))
    }

    fn incarnations<'a>(&'a self, key: &'a OperationKey) -> Pending<'a, Vec<Operation>> {
        Box::pin(self.reader.incarnations(key))
    }

    fn resource<'a>(&'a self, key: &'a ResourceKey) -> Pending<'a, Option<StoredResource>> {
        Box::pin(self.reader.resource(key))
    }

    fn resources<'a>(&'a self, after: Option<&'a str>, limit: usize) -> Pending<'a, Vec<Fence>> {
        Box::pin(self.reader.resources(after, limit))
    }

    fn leased<'a>(&'a self, after: Option<&'a str>, limit: usize) -> Pending<'a, Vec<Fence>> {
        Box::pin(self.reader.leased(after, limit))
    }

    fn in_doubt(&self, after: u64, limit: usize) -> Pending<'_, Vec<(u64, Operation)>> {
        Box::pin(self.reader.in_doubt(after, limit))
    }

    fn unsettled(&self, after: u64, limit: usize) -> Pending<'_, Vec<(u64, Operation)>> {
        Box::pin(self.reader.unsettled(after, limit))
    }

    fn summary(&self) -> Pending<'_, Summary> {
        Box::pin(self.reader.summary())
    }

    fn pressing(&self) -> Pending<'_, Pressing> {
        Box::pin(self.reader.pressing())
    }

    fn epoch(&self) -> Pending<'_, u64> {
        Box::pin(self.reader.epoch())
    }

    fn begin_epoch<'a>(&'a self, new: &'a NewEpoch) -> Pending<'a, u64> {
        Box::pin(self.try_begin_epoch(new))
    }

    fn about(&self) -> Pending<'_, About> {
        Box::pin(self.reader.about())
    }

    fn ready(&self) -> Pending<'_, ()> {
        Box::pin(async {
            let (answer, answered) = oneshot::channel();
            self.send(Errand::Prove(answer)).await?;
            let proved = timeout(UNKNOWN, answered).await;
            let late = || StoreError::Unavailable("the database has not answered".to_owned());
            proved.map_err(|_| late())?.map_err(|_| late())?
        })
    }

    fn standing(&self) -> Option<Standing> {
        Some(self.shared.ground.standing())
    }

    fn instance(&self) -> InstanceId {
        self.shared.instance()
    }

    fn living(&self) -> Living {
        self.shared.living()
    }

    fn may_settle(&self, operation: &Operation) -> bool {
        self.shared.may_settle(operation)
    }

    fn elsewhere(&self) -> Option<&dyn Elsewhere> {
        Some(self)
    }

    fn outlived_by_attempts(&self) {
        self.is_outlived.store(true, Ordering::Release);
    }

    fn close(&self) -> Pending<'_, ()> {
        Box::pin(async {
            let (answer, answered) = oneshot::channel();
            if self.send(Errand::Close(answer)).await.is_ok() {
                let _gone = answered.await;
            }
            self.end().await;
            if self.is_outlived.load(Ordering::Acquire) {
                tracing::warn!(
                    "attempts are still under way: the others are not told that this instance ends"
                );
                return Ok(());
            }
            match life::take_leave(&self.shared, &self.reader).await {
                Ok(true) => {}
                Ok(false) => tracing::warn!(
                    instance = %self.shared.instance(),
                    "this instance ends while the register is not known whole: unless it has said already that \
                     it misses nothing there, nobody can say that any more, and the register has to be \
                     accepted (`fencepost store accept-restored`)"
                ),
                Err(trouble) => tracing::warn!(
                    error = %trouble.into_store_error(),
                    "the others were not told that this instance ends: they find out"
                ),
            }
            Ok(())
        })
    }
}

impl Elsewhere for PostgresBackend {
    fn look<'a>(&'a self, keys: &'a [OperationKey]) -> Pending<'a, Vec<Operation>> {
        Box::pin(self.reader.look_at(keys))
    }

    fn hint(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.shared.abroad.hint.notified())
    }
}
