//! From what was counted to what it proves.
//!
//! What always holds: *not sent* is said only when the kernel took no byte of the request since the
//! gate opened, or the gate never opened, **and** the connection is gone, so that none can follow. The
//! callers see to the second; an error's name decides neither. Everything else that is no answer is
//! an interruption, with the phase that the meter shows.
//!
//! What it does not do: say what evidence changes (`protocol::operation`).

use super::answer::Unusable;
use super::counted_io::{Facts, GateState, Refusal};
use super::exchange::Cut;
use crate::protocol::outcome::{Evidence, Interruption, Phase, Unsent};

/// What an exchange without an answer proves. The connection is gone.
pub(super) fn of_cut(facts: &Facts, cut: &Cut) -> Evidence {
    of_end(facts, reason(facts, cut))
}

/// What an attempt proves that was given up for `why`. The connection is gone.
pub(super) fn of_end(facts: &Facts, why: Interruption) -> Evidence {
    match unsent(facts) {
        Some(unsent) => Evidence::NotSent(unsent),
        None => of_silence(facts, why),
    }
}

/// What an attempt shows whose connection is still open.
pub(super) fn of_silence(facts: &Facts, why: Interruption) -> Evidence {
    Evidence::Interrupted {
        phase: phase(facts),
        why,
    }
}

fn unsent(facts: &Facts) -> Option<Unsent> {
    match facts.gate {
        GateState::Refused(Refusal::Expired) => Some(Unsent::DispatchExpired),
        GateState::Shut | GateState::Armed(_) | GateState::Refused(Refusal::Unusable) => {
            Some(Unsent::ConnectionLost)
        }
        GateState::Open if facts.sent == 0 => Some(Unsent::ConnectionLost),
        GateState::Open => None,
    }
}

fn phase(facts: &Facts) -> Phase {
    if facts.head_came {
        Phase::Receiving
    } else if facts.all_sent() {
        Phase::Waiting
    } else {
        Phase::Sending
    }
}

/// For people: did the upstream say nothing, or nothing that can be understood?
fn reason(facts: &Facts, cut: &Cut) -> Interruption {
    match cut {
        Cut::Answer(Unusable::NotFinal(_) | Unusable::Unframed | Unusable::CutShort(_)) => {
            Interruption::BadAnswer
        }
        Cut::BeforeHead(error) if error.is_parse() || facts.received > 0 => Interruption::BadAnswer,
        Cut::BeforeHead(_) => Interruption::Closed,
    }
}
