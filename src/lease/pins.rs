//! When work came in: what was owned on behalf of the worker at that moment, by the id that the work is known by.
//!
//! What always holds: an id that comes in again keeps the moment at which it came in first, for as long as it is
//! remembered: that is `keep` at least, from the last time on, and twice that at most. Of each way in no more ids are
//! remembered than its config says; none is forgotten for another's sake: there is no room for that one. It is in
//! memory: a restarted sidecar has seen nothing.
//!
//! What it does not do: know what is owned (`claim`), or read ids (`wire::work`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;

use crate::clock::Clock;
use crate::config::{Inbound, PinBy};
use crate::protocol::ids::{AcquisitionId, FencingToken, ResourceName};
use crate::protocol::time::{BootInstant, Millis};
use crate::wire::work::{self, WorkId};

/// The ways in of a config. Clones are the same ones.
#[derive(Clone, Default)]
pub struct Pins(Arc<[Pin]>);

/// What was owned of a resource at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// Ordered its owner.
    pub token: FencingToken,
    /// Which acquisition it was.
    pub acquisition: AcquisitionId,
}

/// What is known of the work of a request that the worker sends, for one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pinned {
    /// Nothing, and nothing need be.
    Free,
    /// Nothing, and that is not enough.
    Unknown,
    /// It came in when the resource was not owned.
    Unowned,
    /// It came in under that acquisition.
    Under(Past),
}

/// What became of noting when some work came in.
#[derive(Debug)]
#[must_use]
pub enum Noted {
    /// Nothing: it says no id.
    Nothing,
    /// It is remembered.
    Work(Note),
    /// There is no room for it.
    NoRoom,
}

/// A request for work, as it was noted.
#[derive(Debug)]
pub struct Note {
    way: usize,
    ids: Vec<WorkId>,
    at: BootInstant,
}

/// When work came in.
struct Moment {
    /// Since when it was known to be as it was then.
    since: BootInstant,
    /// Of each resource, what it is pinned to.
    owned: Vec<(ResourceName, Pinned)>,
}

/// One way in.
struct Pin {
    name: String,
    by: PinBy,
    strict: bool,
    resources: Vec<ResourceName>,
    clock: Clock,
    remembered: Mutex<Remembered>,
}

/// Two ages of ids: whoever is in neither is forgotten.
struct Remembered {
    keep: Millis,
    at_most: usize,
    /// Since when ids go into `recent`.
    since: BootInstant,
    recent: HashMap<WorkId, Known>,
    before: HashMap<WorkId, Known>,
    /// The last one: mostly the next is the same.
    last: Arc<Moment>,
    /// Was it said that there is no room?
    told: bool,
}

/// What is remembered of an id.
struct Known {
    /// When it came in first.
    moment: Arc<Moment>,
    /// How many requests with it may have reached the worker.
    times: u32,
    /// How many of them have no answer yet.
    open: u32,
}

impl Pins {
    /// Those of a config, in its order; nothing has come in.
    pub fn new(ways: &[Inbound], clock: &Clock) -> Self {
        let pin = |way: &Inbound| Pin {
            name: way.name.clone(),
            by: way.pin.by.clone(),
            strict: way.pin.strict,
            resources: way.resources.clone(),
            clock: clock.clone(),
            remembered: Mutex::new(Remembered::new(way.keep, way.at_most, clock.boottime())),
        };
        Self(ways.iter().map(pin).collect())
    }

    /// Work comes in by the way of that number in the config. `owned`: what is owned now. Of several ids each is noted:
    /// nobody knows which of them the worker goes on with.
    pub(super) fn note(
        &self,
        way: usize,
        headers: &HeaderMap,
        owned: impl Fn(&ResourceName) -> Option<Past>,
    ) -> Noted {
        let Some(pin) = self.0.get(way) else {
            return Noted::Nothing;
        };
        let ids = work::all(&pin.by, headers);
        if ids.is_empty() {
            return Noted::Nothing;
        }
        // Before it is looked what is owned: a moment is no younger than what it says.
        let now = pin.clock.boottime();
        let of_each = pin.resources.iter().map(|resource| {
            let pinned = owned(resource).map_or(Pinned::Unowned, Pinned::Under);
            (resource.clone(), pinned)
        });
        if pin.note(&ids, of_each.collect(), now) {
            Noted::Work(Note { way, ids, at: now })
        } else {
            Noted::NoRoom
        }
    }

    /// Nothing of that request reached the worker, and nothing will: as if it had not come in.
    pub(super) fn withdraw(&self, note: &Note) {
        if let Some(pin) = self.0.get(note.way) {
            pin.withdraw(note);
        }
    }

    /// That request has its answer, or nobody waits for one any more.
    pub(super) fn answered(&self, note: &Note) {
        if let Some(pin) = self.0.get(note.way) {
            pin.remembered(|remembered| remembered.answered(&note.ids));
        }
    }

    /// What is known of the work of a request that the worker sends. Of several moments the oldest counts, and what was
    /// not owned above all.
    pub(super) fn of(&self, resource: &ResourceName, headers: &HeaderMap) -> Pinned {
        let ways = self.0.iter();
        let ways = ways.filter(|pin| pin.resources.contains(resource));
        let known = ways.clone().flat_map(|pin| {
            let ids = work::all(&pin.by, headers).into_iter();
            ids.filter_map(|id| pin.moment(id))
        });
        let of_resource = known.filter_map(|moment| moment.of(resource));
        let oldest = of_resource.min_by_key(|(since, pinned)| pinned.age(*since));
        match oldest {
            Some((_, pinned)) => pinned,
            None if ways.into_iter().any(|pin| pin.strict) => Pinned::Unknown,
            None => Pinned::Free,
        }
    }
}

impl Moment {
    /// What it says of a resource; `None`: nothing.
    fn of(&self, resource: &ResourceName) -> Option<(BootInstant, Pinned)> {
        let found = self.owned.iter().find(|(name, _)| name == resource);
        found.map(|(_, pinned)| (self.since, pinned.clone()))
    }
}

impl Pinned {
    /// Orders what is known: the oldest first. Tokens break ties, and no more than that: after a repair a later one may
    /// be lower.
    fn age(&self, since: BootInstant) -> (bool, BootInstant, Option<FencingToken>) {
        match self {
            Self::Under(past) => (true, since, Some(past.token)),
            Self::Free | Self::Unknown | Self::Unowned => (false, since, None),
        }
    }
}

impl Pin {
    /// `false`: there is no room. `now`: before it was looked what is owned.
    fn note(&self, ids: &[WorkId], owned: Vec<(ResourceName, Pinned)>, now: BootInstant) -> bool {
        let (is_noted, tells) = self.remembered(|remembered| {
            let is_noted = remembered.note(ids, owned, now);
            let tells = !is_noted && !remembered.told;
            remembered.told |= tells;
            (is_noted, tells)
        });
        if tells {
            tracing::warn!(
                inbound = self.name,
                "more work comes in than may be remembered (`at_most`) for so long (`keep`): new work is turned away"
            );
        }
        is_noted
    }

    fn withdraw(&self, note: &Note) {
        let now = self.clock.boottime();
        self.remembered(|remembered| {
            // Later it may have been forgotten, and be another's note.
            if now.since(note.at) < remembered.keep {
                remembered.withdraw(&note.ids);
            }
        });
    }

    fn moment(&self, id: WorkId) -> Option<Arc<Moment>> {
        let now = self.clock.boottime();
        self.remembered(|remembered| remembered.moment(id, now))
    }

    fn remembered<T>(&self, look: impl FnOnce(&mut Remembered) -> T) -> T {
        let mut remembered = self
            .remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        look(&mut remembered)
    }
}

impl Remembered {
    fn new(keep: Millis, at_most: usize, now: BootInstant) -> Self {
        Self {
            keep,
            at_most,
            since: now,
            recent: HashMap::new(),
            before: HashMap::new(),
            last: Arc::new(Moment {
                since: now,
                owned: Vec::new(),
            }),
            told: false,
        }
    }

    /// `false`: there is no room for those that are new, and nothing is noted.
    fn note(
        &mut self,
        ids: &[WorkId],
        owned: Vec<(ResourceName, Pinned)>,
        now: BootInstant,
    ) -> bool {
        self.forget(now);
        let is_new = |id: &&WorkId| !self.recent.contains_key(id) && !self.before.contains_key(id);
        let new = ids.iter().filter(is_new).count();
        let remembered = self.recent.len().saturating_add(self.before.len());
        if new > self.at_most.saturating_sub(remembered) {
            return false;
        }
        if new > 0 && self.last.owned != owned {
            self.last = Arc::new(Moment { since: now, owned });
        }
        for id in ids {
            let first = self.before.remove(id).unwrap_or_else(|| Known {
                moment: Arc::clone(&self.last),
                times: 0,
                open: 0,
            });
            let known = self.recent.entry(*id).or_insert(first);
            known.times = known.times.saturating_add(1);
            known.open = known.open.saturating_add(1);
        }
        true
    }

    fn answered(&mut self, ids: &[WorkId]) {
        for id in ids {
            // It moves while it is open, and is not forgotten.
            let known = self.recent.get_mut(id);
            if let Some(known) = known.or_else(|| self.before.get_mut(id)) {
                known.open = known.open.saturating_sub(1);
            }
        }
    }

    fn withdraw(&mut self, ids: &[WorkId]) {
        for id in ids {
            for age in [&mut self.recent, &mut self.before] {
                let Some(known) = age.get_mut(id) else {
                    continue;
                };
                known.times = known.times.saturating_sub(1);
                if known.times == 0 {
                    age.remove(id);
                }
            }
        }
    }

    fn moment(&mut self, id: WorkId, now: BootInstant) -> Option<Arc<Moment>> {
        self.forget(now);
        let found = self.recent.get(&id).or_else(|| self.before.get(&id));
        found.map(|known| Arc::clone(&known.moment))
    }

    /// What is in `recent` came in within `keep` from `since`; what is in `before`, within `keep` before that, or has no
    /// answer yet.
    fn forget(&mut self, now: BootInstant) {
        let twice = self.keep.plus(self.keep);
        let age = now.since(self.since);
        if age < self.keep {
            return;
        }
        let mut old = std::mem::take(&mut self.before);
        if age >= twice {
            old.extend(self.recent.drain());
            self.since = now;
        } else {
            self.before = std::mem::take(&mut self.recent);
            self.since = self.since.after(self.keep);
        }
        old.retain(|_, known| known.open > 0);
        self.before.extend(old);
    }
}

#[cfg(test)]
mod tests;
