//! A clock that a test sets: suspends the machine, steps the wall clock, boots anew.
//!
//! What always holds: it stands still unless told; within a boot the clock that counts suspend never
//! goes back. Not compiled into the product.
//!
//! What it does not do: drive timers. Whoever sleeps is woken by tokio and then reads this.

use std::sync::{Arc, Mutex};

use super::{Clock, Source};
use crate::protocol::time::{BootId, BootInstant, Millis, Moment};

/// Sets the clock that was handed out. Clones set the same one.
#[derive(Clone, Debug)]
pub(crate) struct Manual(Arc<Mutex<Moment>>);

impl Manual {
    /// A clock that stands at `now`.
    pub(crate) fn at(now: Moment) -> Self {
        Self(Arc::new(Mutex::new(now)))
    }

    /// What is handed to whoever needs time.
    pub(crate) fn clock(&self) -> Clock {
        Clock(Source::Manual(self.clone()))
    }

    pub(crate) fn now(&self) -> Moment {
        *self.0.lock().unwrap()
    }

    /// Time passes on every clock, whether the machine works or sleeps meanwhile: that is what
    /// counting suspend means.
    pub(crate) fn pass(&self, length: Millis) {
        let mut now = self.0.lock().unwrap();
        now.boottime = now.boottime.after(length);
        now.wall_ms += length.0;
    }

    /// Somebody sets the wall clock.
    pub(crate) fn step_wall(&self, by_ms: i64) {
        let mut now = self.0.lock().unwrap();
        now.wall_ms = now.wall_ms.checked_add_signed(by_ms).unwrap();
    }

    /// The machine is off for that long, by the wall clock, and boots.
    pub(crate) fn reboot(&self, off: Millis) {
        let mut now = self.0.lock().unwrap();
        now.boot = BootId(now.boot.0 + 1);
        now.boottime = BootInstant(1_000);
        now.wall_ms += off.0;
    }
}
