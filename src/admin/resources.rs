//! Reading resources: which generation is authoritative, and what stands in its way.
//!
//! What always holds: what is shown is the durable record, never an opinion of this instance.
//!
//! What it does not do: change a fence.

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::Deserialize;

use super::api::{Api, asked, given, page_length, parts};
use super::problem::Problem;
use super::views::{ResourceDetail, ResourceList, ResourceView};
use crate::protocol::ids::{ResourceKey, ResourceName};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    limit: Option<String>,
    after: Option<String>,
}

/// `GET /v1/resources`: by name.
pub(super) async fn list(
    State(api): State<Api>,
    query: Result<Query<Page>, QueryRejection>,
) -> Result<Json<ResourceList>, Problem> {
    let page = asked(query)?;
    let limit = page_length(page.limit.as_ref())?;
    let after = given(page.after.as_ref());
    let fences = api
        .read(api.register.read().resources(after, limit))
        .await?;
    let is_full = fences.len() >= limit;
    let last = fences.last().map(|fence| fence.resource.name.to_string());
    let own = fences
        .iter()
        .filter(|fence| fence.resource.tenant == api.tenant);
    Ok(Json(ResourceList {
        resources: own.map(ResourceView::of).collect(),
        next: last.filter(|_| is_full),
    }))
}

/// `GET /v1/resources/{name}`.
pub(super) async fn show(
    State(api): State<Api>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<ResourceDetail>, Problem> {
    let name = parts(path)?;
    let key = ResourceKey {
        tenant: api.tenant.clone(),
        name: ResourceName::new(&name),
    };
    let stored = api.read(api.register.read().resource(&key)).await?;
    let stored = stored.ok_or_else(|| {
        Problem::new(
            StatusCode::NOT_FOUND,
            "unknown-resource",
            "no token was ever presented for a resource of this name; GET /v1/resources lists \
             what there is",
        )
        .resource(&name)
    })?;
    Ok(Json(ResourceDetail::of(&stored, &api.looker())))
}
