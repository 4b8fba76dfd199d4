//! Whom the one that asked for an attempt hears from: once, with a report; or already while the answer
//! comes, where that is too large to keep.
//!
//! What always holds: a caller that saw the whole of such an answer saw a recorded one, and what its
//! head said of the operation is what the record says. Where that cannot be had, because the record
//! does not commit in time or says something else, the answer ends incomplete: its head has gone out
//! and can no longer be marked.
//!
//! What it does not do: read or word the answer.

use tokio::sync::oneshot;

use super::attempt::Report;
use super::gateway::Judge;
use crate::protocol::ids::AttemptId;
use crate::protocol::operation::State;
use crate::protocol::outcome::{Answer, AnswerClass};
use crate::upstream::{Oversized, Passing, PassingBody};

/// An answer too large to keep, for the one whose attempt brings it.
#[derive(Debug)]
pub struct PassedOn {
    /// The attempt.
    pub attempt: AttemptId,
    /// What its head proves; its content proves nothing, for it is not kept.
    pub class: AnswerClass,
    /// Its head.
    pub head: Answer,
    /// Length of its content in bytes, where the upstream said so.
    pub length: Option<u64>,
    /// Its content.
    pub content: Content,
}

/// Content whose last piece waits for the record.
pub struct Content {
    passing: Passing,
    released: oneshot::Receiver<()>,
}

impl Content {
    /// As it goes out.
    pub fn into_body(self) -> PassingBody {
        self.passing.held_until(self.released)
    }
}

/// Who is to hear of the end of an attempt.
pub(super) enum Telling<F> {
    /// Whoever asked for it, by a report.
    Report(F),
    /// Whoever asked for it and is reading the answer: by its last piece.
    LastPiece(LastPiece),
    /// Nobody, or nobody any more.
    Nobody,
}

/// The last piece of an answer that is passed on. Dropped, it never comes.
pub(super) struct LastPiece {
    attempt: AttemptId,
    class: AnswerClass,
    release: oneshot::Sender<()>,
}

impl<F: FnOnce(Report)> Telling<F> {
    /// The answer is too large to keep: whoever asked gets it as it comes.
    pub(super) fn pass_on(self, attempt: AttemptId, oversized: Oversized, judge: &Judge) -> Self {
        let Self::Report(tell) = self else {
            return self;
        };
        let head = Answer {
            status: oversized.status,
            fields: oversized.fields,
            body: None,
        };
        let class = judge.class_here(&head);
        let (release, released) = oneshot::channel();
        tell(Report::PassedOn(PassedOn {
            attempt,
            class,
            head,
            length: oversized.length,
            content: Content {
                passing: oversized.content,
                released,
            },
        }));
        Self::LastPiece(LastPiece {
            attempt,
            class,
            release,
        })
    }

    /// Splits off whoever can hear only once, now; and whoever is still reading, later.
    pub(super) fn now_and_later(self) -> (Self, Self) {
        match self {
            Self::Report(tell) => (Self::Report(tell), Self::Nobody),
            Self::LastPiece(piece) => (Self::Nobody, Self::LastPiece(piece)),
            Self::Nobody => (Self::Nobody, Self::Nobody),
        }
    }

    /// The record did not commit in time, or never will.
    pub(super) fn unrecorded(self, report: impl FnOnce() -> Report) {
        match self {
            Self::Report(tell) => tell(report()),
            // Dropped.
            Self::LastPiece(_) | Self::Nobody => {}
        }
    }

    /// The record says this now.
    pub(super) fn recorded(self, state: State, report: impl FnOnce(State) -> Report) {
        match self {
            Self::Report(tell) => tell(report(state)),
            Self::LastPiece(piece) => piece.recorded(&state),
            Self::Nobody => {}
        }
    }
}

impl LastPiece {
    fn recorded(self, state: &State) {
        let is_as_said = match (self.class, state) {
            // Its head says that it proves nothing.
            (AnswerClass::Ambiguous, _) => true,
            (
                AnswerClass::Applied | AnswerClass::Refused | AnswerClass::ConditionFailed,
                State::Completed(completion),
            ) => completion.is_answer_to(self.attempt),
            (AnswerClass::NotProcessed, State::NotApplied(_)) => true,
            (
                AnswerClass::Applied | AnswerClass::Refused | AnswerClass::ConditionFailed,
                State::Intended
                | State::Uncertain
                | State::NeedsAttention(_)
                | State::NotApplied(_),
            )
            | (
                AnswerClass::NotProcessed,
                State::Intended | State::Uncertain | State::NeedsAttention(_) | State::Completed(_),
            ) => false,
        };
        if is_as_said {
            // Whoever is gone misses it.
            let _gone = self.release.send(());
        }
    }
}

// Customer content never enters logs.
impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Content")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::protocol::ids::InstanceId;
    use crate::protocol::operation::{Completion, Parked, WhyNot};
    use crate::protocol::outcome::{Provenance, Verdict};

    fn attempt(number: u64) -> AttemptId {
        AttemptId {
            instance: InstanceId(1),
            number,
        }
    }

    fn completed(by: Option<AttemptId>) -> State {
        completed_as(Provenance::Answer, by)
    }

    fn completed_as(provenance: Provenance, by: Option<AttemptId>) -> State {
        State::Completed(Completion {
            verdict: Verdict::Applied,
            provenance,
            attempt: by,
            answer: None,
            at: Clock::system().unwrap().now(),
        })
    }

    fn is_released(class: AnswerClass, state: &State) -> bool {
        let (release, mut released) = oneshot::channel();
        let attempt = attempt(1);
        let piece = LastPiece {
            attempt,
            class,
            release,
        };
        piece.recorded(state);
        released.try_recv().is_ok()
    }

    /// Its head has gone out: whoever sees its end may believe that.
    #[test]
    fn the_last_piece_goes_where_the_record_says_what_the_head_said() {
        use AnswerClass::{Ambiguous, Applied, ConditionFailed, NotProcessed, Refused};
        let not_applied = State::NotApplied(WhyNot::NotProcessed(422));
        let states = [
            completed(Some(attempt(1))),
            completed(Some(attempt(2))),
            completed(None),
            not_applied,
            State::Uncertain,
            State::Intended,
            State::NeedsAttention(Parked::NoStep),
        ];
        for (class, expected) in [
            (Applied, [true, false, false, false, false, false, false]),
            (Refused, [true, false, false, false, false, false, false]),
            (
                ConditionFailed,
                [true, false, false, false, false, false, false],
            ),
            (
                NotProcessed,
                [false, false, false, true, false, false, false],
            ),
            // It said itself that it proves nothing.
            (Ambiguous, [true; 7]),
        ] {
            let released = states.each_ref().map(|state| is_released(class, state));
            assert_eq!(released, expected, "{class:?}");
            let found = completed_as(Provenance::LookUp, Some(attempt(1)));
            assert_eq!(is_released(class, &found), class == Ambiguous, "{class:?}");
        }
    }
}
