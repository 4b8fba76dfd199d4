//! The operator API, below `/v1`.
//!
//! What always holds: every route is behind [`access`], the 404 too; a read is bounded
//! in time; answers are not cached by anybody.
//!
//! What it does not do: decide anything.

use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::access::{self, Operators};
use super::health::Readiness;
use super::in_force::{self, InForce};
use super::problem::Problem;
use super::reload::Reloading;
use super::views::Looker;
use super::{
    comparison, epoch, leases, operations, reload, report, resolve, resolve_many, resources,
    settle, status, steering, why,
};
use crate::clock::Clock;
use crate::lease::own::Own;
use crate::observe::counts::Counts;
use crate::protocol::ids::{OperationKey, Tenant};
use crate::reconcile::Reconciler;
use crate::store::{Register, StoreError};
use crate::telemetry::metrics::Metrics;

/// The register must answer a read within this.
pub(super) const READ_LIMIT: Duration = Duration::from_secs(5);

/// Longest body of a request, in bytes: room for a stated answer of 1 MiB in JSON.
const BODY_LIMIT: usize = 4 << 20;

/// Most records on one page.
const LONGEST_PAGE: usize = 500;

/// Records on a page where nothing is asked.
const USUAL_PAGE: usize = 50;

/// Told of every operation that a person settled, so that those who wait for it wake up.
pub type Settled = Arc<dyn Fn(&OperationKey) + Send + Sync>;

/// What the APIs of operators and workers need, together: every request clones it several times.
#[derive(Clone)]
pub struct Api(Arc<Needs>);

/// What they need.
pub struct Needs {
    /// The register.
    pub register: Register,
    /// For commands and ages.
    pub clock: Clock,
    /// Whose operations these are; others in the register are not shown.
    pub tenant: Tenant,
    /// Who may use it.
    pub operators: Operators,
    /// Whether effects can be admitted.
    pub readiness: Readiness,
    /// The config in force.
    pub in_force: InForce,
    /// What the rules find; `None`: what was kept of it cannot be read.
    pub report: Option<Counts>,
    /// Told of what was settled.
    pub settled: Settled,
    /// Reads the config again; `None`: nobody runs on this register.
    pub reloading: Option<Reloading>,
    /// Settles at once; `None`: nobody runs on this register.
    pub reconciler: Option<Reconciler>,
    /// The numbers of this process; `None`: nobody runs on this register.
    pub metrics: Option<Metrics>,
    /// Leases of the register.
    pub leases: Own,
    /// Where resolutions run, so that a caller who hangs up cuts none in half.
    pub tasks: TaskTracker,
}

impl From<Needs> for Api {
    fn from(needs: Needs) -> Self {
        Self(Arc::new(needs))
    }
}

impl Deref for Api {
    type Target = Needs;

    fn deref(&self) -> &Needs {
        &self.0
    }
}

/// The routes of the operators' listener.
pub fn router(api: Api) -> Router {
    let operators = api.operators.clone();
    let v1 = Router::new()
        .route("/status", get(status::show))
        .route("/config", get(in_force::show))
        .route("/config/compare", post(comparison::compare))
        .route("/operations", get(operations::list))
        .route("/operations/{upstream}/{id}", get(operations::show))
        .route("/operations/resolve", post(resolve_many::resolve))
        .route(
            "/operations/{upstream}/{id}/resolve",
            post(resolve::resolve),
        )
        .route("/operations/{upstream}/{id}/settle", post(settle::settle))
        .route("/operations/{upstream}/{id}/why", get(why::show))
        .route("/leases", get(leases::list))
        .route("/leases/{resource}", get(leases::show))
        .route("/reload", post(reload::reload))
        .route("/report", get(report::show))
        .route("/resources", get(resources::list))
        .route("/resources/{name}", get(resources::show))
        .route("/resources/{name}/explain", get(resources::explain))
        .route("/resources/{name}/advance", post(steering::advance))
        .route("/resources/{name}/cancel", post(steering::cancel))
        .route("/resources/{name}/reopen", post(steering::reopen))
        .route("/resources/{name}/accept", post(steering::accept))
        .route("/resources/{name}/repair", post(steering::repair))
        .route("/epoch/advance", post(epoch::advance));
    Router::new()
        .nest("/v1", v1)
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(middleware::from_fn_with_state(
            operators,
            access::authenticate,
        ))
        .layer(middleware::from_fn(uncached))
        .with_state(api)
}

impl Api {
    /// A read of the register, bounded in time.
    pub(super) async fn read<T>(
        &self,
        pending: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, Problem> {
        match timeout(READ_LIMIT, pending).await {
            Ok(result) => Ok(result?),
            Err(_) => Err(Problem::too_slow()),
        }
    }

    /// Whoever asks this instance, now.
    pub(super) fn looker(&self) -> Looker {
        Looker {
            living: self.register.living(),
            now: self.clock.now(),
        }
    }
}

pub(super) async fn no_such_path() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "no-such-path",
        "there is nothing here; the API is below /v1, and a `/` within a name is written %2F",
    )
}

pub(super) async fn no_such_method() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "no-such-method",
        "this path does not take this method",
    )
}

async fn uncached(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let no_store = HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, no_store);
    response
}

/// Path parts, as a refusal where they are not UTF-8 once decoded.
pub(super) fn parts<T>(path: Result<axum::extract::Path<T>, PathRejection>) -> Result<T, Problem> {
    match path {
        Ok(axum::extract::Path(parts)) => Ok(parts),
        Err(refusal) => Err(Problem::malformed(refusal.body_text())),
    }
}

/// A query, as a refusal where it has an unknown or doubled field.
pub(super) fn asked<T>(
    query: Result<axum::extract::Query<T>, QueryRejection>,
) -> Result<T, Problem> {
    match query {
        Ok(axum::extract::Query(asked)) => Ok(asked),
        Err(refusal) => Err(Problem::malformed(refusal.body_text())),
    }
}

/// A field of a query; empty is absent.
pub(super) fn given(field: Option<&String>) -> Option<&str> {
    field.map(String::as_str).filter(|text| !text.is_empty())
}

/// A field of a query, read as `T`.
pub(super) fn parsed<T: FromStr>(
    name: &str,
    field: Option<&String>,
    expected: &str,
) -> Result<Option<T>, Problem> {
    given(field)
        .map(|text| {
            text.parse()
                .map_err(|_| Problem::malformed(format!("`{name}` is to be {expected}")))
        })
        .transpose()
}

/// The length of a page, as asked.
pub(super) fn page_length(field: Option<&String>) -> Result<usize, Problem> {
    let length = parsed("limit", field, "a number from 1 to 500")?.unwrap_or(USUAL_PAGE);
    if (1..=LONGEST_PAGE).contains(&length) {
        Ok(length)
    } else {
        Err(Problem::malformed(
            "`limit` is to be a number from 1 to 500",
        ))
    }
}
