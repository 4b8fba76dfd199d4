//! Who is dead: a sign of life that stays the same over several own reads which span the limit (contract
//! §8).
//!
//! What always holds: only the reader's own clock that counts suspend is asked, and only reads that were
//! answered count. So no jump of the database's clock kills anybody; and a reader that slept, stood still
//! or was cut off begins again: a gap between two of its reads proves nothing about the others, who may
//! have stood still with it.
//!
//! What it does not do: declare (a guarded write does, which the living outrun), or keep a promise: who is
//! declared dead may only be frozen.

use super::time::{BootInstant, Millis};

/// An instance counts as dead only after so many reads that showed the same.
pub const READS: u32 = 4;

/// What an instance has done to its row so far. Any change is a sign of life, also back: a restored register
/// kills nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sign {
    /// Beats, of one that has nothing else to write.
    pub beat: u64,
    /// Transactions.
    pub position: u64,
}

/// One read of all signs, on the reader's own clock that counts suspend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Before it was asked for.
    pub asked: BootInstant,
    /// After it was answered.
    pub answered: BootInstant,
}

/// How one instance looks to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    sign: Sign,
    since: BootInstant,
    last: Read,
    reads: u32,
}

impl Pulse {
    /// At first sight.
    pub fn first(sign: Sign, read: Read) -> Self {
        Self {
            sign,
            // It was so at some time between the two: the later one is the more careful.
            since: read.answered,
            last: read,
            reads: 1,
        }
    }

    /// At the next sight.
    #[must_use]
    pub fn then(self, sign: Sign, read: Read, limit: Millis) -> Self {
        let gap = read.answered.since(self.last.asked);
        if sign != self.sign || gap > limit.percent(50) {
            return Self::first(sign, read);
        }
        Self {
            last: read,
            reads: self.reads.saturating_add(1),
            ..self
        }
    }

    /// What was seen last.
    pub fn sign(&self) -> Sign {
        self.sign
    }

    /// Has it been the same for so long, as far as reads can say?
    pub fn is_dead(&self, limit: Millis) -> bool {
        self.reads >= READS && self.last.asked.since(self.since) >= limit
    }
}
