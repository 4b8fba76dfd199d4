//! What the writer does for the register itself, between commands: it says how far it has come, takes
//! its reserve back, and forgets what is old.
//!
//! What always holds: forgetting goes in small transactions of its own, and yields to every command
//! that waits; while commands keep coming it takes a small share of the time. A fault here poisons
//! as any other does.
//!
//! What it does not do: write the witness. Whoever asked does that, with what was committed.

use super::transaction::Failed;
use super::{Answer, Sighting, Writer};
use crate::clock;
use crate::protocol::time::Millis;
use crate::store::remember::{Purged, Remember};
use crate::store::sqlite::purge::{self, Cursor};
use tokio::sync::mpsc::error::TryRecvError;

/// While commands wait, forgetting takes one part in so many of the time.
const SHARE: u64 = 8;

/// The age is written down at least that often, also when nothing happens.
const STALE: Millis = Millis(10 * 60 * 1_000);

/// What was found when the house was looked after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tended {
    pub(in crate::store::sqlite) sighting: Sighting,
    /// What was forgotten since the last time.
    pub purged: Purged,
    /// Is there more to forget?
    pub more: bool,
}

pub(super) struct House {
    remember: Remember,
    cursor: Cursor,
    due: bool,
    /// Not before then, by the clock for measuring, while commands wait.
    next_us: u64,
    purged: Purged,
}

impl House {
    pub(super) fn new(remember: Remember, cursor: Cursor) -> Self {
        Self {
            remember,
            cursor,
            due: false,
            next_us: 0,
            purged: Purged::default(),
        }
    }
}

impl Writer {
    /// What is asked next. Forgets while nobody asks.
    pub(super) fn next_errand(&mut self) -> Option<super::Errand> {
        while self.house.due {
            match self.queue.try_recv() {
                Ok(errand) => return Some(errand),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => self.clean(),
            }
        }
        self.queue.blocking_recv()
    }

    /// Forgets a little, if it is the house's turn.
    pub(super) fn clean_in_turn(&mut self) {
        if self.house.due && clock::boottime_us() >= self.house.next_us {
            self.clean();
        }
    }

    /// Was the age last written down long ago?
    pub(super) fn is_stale(&self) -> bool {
        self.age().lived.since(self.about.age.lived) >= STALE
    }

    pub(super) fn tend(&mut self, asked: Vec<Answer<Tended>>) {
        if self.connection.is_some() && !self.reserve.is_held() {
            match self.reserve.refill() {
                Ok(()) => tracing::info!("the disk of the register has room again"),
                Err(error) => {
                    tracing::debug!(error = %error, "the disk of the register is still full");
                }
            }
        }
        let tended = match self.poison.why() {
            Some(why) => Err(crate::store::StoreError::Poisoned(why.to_owned())),
            None => Ok(Tended {
                sighting: self.about.sighting(),
                purged: std::mem::take(&mut self.house.purged),
                more: self.house.due,
            }),
        };
        self.house.due = tended.is_ok();
        for answer in asked {
            let _ = answer.send(tended.clone());
        }
    }

    fn clean(&mut self) {
        let begun = clock::boottime_us();
        let lived = self.age().lived;
        let (remember, cursor) = (self.house.remember, self.house.cursor);
        let cleaned = self.within_transaction(|connection| {
            purge::step(connection, remember, cursor, lived).map_err(|error| Failed::before(&error))
        });
        match cleaned {
            Ok(step) => {
                self.house.cursor = step.cursor;
                self.house.purged.add(step.purged);
                self.house.due = step.more;
                self.moved |= !step.purged.is_nothing();
                self.checkpoint_if_due();
            }
            Err(failed) => {
                // Whatever it is, it can wait for the next time.
                self.house.due = false;
                let error = self.failed(failed);
                tracing::warn!(error = %error, "nothing could be forgotten");
            }
        }
        let now = clock::boottime_us();
        self.house.next_us = now.saturating_add(now.saturating_sub(begun).saturating_mul(SHARE));
    }
}
