//! What only a register with many owners can get wrong.

mod moving;
mod races;
mod restored;
mod unknown;

use super::servers::Database;
use super::{Options, Owner, PostgresBackend, open};
use crate::clock::Clock;
use crate::protocol::ids::InstanceId;
use crate::store::conformance::commands::TENANT;
use crate::store::seal::MasterKey;
use std::sync::Arc;

fn options(url: String, instance: u128) -> Options {
    Options {
        url,
        keys: vec![MasterKey::new([7; 32])],
        migrate: true,
        name: format!("sidecar-{instance}"),
        tenant: TENANT.to_owned(),
    }
}

fn owner(instance: u128) -> Owner {
    Owner {
        instance: InstanceId(instance),
        clock: Clock::system().unwrap(),
        committed: Box::new(|_, _| {}),
    }
}

/// A sidecar that reaches its database at this URL.
async fn sidecar(url: String, instance: u128) -> Arc<PostgresBackend> {
    let opened = open(options(url, instance), owner(instance)).await;
    opened.unwrap().backend
}

async fn sidecars(database: &Database, count: u128) -> Vec<Arc<PostgresBackend>> {
    let mut all = Vec::new();
    for instance in 1..=count {
        all.push(sidecar(database.url(), instance).await);
    }
    all
}
