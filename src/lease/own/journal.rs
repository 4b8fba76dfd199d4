//! What is logged of leases: who got one, gave it back, lost it, took one over.
//!
//! What always holds: a line names the resource, the token and the digest of the acquisition, never the acquisition
//! itself: it is its holder's secret. A renewal that succeeds is not logged; the record counts it.
//!
//! What it does not do: count (`telemetry::metrics`).

use super::NoLease;
use super::line::Before;
use crate::lease::secret::digest;
use crate::protocol::ids::{AcquisitionId, FencingToken, ResourceKey};
use crate::protocol::lease::Lease;

/// `before`: whose lease was on record here, and how it ended.
pub(super) fn granted(
    resource: &ResourceKey,
    lease: &Lease,
    before: Option<&(AcquisitionId, Before)>,
) {
    let expired = before.filter(|(_, how)| *how == Before::Expired);
    tracing::info!(
        resource = %resource.name,
        acquisition = digest(&lease.acquisition),
        token = %lease.token,
        holder = lease.holder,
        ttl_ms = lease.ttl.0,
        expired = expired.map(|(acquisition, _)| digest(acquisition)),
        "a lease was granted"
    );
}

pub(super) fn released(
    resource: &ResourceKey,
    acquisition: &AcquisitionId,
    token: Option<FencingToken>,
) {
    tracing::info!(
        resource = %resource.name,
        acquisition = digest(acquisition),
        token = token.map(tracing::field::display),
        "a lease was given back"
    );
}

/// He wanted to keep it. Where the register did not say, it is his until his time is over.
pub(super) fn not_renewed(resource: &ResourceKey, acquisition: &AcquisitionId, why: &NoLease) {
    if !matches!(why, NoLease::Store(_)) {
        lost(resource, acquisition, why);
        return;
    }
    tracing::warn!(
        resource = %resource.name,
        acquisition = digest(acquisition),
        error = %why,
        "a lease is not renewed"
    );
}

/// He wanted to be rid of it. Where the register did not say, it ends by itself.
pub(super) fn not_released(resource: &ResourceKey, acquisition: &AcquisitionId, why: &NoLease) {
    if !matches!(why, NoLease::Store(_)) {
        lost(resource, acquisition, why);
        return;
    }
    tracing::warn!(
        resource = %resource.name,
        acquisition = digest(acquisition),
        error = %why,
        "it is not known whether a lease was given back"
    );
}

/// He wanted to keep it, or thought that it was still his.
pub(super) fn lost(resource: &ResourceKey, acquisition: &AcquisitionId, why: &NoLease) {
    tracing::warn!(
        resource = %resource.name,
        acquisition = digest(acquisition),
        error = %why,
        "a lease is lost"
    );
}
