//! Keeping an open register: the witness is told how far it has come, what is old is forgotten; and at
//! the end it is closed.
//!
//! What always holds: the witness is told what was committed, after it was. A witness that cannot be
//! written stops nothing: it is said, and tried again.
//!
//! What it does not do: the work itself (`writer`).

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::Purged;
use super::SqliteBackend;
use super::witness::Sighting;
use super::writer::{EpochErrand, Errand, Tended};
use crate::store::{NewEpoch, StoreError};

/// How often the house is looked after: commits of so long can be lost in a restore unnoticed.
const EVERY: Duration = Duration::from_secs(1);

impl SqliteBackend {
    /// Looks after the register until it is poisoned or closed. `purged` is told what was forgotten.
    pub async fn keep(&self, purged: impl Fn(Purged)) {
        let mut forgotten = Purged::default();
        loop {
            match self.tend().await {
                Ok(tended) => {
                    purged(tended.purged);
                    forgotten.add(tended.purged);
                    if !tended.more && !forgotten.is_nothing() {
                        let Purged {
                            answers,
                            identities,
                        } = std::mem::take(&mut forgotten);
                        tracing::info!(answers, identities, "what was old was forgotten");
                    }
                }
                // It was said when it happened.
                Err(StoreError::Poisoned(_)) => return,
                Err(_) if self.errands.is_closed() => return,
                Err(error) => {
                    tracing::warn!(error = %error, "the register could not be looked after");
                }
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Looks after the register once: what was committed before is known to the witness afterwards.
    pub async fn tend(&self) -> Result<Tended, StoreError> {
        let tended = self.ask(Errand::Tend).await?;
        self.tell_witness(tended.sighting).await;
        Ok(tended)
    }

    /// A new epoch; the witness knows of it afterwards.
    pub(super) async fn try_begin_epoch(&self, new: &NewEpoch) -> Result<u64, StoreError> {
        let new = new.clone();
        let errand = |answer| Errand::Epoch(Box::new(EpochErrand { new, answer }));
        let begun = self.ask(errand).await?;
        self.tell_witness(begun).await;
        Ok(begun.epoch)
    }

    pub(super) async fn end(&self) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        // Closed already: nothing is left to wait for but the thread.
        let closed = match self.errands.send(Errand::Close(answer)).await {
            Ok(()) => answered.await.ok(),
            Err(_) => None,
        };
        let thread = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                return Err(StoreError::Unavailable(
                    "the register's writer ended in a panic".to_owned(),
                ));
            }
        }
        match closed {
            None => Ok(()),
            Some(Ok(sighting)) => {
                self.tell_witness(sighting).await;
                Ok(())
            }
            Some(Err(error)) => Err(error),
        }
    }

    async fn tell_witness(&self, seen: Sighting) {
        if self.is_looked_at {
            return;
        }
        let witness = Arc::clone(&self.witness);
        let told = tokio::task::spawn_blocking(move || {
            witness
                .write(seen)
                .map_err(|error| (witness.path().to_owned(), error))
        })
        .await;
        if let Ok(Err((path, error))) = told {
            tracing::warn!(
                path = %path.display(),
                error = %error,
                "the register's witness cannot be written: until it can, a restored register may go \
                 unnoticed"
            );
        }
    }
}
