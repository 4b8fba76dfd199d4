//! A person has an operation settled now: the steps are taken at once, or the stored bytes are sent again.
//!
//! What always holds: without `send` nothing is done that the reconciler would not do by itself, but that what it
//! has given up is asked after again, and only asked; with `send`, under the operator's name and a reason, what
//! only a person may have sent again is. The rules decide either way, in the transaction that admits it.
//!
//! What it does not do: wait for the end of what it began; the operation's own log tells.

use axum::Json;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use bytes::Bytes;
use serde::Deserialize;

use super::access::Operator;
use super::api::{Api, asked, parts};
use super::operations::{self, Which};
use super::problem::Problem;
use super::resolve::{said_why, unread};
use super::views::SettlingView;
use crate::protocol::command::Attended;
use crate::protocol::ids::OperationKey;
use crate::protocol::operation::{Parked, State as Stands};
use crate::reconcile::Attending;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(default)]
    send: bool,
    reason: Option<String>,
}

/// `POST /v1/operations/{upstream}/{id}/settle`.
pub(super) async fn settle(
    State(api): State<Api>,
    Operator(operator): Operator,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Result<Query<Which>, QueryRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<SettlingView>, Problem> {
    let (upstream, id) = parts(path)?;
    let which = asked(query)?;
    let body = body.map_err(|refusal| unread(&refusal))?;
    let (attended, send) = parse(&body, &operator)?;
    let operation = operations::find(&api, &upstream, &id, &which).await?;
    let Some(reconciler) = api.reconciler.clone() else {
        return Err(Problem::conflict(
            "no-instance",
            "only an instance sends and asks: ask one that is running (--admin or --config), or start one \
             on this register",
        ));
    };
    let key = operation.key;
    let attending = {
        let key = key.clone();
        async move { reconciler.attend(&key, attended, send).await }
    };
    let attending = api.tasks.spawn(attending).await;
    let attending = attending.map_err(|_| Problem::broke_off("the operation"))??;
    tracing::info!(
        %operator,
        upstream = %key.upstream,
        operation = %key.id,
        send,
        "an operator had an operation settled"
    );
    told(&key, attending).map(Json)
}

/// Who asks and why, and whether it is to be sent.
fn parse(body: &[u8], operator: &str) -> Result<(Attended, bool), Problem> {
    let asked: Asked = if body.is_empty() {
        Asked::default()
    } else {
        serde_json::from_slice(body).map_err(|error| {
            Problem::malformed(format!(
                "the body is to be JSON like {{\"send\":true,\"reason\":\"…\"}}: {error}"
            ))
        })?
    };
    let reason = match (asked.reason.as_deref(), asked.send) {
        (Some(reason), _) => said_why(reason)?,
        (None, false) => "settle it now".to_owned(),
        (None, true) => {
            return Err(Problem::malformed(
                "`send` has it sent once more, which needs a `reason`: it is kept with the operation",
            ));
        }
    };
    let operator = operator.to_owned();
    Ok((Attended { operator, reason }, asked.send))
}

fn told(key: &OperationKey, attending: Attending) -> Result<SettlingView, Problem> {
    let view = |state: &str, did: &str, attempt| SettlingView {
        upstream: key.upstream.to_string(),
        id: key.id.to_string(),
        state: state.to_owned(),
        did: did.to_owned(),
        attempt,
    };
    match attending {
        Attending::Begun(state) => Ok(view(state.word(), "settling", None)),
        Attending::Sent(attempt) => Ok(view(
            Stands::Uncertain.word(),
            "sent again",
            Some(attempt.to_string()),
        )),
        refused => Err(refusal(&refused).operation(&key.id)),
    }
}

fn refusal(attending: &Attending) -> Problem {
    let conflict = |name: &str, detail: String| Problem::conflict(name, detail);
    let fixed = |name: &str, detail: &str| Problem::conflict(name, detail);
    match attending {
        Attending::Settled(state) => conflict(
            "already-settled",
            format!(
                "it is {} already",
                state.as_ref().map_or("gone", Stands::word)
            ),
        ),
        Attending::NotNow => fixed(
            "operation-in-flight",
            "an attempt is under way, or listens for its answer: wait until it ends, then look again",
        ),
        Attending::NothingToAsk(why) => conflict("nothing-to-ask", nothing_to_ask(*why)),
        Attending::Forbidden(why) => conflict("not-sent-again", forbidden(*why)),
        Attending::HeldBack(why) => conflict("not-sent-again", format!("{why}; nothing was sent")),
        Attending::Unreachable(why) => conflict(
            "upstream-unreachable",
            format!("nothing was sent, and nothing is used up: {why}"),
        ),
        Attending::Elsewhere => fixed(
            "carried-elsewhere",
            "another sidecar carries it and is alive: it settles it, or ask there",
        ),
        Attending::Draining => fixed("draining", "this instance is stopping; nothing was done"),
        Attending::Begun(_) | Attending::Sent(_) => fixed("settled", "it is under way"),
    }
}

fn nothing_to_ask(why: Option<Parked>) -> String {
    match why {
        None => "none of its steps asks the upstream; a person may have it sent again, with `send` and a \
                 `reason`. Nothing was sent"
            .to_owned(),
        Some(why) => format!("none of its steps asks the upstream, and {}", forbidden(why)),
    }
}

fn forbidden(why: Parked) -> String {
    let after = match why {
        Parked::NotToldInTime | Parked::NotCalledBack => {
            "what it was waited for may still come and settles it; else find out at the upstream how it \
             ended, and resolve it"
        }
        Parked::UndoUnclear => {
            "it may be undone, so that sending it again would undo nothing or do it anew: find out at the \
             upstream what is in force, and resolve it"
        }
        Parked::CutOff | Parked::ResendsUsedUp | Parked::NotOrdered => {
            "a person may have it sent again all the same, with `send` and a `reason`"
        }
        Parked::NoStep
        | Parked::KeyTooOld
        | Parked::RequestNotKept
        | Parked::Overtaken
        | Parked::NotCurrent => {
            "sending it again could be another effect, or undo a newer one, so nobody can have that: find \
             out at the upstream how it ended, and resolve it"
        }
    };
    format!("{}; {after}. Nothing was sent", why.reason())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sending_again_needs_a_reason() {
        let (plain, send) = parse(b"", "alice").unwrap();
        assert!(!send && plain.operator == "alice");
        let (_, send) = parse(b"{}", "alice").unwrap();
        assert!(!send);
        let sent = parse(
            br#"{"send":true,"reason":" the bank has no trace "}"#,
            "alice",
        );
        let (sent, send) = sent.unwrap();
        assert!(send && sent.reason == "the bank has no trace");
        for bad in [
            r#"{"send":true}"#,
            r#"{"send":true,"reason":" "}"#,
            r#"{"sned":true,"reason":"x"}"#,
            "[",
        ] {
            assert!(parse(bad.as_bytes(), "alice").is_err(), "{bad}");
        }
    }
}
