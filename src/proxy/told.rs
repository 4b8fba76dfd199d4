//! What a request for an effect is told, and how that counts.
//!
//! What always holds: every way a request can end passes through here, so that what callers see and
//! what the metrics count cannot differ.
//!
//! What it does not do: word anything (`wire::answer`, `wire::problem`).

use http::{HeaderValue, StatusCode};

use crate::config::Protect;
use crate::dispatch::passing::{self, PassedOn};
use crate::expression::Member;
use crate::observe::counts::Finding;
use crate::protocol::ids::{AttemptId, OperationKey, ResourceKey};
use crate::protocol::operation::{Completion, State};
use crate::protocol::outcome::{AnswerClass, Evidence, Verdict};
use crate::protocol::rejection::Rejection;
use crate::telemetry::metrics::{Answered, Metrics, RouteLabels};
use crate::wire::answer::{self, Ended, Listener};
use crate::wire::identify::Identified;
use crate::wire::problem::{self, About, Fault, Row};
use crate::wire::reply::{JOINED, Reply};
use crate::wire::stamp::Standing;

/// How a request for an effect ended.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) reply: Reply,
    /// Content that follows the reply's, where it is too large to keep.
    pub(super) passing: Option<Passing>,
    pub(super) counted: Counted,
}

/// Content that is passed on as it comes.
#[derive(Debug)]
pub(super) struct Passing {
    /// In bytes, where the upstream said so.
    pub(super) length: Option<u64>,
    pub(super) content: passing::Content,
}

impl Told {
    fn whole(reply: Reply, counted: Counted) -> Self {
        Self {
            reply,
            passing: None,
            counted,
        }
    }
}

/// How it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// It was let in and answered.
    Answered(Answered),
    /// It was refused, or could not be served: the problem's name.
    Rejected(&'static str),
}

impl Told {
    /// Its operation goes on without its caller. It counts once it has ended.
    pub(super) fn accepted(key: &OperationKey) -> Self {
        Self::whole(Reply::accepted(key), Counted::Answered(Answered::Uncertain))
    }

    /// The caller had no key, and is told of an equal request that had none either.
    pub(super) fn joined_blindly(mut self) -> Self {
        let value = HeaderValue::from_static("blind-retry");
        self.reply.headers.insert(JOINED, value);
        self
    }
}

/// Tells callers of one request.
#[derive(Clone, Debug)]
pub(super) struct Teller {
    /// Its resource, if fenced.
    pub(super) resource: Option<ResourceKey>,
    /// Where its token belongs, if fenced.
    pub(super) token: Option<Member>,
    /// Which token it was stamped with.
    pub(super) stamped: Option<Standing>,
    /// The route's status for `outcome-uncertain`.
    pub(super) uncertain_status: StatusCode,
}

impl Teller {
    /// Of a request to an effect.
    pub(super) fn of(identified: &Identified, protect: &Protect) -> Self {
        Self {
            resource: identified.resource().cloned(),
            token: protect.fence.as_ref().map(|fence| fence.token.clone()),
            stamped: identified.stamped,
            uncertain_status: StatusCode::from_u16(protect.uncertain_status)
                .unwrap_or(StatusCode::GATEWAY_TIMEOUT),
        }
    }

    /// The rules said no; nothing was sent for this request.
    pub(super) fn refused(&self, key: &OperationKey, rejection: &Rejection) -> Told {
        let reply = problem::refused(rejection, self.about(key));
        Told::whole(
            reply,
            Counted::Rejected(Row::of_rejection(rejection).name()),
        )
    }

    /// The identity is of another request. `differs`: in what, by name; empty where that is not known.
    pub(super) fn reused(&self, key: &OperationKey, differs: &[String]) -> Told {
        let about = About {
            differs,
            ..self.about(key)
        };
        let rejection = Rejection::KeyReused;
        let reply = problem::refused(&rejection, about);
        Told::whole(
            reply,
            Counted::Rejected(Row::of_rejection(&rejection).name()),
        )
    }

    /// It could not be carried out.
    pub(super) fn fault(&self, key: &OperationKey, fault: &Fault) -> Told {
        let reply = problem::fault(fault, self.about(key));
        Told::whole(reply, Counted::Rejected(Row::of_fault(fault).name()))
    }

    /// Nobody knows, and settling goes on.
    pub(super) fn uncertain(&self, key: &OperationKey) -> Told {
        let status = self.uncertain_status;
        let told = self.fault(key, &Fault::OutcomeUncertain { status });
        Told {
            counted: Counted::Answered(Answered::Uncertain),
            ..told
        }
    }

    /// A stored outcome.
    pub(super) fn stored(
        key: &OperationKey,
        completion: &Completion,
        stale: bool,
        answered: Answered,
    ) -> Told {
        let reply = answer::replay(key, completion, stale);
        Told::whole(reply, Counted::Answered(answered))
    }

    /// The end of an attempt. `state`: what the record holds; `None` if it could not be recorded.
    pub(super) fn ended(
        &self,
        key: &OperationKey,
        attempt: AttemptId,
        state: Option<&State>,
        evidence: &Evidence,
        listener: Listener,
    ) -> Told {
        let ended = Ended {
            key,
            resource: self.resource.as_ref(),
            attempt,
            evidence,
            state,
            uncertain_status: self.uncertain_status,
        };
        let reply = answer::ended(&ended, listener);
        let own = match state {
            Some(State::Completed(completion)) => match completion.verdict {
                Verdict::Applied => Answered::Applied,
                Verdict::Refused => Answered::Refused,
            },
            Some(State::NotApplied(_)) => Answered::NotApplied,
            Some(State::Intended | State::Uncertain | State::NeedsAttention(_)) | None => {
                Answered::Uncertain
            }
        };
        let answered = match listener {
            Listener::Sender => own,
            Listener::Joiner => Answered::Joined,
        };
        Told::whole(reply, Counted::Answered(answered))
    }

    /// An answer too large to keep, while it comes. It counts as what its head says; what becomes of
    /// its record is not known yet.
    pub(super) fn passed_on(key: &OperationKey, passed: PassedOn) -> Told {
        let uncertain = passed.class == AnswerClass::Ambiguous;
        let answered = match passed.class {
            AnswerClass::Applied => Answered::Applied,
            AnswerClass::Refused | AnswerClass::ConditionFailed => Answered::Refused,
            AnswerClass::NotProcessed => Answered::NotApplied,
            AnswerClass::Ambiguous => Answered::Uncertain,
        };
        Told {
            reply: answer::passing(key, &passed.head, uncertain),
            passing: Some(Passing {
                length: passed.length,
                content: passed.content,
            }),
            counted: Counted::Answered(answered),
        }
    }

    fn about<'a>(&'a self, key: &'a OperationKey) -> About<'a> {
        About {
            operation: Some(key),
            resource: self.resource.as_ref(),
            token: self.token.as_ref(),
            stamped: self.stamped,
            differs: &[],
        }
    }
}

impl Counted {
    /// What it is in the report, if anything.
    pub(super) fn finding(self) -> Option<Finding> {
        match self {
            Self::Answered(Answered::Applied | Answered::Refused | Answered::NotApplied) => None,
            Self::Answered(Answered::Uncertain) => Some(Finding::InDoubt),
            Self::Answered(Answered::Replayed) => Some(Finding::Replayed),
            Self::Answered(Answered::Joined) => Some(Finding::Joined),
            Self::Rejected(reason) => Some(Finding::Refused(reason.into())),
        }
    }

    /// Counts it.
    pub(super) fn count(self, metrics: &Metrics, route: &RouteLabels) {
        match self {
            Self::Answered(answered) => metrics.operation_ended(route, answered),
            Self::Rejected(reason) => metrics.rejected(route, reason),
        }
    }
}
