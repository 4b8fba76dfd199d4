//! A person says how an operation ended.
//!
//! What always holds: the verdict carries the operator's name and a reason into the operation's own
//! event log; a COMPLETED operation never changes; once begun, a resolution is finished and those who
//! wait for the operation are woken, even if the operator hangs up.
//!
//! What it does not do: judge whether the person is right. A wrong `not_applied` is still caught by
//! the unchanged key, unless `new_key` gives that up.

use axum::Json;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::access::Operator;
use super::api::{Api, asked, parts};
use super::operations::{self, Which};
use super::problem::Problem;
use super::views::{ResolutionView, provenance};
use crate::protocol::command::{Resolution, Resolve, Resolved};
use crate::protocol::operation::Operation;
use crate::protocol::outcome::Answer;
use crate::protocol::policy::KeyValue;
use crate::store::StoreError;

/// Longest reason, in bytes: it goes into the event log.
pub(super) const LONGEST_REASON: usize = 2_000;

/// The body of a resolution.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked<'a> {
    verdict: Said,
    reason: String,
    status: Option<u16>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
    new_key: Option<bool>,
    admitted: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Said {
    Applied,
    NotApplied,
}

/// `POST /v1/operations/{upstream}/{id}/resolve`.
pub(super) async fn resolve(
    State(api): State<Api>,
    Operator(operator): Operator,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Result<Query<Which>, QueryRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<ResolutionView>, Problem> {
    let (upstream, id) = parts(path)?;
    let which = asked(query)?;
    let body = body.map_err(|refusal| unread(&refusal))?;
    let Stated {
        verdict,
        reason,
        seen,
    } = parse(&body)?;
    let operation = operations::find(&api, &upstream, &id, &which).await?;
    if verdict == (Resolution::NotApplied { new_key: true }) {
        has_another_key(&operation)?;
    }
    let resolve = Resolve {
        key: operation.key,
        verdict,
        operator: operator.to_string(),
        reason,
        seen,
        at: api.clock.now(),
    };
    let tasks = api.tasks.clone();
    match tasks.spawn(settle(api, resolve)).await {
        Ok(settled) => settled.map(Json),
        Err(_) => Err(Problem::broke_off("the operation")),
    }
}

/// Brings one verdict in, and wakes who waits for it.
pub(super) async fn settle(api: Api, resolve: Resolve) -> Result<ResolutionView, Problem> {
    let (key, operator) = (resolve.key.clone(), resolve.operator.clone());
    let resolved = api.register.resolve(resolve).await.inspect_err(|error| {
        if let StoreError::CommitUnknown(_) = error {
            // It may be settled; whoever wakes up asks the record, so waking them is never wrong.
            (api.settled)(&key);
        }
    })?;
    let state = match resolved {
        Resolved::Done(state) => state,
        Resolved::Unknown
        | Resolved::AlreadyCompleted { .. }
        | Resolved::AlreadyNotApplied
        | Resolved::StillInFlight
        | Resolved::MovedOn(_) => return Err(refusal(&resolved).operation(&key.id)),
    };
    (api.settled)(&key);
    tracing::info!(
        operator,
        upstream = %key.upstream,
        operation = %key.id,
        state = state.word(),
        "an operator settled an operation"
    );
    Ok(ResolutionView {
        upstream: key.upstream.to_string(),
        id: key.id.to_string(),
        state: state.word().to_owned(),
    })
}

/// What a person said.
#[derive(Debug)]
struct Stated {
    verdict: Resolution,
    reason: String,
    seen: Option<u32>,
}

fn parse(body: &[u8]) -> Result<Stated, Problem> {
    let asked: Asked<'_> = serde_json::from_slice(body).map_err(|error| {
        Problem::malformed(format!(
            "the body is to be JSON like {{\"verdict\":\"applied\",\"reason\":\"…\"}}: {error}"
        ))
    })?;
    let reason = said_why(&asked.reason)?;
    let resolution = match (asked.verdict, asked.status, asked.body, asked.new_key) {
        (Said::Applied, status, body, None) => Resolution::Applied(answer(status, body)?),
        (Said::Applied, _, _, Some(_)) => {
            return Err(Problem::malformed(
                "`new_key` goes with not_applied: what was applied is not sent again",
            ));
        }
        (Said::NotApplied, None, None, new_key) => Resolution::NotApplied {
            new_key: new_key.unwrap_or(false),
        },
        (Said::NotApplied, ..) => {
            return Err(Problem::malformed(
                "`status` and `body` go with applied: what was not applied has no answer",
            ));
        }
    };
    Ok(Stated {
        verdict: resolution,
        reason,
        seen: asked.admitted,
    })
}

/// A reason, as it is kept.
pub(super) fn said_why(reason: &str) -> Result<String, Problem> {
    let reason = reason.trim();
    if reason.is_empty() || reason.len() > LONGEST_REASON {
        return Err(Problem::malformed(
            "`reason` says why you are sure, in 1 to 2000 bytes: it is kept in the log",
        ));
    }
    Ok(reason.to_owned())
}

/// What callers get from now on. A JSON string is the text itself; any other JSON is kept byte for
/// byte, so that no number changes on the way.
pub(super) fn answer(status: Option<u16>, body: Option<&RawValue>) -> Result<Answer, Problem> {
    let status = status.unwrap_or(200);
    if !(200..=599).contains(&status) {
        return Err(Problem::malformed(
            "`status` is to be a final one, 200 to 599",
        ));
    }
    let (content_type, content) = match body.map(RawValue::get) {
        None => (None, Bytes::new()),
        Some(json) => match serde_json::from_str::<String>(json) {
            Ok(text) => (Some("text/plain; charset=utf-8"), Bytes::from(text)),
            Err(_) => (
                Some("application/json"),
                Bytes::copy_from_slice(json.as_bytes()),
            ),
        },
    };
    if !content.is_empty() && matches!(status, 204 | 205 | 304) {
        return Err(Problem::malformed(
            "an answer of this `status` has no `body`",
        ));
    }
    let field = |value| {
        (
            Bytes::from_static(b"content-type"),
            Bytes::from_static(value),
        )
    };
    Ok(Answer {
        status,
        fields: content_type
            .map(str::as_bytes)
            .map(field)
            .into_iter()
            .collect(),
        body: Some(content),
    })
}

pub(super) fn unread(refusal: &BytesRejection) -> Problem {
    if refusal.status() == StatusCode::PAYLOAD_TOO_LARGE {
        let detail = "the stated answer is too large: state the part that callers need";
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", detail)
    } else {
        Problem::malformed(refusal.body_text())
    }
}

/// A new key exists only where the proxy makes keys.
fn has_another_key(operation: &Operation) -> Result<(), Problem> {
    let why = match operation.settle.key.map(|key| key.value) {
        Some(KeyValue::Derived) => return Ok(()),
        Some(KeyValue::Caller) => {
            "the caller's own key goes upstream, so there is no other: leave `new_key` out, and let \
             the caller use another key if the upstream keeps answering with the old result"
        }
        None => "no key goes to this upstream: leave `new_key` out",
    };
    Err(Problem::conflict("no-other-key", why).operation(&operation.key.id))
}

pub(super) fn refusal(resolved: &Resolved) -> Problem {
    match resolved {
        Resolved::AlreadyCompleted { provenance: by, .. } => Problem::conflict(
            "already-completed",
            format!(
                "it is COMPLETED (by {}), and that never changes: if it is wrong, correct it at the \
                 upstream",
                provenance(*by)
            ),
        ),
        Resolved::AlreadyNotApplied => Problem::conflict(
            "already-not-applied",
            "it is settled as NOT_APPLIED already; a repeat of the request is admitted as new",
        ),
        Resolved::StillInFlight => Problem::conflict(
            "operation-in-flight",
            "an attempt is under way and not overdue: wait until it ends, then look again",
        ),
        Resolved::MovedOn(state) => Problem::conflict(
            "moved-on",
            format!(
                "it was settled or admitted again since you looked, and is {} now: look again",
                state.word()
            ),
        ),
        Resolved::Unknown | Resolved::Done(_) => Problem::new(
            StatusCode::NOT_FOUND,
            "unknown-operation",
            "the operation is gone from the register",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(body: &str) -> Answer {
        match parse(body.as_bytes()) {
            Ok(Stated {
                verdict: Resolution::Applied(answer),
                ..
            }) => answer,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_stated_answer_is_kept_byte_for_byte() {
        let answer = applied(
            r#"{"verdict":"applied","reason":"seen","status":201,"body":{"b":1.10,"a":9007199254740993}}"#,
        );
        assert_eq!(answer.status, 201);
        assert_eq!(
            &answer.body.unwrap()[..],
            br#"{"b":1.10,"a":9007199254740993}"#
        );
        assert_eq!(&answer.fields[0].1[..], b"application/json");
        let text = applied(r#"{"verdict":"applied","reason":"seen","body":"paid \u00e9"}"#);
        assert_eq!(&text.body.unwrap()[..], "paid é".as_bytes());
        let empty = applied(r#"{"verdict":"applied","reason":"seen"}"#);
        assert_eq!((empty.status, empty.fields.len()), (200, 0));
        assert_eq!(empty.body.as_deref(), Some(&b""[..]));
    }

    #[test]
    fn a_verdict_that_says_two_things_is_refused() {
        for bad in [
            r#"{"verdict":"applied"}"#,
            r#"{"verdict":"applied","reason":""}"#,
            r#"{"verdict":"applied","reason":" \n "}"#,
            r#"{"verdict":"perhaps","reason":"seen"}"#,
            r#"{"verdict":"applied","reason":"seen","new_key":true}"#,
            r#"{"verdict":"not_applied","reason":"seen","status":200}"#,
            r#"{"verdict":"not_applied","reason":"seen","body":{}}"#,
            r#"{"verdict":"applied","reason":"seen","status":199}"#,
            r#"{"verdict":"applied","reason":"seen","status":204,"body":{}}"#,
            r#"{"verdict":"applied","reason":"seen","resaon":"typo"}"#,
            r#"{"verdict":"applied","reason":"seen","reason":"twice"}"#,
            "",
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
