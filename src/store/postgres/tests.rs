//! What only a register with many owners can get wrong.

mod races;
mod unknown;

use super::servers::Database;
use super::{Options, Owner, PostgresBackend, open};
use crate::clock::Clock;
use crate::protocol::ids::InstanceId;
use crate::store::conformance::commands::TENANT;
use crate::store::seal::MasterKey;
use std::sync::Arc;

/// A sidecar that reaches its database at this URL.
async fn sidecar(url: String, instance: u128) -> Arc<PostgresBackend> {
    let options = Options {
        url,
        keys: vec![MasterKey::new([7; 32])],
        migrate: true,
        name: format!("sidecar-{instance}"),
        tenant: TENANT.to_owned(),
    };
    let owner = Owner {
        instance: InstanceId(instance),
        clock: Clock::system().unwrap(),
        committed: Box::new(|_, _| {}),
    };
    open(options, owner).await.unwrap().backend
}

async fn sidecars(database: &Database, count: u128) -> Vec<Arc<PostgresBackend>> {
    let mut all = Vec::new();
    for instance in 1..=count {
        all.push(sidecar(database.url(), instance).await);
    }
    all
}
