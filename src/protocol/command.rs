//! What can be asked of the register, and what it answers: one command type, one reply type.
//!
//! What always holds: a command carries its own reading of the clocks and its own attempt id, so
//! that deciding it again after a conflict, or applying it twice, is harmless.
//!
//! What it does not do: decide (`decide`).

mod about;

use std::sync::Arc;

use super::fence::Fence;
use super::finding::{Finding, Weighed};
use super::ids::{
    AcquisitionId, AttemptId, FencingToken, Fingerprint, Incarnation, OperationKey, ResourceKey,
    Round, Sequence, TokenSource,
};
use super::lease::{LeaseFacts, LeaseReply, Leasing};
use super::meaning::Meaning;
use super::operation::{Completion, Effect, IdentityOrigin, Operation, Parked, State};
use super::outcome::{Answer, Evidence, Provenance, StoredRequest, Verdict};
use super::policy::Policy;
use super::rejection::Rejection;
use super::start::Start;
use super::take_up::{TakeUp, TakenUp};
use super::time::{BootInstant, Millis, Moment};
use super::view::{TwinNote, Unsettled};
use super::void::{BeginVoid, VoidReply, Voided};

/// One command.
#[derive(Clone, Debug)]
pub enum Command {
    /// A caller's request for an effect.
    Admit(Box<Admit>),
    /// What an attempt showed.
    Record(Record),
    /// The reconciler asks for another attempt.
    Resend(Resend),
    /// The reconciler has no step left.
    Park(Park),
    /// The reconciler says that a step of settling has its turn.
    Start(Start),
    /// A look-up or a callback found something out.
    Find(Finding),
    /// The reconciler asks to undo.
    BeginVoid(BeginVoid),
    /// What a request that undoes showed.
    Voided(Voided),
    /// A person has it asked after again.
    TakeUp(TakeUp),
    /// A person says how it ended.
    Resolve(Resolve),
    /// A person cancels, advances or reopens a resource.
    Steer(Steer),
    /// Something was decided that concerns an operation and leaves its record as it is.
    Note(Note),
    /// Somebody wants a lease, or to keep it, or no longer.
    Lease(Leasing),
}

/// A caller's request for an effect.
#[derive(Clone, Debug)]
pub struct Admit {
    /// Identity, within incarnation 0.
    pub key: OperationKey,
    /// Does the id contain the generation or name the incarnation? Then the incarnation of the fence
    /// is filled in inside the transaction.
    pub follows_incarnation: bool,
    /// Where the identity came from.
    pub origin: IdentityOrigin,
    /// What the request means.
    pub meaning: Meaning,
    /// Does it carry a credential? One that does not gets no answer to one that did.
    pub credentialed: bool,
    /// For a request without a key: how long after the first one an equal request is its repeat.
    /// `None`: it has a key, or equals are never taken for repeats.
    pub blind_retry: Option<Millis>,
    /// The resource and what was presented for it; `None` without a fence.
    pub presented: Option<Presented>,
    /// The rules.
    pub policy: Arc<Policy>,
    /// The exact bytes.
    pub request: Arc<StoredRequest>,
    /// Does the request carry its condition to an upstream that checks it?
    pub conditional: bool,
    /// The attempt that this admission would start.
    pub attempt: AttemptId,
    /// When the caller's request was read.
    pub at: Moment,
    /// Is a connection reserved? Without one nothing is admitted.
    pub reserved: bool,
    /// What this instance knows of who owns its resource.
    pub lease: LeaseFacts,
}

/// What a request says about its resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presented {
    /// Which resource.
    pub resource: ResourceKey,
    /// Its token.
    pub token: TokenField,
    /// Who issues such tokens.
    pub source: TokenSource,
    /// Its acquisition, if named.
    pub acquisition: Option<AcquisitionId>,
    /// Its sequence, if named.
    pub sequence: Option<Sequence>,
}

/// A token as it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenField {
    /// None.
    Absent,
    /// Unreadable, or an unreadable sequence beside it.
    Malformed,
    /// One.
    Token(FencingToken),
}

/// What an attempt showed.
#[derive(Clone, Debug)]
pub struct Record {
    /// Whose attempt.
    pub key: OperationKey,
    /// Which.
    pub attempt: AttemptId,
    /// What it showed.
    pub evidence: Evidence,
    /// Is its connection still open for a late answer?
    pub open: bool,
    /// When.
    pub at: Moment,
}

/// The reconciler asks for another attempt under the same key.
#[derive(Clone, Debug)]
pub struct Resend {
    /// Of which operation.
    pub key: OperationKey,
    /// The attempt that this would start.
    pub attempt: AttemptId,
    /// Time limits of the attempt.
    pub dispatch: Millis,
    /// The attempt is overdue after this.
    pub overdue_after: Millis,
    /// A person asks for it; `None`: the reconciler does, by itself.
    pub attended: Option<Attended>,
    /// What this instance knows of who owns its resource.
    pub lease: LeaseFacts,
    /// When.
    pub at: Moment,
}

/// A person asks for a resend, also where only a person may have one: after a cancel or an advance, beyond the
/// number of resends, or without a fence that orders it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attended {
    /// Who.
    pub operator: String,
    /// Why; never empty.
    pub reason: String,
}

/// The reconciler has no step left. Why, is planned once more by what the register knows then.
#[derive(Clone, Debug)]
pub struct Park {
    /// Which operation.
    pub key: OperationKey,
    /// Can the stored request be sent again? One that cannot is as good as none.
    pub fit: bool,
    /// What this instance knows of who owns its resource.
    pub lease: LeaseFacts,
    /// When.
    pub at: Moment,
}

/// A person says how it ended.
#[derive(Clone, Debug)]
pub struct Resolve {
    /// Which operation.
    pub key: OperationKey,
    /// How.
    pub verdict: Resolution,
    /// Who.
    pub operator: String,
    /// Why; never empty.
    pub reason: String,
    /// How often it was admitted when the person looked; the verdict is on that and nothing later. `None`:
    /// on whatever stands.
    pub seen: Option<u32>,
    /// When.
    pub at: Moment,
}

/// An operator's verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It was applied; callers get this answer.
    Applied(Answer),
    /// It was not applied. `new_key`: the next attempt goes out under a new upstream key.
    NotApplied {
        /// Raise the round.
        new_key: bool,
    },
}

/// A person cancels, advances or reopens a resource.
#[derive(Clone, Debug)]
pub struct Steer {
    /// Which resource; one that nobody has seen yet can be cancelled too.
    pub resource: ResourceKey,
    /// What becomes of it.
    pub how: Steering,
    /// Who.
    pub operator: String,
    /// Why; never empty.
    pub reason: String,
    /// When.
    pub at: Moment,
}

/// What a person does with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Steering {
    /// Nothing is admitted any more, until it is reopened. Durable.
    Cancel,
    /// All present holders are cut off: only a token above the mark is valid.
    Advance,
    /// A cancelled resource admits again, in a new incarnation that keeps the mark.
    Reopen,
}

/// A line for the event log of an operation, whatever state it is in.
#[derive(Clone, Debug)]
pub struct Note {
    /// Of which operation.
    pub key: OperationKey,
    /// What was decided and by whom, in words for a person; no customer content.
    pub text: String,
    /// When.
    pub at: Moment,
}

/// What a decision writes and answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// To be persisted in the transaction that the view was read in.
    pub changes: Changes,
    /// To be answered once that transaction has committed, and only then.
    pub reply: Reply,
}

/// What a decision writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The fence, whole.
    pub fence: Option<Fence>,
    /// The operation, whole.
    pub operation: Option<Box<Operation>>,
    /// A twin's note.
    pub twin: Option<TwinNote>,
    /// The stored bytes of the operation's request.
    pub request: RequestChange,
    /// Lines for the operation's event log.
    pub events: Vec<Event>,
}

impl Changes {
    /// Is there nothing to write?
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What becomes of the stored bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RequestChange {
    /// They stay as they are.
    #[default]
    Untouched,
    /// Keep these.
    Keep(Arc<StoredRequest>),
    /// Drop them: the operation is settled.
    Drop,
}

/// A line of an operation's event log. Every transition but the happy ones leaves one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whose log.
    pub key: OperationKey,
    /// When.
    pub at: Moment,
    /// The attempt it speaks of, if one.
    pub attempt: Option<AttemptId>,
    /// What happened, in words for a person; no customer content.
    pub text: String,
}

/// What a command is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To `Admit`.
    Admission(Admission),
    /// To `Record`.
    Recorded(Recorded),
    /// To `Resend`.
    Resend(ResendReply),
    /// To `Park`: the state it is in now; `None` if there is no such operation.
    Parked(Option<State>),
    /// To `Start`: the state it is in now; `None` if there is no such operation.
    Started(Option<State>),
    /// To `Find`.
    Found(Weighed),
    /// To `BeginVoid`.
    Void(VoidReply),
    /// To `Voided`.
    Voided(Recorded),
    /// To `TakeUp`.
    TakenUp(TakenUp),
    /// To `Resolve`.
    Resolved(Resolved),
    /// To `Steer`.
    Steered(Steered),
    /// To `Note`: is there such an operation?
    Noted(bool),
    /// To `Lease`.
    Leased(LeaseReply),
}

/// What admission decided. `would_refuse` is what `observe` lets pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The identity, with its incarnation.
    pub key: OperationKey,
    /// The decision.
    pub ruling: Ruling,
    /// What was let pass only because the mode observes.
    pub would_refuse: Option<Rejection>,
}

/// The decision on one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// Send, under this grant.
    Granted(Grant),
    /// It ended already: this is how. `stale`: the caller's token is outdated.
    Replay {
        /// How it ended.
        completion: Box<Completion>,
        /// The first owner's outcome goes to a stale caller too, and says so.
        stale: bool,
    },
    /// Wait for the attempt that is under way, then take its answer.
    Join {
        /// Whose: itself, or the first of twins.
        key: OperationKey,
        /// The attempt it joins: the newest one, where it is known here. A joiner gets the answer of
        /// this attempt, or of whatever settles the operation, never one of an earlier attempt.
        attempt: Option<AttemptId>,
        /// How many attempts of it were admitted by then; 0 where that is not known here. Whatever
        /// was said of it at an earlier count is not for this joiner.
        admitted: u32,
        /// INTENDED, or UNCERTAIN and to be settled now?
        uncertain: bool,
        /// Its caller owns the resource now, and what it joins was admitted under a lease that is lost: that
        /// licenses one resend.
        licenses: bool,
    },
    /// Wait until this older operation is settled, at most that long, then ask again.
    Wait {
        /// The oldest one in the way.
        predecessor: OperationKey,
        /// At most.
        at_most: Millis,
    },
    /// It would have been granted, but no connection is reserved: reserve one and ask again.
    ReserveFirst,
    /// No.
    Refused(Rejection),
}

/// The right to make one attempt; the store makes a permit of it once the commit is confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Of which operation.
    pub key: OperationKey,
    /// Which attempt.
    pub attempt: AttemptId,
    /// Under which upstream key.
    pub round: Round,
    /// Where the identity came from: the caller's own key goes upstream only if he named one.
    pub origin: IdentityOrigin,
    /// The first byte may leave until then.
    pub dispatch_by: BootInstant,
    /// Earlier attempts were declared ineffective by somebody other than themselves: look at the
    /// record once more before the first byte.
    pub look_again: bool,
    /// For a resend: what to send.
    pub request: Option<Arc<StoredRequest>>,
}

/// Which of its admissions an operation is at, and in which form. Admissions only count up, so that
/// news of an earlier one can be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// How many attempts were admitted so far.
    pub admitted: u32,
    /// The form in force: where the operation is COMPLETED, the one that it was completed as.
    pub form: Fingerprint,
}

/// Where the operation stands after an attempt's evidence was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its state now; `None` if the register does not know the operation.
    pub state: Option<State>,
    /// Its turn now; there exactly when the state is.
    pub turn: Option<Turn>,
    /// What the evidence did.
    pub effect: Effect,
}

/// What a request for a resend is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResendReply {
    /// Send again, under this grant.
    Granted(Grant),
    /// Not now: some attempt is still acting or listening.
    NotNow,
    /// It needs none: this is its state.
    Settled(Option<State>),
    /// Never again unattended.
    Forbidden(Parked),
}

/// What an operator is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// Done.
    Done(State),
    /// There is no such operation.
    Unknown,
    /// It is COMPLETED: that never changes.
    AlreadyCompleted {
        /// Which way.
        verdict: Verdict,
        /// Who said so.
        provenance: Provenance,
    },
    /// It is settled as NOT_APPLIED already.
    AlreadyNotApplied,
    /// An attempt of a living instance is under way and not overdue.
    StillInFlight,
    /// It was settled, or admitted again, since the person looked: this is its state.
    MovedOn(State),
}

/// What an operator who steered a resource is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Steered {
    /// Done.
    Done {
        /// The incarnation it is in now.
        incarnation: Incarnation,
        /// The mark, which never goes down.
        mark: Option<FencingToken>,
        /// Operations that are not settled, in order of admission: what was admitted before may still
        /// leave until its own dispatch-by, and nothing of it after.
        in_flight: Vec<Unsettled>,
    },
    /// There is nothing to reopen.
    NotCancelled,
}
