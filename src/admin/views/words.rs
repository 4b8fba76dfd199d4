//! The rules' values in the API's words.
//!
//! What always holds: every variant has a word of its own; a new one does not compile without.
//!
//! What it does not do: format for terminals (`cli`).

use std::time::{Duration, UNIX_EPOCH};

use crate::protocol::operation::{IdentityOrigin, State, WhyNot};
use crate::protocol::outcome::{Interruption, Provenance, Unsent};
use crate::protocol::plan::Step;
use crate::protocol::policy::Order;
use crate::protocol::time::Moment;
pub use crate::wire::shell::shell_word;

/// RFC 3339 in UTC, with milliseconds.
pub(in crate::admin) fn time(moment: &Moment) -> String {
    wall_time(moment.wall_ms)
}

/// The same of milliseconds since 1970.
pub(in crate::admin) fn wall_time(wall_ms: u64) -> String {
    /// 9999-12-31T23:59:59.999Z; beyond it there is no RFC 3339.
    const LAST_MS: u64 = 253_402_300_799_999;
    let since = Duration::from_millis(wall_ms.min(LAST_MS));
    humantime::format_rfc3339_millis(UNIX_EPOCH + since).to_string()
}

/// Lower-case hex.
pub(in crate::admin) fn hex(bytes: impl AsRef<[u8]>) -> String {
    use std::fmt::Write;
    bytes.as_ref().iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What the reconciler does next.
pub(in crate::admin) fn step(step: &Step) -> String {
    match step {
        Step::Nothing => "nothing is left to do".to_owned(),
        Step::Await => "an attempt is under way, or listens for its answer".to_owned(),
        Step::CloseThenPlan { .. } => {
            "its attempt still listens; then the next step is taken".to_owned()
        }
        Step::Resend { .. } => "the stored bytes are sent again under the same key".to_owned(),
        Step::Start { .. } => "the next step of settling has its turn".to_owned(),
        Step::Ask { .. } => "the upstream is asked how it ended".to_owned(),
        Step::Void { .. } => "the upstream is asked to undo it".to_owned(),
        Step::Listen { .. } => "a callback of the upstream is waited for".to_owned(),
        Step::Park(why) => format!("no step can help: {}", why.reason()),
    }
}

pub(in crate::admin) fn origin(origin: IdentityOrigin) -> &'static str {
    match origin {
        IdentityOrigin::Caller => "caller",
        IdentityOrigin::Derived => "derived",
        IdentityOrigin::Fresh => "fresh",
    }
}

pub(in crate::admin) fn order(order: Order) -> &'static str {
    match order {
        Order::Strict => "strict",
        Order::Free => "free",
    }
}

/// The contract's word.
pub(in crate::admin) fn provenance(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Answer => "answer",
        Provenance::LookUp => "look-up",
        Provenance::Callback => "callback",
        Provenance::Operator => "operator",
        Provenance::Void => "void",
    }
}

pub(in crate::admin) fn reason(state: &State) -> Option<String> {
    match state {
        State::NeedsAttention(why) => Some(why.reason().to_owned()),
        State::NotApplied(why) => Some(why_not(*why)),
        State::Intended | State::Uncertain | State::Completed(_) => None,
    }
}

fn why_not(why: WhyNot) -> String {
    match why {
        WhyNot::NotSent(Unsent::DispatchExpired) => "nothing was sent: dispatch expired".to_owned(),
        WhyNot::NotSent(Unsent::ConnectionLost) => {
            "nothing was sent: the connection was dead before the first byte".to_owned()
        }
        WhyNot::NotSent(Unsent::Unfit) => {
            "nothing was sent: the request could not be put into bytes for this upstream".to_owned()
        }
        WhyNot::NotSent(Unsent::AlreadySettled) => {
            "nothing was sent: it was settled before the first byte".to_owned()
        }
        WhyNot::NotProcessed(status) => {
            format!("the upstream answered {status}, which means not processed")
        }
        WhyNot::Said(by) => format!("no effect, by {}", provenance(by)),
    }
}

pub(in crate::admin) fn interruption(why: Interruption) -> &'static str {
    match why {
        Interruption::Timeout => "no answer in time",
        Interruption::Closed => "the connection was closed",
        Interruption::BadAnswer => "the answer was broken",
        Interruption::StrayBytes => "unsolicited bytes were readable",
        Interruption::ProcessGone => "the process was gone",
        Interruption::ClosedToSettle => "it was closed so that it could be settled",
    }
}
