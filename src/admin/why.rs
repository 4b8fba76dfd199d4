//! `GET /v1/operations/{upstream}/{id}/why`: its story, and what can still be done until when.
//!
//! What always holds: it is told from the register alone, so that any instance tells the same.
//!
//! What it does not do: show content.

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};

use super::api::{Api, asked, parts};
use super::operations::{self, Which};
use super::problem::Problem;
use super::resources::key_of;
use super::views::StoryView;

pub(super) async fn show(
    State(api): State<Api>,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Result<Query<Which>, QueryRejection>,
) -> Result<Json<StoryView>, Problem> {
    let (upstream, id) = parts(path)?;
    let which = asked(query)?;
    let operation = operations::find(&api, &upstream, &id, &which).await?;
    let read = api.register.read().operation(&operation.key, false);
    let stored = api.read(read).await?;
    let stored = stored.ok_or_else(|| operations::unknown(&upstream, &id))?;
    let fence = match &stored.operation.place {
        None => None,
        Some(place) => {
            let resource = key_of(&api, place.resource.as_str());
            api.read(api.register.read().resource(&resource)).await?
        }
    };
    let fence = fence.as_ref().map(|found| &found.fence);
    Ok(Json(StoryView::of(&stored, fence, &api.looker())))
}
