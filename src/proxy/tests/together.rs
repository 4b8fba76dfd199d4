//! Two processes on one register, in front of one upstream, which counts: a real server, and each process with
//! connections, waiters and a reconciler of its own.

use tokio::task::JoinSet;

use super::commits::{Counting, until_completed};
use super::*;
use crate::dispatch::abroad;
use crate::store::conformance::{KEY, open_postgres};
use crate::store::postgres::servers::{Database, shared};

const OTHER: InstanceId = InstanceId(2);

/// What callers and the reconciler need, and a look at what others do, until it is dropped.
struct Process {
    bench: Bench,
    _looks: JoinSet<()>,
}

impl Process {
    async fn on(database: &Database, upstream: &Counting, rules: &str, own: InstanceId) -> Self {
        // That of a config that names none.
        let register = open_postgres(database.url(), "default", KEY, own).await;
        let bench = Bench::with(&[upstream.address], rules, register);
        let mut looks = JoinSet::new();
        looks.spawn(abroad::run(bench.dispatcher.clone()));
        Self {
            bench,
            _looks: looks,
        }
    }

    async fn until_settled(&self, key: &str) {
        until_completed(&self.bench, key).await;
    }
}

async fn two(database: &Database, upstream: &Counting, rules: &str) -> (Process, Process) {
    (
        Process::on(database, upstream, rules, INSTANCE).await,
        Process::on(database, upstream, rules, OTHER).await,
    )
}

async fn until_sent(upstream: &Counting) {
    let sent = async {
        while upstream.requests() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, sent).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_duplicate_at_another_process_gets_the_answer_of_the_first() {
    let database = shared().database();
    let upstream = Counting::answering_first_after(Some(Duration::from_millis(900)));
    let (here, there) = two(&database, &upstream, IDEMPOTENT).await;
    let duplicate = async {
        until_sent(&upstream).await;
        there.bench.pay(0, "k").await
    };
    let (first, second) = tokio::join!(here.bench.pay(0, "k"), duplicate);
    assert_eq!(first.status, StatusCode::CREATED);
    assert_eq!((second.status, &second.body), (first.status, &first.body));
    assert_eq!(upstream.requests(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_generation_at_another_process_goes_on_as_soon_as_the_older_one_has_ended() {
    let database = shared().database();
    let upstream = Counting::answering_first_after(Some(Duration::from_millis(900)));
    let patient = FENCED.replace("300ms", "5s");
    let (here, there) = two(&database, &upstream, &patient).await;
    let names = Names::default();
    let newer = async {
        until_sent(&upstream).await;
        let identified = there.bench.identified_as(0, "newer", "{}", "109");
        let told = there.bench.carry_out(&names, 0, identified).await;
        (told.reply.status, upstream.requests())
    };
    let (older, newer) = tokio::join!(here.bench.pay(0, "older"), newer);
    assert_eq!(older.status, StatusCode::CREATED);
    assert_eq!(newer, (StatusCode::CREATED, 2));
}

/// Its process is gone: another one sends the stored bytes again, under the same key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_process_left_is_settled_by_another() {
    let database = shared().database();
    let upstream = Counting::answering_first_after(Some(Duration::ZERO));
    let (here, there) = two(&database, &upstream, IDEMPOTENT).await;
    here.bench.intend(0, "k").await;
    here.bench.dispatcher.register.read().close().await.unwrap();
    there.bench.reconciler.start();
    there.until_settled("k").await;
    assert_eq!(upstream.requests(), 1);
    let again = there.bench.pay(0, "k").await;
    assert_eq!(again.status, StatusCode::CREATED);
    assert_eq!(upstream.requests(), 1);
    there.bench.dispatcher.supervisor.begin_drain();
}

/// Whoever is asked for it waits for whoever carries it, and sends nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_living_process_carries_is_left_to_it_though_somebody_asks() {
    let database = shared().database();
    // The first request is never answered.
    let upstream = Counting::answering_first_after(None);
    let impatient = IDEMPOTENT
        .replace("response: 5s", "response: 300ms")
        .replace("join: 5s", "join: 2s");
    let (here, there) = two(&database, &upstream, &impatient).await;
    let (_, identified) = here.bench.identified(0, "k");
    let hung_up = tokio::time::timeout(Duration::from_millis(150), here.bench.pay(0, "k")).await;
    assert!(hung_up.is_err(), "nobody answers");
    here.bench.until_listening(&identified.key).await;
    there.bench.reconciler.start();
    let told = there.bench.pay(0, "k").await;
    assert_eq!(told.status, StatusCode::GATEWAY_TIMEOUT, "{:?}", told.body);
    assert_eq!(upstream.requests(), 1);
    // Its own process goes on, and whoever waits elsewhere gets its answer.
    here.bench.reconciler.start();
    let told = there.bench.pay(0, "k").await;
    assert_eq!(told.status, StatusCode::CREATED, "{:?}", told.body);
    assert_eq!(upstream.requests(), 2);
    for process in [&here, &there] {
        process.bench.dispatcher.supervisor.begin_drain();
    }
}
