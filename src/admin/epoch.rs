//! A person starts a new epoch.
//!
//! What always holds: it carries the operator's name and a reason, and both stand in the history of the register.
//! Once it is answered nothing is admitted any more under a token of a lower epoch, on any resource, by any sidecar
//! that shares the register; once begun it is finished, even if the operator hangs up.
//!
//! What it does not do: recall what was admitted before; that may leave until its own time is up.

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use bytes::Bytes;
use serde::Deserialize;

use super::access::Operator;
use super::api::Api;
use super::problem::Problem;
use super::steering::{checked, read};
use super::views::EpochView;
use crate::store::NewEpoch;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    reason: String,
}

/// `POST /v1/epoch/advance`: tokens of all lower epochs are stale on every resource.
pub(super) async fn advance(
    State(api): State<Api>,
    Operator(operator): Operator,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<EpochView>, Problem> {
    let asked: Asked = read(body, "{\"reason\":\"…\"}")?;
    let new = NewEpoch {
        operator: operator.to_string(),
        reason: checked(&asked.reason)?,
        at: api.clock.now(),
    };
    let register = api.register.clone();
    let begun = api.tasks.spawn(async move {
        let epoch = register.read().begin_epoch(&new).await?;
        tracing::warn!(
            operator = new.operator,
            epoch,
            "an operator started a new epoch: tokens of lower ones are stale on every resource"
        );
        Ok::<_, Problem>(epoch)
    });
    match begun.await {
        Ok(begun) => Ok(Json(EpochView { epoch: begun? })),
        Err(_) => Err(Problem::broke_off("the epoch")),
    }
}
