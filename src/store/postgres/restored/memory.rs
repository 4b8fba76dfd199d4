//! What a process remembers of its register, and what follows from comparing it. Pure.
//!
//! What always holds: memory only grows, until an operator accepts the register as it is: then it is what
//! the register holds. What speaks for a loss is never forgotten otherwise, and never explained away: a
//! position that is lower than it was, an instance that is no longer there though it was a short while
//! ago, a lower epoch.
//!
//! What it does not do: ask the register, or write to it (`super`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::protocol::ids::InstanceId;
use crate::protocol::time::{BootInstant, Millis};

/// The rows of instances that were declared dead go after an hour at the earliest; a row that was seen
/// alive later than this ago and is not there was never removed by anybody.
const FRESH: Millis = Millis(30 * 60 * 1_000);

/// Before a new epoch begins by itself, whoever misses something has so long to say so. Running instances
/// look after their connections every second.
pub(super) const OBJECTIONS: Millis = Millis(if cfg!(test) { 1_500 } else { 10_000 });

/// What the register holds, as far as it is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) server: Server,
    pub(super) epoch: u64,
    /// Where it was known whole.
    pub(super) recorded: Server,
    /// Why nothing is admitted.
    pub(super) doubt: Option<String>,
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
pub(super) struct Progress {
    /// Its transactions so far.
    pub(super) position: u64,
    pub(super) dead: bool,
}

/// A server, and which of its histories it writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::store::postgres) struct Server {
    /// The system identifier, made by `initdb`.
    pub(in crate::store::postgres) system: u64,
    /// Counted up by every promotion and every restore.
    pub(in crate::store::postgres) timeline: u64,
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store::postgres) enum Difference {
    /// It is on another server.
    Copied {
        /// Where it was known whole.
        recorded: Server,
        /// Where it is.
        found: Server,
    },
    /// Its server has gone over to another history.
    Timeline {
        /// Where it was known whole.
        recorded: Server,
        /// Where it is.
        found: Server,
    },
    /// Transactions of an instance are missing.
    Position {
        /// Whose.
        instance: InstanceId,
        /// So many were seen committed.
        remembered: u64,
        /// So many are there; `None`: not even the instance.
        found: Option<u64>,
    },
    /// A higher epoch was in force.
    Epoch {
        /// Which.
        remembered: u64,
        /// Which is now.
        found: u64,
    },
    /// Nothing is admitted, as somebody found before.
    Closed {
        /// Why.
        why: String,
    },
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
    own: BTreeSet<InstanceId>,
    seen: BTreeMap<InstanceId, Sighting>,
    /// Since when the server is known to write this timeline.
    changed: Option<(u64, BootInstant)>,
    /// Since when that acceptance is known.
    quiet: Option<(u64, BootInstant)>,
}

#[derive(Clone, Copy, Debug)]
struct Sighting {
    position: u64,
    at: BootInstant,
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
        self.own.insert(own);
        let at_least = self.reached(own);
        let position = position.max(at_least);
        self.seen.insert(own, Sighting { position, at: now });
    }

    /// Transactions that the instance is known to have committed.
    pub(super) fn reached(&self, own: InstanceId) -> u64 {
        self.seen.get(&own).map_or(0, |seen| seen.position)
    }

    /// Compares, and learns what there is where nothing is missing.
    pub(super) fn judge(&mut self, found: &Found, now: BootInstant) -> Judgement {
        let accepted = *self.accepted.get_or_insert(found.accepted);
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
            let over = now.since(since) >= quiet;
            return Judgement::Quiet {
                accepted: found.accepted,
                over,
            };
        }
        if newly_accepted && found.doubt.is_none() {
            self.accepted = Some(found.accepted);
            self.seen.clear();
        }
        let differences = self.losses(found, now);
        if !differences.is_empty() {
            return Judgement::Close(differences);
        }
        if let Some(why) = &found.doubt {
            return Judgement::Closed(why.clone());
        }
        self.learn(found, now);
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

    /// What proves, or must be taken to prove, that commits are missing.
    fn losses(&self, found: &Found, now: BootInstant) -> Vec<Difference> {
        let mut differences = Vec::new();
        if found.server.system != found.recorded.system {
            differences.push(Difference::Copied {
                recorded: found.recorded,
                found: found.server,
            });
        }
        if self.epoch > found.epoch {
            differences.push(self.lower_epoch(found));
        }
        for (instance, seen) in &self.seen {
            let there = found.instances.get(instance).map(|it| it.position);
            let is_missing = match there {
                Some(position) => position < seen.position,
                None => now.since(seen.at) < FRESH,
            };
            if is_missing {
                differences.push(Difference::Position {
                    instance: *instance,
                    remembered: seen.position,
                    found: there,
                });
            }
        }
        differences
    }

    fn lower_epoch(&self, found: &Found) -> Difference {
        Difference::Epoch {
            remembered: self.epoch,
            found: found.epoch,
        }
    }

    /// The dead do nothing any more, and go some day.
    fn learn(&mut self, found: &Found, now: BootInstant) {
        self.epoch = self.epoch.max(found.epoch);
        let own = &self.own;
        self.seen.retain(|instance, _| own.contains(instance));
        for (instance, progress) in &found.instances {
            let at = match self.seen.get(instance) {
                // An own one of before goes some day too.
                Some(seen) if progress.dead => seen.at,
                None if progress.dead => continue,
                Some(_) | None => now,
            };
            let position = progress.position;
            self.seen.insert(*instance, Sighting { position, at });
        }
    }

    /// The highest epoch that was in force, as far as this process knows.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Copied { recorded, found } => write!(
                f,
                "it was known whole on the server {}, and is on {}: it was copied",
                recorded.system, found.system
            ),
            Self::Timeline { recorded, found } => write!(
                f,
                "it was known whole on timeline {}, and its server writes {}: there was a fail-over or a \
                 restore",
                recorded.timeline, found.timeline
            ),
            Self::Position {
                instance,
                remembered,
                found: Some(found),
            } => write!(
                f,
                "instance {instance} saw {remembered} of its transactions committed, and {found} are \
                 there: commits are missing"
            ),
            Self::Position {
                instance,
                remembered,
                found: None,
            } => write!(
                f,
                "instance {instance} saw {remembered} of its transactions committed, and is not known \
                 there: commits are missing"
            ),
            Self::Epoch { remembered, found } => write!(
                f,
                "epoch {remembered} was in force, and {found} is: commits are missing"
            ),
            Self::Closed { why } => f.write_str(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: InstanceId = InstanceId(1);
    const OTHER: InstanceId = InstanceId(2);
    const HERE: Server = Server {
        system: 7,
        timeline: 1,
    };
    const PROMOTED: Server = Server {
        timeline: 2,
        ..HERE
    };

    fn at(ms: u64) -> BootInstant {
        BootInstant(1_000_000 + ms)
    }

    fn found(server: Server, own: u64, other: u64) -> Found {
        let progress = |position| Progress {
            position,
            dead: false,
        };
        Found {
            server,
            recorded: HERE,
            instances: [(OWN, progress(own)), (OTHER, progress(other))].into(),
            ..Found::default()
        }
    }

    /// Has committed 5 of its own, and seen 9 of the other's.
    fn remembering() -> Memory {
        let mut memory = Memory::default();
        assert_eq!(memory.judge(&found(HERE, 3, 9), at(0)), Judgement::Whole);
        memory.committed(OWN, 5, 0, at(1));
        memory
    }

    #[test]
    fn what_is_as_far_or_further_is_whole() {
        for (own, other) in [(5, 9), (6, 9), (5, 40)] {
            let judged = remembering().judge(&found(HERE, own, other), at(2));
            assert_eq!(judged, Judgement::Whole, "{own} {other}");
        }
    }

    #[test]
    fn every_sign_of_a_loss_closes() {
        let mut lower_epoch = remembering();
        lower_epoch.committed(OWN, 5, 3, at(1));
        let cases = [
            (remembering(), found(HERE, 4, 9)),
            (remembering(), found(PROMOTED, 4, 9)),
            // Another's, as it was read last.
            (remembering(), found(PROMOTED, 5, 8)),
            (lower_epoch, found(HERE, 5, 9)),
            (Memory::default(), found(Server { system: 8, ..HERE }, 5, 9)),
        ];
        for (mut memory, found) in cases {
            let judged = memory.judge(&found, at(2));
            assert!(matches!(judged, Judgement::Close(_)), "{judged:?}");
            // Looking again changes nothing.
            assert_eq!(memory.judge(&found, at(3)), judged);
        }
    }

    #[test]
    fn an_instance_that_is_gone_was_lost_unless_its_grave_may_have_been_cleared() {
        let mut gone = found(HERE, 5, 9);
        gone.instances.remove(&OTHER);
        let judged = remembering().judge(&gone, at(2));
        assert!(matches!(judged, Judgement::Close(_)), "{judged:?}");
        let judged = remembering().judge(&gone, at(FRESH.0 + 2));
        assert_eq!(judged, Judgement::Whole);
    }

    #[test]
    fn the_dead_may_go() {
        let mut memory = remembering();
        let mut dead = found(HERE, 5, 9);
        if let Some(other) = dead.instances.get_mut(&OTHER) {
            other.dead = true;
        }
        assert_eq!(memory.judge(&dead, at(2)), Judgement::Whole);
        dead.instances.remove(&OTHER);
        assert_eq!(memory.judge(&dead, at(3)), Judgement::Whole);
    }

    #[test]
    fn another_history_is_confirmed_and_opened_after_a_while() {
        let mut memory = remembering();
        let promoted = found(PROMOTED, 5, 9);
        for (ms, may_open) in [
            (10, false),
            (9 + OBJECTIONS.0, false),
            (10 + OBJECTIONS.0, true),
        ] {
            let own = vec![OWN];
            let expected = Judgement::Confirm { own, may_open };
            assert_eq!(memory.judge(&promoted, at(ms)), expected);
        }
    }

    #[test]
    fn what_was_accepted_is_quiet_by_the_own_clock_and_then_learned() {
        let mut memory = remembering();
        let mut accepted = found(PROMOTED, 2, 2);
        accepted.accepted = 1;
        accepted.epoch = 1;
        accepted.doubt = Some("accepted".to_owned());
        accepted.quiet = Some(Millis(100));
        accepted.quiet_here = true;
        for (ms, over) in [(10, false), (109, false), (110, true)] {
            let expected = Judgement::Quiet { accepted: 1, over };
            assert_eq!(memory.judge(&accepted, at(ms)), expected);
        }
        let opened = Found {
            doubt: None,
            quiet: None,
            recorded: PROMOTED,
            ..accepted.clone()
        };
        assert_eq!(memory.judge(&opened, at(120)), Judgement::Whole);
        assert_eq!(memory.reached(OWN), 2);
        // It had seen an epoch that the operator could not see.
        let mut ahead = remembering();
        ahead.committed(OWN, 5, 1, at(1));
        let judged = ahead.judge(&accepted, at(10));
        assert!(matches!(judged, Judgement::Close(_)), "{judged:?}");
    }
}
