//! Reading resources: which generation is authoritative, and what stands in its way.
//!
//! What always holds: what is shown is the durable record, never an opinion of this instance.
//!
//! What it does not do: change a fence (`steering`).

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::Deserialize;

use super::api::{Api, asked, given, page_length, parts};
use super::leases;
use super::problem::Problem;
use super::views::{ExplainedView, ResourceDetail, ResourceList, ResourceView};
use crate::protocol::ids::{ResourceKey, ResourceName};
use crate::store::StoredResource;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    pub(super) limit: Option<String>,
    pub(super) after: Option<String>,
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
    let epoch = api.read(api.register.read().epoch()).await?;
    let is_full = fences.len() >= limit;
    let last = fences.last().map(|fence| fence.resource.name.to_string());
    let own = fences
        .iter()
        .filter(|fence| fence.resource.tenant == api.tenant);
    Ok(Json(ResourceList {
        resources: own.map(|fence| ResourceView::of(fence, epoch)).collect(),
        next: last.filter(|_| is_full),
    }))
}

/// `GET /v1/resources/{name}`.
pub(super) async fn show(
    State(api): State<Api>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<ResourceDetail>, Problem> {
    let name = parts(path)?;
    let stored = found(&api, &name).await?;
    let lease = leases::view(&api, &stored.fence).await?;
    let epoch = api.read(api.register.read().epoch()).await?;
    Ok(Json(ResourceDetail::of(
        &stored,
        lease,
        &api.looker(),
        epoch,
    )))
}

/// `GET /v1/resources/{name}/explain`: who blocks whom, why, and what to type next.
pub(super) async fn explain(
    State(api): State<Api>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<ExplainedView>, Problem> {
    let name = parts(path)?;
    let stored = found(&api, &name).await?;
    let lease = leases::view(&api, &stored.fence).await?;
    let epoch = api.read(api.register.read().epoch()).await?;
    Ok(Json(ExplainedView::of(
        &stored,
        lease,
        &api.looker(),
        epoch,
    )))
}

async fn found(api: &Api, name: &str) -> Result<StoredResource, Problem> {
    let key = key_of(api, name);
    let stored = api.read(api.register.read().resource(&key)).await?;
    stored.ok_or_else(|| unknown(name))
}

/// A resource by its name.
pub(super) fn key_of(api: &Api, name: &str) -> ResourceKey {
    ResourceKey {
        tenant: api.tenant.clone(),
        name: ResourceName::new(name),
    }
}

pub(super) fn unknown(name: &str) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "unknown-resource",
        "the register knows no resource of this name: no lease of it was ever taken, and no token for it was let \
         in; GET /v1/resources lists what there is",
    )
    .resource(&name)
}
