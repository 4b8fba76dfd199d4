//! What a request for an effect is told, before it becomes HTTP.
//!
//! What always holds: one value for each way a request can end; the one place that turns it into
//! bytes and numbers is `reply`.
//!
//! What it does not do: anything.

use crate::protocol::ids::OperationKey;
use crate::protocol::operation::Completion;
use crate::protocol::outcome::Answer;
use crate::protocol::rejection::Rejection;

/// How a request for an effect ended.
#[derive(Debug)]
pub(crate) enum Told {
    /// Its own attempt was answered, and the record holds that answer.
    Answered {
        operation: OperationKey,
        answer: Answer,
        ending: Ending,
    },
    /// A stored outcome. `stale`: the caller's token is outdated. `joined`: it waited for it.
    Stored {
        operation: OperationKey,
        completion: Box<Completion>,
        stale: bool,
        joined: bool,
    },
    /// The upstream answered in a way that proves nothing, or the record did not commit in time.
    Ambiguous {
        operation: OperationKey,
        answer: Answer,
    },
    /// The rules said no; nothing was sent for this request.
    Refused {
        operation: OperationKey,
        rejection: Rejection,
    },
    /// It could not be carried out, or nobody knows.
    Fault {
        operation: OperationKey,
        fault: Fault,
    },
}

/// What the upstream's answer meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Applied,
    Refused,
    NotProcessed,
}

/// Ways to end without an answer of the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An attempt is under way and the caller's patience is over.
    InFlight,
    /// Nobody knows, and settling goes on.
    Uncertain,
    /// Nothing was sent: no connection.
    Unreachable,
    /// Nothing was sent: `dispatch-by` had passed.
    DispatchExpired,
    /// Nothing was sent: the register cannot commit.
    StoreUnavailable,
    /// Nothing was sent: the request cannot be put into HTTP/1.1 for this upstream.
    Unfit,
}
