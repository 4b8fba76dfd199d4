//! Signs of life, declarations, and what is left to whoever thaws.

use super::*;
use crate::protocol::operation::Effect;
use crate::store::conformance::settling;
use crate::store::{Backend, OperationQuery, StoreError, Voiding};

fn beats(database: &Database, of: InstanceId) -> i64 {
    let id = format!("{:032x}", of.0);
    let sql = format!("SELECT beat FROM fencepost.instances WHERE id = '\\x{id}'");
    database.query(&sql).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_instance_carried_that_froze_is_uncertain_once_it_is_declared_dead() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let b = join(&database, B, SOON).await;
    let admit = c::admit("a", A);
    let _permit = a.granted(&admit).await;
    assert!(b.sees_in_flight(&admit, c::at(1)).await);
    a.freeze().await;
    until("it is declared dead", async || b.takes_for_dead(A)).await;
    assert!(!b.sees_in_flight(&admit, c::at(1)).await);
    // Whoever comes now knows it from the start.
    let late = join(&database, C, LONG).await;
    assert!(late.takes_for_dead(A));
    assert!(!late.takes_for_dead(B));
}

/// However slow a listing is, and however many are asked for: who would wait for them is taken for dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sign_of_life_waits_for_no_listing() {
    let database = database();
    let a = join(&database, A, LONG).await;
    a.carry_out(&c::admit("a", A), c::applied()).await;
    let slow = a.backend.connector.connect().await.unwrap();
    let lock = "BEGIN; LOCK TABLE fencepost.operations, fencepost.fences IN ACCESS EXCLUSIVE MODE";
    slow.script(lock).await.unwrap();
    let mut listings = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let (one, two, three) = (a.backend.clone(), a.backend.clone(), a.backend.clone());
        let all = OperationQuery {
            limit: 1,
            ..OperationQuery::default()
        };
        listings.spawn(async move { one.operations(&all).await.is_ok() });
        listings.spawn(async move { two.resources(None, 1).await.is_ok() });
        listings.spawn(async move { three.summary().await.is_ok() });
    }
    let waiting = "SELECT count(*) > 0 FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND datname = current_database()";
    until("one waits", async || database.query(waiting) == "t").await;
    let before = beats(&database, A);
    for _ in 0..3 {
        let beat = tokio::time::timeout(Duration::from_secs(4), a.beat());
        beat.await.expect("it waits for a listing");
    }
    assert_eq!(beats(&database, A), before + 3);
    slow.script("ROLLBACK").await.unwrap();
    assert_eq!(listings.join_all().await, [true; 6]);
}

/// Its transactions are signs of life.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_commits_needs_no_beat() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let b = join(&database, B, SOON).await;
    a.freeze().await;
    let begun = beats(&database, B);
    let mut number = 0;
    // Three times as long as it takes to be dead.
    while beats(&database, B) < begun + 21 {
        a.carry_out(&c::admit(&format!("{number}"), A), c::applied())
            .await;
        number += 1;
        assert!(!b.takes_for_dead(A));
    }
    until("it has done nothing for long", async || b.takes_for_dead(A)).await;
}

/// Contract §3 and §8: what a thawed owner knows is late evidence; it admits nothing under its old name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_thaws_is_heard_admits_nothing_and_goes_on_as_another() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let b = join(&database, B, SOON).await;
    let (first, second) = (c::admit("first", A), c::admit("second", A));
    let permit = a.granted(&first).await;
    let _other = a.granted(&second).await;
    a.freeze().await;
    until("it is declared dead", async || b.takes_for_dead(A)).await;

    let refused = a.register.admit(c::admit("third", A)).await;
    assert!(
        matches!(refused, Err(StoreError::Unavailable(_))),
        "{refused:?}"
    );
    let receipt = permit.finish(c::applied());
    let recorded = a.register.record(&receipt, c::at(900)).await.unwrap();
    assert_eq!(recorded.effect, Effect::Changed);
    assert_eq!(b.state("first").await, "COMPLETED");

    a.beat().await;
    let now = a.register.instance();
    assert_ne!(now, A);
    a.carry_out(&c::admit("third", now), c::applied()).await;
    // An attempt that was asked for before is made by nobody.
    let stale = a.register.admit(c::admit("fourth", A)).await;
    assert!(
        matches!(stale, Err(StoreError::Unavailable(_))),
        "{stale:?}"
    );
    // It still knows what it began, and the others still do not wait for it.
    assert!(a.sees_in_flight(&second, c::at(1)).await);
    assert!(!b.sees_in_flight(&second, c::at(1)).await);
    b.beat().await;
    assert!(!b.takes_for_dead(now));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_stops_in_order_leaves_at_once() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let b = join(&database, B, LONG).await;
    let admit = c::admit("a", A);
    let _permit = a.granted(&admit).await;
    a.register.read().close().await.unwrap();
    assert!(b.sees_in_flight(&admit, c::at(1)).await);
    b.beat().await;
    assert!(!b.sees_in_flight(&admit, c::at(1)).await);
}

/// The drain ran out, and what was sent may still arrive: nobody acts on its operations at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_stops_before_its_attempts_have_ended_does_not_leave() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let b = join(&database, B, LONG).await;
    let admit = c::admit("a", A);
    let _permit = a.granted(&admit).await;
    a.register.read().outlived_by_attempts();
    a.register.read().close().await.unwrap();
    b.beat().await;
    assert!(b.sees_in_flight(&admit, c::at(1)).await);
    assert!(!b.takes_for_dead(A));
}

/// The declaration is guarded: whatever it did since it was looked at outruns it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declaration_comes_too_late_for_whoever_has_moved() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let declare = |beat: i64, position: i64| {
        let id = format!("{:032x}", A.0);
        let sql = format!(
            "SELECT count(*) FROM fencepost.declare_1(ARRAY['\\x{id}'::bytea], ARRAY[{beat}::bigint],
             ARRAY[{position}::bigint])"
        );
        database.query(&sql)
    };
    a.freeze().await;
    let beat = beats(&database, A);
    a.carry_out(&c::admit("a", A), c::applied()).await;
    assert_eq!(declare(beat, 0), "0");
    assert_eq!(declare(beat, 2), "1");
}

/// The graves of those who left nothing are cleared in time; those who left something keep theirs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_long_dead_are_forgotten_unless_something_of_theirs_is_unsettled() {
    let database = database();
    let a = join(&database, A, LONG).await;
    a.carry_out(&c::admit("a", A), c::applied()).await;
    a.register.read().close().await.unwrap();
    let b = join(&database, B, LONG).await;
    let _left = b.granted(&c::admit("b", B)).await;
    b.register.read().close().await.unwrap();
    let clock = machine(1);
    let late = join_with(&database, C, LONG, clock.clock()).await;
    let there = || database.query("SELECT count(*) FROM fencepost.instances");
    late.beat().await;
    assert_eq!(there(), "3");
    clock.pass(Millis(HOUR + 1));
    late.beat().await;
    assert_eq!(there(), "2");
    late.beat().await;
    assert!(
        late.takes_for_dead(B) && !late.takes_for_dead(A),
        "forgotten"
    );
}

/// Whoever undoes it is who carries it then: an undo of one that nobody knew any more would be taken for the undo of
/// somebody who may still come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_died_undoing_keeps_his_grave_until_it_is_settled() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let lost = settling::settled_so("a", A);
    a.carry_out(&lost, c::interrupted()).await;
    let b = join(&database, B, LONG).await;
    let begin = settling::begin_void(&lost.key, B, c::at(2_000));
    let begun = b.register.begin_void(begin).await.unwrap();
    assert!(matches!(begun, Voiding::Granted(_)));
    a.register.read().close().await.unwrap();
    b.register.read().close().await.unwrap();
    let clock = machine(1);
    let late = join_with(&database, C, LONG, clock.clock()).await;
    late.beat().await;
    clock.pass(Millis(HOUR + 1));
    late.beat().await;
    late.beat().await;
    assert!(
        late.takes_for_dead(B) && !late.takes_for_dead(A),
        "forgotten"
    );
}

/// It is asked for every few seconds, with little patience.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_epoch_is_told_beside_every_listing() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let _turn = a.backend.reader.listing.lock().await;
    database.query("UPDATE fencepost.register SET epoch = 7");
    assert_eq!(a.register.read().epoch().await.unwrap(), 7);
    // A turn that does not come is not waited for without end.
    let told = a.register.read().summary().await.unwrap_err().to_string();
    assert!(told.contains("others list"), "{told}");
}
