//! What a process remembers of its register, and what follows from comparing it. Pure.
//!
//! What always holds: memory only grows, until an operator accepts the register as it is: then it is what
//! the register holds. What speaks for a loss is never forgotten otherwise, and never explained away: a
//! position that is lower than it was, an instance that is no longer there though it was a short while
//! ago, a lower epoch.
//!
//! What it does not do: ask the register, or write to it (`super`).

use std::collections::{BTreeMap, BTreeSet};

use super::difference::Difference;
use crate::protocol::ids::InstanceId;
use crate::protocol::time::{BootInstant, Millis};

/// The rows of instances that were declared dead go after an hour at the earliest; a row that was seen
/// alive later than this ago and is not there was never removed by anybody.
const FRESH: Millis = Millis(30 * 60 * 1_000);

/// Before a new epoch begins by itself, whoever misses something has so long to say so. Running instances
/// look after their connections every second.
pub(in crate::store::postgres) const OBJECTIONS: Millis =
    Millis(if cfg!(test) { 1_500 } else { 10_000 });

/// What the register holds, as far as it is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) server: Server,
    pub(super) epoch: u64,
    /// Where it was known whole.
    pub(super) recorded: Server,
    /// Why nothing is admitted.
    pub(super) doubt: Option<String>,
    /// It was exported: the truth is elsewhere.
    pub(super) moved: bool,
    /// How often an operator accepted it as it was.
    pub(super) accepted: u64,
    /// How long nothing is admitted after the last time.
    pub(super) quiet: Option<Millis>,
    /// Was it accepted on the server that it is on now?
    pub(super) quiet_here: bool,
    pub(super) instances: BTreeMap<InstanceId, Progress>,
}

/// An instance in the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::postgres) struct Progress {
    pub(in crate::store::postgres) reached: Reached,
    pub(in crate::store::postgres) dead: bool,
}

/// How far an instance has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::store::postgres) struct Reached {
    /// Its transactions so far.
    pub(in crate::store::postgres) position: u64,
    /// Those beside them that recorded something where nothing was admitted.
    pub(in crate::store::postgres) aside: u64,
}

impl Reached {
    /// Neither lower than in the other.
    fn further(self, other: Self) -> Self {
        Self {
            position: self.position.max(other.position),
            aside: self.aside.max(other.aside),
        }
    }
}

/// A server, and which of its histories it writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::store::postgres) struct Server {
    /// The system identifier, made by `initdb`.
    pub(in crate::store::postgres) system: u64,
    /// Counted up by every promotion and every restore.
    pub(in crate::store::postgres) timeline: u64,
}

/// What is remembered of the register by whoever writes to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::store::postgres) struct Remembered {
    /// How far the writer has come.
    pub(in crate::store::postgres) reached: Reached,
    /// Where the register was judged whole, unless anything else was judged since: nothing is admitted elsewhere.
    pub(in crate::store::postgres) whole_on: Option<Server>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// Go on.
    Whole,
    /// Say that nothing may be admitted, and why.
    Close(Vec<Difference>),
    /// Somebody has said so.
    Closed(String),
    /// It was exported, and is another one's truth from then on.
    Moved(String),
    /// Another history, in which these instances, which are this process, miss nothing.
    Confirm {
        own: Vec<InstanceId>,
        /// Was there time for objections?
        may_open: bool,
    },
    /// It was accepted, and admits nothing yet.
    Quiet {
        /// Which acceptance.
        accepted: u64,
        /// Is that over?
        over: bool,
    },
}

#[derive(Debug, Default)]
pub(super) struct Memory {
    /// As of which acceptance; `None`: nothing is remembered yet.
    accepted: Option<u64>,
    epoch: u64,
    /// Where nothing was missing last: no earlier history of it is gone back to.
    furthest: Option<Server>,
    own: BTreeSet<InstanceId>,
    seen: Seen,
    /// The ground that was judged whole last, unless anything else was judged since.
    whole: Option<Heard>,
    was_whole: bool,
    /// Since when the server is known to write this timeline.
    changed: Option<(u64, BootInstant)>,
    /// Since when that acceptance is known.
    quiet: Option<(u64, BootInstant)>,
}

/// What instances had done at least, and when they were seen alive.
pub(in crate::store::postgres) type Seen = BTreeMap<InstanceId, Sighting>;

#[derive(Clone, Copy, Debug)]
pub(in crate::store::postgres) struct Sighting {
    reached: Reached,
    at: BootInstant,
    /// Its row may go.
    dead: bool,
}

/// Where a sign of life was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::postgres) struct Heard {
    pub(in crate::store::postgres) server: Server,
    /// How often the register had been accepted.
    pub(in crate::store::postgres) accepted: u64,
}

/// What the signs of life that somebody read are worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::postgres) enum Worth {
    /// They were read where the register is known whole.
    All,
    /// The register has never been seen whole: they tell who is there, and nothing is decided on that.
    Company,
    /// They are those of another ground, or one that nothing is admitted on: nothing follows from them.
    Nothing,
}

impl Memory {
    /// An own transaction was committed.
    pub(super) fn committed(
        &mut self,
        own: InstanceId,
        position: u64,
        epoch: u64,
        now: BootInstant,
    ) {
        self.epoch = self.epoch.max(epoch);
        let aside = 0;
        self.went_on(own, Reached { position, aside }, now);
    }

    /// An own transaction recorded something where nothing is admitted; so many did.
    pub(super) fn put_aside(&mut self, own: InstanceId, aside: u64, now: BootInstant) {
        let position = 0;
        self.went_on(own, Reached { position, aside }, now);
    }

    fn went_on(&mut self, own: InstanceId, reached: Reached, now: BootInstant) {
        self.own.insert(own);
        let known = self.seen.get(&own);
        let went_on = Sighting {
            reached: self.reached(own).further(reached),
            at: now,
            dead: known.is_some_and(|it| it.dead),
        };
        self.seen.insert(own, went_on);
    }

    /// What the instance is known to have committed.
    fn reached(&self, own: InstanceId) -> Reached {
        let seen = self.seen.get(&own);
        seen.map_or_else(Reached::default, |seen| seen.reached)
    }

    /// What whoever writes for the instance is to find where it writes.
    pub(super) fn remembered(&self, own: InstanceId) -> Remembered {
        Remembered {
            reached: self.reached(own),
            whole_on: self.whole.map(|it| it.server),
        }
    }

    #[cfg(test)]
    pub(super) fn believe_whole_on(&mut self, server: Server) {
        let accepted = self.accepted.unwrap_or_default();
        self.whole = Some(Heard { server, accepted });
    }

    /// All that must be found by whoever asks from now on.
    pub(super) fn seen(&self) -> Seen {
        self.seen.clone()
    }

    /// What signs of life are worth that were read there; `None`: where the register does not stand.
    pub(super) fn worth(&self, heard: Option<Heard>) -> Worth {
        match (heard, self.whole) {
            (Some(heard), Some(whole)) if heard == whole => Worth::All,
            _ if !self.was_whole => Worth::Company,
            _ => Worth::Nothing,
        }
    }

    /// Signs of life that are worth something show how far instances have come. Answers whether one is less
    /// far than had been seen `before` it was read.
    pub(super) fn heard(
        &mut self,
        all: impl Iterator<Item = (InstanceId, Progress)>,
        before: &Seen,
        now: BootInstant,
    ) -> bool {
        let mut went_back = false;
        for (instance, told) in all {
            went_back |= before.get(&instance).is_some_and(|seen| {
                told.reached.position < seen.reached.position || seen.dead && !told.dead
            });
            self.sight(instance, told, now);
        }
        went_back
    }

    /// Whoever was dead when he was seen first may have been so for long, and go at any time.
    fn sight(&mut self, instance: InstanceId, told: Progress, now: BootInstant) {
        let known = self.seen.get(&instance);
        let at = match known {
            Some(seen) if told.dead => seen.at,
            None if told.dead => return,
            Some(_) | None => now,
        };
        let sighting = Sighting {
            reached: self.reached(instance).further(told.reached),
            at,
            dead: told.dead || known.is_some_and(|it| it.dead),
        };
        self.seen.insert(instance, sighting);
    }

    /// Compares, and learns what there is where nothing is missing. `before`: what had been seen when it was
    /// asked what there is; others go on meanwhile, and their signs of life come in another way.
    pub(super) fn judge(&mut self, found: &Found, before: &Seen, now: BootInstant) -> Judgement {
        let judgement = self.compare(found, before, now);
        self.whole = (judgement == Judgement::Whole).then_some(Heard {
            server: found.server,
            accepted: found.accepted,
        });
        self.was_whole |= self.whole.is_some();
        judgement
    }

    fn compare(&mut self, found: &Found, before: &Seen, now: BootInstant) -> Judgement {
        let accepted = *self.accepted.get_or_insert(found.accepted);
        if found.moved {
            return Judgement::Moved(found.doubt.clone().unwrap_or_default());
        }
        let newly_accepted = found.accepted > accepted;
        if newly_accepted && found.epoch <= self.epoch {
            // Whoever accepted it could not know of the epoch that this process saw.
            return Judgement::Close(vec![self.lower_epoch(found)]);
        }
        if let Some(quiet) = found.quiet.filter(|_| found.quiet_here) {
            let since = match self.quiet {
                Some((which, since)) if which == found.accepted => since,
                Some(_) | None => now,
            };
            self.quiet = Some((found.accepted, since));
            if newly_accepted {
                self.begin_anew(found);
            }
            // What is recorded from now on is missed too, should this server fail over in turn.
            self.learn(found, now);
            let over = now.since(since) >= quiet;
            return Judgement::Quiet {
                accepted: found.accepted,
                over,
            };
        }
        let nothing = Seen::new();
        let mut before = before;
        if newly_accepted && found.doubt.is_none() {
            self.begin_anew(found);
            before = &nothing;
        }
        let differences = self.losses(found, before, now);
        if !differences.is_empty() {
            return Judgement::Close(differences);
        }
        // Whatever stands against it: what is recorded meanwhile is missed as well.
        self.learn(found, now);
        if let Some(why) = &found.doubt {
            return Judgement::Closed(why.clone());
        }
        self.furthest = Some(found.server);
        if found.server == found.recorded {
            self.changed = None;
            return Judgement::Whole;
        }
        let since = match self.changed {
            Some((timeline, since)) if timeline == found.server.timeline => since,
            Some(_) | None => now,
        };
        self.changed = Some((found.server.timeline, since));
        Judgement::Confirm {
            own: self.own.iter().copied().collect(),
            may_open: now.since(since) >= OBJECTIONS,
        }
    }

    /// A person has taken the register as it is: what it does not hold is missed no more.
    fn begin_anew(&mut self, found: &Found) {
        self.accepted = Some(found.accepted);
        self.seen.clear();
        self.furthest = None;
    }

    /// What proves, or must be taken to prove, that commits are missing.
    fn losses(&self, found: &Found, before: &Seen, now: BootInstant) -> Vec<Difference> {
        let mut differences = Vec::new();
        if found.server.system != found.recorded.system {
            differences.push(Difference::Copied {
                recorded: found.recorded,
                found: found.server,
            });
        }
        if let Some(furthest) = self.furthest
            && furthest.system == found.server.system
            && furthest.timeline > found.server.timeline
        {
            // It lives on beside the one that was gone over to, where this process counts as one that misses
            // nothing: what it admitted here would be lost there.
            differences.push(Difference::Timeline {
                recorded: furthest,
                found: found.server,
            });
        }
        if self.epoch > found.epoch {
            differences.push(self.lower_epoch(found));
        }
        for (instance, seen) in before {
            let there = found.instances.get(instance);
            differences.extend(seen.misses(*instance, there, now));
        }
        differences
    }

    fn lower_epoch(&self, found: &Found) -> Difference {
        Difference::Epoch {
            remembered: self.epoch,
            found: found.epoch,
        }
    }

    /// The dead do nothing any more, and go some day; what they had done stays for as long as they are there.
    fn learn(&mut self, found: &Found, now: BootInstant) {
        self.epoch = self.epoch.max(found.epoch);
        let own = &self.own;
        self.seen
            .retain(|instance, _| own.contains(instance) || found.instances.contains_key(instance));
        for (instance, progress) in &found.instances {
            self.sight(*instance, *progress, now);
        }
    }

    /// The highest epoch that was in force, as far as this process knows.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl Sighting {
    /// What is not there of what was seen.
    fn misses(
        &self,
        instance: InstanceId,
        there: Option<&Progress>,
        now: BootInstant,
    ) -> Option<Difference> {
        let Reached { position, aside } = self.reached;
        match there {
            None => {
                let is_missed = !self.dead && now.since(self.at) < FRESH;
                is_missed.then_some(Difference::Position {
                    instance,
                    remembered: position,
                    found: None,
                })
            }
            Some(there) if there.reached.position < position => Some(Difference::Position {
                instance,
                remembered: position,
                found: Some(there.reached.position),
            }),
            Some(there) if there.reached.aside < aside => Some(Difference::Aside {
                instance,
                remembered: aside,
                found: there.reached.aside,
            }),
            Some(there) => (self.dead && !there.dead).then_some(Difference::Revived { instance }),
        }
    }
}

#[cfg(test)]
mod tests;
