//! What the parts of an open register share: who we are in it, its keys, its age, who else is alive.
//!
//! What always holds: the epoch seen only rises, and so does the age. Nobody is dead here before the
//! register says so.
//!
//! What it does not do: talk to the database.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::abroad::Abroad;
use super::restored::Ground;
use super::whereabouts::Whereabouts;
use crate::clock::Clock;
use crate::protocol::company::Company;
use crate::protocol::ids::InstanceId;
use crate::protocol::operation::Operation;
use crate::protocol::time::BootInstant;
use crate::protocol::view::Living;
use crate::store::StoreError;
use crate::store::age::{Age, Lived};
use crate::store::seal::Sealer;

/// Told of every commit: how many microseconds the transaction took, and how many commands it held.
pub(super) type Committed = Box<dyn Fn(u64, usize) + Send + Sync>;

pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) sealer: Sealer,
    /// Who waits for what elsewhere.
    pub(super) abroad: Abroad,
    /// This instance is declared dead: somebody found that out.
    pub(super) found_dead: Notify,
    /// Is the register whole, as far as anybody knows?
    pub(super) ground: Ground,
    /// Which server is written to?
    pub(super) whereabouts: Whereabouts,
    epoch: AtomicU64,
    age: Mutex<Age>,
    present: Mutex<Present>,
    committed: Committed,
}

/// Who is there.
struct Present {
    own: InstanceId,
    company: Arc<Company>,
    others: Arc<Others>,
}

/// The instances of the register, as they were read last.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// Those that are not declared dead, ourselves among them.
    pub(super) living: Vec<InstanceId>,
    /// Those that are, and since when that is known here, on the own clock.
    pub(super) dead: BTreeMap<InstanceId, BootInstant>,
}

impl Shared {
    pub(super) fn new(
        instance: InstanceId,
        clock: Clock,
        sealer: Sealer,
        epoch: u64,
        age: Age,
        committed: Committed,
    ) -> Self {
        let present = Present {
            own: instance,
            company: Arc::new(Company::of(instance)),
            others: Arc::default(),
        };
        Self {
            clock,
            sealer,
            abroad: Abroad::default(),
            found_dead: Notify::new(),
            ground: Ground::default(),
            whereabouts: Whereabouts::default(),
            epoch: AtomicU64::new(epoch),
            age: Mutex::new(age),
            present: Mutex::new(present),
            committed,
        }
    }

    /// Who we are now.
    pub(super) fn instance(&self) -> InstanceId {
        locked(&self.present).own
    }

    /// The same process, under another id.
    pub(super) fn go_on_as(&self, own: InstanceId) {
        let mut present = locked(&self.present);
        present.own = own;
        Arc::make_mut(&mut present.company).go_on_as(own);
    }

    /// All ids that this process has or had.
    pub(super) fn all_own(&self) -> Vec<InstanceId> {
        self.company().own().collect()
    }

    pub(super) fn living(&self) -> Living {
        Living::Among(self.company())
    }

    pub(super) fn company(&self) -> Arc<Company> {
        Arc::clone(&locked(&self.present).company)
    }

    pub(super) fn others(&self) -> Arc<Others> {
        Arc::clone(&locked(&self.present).others)
    }

    /// What the register says.
    pub(super) fn meet(&self, others: Others) {
        let mut present = locked(&self.present);
        let dead = others.dead.keys().copied().collect();
        Arc::make_mut(&mut present.company).bury(dead);
        present.others = Arc::new(others);
    }

    /// These are not declared dead, whoever said so.
    pub(super) fn are_alive(&self, living: &[InstanceId]) {
        if living.is_empty() {
            return;
        }
        let known = self.others();
        let is_alive = |it: &InstanceId| living.contains(it);
        let dead = known.dead.iter().filter(|(it, _)| !is_alive(it));
        let others = Others {
            dead: dead.map(|(it, since)| (*it, *since)).collect(),
            living: known.living.iter().chain(living).copied().collect(),
        };
        self.meet(others);
    }

    /// A record was read: from now on its attempts are in sight.
    pub(super) fn see(&self, operation: &Operation) {
        let now = self.clock.now();
        let mut present = locked(&self.present);
        if present.company.is_unseen(operation, &now) {
            Arc::make_mut(&mut present.company).see(operation, &now);
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(super) fn saw_epoch(&self, epoch: u64) {
        self.epoch.fetch_max(epoch, Ordering::AcqRel);
    }

    /// How old the register is now.
    pub(super) fn lived(&self) -> Lived {
        locked(&self.age).at(&self.clock.now())
    }

    /// Others say that it is as old as that.
    pub(super) fn saw_age(&self, lived: Lived) {
        let now = self.clock.now();
        let mut age = locked(&self.age);
        if age.at(&now) < lived {
            *age = Age { lived, read: now };
        }
    }

    pub(super) fn committed(&self, took_us: u64, commands: usize) {
        (self.committed)(took_us, commands);
    }

    /// The database cannot be used.
    pub(super) fn away(&self, error: &StoreError) {
        tracing::warn!(instance = %self.instance(), error = %error, "the register cannot be used");
    }

    /// Others have taken this instance for dead: what it admitted they settle.
    pub(super) fn declared_dead(&self, instance: InstanceId) -> StoreError {
        self.found_dead.notify_one();
        StoreError::Unavailable(format!(
            "instance {instance} was declared dead, and admits nothing any more"
        ))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whoever panicked left a whole value: each is replaced, never changed in part.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
