//! Why a register writes nothing more.
//!
//! What always holds: it is said once, in the log, and never taken back while the process lives; the
//! first reason counts.
//!
//! What it does not do: stop anybody; whoever would write asks first.

use std::sync::{Arc, OnceLock};

/// Empty while the register is sound; shared by its writer, its readers and its door.
#[derive(Clone, Debug, Default)]
pub(super) struct Poison(Arc<OnceLock<String>>);

impl Poison {
    /// Why nothing is written; `None`: it is.
    pub(super) fn why(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }

    /// After a transaction that failed.
    pub(super) fn fail(&self, why: &str) {
        if self.0.set(why.to_owned()).is_ok() {
            tracing::error!(
                error = why,
                "the register is poisoned by a failed transaction: nothing more is written or admitted"
            );
        }
    }

    /// After damage was read.
    pub(super) fn spoil(&self, why: &str) {
        if self.0.set(why.to_owned()).is_ok() {
            tracing::error!(
                error = why,
                "the register is damaged, and poisoned by it: nothing more is written or admitted, \
                 because what it has forgotten would be sent again. Put a backup in its place"
            );
        }
    }
}
