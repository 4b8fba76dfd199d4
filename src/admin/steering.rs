//! A person cancels, advances or reopens a resource.
//!
//! What always holds: it carries the operator's name and a reason, and both stand with the resource and in
//! the log of every operation that is unsettled there; once begun it is finished, even if the operator
//! hangs up. What is answered names what may still act, and until when.
//!
//! What it does not do: signal whoever holds the resource, or decide (`protocol::steer`). There is no
//! "unlock": nothing here sends anything, or lets anything be sent again.

use axum::Json;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use bytes::Bytes;
use serde::Deserialize;

use super::access::Operator;
use super::api::{Api, parts};
use super::problem::Problem;
use super::resolve::unread;
use super::resources::{self, key_of};
use super::views::{InFlightView, SteeredView};
use crate::protocol::command::{Steer, Steered, Steering};
use crate::protocol::view::Unsettled;

/// Longest reason, in bytes: it is read with every admission of its resource.
const LONGEST_REASON: usize = 500;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    reason: String,
}

type Said = (
    Operator,
    Result<Path<String>, PathRejection>,
    Result<Bytes, BytesRejection>,
);

/// `POST /v1/resources/{name}/cancel`: nothing is admitted any more, until it is reopened.
pub(super) async fn cancel(
    State(api): State<Api>,
    operator: Operator,
    path: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<SteeredView>, Problem> {
    asked(api, Steering::Cancel, (operator, path, body)).await
}

/// `POST /v1/resources/{name}/advance`: all present holders are cut off.
pub(super) async fn advance(
    State(api): State<Api>,
    operator: Operator,
    path: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<SteeredView>, Problem> {
    asked(api, Steering::Advance, (operator, path, body)).await
}

/// `POST /v1/resources/{name}/reopen`: a cancelled one admits again, in a new incarnation.
pub(super) async fn reopen(
    State(api): State<Api>,
    operator: Operator,
    path: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<SteeredView>, Problem> {
    asked(api, Steering::Reopen, (operator, path, body)).await
}

async fn asked(
    api: Api,
    how: Steering,
    (Operator(operator), path, body): Said,
) -> Result<Json<SteeredView>, Problem> {
    let name = parts(path)?;
    let reason = parse(&body.map_err(|refusal| unread(&refusal))?)?;
    let resource = key_of(&api, &name);
    if how == Steering::Advance {
        // A name that is mistyped must not look cut off.
        let known = api.read(api.register.read().resource(&resource)).await?;
        known.ok_or_else(|| resources::unknown(&name))?;
    }
    let steer = Steer {
        resource,
        how,
        operator: operator.to_string(),
        reason,
        at: api.clock.now(),
    };
    let tasks = api.tasks.clone();
    match tasks.spawn(steered(api, steer)).await {
        Ok(done) => done.map(Json),
        Err(_) => Err(Problem::broke_off("the resource")),
    }
}

async fn steered(api: Api, steer: Steer) -> Result<SteeredView, Problem> {
    let (resource, how, operator) = (steer.resource.clone(), steer.how, steer.operator.clone());
    let (incarnation, mark, unsettled) = match api.register.steer(steer).await? {
        Steered::Done {
            incarnation,
            mark,
            in_flight,
        } => (incarnation, mark, in_flight),
        Steered::NotCancelled => {
            return Err(Problem::conflict(
                "not-cancelled",
                "it is not cancelled, so there is nothing to reopen; holders that were cut off go on \
                 with a newer token",
            )
            .resource(&resource.name));
        }
    };
    api.leases.changed(&resource);
    tracing::warn!(
        operator,
        resource = %resource.name,
        how = how.past(),
        "an operator steered a resource"
    );
    Ok(SteeredView {
        resource: resource.name.to_string(),
        done: how.past().to_owned(),
        incarnation: incarnation.0,
        token: mark.map(|mark| mark.to_string()),
        in_flight: in_flight(&api, &unsettled).await,
    })
}

/// What was admitted before may leave until its own time is up, and nothing of it after. Where the register
/// does not say more by now, it is named all the same.
async fn in_flight(api: &Api, unsettled: &[Unsettled]) -> Vec<InFlightView> {
    let mut views = Vec::new();
    for one in unsettled {
        let read = api.register.read().operation(&one.key, false);
        let stored = api.read(read).await.ok().flatten();
        let operation = stored.as_ref().map(|stored| &stored.operation);
        views.push(InFlightView::of(&one.key, operation, &api.looker()));
    }
    views
}

fn parse(body: &[u8]) -> Result<String, Problem> {
    let asked: Asked = serde_json::from_slice(body).map_err(|error| {
        Problem::malformed(format!(
            "the body is to be JSON like {{\"reason\":\"…\"}}: {error}"
        ))
    })?;
    let reason = asked.reason.trim();
    if reason.is_empty() || reason.len() > LONGEST_REASON {
        return Err(Problem::malformed(
            "`reason` says why, in 1 to 500 bytes: it is kept with the resource",
        ));
    }
    Ok(reason.to_owned())
}
