//! The happy path: decided on what is remembered, and written in one round trip.
//!
//! What always holds: a guess is written only if everything that it was decided on still holds; and only a
//! grant, or the end of an own attempt, is one. Whatever else the memory would say is not believed.
//!
//! What it does not do: read. Where a guess is not good enough, it is said so.

use super::ask::{Answer, Ask, granted, is_of_the_dead};
use super::{Lane, columns, pass_before};
use crate::clock;
use crate::protocol::command::{Command, Reply};
use crate::protocol::decide::decide;
use crate::store::load;
use crate::store::postgres::batch::{Item, in_lock_order};
use crate::store::postgres::trouble::Trouble;

impl Lane {
    /// Decides on what is remembered, and writes what may be written so. Gives back what has to be decided
    /// carefully.
    pub(super) async fn guess(&mut self, asks: Vec<Ask>) -> Vec<Ask> {
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
    fn guess_one(&mut self, ask: &Ask) -> Option<(Item, Box<Reply>)> {
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
        let (changes, reply) = (decision.changes, Box::new(decision.reply));
        let item = Item::new(&mut self.memory, command, &view, changes.clone(), &reply);
        self.memory.follow(&changes);
        Some((item, reply))
    }
}
