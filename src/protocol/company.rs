//! Who shares a register, as one of them knows it: who is dead, and since when attempts are in sight.
//!
//! What always holds: nobody is dead before he was declared so in the register. Whoever is unknown
//! (he may have joined since the register was looked at) counts as living. An attempt of another
//! boot is dated by the first sight of it, on the own clock that counts suspend: a clock of another machine
//! is never compared with an own one. A sight is never earlier than the attempt, so counting from it is
//! never too short.
//!
//! What it does not do: find out who is dead (`pulse`), or decide what an overdue attempt means.

use std::collections::{BTreeMap, BTreeSet};

use super::ids::{AttemptId, InstanceId};
use super::operation::{Attempt, AttemptEnd, Operation};
use super::time::{Millis, Moment};

/// So many attempts of other machines are kept in sight at most.
const IN_SIGHT: usize = 8_192;

/// Whoever is kept in sight longer goes, once there is no room.
const LONG_IN_SIGHT: Millis = Millis(60 * 60 * 1_000);

/// Those who share a register, as one of them knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Company {
    /// The present id, and those that this process had before: what it began under them it still knows.
    own: BTreeSet<InstanceId>,
    dead: BTreeSet<InstanceId>,
    sights: BTreeMap<AttemptId, Moment>,
}

impl Company {
    /// One that knows nobody else yet.
    pub fn of(own: InstanceId) -> Self {
        Self {
            own: BTreeSet::from([own]),
            dead: BTreeSet::new(),
            sights: BTreeMap::new(),
        }
    }

    /// The process goes on under another id.
    pub fn go_on_as(&mut self, own: InstanceId) {
        self.own.insert(own);
    }

    /// Has this process that id, or had it?
    pub fn is_own(&self, instance: InstanceId) -> bool {
        self.own.contains(&instance)
    }

    /// All ids that this process has or had.
    pub fn own(&self) -> impl Iterator<Item = InstanceId> {
        self.own.iter().copied()
    }

    /// These are declared dead, and nobody else.
    pub fn bury(&mut self, dead: BTreeSet<InstanceId>) {
        self.sights
            .retain(|attempt, _| !dead.contains(&attempt.instance));
        self.dead = dead;
    }

    /// Is it alive, as far as this one knows?
    pub fn is_alive(&self, instance: InstanceId) -> bool {
        self.is_own(instance) || !self.dead.contains(&instance)
    }

    /// Is there an attempt among those of the operation that [`Company::see`] would note?
    pub fn is_unseen(&self, operation: &Operation, now: &Moment) -> bool {
        let mut attempts = operation.everything_sent();
        attempts.any(|attempt| self.is_foreign(attempt, now) && !self.has_seen(attempt))
    }

    /// Notes the first sight of its attempts: `now` is when the record was read, on the own clock. Where
    /// there is no room nothing is noted, and what was not seen is not overdue.
    pub fn see(&mut self, operation: &Operation, now: &Moment) {
        for attempt in operation.everything_sent() {
            if !self.is_foreign(attempt, now) || self.has_seen(attempt) {
                continue;
            }
            if self.sights.len() >= IN_SIGHT {
                self.sights
                    .retain(|_, seen| !now.is_past(seen, LONG_IN_SIGHT));
            }
            if self.sights.len() < IN_SIGHT {
                self.sights.insert(attempt.id, *now);
            }
        }
    }

    /// Has `limit` passed since the attempt was admitted, for all that this one can know?
    pub(super) fn is_past(&self, attempt: &Attempt, limit: Millis, now: &Moment) -> bool {
        if attempt.at.boot == now.boot || self.is_own(attempt.id.instance) {
            return now.is_past(&attempt.at, limit);
        }
        let seen = self.sights.get(&attempt.id);
        seen.is_some_and(|seen| now.is_past(seen, limit))
    }

    fn has_seen(&self, attempt: &Attempt) -> bool {
        self.sights.contains_key(&attempt.id)
    }

    /// Can it only be dated by when it was seen?
    fn is_foreign(&self, attempt: &Attempt, now: &Moment) -> bool {
        let may_act = match attempt.end {
            AttemptEnd::Silent | AttemptEnd::Open(..) => true,
            AttemptEnd::Closed(..) | AttemptEnd::Ambiguous(_) | AttemptEnd::Disproved(_) => false,
        };
        let instance = attempt.id.instance;
        may_act && attempt.at.boot != now.boot && !self.is_own(instance) && self.is_alive(instance)
    }
}
