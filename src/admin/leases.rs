//! Leases, for workers: acquire, renew, release, look.
//!
//! What always holds: whoever is told that he owns a resource is told it by the register, and for how long by a clock
//! that began before he was asked for; whoever hangs up while he waits leaves the line. Nothing here owns anything.
//!
//! What it does not do: decide (`protocol::lease`), or renew for anybody.

use axum::Json;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::api::{Api, parts};
use super::problem::Problem;
use super::resolve::unread;
use super::resources::key_of;
use super::worker::Workers;
use crate::config;
use crate::lease::own::{NoLease, Owned, Wanted};
use crate::protocol::ids::{AcquisitionId, ResourceKey};
use crate::protocol::lease::Lease;
use crate::protocol::time::{BootInstant, Millis};

/// The shortest and the longest lease.
const TTLS: (Millis, Millis) = (Millis(1_000), Millis(24 * 60 * 60 * 1_000));

/// The longest wait.
const LONGEST_WAIT: Millis = Millis(60_000);

/// So many at once.
const MOST: usize = 64;

/// The longest name that a holder gives himself, in bytes: it is read with every admission of its resource.
const LONGEST_HOLDER: usize = 200;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    ttl: String,
    #[serde(default)]
    wait: Option<String>,
    #[serde(default)]
    holder: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedForAll {
    resources: Vec<String>,
    ttl: String,
    #[serde(default)]
    wait: Option<String>,
    #[serde(default)]
    holder: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct His {
    acquisition: String,
}

/// A lease, for its holder.
#[derive(Debug, Serialize)]
pub(super) struct OwnedView {
    resource: String,
    acquisition: String,
    token: String,
    ttl_ms: u64,
    expires_in_ms: u64,
}

/// Several.
#[derive(Debug, Serialize)]
pub(super) struct AllView {
    leases: Vec<OwnedView>,
}

/// A lease, for anybody. The acquisition is its holder's secret.
#[derive(Debug, Serialize)]
pub(super) struct LeaseView {
    resource: String,
    held: bool,
    holder: Option<String>,
    token: Option<String>,
    /// At most, as this instance sees it.
    expires_in_ms: Option<u64>,
}

/// `POST /v1/leases/{resource}/acquire`
pub(super) async fn acquire(
    State(workers): State<Workers>,
    path: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<OwnedView>, Response> {
    let resource = named(&workers.api, path)?;
    let asked: Asked = read(body)?;
    let wanted = wanted(&asked.ttl, asked.wait.as_deref(), asked.holder)?;
    let owned = workers.leases.acquire(&resource, &wanted).await;
    let owned = owned.map_err(|why| refused(&why, Some(&resource)))?;
    Ok(Json(OwnedView::of(&owned, workers.api.clock.boottime())))
}

/// `POST /v1/leases/acquire`: all or none.
pub(super) async fn acquire_all(
    State(workers): State<Workers>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<AllView>, Response> {
    let asked: AskedForAll = read(body)?;
    if asked.resources.is_empty() || asked.resources.len() > MOST {
        let text = format!("`resources` is to name one to {MOST} of them");
        return Err(Problem::malformed(text).into_response());
    }
    let wanted = wanted(&asked.ttl, asked.wait.as_deref(), asked.holder)?;
    let named = asked.resources.iter();
    let resources = named.map(|name| key_of(&workers.api, name));
    let all = workers.leases.acquire_all(resources, &wanted).await;
    let all = all.map_err(|why| refused(&why, None))?;
    let now = workers.api.clock.boottime();
    let leases = all.iter().map(|owned| OwnedView::of(owned, now)).collect();
    Ok(Json(AllView { leases }))
}

/// `POST /v1/leases/{resource}/renew`
pub(super) async fn renew(
    State(workers): State<Workers>,
    path: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<OwnedView>, Response> {
    let resource = named(&workers.api, path)?;
    let his: His = read(body)?;
    let acquisition = AcquisitionId::new(his.acquisition);
    let owned = workers.leases.renew(&resource, &acquisition).await;
    let owned = owned.map_err(|why| refused(&why, Some(&resource)))?;
    Ok(Json(OwnedView::of(&owned, workers.api.clock.boottime())))
}

/// `POST /v1/leases/{resource}/release`
pub(super) async fn release(
    State(workers): State<Workers>,
    path: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<StatusCode, Response> {
    let resource = named(&workers.api, path)?;
    let his: His = read(body)?;
    let acquisition = AcquisitionId::new(his.acquisition);
    let released = workers.leases.release(&resource, &acquisition).await;
    released.map_err(|why| refused(&why, Some(&resource)))?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /v1/leases/{resource}`
pub(super) async fn show(
    State(workers): State<Workers>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<LeaseView>, Response> {
    let resource = named(&workers.api, path)?;
    let register = &workers.api.register;
    let read = workers.api.read(register.read().resource(&resource)).await;
    let stored = read.map_err(IntoResponse::into_response)?;
    let lease = stored.and_then(|stored| stored.fence.lease);
    let left = |lease: &Lease| workers.leases.left(&resource, lease);
    // One whose time is over is held by nobody, though nobody has taken it yet.
    let held = lease.filter(|lease| left(lease) > Millis::default());
    Ok(Json(LeaseView {
        resource: resource.name.to_string(),
        held: held.is_some(),
        expires_in_ms: held.as_ref().map(|lease| left(lease).0),
        token: held.as_ref().map(|lease| lease.token.to_string()),
        holder: held.map(|lease| lease.holder),
    }))
}

impl OwnedView {
    fn of(owned: &Owned, now: BootInstant) -> Self {
        Self {
            resource: owned.resource.name.to_string(),
            acquisition: owned.lease.acquisition.as_str().to_owned(),
            token: owned.lease.token.to_string(),
            ttl_ms: owned.lease.ttl.0,
            expires_in_ms: owned.until.since(now).0,
        }
    }
}

pub(super) fn named(
    api: &Api,
    path: Result<Path<String>, PathRejection>,
) -> Result<ResourceKey, Response> {
    let name = parts(path).map_err(IntoResponse::into_response)?;
    Ok(key_of(api, &name))
}

fn read<T: DeserializeOwned>(body: Result<Bytes, BytesRejection>) -> Result<T, Response> {
    let body = body.map_err(|refusal| unread(&refusal).into_response())?;
    serde_json::from_slice(&body)
        .map_err(|error| Problem::malformed(error.to_string()).into_response())
}

fn wanted(ttl: &str, wait: Option<&str>, holder: String) -> Result<Wanted, Response> {
    let malformed = |text: String| Problem::malformed(text).into_response();
    let (shortest, longest) = TTLS;
    let ttl = config::duration(ttl).filter(|ttl| (shortest..=longest).contains(ttl));
    let ttl = ttl.ok_or_else(|| malformed("`ttl` is to be from `1s` to `24h`".to_owned()))?;
    let wait = wait.map_or(Some(Millis::default()), config::pause);
    let wait = wait.filter(|wait| *wait <= LONGEST_WAIT);
    let wait = wait.ok_or_else(|| malformed("`wait` is to be from `0s` to `60s`".to_owned()))?;
    if holder.len() > LONGEST_HOLDER {
        let text = format!("`holder` is to be at most {LONGEST_HOLDER} bytes long");
        return Err(malformed(text));
    }
    Ok(Wanted { holder, ttl, wait })
}

fn refused(why: &NoLease, resource: Option<&ResourceKey>) -> Response {
    let problem = match why {
        NoLease::Held(_) => {
            Problem::conflict("lease-held", "another holds it; ask again after a while")
        }
        NoLease::Lost => Problem::new(
            StatusCode::PRECONDITION_FAILED,
            "lease-lost",
            "it is not yours any more: send nothing under its token, and acquire it anew",
        ),
        NoLease::Cancelled => Problem::new(
            StatusCode::GONE,
            "resource-cancelled",
            "a person cancelled the resource; it is owned by nobody until it is reopened",
        ),
        NoLease::OtherSource(source) => Problem::conflict(
            "token-source",
            format!("its tokens come from `{source}`: two who count would not know of each other"),
        ),
        NoLease::Exhausted => Problem::conflict(
            "token-exhausted",
            "no token above its mark is left in this epoch; an operator has to repair the resource",
        ),
        NoLease::Store(error) => Problem::from(error.clone()),
    };
    let problem = match resource {
        Some(resource) => problem.resource(&resource.name),
        None => problem,
    };
    let mut response = problem.into_response();
    if let NoLease::Held(left) = why {
        let seconds = left.0.div_ceil(1_000).max(1);
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
