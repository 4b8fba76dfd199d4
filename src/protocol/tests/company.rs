//! Those who share a register: who lives, and what is past on another machine.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::protocol::company::Company;
use crate::protocol::operation::{Attempt, AttemptEnd};

const OTHER: InstanceId = InstanceId(77);
const LIMIT: Millis = Millis(5_000);

fn at(boot: u128, ms: u64) -> Moment {
    Moment {
        boot: BootId(boot),
        boottime: BootInstant(ms),
        wall_ms: ms,
    }
}

/// An operation with one silent attempt, admitted by that instance.
fn operation(instance: InstanceId, at: Moment) -> Operation {
    let mut world = World::new();
    let grant = world.granted(&Ask::plain("a"));
    let mut operation = world.operations[&grant.key].clone();
    let attempt = operation.attempts.first_mut().unwrap();
    attempt.id.instance = instance;
    attempt.at = at;
    attempt.overdue_after = LIMIT;
    operation
}

fn live(company: &Company, operation: &Operation, now: Moment) -> bool {
    operation.has_live_attempt(&Living::Among(Arc::new(company.clone())), &now)
}

#[test]
fn within_a_boot_the_one_clock_decides() {
    let company = Company::of(OWN);
    let operation = operation(OTHER, at(1, 1_000));
    assert!(!company.is_unseen(&operation, &at(1, 2_000)));
    assert!(live(&company, &operation, at(1, 6_000)));
    assert!(!live(&company, &operation, at(1, 6_001)));
}

/// Its own clock may show anything.
#[test]
fn an_attempt_of_another_machine_is_overdue_by_its_first_sight_alone() {
    let mut company = Company::of(OWN);
    for clock in [0, 1_000, u64::MAX] {
        let operation = operation(OTHER, at(2, clock));
        assert!(live(&company, &operation, at(1, 900_000)), "never seen");
    }
    let operation = operation(OTHER, at(2, 1_000));
    assert!(company.is_unseen(&operation, &at(1, 100_000)));
    company.see(&operation, &at(1, 100_000));
    // A second sight is no first one.
    company.see(&operation, &at(1, 104_000));
    assert!(live(&company, &operation, at(1, 105_000)));
    assert!(!live(&company, &operation, at(1, 105_001)));
}

#[test]
fn an_own_attempt_of_before_the_boot_is_past() {
    let company = Company::of(OWN);
    assert!(!live(&company, &operation(OWN, at(2, 1_000)), at(1, 1_000)));
}

#[test]
fn nobody_is_dead_before_he_is_declared_so() {
    let mut company = Company::of(OWN);
    let operation = operation(OTHER, at(1, 1_000));
    assert!(
        live(&company, &operation, at(1, 1_000)),
        "unknown, not dead"
    );
    company.bury(BTreeSet::from([OTHER]));
    assert!(!live(&company, &operation, at(1, 1_000)));
    company.bury(BTreeSet::new());
    assert!(live(&company, &operation, at(1, 1_000)));
}

/// What it began under the id that others declared dead it still knows itself.
#[test]
fn a_process_that_goes_on_under_another_id_knows_what_it_began() {
    let mut company = Company::of(OWN);
    company.go_on_as(OTHER);
    company.bury(BTreeSet::from([OWN]));
    let mut operation = operation(OWN, at(1, 1_000));
    assert!(live(&company, &operation, at(1, 1_000)));
    assert!(!live(&company, &operation, at(1, 6_001)));
    operation.attempts[0].id.instance = OTHER;
    assert!(live(&company, &operation, at(1, 1_000)));
}

/// What was not seen is not overdue.
#[test]
fn where_there_is_no_room_for_a_sight_it_waits() {
    let mut company = Company::of(OWN);
    let mut operation = operation(OTHER, at(2, 0));
    let first: Attempt = operation.attempts[0].clone();
    operation.attempts = (0..9_000)
        .map(|number| {
            let mut attempt = first.clone();
            attempt.id.number = number;
            attempt
        })
        .collect();
    company.see(&operation, &at(1, 0));
    operation.attempts.drain(..8_999);
    assert!(company.is_unseen(&operation, &at(1, 6_000)));
    assert!(live(&company, &operation, at(1, 6_000)));
    company.see(&operation, &at(1, 3_600_001));
    assert!(!company.is_unseen(&operation, &at(1, 3_600_001)));
    operation.attempts[0].end = AttemptEnd::Ambiguous(500);
    assert!(!Company::of(OWN).is_unseen(&operation, &at(1, 0)));
}
