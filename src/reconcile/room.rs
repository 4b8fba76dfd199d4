//! How much settling is done at once.
//!
//! What always holds: each upstream has room of its own: one that is away, or answers nobody, holds up no other's
//! operations. Who was woken at his own time, or by a signal, waits in one line with those of a pass, and cannot
//! fill it: whatever is uncertain gets its turn in every pass. No resource takes all the room of its upstream.
//!
//! What it does not do: choose who works (`mod`), or know what they do.

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::protocol::ids::{ResourceName, UpstreamId};

/// How much is done at once, and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How often the register is searched for operations that nobody works on: attempts that went silent,
    /// listeners that gave up, operations of an earlier process.
    pub(crate) pass_every: Duration,
    /// How many operations of one upstream are settled at the same time.
    pub(crate) slots: usize,
    /// How many of them were not found by a pass.
    pub(crate) slots_of_woken: usize,
    /// How many of one upstream are woken again at their own time; whatever is beyond that waits for a pass.
    pub(crate) woken_later: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            pass_every: Duration::from_secs(5),
            slots: 64,
            slots_of_woken: 32,
            woken_later: 4_096,
        }
    }
}

/// How many of one resource a pass lets be worked on: the others of its upstream get their turn.
const OF_RESOURCE: usize = 8;

/// Room to work on the operations of every upstream.
pub(super) struct Slots {
    pace: Pace,
    by_upstream: DashMap<UpstreamId, Arc<Room>>,
    /// For operations of upstreams that the config no longer has.
    others: Arc<Room>,
}

/// Room to work on those of one.
pub(super) struct Room {
    all: Semaphore,
    of_woken: Semaphore,
}

/// A place in it.
pub(super) struct Slot<'r> {
    _all: SemaphorePermit<'r>,
    _of_woken: Option<SemaphorePermit<'r>>,
}

impl Slots {
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            pace,
            by_upstream: DashMap::new(),
            others: Arc::new(Room::new(&pace)),
        }
    }

    /// `None`: of those that the config no longer has.
    pub(super) fn of(&self, upstream: Option<&UpstreamId>) -> Arc<Room> {
        match upstream {
            Some(id) => {
                let own = self.by_upstream.entry(id.clone());
                Arc::clone(&own.or_insert_with(|| Arc::new(Room::new(&self.pace))))
            }
            None => Arc::clone(&self.others),
        }
    }
}

impl Room {
    fn new(pace: &Pace) -> Self {
        Self {
            all: Semaphore::new(pace.slots),
            of_woken: Semaphore::new(pace.slots_of_woken),
        }
    }

    /// A place for one whom a pass has found.
    pub(super) async fn of_pass(&self) -> Option<Slot<'_>> {
        Some(Slot {
            _all: self.all.acquire().await.ok()?,
            _of_woken: None,
        })
    }

    /// A place for one who was woken otherwise.
    pub(super) async fn of_woken(&self) -> Option<Slot<'_>> {
        let of_woken = self.of_woken.acquire().await.ok()?;
        Some(Slot {
            _all: self.all.acquire().await.ok()?,
            _of_woken: Some(of_woken),
        })
    }
}

/// Operations of each resource that passes have let be worked on.
pub(super) type OfResource = Arc<DashMap<(UpstreamId, ResourceName), usize>>;

/// One of so many of a resource that are worked on.
pub(super) struct Counted {
    all: OfResource,
    of: (UpstreamId, ResourceName),
}

impl Counted {
    /// `None`: there are enough.
    pub(super) fn one_more(all: &OfResource, of: (UpstreamId, ResourceName)) -> Option<Self> {
        let mut count = all.entry(of.clone()).or_insert(0);
        if *count >= OF_RESOURCE {
            return None;
        }
        *count = count.saturating_add(1);
        drop(count);
        Some(Self {
            all: Arc::clone(all),
            of,
        })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = self.all.entry(self.of.clone()) {
            *count.get_mut() = count.get().saturating_sub(1);
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}
