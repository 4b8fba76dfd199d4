//! How long what can still be done can be done.
//!
//! What always holds: whatever a clock leaves open counts as over.
//!
//! What it does not do: choose a step (`plan`).

use super::operation::Operation;
use super::time::{Millis, Moment};

/// The time that an upstream remembers a key, since it was first used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyClock {
    since: Moment,
    lifetime: Millis,
}

impl KeyClock {
    /// Of the operation's key. `None` where no key goes upstream, none was used yet, or nobody knows how long
    /// keys are remembered.
    pub fn of(operation: &Operation) -> Option<Self> {
        let lifetime = operation.settle.key.and_then(|key| key.lifetime)?;
        let (_, since) = operation.key_use.first.as_ref()?;
        Some(Self {
            since: *since,
            lifetime,
        })
    }

    /// What is left of it; zero once the key may be forgotten.
    pub fn left(&self, now: &Moment) -> Millis {
        let age = now.age_at_most(&self.since).unwrap_or(self.lifetime);
        Millis(self.lifetime.0.saturating_sub(age.0))
    }
}

/// How long the upstream still remembers the operation's key; zero once it may have forgotten it. `None` as for
/// [`KeyClock::of`].
pub fn lifetime_of_key(operation: &Operation, now: &Moment) -> Option<Millis> {
    Some(KeyClock::of(operation)?.left(now))
}
