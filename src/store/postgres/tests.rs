//! What only a register with many owners can get wrong.

mod failures;
mod races;
mod unknown;

use super::servers::Database;
use super::{OpenError, Options, Owner, Part, PostgresBackend, open};
use crate::clock::Clock;
use crate::protocol::ids::InstanceId;
use crate::store::conformance::commands::TENANT;
use crate::store::seal::MasterKey;
use std::sync::Arc;

/// A sidecar that reaches its database at this URL.
async fn sidecar(url: String, instance: u128) -> Arc<PostgresBackend> {
    try_sidecar(url, instance).await.unwrap()
}

async fn try_sidecar(url: String, instance: u128) -> Result<Arc<PostgresBackend>, OpenError> {
    let options = Options {
        url,
        tls: None,
        keys: vec![MasterKey::new([7; 32])],
        migrate: true,
        name: format!("sidecar-{instance}"),
        tenant: TENANT.to_owned(),
        part: Part::Sidecar,
    };
    let owner = Owner {
        instance: InstanceId(instance),
        clock: Clock::system().unwrap(),
        committed: Box::new(|_, _| {}),
    };
    Ok(open(options, owner).await?.backend)
}

async fn sidecars(database: &Database, count: u128) -> Vec<Arc<PostgresBackend>> {
    let mut all = Vec::new();
    for instance in 1..=count {
        all.push(sidecar(database.url(), instance).await);
    }
    all
}
