//! Who looks at what: the own, a share of what the dead left, and what nobody seems to carry; and when an
//! attempt of another machine is overdue.

use std::collections::BTreeSet;

use super::*;
use crate::protocol::share::{self, TURN};
use crate::store::age::Lived;

/// Left just now, by the clock of whoever is to look at it: nothing of it was forsaken long ago.
async fn leave_many(party: &Party, instance: InstanceId, now: Moment) {
    for number in 0..30 {
        let admit = Admit {
            at: now,
            ..c::admit(&format!("{number}"), instance)
        };
        party.carry_out(&admit, c::interrupted()).await;
    }
}

/// C17: by the own clock alone, however the other machine's is set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_on_another_machine_is_overdue_by_the_own_clock_from_its_first_sight() {
    let database = database();
    let (here, there) = (machine(1), machine(2));
    let a = join_with(&database, A, LONG, there.clock()).await;
    let b = join_with(&database, B, LONG, here.clock()).await;
    let admit = Admit {
        at: there.now(),
        ..c::admit("a", A)
    };
    let _permit = a.granted(&admit).await;
    let overdue_after = admit.policy.timeouts.overdue_after();
    here.pass(Millis(overdue_after.0 * 2));
    assert!(b.sees_in_flight(&admit, here.now()).await, "first seen now");
    here.pass(overdue_after);
    assert!(b.sees_in_flight(&admit, here.now()).await);
    here.pass(Millis(1));
    assert!(!b.sees_in_flight(&admit, here.now()).await);
    // Where it was made, its own time counts.
    assert!(a.sees_in_flight(&admit, there.now()).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_living_instance_carries_is_left_to_it_and_what_a_dead_one_left_is_shared() {
    let database = database();
    let (clock, other) = (machine(1), machine(1));
    let a = join(&database, A, LONG).await;
    let b = join_with(&database, B, LONG, clock.clock()).await;
    let c = join_with(&database, C, LONG, other.clock()).await;
    leave_many(&a, A, clock.now()).await;
    let all: BTreeSet<_> = (0..30).map(|number| number.to_string()).collect();
    assert_eq!(BTreeSet::from_iter(a.in_doubt().await), all);
    assert_eq!(b.in_doubt().await, Vec::<String>::new());

    a.register.read().close().await.unwrap();
    b.beat().await;
    c.beat().await;
    let (of_b, of_c) = (b.in_doubt().await, c.in_doubt().await);
    assert!(!of_b.is_empty() && !of_c.is_empty());
    assert_eq!(
        of_b.len() + of_c.len(),
        all.len(),
        "nobody takes another's share"
    );
    let both: BTreeSet<_> = of_b.iter().chain(&of_c).cloned().collect();
    assert_eq!(both, all);
    // The other does not come to it: after a while, everything is for whoever does.
    clock.pass(TURN);
    assert_eq!(BTreeSet::from_iter(b.in_doubt().await), all);
}

/// Somebody here waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_asked_settles_what_is_left_to_all_but_nothing_of_the_living() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let clock = machine(3);
    let b = join_with(&database, B, LONG, clock.clock()).await;
    leave_many(&a, A, clock.now()).await;
    let operation = async |id: &str| {
        let found = b.register.read().operation(&c::key(id), false).await;
        found.unwrap().unwrap().operation
    };
    assert!(!b.register.read().may_settle(&operation("7").await));
    assert!(a.register.read().may_settle(&operation("7").await));
    a.register.read().close().await.unwrap();
    b.beat().await;
    for number in 0..30 {
        let left = operation(&number.to_string()).await;
        assert!(b.register.read().may_settle(&left), "{number}");
    }
}

/// Its owner lives and does nothing about it: it may not have its upstream any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_not_changed_for_long_is_found_by_one_of_all_now_and_then() {
    let database = database();
    let clock = machine(1);
    let a = join_with(&database, A, LONG, clock.clock()).await;
    let (b, c) = (
        join_with(&database, B, LONG, clock.clock()).await,
        join_with(&database, C, LONG, clock.clock()).await,
    );
    for party in [&a, &b, &c] {
        party.beat().await;
    }
    let admit = Admit {
        at: clock.now(),
        ..c::admit("a", A)
    };
    a.carry_out(&admit, c::interrupted()).await;
    let found = async |party: &Party| party.in_doubt().await.len();
    assert_eq!([found(&b).await, found(&c).await], [0, 0]);
    // Longer than any attempt of it would have listened.
    clock.pass(Millis(HOUR));
    let turn = u128::from(b.backend.shared.lived().since(Lived::default()).0 / 600_000);
    let all = [A, B, C];
    let warden = all.into_iter().find(|it| share::is_first(*it, &all, turn));
    let expected = [B, C].map(|it| usize::from(warden == Some(it)));
    assert_eq!([found(&b).await, found(&c).await], expected);
    clock.pass(Millis(30_000));
    assert_eq!(
        [found(&b).await, found(&c).await],
        [0, 0],
        "not all the time"
    );
    assert_eq!(found(&a).await, 1, "its owner always");
}
