//! Very many sidecars and few connections: five hundred through a pooler before a server with two hundred, and
//! as many as that server takes by themselves.
//!
//! What always holds: everybody gets in and is answered, on resources that all of them contend for; of what
//! several ask for, one is granted. An answer that nobody knew in time is asked for again, as callers do.
//!
//! What it does not do: measure speed (`tests/bench`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::super::servers::{Bouncer, Database, Mode, Pool, Postgres, Settings, waiting};
use super::unknown::{admission, end_of};
use super::{PostgresBackend, sidecar};
use crate::protocol::command::{Admit, Reply, Ruling};
use crate::protocol::ids::{FencingToken, InstanceId};
use crate::protocol::operation::State;
use crate::protocol::policy::Order;
use crate::protocol::rejection::Rejection;
use crate::store::conformance::commands as c;
use crate::store::{Backend, StoreError};

/// What the server has: three of them are kept for whoever repairs it.
const CONNECTIONS: usize = 200;

const RESOURCES: u128 = 8;

/// So many ask for the same operation.
const GROUP: u128 = 10;

/// So many of them do something at a time: were it all, the last one would be told so late that nobody knows.
const AT_ONCE: usize = 32;

/// Between two times that somebody asks.
const PAUSE: Duration = Duration::from_millis(50);

/// A role whose password (`crowd`) is hashed once and not 4096 times: a thousand handshakes of an
/// unoptimised build would take minutes.
const ROLE: &str = "CREATE ROLE crowd LOGIN SUPERUSER PASSWORD
    'SCRAM-SHA-256$1:ZmVuY2Vwb3N0LWNyb3dkIQ==$ZPnuLwni6YfGm1KHS41zTlU9UBa2YfRnpOQVSOaQiv0=:eVzNFi8n7bsYtGFoIbRzo1aZrqN2IOe6On/z6nHS8E8='";

/// What they have been told so far.
#[derive(Default)]
struct Told {
    granted: AtomicUsize,
    replayed: AtomicUsize,
}

/// The most connections to the server at any time that it was looked at.
struct Watch {
    is_over: Arc<AtomicBool>,
    looks: tokio::task::JoinHandle<usize>,
}

async fn join_all(url: &str, count: u128) -> Vec<Arc<PostgresBackend>> {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut joining = JoinSet::new();
    for own in 1..=count {
        let (url, turns) = (url.to_owned(), Arc::clone(&turns));
        joining.spawn(async move {
            let _turn = turns.acquire().await.unwrap();
            (own, sidecar(url, own).await)
        });
    }
    let mut all = joining.join_all().await;
    all.sort_by_key(|(own, _)| *own);
    all.into_iter().map(|(_, register)| register).collect()
}

fn ask(id: &str, own: u128, resource: u128, token: &str) -> Admit {
    let mut admit = c::fenced(id, &format!("r-{resource}"), token, InstanceId(own));
    Arc::make_mut(&mut admit.policy).order = Order::Free;
    admit
}

impl Told {
    /// Asks until there is an answer: what is under way ends, what nobody knows will be known.
    async fn by(&self, register: &PostgresBackend, admit: &Admit) -> Ruling {
        let asking = async {
            loop {
                match admission(register, &c::again(admit)).await {
                    Ok(Ruling::Join { .. }) => tokio::time::sleep(PAUSE).await,
                    Ok(ruling) => return ruling,
                    Err(error) => Self::was_not_told(&error).await,
                }
            }
        };
        Self::in_time(admit, asking).await
    }

    async fn record(&self, register: &PostgresBackend, admit: &Admit) {
        let recording = async {
            loop {
                match register.apply(end_of(admit)).await {
                    Ok(Reply::Recorded(recorded)) => return recorded.state,
                    Ok(other) => panic!("{other:?}"),
                    Err(error) => Self::was_not_told(&error).await,
                }
            }
        };
        let state = Self::in_time(admit, recording).await;
        assert!(matches!(state, Some(State::Completed(_))), "{state:?}");
    }

    async fn was_not_told(error: &StoreError) {
        assert!(matches!(error, StoreError::CommitUnknown(_)), "{error}");
        tokio::time::sleep(PAUSE).await;
    }

    async fn in_time<T>(admit: &Admit, answer: impl Future<Output = T>) -> T {
        let told = tokio::time::timeout(waiting::PATIENCE, answer).await;
        told.unwrap_or_else(|_| panic!("{:?} starves", admit.key.id))
    }

    /// Asks, and records the end where it is granted.
    async fn carry_out(&self, register: &PostgresBackend, admit: &Admit) {
        match self.by(register, admit).await {
            Ruling::Granted(grant) => {
                let granted = Admit {
                    attempt: grant.attempt,
                    ..admit.clone()
                };
                self.record(register, &granted).await;
                self.granted.fetch_add(1, Ordering::Relaxed);
            }
            Ruling::Replay { .. } => drop(self.replayed.fetch_add(1, Ordering::Relaxed)),
            other => panic!("{:?}: {other:?}", admit.key.id),
        }
    }
}

/// Everybody an operation of his own, then one that ten ask for, then one that is too late.
async fn work(registers: &[Arc<PostgresBackend>]) -> Told {
    let told = Arc::new(Told::default());
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut all = JoinSet::new();
    for (own, register) in (1..).zip(registers) {
        let (register, told) = (Arc::clone(register), Arc::clone(&told));
        let turns = Arc::clone(&turns);
        all.spawn(async move {
            let _turn = turns.acquire().await.unwrap();
            let admit = ask(&format!("own-{own}"), own, own % RESOURCES, "5");
            told.carry_out(&register, &admit).await;
            let group = own / GROUP;
            let admit = ask(&format!("shared-{group}"), own, group % RESOURCES, "5");
            told.carry_out(&register, &admit).await;
            let late = ask(&format!("late-{own}"), own, own % RESOURCES, "4");
            let ruling = told.by(&register, &late).await;
            let stale = matches!(ruling, Ruling::Refused(Rejection::StaleToken { .. }));
            assert!(stale, "{ruling:?}");
        });
    }
    all.join_all().await;
    Arc::into_inner(told).unwrap()
}

async fn assert_all_right(registers: &[Arc<PostgresBackend>], told: &Told, database: &Database) {
    let groups = registers.len() / usize::try_from(GROUP).unwrap() + 1;
    let granted = registers.len() + groups;
    assert_eq!(told.granted.load(Ordering::Relaxed), granted);
    let replayed = registers.len() - groups;
    assert_eq!(told.replayed.load(Ordering::Relaxed), replayed);
    let completed = "SELECT count(*) FROM fencepost.operations WHERE state = 'COMPLETED'";
    assert_eq!(database.query(completed), granted.to_string());
    for number in 0..RESOURCES {
        let key = c::resource_key(&format!("r-{number}"));
        let found = registers[0].resource(&key).await.unwrap().unwrap();
        assert_eq!(found.fence.mark, FencingToken::new(0, 5));
        assert!(found.unsettled.is_empty());
    }
}

impl Watch {
    fn over(database: &Arc<Database>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, database) = (Arc::clone(&is_over), Arc::clone(database));
        let looks = tokio::task::spawn_blocking(move || {
            let mut most = 0;
            while !over.load(Ordering::Relaxed) {
                most = most.max(connections(&database));
                std::thread::sleep(Duration::from_millis(100));
            }
            most
        });
        Self { is_over, looks }
    }

    async fn most(self) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        self.looks.await.unwrap()
    }
}

/// Those of the sidecars.
fn connections(database: &Database) -> usize {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'crowd'";
    database.query(sql).parse().unwrap()
}

fn server() -> (Postgres, Arc<Database>) {
    let settings = Settings::default().with("max_connections", &CONNECTIONS.to_string());
    let server = Postgres::start_with(&settings);
    server.query(ROLE);
    let database = Arc::new(server.database());
    (server, database)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_sidecars_share_the_connections_of_a_pooler() {
    const POOL: usize = 60;
    let (server, database) = server();
    let pool = Pool {
        mode: Mode::Transaction,
        connections: u32::try_from(POOL).unwrap(),
        clients: 1_500,
    };
    let bouncer = Bouncer::start(server.address(), pool);
    let watch = Watch::over(&database);
    let url = database.url_as(bouncer.address(), "crowd", "crowd");
    let registers = join_all(&url, 500).await;
    let told = work(&registers).await;
    let most = watch.most().await;
    assert!(most > 1 && most <= POOL, "{most}");
    assert_all_right(&registers, &told, &database).await;
}

/// Two each, and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_sidecars_as_two_connections_each_allow_are_served_directly() {
    const SIDECARS: u128 = 95;
    let (server, database) = server();
    let url = database.url_as(server.address(), "crowd", "crowd");
    let watch = Watch::over(&database);
    let registers = join_all(&url, SIDECARS).await;
    assert_eq!(connections(&database), 2 * registers.len());
    let told = work(&registers).await;
    let most = watch.most().await;
    assert_eq!(most, 2 * registers.len());
    assert_all_right(&registers, &told, &database).await;
}
