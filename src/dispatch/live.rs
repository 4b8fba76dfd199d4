//! A value that is replaced as a whole while others use it.
//!
//! What always holds: whoever reads gets one whole value and keeps it for as long as he likes; who
//! reads after a replacement gets the new one. No lock is held while a value is used.
//!
//! What it does not do: tell anybody that it was replaced.

use std::sync::{Arc, PoisonError, RwLock};

/// The value in force. Clones share it.
#[derive(Debug)]
pub struct Live<T>(Arc<RwLock<Arc<T>>>);

impl<T> Live<T> {
    /// With a first value.
    pub fn new(value: Arc<T>) -> Self {
        Self(Arc::new(RwLock::new(value)))
    }

    /// The value in force now.
    pub fn now(&self) -> Arc<T> {
        // Nothing that could panic is done under the lock.
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another in force.
    pub fn replace(&self, value: Arc<T>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = value;
    }
}

impl<T> Clone for Live<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
