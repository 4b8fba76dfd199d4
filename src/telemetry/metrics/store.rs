//! What the register does: commits, and what it forgets.
//!
//! What always holds: no label names an operation or a resource.
//!
//! What it does not do: count operations by state; the register is asked for that.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::{Metrics, NoLabels, OneLabel, approximate, counted, histogram, seconds_from_us};

pub(super) struct StoreMetrics {
    commit: Histogram,
    batch: Histogram,
    forgotten: Family<OneLabel, Counter>,
    standing: Family<OneLabel, Gauge>,
    epochs: Family<NoLabels, Counter>,
}

impl StoreMetrics {
    pub(super) fn registered(registry: &mut Registry) -> Self {
        Self {
            commit: histogram(
                registry,
                "store_commit_seconds",
                "One commit of the register",
                exponential_buckets(0.000_05, 2.0, 16),
            ),
            batch: histogram(
                registry,
                "store_batch_size",
                "Commands in one commit of the register",
                exponential_buckets(1.0, 2.0, 10),
            ),
            forgotten: counted(
                registry,
                "store_forgotten",
                "What the register forgot because it was old",
            ),
            standing: counted(
                registry,
                "store_standing",
                "How a shared register stands, as this sidecar knows: 1 of the one that it is; it admits only \
                 where that is `whole`",
            ),
            epochs: counted(
                registry,
                "store_epochs_begun",
                "Epochs that this sidecar began by itself, after fail-overs that lost nothing",
            ),
        }
    }
}

impl Metrics {
    /// The register committed `commands` commands in one transaction.
    pub fn store_commit(&self, took_us: u64, commands: usize) {
        let store = &self.0.store;
        store.commit.observe(seconds_from_us(took_us));
        store.batch.observe(approximate(commands));
    }

    /// How a register stands that is shared, of all the ways in which one can, and how many epochs this process
    /// began in it so far.
    pub fn store_stands(&self, ways: &[(&'static str, bool)], epochs_begun: u64) {
        let store = &self.0.store;
        for (word, is_so) in ways {
            let gauge = store.standing.get_or_create(&[("standing", *word)]);
            gauge.set((*is_so).into());
        }
        let begun = store.epochs.get_or_create(&[]);
        begun.inc_by(epochs_begun.saturating_sub(begun.get()));
    }

    /// The register forgot what was old.
    pub fn store_forgot(&self, answers: u64, identities: u64) {
        for (what, number) in [("answers", answers), ("identities", identities)] {
            let forgotten = self.0.store.forgotten.get_or_create(&[("what", what)]);
            forgotten.inc_by(number);
        }
    }
}
