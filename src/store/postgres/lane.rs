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
//! admitted that nobody waits for any more, it is recorded that nothing was sent. A verdict (to settle, park
//! or steer) is about what stood when it was given: it is decided again only while that still stands.
//!
//! What it does not do: decide (`protocol`), or read for anybody else (`read`).

mod ask;
mod careful;
mod guess;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

pub(super) use ask::{Answer, Ask, Doubt, Errand};
pub(super) use careful::want;

use super::batch::{Columns, Item};
use super::known::Known;
use super::restored;
use super::session::{Connector, Session};
use super::shared::Shared;
use super::trouble::Trouble;
use super::written::{Verdict, Written};
use crate::failpoint;
use crate::protocol::command::{Command, Record, Reply};
use crate::protocol::ids::InstanceId;
use crate::protocol::outcome::{Evidence, Unsent};
use crate::protocol::void::{VoidEnd, VoidReply, Voided};
use crate::store::StoreError;
use ask::{granted, refuse};
use careful::BEGIN;

/// Commands that one transaction takes at most: bounds how long the first of them waits.
const BATCH: usize = 128;

/// Between two tries to reach a database that is away.
const PAUSE: Duration = Duration::from_millis(250);

/// Between two looks of a lane that nobody asks anything: has the connection ended, and does the register
/// admit again?
const WATCH: Duration = Duration::from_secs(1);

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
type Pending = (Item, (Ask, Box<Reply>));

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
        // Nobody is left who could ask.
        let mut is_left = false;
        loop {
            // Doubts are settled as soon as the database answers, whoever asks or not.
            let is_idle = self.doubts.is_empty();
            if is_left && is_idle {
                return;
            }
            let pause = if is_idle { WATCH } else { PAUSE };
            let first = tokio::select! {
                first = self.queue.recv(), if !is_left => {
                    is_left = first.is_none();
                    if is_left {
                        // A queue that has ended says so at once, every time: the pause is waited for.
                        continue;
                    }
                    first
                }
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
        self.doubts
            .retain(|ask| ask.must_be_settled() || !ask.answer.is_closed());
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
        let is_open = self.session.as_ref().is_some_and(|it| !it.is_closed());
        // Where what is newly connected leads elsewhere, whoever stayed would go on writing to a server that
        // others have left.
        if is_open && !self.shared.whereabouts.take_suspicion() {
            return self.stand().await;
        }
        self.session = None;
        self.stands = false;
        // Whatever was committed meanwhile was not by what is remembered.
        self.memory = Known::memory(self.shared.epoch());
        let session = self.connector.connect().await;
        self.session = Some(session.map_err(Trouble::into_store_error)?);
        // Readers go where it went.
        self.shared.whereabouts.lane_moved();
        self.stand().await
    }

    /// Looks at the ground, unless that was done and nobody has seen anything since that speaks against it.
    async fn stand(&mut self) -> Result<(), StoreError> {
        if self.shared.ground.was_suspected() {
            self.stands = false;
        }
        let Some(session) = self.session.as_ref().filter(|_| !self.stands) else {
            return Ok(());
        };
        let assessed = restored::assess(session, &self.shared).await;
        // Versions are counters: after a loss they come again with another content. And from now on what is
        // remembered is of the epoch that was found.
        self.memory = Known::memory(self.shared.epoch());
        match assessed {
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
        let now = self.shared.clock.now().boottime;
        if written.closed {
            self.stands = false;
            self.memory = Known::memory(self.shared.epoch());
        } else if let Some(position) = written.position {
            self.shared.ground.committed(self.own, position, epoch, now);
            return;
        }
        // Closed, or declared dead.
        if let Some(aside) = written.aside {
            self.shared.ground.put_aside(self.own, aside, now);
        }
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
                            self.put_off(vec![ask], &self.shared.declared_dead(self.own));
                        }
                        Verdict::Closed => {
                            self.memory.forget(&item.key, item.resource.as_ref());
                            let ask = ask.kept_unless_it_admits();
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
                        for (item, (mut ask, reply)) in decided {
                            // One that was in doubt before is about the same versions.
                            ask.doubt.get_or_insert_with(|| {
                                Box::new(Doubt {
                                    reply,
                                    written: Some(item),
                                })
                            });
                            self.doubts.push(ask);
                        }
                    }
                    Trouble::Refused(_) | Trouble::Unreadable(_) => {
                        // It may be that the register has no such function any more.
                        self.stands = false;
                        let error = trouble.into_store_error();
                        self.shared.away(&error);
                        // One that may have been committed before is still in doubt.
                        let asks = decided.into_iter().map(|(_, (ask, _))| ask);
                        self.put_off(asks.collect(), &error);
                    }
                }
            }
        }
        again
    }

    async fn write(
        &self,
        session: &Session,
        columns: &Columns,
        epoch: u64,
    ) -> Result<Written, Trouble> {
        let remembered = self.shared.ground.remembered(self.own);
        columns.write(session, self.own, epoch, remembered).await
    }

    /// What may have been committed stays in doubt; the rest is told why not.
    fn put_off(&mut self, asks: Vec<Ask>, error: &StoreError) {
        let (doubted, plain): (Vec<Ask>, Vec<Ask>) =
            asks.into_iter().partition(|ask| ask.doubt.is_some());
        self.doubts.extend(doubted);
        refuse(plain, error);
    }

    /// Answers. An attempt that nobody takes sends nothing, and that is recorded.
    fn tell(&mut self, ask: Ask, reply: Box<Reply>) {
        let unsent = self.unsent(&reply);
        let Err(untold) = ask.answer.send(Ok(Answer::Reply(reply))) else {
            return;
        };
        drop(untold);
        if let Some(command) = unsent {
            let (answer, _nobody) = oneshot::channel();
            self.doubts.push(Ask {
                command: Box::new(command),
                wanted: None,
                swiftly: false,
                answer,
                // It must be recorded, whatever becomes of the connection.
                doubt: Some(Box::new(Doubt::of_nothing_yet())),
            });
        }
    }

    /// What there is to record of an attempt, or of an undo, whose permit nobody took.
    fn unsent(&self, reply: &Reply) -> Option<Command> {
        if let Reply::Void(VoidReply::Granted(grant)) = reply {
            return Some(Command::Voided(Voided {
                key: grant.key.clone(),
                attempt: grant.attempt,
                end: VoidEnd::NotSent(Unsent::DispatchExpired),
                at: self.shared.clock.now(),
            }));
        }
        let grant = granted(reply)?;
        Some(Command::Record(Record {
            key: grant.key.clone(),
            attempt: grant.attempt,
            evidence: Evidence::NotSent(Unsent::DispatchExpired),
            open: false,
            at: self.shared.clock.now(),
        }))
    }

    async fn prove(&mut self) -> Result<(), StoreError> {
        let Some(session) = self.session.as_ref() else {
            return Err(StoreError::Unavailable("no connection".to_owned()));
        };
        let epoch = self.memory.epoch;
        let columns = Columns::default();
        let (begun, proved, ended) = future::join3(
            session.script(BEGIN),
            self.write(session, &columns, epoch),
            session.script("COMMIT"),
        )
        .await;
        let proved = begun.and(proved).and_then(|it| ended.map(|()| it));
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
                self.stands = false;
                let error = trouble.into_store_error();
                Err(self.shared.ground.closed().unwrap_or(error))
            }
        }
    }
}

fn columns(decided: &[Pending], shared: &Shared) -> Result<Columns, StoreError> {
    let items = decided.iter().map(|(item, _)| item);
    Columns::of(items, &shared.sealer, shared.lived().column())
        .map_err(|error| StoreError::Unavailable(format!("content cannot be sealed: {error}")))
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
