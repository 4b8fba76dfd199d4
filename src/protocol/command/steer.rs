//! What a person asks of a resource, and what he is answered.
//!
//! What always holds: it carries who asks and why. A refusal says enough to ask better.
//!
//! What it does not do: decide (`protocol::steer`, `protocol::accept`, `protocol::repair`).

use crate::protocol::fence::Fence;
use crate::protocol::ids::{
    FencingToken, Incarnation, OperationId, OperationKey, ResourceKey, TokenSource,
};
use crate::protocol::time::Moment;
use crate::protocol::view::Unsettled;

/// A person cancels, advances or reopens a resource, lets a token in, or repairs it after one.
#[derive(Clone, Debug)]
pub struct Steer {
    /// Which resource; one that nobody has seen yet can be cancelled too.
    pub resource: ResourceKey,
    /// What becomes of it.
    pub how: Steering,
    /// Who.
    pub operator: String,
    /// Why; never empty.
    pub reason: String,
    /// When.
    pub at: Moment,
}

/// What a person does with a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Steering {
    /// Nothing is admitted any more, until it is reopened. Durable.
    Cancel,
    /// All present holders are cut off: only a token above the mark is valid.
    Advance,
    /// A cancelled resource admits again, in a new incarnation that keeps the mark.
    Reopen,
    /// A token that could not be placed is let in.
    Accept {
        /// Which; the mark rises to exactly this one.
        token: FencingToken,
        /// Who issued it; `None`: who issues the tokens of the resource.
        source: Option<TokenSource>,
    },
    /// A resource that a wild token raised begins again at the highest genuine one.
    Repair {
        /// That one; `None`: the highest that the register itself has issued.
        to: Option<FencingToken>,
        /// COMPLETED operations above it that he answers for: they do not count.
        disown: Vec<OperationId>,
    },
}

/// What an operator who steered a resource is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Steered {
    /// Done.
    Done {
        /// The incarnation it is in now.
        incarnation: Incarnation,
        /// The mark, which never goes down within an incarnation.
        mark: Option<FencingToken>,
        /// Is the mark itself cut off?
        closed: bool,
        /// Operations that are not settled, in order of admission: what was admitted before may still
        /// leave until its own dispatch-by, and nothing of it after.
        in_flight: Vec<Unsettled>,
    },
    /// There is nothing to reopen.
    NotCancelled,
    /// The token is not let in.
    NotAccepted(NotAccepted),
    /// It is not repaired.
    NotRepaired(NotRepaired),
}

/// Why a token is not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAccepted {
    /// The resource is cancelled.
    Cancelled,
    /// It is not above the mark.
    NotAbove(FencingToken),
    /// It is of a lower epoch than the one in force.
    EarlierEpoch(u64),
    /// It is of a higher epoch than the one in force.
    LaterEpoch(u64),
    /// The tokens of the resource are issued by another, and a change takes a new epoch.
    OtherSource(TokenSource),
    /// Its tokens were the register's own, no token of this epoch was seen, and nobody says who issued this one.
    SourceIsMissing,
    /// No token of the built-in source could follow it.
    TheLast,
}

/// Why a resource is not repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotRepaired {
    /// No token was ever presented for it.
    NoMark,
    /// It is cancelled: it is reopened first.
    Cancelled,
    /// Its tokens come from elsewhere: only a person can say which was the highest genuine one.
    ToIsMissing,
    /// Its tokens are the register's own: the highest one that it issued is known, and is another.
    Issued(FencingToken),
    /// It does not lie below the mark: there is nothing to repair.
    NotBelow(FencingToken),
    /// These were applied under higher tokens in this incarnation, highest first; nobody has disowned them.
    /// `more`: there are others.
    Applied {
        /// The highest of them.
        operations: Vec<Applied>,
        /// Are there more than are named, or than can be disowned at once?
        more: bool,
    },
}

/// An operation that was applied, and under which token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Which.
    pub key: OperationKey,
    /// Under which.
    pub token: FencingToken,
}

impl Steering {
    /// Where a repair of this fence would begin; `None`: it is no repair, or nobody says.
    pub fn repairs_to(&self, fence: &Fence) -> Option<FencingToken> {
        match self {
            Self::Repair { to, .. } if fence.is_own() => to.or(fence.issued),
            Self::Repair { to, .. } => *to,
            Self::Cancel | Self::Advance | Self::Reopen | Self::Accept { .. } => None,
        }
    }
}
