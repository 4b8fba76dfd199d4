//! What the register of a world holds, with its hash.
//!
//! What always holds: the hash is taken once, when it is written; states that hold the same share it. It is of all 64
//! bits that tell states apart (`mixer`), so nothing is told apart less well for it.

use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use super::mixer::hash;

/// Something that is written once and read in many states.
#[derive(Debug)]
pub struct Kept<T> {
    hash: u64,
    it: Arc<T>,
}

impl<T: Hash> Kept<T> {
    pub fn new(it: T) -> Self {
        Self {
            hash: hash(&it),
            it: Arc::new(it),
        }
    }
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self {
            hash: self.hash,
            it: Arc::clone(&self.it),
        }
    }
}

impl<T> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.it
    }
}

impl<T: PartialEq> PartialEq for Kept<T> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && (Arc::ptr_eq(&self.it, &other.it) || self.it == other.it)
    }
}

impl<T: Eq> Eq for Kept<T> {}

impl<T> Hash for Kept<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}
