//! Numbers for Prometheus, as methods named after facts.
//!
//! What always holds: names and labels are those of the documentation, and no label holds a
//! resource, an operation or a customer. What is not known is absent rather than zero or old.
//!
//! What it does not do: read the register or a clock; whoever knows a number hands it in.

mod leases;
mod store;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, prometheus_text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

use crate::protocol::time::Millis;

use leases::LeaseMetrics;
use store::StoreMetrics;

/// Content type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// All metrics of this process. Cloning is cheap and shares them.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

/// Which route an effect came in by; made once per route. From the config, never from a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RouteLabels {
    route: Arc<str>,
    upstream: Arc<str>,
}

/// How a request that was let in was answered: the label `result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answered {
    /// Its own attempt was applied.
    Applied,
    /// Its own attempt was refused by the upstream for good.
    Refused,
    /// Its own attempt had no effect, provably.
    NotApplied,
    /// Nobody knows yet.
    Uncertain,
    /// With a stored outcome.
    Replayed,
    /// With the answer of an attempt that it joined.
    Joined,
}

/// What a request waited for: the label `for`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitedFor {
    /// An older operation of its resource.
    Predecessor,
    /// The attempt of another request with its identity.
    Join,
    /// A connection to the upstream.
    Connection,
    /// A lease.
    Lease,
}

/// One effect counted by `fencepost_in_flight`, or one of those who wait for a lease, until it is dropped.
#[derive(Debug)]
#[must_use = "it counts until this is dropped"]
pub struct InFlight(Gauge);

struct Inner {
    registry: Registry,
    operations: Family<OperationLabels, Counter>,
    rejections: Family<ReasonLabels, Counter>,
    stale: Counter,
    without_identity: Counter,
    unprotected: Counter,
    would_refuse: Family<ReasonLabels, Counter>,
    observed: Family<FindingLabels, Counter>,
    contradictions: Counter,
    in_flight: Gauge,
    unsettled: Family<StateLabels, Gauge>,
    oldest_unsettled: Family<NoLabels, Gauge<f64, AtomicU64>>,
    key_lifetime: Family<NoLabels, Gauge<f64, AtomicU64>>,
    settle: Histogram,
    store: StoreMetrics,
    leases: LeaseMetrics,
    reloads: Family<OneLabel, Counter>,
    log_lines_lost: Counter,
    callbacks: Family<HeardLabels, Counter>,
    upstream: Histogram,
    wait: Family<OneLabel, Histogram, fn() -> Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    route: Arc<str>,
    upstream: Arc<str>,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    route: Arc<str>,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FindingLabels {
    route: Arc<str>,
    finding: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HeardLabels {
    upstream: Arc<str>,
    heard: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

/// `for` is a word of the language, so it cannot be a derived field name.
type OneLabel = [(&'static str, &'static str); 1];

/// A family of at most one, so that its number can be absent.
type NoLabels = [(&'static str, &'static str); 0];

const KEY_LIFETIME: &str = "The least time that an upstream still remembers the key of an unsettled operation; \
    absent without one";

/// States that count as unsettled, by the contract's words.
const UNSETTLED: [&str; 3] = ["INTENDED", "UNCERTAIN", "NEEDS_ATTENTION"];

impl RouteLabels {
    /// `route`: as configured, like `PUT /accounts/{account}`. `upstream`: its durable id.
    pub fn new(route: &str, upstream: &str) -> Self {
        Self {
            route: route.into(),
            upstream: upstream.into(),
        }
    }
}

impl Metrics {
    /// All metrics, at zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("fencepost");
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The version of this binary", build);
        Self(Arc::new(Inner::registered(registry)))
    }

    /// The config was read again: `applied`, `invalid` or `refused`.
    pub fn config_reloaded(&self, result: &'static str) {
        self.0.reloads.get_or_create(&[("result", result)]).inc();
    }

    /// So many log lines were lost since the start.
    pub fn log_lines_lost(&self, lost: u64) {
        let told = self.0.log_lines_lost.get();
        self.0.log_lines_lost.inc_by(lost.saturating_sub(told));
    }

    /// The upstream called back, and `heard` came of it.
    pub fn called_back(&self, upstream: &str, heard: &'static str) {
        let labels = HeardLabels {
            upstream: upstream.into(),
            heard,
        };
        self.0.callbacks.get_or_create(&labels).inc();
    }

    /// A request for an effect was answered.
    pub fn operation_ended(&self, route: &RouteLabels, answered: Answered) {
        self.0
            .operations
            .get_or_create(&OperationLabels {
                route: route.route.clone(),
                upstream: route.upstream.clone(),
                result: answered.word(),
            })
            .inc();
    }

    /// A request was refused; `reason` is the problem's name in the contract, like
    /// `stale-fencing-token`.
    pub fn rejected(&self, route: &RouteLabels, reason: &'static str) {
        if reason == "stale-fencing-token" {
            self.0.stale.inc();
        }
        self.0
            .rejections
            .get_or_create(&ReasonLabels::new(route, reason))
            .inc();
    }

    /// A request was let pass that would be refused if the mode were `enforce`.
    pub fn would_refuse(&self, route: &RouteLabels, reason: &'static str) {
        self.0
            .would_refuse
            .get_or_create(&ReasonLabels::new(route, reason))
            .inc();
    }

    /// Something was found in a request that is only observed; `finding`: a word of the report.
    pub fn observed(&self, route: &str, finding: &'static str) {
        let route = route.into();
        self.0
            .observed
            .get_or_create(&FindingLabels { route, finding })
            .inc();
    }

    /// An effect came without an identity and got a fresh one.
    pub fn without_identity(&self) {
        self.0.without_identity.inc();
    }

    /// An unsafe request that no effect matches was forwarded.
    pub fn unprotected_effect(&self) {
        self.0.unprotected.inc();
    }

    /// Evidence spoke against a recorded outcome.
    pub fn contradiction(&self) {
        self.0.contradictions.inc();
    }

    /// An effect was admitted; it is in flight until the guard is dropped.
    pub fn in_flight(&self) -> InFlight {
        InFlight::one(&self.0.in_flight)
    }

    /// An attempt took that long from its first byte to the end of its answer.
    pub fn upstream_took(&self, took: Millis) {
        self.0.upstream.observe(seconds(took));
    }

    /// A request waited.
    pub fn waited(&self, waited_for: WaitedFor, length: Millis) {
        self.0
            .wait
            .get_or_create(&[("for", waited_for.word())])
            .observe(seconds(length));
    }

    /// An operation that was uncertain is settled, that long after it was first admitted.
    pub fn settled_after(&self, length: Millis) {
        self.0.settle.observe(seconds(length));
    }

    /// The register's own count by state, and the age of the oldest unsettled operation.
    pub fn unsettled(&self, by_state: &[(&'static str, u64)], oldest: Option<Millis>) {
        for state in UNSETTLED {
            let count = by_state.iter().find(|(word, _)| *word == state);
            let count = count.map_or(0, |(_, count)| i64::try_from(*count).unwrap_or(i64::MAX));
            self.0
                .unsettled
                .get_or_create(&StateLabels { state })
                .set(count);
        }
        self.0
            .oldest_unsettled
            .get_or_create(&[])
            .set(oldest.map_or(0.0, seconds));
    }

    /// The least time that an upstream still remembers the key of an unsettled operation; `None`: there is no
    /// such key, and no number.
    pub fn key_lifetime_left(&self, least: Option<Millis>) {
        match least {
            Some(left) => {
                let gauge = self.0.key_lifetime.get_or_create(&[]);
                gauge.set(seconds(left));
            }
            None => self.0.key_lifetime.clear(),
        }
    }

    /// The register cannot be asked: the counts disappear rather than grow old.
    pub fn unsettled_unknown(&self) {
        self.0.unsettled.clear();
        self.0.oldest_unsettled.clear();
        self.0.key_lifetime.clear();
    }

    /// How much evidence spoke against a recorded outcome since this process began.
    pub fn contradictions(&self) -> u64 {
        self.0.contradictions.get()
    }

    /// Everything in Prometheus' text format 0.0.4.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        prometheus_text::encode(&mut text, &self.0.registry)?;
        Ok(text)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

impl InFlight {
    fn one(of: &Gauge) -> Self {
        of.inc();
        Self(of.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Answered {
    fn word(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Refused => "refused",
            Self::NotApplied => "not_applied",
            Self::Uncertain => "uncertain",
            Self::Replayed => "replayed",
            Self::Joined => "joined",
        }
    }
}

impl WaitedFor {
    fn word(self) -> &'static str {
        match self {
            Self::Predecessor => "predecessor",
            Self::Join => "join",
            Self::Connection => "connection",
            Self::Lease => "lease",
        }
    }
}

impl ReasonLabels {
    fn new(route: &RouteLabels, reason: &'static str) -> Self {
        Self {
            route: route.route.clone(),
            reason,
        }
    }
}

impl Inner {
    fn registered(mut registry: Registry) -> Self {
        let r = &mut registry;
        Self {
            operations: counted(r, "operations", "Requests for effects, by answer"),
            rejections: counted(r, "rejections", "Requests refused, by reason"),
            stale: counted(
                r,
                "stale_token_rejections",
                "Requests refused for an outdated fencing token",
            ),
            without_identity: counted(
                r,
                "operations_without_identity",
                "Effects that got a fresh identity because they named none",
            ),
            unprotected: counted(
                r,
                "unprotected_effects",
                "Unsafe requests forwarded although no effect matches them",
            ),
            would_refuse: counted(
                r,
                "would_refuse",
                "Requests let pass only because the mode observes",
            ),
            observed: counted(
                r,
                "observed",
                "Requests of effects that are only observed, and what was found in them",
            ),
            contradictions: counted(
                r,
                "contradictions",
                "Evidence against a recorded outcome, or of a second effect",
            ),
            in_flight: counted(r, "in_flight", "Effects admitted and not yet recorded"),
            unsettled: counted(r, "unsettled", "Unsettled operations, by state"),
            oldest_unsettled: counted(
                r,
                "oldest_unsettled_seconds",
                "Age of the oldest unsettled operation; 0 without one",
            ),
            key_lifetime: counted(r, "key_lifetime_left_seconds", KEY_LIFETIME),
            settle: histogram(
                r,
                "settle_duration_seconds",
                "From first admission to settlement, of operations that were uncertain",
                exponential_buckets(0.01, 4.0, 13),
            ),
            store: StoreMetrics::registered(r),
            leases: LeaseMetrics::registered(r),
            reloads: reloads(r),
            log_lines_lost: log_lines_lost(r),
            callbacks: callbacks(r),
            upstream: histogram(
                r,
                "upstream_duration_seconds",
                "From the first byte of an attempt to the end of its answer",
                request_buckets(),
            ),
            wait: with(
                r,
                "wait_seconds",
                "How long requests waited",
                Family::new_with_constructor(|| Histogram::new(request_buckets())),
            ),
            registry,
        }
    }
}

fn reloads(registry: &mut Registry) -> Family<OneLabel, Counter> {
    let help = "Configs read again while running, by what became of them";
    counted(registry, "config_reloads", help)
}

fn log_lines_lost(registry: &mut Registry) -> Counter {
    let help = "Log lines that were not written, because nobody read the log in time";
    counted(registry, "log_lines_lost", help)
}

fn callbacks(registry: &mut Registry) -> Family<HeardLabels, Counter> {
    let help = "Callbacks that came, by what was heard of them";
    counted(registry, "callbacks", help)
}

fn counted<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    with(registry, name, help, M::default())
}

fn histogram(
    registry: &mut Registry,
    name: &str,
    help: &str,
    buckets: impl Iterator<Item = f64>,
) -> Histogram {
    with(registry, name, help, Histogram::new(buckets))
}

fn with<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

/// 1 ms to 65 s.
fn request_buckets() -> impl Iterator<Item = f64> {
    exponential_buckets(0.001, 2.0, 17)
}

fn seconds(length: Millis) -> f64 {
    std::time::Duration::from_millis(length.0).as_secs_f64()
}

fn seconds_from_us(length: u64) -> f64 {
    std::time::Duration::from_micros(length).as_secs_f64()
}

fn approximate(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
