//! `GET /v1/status`: the instance and its register, for whoever looks after them.
//!
//! What always holds: it answers also where the register does not, and says so. Every look at the register is
//! bounded in time.
//!
//! What it does not do: prove more than `/readyz` does.

use axum::Json;
use axum::extract::State;
use tokio::time::timeout;

use super::api::{Api, READ_LIMIT};
use super::views::{CountedView, PressingView, RegisterView, StandingView, StatusView};
use crate::reconcile::{Reconciler, least_of_all};
use crate::store::{OperationQuery, StoreError};
use crate::telemetry::metrics::Metrics;

pub(super) async fn show(State(api): State<Api>) -> Json<StatusView> {
    let mut reasons = api.readiness.obstacles().await;
    let ready = reasons.is_empty();
    let register = known(about(&api).await, &mut reasons);
    let counted = counted(&api, &mut reasons).await;
    let counted = known(counted, &mut reasons);
    Json(StatusView {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance: api.register.instance().to_string(),
        config_digest: api.in_force.digest(),
        tenant: api.tenant.to_string(),
        draining: api.readiness.is_draining(),
        ready,
        reasons,
        register,
        counted,
        contradictions: api.metrics.as_ref().map(Metrics::contradictions),
        settling: settling(&api),
    })
}

/// Nobody settles where nobody runs.
fn settling(api: &Api) -> Vec<StandingView> {
    let standings = api.reconciler.as_ref().map(Reconciler::standings);
    let now = api.clock.now();
    let standings = standings.unwrap_or_default().into_iter();
    standings
        .map(|standing| StandingView::of(standing, &now))
        .collect()
}

/// Why something is not known is told once.
fn known<T>(read: Result<T, String>, reasons: &mut Vec<String>) -> Option<T> {
    match read {
        Ok(known) => Some(known),
        Err(why) => {
            if !reasons.contains(&why) {
                reasons.push(why);
            }
            None
        }
    }
}

async fn about(api: &Api) -> Result<RegisterView, String> {
    let about = bounded(api.register.read().about()).await?;
    Ok(RegisterView::of(about))
}

async fn counted(api: &Api, reasons: &mut Vec<String>) -> Result<CountedView, String> {
    let last = OperationQuery {
        limit: 1,
        ..OperationQuery::default()
    };
    let register = api.register.read();
    let summary = bounded(register.summary()).await?;
    let pressing = bounded(register.pressing()).await?;
    let page = bounded(register.operations(&last)).await?;
    let newest = page.operations.first();
    let looker = api.looker();
    let walked = if let Some(reconciler) = &api.reconciler {
        reconciler.key_lifetime_left(&pressing, &looker.now)
    } else {
        // Nobody runs there who would have walked. What was counted is told also where that takes too long.
        let walked = bounded(least_of_all(register, &pressing, &looker.now)).await;
        known(walked, reasons).flatten()
    };
    let pressing = PressingView::of(&pressing, walked, &looker.now);
    Ok(CountedView::of(&summary, &pressing, newest, &looker))
}

async fn bounded<T>(read: impl Future<Output = Result<T, StoreError>>) -> Result<T, String> {
    match timeout(READ_LIMIT, read).await {
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(_elapsed) => Err("the register does not answer in time".to_owned()),
    }
}
