//! Another config while the instance runs.
//!
//! What always holds: a config is read, validated and compared with the register before anything
//! changes; then it is put in force as a whole, or not at all. A broken one is reported and the old one
//! stays. One that would change the identity of an unsettled operation, or the way it is sent again, is
//! refused unless a person confirms that very config; one under which it would be sent again to another
//! place or under another key, and one that changes what cannot change while running, are refused by name,
//! whoever says so. Effects under way keep what they began with.
//!
//! What it does not do: change the register, its keys, or where operators and probes listen. That needs
//! a restart.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;

mod comparison;

use comparison::{Change, reasons};

use super::listeners::{Listeners, WaysIn, faces};
use super::watch::{Look, Watched};
use super::{AppError, gateways};
use crate::admin::access::Operators;
use crate::admin::comparison::compared;
use crate::admin::in_force::{InForce, Reload, Verdict};
use crate::admin::reload::{Confirmation, Reloading};
use crate::config::{self, Config};
use crate::dispatch::attempt::Dispatcher;
use crate::dispatch::gateway::{Gateway, Gateways};
use crate::dispatch::live::Live;
use crate::dispatch::turnstile::{Names, Turnstile};
use crate::protocol::ids::OperationKey;
use crate::proxy::doors::{Doors, Face, Place};
use crate::proxy::front::Shared;
use crate::reconcile::Reconciler;
use crate::telemetry::errors::chain;
use crate::wire::recorded::is_same_for_all;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How many looks later a config that was refused is judged again: what was unsettled may be settled.
const AGAIN_AFTER: u32 = 15;

/// How long admissions that are being committed may take to pass.
const PASSING: Duration = Duration::from_secs(5);

/// How long they are held at most for the register to be looked at.
const COMPARING: Duration = Duration::from_secs(5);

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
    /// Ways to the worker: the same for as long as the instance lives.
    pub(super) inbound: WaysIn,
    pub(super) shared: Live<Shared>,
    pub(super) gateways: Live<Gateways>,
    pub(super) operators: Operators,
    pub(super) in_force: InForce,
    pub(super) watched: Mutex<Watched>,
    /// One after the other.
    pub(super) turn: AsyncMutex<()>,
}

/// Why the old one stays.
struct Kept {
    verdict: Verdict,
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
                let reload = self.reload("its file has changed", None).await;
                looks_since_refusal = (reload.verdict == Verdict::Refused).then_some(0);
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
            && !comparison.changing.is_empty()
        {
            let reasons = reasons(&comparison.view).join("; ");
            tracing::error!(reasons, "this config does not know what the register holds");
        }
    }

    /// For operators.
    pub(super) fn reloading(&self) -> Reloading {
        let reloader = self.clone();
        Arc::new(move |confirmed| {
            let reloader = reloader.clone();
            Box::pin(async move { reloader.reload("an operator says so", confirmed).await })
        })
    }

    /// Reads the file again, changed or not: secrets may have. What comes of it stands in the log.
    /// `confirmed`: unsettled operations may change under this config.
    pub async fn reload(&self, why: &'static str, confirmed: Option<Confirmation>) -> Reload {
        let _turn = self.0.turn.lock().await;
        if self.0.dispatcher.supervisor.is_draining() {
            return Reload {
                at: self.0.dispatcher.clock.now(),
                verdict: Verdict::Refused,
                digest: None,
                reasons: vec!["the instance is stopping".to_owned()],
            };
        }
        // Before it is read: what changes while it is read is another change.
        let look = self.0.look().await;
        let (verdict, digest, reasons) = match self.0.read_and_take_up(confirmed.as_ref()).await {
            Ok(config) => (Verdict::Applied, Some(config.digest.clone()), Vec::new()),
            Err(Kept {
                verdict,
                digest,
                reasons,
            }) => (verdict, digest, reasons),
        };
        self.0.settle(look, verdict).await;
        self.0.dispatcher.metrics.config_reloaded(verdict.word());
        let reload = Reload {
            at: self.0.dispatcher.clock.now(),
            verdict,
            digest,
            reasons,
        };
        let is_news = self.0.in_force.note(reload.clone());
        if verdict != Verdict::Applied && is_news {
            tracing::error!(
                why,
                result = verdict.word(),
                digest = reload.digest,
                in_force = self.0.in_force.digest(),
                reasons = reload.reasons.join("; "),
                "the config was read again and is not put in force: the old one stays"
            );
        }
        reload
    }
}

impl Inner {
    /// Opens the doors of the config in force, for the first time.
    pub(super) fn open(&self, mut listeners: Listeners) {
        let (gateways, shared) = (self.gateways.now(), self.shared.now());
        for upstream in &shared.config().upstreams {
            if let Some(gateway) = gateways.by_id(&upstream.id) {
                self.put_behind(&mut listeners, &shared, gateway);
            }
        }
        self.put_inbound(&mut listeners);
    }

    /// Puts the ways to the worker behind their doors, with the certificates of now; answers which those are.
    fn put_inbound(&self, listeners: &mut Listeners) -> Vec<Place> {
        let put = |(place, face): &(Place, Face)| {
            listeners.put(&self.doors, place.clone(), face.clone());
            place.clone()
        };
        self.inbound.faces().map(put).collect()
    }

    /// Puts what answers behind the doors of one upstream; answers which those are.
    fn put_behind(
        &self,
        listeners: &mut Listeners,
        shared: &Arc<Shared>,
        gateway: &Arc<Gateway>,
    ) -> Vec<Place> {
        let faces = faces(shared, gateway, &self.dispatcher, &self.reconciler);
        let put = |(place, face): (Place, _)| {
            listeners.put(&self.doors, place.clone(), face);
            place
        };
        faces.into_iter().map(put).collect()
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
    async fn settle(&self, look: Look, verdict: Verdict) {
        let look = match verdict {
            Verdict::Applied => self.look().await.since(&look),
            Verdict::Invalid | Verdict::Refused => look,
        };
        self.watched().settle(look);
    }

    async fn read_and_take_up(
        &self,
        confirmed: Option<&Confirmation>,
    ) -> Result<Arc<Config>, Kept> {
        let kept = |verdict, digest, reasons| Kept {
            verdict,
            digest,
            reasons,
        };
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || config::load(&path)).await;
        let (after, warnings) = match read {
            Ok(Ok(read)) => read,
            Ok(Err(problems)) => {
                let reasons = problems.to_string().lines().map(str::to_owned).collect();
                return Err(kept(Verdict::Invalid, None, reasons));
            }
            Err(gone) => return Err(kept(Verdict::Refused, None, vec![gone.to_string()])),
        };
        let after = Arc::new(after);
        let digest = Some(after.digest.clone());
        let taken_up = self.take_up(&after, confirmed).await;
        let changing = taken_up.map_err(|reasons| kept(Verdict::Refused, digest, reasons))?;
        if let Some(confirmed) = confirmed {
            self.write_down(confirmed, changing).await;
        }
        for warning in warnings.to_string().lines() {
            tracing::warn!("{warning}");
        }
        Ok(after)
    }

    /// Everything that can fail comes before anything changes. Answers the unsettled operations that
    /// change with it.
    async fn take_up(
        &self,
        after: &Arc<Config>,
        confirmed: Option<&Confirmation>,
    ) -> Result<Vec<OperationKey>, Vec<String>> {
        let told = |error: AppError| vec![chain(&error).to_string()];
        let Some(before) = self.in_force.config() else {
            return Err(vec!["no config is in force".to_owned()]);
        };
        if let Some(other) = confirmed.filter(|confirmed| confirmed.digest != after.digest) {
            return Err(vec![format!(
                "what was confirmed is the config with digest {}, and the file has digest {}",
                other.digest, after.digest
            )]);
        }
        let fixed = fixed(&before, after);
        if !fixed.is_empty() {
            return Err(fixed);
        }
        let known = self.gateways.now();
        let (clock, shared) = (&self.dispatcher.clock, self.shared.now());
        let gateways = gateways::open(after, Some(&known), clock, shared.bodies()).map_err(told)?;
        let listeners = Listeners::of(after, &self.doors).await.map_err(told)?;
        if is_same_for_all(&before, after) {
            let names = self.shared.now().names().clone();
            self.put_in_force(&before, after, gateways, listeners, names);
            return Ok(Vec::new());
        }
        let change = Change {
            before: &before,
            after,
            confirmed,
        };
        // Once without keeping anybody waiting, and once more when nobody is on his way.
        let register = &self.dispatcher.register;
        change.judged(register).await?;
        let Ok(mut closed) = timeout(PASSING, self.turnstile.close()).await else {
            return Err(vec![
                "admissions take too long: their names cannot change meanwhile".to_owned(),
            ]);
        };
        let changing = change.judged_within(COMPARING, register).await?;
        let names = closed.change();
        self.put_in_force(&before, after, gateways, listeners, names);
        Ok(changing)
    }

    /// From here on nothing fails.
    fn put_in_force(
        &self,
        before: &Config,
        after: &Arc<Config>,
        gateways: Gateways,
        mut listeners: Listeners,
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
            places.extend(self.put_behind(&mut listeners, &shared, gateway));
        }
        places.extend(self.put_inbound(&mut listeners));
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
        ("worker.address", before.worker != after.worker),
        ("leases", before.leases != after.leases),
        ("inbound", before.inbound != after.inbound),
    ];
    let changed = all.into_iter().filter(|(_, is_changed)| *is_changed);
    changed
        .map(|(name, _)| format!("{name} cannot change while running: restart to change it"))
        .collect()
}
