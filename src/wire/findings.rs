//! What an answer to a question says of the operation that was asked about.
//!
//! What always holds: three answers, and "not known" is what everything is that is neither of the others: an
//! error page, an answer in another form, a condition that cannot be computed, two conditions that both hold.
//! A page that says nothing decides nothing: "not applied" needs all of them.
//!
//! What it does not do: ask again, or count what it says (`protocol::weigh`).

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};

use super::json;
use super::question::Asked;
use crate::config::{FoundOutcome, LookUp, Pages, Undo};
use crate::expression::{AnswerFacts, Pick, Truth, WhyMissing};
use crate::protocol::finding::{Found, NotKnown};
use crate::protocol::outcome::{Answer, StoredRequest};

/// What one page of an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page {
    /// All that is to be found.
    Last(Found),
    /// Not here; the page of this name comes next.
    Next(String),
}

/// What an answer to a look-up says.
pub fn of_look_up(look_up: &LookUp, asked: &Asked, answer: &Answer) -> Page {
    if let Some(refused) = no_answer(asked, answer) {
        return Page::Last(Found::NotKnown(refused));
    }
    let facts = facts(answer);
    asked.facts(|request| {
        let test = |condition: &Option<_>| match condition {
            None => Truth::No,
            Some(condition) => crate::expression::FoundCondition::test(condition, request, &facts),
        };
        let (applied, not_applied) = (test(&look_up.applied), test(&look_up.not_applied));
        let found = match (applied, not_applied) {
            (Truth::Yes, Truth::Yes) => Found::NotKnown(NotKnown::Contradictory),
            (Truth::Yes, Truth::No | Truth::NotKnown) => {
                let body = look_up.outcome.body.as_ref();
                let body = body.map(|pick| pick.from_answer(request, &facts));
                Found::Applied(outcome(&look_up.outcome, body))
            }
            (Truth::No, Truth::Yes) => match next(look_up.pages.as_ref(), |pick| {
                pick.from_answer(request, &facts)
            }) {
                Ok(None) => Found::NotApplied,
                Ok(Some(next)) => return Page::Next(next),
                Err(_) => Found::NotKnown(NotKnown::ConditionFailed),
            },
            (Truth::No, Truth::No) => {
                // Where nothing is ever "not applied", what is not on this page may be on the next one.
                let pages = look_up.pages.as_ref();
                let pages = pages.filter(|_| look_up.not_applied.is_none());
                match next(pages, |pick| pick.from_answer(request, &facts)) {
                    Ok(Some(next)) => return Page::Next(next),
                    Ok(None) | Err(_) => Found::NotKnown(NotKnown::Undecided(answer.status)),
                }
            }
            (Truth::NotKnown, _) | (_, Truth::NotKnown) => Found::NotKnown(unreadable(&facts)),
        };
        Page::Last(found)
    })
}

/// What is there now says of what was sent, to an upstream that orders by itself. That it is as before says that
/// nothing was done only where what is there never goes back (`never_reverts`): it may have been made, used and
/// removed meanwhile, or replaced and put back under the same tag.
pub fn of_comparison(asked: &Asked, answer: &Answer, never_reverts: bool) -> Found {
    if let Some(refused) = no_answer(asked, answer) {
        return Found::NotKnown(refused);
    }
    let Some(sent) = asked.request() else {
        return Found::NotKnown(NotKnown::RequestNotKept);
    };
    let undecided = Found::NotKnown(NotKnown::Undecided(answer.status));
    if sent.method != Method::PUT.as_str() {
        return undecided;
    }
    let headers = header_map(&answer.fields);
    match answer.status {
        200..=299 if is_same(sent, answer) => {
            let tag = headers.get(http::header::ETAG);
            let tag = tag.map(|tag| (Bytes::from_static(b"etag"), bytes_of(tag)));
            Found::Applied(Answer {
                status: 200,
                fields: tag.into_iter().collect(),
                body: Some(Bytes::new()),
            })
        }
        // What the request asked for is there unchanged: nothing has been put over it.
        200..=299 if never_reverts && still_matches(sent, headers.get(http::header::ETAG)) => {
            Found::NotApplied
        }
        // Only where there was to be nothing before.
        404 | 410 if never_reverts && wanted_nothing_before(sent) => Found::NotApplied,
        _ => undecided,
    }
}

/// Does an answer say that nothing of the operation is in force?
pub fn of_undo(undo: &Undo, asked: &Asked, answer: &Answer) -> Result<(), NotKnown> {
    if let Some(refused) = no_answer(asked, answer) {
        return Err(refused);
    }
    let facts = facts(answer);
    asked.facts(|request| match undo.done.test(request, &facts) {
        Truth::Yes => Ok(()),
        Truth::No => Err(NotKnown::Undecided(answer.status)),
        Truth::NotKnown => Err(unreadable(&facts)),
    })
}

/// The answer that callers get.
pub fn outcome(rule: &FoundOutcome<Pick>, picked: Option<Result<&[u8], WhyMissing>>) -> Answer {
    let json = || {
        let media = Bytes::from_static(b"application/json");
        (Bytes::from_static(b"content-type"), media)
    };
    match picked {
        None => Answer {
            status: rule.status,
            fields: Vec::new(),
            body: Some(Bytes::new()),
        },
        Some(Ok(body)) => Answer {
            status: rule.status,
            fields: vec![json()],
            body: Some(Bytes::copy_from_slice(body)),
        },
        // It was applied all the same; its content could not be had, and the reply says so.
        Some(Err(_)) => Answer {
            status: rule.status,
            fields: Vec::new(),
            body: None,
        },
    }
}

/// Answers that say nothing of the operation, whatever conditions say.
fn no_answer(asked: &Asked, answer: &Answer) -> Option<NotKnown> {
    match answer.status {
        300..=399 => Some(NotKnown::Redirected),
        401 | 403 if asked.request().is_some_and(is_signed) => Some(NotKnown::SignatureExpired),
        401 | 403 => Some(NotKnown::CredentialRefused),
        _ => None,
    }
}

/// Is its credential a signature over itself? No question can be asked with that.
fn is_signed(request: &StoredRequest) -> bool {
    request.fields.iter().any(|(name, value)| {
        let name = name.to_ascii_lowercase();
        let scheme = value.to_ascii_lowercase();
        name.starts_with(b"signature")
            || (name == b"authorization"
                && (scheme.starts_with(b"aws4-") || scheme.starts_with(b"signature ")))
    })
}

/// Where a page of an answer says what the next one is called.
fn next<'p>(
    pages: Option<&Pages>,
    pick: impl FnOnce(&Pick) -> Result<&'p [u8], WhyMissing>,
) -> Result<Option<String>, WhyMissing> {
    let Some(pages) = pages else {
        return Ok(None);
    };
    let text = match pick(&pages.next) {
        Err(WhyMissing::Absent) => return Ok(None),
        other => other?,
    };
    let value = serde_json::from_slice(text).map_err(|_| WhyMissing::Unreadable)?;
    match value {
        serde_json::Value::Null | serde_json::Value::Bool(false) => Ok(None),
        serde_json::Value::String(name) if name.is_empty() => Ok(None),
        serde_json::Value::String(name) => Ok(Some(name)),
        serde_json::Value::Number(number) => Ok(Some(number.to_string())),
        serde_json::Value::Bool(true)
        | serde_json::Value::Array(_)
        | serde_json::Value::Object(_) => Err(WhyMissing::NotScalar),
    }
}

fn facts(answer: &Answer) -> AnswerFacts<'_> {
    AnswerFacts {
        status: answer.status,
        fields: &answer.fields,
        body: answer.body.as_deref(),
    }
}

fn unreadable(facts: &AnswerFacts<'_>) -> NotKnown {
    if facts.is_json() {
        NotKnown::ConditionFailed
    } else {
        NotKnown::Unreadable
    }
}

/// The same bytes, or the same JSON value.
fn is_same(sent: &StoredRequest, answer: &Answer) -> bool {
    let Some(there) = &answer.body else {
        return false;
    };
    // Nothing equals nothing wherever anybody looks.
    if sent.body.is_empty() {
        return false;
    }
    if *there == sent.body {
        return true;
    }
    match (json::canonical(there), json::canonical(&sent.body)) {
        (Ok(there), Ok(sent)) => there == sent,
        (Err(_), _) | (_, Err(_)) => false,
    }
}

/// Is what is there now what the request was to replace?
fn still_matches(sent: &StoredRequest, there: Option<&HeaderValue>) -> bool {
    let wanted = header_map(&sent.fields);
    let mut wanted = wanted.get_all(http::header::IF_MATCH).iter();
    let (Some(wanted), None, Some(there)) = (wanted.next(), wanted.next(), there) else {
        return false;
    };
    // A weak validator says nothing of bytes (RFC 9110, 8.8.3.2).
    let is_strong = |tag: &HeaderValue| tag.as_bytes().starts_with(b"\"");
    is_strong(wanted) && is_strong(there) && wanted == there
}

fn wanted_nothing_before(sent: &StoredRequest) -> bool {
    let wanted = header_map(&sent.fields);
    wanted
        .get(http::header::IF_NONE_MATCH)
        .is_some_and(|value| value == "*")
}

fn header_map(fields: &crate::protocol::outcome::Fields) -> HeaderMap {
    let fields = fields.iter().filter_map(|(name, value)| {
        let name = http::HeaderName::from_bytes(name).ok()?;
        Some((name, HeaderValue::from_bytes(value).ok()?))
    });
    fields.collect()
}

fn bytes_of(value: &HeaderValue) -> Bytes {
    Bytes::copy_from_slice(value.as_bytes())
}

#[cfg(test)]
mod tests;
