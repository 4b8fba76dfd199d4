//! A sidecar with one lease, on a clock that the test sets, with a source and a worker that stand in.
//!
//! What always holds: whatever the test does not say has not happened.
//!
//! What it does not do: judge.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use super::super::super::claim::Claims;
use super::super::super::probe::Looked;
use super::super::super::source::Asked;
use super::super::*;
use crate::clock::Manual;
use crate::config::{Alive, OnLoss, Sign};
use crate::protocol::ids::{FencingToken, ResourceName, TokenSource};
use crate::protocol::time::{BootId, Moment};

pub(super) const TTL: Millis = Millis(30_000);
pub(super) const THIRD: Millis = Millis(10_000);
pub(super) const EVERY: Millis = Millis(2_000);

/// A source, as far as the test brings it.
pub(super) struct StandIn {
    pub(super) clock: Manual,
    pub(super) is: Mutex<Is>,
}

#[derive(Default)]
pub(super) struct Is {
    /// Whose it is: acquisition, generation, and when it ends.
    pub(super) held: Option<(String, u64, BootInstant)>,
    pub(super) issued: u64,
    pub(super) acquisitions: u64,
    pub(super) renewals: u64,
    /// What becomes of the next renewals.
    pub(super) fates: VecDeque<Fate>,
    /// It acknowledges renewals although nothing is recorded.
    pub(super) acknowledges_blindly: bool,
}

pub(super) enum Fate {
    /// It is done, and the answer takes that long.
    Late(Millis),
    /// Nobody answers.
    Silence,
}

impl StandIn {
    pub(super) fn is(&self) -> MutexGuard<'_, Is> {
        self.is.lock().unwrap()
    }

    pub(super) fn now(&self) -> BootInstant {
        self.clock.now().boottime
    }

    /// Somebody else takes it, once nobody has it.
    pub(super) fn taken_by_another(&self) -> bool {
        let now = self.now();
        let mut is = self.is();
        if is.held.as_ref().is_some_and(|(_, _, until)| *until > now) {
            return false;
        }
        is.issued += 1;
        let (acquisition, until) = ("another's".to_owned(), now.after(TTL));
        is.held = Some((acquisition, is.issued, until));
        true
    }

    pub(super) fn holds(&self, acquisition: &AcquisitionId) -> bool {
        let is = self.is();
        is.held
            .as_ref()
            .is_some_and(|(held, _, _)| held == acquisition.as_str())
    }
}

pub(super) fn token(generation: u64) -> FencingToken {
    FencingToken::parse(&generation.to_string()).unwrap()
}

impl LeaseSource for StandIn {
    fn name(&self) -> TokenSource {
        TokenSource::new("stand-in")
    }

    fn acquire<'a>(&'a self, _: &'a ResourceKey, wanted: &'a Wanted) -> Asked<'a, Granted> {
        Box::pin(async move {
            let now = self.now();
            let mut is = self.is();
            if let Some((_, _, until)) = is.held.as_ref().filter(|(_, _, until)| *until > now) {
                return Err(NotGranted::Held(until.since(now)));
            }
            is.issued += 1;
            is.acquisitions += 1;
            let (acquisition, until) = (format!("own-{}", is.acquisitions), now.after(wanted.ttl));
            is.held = Some((acquisition.clone(), is.issued, until));
            Ok(Granted {
                token: token(is.issued),
                acquisition: AcquisitionId::new(acquisition),
                until,
            })
        })
    }

    fn renew<'a>(
        &'a self,
        _: &'a ResourceKey,
        acquisition: &'a AcquisitionId,
    ) -> Asked<'a, Granted> {
        Box::pin(async move {
            let until = self.now().after(TTL);
            let fate = self.is().fates.pop_front();
            if let Some(Fate::Silence) = fate {
                return Err(NotGranted::Unreachable("nobody is there".to_owned()));
            }
            if !self.holds(acquisition) && !self.is().acknowledges_blindly {
                return Err(NotGranted::Lost);
            }
            if let Some(Fate::Late(late)) = fate {
                self.clock.pass(late);
            }
            let mut is = self.is();
            is.renewals += 1;
            let generation = is.issued;
            is.held = is
                .held
                .take()
                .map(|(held, generation, _)| (held, generation, until));
            Ok(Granted {
                token: token(generation),
                acquisition: acquisition.clone(),
                until,
            })
        })
    }

    fn confirm<'a>(&'a self, _: &'a ResourceKey, acquisition: &'a AcquisitionId) -> Asked<'a, ()> {
        let holds = self.holds(acquisition);
        Box::pin(async move { holds.then_some(()).ok_or(NotGranted::Lost) })
    }

    fn release<'a>(&'a self, _: &'a ResourceKey, acquisition: &'a AcquisitionId) -> Asked<'a, ()> {
        Box::pin(async move {
            if !self.holds(acquisition) {
                return Err(NotGranted::Lost);
            }
            self.is().held = None;
            Ok(())
        })
    }
}

/// A worker: its start, or why it is not alive.
pub(super) struct Worker(pub(super) Mutex<Result<Option<Start>, NotAlive>>);

impl Look for Worker {
    fn look(&self, _: BootId) -> Looked<'_> {
        let seen = self.0.lock().unwrap().clone();
        Box::pin(async move { seen })
    }
}

/// A sidecar with one lease, its worker and its source.
pub(super) struct Bench {
    pub(super) clock: Manual,
    pub(super) source: Arc<StandIn>,
    pub(super) worker: Arc<Worker>,
    pub(super) folder: tempfile::TempDir,
    pub(super) sign: Sign,
    pub(super) name: &'static str,
    pub(super) held: Option<Held>,
    pub(super) claims: Claims,
}

impl Bench {
    pub(super) fn new() -> Self {
        let clock = Manual::at(Moment {
            boot: BootId(1),
            boottime: BootInstant(1_000_000),
            wall_ms: 1_700_000_000_000,
        });
        let source = Arc::new(StandIn {
            clock: clock.clone(),
            is: Mutex::default(),
        });
        let mut bench = Self {
            clock,
            source,
            worker: Arc::new(Worker(Mutex::new(Err(NotAlive("not yet".to_owned()))))),
            folder: tempfile::tempdir().unwrap(),
            sign: Sign::Command("nobody".to_owned()),
            name: "payer",
            held: None,
            claims: Claims::default(),
        };
        bench.start();
        bench
    }

    /// The sidecar starts; one that ran before was killed.
    pub(super) fn start(&mut self) {
        self.held = None;
        let rule = HeldLease {
            name: self.name.to_owned(),
            resource: resource(),
            source: self.source.name(),
            ttl: TTL,
            holder: None,
            alive: Alive {
                sign: self.sign.clone(),
                every: EVERY,
                timeout: Millis(1_000),
            },
            on_loss: OnLoss::Refuse,
            state: self.folder.path().to_owned(),
        };
        let state = StateFile::open(&rule.state, resource()).unwrap();
        let changes = Changes::default();
        let (held, entry) = Held::looking(
            &rule,
            Tenant::new("default"),
            (self.source.clone(), self.worker.clone()),
            state,
            self.clock.clock(),
            changes.clone(),
        );
        self.claims = Claims::new(self.clock.clock(), vec![entry], changes);
        self.held = Some(held);
    }

    pub(super) fn alive(&self, start: &str) {
        *self.worker.0.lock().unwrap() = Ok(Some(Start::of(start)));
    }

    pub(super) fn stuck(&self) {
        *self.worker.0.lock().unwrap() = Err(NotAlive("it does not answer".to_owned()));
    }

    pub(super) fn held(&mut self) -> &mut Held {
        self.held.as_mut().unwrap()
    }

    /// Whatever is due is done, for that long.
    pub(super) async fn pass(&mut self, length: Millis) {
        let end = self.clock.now().boottime.after(length);
        loop {
            let next = self.held().turn().await;
            let now = self.clock.now().boottime;
            if now >= end {
                return;
            }
            let pause = next.min(end).since(now);
            self.clock.pass(pause.max(Millis(1)));
        }
    }

    pub(super) async fn now(&mut self) -> Claim {
        self.held().turn().await;
        self.claim()
    }

    pub(super) fn claim(&self) -> Claim {
        self.claims.of(&resource()).unwrap()
    }

    pub(super) fn generation(&self) -> Option<String> {
        match self.claim() {
            Claim::Owned(owned) => Some(owned.token.to_string()),
            Claim::NotYet(_) | Claim::Lost(_) => None,
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        matches!(self.claim(), Claim::Lost(_))
    }

    pub(super) fn is_not_yet(&self) -> bool {
        matches!(self.claim(), Claim::NotYet(_))
    }

    pub(super) async fn acknowledge(&mut self) {
        self.held().begins_anew().await;
    }

    /// With a lease, under `first`.
    pub(super) async fn owning() -> Self {
        let mut bench = Self::new();
        bench.alive("first");
        bench.pass(Millis::default()).await;
        assert_eq!(bench.generation().as_deref(), Some("1"));
        bench
    }
}

pub(super) fn resource() -> ResourceName {
    ResourceName::new("account:1")
}

pub(super) fn state(folder: &Path) -> String {
    std::fs::read_to_string(state_path(folder)).unwrap()
}

/// Where it is: called after the resource, so that another name of the lease hides nothing.
pub(super) fn state_path(folder: &Path) -> PathBuf {
    let mut files = std::fs::read_dir(folder).unwrap();
    let file = files.find_map(|entry| {
        let path = entry.unwrap().path();
        path.extension()
            .is_some_and(|it| it == "json")
            .then_some(path)
    });
    file.unwrap()
}
