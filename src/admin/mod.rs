//! What operators and orchestrators see: the operator API, liveness, readiness, metrics, and the
//! client that the command line speaks to the API with.
//!
//! What always holds: nothing is changed without a named operator and a reason; liveness never
//! depends on the register; stored bodies leave only when a named operator asks for them, and stored
//! credentials never.
//!
//! What it does not do: decide (`protocol`), or choose addresses and start order (`app`).

pub mod access;
pub mod api;
pub mod client;
pub mod comparison;
mod epoch;
pub mod health;
pub mod in_force;
mod leases;
mod on_behalf;
mod operations;
pub mod problem;
pub mod reload;
pub mod report;
mod resolve;
mod resolve_many;
mod resources;
mod settle;
mod status;
mod steering;
pub mod views;
mod why;
pub mod worker;

use std::future::Future;

use tokio::net::TcpListener;

/// Serves a router until `shutdown` resolves, then finishes what is under way.
pub async fn serve(
    listener: TcpListener,
    router: axum::Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, router)
        .with_graceful_shutdown(shutdown)
        .await
}

#[cfg(test)]
mod stand_in;
#[cfg(test)]
pub(crate) mod tests;
