//! What a command is about: whose operation, and what of the register it needs to see.
//!
//! What always holds: every command is named, so that a new one does not compile until it says so.
//!
//! What it does not do: decide.

use super::Command;
use crate::protocol::ids::OperationKey;
use crate::protocol::lease::Wish;

impl Command {
    /// May an attempt come of it, or an undo, or the right to make some? Nothing of that is granted where it is not
    /// certain what was granted before: by a register that may have gone back, in an epoch that is over, or without
    /// room for what would have to be recorded.
    pub fn asks_for_attempt(&self) -> bool {
        match self {
            Self::Admit(_) | Self::Resend(_) | Self::BeginVoid(_) => true,
            Self::Lease(leasing) => match leasing.wish {
                Wish::Acquire { .. } | Wish::Renew { .. } => true,
                Wish::Release { .. } => false,
            },
            Self::Record(_)
            | Self::Park(_)
            | Self::Start(_)
            | Self::Find(_)
            | Self::Voided(_)
            | Self::TakeUp(_)
            | Self::Resolve(_)
            | Self::Steer(_)
            | Self::Note(_) => false,
        }
    }

    /// Does what is decided depend on the fence?
    pub fn reads_fence(&self) -> bool {
        match self {
            Self::Admit(_)
            | Self::Resend(_)
            | Self::Park(_)
            | Self::TakeUp(_)
            | Self::Steer(_)
            | Self::Lease(_) => true,
            Self::Record(_)
            | Self::Start(_)
            | Self::Find(_)
            | Self::BeginVoid(_)
            | Self::Voided(_)
            | Self::Resolve(_)
            | Self::Note(_) => false,
        }
    }

    /// Whose operation it is about; `None` for one that is about a resource. An admission's is within
    /// incarnation 0.
    pub fn operation(&self) -> Option<&OperationKey> {
        match self {
            Self::Admit(admit) => Some(&admit.key),
            Self::Record(record) => Some(&record.key),
            Self::Resend(resend) => Some(&resend.key),
            Self::Park(park) => Some(&park.key),
            Self::Start(start) => Some(&start.key),
            Self::Find(finding) => Some(&finding.key),
            Self::BeginVoid(begin) => Some(&begin.key),
            Self::Voided(voided) => Some(&voided.key),
            Self::TakeUp(taking) => Some(&taking.key),
            Self::Resolve(resolve) => Some(&resolve.key),
            Self::Note(note) => Some(&note.key),
            Self::Steer(_) | Self::Lease(_) => None,
        }
    }
}
