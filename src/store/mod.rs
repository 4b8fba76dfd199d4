//! The one door to the register: commands in, replies and permits out.
//!
//! What always holds: a backend loads a [`View`], calls [`decide`], and persists the `Changes` in one
//! transaction; a reply is handed out only after that transaction has committed; a [`Permit`] is made here,
//! of a granted reply, and nowhere else. If a backend cannot commit, it says so and nothing may be sent.
//!
//! What it does not do: decide anything (`protocol`), or know HTTP.
//!
//! [`View`]: crate::protocol::view::View
//! [`decide`]: crate::protocol::decide::decide

pub mod about;
mod age;
mod codec;
#[cfg(test)]
pub(crate) mod conformance;
mod epoch;
mod interest;
mod leased;
mod load;
pub mod memory;
pub mod moving;
pub mod permit;
pub mod postgres;
mod recent;
mod remember;
pub mod seal;
pub mod sqlite;
mod stored;
mod summary;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::protocol::command::{
    Admission, Admit, Command, Grant, Note, Park, Record, Recorded, Reply, Resend, ResendReply,
    Resolve, Resolved, Ruling, Steer, Steered,
};
use crate::protocol::fence::Fence;
use crate::protocol::finding::{Finding, Weighed};
use crate::protocol::ids::{InstanceId, OperationKey, ResourceKey};
use crate::protocol::lease::{LeaseReply, Leasing};
use crate::protocol::operation::{Operation, State};
use crate::protocol::start::Start;
use crate::protocol::take_up::{TakeUp, TakenUp};
use crate::protocol::time::Moment;
use crate::protocol::view::{Living, Record as Found};
use crate::protocol::void::{BeginVoid, VoidReply};

use about::{About, Standing};
pub use epoch::NewEpoch;
pub use interest::{Interest, Wanted, interest};
pub use permit::Voiding;
use permit::{Permit, Receipt, VoidPermit, VoidReceipt};
pub use remember::{Purged, Remember};
pub use stored::{OperationPage, OperationQuery, Stored, StoredResource};
pub use summary::{COUNTED, LOOKED_AT, Pressing, Summary};
use summary::{STATE_WORDS, unsettled_of};

/// A fault of the register. Refusals are not faults; they are replies.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Nothing was committed, and trying again may help.
    #[error("the register is unavailable: {0}")]
    Unavailable(String),
    /// The commit may or may not have happened.
    #[error("it is not known whether the register committed: {0}")]
    CommitUnknown(String),
    /// A record cannot be read, or the file itself is damaged.
    #[error("the register holds a record that cannot be read: {0}")]
    Corrupt(String),
    /// The register was written by a newer version.
    #[error("the register has format {found}, this version reads up to {known}")]
    FormatTooNew {
        /// Format of the register.
        found: u32,
        /// Highest format known.
        known: u32,
    },
    /// A commit failed, or damage was found; this process writes nothing more.
    #[error("the register is poisoned, and writes nothing more: {0}")]
    Poisoned(String),
}

/// A future of a backend.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// What every backend does. Errors are those of [`StoreError`]; after an error of `apply` nothing of
/// the reply is known to be true.
pub trait Backend: Send + Sync + 'static {
    /// Loads a view, decides, persists, commits; then answers.
    fn apply(&self, command: Command) -> Pending<'_, Reply>;

    /// The same for a command that is withdrawn if nobody wants it any more when its turn comes:
    /// `Unavailable` then, and nothing was decided. Where commands queue, it is asked at its turn, not
    /// before.
    fn apply_while(&self, wanted: Wanted, command: Command) -> Pending<'_, Reply> {
        Box::pin(async move {
            if wanted.still() {
                self.apply(command).await
            } else {
                Err(Wanted::withdrawn())
            }
        })
    }

    /// What stands under an identity now, without a transaction: a hint, never a decision.
    /// `resource`: fill in the incarnation of its fence first.
    fn peek<'a>(
        &'a self,
        key: &'a OperationKey,
        resource: Option<&'a ResourceKey>,
    ) -> Pending<'a, Option<Found>>;

    /// One operation with its event log, and its stored request where asked for and kept.
    fn operation<'a>(
        &'a self,
        key: &'a OperationKey,
        with_request: bool,
    ) -> Pending<'a, Option<Stored>>;

    /// Operations, newest first.
    fn operations<'a>(&'a self, query: &'a OperationQuery) -> Pending<'a, OperationPage>;

    /// An operation in every incarnation of its resource; `key`: in any. Soon told, however much is stored.
    fn incarnations<'a>(&'a self, key: &'a OperationKey) -> Pending<'a, Vec<Operation>> {
        Box::pin(async {
            let mut known = Vec::new();
            let mut query = OperationQuery {
                upstream: Some(key.upstream.clone()),
                id: Some(key.id.as_str().to_owned()),
                limit: LOOKED_AT,
                ..OperationQuery::default()
            };
            loop {
                let page = self.operations(&query).await?;
                // Another account's may have the same id.
                let own = |it: &Operation| it.key.within(key.incarnation) == *key;
                known.extend(page.operations.into_iter().filter(own));
                if page.next.is_none() {
                    return Ok(known);
                }
                query.before = page.next;
            }
        })
    }

    /// One fence with the unsettled operations of its resource.
    fn resource<'a>(&'a self, key: &'a ResourceKey) -> Pending<'a, Option<StoredResource>>;

    /// Fences by name, ascending, after `after`, at most `limit`.
    fn resources<'a>(&'a self, after: Option<&'a str>, limit: usize) -> Pending<'a, Vec<Fence>>;

    /// The same of those that have a lease on record, however long ago it ended. Soon told, however many have none.
    fn leased<'a>(&'a self, after: Option<&'a str>, limit: usize) -> Pending<'a, Vec<Fence>> {
        Box::pin(leased::among_all(self, after, limit))
    }

    /// INTENDED and UNCERTAIN operations in order of record, after a cursor, at most `limit`: what a
    /// pass of the reconciler reads. Those that wait for a person are not among them.
    fn in_doubt(&self, after: u64, limit: usize) -> Pending<'_, Vec<(u64, Operation)>>;

    /// Unsettled operations in order of record, after a cursor, at most `limit`: whoever's they are to settle, and
    /// also those that wait for a person.
    fn unsettled(&self, after: u64, limit: usize) -> Pending<'_, Vec<(u64, Operation)>>;

    /// Counts by state, and the oldest unsettled operation.
    fn summary(&self) -> Pending<'_, Summary>;

    /// What is unsettled, as whoever watches it asks every few seconds: at a cost that does not grow with how
    /// much it is.
    fn pressing(&self) -> Pending<'_, Pressing> {
        Box::pin(async {
            let oldest = self.unsettled(0, LOOKED_AT).await?;
            Ok(Pressing {
                by_state: unsettled_of(&self.summary().await?.by_state),
                oldest: oldest.into_iter().map(|(_, operation)| operation).collect(),
            })
        })
    }

    /// The epoch in force, as far as that can be known without a transaction; soon told, however much there is
    /// to count.
    fn epoch(&self) -> Pending<'_, u64> {
        Box::pin(async { Ok(self.summary().await?.epoch) })
    }

    /// Starts a new epoch, and answers which. Once it has answered nothing is admitted any more that was decided
    /// in an earlier one, by whomever.
    fn begin_epoch<'a>(&'a self, _new: &'a NewEpoch) -> Pending<'a, u64> {
        Box::pin(async { Err(StoreError::Unavailable("no epoch begins here".to_owned())) })
    }

    /// What the register says of itself.
    fn about(&self) -> Pending<'_, About> {
        Box::pin(async {
            Ok(About {
                kind: "memory",
                ..About::default()
            })
        })
    }

    /// Can the register commit durably now? Proved by a commit.
    fn ready(&self) -> Pending<'_, ()>;

    /// Is anything admitted, as far as this process knows, and what was decided about that? `None`: it is not
    /// one of many that have to find out.
    fn standing(&self) -> Option<Standing> {
        None
    }

    /// Who this process is in the register now. It changes where others took it for dead.
    fn instance(&self) -> InstanceId;

    /// Which instances are not dead, as far as this one knows.
    fn living(&self) -> Living;

    /// Is an unsettled operation this process's to settle, once somebody here asks for it? What another
    /// process carries that lives is left to it.
    fn may_settle(&self, _operation: &Operation) -> bool {
        true
    }

    /// How this process hears of what others do, where it is not the only one.
    fn elsewhere(&self) -> Option<&dyn Elsewhere> {
        None
    }

    /// Attempts of this process are still on the wire, though it is about to end: what it leaves is not taken for
    /// ended before others find out by themselves.
    fn outlived_by_attempts(&self) {}

    /// Stops writing, after what is queued.
    fn close(&self) -> Pending<'_, ()>;
}

/// How one of several processes hears of ends that the others bring about.
pub trait Elsewhere: Send + Sync {
    /// What stands under these keys now, in no order; what is not there is absent. Whoever carries one is told,
    /// where he can be, that it is waited for: call it with all that are.
    fn look<'a>(&'a self, keys: &'a [OperationKey]) -> Pending<'a, Vec<Operation>>;

    /// Resolves once something that was looked at may have ended; or never.
    fn hint(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The register, as the rooms above see it.
#[derive(Clone)]
pub struct Register {
    backend: Arc<dyn Backend>,
}

/// An admission with its permit, if it was granted.
#[derive(Debug)]
pub struct Admitted {
    /// The decision.
    pub admission: Admission,
    /// The right to send; there exactly when the ruling is `Granted`.
    pub permit: Option<Permit>,
}

/// The reply to a resend.
#[derive(Debug)]
pub enum Resent {
    /// Send again.
    Granted(Permit),
    /// Not now: some attempt is still acting or listening.
    NotNow,
    /// It needs none.
    Settled(Option<State>),
    /// Never again unattended.
    Forbidden(crate::protocol::operation::Parked),
}

impl Register {
    /// Opens the door to a backend.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend }
    }

    /// Who we are in it, now.
    pub fn instance(&self) -> InstanceId {
        self.backend.instance()
    }

    /// Which instances are alive.
    pub fn living(&self) -> Living {
        self.backend.living()
    }

    /// Everything that reads.
    pub fn read(&self) -> &dyn Backend {
        &*self.backend
    }

    /// Asks for the admission of a caller's request.
    #[cfg(test)]
    pub(crate) async fn admit(&self, admit: Admit) -> Result<Admitted, StoreError> {
        let (_interest, wanted) = interest();
        self.admit_while(wanted, admit).await
    }

    /// Asks for the admission of a caller's request, unless the caller withdraws it while it waits to
    /// be decided. The future itself is to be awaited to its end: it may bring a permit.
    pub async fn admit_while(&self, wanted: Wanted, admit: Admit) -> Result<Admitted, StoreError> {
        let command = Command::Admit(Box::new(admit));
        match self.backend.apply_while(wanted, command).await? {
            Reply::Admission(admission) => {
                let permit = match &admission.ruling {
                    Ruling::Granted(grant) => Some(self.permit(grant.clone())),
                    _ => None,
                };
                Ok(Admitted { admission, permit })
            }
            other => Err(mismatched(&other)),
        }
    }

    /// Asks for another attempt under the same key.
    pub async fn resend(&self, resend: Resend) -> Result<Resent, StoreError> {
        match self.backend.apply(Command::Resend(resend)).await? {
            Reply::Resend(ResendReply::Granted(grant)) => Ok(Resent::Granted(self.permit(grant))),
            Reply::Resend(ResendReply::NotNow) => Ok(Resent::NotNow),
            Reply::Resend(ResendReply::Settled(state)) => Ok(Resent::Settled(state)),
            Reply::Resend(ResendReply::Forbidden(why)) => Ok(Resent::Forbidden(why)),
            other => Err(mismatched(&other)),
        }
    }

    /// Records what an attempt showed. The receipt is kept by the caller until this succeeds:
    /// recording it twice is harmless, not recording it is not.
    pub async fn record(&self, receipt: &Receipt, at: Moment) -> Result<Recorded, StoreError> {
        let record = Record {
            key: receipt.key.clone(),
            attempt: receipt.attempt,
            evidence: receipt.evidence.clone(),
            open: receipt.open,
            at,
        };
        match self.backend.apply(Command::Record(record)).await? {
            Reply::Recorded(recorded) => Ok(recorded),
            other => Err(mismatched(&other)),
        }
    }

    /// Says that no step is left. Answers the state it is in then.
    pub async fn park(&self, park: Park) -> Result<Option<State>, StoreError> {
        match self.backend.apply(Command::Park(park)).await? {
            Reply::Parked(state) => Ok(state),
            other => Err(mismatched(&other)),
        }
    }

    /// Says that a step of settling has its turn. Answers the state the operation is in then.
    pub async fn start(&self, start: Start) -> Result<Option<State>, StoreError> {
        match self.backend.apply(Command::Start(start)).await? {
            Reply::Started(state) => Ok(state),
            other => Err(mismatched(&other)),
        }
    }

    /// Brings in what a look-up or a callback found. Bringing it in twice is harmless.
    pub async fn find(&self, finding: Finding) -> Result<Weighed, StoreError> {
        match self.backend.apply(Command::Find(finding)).await? {
            Reply::Found(weighed) => Ok(weighed),
            other => Err(mismatched(&other)),
        }
    }

    /// Asks to undo, by its key, whatever was done: durable before the request leaves.
    pub async fn begin_void(&self, begin: BeginVoid) -> Result<Voiding, StoreError> {
        match self.backend.apply(Command::BeginVoid(begin)).await? {
            Reply::Void(VoidReply::Granted(grant)) => {
                Ok(Voiding::Granted(VoidPermit::granted(grant)))
            }
            Reply::Void(VoidReply::NotNow) => Ok(Voiding::NotNow),
            Reply::Void(VoidReply::TooEarly(left)) => Ok(Voiding::TooEarly(left)),
            Reply::Void(VoidReply::Settled(state)) => Ok(Voiding::Settled(state)),
            Reply::Void(VoidReply::Forbidden(why)) => Ok(Voiding::Forbidden(why)),
            other => Err(mismatched(&other)),
        }
    }

    /// Records what a request that undoes showed. Kept by the caller until this succeeds, like any receipt.
    pub async fn voided(&self, receipt: &VoidReceipt, at: Moment) -> Result<Recorded, StoreError> {
        let voided = receipt.as_shown(at);
        match self.backend.apply(Command::Voided(voided)).await? {
            Reply::Voided(recorded) => Ok(recorded),
            other => Err(mismatched(&other)),
        }
    }

    /// A person has it asked after again.
    pub async fn take_up(&self, taking: TakeUp) -> Result<TakenUp, StoreError> {
        match self.backend.apply(Command::TakeUp(taking)).await? {
            Reply::TakenUp(taken) => Ok(taken),
            other => Err(mismatched(&other)),
        }
    }

    /// Brings in a person's verdict.
    pub async fn resolve(&self, resolve: Resolve) -> Result<Resolved, StoreError> {
        match self.backend.apply(Command::Resolve(resolve)).await? {
            Reply::Resolved(resolved) => Ok(resolved),
            other => Err(mismatched(&other)),
        }
    }

    /// Acquires, renews or releases a lease.
    pub async fn lease(&self, leasing: Leasing) -> Result<LeaseReply, StoreError> {
        match self.backend.apply(Command::Lease(leasing)).await? {
            Reply::Leased(leased) => Ok(leased),
            other => Err(mismatched(&other)),
        }
    }

    /// Cancels, advances or reopens a resource.
    pub async fn steer(&self, steer: Steer) -> Result<Steered, StoreError> {
        match self.backend.apply(Command::Steer(steer)).await? {
            Reply::Steered(steered) => Ok(steered),
            other => Err(mismatched(&other)),
        }
    }

    /// Adds a line to an operation's event log. Answers whether there is such an operation.
    pub async fn note(&self, note: Note) -> Result<bool, StoreError> {
        match self.backend.apply(Command::Note(note)).await? {
            Reply::Noted(known) => Ok(known),
            other => Err(mismatched(&other)),
        }
    }

    #[expect(
        clippy::unused_self,
        reason = "a permit is this register's word, not anybody's"
    )]
    fn permit(&self, grant: Grant) -> Permit {
        Permit::granted(grant)
    }
}

fn mismatched(reply: &Reply) -> StoreError {
    StoreError::Corrupt(format!(
        "a command was answered with the reply of another: {reply:?}"
    ))
}
