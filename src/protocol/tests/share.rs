//! Shares: everybody comes to the same order, and each gets about as much.

use crate::protocol::ids::InstanceId;
use crate::protocol::share::{TURN, is_due, is_first};
use crate::protocol::time::Millis;

fn many(count: u128) -> Vec<InstanceId> {
    // As random as ids are, and the same in every run.
    let odd = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835_u128;
    (1..=count)
        .map(|number| InstanceId(number.wrapping_mul(odd)))
        .collect()
}

fn taker(all: &[InstanceId], thing: u128) -> InstanceId {
    let firsts: Vec<_> = all
        .iter()
        .filter(|own| is_first(**own, all, thing))
        .collect();
    assert_eq!(firsts.len(), 1, "exactly one is the first");
    *firsts[0]
}

#[test]
fn each_takes_about_as_much() {
    let all = many(20);
    let mut taken = vec![0; all.len()];
    for thing in 0..4_000 {
        let taker = taker(&all, thing);
        taken[all.iter().position(|it| *it == taker).unwrap()] += 1;
    }
    assert!(taken.iter().all(|it| (120..=280).contains(it)), "{taken:?}");
}

#[test]
fn when_one_goes_only_his_share_changes_hands() {
    let all = many(10);
    let (gone, left) = all.split_first().unwrap();
    for thing in 0..500 {
        let before = taker(&all, thing);
        if before != *gone {
            assert_eq!(taker(left, thing), before);
        }
    }
}

#[test]
fn the_next_one_is_due_a_turn_later() {
    let all = many(500);
    let due = |waited| {
        let due = all
            .iter()
            .filter(|own| is_due(**own, &all, 7, Millis(waited)));
        due.count()
    };
    assert_eq!(due(0), 1);
    assert_eq!(due(TURN.0 - 1), 1);
    assert_eq!(due(TURN.0), 2);
    assert_eq!(due(500 * TURN.0), 500);
}

#[test]
fn who_sees_nobody_else_takes_everything() {
    assert!(is_first(InstanceId(5), &[], 1));
    assert!(is_first(InstanceId(5), &[InstanceId(5)], 1));
}
