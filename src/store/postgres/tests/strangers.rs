//! Instances of a tenant that starts no sidecar again: declared dead by another tenant's, who may do nothing else to
//! them.

use super::ground::FAIL_OVER;
use super::restored::{admits_nothing, until_admits, until_closed};
use super::*;
use crate::protocol::ids::Tenant;
use crate::store::Backend;

const ANOTHER: &str = "another";

async fn join_another(database: &Database, instance: InstanceId, dead_after: Millis) -> Party {
    let options = Options {
        name: "secret-name".to_owned(),
        ..options(database.url(), ANOTHER, dead_after)
    };
    Party::of(open(options, owner(instance)).await.unwrap().backend)
}

fn of_another(admit: Admit) -> Admit {
    let mut admit = admit;
    admit.key.tenant = Tenant::new(ANOTHER);
    admit
}

/// Killed: it says nothing to anybody.
async fn kill(party: &Party) {
    party.freeze().await;
    let mut work = std::mem::take(&mut *party.backend.work.lock().unwrap());
    work.shutdown().await;
}

fn is_dead(database: &Database, of: InstanceId) -> bool {
    let id = format!("{:032x}", of.0);
    database.query(&format!(
        "SELECT dead FROM fencepost.instances WHERE id = '\\x{id}'"
    )) == "t"
}

/// Says that it has done nothing since it was as it is there now. Answers how many are declared dead.
fn bury(database: &Database, of: InstanceId) -> String {
    let id = format!("{:032x}", of.0);
    database.query(&format!(
        "SELECT count(b) FROM fencepost.instances i, LATERAL fencepost.bury_1(ARRAY[i.id], ARRAY[i.beat],
         ARRAY[i.position]) b WHERE i.id = '\\x{id}'"
    ))
}

/// As if somebody had said so an hour ago.
fn let_pass(database: &Database) {
    database.query("UPDATE fencepost.silences SET since = since - interval '61 minutes'");
}

/// Otherwise everybody would wait for it after the next fail-over, for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_tenant_left_that_starts_none_again_is_declared_dead_by_another() {
    let database = database();
    let gone = join_another(&database, A, SOON).await;
    let left = of_another(c::admit("left", A));
    let _permit = gone.granted(&left).await;
    let b = join(&database, B, SOON).await;
    kill(&gone).await;
    until("it is declared dead", async || is_dead(&database, A)).await;
    // What it left is not for whoever said so,
    assert_eq!(b.in_doubt().await, Vec::<String>::new());
    assert!(!b.backend.shared.others().dead.contains_key(&A));
    // but for its own tenant, when that comes.
    let late = join_another(&database, C, LONG).await;
    assert!(late.takes_for_dead(A));
    assert_eq!(late.in_doubt().await, ["left"]);
    kill(&late).await;
    database.query("UPDATE fencepost.instances SET dead = true WHERE tenant = 'another'");
    database.query(FAIL_OVER);
    b.beat().await;
    until_admits(&b.backend).await;
    assert_eq!(b.backend.standing().unwrap().epochs_begun, 1);
}

/// Its limit is as long as a turn: whoever has just come to it has looked before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_is_longer_than_a_turn_passes_all_the_same() {
    let database = database();
    let gone = join_another(&database, C, LONG).await;
    let clock = machine(7);
    let b = join_with(&database, B, LONG, clock.clock()).await;
    let other = join_with(&database, A, LONG, clock.clock()).await;
    for party in [&gone, &b, &other] {
        party.freeze().await;
    }
    let (mut life, mut others) = (b.life(), other.life());
    let said = "SELECT count(*) FROM fencepost.silences";
    let mut turns = Vec::new();
    // It looks, and others do what is to be done, until its turn has come.
    while turns.len() < 200 {
        for life in [&mut others, &mut life] {
            life.beat().await.unwrap();
        }
        let is_turn = b.backend.shared.is_warden();
        turns.push(is_turn);
        let looked = turns.len() > 12;
        if looked && is_turn && !turns[turns.len() - 2] {
            assert_eq!(database.query(said), "1", "{turns:?}");
            return;
        }
        database.query("DELETE FROM fencepost.silences");
        clock.pass(Millis(110_000));
    }
    panic!("its turn never came: {turns:?}");
}

/// By its own limit, however impatient others are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_tenants_instance_is_waited_for_as_long_as_it_has_told() {
    let database = database();
    let patient = join_another(&database, A, LONG).await;
    let hasty = join_another(&database, C, SOON).await;
    let b = join(&database, B, SOON).await;
    kill(&patient).await;
    kill(&hasty).await;
    until("the hasty one is declared dead", async || {
        is_dead(&database, C)
    })
    .await;
    assert!(!is_dead(&database, A));
    let said = format!(
        "SELECT count(*) FROM fencepost.silences WHERE instance = '\\x{:032x}'",
        A.0
    );
    assert_eq!(database.query(&said), "0", "nobody has said so");
    // Nor does the database believe it earlier.
    assert_eq!(bury(&database, A), "0");
    database.query("UPDATE fencepost.silences SET since = since - interval '9 minutes'");
    assert_eq!(bury(&database, A), "0");
    database.query("UPDATE fencepost.silences SET since = since - interval '1 minutes'");
    assert_eq!(bury(&database, A), "1");
    b.register.read().close().await.unwrap();
}

/// A credential that says so of somebody who lives: whatever he does outruns it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_who_lives_is_declared_dead_by_saying_so() {
    let database = database();
    let a = join(&database, A, LONG).await;
    a.beat().await;
    assert_eq!([bury(&database, A), bury(&database, A)], ["0", "0"]);
    let_pass(&database);
    a.beat().await;
    assert_eq!(bury(&database, A), "0");
    let_pass(&database);
    a.carry_out(&c::admit("a", A), c::applied()).await;
    assert_eq!(bury(&database, A), "0");
    // What it had done by then is not what it has done.
    let_pass(&database);
    database.query("UPDATE fencepost.silences SET beat = beat - 1");
    assert_eq!(bury(&database, A), "0");
    // A clock that went back makes it wait again.
    let_pass(&database);
    database.query("UPDATE fencepost.silences SET since = since + interval '2 hours'");
    assert_eq!(bury(&database, A), "0");
    let again = "SELECT since <= clock_timestamp() FROM fencepost.silences";
    assert_eq!(database.query(again), "t");
    let_pass(&database);
    let held = "UPDATE fencepost.instances SET beat = beat";
    assert_eq!(bury_beside(&database, held), "0", "it is just writing");
    assert!(!is_dead(&database, A));
}

/// A role that holds whatever lock it can, or says that it is on the server that the register was copied from.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_keeps_others_from_declaring_or_has_it_done_on_a_copy() {
    let database = database();
    let a = join(&database, A, LONG).await;
    kill(&a).await;
    assert_eq!(bury(&database, A), "0");
    let_pass(&database);
    database.query("UPDATE fencepost.ground SET system = system + 1");
    let id = format!("{:032x}", A.0);
    let pretending = format!(
        "SELECT set_config('fencepost.system', (SELECT g.system::text FROM fencepost.ground g), false);
         SELECT count(*) FROM fencepost.strangers_1('x');
         SELECT count(b) FROM fencepost.instances i, LATERAL fencepost.bury_1(ARRAY[i.id], ARRAY[i.beat],
         ARRAY[i.position]) b WHERE i.id = '\\x{id}'"
    );
    let told = database.query(&pretending);
    assert_eq!(told.lines().skip(1).collect::<Vec<_>>(), ["0", "0"]);
    assert!(!is_dead(&database, A));
    database.query("UPDATE fencepost.ground SET system = system - 1");
    let held = "SELECT pg_advisory_lock(5064650310776221557)";
    assert_eq!(bury_beside(&database, held), "1");
}

/// While another transaction has done that.
fn bury_beside(database: &Database, held: &str) -> String {
    let (url, held) = (database.url(), held.to_owned());
    let holder = std::thread::spawn(move || {
        let sql = format!("BEGIN; {held}; SELECT pg_sleep(3); ROLLBACK");
        super::super::servers::psql(&url, &sql).unwrap();
    });
    let sleeping = "SELECT count(*) FROM pg_stat_activity
        WHERE wait_event = 'PgSleep' AND datname = current_database()";
    super::super::servers::waiting::until("it holds the row", || database.query(sleeping) == "1");
    let buried = bury(database, A);
    assert_eq!(database.query(sleeping), "1", "it held the row meanwhile");
    holder.join().unwrap();
    buried
}

/// The clocks of the database and of whoever says so leapt together: it is a right to settle and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_was_declared_dead_by_mistake_goes_on() {
    let database = database();
    let a = join(&database, A, LONG).await;
    a.freeze().await;
    let admit = c::admit("a", A);
    let permit = a.granted(&admit).await;
    assert_eq!(bury(&database, A), "0");
    let_pass(&database);
    assert_eq!(bury(&database, A), "1");
    let receipt = permit.finish(c::applied());
    a.register.record(&receipt, c::at(900)).await.unwrap();
    assert_eq!(a.state("a").await, "COMPLETED");
    a.beat().await;
    let now = a.register.instance();
    assert_ne!(now, A);
    a.carry_out(&c::admit("b", now), c::applied()).await;
    assert!(!is_dead(&database, now));
}

/// On another timeline that would be said without what it did last, and nobody would ask it any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_register_does_not_stand_nobody_is_declared_dead_by_others() {
    let database = database();
    let gone = join_another(&database, A, SOON).await;
    let b = join(&database, B, SOON).await;
    kill(&gone).await;
    database.query(FAIL_OVER);
    until_closed(&b.backend, &A.to_string()).await;
    assert_eq!(bury(&database, A), "0");
    let_pass(&database);
    assert_eq!(bury(&database, A), "0");
    assert!(!is_dead(&database, A));
    admits_nothing(&b.backend, B.0).await;
    // A person is told whom it is waited for, and what to type; no name of another tenant's.
    let about = b.backend.about().await.unwrap();
    let told = about.differences.join("\n");
    for part in [
        &A.to_string(),
        "of 1 tenants",
        "of another tenant",
        "accept-restored",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("secret-name"), "{told}");
    let others = "1: 1 sidecars take part, 0 were declared dead".to_owned();
    assert!(
        about.facts.contains(&("other tenants", others)),
        "{about:?}"
    );
}
