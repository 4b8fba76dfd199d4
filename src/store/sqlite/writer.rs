//! The one writer: a thread that drains its queue into one transaction after another.
//!
//! What always holds: nothing is answered before its transaction has committed, with fsync. Commands
//! that wait are committed together; the writer never waits for more of them. Later commands of a
//! transaction see what earlier ones wrote. After one failed transaction the writer is *poisoned*:
//! the connection is dropped without a checkpoint, nothing is written any more, and every later
//! command is told so. When the COMMIT itself failed, its commands are told that nobody knows.
//!
//! What it does not do: decide (`protocol`), or read for anybody else (`read`).

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::Committed;
use super::checkpoint::Checkpoints;
use super::ground::Ground;
use super::load::{Fault, Tables};
use super::persist::{self, Before, Tally};
use crate::protocol::command::{Admission, Command, Reply, Ruling};
use crate::protocol::decide::decide;
use crate::protocol::ids::InstanceId;
use crate::protocol::view::Record;
use crate::store::seal::Sealer;
use crate::store::{StoreError, load};
use crate::{clock, failpoint};

/// Commands that one transaction takes at most: bounds how long the first of them waits.
const BATCH: usize = 256;

pub(super) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the writer is asked for.
#[derive(Debug)]
pub(super) enum Errand {
    /// Decide and commit.
    Apply(Box<Command>, Answer<Reply>),
    /// Commit something, to prove that it can.
    Prove(Answer<()>),
    /// Stop, after what came before.
    Close(Answer<()>),
}

/// Why the writer writes nothing more; empty while it does.
pub(super) type Poison = Arc<OnceLock<String>>;

pub(super) struct Writer {
    // Before the ground: the directory is given back only when the file is closed.
    connection: Option<Connection>,
    checkpoints: Checkpoints,
    queue: mpsc::Receiver<Errand>,
    sealer: Arc<Sealer>,
    instance: InstanceId,
    epoch: u64,
    poison: Poison,
    committed: Committed,
    #[cfg(test)]
    pub(super) sabotage: Arc<super::sabotage::Sabotage>,
    _ground: Ground,
}

/// What a writer is made of.
pub(super) struct Parts {
    pub(super) connection: Connection,
    pub(super) queue: mpsc::Receiver<Errand>,
    pub(super) sealer: Arc<Sealer>,
    pub(super) instance: InstanceId,
    pub(super) epoch: u64,
    pub(super) poison: Poison,
    pub(super) ground: Ground,
    pub(super) committed: Committed,
}

/// Commands that wait for one commit.
#[derive(Default)]
struct Batch {
    commands: Vec<(Box<Command>, Answer<Reply>)>,
    proofs: Vec<Answer<()>>,
    close: Option<Answer<()>>,
}

/// Decided, and not yet true.
struct Decided {
    replies: Vec<Result<Reply, StoreError>>,
    /// Does it hold a granted admission? A recorded end? For the failpoints.
    intent: bool,
    outcome: bool,
}

/// How a transaction failed.
enum Failed {
    /// It never began: somebody else holds the file.
    Busy(String),
    /// Before COMMIT: nothing of it can be there.
    Before(String),
    /// At COMMIT: nobody knows.
    AtCommit(String),
}

impl Writer {
    pub(super) fn new(parts: Parts) -> rusqlite::Result<Self> {
        let Parts {
            mut connection,
            queue,
            sealer,
            instance,
            epoch,
            poison,
            ground,
            committed,
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
            instance,
            epoch,
            poison,
            committed,
            #[cfg(test)]
            sabotage: Arc::default(),
            _ground: ground,
        })
    }

    /// Works until it is closed, or until nobody is left who could ask.
    pub(super) fn run(mut self) {
        while let Some(first) = self.queue.blocking_recv() {
            let batch = self.gather(first);
            if let Some(closed) = self.commit(batch) {
                self.queue.close();
                let _ = closed.send(self.close());
                return;
            }
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
                Errand::Apply(command, answer) => batch.commands.push((command, answer)),
                Errand::Prove(answer) => batch.proofs.push(answer),
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
    fn commit(&mut self, batch: Batch) -> Option<Answer<()>> {
        let Batch {
            commands,
            proofs,
            close,
        } = batch;
        if commands.is_empty() && proofs.is_empty() {
            return close;
        }
        let begun = clock::boottime_us();
        match self.transact(&commands, !proofs.is_empty()) {
            Ok(decided) => {
                (self.committed)(clock::boottime_us().saturating_sub(begun), commands.len());
                decided.pass_failpoints();
                for ((_, answer), reply) in commands.into_iter().zip(decided.replies) {
                    // Nobody may be listening any more; the record speaks for itself.
                    let _ = answer.send(reply);
                }
                for proof in proofs {
                    let _ = proof.send(Ok(()));
                }
                self.checkpoint_if_due();
            }
            Err(error) => {
                for (_, answer) in commands {
                    let _ = answer.send(Err(error.clone()));
                }
                for proof in proofs {
                    let _ = proof.send(Err(error.clone()));
                }
            }
        }
        close
    }

    fn transact(
        &mut self,
        commands: &[(Box<Command>, Answer<Reply>)],
        prove: bool,
    ) -> Result<Decided, StoreError> {
        let Some(connection) = &self.connection else {
            let why = self.poison.get().cloned().unwrap_or_default();
            return Err(StoreError::Poisoned(why));
        };
        match self.try_transact(connection, commands, prove) {
            Ok(decided) => Ok(decided),
            Err(Failed::Busy(why)) => Err(StoreError::Unavailable(why)),
            Err(Failed::Before(why)) => {
                self.poison_with(&why);
                Err(StoreError::Poisoned(why))
            }
            Err(Failed::AtCommit(why)) => {
                self.poison_with(&why);
                Err(StoreError::CommitUnknown(why))
            }
        }
    }

    fn try_transact(
        &self,
        connection: &Connection,
        commands: &[(Box<Command>, Answer<Reply>)],
        prove: bool,
    ) -> Result<Decided, Failed> {
        execute(connection, "BEGIN IMMEDIATE").map_err(|error| {
            if is_busy(&error) {
                Failed::Busy(error.to_string())
            } else {
                Failed::Before(error.to_string())
            }
        })?;
        let before = |error: &dyn std::fmt::Display| Failed::Before(error.to_string());
        let mut decided = Decided {
            replies: Vec::with_capacity(commands.len()),
            intent: false,
            outcome: false,
        };
        let mut tally = Tally::default();
        for (command, answer) in commands {
            // Whoever asked for an attempt and went away has withdrawn. Evidence counts whether or
            // not anybody still listens.
            let withdrawn = asks_for_attempt(command) && answer.is_closed();
            decided.push(if withdrawn {
                Err(StoreError::Unavailable("withdrawn".to_owned()))
            } else {
                self.decide_one(connection, command, &mut tally)?
            });
        }
        tally.write(connection).map_err(|error| before(&error))?;
        if prove {
            execute(connection, "UPDATE register SET proofs = proofs + 1")
                .map_err(|error| before(&error))?;
        }
        self.commit_transaction(connection)
            .map_err(|error| Failed::AtCommit(error.to_string()))?;
        Ok(decided)
    }

    /// One command: view, decision, changes. A record that cannot be read concerns this command
    /// alone, because nothing was written for it yet.
    fn decide_one(
        &self,
        connection: &Connection,
        command: &Command,
        tally: &mut Tally,
    ) -> Result<Result<Reply, StoreError>, Failed> {
        let mut rows = Tables::new(connection, &self.sealer);
        let view = match load::view(&mut rows, command, self.epoch, self.instance) {
            Ok(view) => view,
            Err(Fault::Record(error)) => return Ok(Err(error)),
            Err(Fault::Database(error)) => return Err(Failed::Before(error.to_string())),
        };
        let before = match (&view.record, rows.own()) {
            (Some(Record::Operation(operation)), Some(sequence)) => {
                Some(Before::of(operation, sequence))
            }
            (Some(Record::Operation(_) | Record::Twin(_)) | None, _) => None,
        };
        let decision = decide(&view, command);
        if !decision.changes.is_empty() {
            persist::persist(connection, &self.sealer, before, &decision.changes, tally)
                .map_err(|error| Failed::Before(error.to_string()))?;
        }
        Ok(Ok(decision.reply))
    }

    #[cfg(test)]
    fn commit_transaction(&self, connection: &Connection) -> rusqlite::Result<()> {
        self.sabotage.before_commit()?;
        execute(connection, "COMMIT")?;
        self.sabotage.after_commit()
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests make it fail through self")]
    fn commit_transaction(&self, connection: &Connection) -> rusqlite::Result<()> {
        execute(connection, "COMMIT")
    }

    fn checkpoint_if_due(&mut self) {
        let Some(connection) = &self.connection else {
            return;
        };
        if let Err(error) = self.checkpoints.run_if_due(connection) {
            // What was answered is in the log and stays true. But a page whose fsync failed may be
            // lost although a later fsync succeeds: nothing may be built on it.
            self.poison_with(&format!("checkpoint: {error}"));
        }
    }

    /// Closing this connection writes nothing: it was told never to checkpoint on close, and an open
    /// transaction is only forgotten.
    fn poison_with(&mut self, why: &str) {
        tracing::error!(
            error = why,
            "the register is poisoned by a failed transaction: nothing more is written or admitted"
        );
        // Only the first reason counts.
        let _ = self.poison.set(why.to_owned());
        self.connection = None;
    }

    fn close(&mut self) -> Result<(), StoreError> {
        let Some(connection) = self.connection.take() else {
            return Ok(());
        };
        // A log that stays is read at the next start; an error here loses nothing.
        Checkpoints::run(&connection)
            .and_then(|()| connection.close().map_err(|(_, error)| error))
            .map_err(|error| StoreError::Unavailable(error.to_string()))
    }
}

impl Decided {
    fn push(&mut self, reply: Result<Reply, StoreError>) {
        match &reply {
            Ok(Reply::Admission(Admission {
                ruling: Ruling::Granted(_),
                ..
            })) => self.intent = true,
            Ok(Reply::Recorded(_)) => self.outcome = true,
            Ok(Reply::Admission(_) | Reply::Resend(_) | Reply::Parked(_) | Reply::Resolved(_))
            | Err(_) => {}
        }
        self.replies.push(reply);
    }

    fn pass_failpoints(&self) {
        if self.intent {
            failpoint::pass("after-intent");
        }
        if self.outcome {
            failpoint::pass("after-outcome-commit");
        }
    }
}

fn asks_for_attempt(command: &Command) -> bool {
    match command {
        Command::Admit(_) | Command::Resend(_) => true,
        Command::Record(_) | Command::Park(_) | Command::Resolve(_) | Command::Steer(_) => false,
    }
}

fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(|_| ())
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
}
