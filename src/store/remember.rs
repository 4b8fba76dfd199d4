//! How long a register remembers, and what it has forgotten.
//!
//! What always holds: an identity is remembered at least as long as its answer (the config sees to it).
//!
//! What it does not do: forget (each backend does).

use crate::protocol::time::Millis;

/// How long a settled operation is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remember {
    /// With its answer.
    pub answers: Millis,
    /// At all; not shorter.
    pub identities: Millis,
}

/// What was forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// So many answers.
    pub answers: u64,
    /// So many identities.
    pub identities: u64,
}

impl Purged {
    pub(super) fn add(&mut self, more: Self) {
        self.answers = self.answers.saturating_add(more.answers);
        self.identities = self.identities.saturating_add(more.identities);
    }

    /// Was nothing forgotten?
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}
