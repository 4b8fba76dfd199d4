//! A new epoch, because an operator says so.
//!
//! What always holds: it is committed before it is in force, and from then on every decision is taken in it: there
//! is one writer. It stands in the history with who said so and why, and counts the position up, so that the witness
//! is told.
//!
//! What it does not do: write the witness. Whoever asked does that, with what was committed.

use super::transaction::Failed;
use super::{Answer, Sighting, Writer};
use crate::store::sqlite::about;
use crate::store::{NewEpoch, StoreError, epoch};

/// An operator wants a new epoch.
#[derive(Debug)]
pub(in crate::store::sqlite) struct EpochErrand {
    pub(in crate::store::sqlite) new: NewEpoch,
    /// Answers with what the witness is to remember.
    pub(in crate::store::sqlite) answer: Answer<Sighting>,
}

impl Writer {
    pub(super) fn begin_epoch(&mut self, errand: EpochErrand) {
        let EpochErrand { new, answer } = errand;
        // Whoever is gone is told by the history.
        let _gone = answer.send(self.try_begin_epoch(&new));
    }

    fn try_begin_epoch(&mut self, new: &NewEpoch) -> Result<Sighting, StoreError> {
        let epoch = epoch::after(self.about.epoch)?;
        let (position, age) = (self.about.position.saturating_add(1), self.age());
        let begun = self.within_transaction(|connection| {
            let before = |error| Failed::before(&error);
            connection
                .execute("UPDATE register SET epoch = ?1", [epoch.cast_signed()])
                .map_err(before)?;
            about::note(connection, &new.at, &new.told(epoch)).map_err(before)?;
            about::advance(connection, position, &age).map_err(before)
        });
        match begun {
            Ok(()) => {
                self.about.epoch = epoch;
                (self.about.position, self.about.age) = (position, age);
                self.moved = false;
                self.checkpoint_if_due();
                Ok(self.about.sighting())
            }
            Err(failed) => Err(self.failed(failed)),
        }
    }
}
