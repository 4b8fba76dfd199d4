//! The one task of this process that writes: it drains its queue into one transaction after another.
//!
//! What always holds: nothing is answered before its transaction has committed. Commands that wait are
//! committed together; nobody waits for more of them. A *guess* takes one round trip: a grant, or the end
//! of an own attempt, decided on what is remembered and written only if that still holds. Everything else is
//! decided *carefully*: in a transaction that has locked the fences, read everything and sees what it
//! decided itself.
//!
//! Where nobody knows whether a commit happened, its commands are decided again carefully, under the same
//! attempt: either the attempt stands in its record, or the new write makes the old one impossible, since
//! both are guarded by the same rows. Until then its callers are told so; should an attempt turn out to be
//! admitted that nobody waits for any more, it is recorded that nothing was sent.
//!
//! What it does not do: decide (`protocol`), or read for anybody else (`read`).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::batch::{Columns, Item, Verdict, Written, in_lock_order};
use super::known::Known;
use super::restored;
use super::session::{Connector, Session};
use super::shared::Shared;
use super::trouble::Trouble;
use super::wants::Wants;
use crate::protocol::command::{Admission, Command, Grant, Record, Reply, ResendReply, Ruling};
use crate::protocol::decide::decide;
use crate::protocol::ids::InstanceId;
use crate::protocol::outcome::{Evidence, Unsent};
use crate::protocol::view;
use crate::store::{StoreError, Wanted, load};
use crate::{clock, failpoint};

/// Commands that one transaction takes at most: bounds how long the first of them waits.
const BATCH: usize = 128;

/// How often a decision that lost a race is taken again.
const TRIES: usize = 12;

/// Between two tries to reach a database that is away.
const PAUSE: Duration = Duration::from_millis(250);

/// A transaction that has locked fences and goes no further, because this process stands still, is ended by the
/// server: others wait for those fences. Longer than any statement is waited for here.
const BEGIN: &str = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '10s'";
/// Between two looks of a lane that nobody asks anything: has the connection ended, and does the register
/// admit again?
const WATCH: Duration = Duration::from_secs(1);

/// What the lane is asked for.
pub(super) enum Errand {
    /// Decide and commit.
    Apply(Ask),
    /// Commit something, to prove that it can.
    Prove(oneshot::Sender<Result<(), StoreError>>),
    /// Stop, after what came before.
    Close(oneshot::Sender<()>),
}

/// A command, and who waits for it.
pub(super) struct Ask {
    pub(super) command: Box<Command>,
    pub(super) wanted: Option<Wanted>,
    /// May it be guessed?
    pub(super) swiftly: bool,
    pub(super) answer: oneshot::Sender<Result<Answer, StoreError>>,
    /// It may have been committed already: this would be its reply.
    pub(super) doubt: Option<Reply>,
}

/// What an ask is answered.
#[derive(Debug)]
pub(super) enum Answer {
    /// Committed.
    Reply(Reply),
    /// No guess is good enough: look at the register first.
    Look,
}

pub(super) struct Lane {
    shared: Arc<Shared>,
    connector: Connector,
    queue: mpsc::Receiver<Errand>,
    session: Option<Session>,
    /// Was the ground looked at since the session was made, and found good?
    stands: bool,
    memory: Known,
    /// Who writes, in this turn: nothing is written for an instance that is another one by then.
    own: InstanceId,
    /// Commands that may have been committed, by nobody knows.
    doubts: Vec<Ask>,
}

/// What one turn works on.
#[derive(Default)]
struct Work {
    asks: Vec<Ask>,
    proofs: Vec<oneshot::Sender<Result<(), StoreError>>>,
    close: Option<oneshot::Sender<()>>,
}

/// A decision that waits for its commit.
type Pending = (Item, (Ask, Reply));

impl Lane {
    pub(super) fn new(
        shared: Arc<Shared>,
        connector: Connector,
        queue: mpsc::Receiver<Errand>,
        session: Session,
    ) -> Self {
        let memory = Known::memory(shared.epoch());
        Self {
            own: shared.instance(),
            shared,
            connector,
            queue,
            session: Some(session),
            stands: false,
            memory,
            doubts: Vec::new(),
        }
    }

    /// Works until it is closed, or until nobody is left who could ask.
    pub(super) async fn run(mut self) {
        loop {
            // Doubts are settled as soon as the database answers, whoever asks or not.
            let is_idle = self.doubts.is_empty();
            let pause = if is_idle { WATCH } else { PAUSE };
            let first = tokio::select! {
                first = self.queue.recv() => match first {
                    None if is_idle => return,
                    first => first,
                },
                () = sleep(pause) => None,
            };
            let work = self.gather(first);
            if let Some(closed) = self.turn(work).await {
                let _ = closed.send(());
                return;
            }
        }
    }

    /// Takes what is there, up to the bound, and waits for nothing.
    fn gather(&mut self, first: Option<Errand>) -> Work {
        let mut work = Work::default();
        let mut next = first;
        while let Some(errand) = next {
            match errand {
                Errand::Apply(ask) => work.asks.push(ask),
                Errand::Prove(answer) => work.proofs.push(answer),
                Errand::Close(answer) => {
                    work.close = Some(answer);
                    break;
                }
            }
            next = if work.asks.len() < BATCH {
                self.queue.try_recv().ok()
            } else {
                None
            };
        }
        work
    }

    /// Gives back who asked to close, if one did.
    async fn turn(&mut self, work: Work) -> Option<oneshot::Sender<()>> {
        let Work {
            asks,
            proofs,
            close,
        } = work;
        self.own = self.shared.instance();
        if let Err(away) = self.connect().await {
            if !asks.is_empty() || !proofs.is_empty() || !self.doubts.is_empty() {
                self.shared.away(&away);
            }
            refuse(asks, &away);
            for proof in proofs {
                let _ = proof.send(Err(away.clone()));
            }
            return close;
        }
        let doubts = std::mem::take(&mut self.doubts);
        if !doubts.is_empty() {
            self.decide_carefully(doubts).await;
        }
        let closed = self.shared.ground.closed();
        let (swift, careful): (Vec<Ask>, Vec<Ask>) = asks
            .into_iter()
            .filter_map(Ask::unless_withdrawn)
            .filter_map(|ask| ask.unless_closed(closed.as_ref()))
            .partition(|ask| ask.swiftly);
        let mut careful = careful;
        if !swift.is_empty() {
            careful.extend(self.guess(swift).await);
        }
        if !careful.is_empty() {
            self.decide_carefully(careful).await;
        }
        if !proofs.is_empty() {
            let proved = self.prove().await;
            for proof in proofs {
                let _ = proof.send(proved.clone());
            }
        }
        close
    }

    async fn connect(&mut self) -> Result<(), StoreError> {
        if self
            .session
            .as_ref()
            .is_some_and(|session| !session.is_closed())
        {
            return self.stand().await;
        }
        self.session = None;
        self.stands = false;
        // Whatever was committed meanwhile was not by what is remembered.
        self.memory = Known::memory(self.shared.epoch());
        let session = self.connector.connect().await;
        self.session = Some(session.map_err(Trouble::into_store_error)?);
        self.stand().await
    }

    /// Looks at the ground, unless that was done.
    async fn stand(&mut self) -> Result<(), StoreError> {
        let Some(session) = self.session.as_ref().filter(|_| !self.stands) else {
            return Ok(());
        };
        match restored::assess(session, &self.shared).await {
            Ok(stands) => {
                self.stands = stands;
                Ok(())
            }
            Err(trouble) => {
                self.session = None;
                Err(trouble.into_store_error())
            }
        }
    }

    /// What a commit showed.
    fn note(&mut self, written: &Written, epoch: u64) {
        if written.closed {
            self.stands = false;
        } else if let Some(position) = written.position {
            let now = self.shared.clock.now().boottime;
            self.shared.ground.committed(self.own, position, epoch, now);
        }
    }

    /// Decides on what is remembered, and writes what may be written so. Gives back what has to be decided
    /// carefully.
    async fn guess(&mut self, asks: Vec<Ask>) -> Vec<Ask> {
        let mut decided = Vec::new();
        for ask in asks {
            match self.guess_one(&ask) {
                Some((item, reply)) => decided.push((item, (ask, reply))),
                None => ask.tell(Ok(Answer::Look)),
            }
        }
        if decided.is_empty() {
            return Vec::new();
        }
        let decided = in_lock_order(decided);
        let Some(session) = self.session.as_ref() else {
            return decided.into_iter().map(|(_, (ask, _))| ask).collect();
        };
        let columns = columns(&decided, &self.shared);
        let written = match &columns {
            Ok(columns) => {
                pass_before(&decided);
                let begun = clock::boottime_us();
                let written = self.write(session, columns, self.memory.epoch).await;
                let took = clock::boottime_us().saturating_sub(begun);
                self.shared.committed(took, decided.len());
                written
            }
            Err(error) => Err(Trouble::Unreadable(error.clone())),
        };
        self.conclude(decided, written, self.memory.epoch)
    }

    /// `None`: whatever is decided so is not to be believed.
    fn guess_one(&mut self, ask: &Ask) -> Option<(Item, Reply)> {
        let command = &*ask.command;
        if let Command::Record(record) = command {
            // Its own attempt, as it was admitted here.
            self.memory.operation_at(&record.key)?;
        }
        let epoch = self.memory.epoch;
        let living = self.shared.living();
        let view = load::view(&mut &mut self.memory, command, epoch, living).ok()?;
        let decision = decide(&view, command);
        // Who may be another by now is not guessed for.
        let of_the_dead = is_of_the_dead(&decision.reply, self.own);
        let is_grant = granted(&decision.reply).is_some() && !of_the_dead;
        let is_end = matches!(command, Command::Record(_)) && decision.changes.operation.is_some();
        if !is_grant && !is_end {
            return None;
        }
        let changes = decision.changes;
        let item = Item::new(
            &mut self.memory,
            command,
            &view,
            changes.clone(),
            &decision.reply,
        );
        self.memory.follow(&changes);
        Some((item, decision.reply))
    }

    /// Answers what was written. Gives back what has to be decided again.
    fn conclude(
        &mut self,
        decided: Vec<Pending>,
        written: Result<Written, Trouble>,
        epoch: u64,
    ) -> Vec<Ask> {
        let mut again = Vec::new();
        match written {
            Ok(written) => {
                self.note(&written, epoch);
                let verdicts = written.verdicts;
                pass_after(&decided, &verdicts);
                for ((item, (ask, reply)), verdict) in decided.into_iter().zip(verdicts) {
                    match verdict {
                        Verdict::Written => {
                            if item.leaves_doubt() {
                                self.shared.abroad.ended(&item.key);
                            }
                            self.tell(ask, reply);
                        }
                        Verdict::Changed | Verdict::AnotherEpoch => {
                            self.memory.forget(&item.key, item.resource.as_ref());
                            again.push(ask);
                        }
                        Verdict::Dead => {
                            self.memory.forget(&item.key, item.resource.as_ref());
                            ask.tell(Err(self.shared.declared_dead(self.own)));
                        }
                        Verdict::Closed => {
                            self.memory.forget(&item.key, item.resource.as_ref());
                            self.put_off(vec![ask], &self.shared.ground.why());
                        }
                    }
                }
            }
            Err(trouble) => {
                // All of it was remembered already.
                self.memory = Known::memory(self.shared.epoch());
                match trouble {
                    Trouble::Changed(_) => {
                        again.extend(decided.into_iter().map(|(_, (ask, _))| ask));
                    }
                    Trouble::Lost(why) => {
                        tracing::warn!(
                            error = why,
                            "it is not known whether the register committed"
                        );
                        self.session = None;
                        for (_, (mut ask, reply)) in decided {
                            ask.doubt.get_or_insert(reply);
                            self.doubts.push(ask);
                        }
                    }
                    Trouble::Refused(_) | Trouble::Unreadable(_) => {
                        let error = trouble.into_store_error();
                        self.shared.away(&error);
                        refuse(decided.into_iter().map(|(_, (ask, _))| ask), &error);
                    }
                }
            }
        }
        again
    }

    /// In a transaction that has read everything. Until every command is answered, in doubt, or has lost
    /// too many races.
    async fn decide_carefully(&mut self, mut asks: Vec<Ask>) {
        let mut wants = Wants::default();
        for ask in &asks {
            want(&mut wants, &ask.command);
        }
        for _ in 0..TRIES {
            asks = match self.try_carefully(asks, &mut wants).await {
                Ok(again) => again,
                Err(()) => return,
            };
            if asks.is_empty() {
                return;
            }
        }
        let busy = StoreError::Unavailable("too many others write to the same records".to_owned());
        // What may have been committed stays in doubt.
        let (doubted, plain): (Vec<Ask>, Vec<Ask>) =
            asks.into_iter().partition(|ask| ask.doubt.is_some());
        self.doubts.extend(doubted);
        refuse(plain, &busy);
    }

    /// One transaction. Gives back what it could not decide; fails where the session is gone.
    async fn try_carefully(&mut self, asks: Vec<Ask>, wants: &mut Wants) -> Result<Vec<Ask>, ()> {
        let Some(session) = self.session.as_ref() else {
            self.put_off(asks, &StoreError::Unavailable("no connection".to_owned()));
            return Err(());
        };
        let reading = self.read_locked(session, wants).await;
        let mut reading = match reading {
            Ok(reading) => reading,
            Err(trouble) => {
                let _undone = session.script("ROLLBACK").await;
                return self.not_read(asks, trouble);
            }
        };
        let (mut decided, mut settled) = (Vec::new(), Vec::new());
        let mut touched = Vec::new();
        for ask in asks {
            match decide_one(&mut reading, &ask, self.own, &self.shared, wants) {
                Decided::Written(item, reply) => {
                    touched.extend(item.resource.clone());
                    decided.push((item, (ask, reply)));
                }
                Decided::Known(reply) => settled.push(Settling::Tell(ask, reply)),
                Decided::OfTheDead => ask.tell(Err(self.shared.declared_dead(self.own))),
                Decided::NotYet => settled.push(Settling::Again(ask)),
            }
        }
        let decided = in_lock_order(decided);
        let epoch = reading.epoch;
        let written = self.write_and_end(session, &decided, epoch).await;
        self.shared.saw_epoch(epoch);
        self.memory.epoch = epoch;
        let mut asks = Vec::new();
        let whole = match &written {
            Ok(Written { verdicts, .. }) => verdicts.iter().all(|it| *it == Verdict::Written),
            Err(_) => false,
        };
        let lost = matches!(written, Err(Trouble::Lost(_)));
        if whole {
            for resource in &touched {
                self.memory.learn(resource, &mut reading);
            }
        }
        asks.extend(self.conclude(decided, written, epoch));
        for settling in settled {
            match settling {
                Settling::Tell(ask, reply) if whole => self.tell(ask, reply),
                // It may have been decided on what was not written after all.
                Settling::Tell(ask, _) | Settling::Again(ask) => asks.push(ask),
            }
        }
        if lost {
            self.put_off(
                asks,
                &StoreError::Unavailable("the connection was lost".to_owned()),
            );
            return Err(());
        }
        Ok(asks)
    }

    async fn read_locked(&self, session: &Session, wants: &Wants) -> Result<Known, Trouble> {
        // Sent together: one round trip.
        let (begun, locked, reading) = future::join3(
            session.script(BEGIN),
            wants.lock(session),
            wants.read(session, &self.shared),
        )
        .await;
        begun?;
        locked?;
        reading
    }

    async fn write_and_end(
        &self,
        session: &Session,
        decided: &[Pending],
        epoch: u64,
    ) -> Result<Written, Trouble> {
        if decided.is_empty() {
            session.script("COMMIT").await?;
            return Ok(Written::default());
        }
        let columns = match columns(decided, &self.shared) {
            Ok(columns) => columns,
            Err(error) => {
                session.script("ROLLBACK").await?;
                return Err(Trouble::Unreadable(error));
            }
        };
        pass_before(decided);
        let begun = clock::boottime_us();
        let (written, ended) = future::join(
            self.write(session, &columns, epoch),
            session.script("COMMIT"),
        )
        .await;
        let took = clock::boottime_us().saturating_sub(begun);
        self.shared.committed(took, decided.len());
        // A write that failed has turned the COMMIT into a ROLLBACK.
        let written = written?;
        ended?;
        Ok(written)
    }

    async fn write(
        &self,
        session: &Session,
        columns: &Columns,
        epoch: u64,
    ) -> Result<Written, Trouble> {
        let reached = self.shared.ground.reached(self.own);
        columns.write(session, self.own, epoch, reached).await
    }

    /// Nothing was decided.
    fn not_read(&mut self, asks: Vec<Ask>, trouble: Trouble) -> Result<Vec<Ask>, ()> {
        match trouble {
            Trouble::Changed(_) => Ok(asks),
            Trouble::Lost(_) => {
                self.session = None;
                self.put_off(asks, &trouble.into_store_error());
                Err(())
            }
            Trouble::Refused(_) | Trouble::Unreadable(_) => {
                self.put_off(asks, &trouble.into_store_error());
                Err(())
            }
        }
    }

    /// What may have been committed stays in doubt; the rest is told why not.
    fn put_off(&mut self, asks: Vec<Ask>, error: &StoreError) {
        let (doubted, plain): (Vec<Ask>, Vec<Ask>) =
            asks.into_iter().partition(|ask| ask.doubt.is_some());
        self.doubts.extend(doubted);
        refuse(plain, error);
    }

    /// Answers. An attempt that nobody takes sends nothing, and that is recorded.
    fn tell(&mut self, ask: Ask, reply: Reply) {
        let attempt = granted(&reply).cloned();
        let Err(untold) = ask.answer.send(Ok(Answer::Reply(reply))) else {
            return;
        };
        drop(untold);
        if let Some(grant) = attempt {
            let (answer, _nobody) = oneshot::channel();
            self.doubts.push(Ask {
                command: Box::new(Command::Record(Record {
                    key: grant.key,
                    attempt: grant.attempt,
                    evidence: Evidence::NotSent(Unsent::DispatchExpired),
                    open: false,
                    at: self.shared.clock.now(),
                })),
                wanted: None,
                swiftly: false,
                answer,
                // It must be recorded, whatever becomes of the connection.
                doubt: Some(Reply::Parked(None)),
            });
        }
    }

    async fn prove(&mut self) -> Result<(), StoreError> {
        let Some(session) = self.session.as_ref() else {
            return Err(StoreError::Unavailable("no connection".to_owned()));
        };
        let epoch = self.memory.epoch;
        let proved = self.write(session, &Columns::default(), epoch).await;
        match proved {
            Ok(written) => {
                self.note(&written, epoch);
                if written.closed {
                    return Err(self.shared.ground.why());
                }
                Ok(())
            }
            Err(trouble) => {
                if matches!(trouble, Trouble::Lost(_)) {
                    self.session = None;
                }
                Err(trouble.into_store_error())
            }
        }
    }
}

/// What careful thought made of a command.
enum Decided {
    /// To be written.
    Written(Item, Reply),
    /// Answered without a write.
    Known(Reply),
    /// Asked under an id that was declared dead since.
    OfTheDead,
    /// Something else has to be read first.
    NotYet,
}

/// What is done once the transaction has ended.
enum Settling {
    Tell(Ask, Reply),
    Again(Ask),
}

fn decide_one(
    reading: &mut Known,
    ask: &Ask,
    own: InstanceId,
    shared: &Shared,
    wants: &mut Wants,
) -> Decided {
    let command = &*ask.command;
    let (epoch, living) = (reading.epoch, shared.living());
    let view = match load::view(&mut &mut *reading, command, epoch, living) {
        Ok(view) => view,
        Err(lack) => {
            wants.add(&lack);
            return Decided::NotYet;
        }
    };
    if let Some(first) = committed_before(ask, &view) {
        return Decided::Known(first);
    }
    let decision = decide(&view, command);
    if is_of_the_dead(&decision.reply, own) {
        return Decided::OfTheDead;
    }
    if decision.changes.is_empty() {
        return Decided::Known(decision.reply);
    }
    let changes = decision.changes;
    let item = Item::new(reading, command, &view, changes.clone(), &decision.reply);
    reading.follow(&changes);
    Decided::Written(item, decision.reply)
}

/// The reply that was in doubt, if its attempt turns out to be recorded.
fn committed_before(ask: &Ask, view: &view::View) -> Option<Reply> {
    let reply = ask.doubt.as_ref()?;
    let attempt = granted(reply)?.attempt;
    let Some(view::Record::Operation(operation)) = &view.record else {
        return None;
    };
    operation.lists(attempt).then(|| reply.clone())
}

/// What is sure to be needed.
pub(super) fn want(wants: &mut Wants, command: &Command) {
    match command {
        Command::Admit(admit) => {
            let resource = admit.presented.as_ref().map(|shown| &shown.resource);
            if let Some(resource) = resource {
                wants.line(resource);
            }
            wants.operation(&admit.key);
            wants.note(&admit.key);
        }
        Command::Record(record) => wants.operation(&record.key),
        Command::Resend(resend) => wants.request(&resend.key),
        Command::Park(park) => wants.operation(&park.key),
        Command::Resolve(resolve) => wants.operation(&resolve.key),
        Command::Note(note) => wants.operation(&note.key),
        Command::Steer(steer) => wants.line(&steer.resource),
    }
}

fn columns(decided: &[Pending], shared: &Shared) -> Result<Columns, StoreError> {
    let items = decided.iter().map(|(item, _)| item);
    Columns::of(items, &shared.sealer, shared.lived().column())
        .map_err(|error| StoreError::Unavailable(format!("content cannot be sealed: {error}")))
}

/// The grant of a reply, if it is one.
pub(super) fn granted(reply: &Reply) -> Option<&Grant> {
    match reply {
        Reply::Admission(Admission {
            ruling: Ruling::Granted(grant),
            ..
        })
        | Reply::Resend(ResendReply::Granted(grant)) => Some(grant),
        Reply::Admission(_)
        | Reply::Recorded(_)
        | Reply::Resend(_)
        | Reply::Parked(_)
        | Reply::Resolved(_)
        | Reply::Steered(_)
        | Reply::Noted(_) => None,
    }
}

/// An attempt bears the id of who makes it; one that has been declared dead since makes none.
fn is_of_the_dead(reply: &Reply, own: InstanceId) -> bool {
    granted(reply).is_some_and(|grant| grant.attempt.instance != own)
}

impl Ask {
    /// Whoever asked for an attempt and went away has withdrawn. Evidence counts whether or not anybody
    /// still listens.
    fn unless_withdrawn(self) -> Option<Self> {
        let asks = matches!(*self.command, Command::Admit(_) | Command::Resend(_));
        let gone = self.wanted.as_ref().is_some_and(|wanted| !wanted.still());
        if asks && self.doubt.is_none() && (gone || self.answer.is_closed()) {
            self.tell(Err(Wanted::withdrawn()));
            return None;
        }
        Some(self)
    }

    /// On ground that admits nothing, whoever asks for an attempt is told so at once; what may have been
    /// admitted before is found out all the same.
    fn unless_closed(self, closed: Option<&StoreError>) -> Option<Self> {
        let asks = matches!(*self.command, Command::Admit(_) | Command::Resend(_));
        match closed {
            Some(why) if asks && self.doubt.is_none() => {
                self.tell(Err(why.clone()));
                None
            }
            Some(_) | None => Some(self),
        }
    }

    fn tell(self, answer: Result<Answer, StoreError>) {
        // Nobody may be listening any more; the record speaks for itself.
        let _gone = self.answer.send(answer);
    }
}

fn refuse(asks: impl IntoIterator<Item = Ask>, error: &StoreError) {
    for ask in asks {
        ask.tell(Err(error.clone()));
    }
}

fn pass_before(decided: &[Pending]) {
    for (_, (ask, reply)) in decided {
        match (&*ask.command, granted(reply)) {
            (Command::Admit(_), Some(_)) => failpoint::pass("before-intent"),
            (Command::Record(_), _) => failpoint::pass("before-outcome-commit"),
            _ => {}
        }
    }
}

fn pass_after(decided: &[Pending], verdicts: &[Verdict]) {
    for ((_, (ask, reply)), verdict) in decided.iter().zip(verdicts) {
        if *verdict != Verdict::Written {
            continue;
        }
        match (&*ask.command, granted(reply)) {
            (Command::Admit(_), Some(_)) => failpoint::pass("after-intent"),
            (Command::Resend(_), Some(_)) => failpoint::pass("after-resend"),
            (Command::Record(_), _) => failpoint::pass("after-outcome-commit"),
            _ => {}
        }
    }
}
