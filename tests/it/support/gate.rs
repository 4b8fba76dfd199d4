//! Waiting for conditions: a gate that a test opens, and a bounded look for anything else.
//!
//! What always holds: no wait is unbounded, and one that ends unfulfilled says what it waited for.

use std::sync::{Arc, Condvar, Mutex};

pub use crate::servers::waiting::{PATIENCE, eventually, until, until_after};

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
