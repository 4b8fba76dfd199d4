//! Where admissions pass one config at a time: the moment at which identities may change.
//!
//! What always holds: an admission is asked for under the names that are in force at that moment, and
//! while it is asked for they stay in force. A request that was named before a change is not admitted
//! after it. So whoever changes names sees every operation of the old ones in the register.
//!
//! What it does not do: decide whether they may change (`app::reload`).

use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// Counts the changes of names. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Turnstile(Arc<RwLock<u64>>);

/// The names that a request was identified by.
#[derive(Clone, Debug, Default)]
pub struct Names {
    turnstile: Turnstile,
    since: u64,
}

/// Names stay in force while this is held.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "holding it is its use")] OwnedRwLockReadGuard<u64>);

/// Nobody passes while this is held.
#[derive(Debug)]
pub struct Closed {
    turnstile: Turnstile,
    since: OwnedRwLockWriteGuard<u64>,
}

impl Turnstile {
    /// The names in force.
    pub async fn names(&self) -> Names {
        Names {
            turnstile: self.clone(),
            since: *self.0.read().await,
        }
    }

    /// Waits until nobody is passing, and lets nobody pass.
    pub async fn close(&self) -> Closed {
        Closed {
            turnstile: self.clone(),
            since: Arc::clone(&self.0).write_owned().await,
        }
    }
}

impl Names {
    /// Passes, if these names are still in force.
    pub async fn hold(&self) -> Option<Held> {
        let now = Arc::clone(&self.turnstile.0).read_owned().await;
        (*now == self.since).then_some(Held(now))
    }
}

impl Closed {
    /// From now on there are other names: these.
    pub fn change(&mut self) -> Names {
        *self.since = self.since.wrapping_add(1);
        Names {
            turnstile: self.turnstile.clone(),
            since: *self.since,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn old_names_do_not_pass_after_a_change_and_nobody_passes_during_it() {
        let turnstile = Turnstile::default();
        let old = turnstile.names().await;
        let passing = old.hold().await.unwrap();
        let closing = turnstile.close();
        tokio::pin!(closing);
        assert!(is_pending(closing.as_mut()).await, "somebody is passing");
        drop(passing);
        let mut closed = closing.await;
        let new = closed.change();
        let waiting = new.hold();
        tokio::pin!(waiting);
        assert!(is_pending(waiting.as_mut()).await, "it is closed");
        drop(closed);
        assert!(waiting.await.is_some());
        assert!(old.hold().await.is_none());
        assert!(turnstile.names().await.hold().await.is_some());
    }

    /// Is it still pending?
    async fn is_pending(future: std::pin::Pin<&mut impl Future>) -> bool {
        tokio::select! {
            biased;
            _ = future => false,
            () = std::future::ready(()) => true,
        }
    }
}
