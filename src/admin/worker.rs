//! For callers of effects: how an operation stands, what stands on a resource, and leases.
//!
//! What always holds: it is there on loopback alone, and shows neither content nor event logs; a browser on
//! this machine cannot be led to it under a foreign name.
//!
//! What it does not do: sell leases as locks: whoever loses one is refused by the fence.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, FromRef, Path, Query, Request, State};
use axum::http::header;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};

use super::access;
use super::api::{Api, asked, no_such_method, no_such_path, parts};
use super::leases;
use super::on_behalf;
use super::operations::{self, Which};
use super::problem::Problem;
use super::resources;
use super::views::OperationView;
use crate::lease::claim::Claims;

/// Longest body of a request, in bytes.
const BODY_LIMIT: usize = 64 << 10;

/// What the workers' listener needs.
#[derive(Clone)]
pub(super) struct Workers {
    pub(super) api: Api,
    pub(super) claims: Claims,
}

impl FromRef<Workers> for Api {
    fn from_ref(workers: &Workers) -> Self {
        workers.api.clone()
    }
}

/// The routes of the workers' listener.
pub fn router(api: Api, claims: Claims) -> Router {
    let v1 = Router::new()
        .route("/leases/acquire", post(leases::acquire_all))
        .route("/leases/{resource}", get(leases::show))
        .route("/leases/{resource}/acquire", post(leases::acquire))
        .route("/leases/{resource}/renew", post(leases::renew))
        .route("/leases/{resource}/release", post(leases::release))
        .route(
            "/leases/{resource}/acknowledge",
            post(on_behalf::acknowledge),
        )
        .route("/operations/{upstream}/{id}", get(operation))
        .route("/resources/{name}", get(resources::show));
    Router::new()
        .nest("/v1", v1)
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(middleware::from_fn(from_here))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(Workers { api, claims })
}

/// `GET /v1/operations/{upstream}/{id}`: while it is not settled, when to ask again.
async fn operation(
    State(api): State<Api>,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Result<Query<Which>, QueryRejection>,
) -> Result<Response, Problem> {
    let (upstream, id) = parts(path)?;
    let which = asked(query)?;
    let found = operations::find(&api, &upstream, &id, &which).await?;
    let view = OperationView::of(&found, &api.looker());
    let mut response = Json(view).into_response();
    if found.state.is_in_doubt() {
        let soon = axum::http::HeaderValue::from_static("1");
        response.headers_mut().insert(header::RETRY_AFTER, soon);
    }
    Ok(response)
}

async fn from_here(request: Request, next: Next) -> Response {
    if let Err(refusal) = access::local(request.headers()) {
        return refusal.into_response();
    }
    let mut response = next.run(request).await;
    let no_store = axum::http::HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, no_store);
    response
}
