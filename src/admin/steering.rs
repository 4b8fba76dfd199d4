//! A person cancels, advances or reopens a resource, lets a token in, or repairs it after a wild one.
//!
//! What always holds: it carries the operator's name and a reason, and both stand with the resource and in
//! the log of every operation that is unsettled there; once begun it is finished, even if the operator
//! hangs up. What is answered names what may still act, and until when.
//!
//! What it does not do: signal whoever holds the resource, or decide (`protocol::steer`). There is no
//! "unlock": nothing here sends anything, or lets anything be sent again.

mod refusals;

use axum::Json;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::access::Operator;
use super::api::{Api, parts};
use super::problem::Problem;
use super::resolve::unread;
use super::resources::{self, key_of};
use super::views::{InFlightView, SteeredView};
use crate::protocol::command::{Steer, Steered, Steering};
use crate::protocol::ids::{FencingToken, OperationId, TokenSource};
use crate::protocol::view::{AppliedAbove, Unsettled};

/// Longest reason, in bytes: it is read with every admission of its resource.
const LONGEST_REASON: usize = 500;

/// Longest name of a source of tokens, in bytes.
const LONGEST_SOURCE: usize = 100;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedToAccept {
    token: String,
    source: Option<String>,
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedToRepair {
    to: Option<String>,
    #[serde(default)]
    disown: Vec<String>,
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

/// `POST /v1/resources/{name}/accept`: a token that could not be placed is let in.
pub(super) async fn accept(
    State(api): State<Api>,
    operator: Operator,
    path: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<SteeredView>, Problem> {
    let name = parts(path)?;
    let form =
        "{\"token\":\"108\",\"source\":\"…\",\"reason\":\"…\"}, where `source` may be left out";
    let asked: AskedToAccept = read(body, form)?;
    let how = Steering::Accept {
        token: token(&asked.token, "token")?,
        source: asked.source.as_deref().map(source).transpose()?,
    };
    ask(api, name, how, (operator, asked.reason)).await
}

/// `POST /v1/resources/{name}/repair`: a new incarnation after a wild token.
pub(super) async fn repair(
    State(api): State<Api>,
    operator: Operator,
    path: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<SteeredView>, Problem> {
    let name = parts(path)?;
    let form = "{\"to\":\"107\",\"disown\":[\"…\"],\"reason\":\"…\"}, where `to` and `disown` may be left out";
    let asked: AskedToRepair = read(body, form)?;
    if asked.disown.len() > AppliedAbove::READ {
        let most = AppliedAbove::READ;
        let detail = format!("`disown` names {most} operations at most");
        return Err(Problem::malformed(detail));
    }
    let to = asked.to.as_deref().map(|to| token(to, "to"));
    let how = Steering::Repair {
        to: to.transpose()?,
        disown: asked.disown.iter().map(OperationId::new).collect(),
    };
    ask(api, name, how, (operator, asked.reason)).await
}

async fn asked(
    api: Api,
    how: Steering,
    (operator, path, body): Said,
) -> Result<Json<SteeredView>, Problem> {
    let name = parts(path)?;
    let asked: Asked = read(body, "{\"reason\":\"…\"}")?;
    ask(api, name, how, (operator, asked.reason)).await
}

async fn ask(
    api: Api,
    name: String,
    how: Steering,
    (Operator(operator), reason): (Operator, String),
) -> Result<Json<SteeredView>, Problem> {
    let reason = checked(&reason)?;
    let resource = key_of(&api, &name);
    if how != Steering::Cancel {
        // A name that is mistyped must not look cut off, or repaired.
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
    let (resource, how, operator) = (
        steer.resource.clone(),
        steer.how.clone(),
        steer.operator.clone(),
    );
    let steered = api.register.steer(steer).await?;
    let (incarnation, mark, closed, unsettled) = match steered {
        Steered::Done {
            incarnation,
            mark,
            closed,
            in_flight,
        } => (incarnation, mark, closed, in_flight),
        refused => {
            let problem = refusals::told(&refused, &how, &resource.name);
            return Err(problem.resource(&resource.name));
        }
    };
    api.leases.changed(&resource);
    tracing::warn!(
        operator,
        resource = %resource.name,
        how = how.past(),
        token = %mark.map_or_else(|| "none".to_owned(), |mark| mark.to_string()),
        "an operator steered a resource"
    );
    Ok(SteeredView {
        resource: resource.name.to_string(),
        done: how.past().to_owned(),
        incarnation: incarnation.0,
        token: mark.map(|mark| mark.to_string()),
        closed,
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

/// A body in JSON, `form` of which is an example.
pub(super) fn read<T: DeserializeOwned>(
    body: Result<Bytes, BytesRejection>,
    form: &str,
) -> Result<T, Problem> {
    let body = body.map_err(|refusal| unread(&refusal))?;
    serde_json::from_slice(&body)
        .map_err(|error| Problem::malformed(format!("the body is to be JSON like {form}: {error}")))
}

/// What an operator says why.
pub(super) fn checked(reason: &str) -> Result<String, Problem> {
    let reason = reason.trim();
    if reason.is_empty() || reason.len() > LONGEST_REASON {
        return Err(Problem::malformed(
            "`reason` says why, in 1 to 500 bytes: it is kept with what it is about",
        ));
    }
    Ok(reason.to_owned())
}

fn token(text: &str, field: &str) -> Result<FencingToken, Problem> {
    FencingToken::parse(text).ok_or_else(|| {
        let detail = format!("`{field}` is to be a fencing token: `108`, or `3:108` in epoch 3");
        Problem::malformed(detail)
    })
}

fn source(text: &str) -> Result<TokenSource, Problem> {
    if text.is_empty() || text.len() > LONGEST_SOURCE {
        let detail = "`source` names who issued the token, as the config of its effect does";
        return Err(Problem::malformed(detail));
    }
    Ok(TokenSource::new(text))
}
