//! An operator starts a new epoch: what he says, and how it is told.
//!
//! What always holds: an epoch is the whole register's, of every tenant; it only counts up, by one.
//!
//! What it does not do: write it down (each backend does), or judge tokens by it (`protocol`).

use super::StoreError;
use crate::protocol::time::Moment;

/// Epochs stay below this, as all numbers of tokens do.
const LIMIT: u64 = 1 << 63;

/// An operator wants a new epoch.
#[derive(Clone, Debug)]
pub struct NewEpoch {
    /// Who.
    pub operator: String,
    /// Why; never empty.
    pub reason: String,
    /// When.
    pub at: Moment,
}

impl NewEpoch {
    /// For the history of the register.
    pub(super) fn told(&self, epoch: u64) -> String {
        let Self {
            operator, reason, ..
        } = self;
        format!("epoch {epoch} begins, as {operator} says: {reason}")
    }
}

/// The one that follows.
pub(super) fn after(epoch: u64) -> Result<u64, StoreError> {
    let next = epoch.checked_add(1).filter(|next| *next < LIMIT);
    next.ok_or_else(|| StoreError::Unavailable("there is no epoch after this one".to_owned()))
}
