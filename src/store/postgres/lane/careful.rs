//! Decisions in a transaction that has locked the fences and read everything.
//!
//! What always holds: each sees what was decided before it in the same transaction; what turns out to have
//! been committed before is answered as it was then; a person's verdict is never applied to anything else than
//! what stood when it was given. Nothing is answered before the transaction has ended
//! well. A transaction takes two round trips, however many commands are in it: begin, lock and read; write
//! and commit.
//!
//! What it does not do: hold a transaction open while it waits for anything but the database.

use std::collections::BTreeSet;

use futures_util::future;
use tokio_postgres::types::Type;

use super::ask::{Ask, begun, is_of_the_dead, refuse};
use super::{Lane, Pending, columns, pass_before};
use crate::clock;
use crate::protocol::command::{Command, Reply, Resolved};
use crate::protocol::decide::decide;
use crate::protocol::ids::{InstanceId, OperationKey};
use crate::protocol::lease::LeaseReply;
use crate::protocol::view;
use crate::store::postgres::batch::{Fate, Item, in_lock_order};
use crate::store::postgres::known::Known;
use crate::store::postgres::life;
use crate::store::postgres::session::Session;
use crate::store::postgres::shared::Shared;
use crate::store::postgres::trouble::Trouble;
use crate::store::postgres::wants::Wants;
use crate::store::postgres::written::{Verdict, Written};
use crate::store::{StoreError, load};

/// How often a decision that lost a race is taken again.
const TRIES: usize = 12;

/// A transaction that has locked fences and goes no further, because this process stands still, is ended by the
/// server: others wait for those fences. Longer than any statement is waited for here.
pub(super) const BEGIN: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = '10s'";

impl Lane {
    /// In a transaction that has read everything. Until every command is answered, in doubt, or has lost
    /// too many races.
    pub(super) async fn decide_carefully(&mut self, asks: Vec<Ask>) {
        // What cannot be read concerns whoever asks for it: with the others, evidence would be given up.
        for ask in self.decide_together(asks).await {
            let _alone = self.decide_together(vec![ask]).await;
        }
    }

    /// Gives back what is to be decided one by one.
    async fn decide_together(&mut self, mut asks: Vec<Ask>) -> Vec<Ask> {
        let mut wants = Wants::default();
        for ask in &asks {
            want(&mut wants, &ask.command);
        }
        for _ in 0..TRIES {
            asks = match self.try_carefully(asks, &mut wants).await {
                Ok(again) => again,
                Err(apart) => return apart,
            };
            if asks.is_empty() {
                return asks;
            }
        }
        let busy = StoreError::Unavailable("too many others write to the same records".to_owned());
        // What may have been committed stays in doubt.
        let (doubted, plain): (Vec<Ask>, Vec<Ask>) =
            asks.into_iter().partition(|ask| ask.doubt.is_some());
        self.doubts.extend(doubted);
        refuse(plain, &busy);
        Vec::new()
    }

    /// One transaction. Gives back what it could not decide; fails where that is not to be tried again together,
    /// with what is to be decided one by one.
    async fn try_carefully(
        &mut self,
        asks: Vec<Ask>,
        wants: &mut Wants,
    ) -> Result<Vec<Ask>, Vec<Ask>> {
        let Some(session) = self.session.as_ref() else {
            self.put_off(asks, &StoreError::Unavailable("no connection".to_owned()));
            return Err(Vec::new());
        };
        let known = self.shared.epoch();
        let reading = self.read_locked(session, wants).await;
        let reading = reading.and_then(|it| self.is_of_now(it, known));
        let mut reading = match reading {
            Ok(reading) => reading,
            Err(trouble) => {
                let _undone = session.script("ROLLBACK").await;
                return self.not_read(asks, trouble);
            }
        };
        if let Err(trouble) = self.hear_of_the_living(session, &asks, &mut reading).await {
            let _undone = session.script("ROLLBACK").await;
            return self.not_read(asks, trouble);
        }
        let (mut decided, mut settled) = (Vec::new(), Vec::new());
        let mut touched = Vec::new();
        for ask in asks {
            match decide_one(&mut reading, &ask, self.own, &self.shared, wants) {
                Decided::Written(item, reply) => {
                    touched.extend(item.resource.clone());
                    decided.push((*item, (ask, reply)));
                }
                Decided::Known(reply) => settled.push(Settling::Tell(ask, reply)),
                Decided::OfTheDead => ask.tell(Err(self.shared.declared_dead(self.own))),
                Decided::Overtaken => ask.tell(Err(overtaken())),
                Decided::NotYet => settled.push(Settling::Again(ask)),
            }
        }
        let decided = in_lock_order(decided);
        let epoch = reading.epoch;
        let written = self.write_and_end(session, &decided, epoch).await;
        self.shared.saw_epoch(epoch);
        self.memory.epoch = self.memory.epoch.max(epoch);
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
            return Err(Vec::new());
        }
        Ok(asks)
    }

    /// Where the register is known whole, an epoch of before that is read on a server that it has left.
    fn is_of_now(&self, reading: Known, known: u64) -> Result<Known, Trouble> {
        if reading.epoch < known && self.shared.ground.closed().is_none() {
            self.shared.ground.suspect();
            let (found, why) = (
                reading.epoch,
                "a connection leads to a server that others have left",
            );
            return Err(Trouble::Lost(format!(
                "{why}: epoch {known} is in force, and {found} there"
            )));
        }
        Ok(reading)
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

    /// Whoever is taken for dead here, and carries something that is decided on, is dead in this very
    /// register, or is alive again. Who is declared dead stays so: no lock is needed.
    async fn hear_of_the_living(
        &self,
        session: &Session,
        asks: &[Ask],
        reading: &mut Known,
    ) -> Result<(), Trouble> {
        const LIVING: &str =
            "SELECT i.id FROM fencepost.instances i WHERE i.id = ANY($1) AND NOT i.dead";
        let company = self.shared.company();
        let mut carriers = BTreeSet::new();
        for key in asks.iter().filter_map(|ask| carried(&ask.command)) {
            let known = reading.operation_at(key);
            let attempts = known.into_iter().flat_map(|(_, it)| it.everything_sent());
            let of_the_dead = attempts.map(|it| it.id.instance);
            carriers.extend(of_the_dead.filter(|it| !company.is_alive(*it)));
        }
        if carriers.is_empty() {
            return Ok(());
        }
        let carriers: Vec<_> = carriers.into_iter().map(life::column).collect();
        let rows = session
            .rows(LIVING, &[(&carriers, Type::BYTEA_ARRAY)])
            .await?;
        let living: Result<Vec<_>, Trouble> = rows.iter().map(life::named).collect();
        self.shared.are_alive(&living?);
        Ok(())
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

    /// Nothing was decided.
    fn not_read(&mut self, asks: Vec<Ask>, trouble: Trouble) -> Result<Vec<Ask>, Vec<Ask>> {
        match trouble {
            Trouble::Changed(_) => Ok(asks),
            Trouble::Unreadable(_) if asks.len() > 1 => Err(asks),
            Trouble::Lost(_) => {
                self.session = None;
                self.put_off(asks, &trouble.into_store_error());
                Err(Vec::new())
            }
            Trouble::Refused(_) | Trouble::Unreadable(_) => {
                self.put_off(asks, &trouble.into_store_error());
                Err(Vec::new())
            }
        }
    }
}

/// What careful thought made of a command.
enum Decided {
    /// To be written.
    Written(Box<Item>, Box<Reply>),
    /// Answered without a write.
    Known(Box<Reply>),
    /// Asked under an id that was declared dead since.
    OfTheDead,
    /// It may have been given, and is not given again: something else stands now.
    Overtaken,
    /// Something else has to be read first.
    NotYet,
}

/// What is done once the transaction has ended.
enum Settling {
    Tell(Ask, Box<Reply>),
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
    match given_before(ask, reading) {
        None | Some((Fate::Open, _)) => {}
        Some((Fate::Written, first)) => return Decided::Known(first),
        Some((Fate::Overtaken, _)) => {
            return what_stands(&view, command).map_or(Decided::Overtaken, Decided::Known);
        }
    }
    let decision = decide(&view, command);
    if is_of_the_dead(&decision.reply, own) {
        return Decided::OfTheDead;
    }
    let (mut changes, reply) = (decision.changes, Box::new(decision.reply));
    if changes.is_empty() {
        return Decided::Known(reply);
    }
    if changes.twin.is_some() && changes.fence.is_none() {
        // Counts it up: an admission under the twin's identity looks for notes before it waits for the fence,
        // and one that is written meanwhile it must not miss.
        changes.fence.clone_from(&view.fence);
    }
    let item = Item::new(reading, command, &view, changes.clone(), &reply);
    reading.follow(&changes);
    Decided::Written(Box::new(item), reply)
}

/// The reply that was in doubt, if its attempt turns out to be recorded.
fn committed_before(ask: &Ask, view: &view::View) -> Option<Box<Reply>> {
    let reply = &ask.doubt.as_ref()?.reply;
    let attempt = begun(reply)?;
    let Some(view::Record::Operation(operation)) = &view.record else {
        return None;
    };
    operation.lists(attempt).then(|| reply.clone())
}

/// What became of a verdict in doubt, and the reply that it would have had.
fn given_before(ask: &Ask, reading: &mut Known) -> Option<(Fate, Box<Reply>)> {
    if ask.must_be_settled() {
        return None;
    }
    let doubt = ask.doubt.as_ref()?;
    Some((doubt.written.as_ref()?.fate(reading), doubt.reply.clone()))
}

/// The answer to a verdict that was overtaken: others have written since what it was about. It was given
/// before, or never will be; nobody can tell. So whoever gave it is told what stands, where that is an answer:
///
/// - *Resolve*: that the operation is settled, and how. Not that it is still in flight, or done, or unknown:
///   each would say something about the verdict.
/// - *Steer*: that the resource is as he wanted it.
/// - *Lease*: that he has it.
/// - *Park*: the state, which is all that its reply ever says; the next pass sees to what is needed now.
/// - *Note*: nothing; whether the line is in the log is to be seen there.
fn what_stands(view: &view::View, command: &Command) -> Option<Box<Reply>> {
    let decision = decide(view, command);
    let stands = match (command, &decision.reply) {
        (Command::Park(_), _) => {
            let state = match &view.record {
                Some(view::Record::Operation(operation)) => Some(operation.state.clone()),
                Some(view::Record::Twin(_)) | None => None,
            };
            return Some(Box::new(Reply::Parked(state)));
        }
        (Command::Resolve(_), Reply::Resolved(resolved)) => match resolved {
            Resolved::AlreadyCompleted { .. } | Resolved::AlreadyNotApplied => true,
            Resolved::MovedOn(state) => !state.is_unsettled(),
            Resolved::Done(_) | Resolved::StillInFlight | Resolved::Unknown => false,
        },
        (Command::Steer(_), _) => decision.changes.fence.is_none(),
        (Command::Lease(_), Reply::Leased(LeaseReply::Granted(_))) => {
            decision.changes.fence.is_none()
        }
        (
            Command::Admit(_)
            | Command::Record(_)
            | Command::Resend(_)
            | Command::Start(_)
            | Command::Find(_)
            | Command::BeginVoid(_)
            | Command::Voided(_)
            | Command::TakeUp(_)
            | Command::Resolve(_)
            | Command::Lease(_)
            | Command::Note(_),
            _,
        ) => false,
    };
    stands.then(|| Box::new(decision.reply))
}

/// The operation that it settles or sends again, which is left to its carrier while that lives.
fn carried(command: &Command) -> Option<&OperationKey> {
    match command {
        Command::Resend(resend) => Some(&resend.key),
        Command::Park(park) => Some(&park.key),
        Command::Start(start) => Some(&start.key),
        Command::Resolve(resolve) => Some(&resolve.key),
        Command::BeginVoid(begin) => Some(&begin.key),
        Command::TakeUp(taking) => Some(&taking.key),
        Command::Admit(_)
        | Command::Record(_)
        | Command::Find(_)
        | Command::Voided(_)
        | Command::Steer(_)
        | Command::Lease(_)
        | Command::Note(_) => None,
    }
}

fn overtaken() -> StoreError {
    StoreError::CommitUnknown(
        "it may have been written before the connection was lost, and others have written since"
            .to_owned(),
    )
}

/// What is sure to be needed.
pub(in crate::store::postgres) fn want(wants: &mut Wants, command: &Command) {
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
        Command::Start(start) => wants.operation(&start.key),
        Command::Find(finding) => wants.operation(&finding.key),
        Command::BeginVoid(begin) => wants.request(&begin.key),
        Command::Voided(voided) => wants.operation(&voided.key),
        Command::TakeUp(taking) => wants.operation(&taking.key),
        Command::Resolve(resolve) => wants.operation(&resolve.key),
        Command::Note(note) => wants.operation(&note.key),
        Command::Steer(steer) => wants.line(&steer.resource),
        Command::Lease(leasing) => wants.line(&leasing.resource),
    }
}
