//! Waiting for conditions: a bounded look.
//!
//! What always holds: no wait is unbounded, and one that ends unfulfilled says what it waited for.

use std::time::{Duration, Instant};

/// Longer than any honest wait here, on a machine ten times as slow.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Looks until there is something; panics with `what` when patience ends.
pub fn eventually<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    eventually_within(PATIENCE, what, look)
}

fn eventually_within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited {limit:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// The same for a plain condition.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    eventually(what, || holds().then_some(()));
}

/// The same for what cannot be before so much time has passed.
pub fn until_after(at_least: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    eventually_within(at_least + PATIENCE, what, || holds().then_some(()));
}
