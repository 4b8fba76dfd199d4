//! Fail-overs, restores and copies, with real servers: what is noticed by itself, what stops admission, and
//! what a person's word does.

use std::sync::Arc;

use super::super::servers::{Postgres, Settings, Wire, waiting};
use super::super::{PostgresBackend, accept_restored};
use super::sidecar;
use super::unknown::end_of;
use super::verdicts::steer;
use crate::clock::Clock;
use crate::protocol::command::{Admit, Command, Record, Reply, Ruling, Steering};
use crate::protocol::ids::InstanceId;
use crate::protocol::rejection::Rejection;
use crate::protocol::time::Millis;
use crate::store::conformance::commands as c;
use crate::store::{Backend, StoreError};

pub(super) async fn ask(register: &PostgresBackend, admit: Admit) -> Result<Ruling, StoreError> {
    match register.apply(Command::Admit(Box::new(admit))).await? {
        Reply::Admission(admission) => Ok(admission.ruling),
        other => panic!("{other:?}"),
    }
}

/// Admits and completes an operation; each on a resource of its own.
async fn complete(register: &PostgresBackend, id: &str, token: &str, own: u128) {
    let admit = c::fenced(id, &format!("r-{id}"), token, InstanceId(own));
    let record = Record {
        key: admit.key.clone(),
        attempt: admit.attempt,
        evidence: c::applied(),
        open: false,
        at: c::at(500),
    };
    let ruling = ask(register, admit).await.unwrap();
    assert!(matches!(ruling, Ruling::Granted(_)), "{ruling:?}");
    register.apply(Command::Record(record)).await.unwrap();
}

pub(super) async fn until_admits(register: &PostgresBackend) {
    let ready = async {
        while register.ready().await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(waiting::PATIENCE, ready)
        .await
        .unwrap();
}

/// Waits until it says why it admits nothing, with those words.
pub(super) async fn until_closed(register: &PostgresBackend, words: &str) -> String {
    let closed = async {
        loop {
            let _ = register.ready().await;
            if let Some(why) = register.standing().unwrap().closed
                && why.contains(words)
            {
                return why;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let told = tokio::time::timeout(waiting::PATIENCE, closed).await;
    told.unwrap_or_else(|_| panic!("{:?}, not {words}", register.standing()))
}

pub(super) async fn admits_nothing(register: &PostgresBackend, own: u128) {
    let admit = c::admit("while-closed", InstanceId(own));
    let error = ask(register, admit).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(register.ready().await.is_err());
}

async fn is_stale(register: &PostgresBackend, token: &str, own: u128) {
    let old = c::fenced("late", "never-seen", token, InstanceId(own));
    let ruling = ask(register, old).await.unwrap();
    let stale = matches!(ruling, Ruling::Refused(Rejection::StaleToken { .. }));
    assert!(stale, "{ruling:?}");
}

/// It is gone without a word.
async fn vanish(register: &PostgresBackend) {
    for tasks in [&register.work, &register.beside] {
        let mut tasks = std::mem::take(&mut *tasks.lock().unwrap());
        tasks.shutdown().await;
    }
}

async fn accepted(url: &str) -> u64 {
    let clock = Clock::system().unwrap();
    let accepted = accept_restored(url, None, Millis(300), "alice", &clock).await;
    accepted.unwrap().unwrap().epoch
}

/// Two sidecars on a primary by way of a wire, and a replica.
struct World {
    primary: Postgres,
    replica: Postgres,
    wire: Wire,
    name: String,
    url: String,
    one: Arc<PostgresBackend>,
    other: Arc<PostgresBackend>,
}

impl World {
    async fn new() -> Self {
        let primary = Postgres::start();
        let replica = primary.replica();
        let wire = Wire::to(primary.address());
        // Its value would drop the database of a server that is gone by then.
        let database = std::mem::ManuallyDrop::new(primary.database());
        let url = database.url_at(wire.address());
        let one = sidecar(url.clone(), 1).await;
        let other = sidecar(url.clone(), 2).await;
        complete(&one, "first", "5", 1).await;
        complete(&other, "second", "5", 2).await;
        Self {
            name: database.name().to_owned(),
            primary,
            replica,
            wire,
            url,
            one,
            other,
        }
    }

    fn fail_over(&mut self) {
        self.primary.kill();
        self.replica.promote();
        self.wire.lead_to(self.replica.address());
        self.wire.cut();
    }

    /// What the new primary keeps of it.
    fn told(&self, sql: &str) -> String {
        super::super::servers::psql(&self.url, sql)
            .unwrap_or_else(|why| panic!("{}: {why}", self.name))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fail_over_that_lost_nothing_begins_an_epoch_by_itself() {
    let mut world = World::new().await;
    // It has done nothing yet, and is asked all the same.
    let idle = sidecar(world.url.clone(), 3).await;
    world.replica.until_caught_up_with(&world.primary);
    world.fail_over();
    until_admits(&world.one).await;
    until_admits(&world.other).await;
    until_admits(&idle).await;
    let begun = [&world.one, &world.other, &idle].map(|it| it.standing().unwrap().epochs_begun);
    assert_eq!(begun.iter().sum::<u64>(), 1, "{begun:?}");
    is_stale(&world.one, "5", 1).await;
    is_stale(&world.other, "900", 2).await;
    complete(&world.other, "third", "1:1", 2).await;
    let history = world.told("SELECT text FROM fencepost.history ORDER BY sequence");
    assert!(history.contains("lost nothing"), "{history}");
    // What was completed before is replayed.
    let again = c::fenced("first", "r-first", "1:2", InstanceId(1));
    let ruling = ask(&world.one, again).await.unwrap();
    assert!(matches!(ruling, Ruling::Replay { .. }), "{ruling:?}");
    let about = world.one.about().await.unwrap();
    assert_eq!(about.differences, [""; 0]);
    assert!(about.history[0].text.contains("lost nothing"), "{about:?}");
    assert!(
        about.facts.contains(&("timeline", "2".to_owned())),
        "{about:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fail_over_that_lost_commits_stops_all_until_it_is_accepted() {
    let mut world = World::new().await;
    world.replica.until_caught_up_with(&world.primary);
    world.replica.stop_receiving();
    complete(&world.one, "lost", "7", 1).await;
    world.fail_over();
    // Also the one that misses nothing itself.
    let why = until_closed(&world.other, "commits are missing").await;
    assert!(why.contains("accept-restored"), "{why}");
    until_closed(&world.one, "commits are missing").await;
    admits_nothing(&world.one, 1).await;
    admits_nothing(&world.other, 2).await;
    // Whoever comes new does not know better.
    let third = sidecar(world.url.clone(), 3).await;
    until_closed(&third, "commits are missing").await;
    let differences = third.about().await.unwrap().differences;
    assert!(
        differences[0].contains("writes 2") && differences[1].contains("commits are missing"),
        "{differences:?}"
    );
    assert_eq!(accepted(&world.url).await, 1);
    for (register, own) in [(&world.one, 1), (&world.other, 2), (&third, 3)] {
        until_admits(register).await;
        is_stale(register, "7", own).await;
        complete(register, &format!("after-{own}"), "1:1", own).await;
    }
    let clock = Clock::system().unwrap();
    let twice = accept_restored(&world.url, None, Millis(0), "alice", &clock).await;
    assert_eq!(twice.unwrap(), None);
}

/// Whoever died unnoticed before a fail-over may have committed what nobody knows of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_cannot_confirm_leaves_it_to_a_person() {
    let mut world = World::new().await;
    world.replica.until_caught_up_with(&world.primary);
    vanish(&world.other).await;
    world.fail_over();
    let other = InstanceId(2).to_string();
    let why = until_closed(&world.one, &other).await;
    assert!(why.contains("have not said"), "{why}");
    // Dead by now is not dead before.
    world.told("UPDATE fencepost.instances SET dead = true WHERE name LIKE '%2'");
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    admits_nothing(&world.one, 1).await;
    assert_eq!(accepted(&world.url).await, 1);
    until_admits(&world.one).await;
}

/// Evidence and a cancel are recorded where nothing is admitted; another fail-over may lose them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_recorded_while_nothing_was_admitted_is_missed_after_another_fail_over() {
    for loses in [true, false] {
        let mut world = World::new().await;
        let wire = Wire::to(world.primary.address());
        let (near, far) = (world.wire.address(), wire.address());
        let far = world.url.replace(&near.to_string(), &far.to_string());
        let far = sidecar(far, 3).await;
        let sent = c::admit("sent", InstanceId(1));
        let record = end_of(&sent);
        let ruling = ask(&world.one, sent).await.unwrap();
        assert!(matches!(ruling, Ruling::Granted(_)), "{ruling:?}");
        world.replica.until_caught_up_with(&world.primary);
        // It is away, and says nothing; so the others wait.
        wire.refuse();
        wire.cut();
        world.fail_over();
        until_closed(&world.one, &InstanceId(3).to_string()).await;

        let second = world.replica.replica();
        second.until_caught_up_with(&world.replica);
        if loses {
            second.stop_receiving();
        }
        world.one.apply(record).await.unwrap();
        let cancelled = world.one.apply(steer(Steering::Cancel)).await.unwrap();
        assert!(matches!(cancelled, Reply::Steered(_)), "{cancelled:?}");
        if !loses {
            second.until_caught_up_with(&world.replica);
        }
        world.replica.kill();
        second.promote();
        world.wire.lead_to(second.address());
        world.wire.cut();
        // It comes back, and misses nothing of its own.
        wire.lead_to(second.address());
        wire.accept();
        for (register, own) in [(&world.one, 1), (&world.other, 2), (&far, 3)] {
            if loses {
                until_closed(register, "while it could admit nothing").await;
                admits_nothing(register, own).await;
            } else {
                until_admits(register).await;
            }
        }
        let there = world.told("SELECT count(*) FROM fencepost.fences WHERE cancelled");
        assert_eq!(there == "1", !loses, "{there} cancelled");
    }
}

/// One whose death was declared before, by itself here, is known whole: the declaration came after all of its
/// commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dead_need_not_confirm() {
    let mut world = World::new().await;
    world.other.close().await.unwrap();
    world.replica.until_caught_up_with(&world.primary);
    world.fail_over();
    until_admits(&world.one).await;
    assert_eq!(world.one.standing().unwrap().epochs_begun, 1);
}

/// Nobody was running: nobody remembers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_witness_a_fail_over_needs_a_person() {
    let mut world = World::new().await;
    world.told("UPDATE fencepost.instances SET dead = true");
    world.replica.until_caught_up_with(&world.primary);
    world.one.close().await.unwrap();
    world.other.close().await.unwrap();
    world.fail_over();
    let third = sidecar(world.url.clone(), 3).await;
    until_closed(&third, "no instance that was there before").await;
    admits_nothing(&third, 3).await;
    assert_eq!(accepted(&world.url).await, 1);
    until_admits(&third).await;
    is_stale(&third, "5", 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_to_a_moment_before_is_noticed() {
    let primary = Postgres::start_with(&Settings::default().archiving());
    let wire = Wire::to(primary.address());
    let database = std::mem::ManuallyDrop::new(primary.database());
    let url = database.url_at(wire.address());
    let register = sidecar(url.clone(), 1).await;
    complete(&register, "kept", "5", 1).await;
    let backup = primary.backup();
    let point = primary.restore_point();
    complete(&register, "lost", "6", 1).await;
    let restored = backup.restored_to(&point);
    wire.lead_to(restored.address());
    wire.cut();
    until_closed(&register, "commits are missing").await;
    admits_nothing(&register, 1).await;
    assert_eq!(accepted(&url).await, 1);
    until_admits(&register).await;
    is_stale(&register, "6", 1).await;
}

/// The disk of before under the same server: its timeline does not tell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_of_the_disk_that_was_put_back_is_noticed() {
    let primary = Postgres::start();
    let wire = Wire::to(primary.address());
    let database = std::mem::ManuallyDrop::new(primary.database());
    let url = database.url_at(wire.address());
    let register = sidecar(url.clone(), 1).await;
    complete(&register, "kept", "5", 1).await;
    // As a snapshot would: what is committed from now on never happened.
    let before = database.query("SELECT position FROM fencepost.instances");
    complete(&register, "lost", "6", 1).await;
    database.query(&format!(
        "UPDATE fencepost.instances SET position = {before}"
    ));
    let error = ask(&register, c::admit("next", InstanceId(1)))
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    until_closed(&register, "commits are missing").await;
    assert_eq!(register.about().await.unwrap().differences.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_on_another_server_is_refused() {
    let primary = Postgres::start_with(&Settings::default().of_its_own_identity());
    let database = primary.database();
    let register = sidecar(database.url(), 1).await;
    complete(&register, "kept", "5", 1).await;
    register.close().await.unwrap();
    // As pg_dump and pg_restore would leave it.
    database.query("UPDATE fencepost.ground SET system = system + 1");
    let copy = sidecar(database.url(), 2).await;
    until_closed(&copy, "it was copied").await;
    admits_nothing(&copy, 2).await;
    assert_eq!(accepted(&database.url()).await, 1);
    until_admits(&copy).await;
    is_stale(&copy, "5", 2).await;
}

/// Nothing is admitted before what was under way must have ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_acceptance_there_is_quiet() {
    let primary = Postgres::start();
    let database = primary.database();
    let register = sidecar(database.url(), 1).await;
    database.query("SELECT fencepost.close_1('for a test', 0, 0)");
    until_closed(&register, "for a test").await;
    let clock = Clock::system().unwrap();
    let quiet = Millis(2_000);
    let begun = clock.boottime();
    let accepted = accept_restored(&database.url(), None, quiet, "alice", &clock).await;
    assert_eq!(accepted.unwrap().unwrap().epoch, 1);
    until_closed(&register, "accepted by alice").await;
    admits_nothing(&register, 1).await;
    until_admits(&register).await;
    assert!(clock.boottime().since(begun) >= quiet);
}
