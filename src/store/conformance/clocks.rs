//! What time does to what is stored (contract §8): suspend, a wall clock that is set, another boot.
//!
//! What always holds: within a boot only the clock that counts suspend decides; beyond one, a moment of
//! before is past, and a key is as old as the oldest clock says, or too old where no clock can say.

use super::Subject;
use super::commands::{self as c, again, interrupted};
use super::scenarios::{admit_free, granted, own, record, rule};
use crate::clock::Manual;
use crate::protocol::command::{Admit, Resend, Ruling};
use crate::protocol::operation::Parked;
use crate::protocol::time::Millis;
use crate::store::Resent;

const HOUR: u64 = 3_600_000;
/// Longer than any life of a key here.
const YEAR: i64 = 365 * 24 * 3_600_000;

fn clock() -> Manual {
    Manual::at(c::at(0))
}

/// A repeat at this moment: is the attempt still taken to be under way?
async fn is_in_flight(subject: &Subject, first: &Admit, manual: &Manual) -> bool {
    let repeat = Admit {
        at: manual.now(),
        ..again(first)
    };
    match rule(subject, repeat).await {
        Ruling::Join { uncertain, .. } => !uncertain,
        other => panic!("{other:?}"),
    }
}

/// C17.
pub(super) async fn a_suspended_machine_makes_an_intent_overdue(subject: Subject) {
    let manual = clock();
    let first = admit_free("a", own(&subject));
    drop(granted(&subject, &first).await);
    let overdue_after = first.policy.timeouts.overdue_after();
    manual.pass(overdue_after);
    assert!(is_in_flight(&subject, &first, &manual).await);
    manual.pass(Millis(1));
    assert!(!is_in_flight(&subject, &first, &manual).await);
}

pub(super) async fn a_wall_clock_that_is_set_makes_no_intent_overdue(subject: Subject) {
    let manual = clock();
    let first = admit_free("a", own(&subject));
    drop(granted(&subject, &first).await);
    for step in [YEAR, -2 * YEAR] {
        manual.step_wall(step);
        assert!(is_in_flight(&subject, &first, &manual).await);
    }
}

/// Whatever its clocks say: nobody of before the boot is still at work.
pub(super) async fn another_boot_counts_as_past(mut subject: Subject) {
    let manual = clock();
    let instance = own(&subject);
    let first = admit_free("a", instance);
    drop(granted(&subject, &first).await);
    subject.restart_as(instance).await;
    assert!(is_in_flight(&subject, &first, &manual).await);
    manual.reboot(Millis(0));
    assert!(!is_in_flight(&subject, &first, &manual).await);
}

/// The attempt was made at the beginning of time; its key lives for a day, of which four fifths count.
async fn resent(subject: &Subject, manual: &Manual) -> Resent {
    let key = c::key("a");
    let resend = Resend {
        at: manual.now(),
        ..c::resend(&key, own(subject))
    };
    subject.register().resend(resend).await.unwrap()
}

async fn uncertain(subject: &Subject) -> Manual {
    let permit = granted(subject, &admit_free("a", own(subject))).await;
    record(subject, permit, interrupted()).await;
    clock()
}

fn is_too_old(resent: &Resent) -> bool {
    matches!(resent, Resent::Forbidden(Parked::KeyTooOld))
}

pub(super) async fn a_key_grows_old_while_the_machine_sleeps(subject: Subject) {
    let manual = uncertain(&subject).await;
    manual.pass(Millis(20 * HOUR));
    // The wall clock cannot make it younger.
    manual.step_wall(-YEAR);
    assert!(is_too_old(&resent(&subject, &manual).await));
}

/// What is left of the lifetime bounds the dispatch; and it is left, or not, by the older clock.
pub(super) async fn a_key_is_as_old_as_the_older_clock_says(subject: Subject) {
    let manual = uncertain(&subject).await;
    manual.step_wall(20 * 3_600_000);
    assert!(is_too_old(&resent(&subject, &manual).await));
    manual.step_wall(-20 * 3_600_000);
    let lifetime = Millis(24 * HOUR).percent(80);
    manual.pass(Millis(lifetime.0 - 2));
    let Resent::Granted(permit) = resent(&subject, &manual).await else {
        panic!("not granted");
    };
    let room = permit.dispatch_by().since(manual.now().boottime);
    assert_eq!(room, Millis(2));
}

pub(super) async fn beyond_a_boot_a_key_is_dated_by_the_wall_clock(mut subject: Subject) {
    let manual = uncertain(&subject).await;
    manual.pass(Millis(HOUR));
    manual.reboot(Millis(HOUR));
    subject.restart().await;
    assert!(matches!(
        resent(&subject, &manual).await,
        Resent::Granted(_)
    ));
}

/// It came up with a clock of before: nobody knows how old the key is.
pub(super) async fn beyond_a_boot_a_clock_that_went_back_ends_a_key(mut subject: Subject) {
    let manual = uncertain(&subject).await;
    manual.pass(Millis(HOUR));
    manual.reboot(Millis(HOUR));
    manual.step_wall(-3 * 3_600_000);
    subject.restart().await;
    assert!(is_too_old(&resent(&subject, &manual).await));
}
