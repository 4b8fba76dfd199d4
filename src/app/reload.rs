//! Another config while the instance runs.
//!
//! What always holds: a config is read, validated and compared with the register before anything
//! changes; then it is put in force as a whole, or not at all. A broken one is reported and the old one
//! stays. One that would change the identity of an unsettled operation, or the way it is sent again, is
//! refused; so is one that changes what cannot change while running, by name. Effects under way keep
//! what they began with.
//!
//! What it does not do: change the register, its keys, or where operators and probes listen. That needs
//! a restart.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;

use super::watch::{Look, Watched};
use super::{AppError, bind, gateways};
use crate::admin::access::Operators;
use crate::admin::comparison::{ComparisonView, compared};
use crate::admin::in_force::{InForce, Reload};
use crate::config::{self, Config};
use crate::dispatch::attempt::Dispatcher;
use crate::dispatch::gateway::Gateways;
use crate::dispatch::live::Live;
use crate::dispatch::turnstile::{Names, Turnstile};
use crate::proxy::doors::{Doors, Place};
use crate::proxy::front::{Front, Shared};
use crate::reconcile::Reconciler;
use crate::telemetry::errors::chain;
use crate::wire::recorded::is_same_for_all;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How many looks later a config that was refused is judged again: what was unsettled may be settled.
const AGAIN_AFTER: u32 = 15;

/// How long admissions that are being committed may take to pass.
const PASSING: Duration = Duration::from_secs(5);

/// Most operations that a refusal names.
const NAMED: usize = 10;

/// Reads the config again and puts it in force. Cheap to clone.
#[derive(Clone)]
pub struct Reloader(Arc<Inner>);

pub(super) struct Inner {
    pub(super) path: PathBuf,
    pub(super) dispatcher: Dispatcher,
    pub(super) reconciler: Reconciler,
    pub(super) turnstile: Turnstile,
    pub(super) doors: Doors,
    pub(super) shared: Live<Shared>,
    pub(super) gateways: Live<Gateways>,
    pub(super) operators: Operators,
    pub(super) in_force: InForce,
    pub(super) watched: Mutex<Watched>,
    /// One after the other.
    pub(super) turn: AsyncMutex<()>,
}

/// What became of a config that was read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in force.
    Applied,
    /// It has problems; the old one stays.
    Invalid,
    /// It cannot follow the old one, which stays.
    Refused,
}

/// Why the old one stays.
struct Kept {
    outcome: Outcome,
    digest: Option<String>,
    reasons: Vec<String>,
}

impl Reloader {
    pub(super) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Looks at the files for as long as it is polled, and reads them again when they have changed.
    pub async fn watch(&self) {
        let mut looks_since_refusal: Option<u32> = None;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = self.0.look().await;
            let is_due = looks_since_refusal.is_some_and(|looks| looks >= AGAIN_AFTER);
            looks_since_refusal = looks_since_refusal.map(|looks| looks.saturating_add(1));
            if self.0.watched().changed(&now) || is_due {
                let outcome = self.reload("its file has changed").await;
                looks_since_refusal = (outcome == Outcome::Refused).then_some(0);
            }
        }
    }

    /// A start with another config than before is somebody's decision; that it leaves operations behind
    /// is said all the same.
    pub(super) async fn warn_of_changes(&self) {
        let Some(config) = self.0.in_force.config() else {
            return;
        };
        let compared = compared(&self.0.dispatcher.register, None, &config).await;
        if let Ok(comparison) = compared
            && comparison.unsettled.would_change > 0
        {
            let reasons = reasons(&comparison).join("; ");
            tracing::error!(reasons, "this config does not know what the register holds");
        }
    }

    /// Reads the file again, changed or not: secrets may have. What comes of it stands in the log.
    pub async fn reload(&self, why: &'static str) -> Outcome {
        let _turn = self.0.turn.lock().await;
        if self.0.dispatcher.supervisor.is_draining() {
            return Outcome::Refused;
        }
        // Before it is read: what changes while it is read is another change.
        let look = self.0.look().await;
        let (outcome, digest, reasons) = match self.0.read_and_take_up().await {
            Ok(config) => (Outcome::Applied, Some(config.digest.clone()), Vec::new()),
            Err(Kept {
                outcome,
                digest,
                reasons,
            }) => (outcome, digest, reasons),
        };
        self.0.settle(look, outcome).await;
        self.0.dispatcher.metrics.config_reloaded(outcome.word());
        let reload = Reload {
            at: self.0.dispatcher.clock.now(),
            result: outcome.word(),
            digest,
            reasons,
        };
        let is_news = self.0.in_force.note(reload.clone());
        if outcome != Outcome::Applied && is_news {
            tracing::error!(
                why,
                result = reload.result,
                digest = reload.digest,
                in_force = self.0.in_force.digest(),
                reasons = reload.reasons.join("; "),
                "the config was read again and is not put in force: the old one stays"
            );
        }
        outcome
    }
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Invalid => "invalid",
            Self::Refused => "refused",
        }
    }
}

impl Inner {
    /// Opens the doors of the config in force, for the first time.
    pub(super) fn open(&self, sockets: Vec<(Place, TcpListener)>) {
        let (gateways, shared) = (self.gateways.now(), self.shared.now());
        for (place, socket) in sockets {
            if let Some(gateway) = gateways.by_id(&place.upstream) {
                tracing::info!(upstream = %place.upstream, listen = %place.address, "listening");
                let front = Front::new(Arc::clone(&shared), Arc::clone(gateway));
                self.doors.add(place, socket, front);
            }
        }
    }

    /// How long a stop waits for what is in flight.
    pub(super) fn drain(&self) -> Duration {
        let config = self.in_force.config();
        config.map(|config| config.drain).unwrap_or_default()
    }

    fn watched(&self) -> std::sync::MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look(&self) -> Look {
        let (path, beside) = (self.path.clone(), self.files());
        let look = tokio::task::spawn_blocking(move || Look::at(&path, &beside));
        match look.await {
            Ok(look) => look,
            // The runtime is going down: nobody acts on this look.
            Err(_) => Look::at(&self.path, &[]),
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        let config = self.in_force.config();
        config
            .map(|config| config.files.clone())
            .unwrap_or_default()
    }

    /// A config that was put in force may depend on other files than the one before.
    async fn settle(&self, look: Look, outcome: Outcome) {
        let look = match outcome {
            Outcome::Applied => self.look().await.since(&look),
            Outcome::Invalid | Outcome::Refused => look,
        };
        self.watched().settle(look);
    }

    async fn read_and_take_up(&self) -> Result<Arc<Config>, Kept> {
        let kept = |outcome, digest, reasons| Kept {
            outcome,
            digest,
            reasons,
        };
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || config::load(&path)).await;
        let (after, warnings) = match read {
            Ok(Ok(read)) => read,
            Ok(Err(problems)) => {
                let reasons = problems.to_string().lines().map(str::to_owned).collect();
                return Err(kept(Outcome::Invalid, None, reasons));
            }
            Err(gone) => return Err(kept(Outcome::Refused, None, vec![gone.to_string()])),
        };
        let after = Arc::new(after);
        let digest = Some(after.digest.clone());
        let taken_up = self.take_up(&after).await;
        taken_up.map_err(|reasons| kept(Outcome::Refused, digest, reasons))?;
        for warning in warnings.to_string().lines() {
            tracing::warn!("{warning}");
        }
        Ok(after)
    }

    /// Everything that can fail comes before anything changes.
    async fn take_up(&self, after: &Arc<Config>) -> Result<(), Vec<String>> {
        let told = |error: AppError| vec![chain(&error).to_string()];
        let Some(before) = self.in_force.config() else {
            return Err(vec!["no config is in force".to_owned()]);
        };
        let fixed = fixed(&before, after);
        if !fixed.is_empty() {
            return Err(fixed);
        }
        let known = self.gateways.now();
        let (clock, shared) = (&self.dispatcher.clock, self.shared.now());
        let gateways = gateways::open(after, Some(&known), clock, shared.bodies()).map_err(told)?;
        let sockets = self.bind_new(after).await.map_err(told)?;
        if is_same_for_all(&before, after) {
            let names = self.shared.now().names().clone();
            self.put_in_force(&before, after, gateways, sockets, names);
            return Ok(());
        }
        // Once without keeping anybody waiting, and once more when nobody is on his way.
        self.refuse_changes(&before, after).await?;
        let Ok(mut closed) = timeout(PASSING, self.turnstile.close()).await else {
            return Err(vec![
                "admissions take too long: their names cannot change meanwhile".to_owned(),
            ]);
        };
        self.refuse_changes(&before, after).await?;
        let names = closed.change();
        self.put_in_force(&before, after, gateways, sockets, names);
        Ok(())
    }

    async fn bind_new(&self, after: &Config) -> Result<Vec<(Place, TcpListener)>, AppError> {
        let mut sockets = Vec::new();
        for upstream in &after.upstreams {
            let place = place(upstream);
            if !self.doors.is_open(&place) {
                let what = format!("upstream `{}`", upstream.name);
                sockets.push((place, bind(what, upstream.listen).await?));
            }
        }
        Ok(sockets)
    }

    async fn refuse_changes(&self, before: &Config, after: &Config) -> Result<(), Vec<String>> {
        let compared = compared(&self.dispatcher.register, Some(before), after).await;
        let comparison =
            compared.map_err(|error| vec![format!("the register cannot be read: {error}")])?;
        if comparison.unsettled.would_change > 0 {
            return Err(reasons(&comparison));
        }
        if comparison.recent.would_change > 0 {
            tracing::warn!(
                operations = comparison.recent.would_change,
                of = comparison.recent.looked_at,
                "repeats of settled operations will be new operations under this config"
            );
        }
        Ok(())
    }

    /// From here on nothing fails.
    fn put_in_force(
        &self,
        before: &Config,
        after: &Arc<Config>,
        gateways: Gateways,
        mut sockets: Vec<(Place, TcpListener)>,
        names: Names,
    ) {
        let gateways = Arc::new(gateways);
        let shared = Arc::new(self.shared.now().under(Arc::clone(after), names));
        self.gateways.replace(Arc::clone(&gateways));
        self.shared.replace(Arc::clone(&shared));
        self.reconciler.replace(Arc::clone(&gateways));
        let mut places = Vec::new();
        for upstream in &after.upstreams {
            let Some(gateway) = gateways.by_id(&upstream.id) else {
                continue;
            };
            places.push(place(upstream));
            let front = Front::new(Arc::clone(&shared), Arc::clone(gateway));
            let Some((place, front)) = self.doors.put(place(upstream), front) else {
                continue;
            };
            let bound = sockets.iter().position(|(bound, _)| *bound == place);
            if let Some(bound) = bound {
                let (_, socket) = sockets.swap_remove(bound);
                tracing::info!(upstream = %place.upstream, listen = %place.address, "listening");
                self.doors.add(place, socket, front);
            }
        }
        for closed in self.doors.keep(&places) {
            tracing::info!(upstream = %closed.upstream, listen = %closed.address, "no longer listening");
        }
        let operators = after.admin.iter().flat_map(|admin| admin.operators.clone());
        self.operators.replace(operators);
        let now = self.dispatcher.clock.now();
        self.in_force.replace(Arc::clone(after), now);
        tracing::info!(
            from = before.digest,
            to = after.digest,
            "another config is in force"
        );
    }
}

pub(super) fn place(upstream: &config::Upstream) -> Place {
    Place {
        address: upstream.listen,
        upstream: upstream.id.clone(),
    }
}

fn reasons(comparison: &ComparisonView) -> Vec<String> {
    let unsettled = comparison.unsettled;
    let first = format!(
        "{} of {} unsettled operations would change",
        unsettled.would_change, unsettled.looked_at
    );
    let named = comparison.changes.iter().take(unsettled.would_change);
    let named = named.take(NAMED).map(ToString::to_string);
    std::iter::once(first).chain(named).collect()
}

/// What cannot change while running, and would.
fn fixed(before: &Config, after: &Config) -> Vec<String> {
    let address = |config: &Config| config.admin.as_ref().map(|admin| admin.address);
    let has_operators =
        |config: &Config| config.admin.iter().any(|admin| !admin.operators.is_empty());
    let (one, other) = (&before.register, &after.register);
    let all = [
        ("tenant", before.tenant != after.tenant),
        ("register (its place)", one.place != other.place),
        ("register.remember", one.remember != other.remember),
        ("register.encryption", one.keys != other.keys),
        ("admin.address", address(before) != address(after)),
        // An open API would close under whoever uses it, or a closed one open.
        (
            "admin.operators (from none to some, or back)",
            has_operators(before) != has_operators(after),
        ),
        ("health.address", before.health != after.health),
    ];
    let changed = all.into_iter().filter(|(_, is_changed)| *is_changed);
    changed
        .map(|(name, _)| format!("{name} cannot change while running: restart to change it"))
        .collect()
}
