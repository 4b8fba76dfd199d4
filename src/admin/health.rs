//! For orchestrators and Prometheus: `/livez`, `/readyz`, `/metrics`.
//!
//! What always holds: liveness says only that this process answers, and touches neither the register
//! nor an upstream; readiness says whether an effect could be admitted durably *now*, proved by a
//! commit. However many ask at once, the register is asked at most once a second.
//!
//! What it does not do: show anything of operations; the listener may be reachable by others.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::in_force::InForce;
use super::views::PressingView;
use crate::clock::{Clock, boottime};
use crate::lease::own::Own;
use crate::protocol::time::{BootInstant, Millis};
use crate::reconcile::Reconciler;
use crate::store::Register;
use crate::store::about::Standing;
use crate::telemetry::logs;
use crate::telemetry::metrics::{CONTENT_TYPE, Metrics};

/// What the register said counts for this long.
const FRESH: Millis = Millis(1_000);

/// The register must prove itself within this.
const PROOF_LIMIT: Duration = Duration::from_secs(2);

/// `/metrics` waits at most that long for the register's counts.
const COUNT_LIMIT: Duration = Duration::from_secs(1);

/// Whether effects can be admitted. Cheap to clone.
#[derive(Clone)]
pub struct Readiness(Arc<Inner>);

struct Inner {
    register: Register,
    draining: CancellationToken,
    last: Mutex<Option<(BootInstant, Result<(), String>)>>,
}

/// What the health listener needs. Cheap to clone.
#[derive(Clone)]
pub struct Health {
    readiness: Readiness,
    metrics: Metrics,
    clock: Clock,
    in_force: InForce,
    counted: Arc<Mutex<Counted>>,
    reconciler: Option<Reconciler>,
    leases: Own,
}

/// What was unsettled when the register was last asked, and when that was.
#[derive(Default)]
struct Counted {
    at: Option<BootInstant>,
    /// `None`: it did not say.
    pressing: Option<PressingView>,
}

#[derive(Serialize)]
struct ReadinessView {
    ready: bool,
    reasons: Vec<String>,
    /// How a shared one stands, in a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    register: Option<&'static str>,
    config_digest: String,
    /// What is unsettled; absent where the register does not say. It makes no instance unready.
    #[serde(skip_serializing_if = "Option::is_none")]
    unsettled: Option<PressingView>,
    /// Evidence against recorded outcomes since this process began.
    contradictions: u64,
}

/// The routes of the health listener.
pub fn router(health: Health) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(health)
}

impl Health {
    /// `metrics`: what `/metrics` shows. `clock`: for the age of the oldest unsettled operation.
    /// `in_force`: the config that `/readyz` names. `reconciler`: who walks over all that is unsettled. `leases`: counted
    /// for `/metrics`.
    pub fn new(
        readiness: Readiness,
        metrics: Metrics,
        clock: Clock,
        in_force: InForce,
        reconciler: Option<Reconciler>,
        leases: Own,
    ) -> Self {
        Self {
            leases,
            reconciler,
            readiness,
            metrics,
            clock,
            in_force,
            counted: Arc::default(),
        }
    }

    fn standing(&self) -> Option<Standing> {
        self.readiness.0.register.read().standing()
    }

    /// Asks the register, unless it was asked just now.
    async fn count_unsettled(&self) -> Option<PressingView> {
        let mut counted = self.counted.lock().await;
        if counted.at.is_some_and(|at| boottime().since(at) < FRESH) {
            return counted.pressing.clone();
        }
        let pressing = self.readiness.0.register.read().pressing();
        let told = timeout(COUNT_LIMIT, pressing).await;
        counted.pressing = if let Ok(Ok(pressing)) = told {
            let (now, reconciler) = (self.clock.now(), self.reconciler.as_ref());
            let walked = reconciler.and_then(|it| it.key_lifetime_left(&pressing, &now));
            let view = PressingView::of(&pressing, walked, &now);
            let millis = |ms: Option<u64>| ms.map(Millis);
            let oldest = millis(view.oldest_ms);
            self.metrics.unsettled(&pressing.by_state, oldest);
            let least = millis(view.key_lifetime_left_ms);
            self.metrics.key_lifetime_left(least);
            Some(view)
        } else {
            self.metrics.unsettled_unknown();
            None
        };
        counted.at = Some(boottime());
        counted.pressing.clone()
    }
}

impl Readiness {
    /// `draining` is cancelled when the instance begins to stop.
    pub fn new(register: Register, draining: CancellationToken) -> Self {
        Self(Arc::new(Inner {
            register,
            draining,
            last: Mutex::new(None),
        }))
    }

    /// Has the instance begun to stop?
    pub fn is_draining(&self) -> bool {
        self.0.draining.is_cancelled()
    }

    /// Why no effect can be admitted now; empty if one can.
    pub async fn obstacles(&self) -> Vec<String> {
        let draining = self.is_draining().then(|| "draining".to_owned());
        let register = self.register_proves_itself().await.err();
        draining.into_iter().chain(register).collect()
    }

    async fn register_proves_itself(&self) -> Result<(), String> {
        let mut last = self.0.last.lock().await;
        if let Some((at, result)) = &*last
            && boottime().since(*at) < FRESH
        {
            return result.clone();
        }
        let result = match timeout(PROOF_LIMIT, self.0.register.read().ready()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the register does not commit in time".to_owned()),
        };
        *last = Some((boottime(), result.clone()));
        result
    }
}

async fn livez() -> &'static str {
    "alive\n"
}

async fn readyz(State(health): State<Health>) -> Response {
    let (reasons, unsettled) = tokio::join!(health.readiness.obstacles(), health.count_unsettled());
    let ready = reasons.is_empty();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let view = ReadinessView {
        ready,
        reasons,
        register: health.standing().map(|it| it.stands.word()),
        config_digest: health.in_force.digest(),
        unsettled,
        contradictions: health.metrics.contradictions(),
    };
    (status, Json(view)).into_response()
}

async fn metrics(State(health): State<Health>) -> Response {
    let _told_by_the_metrics = health.count_unsettled().await;
    health.leases.count();
    health.metrics.log_lines_lost(logs::lost());
    if let Some(standing) = health.standing() {
        let ways = standing.stands.ways();
        health.metrics.store_stands(&ways, standing.epochs_begun);
    }
    match health.metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            tracing::error!(error = %error, "metrics cannot be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
