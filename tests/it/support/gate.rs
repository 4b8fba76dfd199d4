//! Waiting for conditions: a gate that a test opens, and a bounded look for anything else.
//!
//! What always holds: no wait is unbounded, and one that ends unfulfilled says what it waited for.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Longer than any honest wait here, on a machine ten times as slow.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Looks until there is something; panics with `what` when patience ends.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited {PATIENCE:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// The same for a plain condition.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    eventually(what, || holds().then_some(()));
}

/// A door that starts closed. Clones are the same door.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<Door>, Condvar)>);

#[derive(Default)]
struct Door {
    open: bool,
    waiting: usize,
}

impl Gate {
    /// A closed one.
    pub fn closed() -> Self {
        Self::default()
    }

    /// Lets everybody through, for good.
    pub fn open(&self) {
        let (door, changed) = &*self.0;
        door.lock().unwrap().open = true;
        changed.notify_all();
    }

    /// How many stand before it now.
    pub fn waiting(&self) -> usize {
        self.0.0.lock().unwrap().waiting
    }

    /// Returns when somebody stands before it.
    pub fn until_reached(&self) {
        until("somebody stands before the gate", || self.waiting() > 0);
    }

    /// Stands before it; `false` when patience ended first.
    pub fn pass(&self) -> bool {
        let (door, changed) = &*self.0;
        let mut door = door.lock().unwrap();
        door.waiting += 1;
        let (mut door, _) = changed
            .wait_timeout_while(door, PATIENCE, |door| !door.open)
            .unwrap();
        door.waiting -= 1;
        door.open
    }
}
