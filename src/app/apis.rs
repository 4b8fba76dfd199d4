//! The APIs of an instance: for operators, for workers, for whoever looks after its health.
//!
//! What always holds: each has a listener of its own, bound before anything is served; all speak of the same instance.
//!
//! What it does not do: answer (`admin`).

use std::sync::Arc;

use tokio::net::TcpListener;

use super::reload::Reloader;
use super::{AppError, bind};
use crate::admin::api::{Api, Needs};
use crate::admin::health::{Health, Readiness};
use crate::admin::{access, api, health, worker};
use crate::config::Config;
use crate::dispatch::attempt::Dispatcher;
use crate::dispatch::waiters::Ended;
use crate::observe::counts::Counts;
use crate::protocol::ids::OperationKey;

/// Each with its socket.
pub(super) async fn bound(
    config: &Config,
    reloader: &Reloader,
    report: Counts,
) -> Result<Vec<(TcpListener, axum::Router)>, AppError> {
    let parts = reloader.inner();
    let dispatcher = &parts.dispatcher;
    let draining = dispatcher.supervisor.draining_token();
    let readiness = Readiness::new(dispatcher.register.clone(), draining);
    let mut routers = Vec::new();
    let operators = parts.operators.clone();
    let leases = dispatcher.leases.clone();
    let api = Api::from(Needs {
        register: dispatcher.register.clone(),
        clock: dispatcher.clock.clone(),
        tenant: config.tenant.clone(),
        operators: operators.clone(),
        readiness: readiness.clone(),
        in_force: parts.in_force.clone(),
        report: Some(report),
        settled: wake_waiters(dispatcher),
        reloading: Some(reloader.reloading()),
        reconciler: Some(parts.reconciler.clone()),
        metrics: Some(dispatcher.metrics.clone()),
        leases: leases.clone(),
        tasks: dispatcher.supervisor.effects(),
    });
    if let Some(admin) = &config.admin {
        let socket = access::bind(admin.address, &operators)
            .await
            .map_err(AppError::Admin)?;
        routers.push((socket, api::router(api.clone())));
    }
    if let Some(address) = config.worker {
        let socket = bind("workers".to_owned(), address).await?;
        let claims = parts.doors.claims().clone();
        routers.push((socket, worker::router(api.clone(), claims)));
    }
    if let Some(address) = config.health {
        let socket = bind("health".to_owned(), address).await?;
        let metrics = dispatcher.metrics.clone();
        let clock = dispatcher.clock.clone();
        let (in_force, reconciler) = (parts.in_force.clone(), parts.reconciler.clone());
        let reconciler = Some(reconciler);
        let health = Health::new(readiness, metrics, clock, in_force, reconciler, leases);
        routers.push((socket, health::router(health)));
    }
    Ok(routers)
}

/// A person settled an operation: whoever waits for it is woken with what the record holds.
fn wake_waiters(dispatcher: &Dispatcher) -> api::Settled {
    let dispatcher = dispatcher.clone();
    Arc::new(move |key: &OperationKey| {
        let (key, dispatcher) = (key.clone(), dispatcher.clone());
        let supervisor = dispatcher.supervisor.clone();
        supervisor.effect(async move {
            if let Ok(Some(stored)) = dispatcher.register.read().operation(&key, false).await {
                let turn = stored.operation.turn();
                let state = stored.operation.state;
                dispatcher.waiters.publish(Ended {
                    key,
                    turn,
                    attempt: None,
                    state,
                    evidence: None,
                });
            }
        });
    })
}
