//! The one writer: a thread that drains its queue into one transaction after another.
//!
//! What always holds: nothing is answered before its transaction has committed, with fsync. Commands
//! that wait are committed together; the writer never waits for more of them. Later commands of a
//! transaction see what earlier ones wrote. After one failed transaction the writer is *poisoned*:
//! the connection is dropped without a checkpoint, nothing is written any more, and every later
//! command is told so. When the COMMIT itself failed, its commands are told that nobody knows.
//!
//! One failure is none of these: a disk without room, which SQLite reports before anything is in doubt.
//! The reserve is given up then, outcomes go on being recorded, and nothing is admitted; what needs no
//! write, a replay for example, is answered.
//!
//! What it does not do: decide (`protocol`), or read for anybody else (`read`).

mod asker;
mod decided;
mod epoch;
mod housekeeping;
mod transaction;

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::Remember;
use super::about::{self, About};
use super::checkpoint::Checkpoints;
use super::ground::Ground;
use super::load::Fault;
use super::opening::Owner;
use super::persist::{self, Tally};
use super::poison::Poison;
use super::remembered::{OwnRows, Remembered};
use super::reserve::Reserve;
use super::witness::Sighting;
use crate::clock;
use crate::protocol::command::{Command, Reply};
use crate::protocol::decide::decide;
use crate::protocol::view::{Living, Record};
use crate::store::age::{Age, Lived};
use crate::store::seal::Sealer;
use crate::store::{StoreError, Wanted, load};

pub(super) use asker::Asker;
pub(super) use epoch::EpochErrand;
pub use housekeeping::Tended;

use decided::Decided;
use housekeeping::House;
use transaction::Failed;

/// Commands that one transaction takes at most: bounds how long the first of them waits.
const BATCH: usize = 256;

pub(super) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the writer is asked for.
#[derive(Debug)]
pub(super) enum Errand {
    /// Decide and commit.
    Apply(Box<Command>, Asker),
    /// Commit something, to prove that it can.
    Prove(Answer<()>),
    /// Look after the house: tell how far the register has come, and forget what is old.
    Tend(Answer<Tended>),
    /// Begin a new epoch, after what came before.
    Epoch(Box<EpochErrand>),
    /// Stop, after what came before. Answers how far the register has come.
    Close(Answer<Sighting>),
}

pub(super) struct Writer {
    // Before the ground: the directory is given back only when the file is closed.
    connection: Option<Connection>,
    checkpoints: Checkpoints,
    queue: mpsc::Receiver<Errand>,
    sealer: Arc<Sealer>,
    owner: Owner,
    about: About,
    remembered: Remembered,
    /// Was anything committed since the position was counted up?
    moved: bool,
    house: House,
    reserve: Reserve,
    poison: Poison,
    #[cfg(test)]
    pub(super) sabotage: Arc<super::sabotage::Sabotage>,
    _ground: Ground,
}

/// What a writer is made of.
pub(super) struct Parts {
    pub(super) connection: Connection,
    pub(super) queue: mpsc::Receiver<Errand>,
    pub(super) sealer: Arc<Sealer>,
    pub(super) owner: Owner,
    pub(super) about: About,
    pub(super) remember: Remember,
    pub(super) reserve: Reserve,
    pub(super) poison: Poison,
    pub(super) ground: Ground,
}

type Commands = Vec<(Box<Command>, Asker)>;

/// Commands that wait for one commit.
#[derive(Default)]
struct Batch {
    commands: Commands,
    proofs: Vec<Answer<()>>,
    tends: Vec<Answer<Tended>>,
    epoch: Option<Box<EpochErrand>>,
    close: Option<Answer<Sighting>>,
}

impl Writer {
    pub(super) fn new(parts: Parts) -> rusqlite::Result<Self> {
        let Parts {
            mut connection,
            queue,
            sealer,
            owner,
            about,
            remember,
            reserve,
            poison,
            ground,
        } = parts;
        let pages = Arc::new(AtomicI32::new(0));
        let seen = Arc::clone(&pages);
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, in_log: i32| {
            seen.store(in_log, Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self {
            connection: Some(connection),
            checkpoints: Checkpoints::new(pages),
            queue,
            sealer,
            owner,
            house: House::new(remember, about.purged),
            about,
            remembered: Remembered::default(),
            moved: false,
            reserve,
            poison,
            #[cfg(test)]
            sabotage: Arc::default(),
            _ground: ground,
        })
    }

    /// Works until it is closed, or until nobody is left who could ask.
    pub(super) fn run(mut self) {
        while let Some(first) = self.next_errand() {
            let batch = self.gather(first);
            if let Some(closed) = self.commit(batch) {
                self.queue.close();
                let _ = closed.send(self.close());
                return;
            }
            self.clean_in_turn();
        }
        if let Err(error) = self.close() {
            tracing::warn!(%error, "the register was not closed in order");
        }
    }

    /// Takes what is there, up to the bound, and waits for nothing.
    fn gather(&mut self, first: Errand) -> Batch {
        let mut batch = Batch::default();
        let mut next = Some(first);
        let mut taken = 0;
        while let Some(errand) = next {
            taken += 1;
            match errand {
                Errand::Apply(command, asker) => batch.commands.push((command, asker)),
                Errand::Prove(answer) => batch.proofs.push(answer),
                Errand::Tend(answer) => batch.tends.push(answer),
                Errand::Epoch(errand) => {
                    batch.epoch = Some(errand);
                    break;
                }
                Errand::Close(answer) => {
                    batch.close = Some(answer);
                    break;
                }
            }
            next = if taken < BATCH {
                self.queue.try_recv().ok()
            } else {
                None
            };
        }
        batch
    }

    /// Commits a batch and answers it. Gives back who asked to close, if one did.
    fn commit(&mut self, batch: Batch) -> Option<Answer<Sighting>> {
        let Batch {
            commands,
            proofs,
            tends,
            epoch,
            close,
        } = batch;
        let advance = !proofs.is_empty() || (!tends.is_empty() && (self.moved || self.is_stale()));
        if !commands.is_empty() || advance {
            let begun = clock::boottime_us();
            match self.transact(&commands, advance) {
                Ok(decided) => {
                    let took = clock::boottime_us().saturating_sub(begun);
                    if !commands.is_empty() || !proofs.is_empty() {
                        (self.owner.committed)(took, commands.len());
                    }
                    self.answer(decided, commands, proofs);
                    self.checkpoint_if_due();
                }
                Err(error) => refuse(&error, commands, proofs),
            }
        }
        if let Some(errand) = epoch {
            self.begin_epoch(*errand);
        }
        if !tends.is_empty() {
            self.tend(tends);
        }
        close
    }

    fn answer(&self, decided: Decided, commands: Commands, proofs: Vec<Answer<()>>) {
        decided.pass_failpoints();
        for ((_, asker), reply) in commands.into_iter().zip(decided.replies) {
            asker.answer(reply);
        }
        let closed = self.closed_to_admissions();
        for proof in proofs {
            let _ = proof.send(closed.clone().map_or(Ok(()), Err));
        }
    }

    fn transact(
        &mut self,
        commands: &[(Box<Command>, Asker)],
        advance: bool,
    ) -> Result<Decided, StoreError> {
        // Whatever is written along with a transaction that fails is forgotten with it.
        let mut remembered = std::mem::take(&mut self.remembered);
        let mut tried = self.try_transact(&mut remembered, commands, advance);
        if let Err(Failed::Full(why)) = &tried
            && self.make_room(why)
        {
            remembered = Remembered::default();
            tried = self.try_transact(&mut remembered, commands, advance);
        }
        match tried {
            Ok(decided) => {
                self.remembered = remembered;
                self.moved |= decided.moved;
                if let Some((position, age)) = decided.advanced {
                    (self.about.position, self.about.age) = (position, age);
                    self.moved = false;
                }
                Ok(decided)
            }
            Err(failed) => Err(self.failed(failed)),
        }
    }

    fn try_transact(
        &self,
        remembered: &mut Remembered,
        commands: &[(Box<Command>, Asker)],
        advance: bool,
    ) -> Result<Decided, Failed> {
        self.within_transaction(|connection| {
            let age = self.age();
            let closed = self.closed_to_admissions();
            let mut decided = Decided {
                replies: Vec::with_capacity(commands.len()),
                intent: false,
                outcome: false,
                resend: false,
                moved: false,
                advanced: None,
            };
            let mut tally = Tally::default();
            remembered
                .refresh(connection)
                .map_err(|error| Failed::before(&error))?;
            for (command, asker) in commands {
                // Whoever asked for an attempt and went away has withdrawn. Evidence counts whether
                // or not anybody still listens.
                let asks = command.asks_for_attempt();
                let reply = if asks && asker.is_gone() {
                    Err(Wanted::withdrawn())
                } else {
                    let closed = closed.as_ref().filter(|_| asks);
                    let rows = OwnRows::new(connection, &self.sealer, remembered);
                    let (lived, tally) = (age.lived, &mut tally);
                    self.decide_one(rows, command, closed, lived, tally, &mut decided)?
                };
                decided.push(reply);
            }
            tally
                .write(connection)
                .map_err(|error| Failed::before(&error))?;
            #[cfg(test)]
            remembered.compare(
                super::load::Tables::new(connection, &self.sealer),
                connection,
            );
            if advance {
                let position = self.about.position.saturating_add(1);
                about::advance(connection, position, &age)
                    .map_err(|error| Failed::before(&error))?;
                decided.advanced = Some((position, age));
            }
            decided.pass_failpoints_before();
            Ok(decided)
        })
    }

    fn age(&self) -> Age {
        let read = self.owner.clock.now();
        Age {
            lived: self.about.age.at(&read),
            read,
        }
    }

    /// Why nothing is admitted now; `None`: it is.
    fn closed_to_admissions(&self) -> Option<StoreError> {
        if !self.reserve.is_held() {
            return Some(StoreError::Unavailable(
                "the disk is full: outcomes are recorded from the reserve, and nothing is admitted \
                 until there is room"
                    .to_owned(),
            ));
        }
        let left = self.about.admits_from.since(self.age().lived);
        (left.0 > 0).then(|| {
            StoreError::Unavailable(format!(
                "the register was restored: nothing is admitted for {} ms more, until what was \
                 under way must have ended",
                left.0
            ))
        })
    }

    /// The disk is full: gives up the reserve. True if there was one.
    fn make_room(&mut self, why: &str) -> bool {
        let spent = self.reserve.spend();
        if spent {
            tracing::error!(
                error = why,
                "the disk of the register is full: outcomes are recorded from the reserve, and \
                 nothing is admitted until there is room"
            );
        }
        spent
    }

    /// One command: view, decision, changes. A record that cannot be read concerns this command
    /// alone, because nothing was written for it yet. `closed`: why nothing may be written for it; what
    /// needs no write, a replay for example, is answered all the same.
    fn decide_one(
        &self,
        mut rows: OwnRows<'_>,
        command: &Command,
        closed: Option<&StoreError>,
        lived: Lived,
        tally: &mut Tally,
        decided: &mut Decided,
    ) -> Result<Result<Reply, StoreError>, Failed> {
        let (epoch, own) = (self.about.epoch, self.owner.instance);
        let view = match load::view(&mut rows, command, epoch, Living::Only(own)) {
            Ok(view) => view,
            Err(Fault::Record(error)) => return Ok(Err(error)),
            Err(Fault::Database(error)) => return Err(Failed::before(&error)),
        };
        let decision = decide(&view, command);
        if !decision.changes.is_empty() {
            if let Some(obstacle) = closed {
                return Ok(Err(obstacle.clone()));
            }
            decided.moved = true;
            let before = view.record.and_then(Record::into_operation);
            // Nobody else holds the list any more when it is changed.
            drop(view.unsettled);
            rows.write(before.as_deref(), &decision.changes, lived, tally)
                .map_err(Failed::unwritten)?;
        }
        Ok(Ok(decision.reply))
    }

    fn checkpoint_if_due(&mut self) {
        let Some(connection) = &self.connection else {
            return;
        };
        match self
            .checkpoints
            .run_if_due(connection, !self.reserve.is_held())
        {
            Ok(()) => {}
            // Nothing was in doubt, and the log still has it all.
            Err(error) if persist::is_full(&error) => {
                self.make_room(&error.to_string());
            }
            // What was answered is in the log and stays true. But a page whose fsync failed may be
            // lost although a later fsync succeeds: nothing may be built on it.
            Err(error) => self.poison_with(&format!("checkpoint: {error}")),
        }
    }

    fn close(&mut self) -> Result<Sighting, StoreError> {
        if self.poison.why().is_some() {
            self.connection = None;
        }
        if self.moved
            && self.connection.is_some()
            && let Err(error) = self.transact(&[], true)
        {
            if self.connection.is_none() {
                return Err(error);
            }
            // Nothing is lost by it: the witness is told less than there is.
            tracing::warn!(error = %error, "the register's position could not be written at its end");
        }
        let sighting = self.about.sighting();
        let Some(connection) = self.connection.take() else {
            return Ok(sighting);
        };
        // A log that stays is read at the next start; an error here loses nothing.
        Checkpoints::run_and_truncate(&connection)
            .and_then(|()| connection.close().map_err(|(_, error)| error))
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(sighting)
    }
}

fn refuse(error: &StoreError, commands: Commands, proofs: Vec<Answer<()>>) {
    for (_, asker) in commands {
        asker.answer(Err(error.clone()));
    }
    for proof in proofs {
        let _ = proof.send(Err(error.clone()));
    }
}
