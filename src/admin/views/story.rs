//! The story of one operation, and what can still be done about it until when.
//!
//! What always holds: the story is the record and the operation's own log, in the order in which things
//! happened; what can be done is what the rules say here and now, not what is likely.
//!
//! What it does not do: show content, or do anything.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::words::{interruption, provenance, step, time, wall_time};
use super::{Looker, OperationView};
use crate::protocol::fence::Fence;
use crate::protocol::lease::LeaseFacts;
use crate::protocol::operation::{Attempt, AttemptEnd, IdentityOrigin, Operation, State};
use crate::protocol::outcome::Verdict;
use crate::protocol::plan::{self, Licence, Step};
use crate::protocol::time::{Millis, Moment};
use crate::store::Stored;

/// The story of one operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoryView {
    /// The operation.
    #[serde(flatten)]
    pub operation: OperationView,
    /// What happened, oldest first.
    pub story: Vec<LineView>,
    /// What can be done about it now, and what cannot.
    pub moves: Vec<MoveView>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineView {
    /// When.
    pub at: String,
    /// In words.
    pub text: String,
    /// To which attempt.
    pub attempt: Option<String>,
}

/// Something that can be done, or cannot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveView {
    /// What, in words.
    pub what: String,
    /// Can it?
    pub possible: bool,
    /// Why not, or what it needs.
    pub because: Option<String>,
    /// Until then.
    pub until: Option<String>,
    /// The same from now on.
    pub left_ms: Option<u64>,
    /// What to type.
    pub command: Option<String>,
}

struct Line<'a> {
    at: &'a Moment,
    text: String,
    attempt: Option<String>,
}

impl StoryView {
    /// As `looker` sees it. `fence`: that of its resource, if it has one.
    pub fn of(stored: &Stored, fence: Option<&Fence>, looker: &Looker) -> Self {
        let view = OperationView::of(&stored.operation, looker);
        Self {
            story: story(stored),
            moves: moves(&stored.operation, fence, looker, &view),
            operation: view,
        }
    }
}

fn story(stored: &Stored) -> Vec<LineView> {
    let operation = &stored.operation;
    let asked = Line {
        at: &operation.first_seen,
        text: asked_for(operation),
        attempt: None,
    };
    let attempts = operation.attempts.iter().map(|attempt| Line {
        at: &attempt.at,
        text: admitted(attempt),
        attempt: Some(attempt.id.to_string()),
    });
    let events = stored.events.iter().map(|event| Line {
        at: &event.at,
        text: event.text.clone(),
        attempt: event.attempt.map(|attempt| attempt.to_string()),
    });
    let ended = match &operation.state {
        State::Completed(completion) => Some(Line {
            at: &completion.at,
            text: format!(
                "COMPLETED: {}, by {}",
                match completion.verdict {
                    Verdict::Applied => "applied",
                    Verdict::Refused => "refused",
                },
                provenance(completion.provenance)
            ),
            attempt: completion.attempt.map(|attempt| attempt.to_string()),
        }),
        State::Intended | State::Uncertain | State::NeedsAttention(_) | State::NotApplied(_) => {
            None
        }
    };
    let mut lines: Vec<Line<'_>> = [asked]
        .into_iter()
        .chain(attempts)
        .chain(events)
        .chain(ended)
        .collect();
    // Stable: what happened within one millisecond stays as it is told.
    lines.sort_by_key(|line| line.at.wall_ms);
    let told = lines.into_iter().map(|line| LineView {
        at: time(line.at),
        text: line.text,
        attempt: line.attempt,
    });
    told.collect()
}

fn asked_for(operation: &Operation) -> String {
    let mut text = match operation.origin {
        IdentityOrigin::Caller => "asked for, under the caller's own key",
        IdentityOrigin::Derived => "asked for, under an identity made of the request",
        IdentityOrigin::Fresh => "asked for without a key: it has an identity of its own",
    }
    .to_owned();
    if let Some(place) = &operation.place {
        let token = place.token.as_ref();
        let token = token.map_or_else(
            || "without a token".to_owned(),
            |token| format!("with token {token}"),
        );
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            ", on {} as its admission {}, {token}",
            place.resource, place.number.0
        );
    }
    text
}

fn admitted(attempt: &Attempt) -> String {
    let what = if attempt.resend {
        "sent again"
    } else {
        "admitted to be sent"
    };
    let end = match attempt.end {
        AttemptEnd::Silent => "nothing is recorded of it yet".to_owned(),
        AttemptEnd::Open(phase, why) => format!(
            "{} while {}, and it still listens",
            interruption(why),
            phase.word()
        ),
        AttemptEnd::Closed(phase, why) => {
            format!("{} while {}", interruption(why), phase.word())
        }
        AttemptEnd::Ambiguous(status) => {
            format!("the upstream answered {status}, which proves nothing")
        }
        AttemptEnd::Disproved(by) => format!("no effect, by {}", provenance(by)),
    };
    format!("{what}, under key round {}: {end}", attempt.round.0)
}

fn moves(
    operation: &Operation,
    fence: Option<&Fence>,
    looker: &Looker,
    view: &OperationView,
) -> Vec<MoveView> {
    match &operation.state {
        State::Completed(_) => vec![MoveView::no(
            "change how it ended",
            "COMPLETED never changes: whoever repeats the request gets this outcome. If it is wrong, \
             correct it at the upstream",
        )],
        State::NotApplied(_) => vec![MoveView::yes("repeat the request").because(
            "it is admitted as new, under the same upstream key, so that a wrong verdict is still caught",
        )],
        State::Intended | State::Uncertain | State::NeedsAttention(_) => {
            unsettled(operation, fence, looker, view)
        }
    }
}

fn unsettled(
    operation: &Operation,
    fence: Option<&Fence>,
    looker: &Looker,
    view: &OperationView,
) -> Vec<MoveView> {
    let name = view.key().typed();
    let (lease, now) = (LeaseFacts::unknown(), &looker.now);
    let until = |left: Millis| (wall_time(now.wall_ms.saturating_add(left.0)), left.0);
    let mut moves = Vec::new();
    let acts_for = looker.may_act_for(operation);
    if let Some(left) = acts_for {
        let wait = MoveView::yes("wait for the attempt under way").until(until(left));
        moves.push(wait);
    }
    let next = plan::plan(operation, fence, &lease, &looker.living, now);
    let by_itself = "settle by itself";
    moves.push(match (&operation.state, &next) {
        (State::NeedsAttention(why), _) => MoveView::no(by_itself, why.reason()),
        (_, Step::Park(why)) => MoveView::no(by_itself, why.reason()),
        (_, other) => MoveView::yes(by_itself).because(&step(other)),
    });
    let attended = plan::room_for(operation, fence, &lease, now, Licence::Person);
    let send = "send the stored bytes again under the same key, because you say so";
    moves.push(match (attended, acts_for) {
        (_, Some(_)) => MoveView::no(send, "an attempt is under way"),
        (Ok(left), None) => MoveView::yes(send).until(until(left)).typing(format!(
            "fencepost operations settle {name} --send --reason '…'"
        )),
        (Err(why), None) => MoveView::no(send, why.reason()),
    });
    let resolve = "say how it ended";
    moves.push(match acts_for {
        Some(_) => MoveView::no(resolve, "an attempt is under way, and not overdue"),
        None => MoveView::yes(resolve)
            .because(
                "look at the upstream first. NOT_APPLIED keeps its key: while the upstream remembers that, \
                 a wrong verdict is still caught",
            )
            .typing(view.resolving()),
    });
    if let Some(left) = view.key_lifetime_left_ms {
        let what = "rely on the upstream's memory of its key";
        moves.push(if left == 0 {
            MoveView::no(
                what,
                "it may have forgotten the key: sent now, it could be another effect",
            )
        } else {
            MoveView::yes(what).until(until(Millis(left)))
        });
    }
    moves
}

impl MoveView {
    fn yes(what: &str) -> Self {
        Self {
            what: what.to_owned(),
            possible: true,
            because: None,
            until: None,
            left_ms: None,
            command: None,
        }
    }

    fn no(what: &str, because: &str) -> Self {
        Self {
            possible: false,
            ..Self::yes(what).because(because)
        }
    }

    fn because(mut self, why: &str) -> Self {
        self.because = Some(why.to_owned());
        self
    }

    fn until(mut self, (at, left_ms): (String, u64)) -> Self {
        self.until = Some(at);
        self.left_ms = Some(left_ms);
        self
    }

    fn typing(mut self, command: String) -> Self {
        self.command = Some(command);
        self
    }
}
