//! When work came in: what was owned on behalf of the worker at that moment, by the id that the work is known by.
//!
//! What always holds: an id that comes in again keeps the moment at which it came in first, for as long as it is
//! remembered: that is `keep` at least, from the last time on, and twice that at most. Of each way in so many ids are
//! remembered as its config says, the newest, and never more than twice as many. It is in memory: a restarted sidecar
//! has seen nothing.
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

/// Of each resource, what work is pinned to that came in then.
type Moment = Vec<(ResourceName, Pinned)>;

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
    recent: HashMap<WorkId, Arc<Moment>>,
    before: HashMap<WorkId, Arc<Moment>>,
    /// The last one: mostly the next is the same.
    last: Arc<Moment>,
    /// Was it said that ids are forgotten before their time?
    told: bool,
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

    /// Work comes in by the way of that number in the config. `owned`: what is owned now. `false`: it says no id, or
    /// more than one, and nothing is noted.
    pub(super) fn note(
        &self,
        way: usize,
        headers: &HeaderMap,
        owned: impl Fn(&ResourceName) -> Option<Past>,
    ) -> bool {
        let Some(pin) = self.0.get(way) else {
            return false;
        };
        let Some(id) = work::one(&pin.by, headers) else {
            return false;
        };
        let of_each = pin.resources.iter().map(|resource| {
            let pinned = owned(resource).map_or(Pinned::Unowned, Pinned::Under);
            (resource.clone(), pinned)
        });
        pin.note(id, of_each.collect());
        true
    }

    /// What is known of the work of a request that the worker sends. Of several moments the oldest counts: tokens never
    /// go back.
    pub(super) fn of(&self, resource: &ResourceName, headers: &HeaderMap) -> Pinned {
        let mut pinned = Pinned::Free;
        let ways = self.0.iter();
        for pin in ways.filter(|pin| pin.resources.contains(resource)) {
            let ids = work::all(&pin.by, headers);
            let moments = ids.into_iter().filter_map(|id| pin.moment(id));
            let of_resource = moments.filter_map(|moment| of_then(&moment, resource));
            pinned = of_resource.fold(pinned, Pinned::older);
            if pin.strict && pinned == Pinned::Free {
                pinned = Pinned::Unknown;
            }
        }
        pinned
    }
}

/// What that moment says of a resource; `None`: nothing.
fn of_then(moment: &Moment, resource: &ResourceName) -> Option<Pinned> {
    let found = moment.iter().find(|(name, _)| name == resource);
    found.map(|(_, pinned)| pinned.clone())
}

impl Pinned {
    /// The older one of both. What is known stands above what is not, and what was not owned above all.
    fn older(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unowned, _) | (_, Self::Unowned) => Self::Unowned,
            (Self::Under(one), Self::Under(other)) if one.token <= other.token => Self::Under(one),
            (_, Self::Under(past)) | (Self::Under(past), Self::Free | Self::Unknown) => {
                Self::Under(past)
            }
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Free, Self::Free) => Self::Free,
        }
    }
}

impl Pin {
    fn note(&self, id: WorkId, moment: Moment) {
        let now = self.clock.boottime();
        let is_first_loss = self.remembered(|remembered| remembered.note(id, moment, now));
        if is_first_loss {
            tracing::warn!(
                inbound = self.name,
                "more work comes in than is remembered (`at_most`): when the oldest came in is forgotten before `keep`"
            );
        }
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
            last: Arc::default(),
            told: false,
        }
    }

    /// Answers whether ids are forgotten before their time, the first time that they are.
    fn note(&mut self, id: WorkId, moment: Moment, now: BootInstant) -> bool {
        self.forget(now);
        if self.recent.contains_key(&id) {
            return false;
        }
        let first = self.before.remove(&id);
        let is_full = self.recent.len() >= self.at_most;
        let loses = is_full && !self.before.is_empty();
        if is_full {
            self.before = std::mem::take(&mut self.recent);
            self.since = now;
        }
        if first.is_none() && *self.last != moment {
            self.last = Arc::new(moment);
        }
        let moment = first.unwrap_or_else(|| Arc::clone(&self.last));
        self.recent.insert(id, moment);
        let tells = loses && !self.told;
        self.told |= loses;
        tells
    }

    fn moment(&mut self, id: WorkId, now: BootInstant) -> Option<Arc<Moment>> {
        self.forget(now);
        let found = self.recent.get(&id).or_else(|| self.before.get(&id));
        found.cloned()
    }

    /// What is in `recent` came in within `keep` from `since`; what is in `before`, within `keep` before that.
    fn forget(&mut self, now: BootInstant) {
        let twice = self.keep.plus(self.keep);
        let age = now.since(self.since);
        if age >= twice {
            self.before = HashMap::new();
            self.recent = HashMap::new();
            self.since = now;
        } else if age >= self.keep {
            self.before = std::mem::take(&mut self.recent);
            self.since = self.since.after(self.keep);
        }
    }
}

#[cfg(test)]
mod tests;
