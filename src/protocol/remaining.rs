//! How long what can still be done can be done.
//!
//! What always holds: whatever a clock leaves open counts as over.
//!
//! What it does not do: choose a step (`plan`).

use super::operation::Operation;
use super::time::{Millis, Moment};

/// How long the upstream still remembers the operation's key; zero once it may have forgotten it. `None`
/// where no key goes upstream, none was used yet, or nobody knows how long keys are remembered.
pub fn lifetime_of_key(operation: &Operation, now: &Moment) -> Option<Millis> {
    let lifetime = operation.settle.key.and_then(|key| key.lifetime)?;
    let (_, since) = operation.key_use.first.as_ref()?;
    let age = now.age_at_most(since).unwrap_or(lifetime);
    Some(Millis(lifetime.0.saturating_sub(age.0)))
}
