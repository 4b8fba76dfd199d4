//! Which key of what is unsettled is forgotten first: every unsettled operation is looked at, again and again.
//!
//! What always holds: a page at a time, and for at most a tenth of the time, so that it costs the same however
//! much is unsettled: with 100 000 operations a walk takes the register about a second of work, spread over ten.
//! Where one page holds all of them, nobody walks: whoever asks what is pressing has seen them himself. What was
//! found ages on the clock, and is at most a walk and a pause old.
//!
//! What it does not do: settle anything, or speak of what is settled. One that was settled since the last walk
//! still counts until the next.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{PAGE, REST, Reconciler};
use crate::clock;
use crate::protocol::remaining::KeyClock;
use crate::protocol::time::{Millis, Moment};
use crate::store::{Backend, LOOKED_AT, Pressing, StoreError};

/// Between two walks.
const PAUSE: Duration = Duration::from_secs(20);

/// What the last walk found.
#[derive(Debug, Default)]
pub(super) struct Keys {
    least: Mutex<Option<KeyClock>>,
}

impl Keys {
    fn least(&self) -> MutexGuard<'_, Option<KeyClock>> {
        self.least.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reconciler {
    /// The least time that an upstream still remembers the key of an unsettled operation, by the last walk over
    /// those that are too many to be `pressing`; `None`: there was no such key, or none are too many.
    pub fn key_lifetime_left(&self, pressing: &Pressing, now: &Moment) -> Option<Millis> {
        if is_all(pressing) {
            return None;
        }
        let least = *self.keys.least();
        least.map(|key| key.left(now))
    }

    /// Walks until draining begins.
    pub(super) async fn walk_keys(&self) {
        while !self.dispatcher.supervisor.is_draining() {
            match self.walk().await {
                Ok(least) => *self.keys.least() = least,
                // Passes say so.
                Err(fault) => tracing::debug!(error = %fault, "the keys were not looked at"),
            }
            self.rest(PAUSE).await;
        }
    }

    async fn walk(&self) -> Result<Option<KeyClock>, StoreError> {
        let read = self.dispatcher.register.read();
        let mut walk = Walk::default();
        loop {
            let begun = clock::boottime();
            let now = self.dispatcher.clock.now();
            if walk.page(read, &now).await? || self.dispatcher.supervisor.is_draining() {
                return Ok(walk.least);
            }
            let took = Duration::from_millis(clock::boottime().since(begun).0);
            self.rest(took.saturating_mul(REST)).await;
        }
    }

    async fn rest(&self, length: Duration) {
        tokio::select! {
            () = tokio::time::sleep(length) => {}
            () = self.dispatcher.supervisor.draining() => {}
        }
    }
}

/// The same at once, where nobody walks: beside a register that no instance runs on.
pub async fn least_of_all(
    read: &dyn Backend,
    pressing: &Pressing,
    now: &Moment,
) -> Result<Option<Millis>, StoreError> {
    if is_all(pressing) {
        return Ok(None);
    }
    let mut walk = Walk::default();
    while !walk.page(read, now).await? {}
    Ok(walk.least.map(|key| key.left(now)))
}

/// How far one has come.
#[derive(Default)]
struct Walk {
    after: u64,
    least: Option<KeyClock>,
}

impl Walk {
    /// Looks at a page. Answers whether it was the last.
    async fn page(&mut self, read: &dyn Backend, now: &Moment) -> Result<bool, StoreError> {
        let page = read.unsettled(self.after, PAGE).await?;
        let keys = page.iter().filter_map(|(_, it)| KeyClock::of(it));
        self.least = keys.chain(self.least).min_by_key(|key| key.left(now));
        if let Some((last, _)) = page.last() {
            self.after = *last;
        }
        Ok(page.len() < PAGE)
    }
}

/// Are the oldest all that are unsettled?
fn is_all(pressing: &Pressing) -> bool {
    let counted: u64 = pressing.by_state.iter().map(|(_, count)| *count).sum();
    usize::try_from(counted).is_ok_and(|counted| counted <= LOOKED_AT)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::protocol::ids::InstanceId;
    use crate::store::Register;
    use crate::store::conformance::commands as c;
    use crate::store::memory::MemoryBackend;

    const INSTANCE: InstanceId = InstanceId(7);

    /// So many operations whose keys are remembered for a day, then one whose key is for an hour.
    async fn register(so_many: usize) -> Register {
        let register = Register::new(Arc::new(MemoryBackend::new(INSTANCE)));
        for number in 0..so_many {
            drop(
                register
                    .admit(c::admit(&format!("op-{number}"), INSTANCE))
                    .await,
            );
        }
        let mut short = c::admit("short", INSTANCE);
        let policy = Arc::make_mut(&mut short.policy);
        if let Some(key) = &mut policy.settle.key {
            key.lifetime = Some(Millis(3_600_000));
        }
        drop(register.admit(short).await);
        register
    }

    #[tokio::test]
    async fn the_key_that_is_forgotten_first_is_found_among_however_many() {
        let register = register(3 * PAGE).await;
        let pressing = register.read().pressing().await.unwrap();
        let now = c::at(600_000);
        // It is not among those that are looked at one by one.
        let seen = pressing.oldest.iter().filter_map(KeyClock::of);
        let seen = seen.map(|key| key.left(&now)).min();
        assert_eq!(seen, Some(Millis(86_400_000 - 600_000)));
        assert!(!is_all(&pressing));
        let least = least_of_all(register.read(), &pressing, &now)
            .await
            .unwrap();
        assert_eq!(least, Some(Millis(3_000_000)));
        // Nobody walks where whoever asks sees them all.
        let few = self::register(LOOKED_AT - 1).await;
        let few_pressing = few.read().pressing().await.unwrap();
        assert!(is_all(&few_pressing));
        let least = least_of_all(few.read(), &few_pressing, &now).await.unwrap();
        assert_eq!(least, None);
    }
}
