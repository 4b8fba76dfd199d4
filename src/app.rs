//! The composition root: the only place that names concrete backends, and the order of start and
//! drain.
//!
//! What always holds: every listener is bound before anything is served, so that a wrong address
//! ends the start; the register is opened before the first request is read. A stop begins by
//! admitting nothing new; what is under way is finished and recorded, for at most `drain`; the
//! listeners stay open until then, so that callers are told why; leases on behalf of the worker are given back
//! once everything is recorded; the register is closed last. What
//! is still in flight at the deadline is UNCERTAIN at the next start, never lost.
//!
//! What it does not do: decide, or read files but for those the config names.

mod apis;
pub mod direct;
mod gateways;
mod holding;
mod listeners;
pub mod moving;
mod register;
pub mod reload;
mod watch;

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::admin::access::{BindError, Operators};
use crate::admin::in_force::InForce;
use crate::clock::Clock;
use crate::config::{Config, DatabaseUrl};
use crate::dispatch::abroad;
use crate::dispatch::attempt::Dispatcher;
use crate::dispatch::live::Live;
use crate::dispatch::supervisor::Supervisor;
use crate::dispatch::turnstile::Turnstile;
use crate::dispatch::waiters::Waiters;
use crate::failpoint;
use crate::lease::held::CannotHold;
use crate::lease::own::Own;
use crate::observe;
use crate::observe::counts::Counts;
use crate::observe::judge::Judge;
use crate::observe::watch::Observer;
use crate::protocol::ids::InstanceId;
use crate::proxy::doors::Doors;
use crate::proxy::front::Shared;
use crate::proxy::tls::InboundTlsError;
use crate::reconcile::Reconciler;
use crate::store::moving::MoveError;
use crate::store::sqlite::{BackupError, OpenError};
use crate::store::{Register, StoreError, postgres};
use crate::telemetry::metrics::Metrics;
use crate::upstream::EndpointError;
use crate::wire::body::BodyBudget;
use crate::wire::fingerprint::FingerprintKey;

use holding::Holding;
pub use holding::LEASE_LOST;
use listeners::{Listeners, WaysIn};
use register::Keeper;
use reload::Reloader;
use watch::{Look, Watched};

/// How long callers may take to read their last answers once everything is recorded.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Why an instance cannot start, or could not stop cleanly.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The kernel does not say which boot this is.
    #[error("the clocks cannot be read")]
    Clock(#[source] std::io::Error),
    /// No randomness.
    #[error("the system has no randomness for an instance id")]
    Random,
    /// The register cannot be opened.
    #[error("the register at {path} cannot be opened", path = .0.display())]
    Register(std::path::PathBuf, #[source] OpenError),
    /// The shared register cannot be opened.
    #[error("the register at {0} cannot be opened{hint}", hint = hint(.1))]
    Shared(String, #[source] postgres::OpenError),
    /// Nobody can be trusted on the way to it.
    #[error("TLS towards the register at {0} cannot be set up")]
    Trust(String, #[source] EndpointError),
    /// A shared register is accepted once, for all its sidecars.
    #[error(
        "a register in PostgreSQL is accepted once for all its sidecars, by `fencepost store \
         accept-restored`: start without --accept-restored"
    )]
    NothingToAccept,
    /// The pages of a shared register are the database's.
    #[error("the pages of a database are its own: only an embedded register is mended")]
    NotOurPages,
    /// A database is copied by its own means.
    #[error(
        "a register in PostgreSQL is backed up with PostgreSQL's own means (pg_basebackup, pg_dump, \
         snapshots of the service); keep its encryption keys apart"
    )]
    NotOurBackup,
    /// The register has an owner.
    #[error(
        "an instance is running on the register at {path}: ask it, with --admin or with --config alone, \
         or stop it first",
        path = .0.display()
    )]
    Owned(std::path::PathBuf),
    /// The register cannot be copied.
    #[error("the register at {path} was not copied", path = .0.display())]
    Backup(std::path::PathBuf, #[source] BackupError),
    /// A register was not moved, or not accepted.
    #[error(transparent)]
    Moving(#[from] MoveError),
    /// An upstream cannot be used.
    #[error("the upstream `{0}` cannot be used")]
    Upstream(String, #[source] EndpointError),
    /// The worker cannot be asked.
    #[error("the worker behind `{0}` cannot be asked")]
    Worker(String, #[source] EndpointError),
    /// A listener cannot speak TLS.
    #[error("the listener for {0} cannot speak TLS")]
    Listener(String, #[source] InboundTlsError),
    /// An address cannot be bound.
    #[error("cannot listen on {address} for {what}")]
    Bind {
        /// For what.
        what: String,
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The operators' listener cannot be bound.
    #[error("the operators' listener cannot be opened")]
    Admin(#[source] BindError),
    /// A lease on behalf of the worker cannot be held.
    #[error("the lease `{0}` cannot be held")]
    Lease(String, #[source] CannotHold),
    /// One was lost whose loss ends the process.
    #[error("the lease `{0}` is lost, and the config says to end with it (`on_loss: exit`)")]
    LeaseLost(String),
    /// The register did not close cleanly.
    #[error("the register did not close cleanly")]
    Close(#[source] StoreError),
}

impl AppError {
    fn shared(url: &DatabaseUrl, error: postgres::OpenError) -> Self {
        Self::Shared(url.place().to_owned(), error)
    }
}

/// What to do about it.
fn hint(error: &postgres::OpenError) -> &'static str {
    match error {
        postgres::OpenError::Key(_) => {
            ": was it made with other keys? The first key of all must open it; with `--register` give `--config FILE` too: \
             the keys are taken from there"
        }
        postgres::OpenError::Url(_)
        | postgres::OpenError::Database(_)
        | postgres::OpenError::Absent
        | postgres::OpenError::Engine(_)
        | postgres::OpenError::FormatTooNew { .. }
        | postgres::OpenError::Unreleased
        | postgres::OpenError::NoKey
        | postgres::OpenError::Volatile { .. }
        | postgres::OpenError::Moved(_)
        | postgres::OpenError::NotMoved
        | postgres::OpenError::Unreadable(_) => "",
    }
}

/// Who opens a register.
struct Starting {
    instance: InstanceId,
    clock: Clock,
    metrics: Metrics,
}

impl Starting {
    fn new(instance: InstanceId, clock: &Clock, metrics: &Metrics) -> Self {
        Self {
            instance,
            clock: clock.clone(),
            metrics: metrics.clone(),
        }
    }
}

/// An instance whose listeners are bound.
pub struct Instance {
    register: Register,
    supervisor: Supervisor,
    reconciler: Reconciler,
    keeper: Keeper,
    metrics: Metrics,
    judge: Judge,
    /// And where it is kept; `None`: it is not.
    report: (Counts, Option<PathBuf>),
    reloader: Reloader,
    holding: Holding,
    listeners: Listeners,
    routers: Vec<(TcpListener, axum::Router)>,
}

impl Instance {
    /// Opens the register and binds every listener. Nothing is served yet. `path`: where the config came
    /// from, and is read again. `accept_restored`: an operator says that a register which may have been
    /// restored is to be used.
    pub async fn start(
        config: Config,
        path: &Path,
        accept_restored: bool,
    ) -> Result<Self, AppError> {
        // What changes after it was read and before it is watched is a change.
        let look = Look::at(path, &config.files);
        let config = Arc::new(config);
        let clock = Clock::system().map_err(AppError::Clock)?;
        let instance = random_instance()?;
        let metrics = Metrics::new();
        let starting = Starting::new(instance, &clock, &metrics);
        let opened = register::open(&config, accept_restored, starting).await?;
        let fingerprint_key = FingerprintKey::new(&opened.fingerprint_key);
        let register = Register::new(opened.backend);
        let supervisor = Supervisor::default();
        let dispatcher = Dispatcher {
            register: register.clone(),
            clock: clock.clone(),
            waiters: Waiters::default(),
            supervisor: supervisor.clone(),
            metrics: metrics.clone(),
            record_timeout: config.record_timeout,
            attempts: Arc::new(AtomicU64::new(1)),
            arrivals: crate::dispatch::arrivals::Arrivals::default(),
            leases: leases(&register, &clock, &metrics, &supervisor),
        };
        let holding = Holding::open(&config, &dispatcher.leases, &clock).await?;
        let bodies = BodyBudget::new(config.limits.buffered_bodies);
        let gateways = Arc::new(gateways::open(&config, None, &clock, &bodies)?);
        let reconciler = Reconciler::new(dispatcher.clone(), Arc::clone(&gateways));
        let turnstile = Turnstile::default();
        let state = register::made_state_of(&config.register.place);
        let (observer, judge) = report(state.as_deref(), &dispatcher);
        let shared = Shared::new(
            Arc::clone(&config),
            dispatcher.clone(),
            reconciler.clone(),
            fingerprint_key,
            turnstile.names().await,
            bodies,
            observer.clone(),
        );
        let doors = Doors::new(holding.claims());
        let listeners = Listeners::of(&config, &doors).await?;
        let named = config.admin.iter().flat_map(|it| it.operators.clone());
        let reloader = Reloader::new(reload::Inner {
            path: path.to_owned(),
            dispatcher,
            reconciler: reconciler.clone(),
            turnstile,
            inbound: WaysIn::of(&config, doors.claims(), &supervisor)?,
            doors,
            shared: Live::new(Arc::new(shared)),
            gateways: Live::new(gateways),
            operators: Operators::new(named),
            in_force: InForce::new(Some(Arc::clone(&config)), Some(clock.now())),
            watched: Mutex::new(Watched::new(look)),
            turn: tokio::sync::Mutex::default(),
        });
        let routers = apis::bound(&config, &reloader, observer.counts().clone()).await?;
        Ok(Self {
            register,
            supervisor,
            reconciler,
            keeper: opened.keeper,
            metrics,
            judge,
            report: (observer.counts().clone(), state),
            reloader,
            holding,
            listeners,
            routers,
        })
    }

    /// What puts another config in force.
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// Serves until `stop` resolves, then drains. `hurry` ends the drain early.
    pub async fn serve(
        self,
        stop: impl Future<Output = ()>,
        hurry: impl Future<Output = ()>,
    ) -> Result<(), AppError> {
        let closing = CancellationToken::new();
        let mut served = JoinSet::new();
        let in_force = self.reloader.inner();
        in_force.open(self.listeners);
        for (socket, router) in self.routers {
            let closed = closing.clone().cancelled_owned();
            served.spawn(async move {
                if let Err(error) = crate::admin::serve(socket, router, closed).await {
                    tracing::error!(error = %error, "a listener stopped");
                }
            });
        }
        self.reconciler.start();
        let mut holders = self.holding.begin(&in_force.dispatcher.clock);
        // Until the end: what is recorded while draining goes to the witness too.
        let (keeper, metrics) = (self.keeper, self.metrics);
        let mut keeping = JoinSet::new();
        keeping.spawn(keeper.keep(metrics));
        keeping.spawn(self.judge.run());
        keeping.spawn(abroad::run(in_force.dispatcher.clone()));
        let (counts, state) = self.report;
        if let Some(directory) = &state {
            keeping.spawn(observe::file::keep(counts.clone(), directory.clone()));
        }
        let digest = in_force.in_force.digest();
        tracing::info!(instance = %self.register.instance(), config = digest, "serving");
        let reloader = self.reloader.clone();
        let first_look = reloader.clone();
        self.supervisor
            .background(async move { first_look.warn_of_changes().await });
        let lost = tokio::select! {
            () = stop => None,
            () = reloader.watch() => None,
            lost = holders.lost() => Some(lost),
        };
        failpoint::pass("before-drain");
        let at_most = match &lost {
            Some(lost) => lost.left().min(in_force.drain()),
            None => in_force.drain(),
        };
        holders.begin_drain(at_most.saturating_add(LAST_ANSWERS));
        // Others wait for what was lost: then nobody waits for what the worker answers.
        let inbound = Some(&in_force.inbound).filter(|_| lost.is_none());
        drain(&self.supervisor, inbound, at_most, hurry).await;
        failpoint::pass("after-drain");
        closing.cancel();
        let all_closed = async { while served.join_next().await.is_some() {} };
        let doors_closed = in_force.doors.close(LAST_ANSWERS);
        let all_closed = tokio::time::timeout(LAST_ANSWERS, all_closed);
        let (_slow_readers, ()) = tokio::join!(all_closed, doors_closed);
        holders.end(self.supervisor.under_way() == 0).await;
        keeping.shutdown().await;
        if let Some(directory) = &state {
            observe::file::keep_last(&counts, directory);
        }
        if self.supervisor.under_way() > 0 {
            self.register.read().outlived_by_attempts();
        }
        self.register
            .read()
            .close()
            .await
            .map_err(AppError::Close)?;
        lost.map_or(Ok(()), |lost| Err(AppError::LeaseLost(lost.name)))
    }
}

/// Admits nothing new; what is under way is finished, and the worker's answers at `inbound` are waited for, for at most
/// so long.
async fn drain(
    supervisor: &Supervisor,
    inbound: Option<&WaysIn>,
    at_most: Duration,
    hurry: impl Future<Output = ()>,
) {
    tracing::info!(
        under_way = supervisor.under_way(),
        "draining: no new effect is admitted"
    );
    supervisor.begin_drain();
    tokio::select! {
        drained = listeners::drained(inbound, supervisor, at_most) => {
            if !drained {
                tracing::warn!(
                    under_way = supervisor.under_way(),
                    "the drain is over; what is in flight will be UNCERTAIN at the next start"
                );
            }
        }
        () = hurry => tracing::warn!("told twice to stop: not waiting any longer"),
    }
    supervisor.end_drain();
}

/// One for the process, so that those who wait for a lease hear of what is given back here.
fn leases(register: &Register, clock: &Clock, metrics: &Metrics, tasks: &Supervisor) -> Own {
    Own::reporting(
        register.clone(),
        clock.clone(),
        metrics.clone(),
        tasks.effects(),
    )
}

/// What was counted before is gone on from, where it was kept.
fn report(state: Option<&Path>, dispatcher: &Dispatcher) -> (Observer, Judge) {
    let book = state.map(observe::file::take_over).unwrap_or_default();
    observe::judge::open(
        dispatcher.register.clone(),
        dispatcher.clock.clone(),
        Counts::from(book),
        dispatcher.metrics.clone(),
    )
}

fn random_instance() -> Result<InstanceId, AppError> {
    use ring::rand::{SecureRandom, SystemRandom};
    let mut bytes = [0; 16];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| AppError::Random)?;
    Ok(InstanceId(u128::from_be_bytes(bytes)))
}

async fn bind(what: String, address: SocketAddr) -> Result<TcpListener, AppError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| AppError::Bind {
            what,
            address,
            source,
        })
}
