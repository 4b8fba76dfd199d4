//! Does anybody still want what is asked for?
//!
//! What always holds: whoever goes away says so by dropping his interest; nobody has to ask him.
//!
//! What it does not do: cancel anything. Whoever decides looks, at the last moment.

use std::sync::{Arc, Weak};

use super::StoreError;

/// Held by whoever wants something; dropping it says that nobody does any more.
#[derive(Debug)]
pub struct Interest(#[expect(dead_code, reason = "held, never read")] Arc<()>);

/// Sees whether somebody still wants something.
#[derive(Clone, Debug)]
pub struct Wanted(Weak<()>);

/// An interest, and the sight of it.
pub fn interest() -> (Interest, Wanted) {
    let held = Arc::new(());
    let seen = Arc::downgrade(&held);
    (Interest(held), Wanted(seen))
}

impl Wanted {
    /// Is it?
    pub fn still(&self) -> bool {
        self.0.strong_count() > 0
    }

    pub(super) fn withdrawn() -> StoreError {
        StoreError::Unavailable("withdrawn".to_owned())
    }
}
