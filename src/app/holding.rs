//! The leases that are held on behalf of the worker: begun with the listeners, given back last of all.
//!
//! What always holds: they are renewed while the instance drains; they are given back only where everything was
//! recorded. Where a loss is to end the process, it ends though nothing else of it moves: a thread of its own sees to
//! that.
//!
//! What it does not do: hold them (`lease::held`).

use std::io;
use std::path::Path;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::AppError;
use crate::clock::Clock;
use crate::config::{Config, OnLoss, RegisterPlace};
use crate::lease::claim::{Changes, Claim, Claims};
use crate::lease::held::{CannotHold, Held};
use crate::lease::own::Own;
use crate::lease::pins::Pins;
use crate::protocol::time::{BootInstant, Millis};
use crate::store::sqlite;
use crate::telemetry::logs;

/// The exit code of a process that lost a lease.
pub const LEASE_LOST: u8 = 4;

/// So long after the end of a lease a process that should have ended by itself is ended.
const GRACE: Millis = Millis(2_000);

/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Whoever does not let go in time is left behind: his lease ends by itself.
const LETTING_GO: Duration = Duration::from_secs(5);

/// So long the register may take to close after that.
const CLOSING: Duration = Duration::from_secs(5);

/// Those of a config, not begun yet.
pub(super) struct Holding {
    held: Vec<Held>,
    claims: Claims,
    watched: Vec<Watched>,
}

/// Those that are held.
pub(super) struct Holders {
    tasks: JoinSet<Held>,
    stopping: CancellationToken,
    let_go: CancellationToken,
    orderly: Orderly,
    watched: Vec<Watched>,
    clock: Clock,
}

/// Was it declared that what is kept here need not last?
fn is_ephemeral(register: &RegisterPlace) -> bool {
    match register {
        RegisterPlace::Embedded(embedded) => embedded.ephemeral,
        RegisterPlace::Shared(_) => false,
    }
}

/// A state that is gone with its container is taken for a lease that nobody ever owned. Blocks.
fn outlives(state: &Path, ephemeral: bool) -> Result<(), CannotHold> {
    let outlives = sqlite::outlives(state, ephemeral).map_err(io::Error::other);
    outlives.map_err(|why| CannotHold::State(state.to_owned(), why))
}

/// Until when this process may end in order, in milliseconds of the boot: 0 while it does not.
#[derive(Clone, Default)]
struct Orderly(Arc<AtomicU64>);

impl Orderly {
    fn allow_until(&self, end: BootInstant) {
        self.0.fetch_max(end.0, Ordering::Relaxed);
    }

    fn until(&self) -> BootInstant {
        BootInstant(self.0.load(Ordering::Relaxed))
    }
}

/// One whose loss ends the process.
#[derive(Clone)]
struct Watched {
    name: String,
    claim: watch::Receiver<Claim>,
    /// The end of what was owned last; `None`: nothing was, or it was not lost.
    until: Option<BootInstant>,
}

/// A lease that was lost.
pub(super) struct Loss {
    pub(super) name: String,
    /// The end of its time.
    until: BootInstant,
    clock: Clock,
}

impl Holding {
    /// Finds out what is remembered of each. Nothing is asked for yet.
    pub(super) async fn open(config: &Config, own: &Own, clock: &Clock) -> Result<Self, AppError> {
        let changes = Changes::default();
        let (mut held, mut entries, mut watched) = (Vec::new(), Vec::new(), Vec::new());
        let ephemeral = is_ephemeral(&config.register.place);
        for rule in config.leases.clone() {
            let (tenant, own, clock) = (config.tenant.clone(), own.clone(), clock.clone());
            let (name, on_loss) = (rule.name.clone(), rule.on_loss);
            let changes = changes.clone();
            let opened = tokio::task::spawn_blocking(move || {
                let held = Held::new(&rule, tenant, Arc::new(own), clock, changes)?;
                // It is made by now.
                outlives(&rule.state, ephemeral)?;
                Ok(held)
            });
            // It fails only with the process, or with a fault of ours.
            let opened = opened
                .await
                .unwrap_or_else(|gone| Err(CannotHold::Gone(gone.to_string())));
            let (one, entry) = opened.map_err(|why| AppError::Lease(name.clone(), why))?;
            if on_loss == OnLoss::Exit {
                watched.push(Watched {
                    name,
                    claim: entry.claim.clone(),
                    until: None,
                });
            }
            held.push(one);
            entries.push(entry);
        }
        Ok(Self {
            held,
            claims: Claims::new(clock.clone(), entries, changes)
                .pinning(Pins::new(&config.inbound, clock)),
            watched,
        })
    }

    /// What the proxy looks into.
    pub(super) fn claims(&self) -> Claims {
        self.claims.clone()
    }

    /// Begins to hold them.
    pub(super) fn begin(self, clock: &Clock) -> Holders {
        let (stopping, let_go) = (CancellationToken::new(), CancellationToken::new());
        let orderly = Orderly::default();
        let mut tasks = JoinSet::new();
        for held in self.held {
            tasks.spawn(held.run(stopping.clone(), let_go.clone()));
        }
        for watched in self.watched.clone() {
            let (clock, orderly) = (clock.clone(), orderly.clone());
            let watching = thread::Builder::new().name("lease".to_owned());
            if let Err(error) = watching.spawn(move || watched.end_with_it(&clock, &orderly)) {
                tracing::error!(error = %error, "nobody watches whether this process ends with its lease");
            }
        }
        Holders {
            tasks,
            stopping,
            let_go,
            orderly,
            watched: self.watched,
            clock: clock.clone(),
        }
    }
}

impl Holders {
    /// Resolves once one is lost whose loss ends the process.
    pub(super) async fn lost(&mut self) -> Loss {
        let mut changes = JoinSet::new();
        for watched in self.watched.clone() {
            changes.spawn(watched.lost(self.clock.clone()));
        }
        match changes.join_next().await {
            Some(Ok(loss)) => loss,
            Some(Err(_)) | None => std::future::pending().await,
        }
    }

    /// This process ends in order from now on, and has so long until the last is answered: nothing more is acquired,
    /// and nobody ends it before.
    pub(super) fn begin_drain(&self, at_most: Duration) {
        self.stopping.cancel();
        let length = at_most.saturating_add(LETTING_GO).saturating_add(CLOSING);
        let length = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        let end = self.clock.boottime().after(Millis(length));
        self.orderly.allow_until(end);
    }

    /// Renews nothing more. `give_back`: everything was recorded, so that another may have them.
    pub(super) async fn end(mut self, give_back: bool) {
        self.let_go.cancel();
        let all = async {
            while let Some(held) = self.tasks.join_next().await {
                if let (true, Ok(held)) = (give_back, held) {
                    held.release().await;
                }
            }
        };
        let _left_behind = tokio::time::timeout(LETTING_GO, all).await;
    }
}

impl Loss {
    /// What is left of its time: so long may be drained.
    pub(super) fn left(&self) -> Duration {
        Duration::from_millis(self.until.since(self.clock.boottime()).0)
    }
}

impl Watched {
    async fn lost(mut self, clock: Clock) -> Loss {
        loop {
            if self.is_lost() {
                return Loss {
                    name: self.name,
                    until: self.until.unwrap_or_else(|| clock.boottime()),
                    clock,
                };
            }
            if self.claim.changed().await.is_err() {
                // Nobody is left who could lose it.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Was it owned by this process, and is it lost?
    fn is_lost(&mut self) -> bool {
        match &*self.claim.borrow_and_update() {
            Claim::Owned(owned) => {
                self.until = Some(owned.until);
                false
            }
            Claim::NotYet(_) => {
                self.until = None;
                false
            }
            Claim::Lost(_) => self.until.is_some(),
        }
    }

    /// Is there a process still that is to be gone by then? One that ends in order has its time for that.
    fn is_to_end(&mut self, now: BootInstant, orderly: &Orderly) -> bool {
        let _is_told = self.is_lost();
        let end = self.until.map(|until| until.after(GRACE));
        end.is_some_and(|end| end.max(orderly.until()) <= now)
    }

    /// Ends the process a while after the end of what it owns.
    fn end_with_it(mut self, clock: &Clock, orderly: &Orderly) {
        loop {
            thread::sleep(LOOK);
            if self.is_to_end(clock.boottime(), orderly) {
                tracing::error!(
                    lease = self.name,
                    "a lease is lost, and this process is still there: it is ended"
                );
                logs::finish();
                process::exit(i32::from(LEASE_LOST));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::claim::Ownership;
    use crate::protocol::ids::{AcquisitionId, FencingToken};

    const END: BootInstant = BootInstant(30_000);

    fn owning() -> (watch::Sender<Claim>, Watched) {
        let owned = Claim::Owned(Ownership {
            token: FencingToken::parse("1").unwrap(),
            acquisition: AcquisitionId::new("a-1"),
            until: END,
        });
        let (told, claim) = watch::channel(owned);
        let watched = Watched {
            name: "payer".to_owned(),
            claim,
            until: None,
        };
        (told, watched)
    }

    #[test]
    fn a_state_that_is_gone_with_the_memory_is_refused_unless_that_was_declared() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let why = outlives(folder.path(), false).unwrap_err();
        assert!(matches!(why, CannotHold::State(..)), "{why}");
        assert!(outlives(folder.path(), true).is_ok());
    }

    /// C05: it ends though nothing else of it moves, and an orderly shutdown is not cut short.
    #[test]
    fn whoever_ends_in_order_has_its_time_and_whoever_does_not_has_none() {
        let over = END.after(GRACE);
        let before = BootInstant(over.0 - 1);
        let (told, mut watched) = owning();
        let orderly = Orderly::default();
        assert!(!watched.is_to_end(before, &orderly));
        assert!(watched.is_to_end(over, &orderly));
        let drained = BootInstant(over.0 + 20_000);
        orderly.allow_until(drained);
        assert!(!watched.is_to_end(BootInstant(drained.0 - 1), &orderly));
        assert!(watched.is_to_end(drained, &orderly), "not for ever");
        // An end that is near does not bring that of the lease nearer.
        let soon = Orderly::default();
        soon.allow_until(BootInstant(1_000));
        assert!(!watched.is_to_end(before, &soon));
        told.send(Claim::Lost("it ended".to_owned())).unwrap();
        assert!(watched.is_to_end(over, &soon));
        told.send(Claim::NotYet("given back".to_owned())).unwrap();
        assert!(!watched.is_to_end(over, &soon));
    }
}
