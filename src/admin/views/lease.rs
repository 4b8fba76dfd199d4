//! Leases, for anybody.
//!
//! What always holds: the acquisition is its holder's secret, and only its digest is shown; what is left is what this
//! instance would give its holder at most.
//!
//! What it does not do: tell the holder what he needs to renew; he was told when he acquired.

use serde::{Deserialize, Serialize};

use super::words::time;
use crate::lease::secret::digest;
use crate::protocol::lease::Lease;
use crate::protocol::time::Millis;

/// Who owns a resource for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseView {
    /// Name of the resource.
    pub resource: String,
    /// Does anybody? One whose time is over is held by nobody, though nobody has taken it yet.
    pub held: bool,
    /// Who, as he calls himself.
    pub holder: Option<String>,
    /// The token that orders him.
    pub token: Option<String>,
    /// For how long yet, at most, as this instance sees it.
    pub expires_in_ms: Option<u64>,
    /// For how long from each renewal on.
    pub ttl_ms: Option<u64>,
    /// When it was acquired or renewed last, by the wall clock of whoever wrote it.
    pub since: Option<String>,
    /// How often it was renewed.
    pub renewals: Option<u64>,
    /// The first half of the SHA-256 of its acquisition id, as log lines have it.
    pub acquisition_digest: Option<String>,
}

/// Leases by the names of their resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseList {
    /// The page: those that are held.
    pub leases: Vec<LeaseView>,
    /// Give this as `after` for the next page; null at the end.
    pub next: Option<String>,
}

impl LeaseView {
    /// The lease on a resource, if there is one, and what is left of it.
    pub fn of(resource: &str, lease: Option<(&Lease, Millis)>) -> Self {
        let held = lease.filter(|(_, left)| *left > Millis::default());
        let lease = held.map(|(lease, _)| lease);
        Self {
            resource: resource.to_owned(),
            held: held.is_some(),
            holder: lease.map(|lease| lease.holder.clone()),
            token: lease.map(|lease| lease.token.to_string()),
            expires_in_ms: held.map(|(_, left)| left.0),
            ttl_ms: lease.map(|lease| lease.ttl.0),
            since: lease.map(|lease| time(&lease.since)),
            renewals: lease.map(|lease| lease.renewals),
            acquisition_digest: lease.map(|lease| digest(&lease.acquisition)),
        }
    }
}
