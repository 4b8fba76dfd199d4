//! What only a register with many owners can get wrong, on a real server: several instances in this process,
//! each with its own connections and clock.
//!
//! What always holds: an instance is frozen by stopping what gives its signs of life; what it is asked
//! for while it is frozen is its first step after it thawed.

mod about;
mod crowd;
mod epoch;
mod explained;
mod failures;
mod forget;
mod generations;
mod ground;
mod leases;
mod letters;
mod life;
mod moving;
mod numbers;
mod parted;
mod races;
mod restored;
mod strangers;
mod takeover;
mod tenants;
mod two_primaries;
mod unknown;
mod verdicts;
mod whereabouts;

use std::sync::Arc;
use std::time::Duration;

use super::life::{Life, Name};
use super::servers::{Database, shared};
use super::trouble::Trouble;
use super::{OpenError, Options, Owner, Part, PostgresBackend, open};
use crate::clock::{Clock, Manual};
use crate::protocol::command::{Admit, Ruling};
use crate::protocol::ids::InstanceId;
use crate::protocol::outcome::Evidence;
use crate::protocol::time::{BootId, BootInstant, Millis, Moment};
use crate::store::conformance::commands as c;
use crate::store::permit::Permit;
use crate::store::seal::MasterKey;
use crate::store::{Register, Remember};

pub(super) const A: InstanceId = InstanceId(0xa);
pub(super) const B: InstanceId = InstanceId(0xb);
pub(super) const C: InstanceId = InstanceId(0xc);

/// Nobody is taken for dead within a test.
const LONG: Millis = Millis(600_000);

/// Soon, but not sooner than a busy machine lets an instance beat.
const SOON: Millis = Millis(1_400);

const HOUR: u64 = 3_600_000;

/// One instance.
struct Party {
    backend: Arc<PostgresBackend>,
    register: Register,
}

/// A clock of a machine of its own.
fn machine(boot: u128) -> Manual {
    Manual::at(Moment {
        boot: BootId(boot),
        boottime: BootInstant(10_000_000 * u64::try_from(boot).unwrap()),
        // A full minute.
        wall_ms: 1_790_000_040_000,
    })
}

async fn join(database: &Database, instance: InstanceId, dead_after: Millis) -> Party {
    join_with(database, instance, dead_after, Clock::system().unwrap()).await
}

async fn join_with(
    database: &Database,
    instance: InstanceId,
    dead_after: Millis,
    clock: Clock,
) -> Party {
    let opened = try_join(database.url(), instance, dead_after, clock).await;
    Party::of(opened.unwrap())
}

/// A sidecar that reaches its database at this URL.
async fn sidecar(url: String, instance: u128) -> Arc<PostgresBackend> {
    try_sidecar(url, instance).await.unwrap()
}

async fn try_sidecar(url: String, instance: u128) -> Result<Arc<PostgresBackend>, OpenError> {
    try_join(url, InstanceId(instance), LONG, Clock::system().unwrap()).await
}

async fn sidecars(database: &Database, count: u128) -> Vec<Arc<PostgresBackend>> {
    let mut all = Vec::new();
    for instance in 1..=count {
        all.push(sidecar(database.url(), instance).await);
    }
    all
}

async fn try_join(
    url: String,
    instance: InstanceId,
    dead_after: Millis,
    clock: Clock,
) -> Result<Arc<PostgresBackend>, OpenError> {
    let options = Options {
        name: format!("sidecar-{instance}"),
        ..options(url, c::TENANT, dead_after)
    };
    let owner = Owner {
        clock,
        ..owner(instance)
    };
    Ok(open(options, owner).await?.backend)
}

fn owner(instance: InstanceId) -> Owner {
    Owner {
        instance,
        clock: Clock::system().unwrap(),
        committed: Box::new(|_, _| {}),
    }
}

fn options(url: String, tenant: &str, dead_after: Millis) -> Options {
    Options {
        url,
        tls: None,
        keys: vec![MasterKey::new([7; 32])],
        migrate: true,
        name: "sidecar".to_owned(),
        tenant: tenant.to_owned(),
        part: Part::Sidecar,
        ephemeral: false,
        dead_after,
        remember: Remember {
            answers: Millis(HOUR),
            identities: Millis(10 * HOUR),
        },
    }
}

impl Party {
    /// It gives no sign of life any more, and looks at nobody's.
    async fn freeze(&self) {
        let mut beside = std::mem::take(&mut *self.backend.beside.lock().unwrap());
        beside.shutdown().await;
    }

    fn of(backend: Arc<PostgresBackend>) -> Self {
        Self {
            register: Register::new(backend.clone()),
            backend,
        }
    }

    async fn beat(&self) {
        self.try_beat().await.unwrap();
    }

    /// One sign of life and one look, as if there were no time between two of them.
    async fn try_beat(&self) -> Result<(), Trouble> {
        self.life().beat().await
    }

    /// It gives signs of life when it is told to.
    fn life(&self) -> Life {
        let name = Name {
            tenant: c::TENANT.to_owned(),
            name: "thawed".to_owned(),
        };
        let (shared, reader) = (self.backend.shared.clone(), self.backend.reader.clone());
        Life::new(shared, reader, name, LONG)
    }

    async fn granted(&self, admit: &Admit) -> Permit {
        let admitted = self.register.admit(admit.clone()).await.unwrap();
        let ruling = admitted.admission.ruling;
        admitted
            .permit
            .unwrap_or_else(|| panic!("not granted: {ruling:?}"))
    }

    /// Admits, sends and records.
    async fn carry_out(&self, admit: &Admit, evidence: Evidence) {
        let permit = self.granted(admit).await;
        let receipt = permit.finish(evidence);
        self.register.record(&receipt, admit.at).await.unwrap();
    }

    /// Does it take the attempt of that operation to be under way?
    async fn sees_in_flight(&self, admit: &Admit, at: Moment) -> bool {
        let mut repeat = c::again(admit);
        repeat.attempt.instance = self.register.instance();
        repeat.at = at;
        match self.register.admit(repeat).await.unwrap().admission.ruling {
            Ruling::Join { uncertain, .. } => !uncertain,
            other => panic!("{other:?}"),
        }
    }

    fn takes_for_dead(&self, other: InstanceId) -> bool {
        !self.register.living().contains(other)
    }

    async fn state(&self, id: &str) -> &'static str {
        let found = self.register.read().operation(&c::key(id), false).await;
        found.unwrap().unwrap().operation.state.word()
    }

    /// What it finds in doubt, in pages as small as can be.
    async fn in_doubt(&self) -> Vec<String> {
        let (mut found, mut after) = (Vec::new(), 0);
        loop {
            let page = self.register.read().in_doubt(after, 2).await.unwrap();
            let Some((last, _)) = page.last() else {
                return found;
            };
            after = *last;
            let ids = page.iter().map(|(_, it)| it.key.id.as_str().to_owned());
            found.extend(ids);
        }
    }
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    waited.unwrap_or_else(|_| panic!("waited in vain: {what}"));
}

fn database() -> Database {
    shared().database()
}
