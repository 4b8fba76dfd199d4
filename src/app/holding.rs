//! The leases that are held on behalf of the worker: begun with the listeners, given back last of all.
//!
//! What always holds: they are renewed while the instance drains; they are given back only where everything was
//! recorded. Where a loss is to end the process, it ends though nothing else of it moves: a thread of its own sees to
//! that.
//!
//! What it does not do: hold them (`lease::held`).

use std::process;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::AppError;
use crate::clock::Clock;
use crate::config::{Config, OnLoss};
use crate::lease::claim::{Changes, Claim, Claims};
use crate::lease::held::{CannotHold, Held};
use crate::lease::own::Own;
use crate::lease::pins::Pins;
use crate::protocol::time::{BootInstant, Millis};

/// The exit code of a process that lost a lease.
pub const LEASE_LOST: u8 = 4;

/// So long after the end of a lease a process that should have ended by itself is ended.
const GRACE: Millis = Millis(2_000);

/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Whoever does not let go in time is left behind: his lease ends by itself.
const LETTING_GO: Duration = Duration::from_secs(5);

/// Those of a config, not begun yet.
pub(super) struct Holding {
    held: Vec<Held>,
    claims: Claims,
    watched: Vec<Watched>,
}

/// Those that are held.
pub(super) struct Holders {
    tasks: JoinSet<Held>,
    let_go: CancellationToken,
    watched: Vec<Watched>,
    clock: Clock,
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
        for rule in config.leases.clone() {
            let (tenant, own, clock) = (config.tenant.clone(), own.clone(), clock.clone());
            let (name, on_loss) = (rule.name.clone(), rule.on_loss);
            let changes = changes.clone();
            let opened = tokio::task::spawn_blocking(move || {
                Held::new(&rule, tenant, Arc::new(own), clock, changes)
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
        let let_go = CancellationToken::new();
        let mut tasks = JoinSet::new();
        for held in self.held {
            tasks.spawn(held.run(let_go.clone()));
        }
        for watched in self.watched.clone() {
            let clock = clock.clone();
            let watching = thread::Builder::new().name("lease".to_owned());
            if let Err(error) = watching.spawn(move || watched.end_with_it(&clock)) {
                tracing::error!(error = %error, "nobody watches whether this process ends with its lease");
            }
        }
        Holders {
            tasks,
            let_go,
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

    /// Ends the process a while after the end of what it owns: whoever shuts down in order is gone by then.
    fn end_with_it(mut self, clock: &Clock) {
        loop {
            thread::sleep(LOOK);
            let _is_told = self.is_lost();
            let end = self.until.map(|until| until.after(GRACE));
            if end.is_some_and(|end| end <= clock.boottime()) {
                tracing::error!(
                    lease = self.name,
                    "a lease is lost, and this process is still there: it is ended"
                );
                process::exit(i32::from(LEASE_LOST));
            }
        }
    }
}
