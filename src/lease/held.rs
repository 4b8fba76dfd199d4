//! A lease that is held on behalf of a worker that knows nothing of tokens.
//!
//! What always holds: nothing is claimed before it is remembered on the disk, and nothing without the source's word.
//! Only a probe that began after the last renewal did lets the next one go out; so a worker that is stuck loses the
//! lease. What was lost is not acquired again before the worker was visibly replaced: its start is none that ever
//! owned, or it says itself that it begins anew. A probe that failed and recovered proves nothing. An answer that
//! comes after the end counts as loss. Whatever is odd ends the claim, and never extends it.
//!
//! What it does not do: decide whether a claim holds now (`claim`: whoever uses it looks at the clock), or stamp.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::claim::{Changes, Claim, ENDED, Entry, Ownership};
use super::own::Wanted;
use super::probe::{self, Look, NotAlive};
use super::remembered::{self, Last, Start, StateFile};
use super::secret::digest;
use super::source::{Granted, LeaseSource, NotGranted};
use crate::clock::Clock;
use crate::config::HeldLease;
use crate::protocol::ids::{AcquisitionId, ResourceKey, Tenant};
use crate::protocol::time::{BootInstant, Millis};

mod beginning;
mod owning;

use beginning::OWNED_BEFORE;

#[cfg(test)]
mod tests;

/// How long it is waited for one that another holds before the worker is looked at again.
const WAIT: Millis = Millis(1_000);

/// The first and the longest pause after a try that failed.
const PAUSES: (Millis, Millis) = (Millis(200), Millis(5_000));

/// Best effort takes no longer.
const RELEASING: Duration = Duration::from_secs(2);

/// Why one cannot be held.
#[derive(Debug, thiserror::Error)]
pub enum CannotHold {
    /// Its state cannot be kept.
    #[error("its state cannot be kept in {path}", path = .0.display())]
    State(PathBuf, #[source] std::io::Error),
    /// Whoever looked did not come back.
    #[error("its state cannot be looked at: {0}")]
    Gone(String),
}

/// One lease, and all that is known of its worker.
pub struct Held {
    name: String,
    resource: ResourceKey,
    wanted: Wanted,
    every: Millis,
    timeout: Millis,
    source: Arc<dyn LeaseSource>,
    worker: Arc<dyn Look>,
    clock: Clock,
    state: Arc<StateFile>,
    /// What kind of sign tells starts of the worker apart.
    sign: String,
    last: Last,
    phase: Phase,
    worker_seen: Seen,
    /// It says that it begins anew, and has not owned since.
    acknowledged: bool,
    /// Why this process of the worker has it no more.
    lost: Option<String>,
    /// Why it is not acquired yet.
    trouble: Option<String>,
    due: Due,
    told: Told,
    /// Nothing is acquired or resumed from then on.
    stopping: CancellationToken,
}

/// What it is doing.
enum Phase {
    /// Nothing is owned.
    Without,
    /// What was owned before this process started may be gone on with.
    Resuming(remembered::Ownership),
    /// It is owned.
    Owning(Owning),
}

struct Owning {
    ownership: Ownership,
    start: Option<Start>,
    /// When the last request for it that succeeded began.
    begun: BootInstant,
}

/// What was seen of the worker.
#[derive(Default)]
struct Seen {
    /// By the last probe of all: why it is not alive.
    trouble: Option<String>,
    /// By the last one that succeeded.
    success: Option<Success>,
}

struct Success {
    began: BootInstant,
    start: Option<Start>,
}

/// When what is to be done next.
struct Due {
    probe: BootInstant,
    /// To acquire, to resume or to renew.
    ask: BootInstant,
    failures: u32,
}

/// Whom it tells.
struct Told {
    claim: watch::Sender<Claim>,
    changes: Changes,
    acknowledge: mpsc::Receiver<oneshot::Sender<()>>,
}

impl Held {
    /// As the config says it, and what the proxy looks into. Nothing is owned until it runs. Blocks.
    pub fn new(
        rule: &HeldLease,
        tenant: Tenant,
        source: Arc<dyn LeaseSource>,
        clock: Clock,
        changes: Changes,
    ) -> Result<(Self, Entry), CannotHold> {
        let worker = Arc::new(rule.alive.sign.clone());
        Self::looking(rule, tenant, (source, worker), clock, changes)
    }

    fn looking(
        rule: &HeldLease,
        tenant: Tenant,
        (source, worker): (Arc<dyn LeaseSource>, Arc<dyn Look>),
        clock: Clock,
        changes: Changes,
    ) -> Result<(Self, Entry), CannotHold> {
        let state = StateFile::open(&rule.state, rule.resource.clone())
            .map_err(|error| CannotHold::State(rule.state.clone(), error))?;
        let last = state.read();
        let now = clock.boottime();
        let (claim, claimed) = watch::channel(Claim::NotYet("it begins".to_owned()));
        let (acknowledge, acknowledged) = mpsc::channel(1);
        let entry = Entry {
            resource: rule.resource.clone(),
            source: source.name(),
            claim: claimed,
            acknowledge,
        };
        let mut held = Self {
            name: rule.name.clone(),
            resource: ResourceKey {
                tenant,
                name: rule.resource.clone(),
            },
            wanted: Wanted {
                holder: holder(rule),
                ttl: rule.ttl,
                wait: WAIT.min(rule.alive.every),
            },
            every: rule.alive.every,
            timeout: rule.alive.timeout,
            source,
            worker,
            phase: Phase::Without,
            clock,
            state: Arc::new(state),
            sign: probe::kind(&rule.alive.sign),
            last,
            worker_seen: Seen::default(),
            acknowledged: false,
            lost: None,
            trouble: None,
            due: Due {
                probe: now,
                ask: now,
                failures: 0,
            },
            told: Told {
                claim,
                changes,
                acknowledge: acknowledged,
            },
            stopping: CancellationToken::new(),
        };
        held.begin();
        Ok((held, entry))
    }

    /// Holds it until `let_go`. What is owned then is still owned. Nothing is acquired or resumed from `stopping` on;
    /// what is owned is renewed.
    pub async fn run(mut self, stopping: CancellationToken, let_go: CancellationToken) -> Self {
        self.stopping = stopping;
        loop {
            let next = tokio::select! {
                next = self.turn() => next,
                // What is being asked for is then nobody's, and ends by itself.
                () = let_go.cancelled() => return self,
            };
            let pause = next.since(self.clock.boottime());
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(pause.0.max(1))) => {}
                Some(tell) = self.told.acknowledge.recv() => {
                    self.begins_anew().await;
                    // Whoever asked may be gone.
                    let _gone = tell.send(());
                }
                () = let_go.cancelled() => return self,
            }
        }
    }

    /// Gives back what is owned, last of all. Best effort.
    pub async fn release(mut self) {
        let Phase::Owning(owning) = self.without() else {
            return;
        };
        self.tell(Claim::NotYet("this sidecar is stopping".to_owned()));
        if let Last::Known(last) = &mut self.last {
            last.released = true;
            let last = last.clone();
            // What is not noted down ends by itself all the same.
            let _written = self.write(last).await;
        }
        self.give_back(&owning.ownership.acquisition).await;
    }

    /// Does what is due. Answers when to come again.
    async fn turn(&mut self) -> BootInstant {
        self.end_what_is_over();
        if self.due.probe <= self.clock.boottime() {
            self.probe().await;
            self.end_what_is_over();
        }
        if self.due.ask <= self.clock.boottime() {
            match &self.phase {
                Phase::Owning(_) => self.renew().await,
                Phase::Resuming(_) => self.resume().await,
                Phase::Without => self.acquire().await,
            }
            self.end_what_is_over();
        }
        self.show();
        let next = self.due.probe.min(self.next_ask());
        match &self.phase {
            Phase::Owning(owning) => next.min(owning.ownership.until),
            Phase::Resuming(_) | Phase::Without => next,
        }
    }

    /// Where nothing may be asked for, the next probe is waited for.
    fn next_ask(&self) -> BootInstant {
        if self.due.ask > self.clock.boottime() {
            self.due.ask
        } else {
            self.due.probe
        }
    }

    async fn probe(&mut self) {
        let began = self.clock.boottime();
        self.due.probe = began.after(self.every);
        let boot = self.clock.now().boot;
        let limit = Duration::from_millis(self.timeout.0);
        let looked = timeout(limit, self.worker.look(boot)).await;
        let late = || NotAlive("it does not answer in time".to_owned());
        match looked.unwrap_or_else(|_| Err(late())) {
            Ok(start) => {
                if self.worker_seen.trouble.take().is_some() {
                    tracing::info!(lease = self.name, "the worker is alive again");
                }
                let is_another = self.is_another(start.as_ref());
                self.seen_again(start.as_ref(), began).await;
                self.worker_seen.success = Some(Success { began, start });
                if is_another {
                    self.replaced().await;
                }
            }
            Err(why) => {
                if self.worker_seen.trouble.is_none() {
                    tracing::warn!(
                        lease = self.name,
                        why = why.0,
                        "the worker is not seen to be alive"
                    );
                }
                self.worker_seen.trouble = Some(why.0);
            }
        }
    }

    /// Is it another start than the one that owns?
    fn is_another(&self, start: Option<&Start>) -> bool {
        match &self.phase {
            Phase::Owning(owning) => owning.start.as_ref() != start,
            Phase::Resuming(last) => last.start.as_ref() != start,
            Phase::Without => false,
        }
    }

    /// The worker is another one: what is owned is the one's before.
    async fn replaced(&mut self) {
        tracing::info!(
            lease = self.name,
            resource = %self.resource.name,
            "the worker was replaced: its lease is given back"
        );
        self.give_up("the worker was replaced").await;
    }

    /// It says so itself.
    async fn begins_anew(&mut self) {
        self.give_up("the worker begins anew").await;
        if let Last::Unreadable(why) = &self.last {
            tracing::warn!(
                lease = self.name,
                why,
                "a state that cannot be read is given up"
            );
        }
        self.acknowledged = true;
        self.lost = None;
        self.due.ask = self.clock.boottime();
        self.show();
    }

    /// Nothing is claimed any more before this returns; then it is given back.
    async fn give_up(&mut self, why: &str) {
        let acquisition = match self.without() {
            Phase::Owning(owning) => owning.ownership.acquisition,
            Phase::Resuming(last) => last.acquisition,
            Phase::Without => return,
        };
        self.lost = None;
        self.due.ask = self.clock.boottime();
        self.tell(Claim::NotYet(why.to_owned()));
        self.give_back(&acquisition).await;
    }

    async fn give_back(&self, acquisition: &AcquisitionId) {
        let released = timeout(RELEASING, self.source.release(&self.resource, acquisition)).await;
        if !matches!(released, Ok(Ok(()))) {
            tracing::info!(
                lease = self.name,
                acquisition = digest(acquisition),
                "a lease was not released: it ends by itself"
            );
        }
    }

    /// Nothing is owned from now on. Answers what was.
    fn without(&mut self) -> Phase {
        std::mem::replace(&mut self.phase, Phase::Without)
    }

    fn end_what_is_over(&mut self) {
        let now = self.clock.boottime();
        match &self.phase {
            Phase::Owning(owning) if owning.ownership.until <= now => self.lose(ENDED),
            Phase::Resuming(last) if last.until <= now => {
                self.lose("the lease ran out while this sidecar was away");
            }
            Phase::Owning(_) | Phase::Resuming(_) | Phase::Without => {}
        }
    }

    /// It is lost, for this process of the worker for good.
    fn lose(&mut self, why: &str) {
        let lost = match self.without() {
            Phase::Owning(owning) => Some((owning.ownership.acquisition, owning.ownership.token)),
            Phase::Resuming(last) => Some((last.acquisition, last.token)),
            Phase::Without => None,
        };
        if let Some((acquisition, token)) = lost {
            tracing::error!(
                lease = self.name,
                resource = %self.resource.name,
                acquisition = digest(&acquisition),
                %token,
                why,
                "a lease is lost: the worker is refused until it is replaced"
            );
        }
        self.lost = Some(why.to_owned());
        self.trouble = None;
        self.due.failures = 0;
        self.due.ask = self.clock.boottime();
        self.show();
    }

    /// Tells how it stands.
    fn show(&self) {
        let claim = match &self.phase {
            Phase::Owning(owning) => Claim::Owned(owning.ownership.clone()),
            Phase::Resuming(_) => Claim::NotYet(self.why_not("it is being resumed")),
            Phase::Without if self.is_proven() => {
                Claim::NotYet(self.why_not("it is being acquired"))
            }
            Phase::Without => self.unproven(),
        };
        self.tell(claim);
    }

    fn why_not(&self, otherwise: &str) -> String {
        let trouble = self.worker_seen.trouble.as_ref();
        let trouble = trouble.map(|why| format!("the worker is not seen to be alive: {why}"));
        let trouble = trouble.or_else(|| self.trouble.clone());
        trouble.unwrap_or_else(|| otherwise.to_owned())
    }

    fn unproven(&self) -> Claim {
        if let Last::Unreadable(why) = &self.last {
            let path = self.state.path().display();
            return Claim::Lost(format!(
                "what is remembered of it in {path} cannot be used ({why}): it has to be acknowledged"
            ));
        }
        match (&self.lost, &self.worker_seen.success) {
            (Some(why), _) => Claim::Lost(why.clone()),
            // It may be another one.
            (None, None) => Claim::NotYet(self.why_not("the worker has not been seen yet")),
            (None, Some(_)) => Claim::Lost(OWNED_BEFORE.to_owned()),
        }
    }

    /// Changes are told only where something changed.
    fn tell(&self, claim: Claim) {
        let acquisition = |claim: &Claim| match claim {
            Claim::Owned(owned) => Some(owned.acquisition.clone()),
            Claim::NotYet(_) | Claim::Lost(_) => None,
        };
        let (before, after) = (acquisition(&self.told.claim.borrow()), acquisition(&claim));
        self.told.claim.send_if_modified(|told| {
            let changes = *told != claim;
            *told = claim;
            changes
        });
        if before != after {
            self.told.changes.tell();
        }
    }

    /// A pause that grows, and is another one for everybody.
    fn ask_later(&mut self) {
        let (first, longest) = PAUSES;
        let doublings = self.due.failures.min(8);
        let pause = first
            .0
            .checked_shl(doublings)
            .unwrap_or(longest.0)
            .min(longest.0);
        self.due.failures = self.due.failures.saturating_add(1);
        let pause = Millis(spread(pause)).min(Millis(self.wanted.ttl.0 / 10));
        self.due.ask = self.clock.boottime().after(pause);
    }
}

/// Half of it, and up to as much again.
fn spread(pause: u64) -> u64 {
    let mut random = [0; 2];
    // Without randomness everybody waits for the longest.
    let share = SystemRandom::new().fill(&mut random);
    let share = share.map_or(u16::MAX, |()| u16::from_be_bytes(random));
    let half = pause / 2;
    half.saturating_add(half.saturating_mul(u64::from(share)) / u64::from(u16::MAX))
}

/// C23: two who are called alike are not the same.
fn holder(rule: &HeldLease) -> String {
    if let Some(holder) = &rule.holder {
        return holder.clone();
    }
    let mut random = [0; 4];
    let _none = SystemRandom::new().fill(&mut random);
    let name = rustix::system::uname();
    let host: String = name.nodename().to_string_lossy().chars().take(64).collect();
    format!("{host}-{:08x}", u32::from_be_bytes(random))
}
