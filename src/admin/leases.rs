//! Leases, for workers: acquire, renew, release, look.
//!
//! What always holds: whoever is told that he owns a resource is told it by the register, and for how long by a clock
//! that began before he was asked for; whoever hangs up while he waits leaves the line. Nothing here owns anything.
//!
//! What it does not do: decide (`protocol::lease`), or renew for anybody.

use axum::Json;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use bytes::Bytes;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::api::{Api, asked, given, page_length, parts};
use super::problem::Problem;
use super::resolve::unread;
use super::resources::{Page, key_of};
use super::views::{LeaseList, LeaseView};
use crate::config;
use crate::lease::own::{NoLease, Owned, Wanted};
use crate::protocol::fence::Fence;
use crate::protocol::ids::{AcquisitionId, ResourceKey, ResourceName};
use crate::protocol::time::{BootInstant, Millis};

/// The shortest and the longest lease.
const TTLS: (Millis, Millis) = (Millis(1_000), Millis(24 * 60 * 60 * 1_000));

/// The longest wait.
const LONGEST_WAIT: Millis = Millis(60_000);

/// Whoever is refused is advised to ask again no sooner and no later.
const SOONEST: Millis = Millis(200);
const LATEST: Millis = Millis(10_000);

/// So many at once.
const MOST: usize = 64;

/// The longest name that a holder gives himself, in bytes: it is read with every admission of its resource.
const LONGEST_HOLDER: usize = 200;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// Where the path names none.
    #[serde(default)]
    resources: Option<Vec<String>>,
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

/// `POST /v1/leases/{resource}/acquire`
pub(super) async fn acquire(
    State(api): State<Api>,
    path: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<OwnedView>, Problem> {
    let resource = named(&api, path)?;
    let asked: Asked = read(body, r#"{"ttl":"30s"}"#)?;
    if asked.resources.is_some() {
        let text = "`resources` names several, and the path names one";
        return Err(Problem::malformed(text));
    }
    let wanted = asked.wanted()?;
    let owned = api.leases.acquire(&resource, &wanted).await;
    let owned = owned.map_err(|why| refused(&why, &resource))?;
    Ok(Json(OwnedView::of(&owned, api.clock.boottime())))
}

/// `POST /v1/leases/acquire`: all or none.
pub(super) async fn acquire_all(
    State(api): State<Api>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<AllView>, Problem> {
    let mut asked: Asked = read(body, r#"{"resources":["…"],"ttl":"30s"}"#)?;
    let names = asked.resources.take().unwrap_or_default();
    if names.is_empty() || names.len() > MOST {
        let text = format!("`resources` is to name one to {MOST} of them");
        return Err(Problem::malformed(text));
    }
    let wanted = asked.wanted()?;
    for name in &names {
        taken(name)?;
    }
    let resources = names.iter().map(|name| key_of(&api, name));
    let all = api.leases.acquire_all(resources, &wanted).await;
    let all = all.map_err(|(resource, why)| refused(&why, &resource))?;
    let now = api.clock.boottime();
    let leases = all.iter().map(|owned| OwnedView::of(owned, now)).collect();
    Ok(Json(AllView { leases }))
}

/// `POST /v1/leases/{resource}/renew`
pub(super) async fn renew(
    State(api): State<Api>,
    path: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<OwnedView>, Problem> {
    let resource = named(&api, path)?;
    let his: His = read(body, r#"{"acquisition":"…"}"#)?;
    let acquisition = AcquisitionId::new(his.acquisition);
    let owned = api.leases.renew(&resource, &acquisition).await;
    let owned = owned.map_err(|why| refused(&why, &resource))?;
    Ok(Json(OwnedView::of(&owned, api.clock.boottime())))
}

/// `POST /v1/leases/{resource}/release`
pub(super) async fn release(
    State(api): State<Api>,
    path: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<StatusCode, Problem> {
    let resource = named(&api, path)?;
    let his: His = read(body, r#"{"acquisition":"…"}"#)?;
    let acquisition = AcquisitionId::new(his.acquisition);
    let released = api.leases.release(&resource, &acquisition).await;
    released.map_err(|why| refused(&why, &resource))?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /v1/leases/{resource}`
pub(super) async fn show(
    State(api): State<Api>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<LeaseView>, Problem> {
    let resource = key_of(&api, &parts(path)?);
    let stored = api.read(api.register.read().resource(&resource)).await?;
    match stored {
        Some(stored) => Ok(Json(view(&api, &stored.fence).await?)),
        None => Ok(Json(LeaseView::of(resource.name.as_str(), None))),
    }
}

/// `GET /v1/leases`: those that are held, by the names of their resources.
pub(super) async fn list(
    State(api): State<Api>,
    query: Result<Query<Page>, QueryRejection>,
) -> Result<Json<LeaseList>, Problem> {
    let page = asked(query)?;
    let limit = page_length(page.limit.as_ref())?;
    let after = given(page.after.as_ref());
    let fences = api.read(api.register.read().leased(after, limit)).await?;
    let last = fences.last().map(|fence| fence.resource.name.to_string());
    let is_full = fences.len() >= limit;
    let epoch = api.read(api.register.read().epoch()).await?;
    let own = fences
        .iter()
        .filter(|fence| fence.resource.tenant == api.tenant);
    let views = own.map(|fence| view_in(&api, fence, epoch));
    Ok(Json(LeaseList {
        leases: views.filter(|view| view.held).collect(),
        next: last.filter(|_| is_full),
    }))
}

/// The lease on a resource, as it is on record.
pub(super) async fn view(api: &Api, fence: &Fence) -> Result<LeaseView, Problem> {
    // Most have none, and the register need not be asked for its epoch.
    let epoch = match &fence.lease {
        Some(_) => api.read(api.register.read().epoch()).await?,
        None => 0,
    };
    Ok(view_in(api, fence, epoch))
}

fn view_in(api: &Api, fence: &Fence, epoch: u64) -> LeaseView {
    let lease = fence.lease_of(epoch);
    let lease = lease.map(|lease| (lease, api.leases.left(&fence.resource, lease)));
    LeaseView::of(fence.resource.name.as_str(), lease)
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
) -> Result<ResourceKey, Problem> {
    let name = parts(path)?;
    taken(&name)?;
    Ok(key_of(api, &name))
}

fn taken(name: &str) -> Result<(), Problem> {
    let longest = ResourceName::LONGEST;
    let why = || {
        Problem::malformed(format!(
            "the name of a resource is 1 to {longest} bytes long"
        ))
    };
    ResourceName::taken(name).map(drop).ok_or_else(why)
}

/// `form`: what is to be said, for whoever says nothing.
fn read<T: DeserializeOwned>(
    body: Result<Bytes, BytesRejection>,
    form: &str,
) -> Result<T, Problem> {
    let body = body.map_err(|refusal| unread(&refusal))?;
    if body.is_empty() {
        let text = format!("a JSON body is needed: `{form}`");
        return Err(Problem::malformed(text));
    }
    serde_json::from_slice(&body).map_err(|error| Problem::malformed(error.to_string()))
}

impl Asked {
    fn wanted(self) -> Result<Wanted, Problem> {
        let malformed = |text: &str| Problem::malformed(text);
        let (shortest, longest) = TTLS;
        let ttl = config::duration(&self.ttl).filter(|ttl| (shortest..=longest).contains(ttl));
        let ttl = ttl.ok_or_else(|| malformed("`ttl` is to be from `1s` to `24h`"))?;
        let wait = self.wait.as_deref();
        let wait = wait.map_or(Some(Millis::default()), config::pause);
        let wait = wait.filter(|wait| *wait <= LONGEST_WAIT);
        let wait = wait.ok_or_else(|| malformed("`wait` is to be from `0s` to `60s`"))?;
        if self.holder.len() > LONGEST_HOLDER {
            let text = format!("`holder` is to be at most {LONGEST_HOLDER} bytes long");
            return Err(malformed(&text));
        }
        let holder = self.holder;
        Ok(Wanted { holder, ttl, wait })
    }
}

fn refused(why: &NoLease, resource: &ResourceKey) -> Problem {
    let problem = match why {
        NoLease::Held(left) => Problem::conflict(
            "lease-held",
            "another holds it: stand in line with `wait`, or ask again after `retry_after_ms`",
        )
        .retry_after(advised(*left)),
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
            format!(
                "its tokens come from `{source}`: two who count would not know of each other; to change over: \
                 `source: fencepost` in the config, then `fencepost epoch advance`"
            ),
        ),
        NoLease::Exhausted => Problem::conflict(
            "token-exhausted",
            "no token above its mark is left in this epoch: the next one is started for all resources by `fencepost epoch advance`",
        ),
        NoLease::Store(error) => Problem::from(error.clone()),
    };
    problem.resource(&resource.name)
}

/// When to ask again for what is held for so long: a random part of that, so that those who ask do not all come at once,
/// and not too late for what is given back early.
fn advised(left: Millis) -> Millis {
    let most = left.clamp(SOONEST, LATEST).0;
    let mut random = [0; 8];
    // Without it everybody is advised alike, which is only worse.
    let _unfilled = SystemRandom::new().fill(&mut random);
    let least = most / 2;
    let spread = u64::from_le_bytes(random).checked_rem(most - least + 1);
    Millis(least + spread.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_nothing_is_told_what_to_say() {
        let nothing = read::<His>(Ok(Bytes::new()), "{…}").err().unwrap();
        assert_eq!(nothing.detail(), "a JSON body is needed: `{…}`");
        let half = read::<His>(Ok(Bytes::from_static(b"{")), "{…}");
        assert!(half.err().unwrap().detail().contains("EOF"));
    }

    #[test]
    fn those_who_ask_again_are_spread() {
        for (left, from, to) in [
            (0, 100, 200),
            (7_000, 3_500, 7_000),
            (86_400_000, 5_000, 10_000),
        ] {
            let advice: Vec<u64> = (0..200).map(|_| advised(Millis(left)).0).collect();
            assert!(
                advice.iter().all(|ms| (from..=to).contains(ms)),
                "{advice:?}"
            );
            let (first, last) = (advice.iter().min().unwrap(), advice.iter().max().unwrap());
            assert!(last - first > (to - from) / 2, "{first} to {last}");
        }
    }
}
