//! What the parts of an open register share: who we are in it, its keys, its age, who else is alive.
//!
//! What always holds: the epoch seen only rises.
//!
//! What it does not do: talk to the database.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::restored::Ground;
use crate::clock::Clock;
use crate::protocol::ids::InstanceId;
use crate::protocol::view::Living;
use crate::store::StoreError;
use crate::store::age::Age;
use crate::store::seal::Sealer;

/// Told of every commit: how many microseconds the transaction took, and how many commands it held.
pub(super) type Committed = Box<dyn Fn(u64, usize) + Send + Sync>;

pub(super) struct Shared {
    pub(super) instance: InstanceId,
    pub(super) clock: Clock,
    pub(super) sealer: Sealer,
    /// Is the register whole, as far as anybody knows?
    pub(super) ground: Ground,
    epoch: AtomicU64,
    age: Mutex<Age>,
    living: Mutex<Living>,
    committed: Committed,
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
        Self {
            instance,
            clock,
            sealer,
            ground: Ground::default(),
            epoch: AtomicU64::new(epoch),
            age: Mutex::new(age),
            living: Mutex::new(Living::Among(vec![instance])),
            committed,
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(super) fn saw_epoch(&self, epoch: u64) {
        self.epoch.fetch_max(epoch, Ordering::AcqRel);
    }

    /// How old the register is now, as a column.
    pub(super) fn lived(&self) -> i64 {
        locked(&self.age).at(&self.clock.now()).column()
    }

    pub(super) fn living(&self) -> Living {
        locked(&self.living).clone()
    }

    pub(super) fn committed(&self, took_us: u64, commands: usize) {
        (self.committed)(took_us, commands);
    }

    /// The database cannot be used.
    pub(super) fn away(&self, error: &StoreError) {
        tracing::warn!(instance = %self.instance, error = %error, "the register cannot be used");
    }

    /// Others have taken this instance for dead: what it admitted they settle.
    pub(super) fn declared_dead(&self) -> StoreError {
        StoreError::Unavailable(format!(
            "instance {} was declared dead, and admits nothing any more",
            self.instance
        ))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whoever panicked left a whole value: each is replaced, never changed in part.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
