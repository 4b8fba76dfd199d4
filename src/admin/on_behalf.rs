//! What a worker says for itself whose lease its sidecar holds.
//!
//! What always holds: once it is answered, nothing is stamped any more under what was owned before.
//!
//! What it does not do: decide what that proves (`lease::held`).

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::leases::named;
use super::problem::Problem;
use super::worker::Workers;
use crate::lease::claim::Claim;

/// How it stands with a lease on behalf of a worker.
#[derive(Debug, Serialize)]
pub(super) struct ClaimView {
    resource: String,
    /// `owned`, `not-yet` or `lost`.
    state: &'static str,
    token: Option<String>,
    why: Option<String>,
}

/// `POST /v1/leases/{resource}/acknowledge`: what this process does from now on is new.
pub(super) async fn acknowledge(
    State(workers): State<Workers>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<ClaimView>, Response> {
    let resource = named(&workers.api, path).map_err(IntoResponse::into_response)?;
    let Some(claim) = workers.claims.acknowledge(&resource.name).await else {
        let problem = Problem::new(
            StatusCode::NOT_FOUND,
            "not-found",
            "this sidecar holds no lease on it on behalf of its worker (`leases` in its config)",
        );
        return Err(problem.resource(&resource.name).into_response());
    };
    let (state, token, why) = match claim {
        Claim::Owned(owned) => ("owned", Some(owned.token.to_string()), None),
        Claim::NotYet(why) => ("not-yet", None, Some(why)),
        Claim::Lost(why) => ("lost", None, Some(why)),
    };
    Ok(Json(ClaimView {
        resource: resource.name.to_string(),
        state,
        token,
        why,
    }))
}
