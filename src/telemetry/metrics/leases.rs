//! Who owns what for a while, as numbers.
//!
//! What always holds: no label names a resource or a holder.
//!
//! What it does not do: know which leases are live; whoever holds them counts.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::{InFlight, Metrics, OneLabel, counted, histogram, seconds_from_us};

pub(super) struct LeaseMetrics {
    held: Family<OneLabel, Gauge>,
    waiting: Gauge,
    acquire: Histogram,
    renewals_failed: Counter,
    transfers: Family<OneLabel, Counter>,
}

impl LeaseMetrics {
    pub(super) fn registered(registry: &mut Registry) -> Self {
        Self {
            held: counted(
                registry,
                "lease_held",
                "Leases that were acquired or renewed through this instance and are live by its clock",
            ),
            waiting: counted(
                registry,
                "lease_waiting",
                "Who waits for a lease at this instance now",
            ),
            acquire: histogram(
                registry,
                "lease_acquire_seconds",
                "From asking for a lease until it was granted, waiting included",
                exponential_buckets(0.000_1, 2.0, 20),
            ),
            renewals_failed: counted(
                registry,
                "lease_renewal_failures",
                "Renewals that did not succeed: to their holder, loss of ownership",
            ),
            transfers: counted(
                registry,
                "ownership_transfers",
                "Leases granted on a resource that was owned before, by how that had ended",
            ),
        }
    }
}

impl Metrics {
    /// So many leases of a source are live.
    pub fn leases_held(&self, source: &'static str, number: usize) {
        let held = self.0.leases.held.get_or_create(&[("source", source)]);
        held.set(i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// Somebody waits for a lease, until the guard is dropped.
    pub fn waits_for_lease(&self) -> InFlight {
        InFlight::one(&self.0.leases.waiting)
    }

    /// A lease was granted, so long after it was asked for.
    pub fn lease_acquired(&self, took_us: u64) {
        self.0.leases.acquire.observe(seconds_from_us(took_us));
    }

    /// A renewal did not succeed.
    pub fn lease_renewal_failed(&self) {
        self.0.leases.renewals_failed.inc();
    }

    /// A resource has another owner. `after`: `release` or `expiry` of the lease before.
    pub fn ownership_passed(&self, after: &'static str) {
        let transfers = self.0.leases.transfers.get_or_create(&[("after", after)]);
        transfers.inc();
    }
}
