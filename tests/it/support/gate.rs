//! Waiting for conditions: a gate that a test opens, or that opens by itself, and a bounded look for anything else.
//!
//! What always holds: no wait is unbounded, and one that ends unfulfilled says what it waited for.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

pub use crate::servers::waiting::{PATIENCE, eventually, until, until_after};

/// A door that starts closed. Clones are the same door.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<Door>, Condvar)>);

#[derive(Default)]
struct Door {
    open: bool,
    waiting: usize,
    /// So long after somebody came to it; `None`: never.
    opens_by_itself: Option<Duration>,
}

impl Gate {
    /// A closed one.
    pub fn closed() -> Self {
        Self::default()
    }

    /// One that opens by itself so long after somebody came to it: whoever stands there is slow.
    pub fn slow(by: Duration) -> Self {
        let door = Door {
            opens_by_itself: Some(by),
            ..Door::default()
        };
        Self(Arc::new((Mutex::new(door), Condvar::new())))
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
        let limit = door.opens_by_itself.unwrap_or(PATIENCE);
        let (mut door, _) = changed
            .wait_timeout_while(door, limit, |door| !door.open)
            .unwrap();
        door.waiting -= 1;
        door.open |= door.opens_by_itself.is_some();
        door.open
    }
}
