//! What the caller of an effect is told when its operation has come somewhere.
//!
//! What always holds: a caller is told what the *record* holds, not what its own attempt read; the
//! sender of a completed attempt gets the upstream's answer whole; everybody else gets it as a
//! replay: same status, same fields but for those that belonged to the first exchange, same content.
//! An answer that proves nothing reaches the caller as the upstream sent it, and says so.
//!
//! Dropped from a replay: `Set-Cookie`, `WWW-Authenticate`, `Proxy-*` (they belong to the first
//! caller), `Date`, `Age`, and rate-limit fields (they spoke of another moment). Content codings stay
//! as they are: content is not taken apart, and its field says what it is.
//!
//! What it does not do: record anything, or word problems (`problem`).

use http::header::LOCATION;
use http::{HeaderValue, StatusCode};

use super::hygiene::answers;
use super::problem::{self, About, Fault};
use super::reply::{BODY, COMPLETED, PROVENANCE, REPLAYED, Reply, STATE, Source, rfc3339, word};
use crate::protocol::ids::{AttemptId, OperationKey, ResourceKey};
use crate::protocol::operation::{Completion, State};
use crate::protocol::outcome::{Answer, AnswerClass, Evidence, Unsent};
use crate::protocol::rejection::{Expired, Rejection};

/// How one attempt ended, and what the record made of it.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// The operation.
    pub key: &'a OperationKey,
    /// Its resource, if fenced.
    pub resource: Option<&'a ResourceKey>,
    /// The attempt.
    pub attempt: AttemptId,
    /// What it showed.
    pub evidence: &'a Evidence,
    /// Where the operation stands after that was recorded; `None` if it could not be recorded, or
    /// not in time.
    pub state: Option<&'a State>,
    /// The route's status for `outcome-uncertain`.
    pub uncertain_status: StatusCode,
}

/// Who is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Listener {
    /// Whose request made the attempt.
    Sender,
    /// Who joined it.
    Joiner,
}

/// The reply to a caller that waited for an attempt to end.
pub fn ended(end: &Ended<'_>, listener: Listener) -> Reply {
    match end.state {
        Some(State::Completed(completion)) => {
            let own = completion.is_answer_to(end.attempt);
            match (&completion.answer, listener) {
                (Some(answer), Listener::Sender) if own => first(end.key, answer),
                _ => replay(end.key, completion, false),
            }
        }
        Some(State::NotApplied(_)) => not_applied(end, listener),
        Some(State::NeedsAttention(_)) => uncertain(end, listener).unwrap_or_else(|| {
            let rejection = Rejection::NeedsAttention(Box::new(end.key.clone()));
            problem::refused(&rejection, about(end))
        }),
        Some(State::Intended | State::Uncertain) | None => {
            uncertain(end, listener).unwrap_or_else(|| unknown(end))
        }
    }
}

/// The reply to a caller whose operation had ended before it asked. `stale`: its token is outdated;
/// it learns the first owner's outcome, and that it must not go on.
pub fn replay(key: &OperationKey, completion: &Completion, stale: bool) -> Reply {
    let Some(answer) = &completion.answer else {
        let expired = Expired::of(key.clone(), completion);
        let rejection = Rejection::AnswerExpired(Box::new(expired));
        return problem::refused(&rejection, About::default());
    };
    let mut reply = again(key, answer);
    let headers = &mut reply.headers;
    headers.insert(
        PROVENANCE,
        HeaderValue::from_static(word(completion.provenance)),
    );
    if let Ok(time) = HeaderValue::try_from(rfc3339(completion.at.wall_ms)) {
        headers.insert(COMPLETED, time);
    }
    if stale {
        headers.insert(STATE, HeaderValue::from_static("stale-token"));
    }
    reply
}

/// No attempt had an effect. The upstream's own words say it best.
fn not_applied(end: &Ended<'_>, listener: Listener) -> Reply {
    match end.evidence {
        Evidence::Answered { answer, .. } => given(end.key, answer, listener),
        Evidence::NotSent(Unsent::DispatchExpired | Unsent::AlreadySettled) => {
            problem::fault(&Fault::DispatchExpired, about(end))
        }
        Evidence::NotSent(Unsent::ConnectionLost) => {
            problem::fault(&Fault::UpstreamUnreachable, about(end))
        }
        Evidence::NotSent(Unsent::Unfit) => {
            let why = "It cannot be put into HTTP/1.1 for this upstream";
            problem::fault(&Fault::NoRoute { why }, about(end))
        }
        // Somebody else said so while this attempt was under way: for its caller, asking again is
        // right either way.
        Evidence::Interrupted { .. } => unknown(end),
    }
}

/// The upstream's answer, marked; `None` if there is none.
fn uncertain(end: &Ended<'_>, listener: Listener) -> Option<Reply> {
    let Evidence::Answered { answer, class } = end.evidence else {
        return None;
    };
    // It was applied, and may be undone by now: nobody shall take it for done.
    if *class == AnswerClass::Applied && end.state.is_some() {
        return None;
    }
    let mut reply = given(end.key, answer, listener);
    mark_uncertain(&mut reply, end.key);
    Some(reply)
}

fn unknown(end: &Ended<'_>) -> Reply {
    let status = end.uncertain_status;
    problem::fault(&Fault::OutcomeUncertain { status }, about(end))
}

fn about<'a>(end: &Ended<'a>) -> About<'a> {
    About {
        operation: Some(end.key),
        resource: end.resource,
        ..About::default()
    }
}

/// The head of an answer too large to keep, for the one whose attempt brings it, while its content still
/// comes. `uncertain`: it proves nothing.
pub fn passing(key: &OperationKey, head: &Answer, uncertain: bool) -> Reply {
    let mut reply = answered(key, head, Source::Upstream, true, |_| true);
    if uncertain {
        mark_uncertain(&mut reply, key);
    }
    reply
}

fn mark_uncertain(reply: &mut Reply, key: &OperationKey) {
    let headers = &mut reply.headers;
    headers.insert(STATE, HeaderValue::from_static("uncertain"));
    if !headers.contains_key(LOCATION) {
        reply.locate(key);
    }
}

fn given(key: &OperationKey, answer: &Answer, listener: Listener) -> Reply {
    match listener {
        Listener::Sender => first(key, answer),
        Listener::Joiner => again(key, answer),
    }
}

/// The answer to the one whose attempt brought it.
fn first(key: &OperationKey, answer: &Answer) -> Reply {
    answered(key, answer, Source::Upstream, answer.body.is_some(), |_| {
        true
    })
}

/// The answer to anybody else.
fn again(key: &OperationKey, answer: &Answer) -> Reply {
    let mut reply = answered(key, answer, Source::Stored, answer.body.is_some(), |name| {
        !is_of_first_exchange(name)
    });
    let replayed = HeaderValue::from_static("true");
    reply.headers.insert(REPLAYED, replayed);
    reply
}

/// `whole`: its content follows, whether or not it is kept.
fn answered(
    key: &OperationKey,
    answer: &Answer,
    source: Source,
    whole: bool,
    keep: impl Fn(&str) -> bool,
) -> Reply {
    // A status that cannot be sent was never received; the record of it is damaged.
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut reply = Reply::new(status, source);
    reply.append(answer.fields.iter().filter(|(name, _)| {
        let name = std::str::from_utf8(name).unwrap_or_default();
        answers(name) && keep(name) && (whole || !describes_content(name))
    }));
    if answer.body.is_none() {
        let not_kept = HeaderValue::from_static("not-kept");
        reply.headers.insert(BODY, not_kept);
    }
    reply.body = answer.body.clone().unwrap_or_default();
    reply.about(key);
    reply
}

fn is_of_first_exchange(name: &str) -> bool {
    matches!(
        name,
        "set-cookie" | "www-authenticate" | "authentication-info" | "date" | "age"
    ) || name.starts_with("proxy-")
        || name.starts_with("ratelimit")
        || name.starts_with("x-ratelimit")
        || name.starts_with("x-rate-limit")
}

/// Would mislead a reader of content that is not there.
fn describes_content(name: &str) -> bool {
    matches!(
        name,
        "content-encoding"
            | "content-range"
            | "content-md5"
            | "content-digest"
            | "repr-digest"
            | "digest"
    )
}

#[cfg(test)]
mod tests;
