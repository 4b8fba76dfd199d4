//! The life of a claim, turn by turn.
//!
//! What always holds: after every step the claim is looked up as the proxy looks it up.

mod proof;
mod stage;

use super::*;
use stage::*;

#[tokio::test]
async fn nothing_is_asked_for_before_the_worker_is_alive() {
    let mut bench = Bench::new();
    bench.pass(TTL).await;
    assert!(bench.is_not_yet());
    assert_eq!(bench.source.is().acquisitions, 0);
    bench.alive("first");
    bench.pass(EVERY).await;
    assert_eq!(bench.generation().as_deref(), Some("1"));
}

#[tokio::test]
async fn a_lease_lasts_while_the_worker_is_seen_and_no_longer() {
    let mut bench = Bench::owning().await;
    bench.pass(Millis(TTL.0 * 10)).await;
    assert_eq!(bench.generation().as_deref(), Some("1"));
    let renewals = bench.source.is().renewals;
    assert!(
        (29..=31).contains(&renewals),
        "{renewals} in ten times its time"
    );
    bench.stuck();
    bench.pass(EVERY).await;
    let before = bench.source.is().renewals;
    bench.pass(TTL).await;
    assert!(bench.is_lost(), "{:?}", bench.claim());
    assert_eq!(bench.source.is().renewals, before);
}

/// Scenario 10: a gift to zombies. The probe fails and recovers, nobody else wanted the lease: nothing is proven by
/// that, so nothing is stamped, and nothing is even acquired, until there is another process.
#[tokio::test]
async fn a_worker_that_froze_gets_nothing_back_before_it_is_replaced() {
    let mut bench = Bench::owning().await;
    bench.stuck();
    bench.pass(Millis(40_000)).await;
    assert!(bench.is_lost());
    bench.alive("first");
    bench.pass(Millis(TTL.0 * 4)).await;
    assert!(bench.is_lost(), "{:?}", bench.claim());
    assert_eq!(bench.source.is().acquisitions, 1);
    // Another replica can have it meanwhile.
    assert!(bench.source.taken_by_another());
    bench.alive("second");
    bench.pass(EVERY).await;
    assert!(bench.is_not_yet(), "{:?}", bench.claim());
    bench.pass(TTL).await;
    assert_eq!(bench.generation().as_deref(), Some("3"));
}

/// C15: what fails and recovers before the end interrupts nothing.
#[tokio::test]
async fn what_recovers_before_the_end_loses_nothing() {
    let mut bench = Bench::owning().await;
    bench.stuck();
    bench.pass(Millis(20_000)).await;
    assert_eq!(bench.generation().as_deref(), Some("1"));
    bench.alive("first");
    bench.pass(Millis(5_000)).await;
    bench
        .source
        .is()
        .fates
        .extend([Fate::Silence, Fate::Silence, Fate::Silence]);
    bench.pass(TTL).await;
    assert_eq!(bench.generation().as_deref(), Some("1"));
    assert!(bench.source.is().fates.is_empty());
}

/// C02, C15: refusal begins at the end, whatever the source does not answer; who it is is computed, never remembered.
#[tokio::test]
async fn a_source_that_is_silent_ends_it_by_the_own_clock() {
    let mut bench = Bench::owning().await;
    let Claim::Owned(owned) = bench.claim() else {
        panic!("not owned");
    };
    let silence = (0..1_000).map(|_| Fate::Silence);
    bench.source.is().fates.extend(silence);
    bench.pass(Millis(TTL.0 - 1)).await;
    assert_eq!(bench.generation().as_deref(), Some("1"));
    let until = bench.claims.until(&resource(), &owned.acquisition);
    assert_eq!(until, Some(owned.until));
    // Nobody runs: it is over all the same.
    bench.clock.pass(Millis(1));
    assert!(bench.is_lost());
    assert_eq!(bench.claims.until(&resource(), &owned.acquisition), None);
    bench.source.is().fates.clear();
    bench.pass(TTL).await;
    assert!(bench.is_lost(), "{:?}", bench.claim());
}

/// C17: the machine sleeps; and C10: nothing of this process ran meanwhile.
#[tokio::test]
async fn after_a_suspend_it_is_over_before_anybody_ran() {
    let mut bench = Bench::owning().await;
    bench.clock.step_wall(-3_600_000);
    assert_eq!(
        bench.generation().as_deref(),
        Some("1"),
        "the wall clock says nothing"
    );
    bench.clock.pass(TTL);
    assert!(bench.is_lost());
    bench.pass(TTL).await;
    assert!(bench.is_lost());
    assert_eq!(bench.source.is().renewals, 0);
}

#[tokio::test]
async fn an_answer_after_the_end_counts_as_loss() {
    let mut bench = Bench::owning().await;
    // After the end of what is owned, and before the end of what the answer grants.
    let late = Fate::Late(Millis(25_000));
    bench.source.is().fates.push_back(late);
    bench.pass(Millis(THIRD.0 + EVERY.0)).await;
    assert!(bench.is_lost(), "{:?}", bench.claim());
    assert_eq!(bench.source.is().renewals, 1, "it was done all the same");
}

/// C02: any word that another owns it ends it at once.
#[tokio::test]
async fn a_source_that_says_lost_is_believed_at_once() {
    let mut bench = Bench::owning().await;
    bench.source.is().held = None;
    assert!(bench.source.taken_by_another());
    bench.pass(Millis(THIRD.0 + 1)).await;
    assert!(bench.is_lost(), "{:?}", bench.claim());
}

/// C09: the source acknowledges, but the record is gone.
#[tokio::test]
async fn a_source_that_acknowledges_what_it_does_not_record_has_lost_it() {
    let mut bench = Bench::owning().await;
    bench.source.is().held = None;
    bench.source.is().acknowledges_blindly = true;
    bench.pass(Millis(THIRD.0 + 1)).await;
    assert!(bench.is_lost(), "{:?}", bench.claim());
}

#[tokio::test]
async fn a_worker_that_was_replaced_gets_a_token_of_its_own() {
    let mut bench = Bench::owning().await;
    let before = bench.claims.in_force();
    bench.alive("second");
    bench.pass(EVERY).await;
    assert_eq!(bench.generation().as_deref(), Some("2"));
    let after = bench.claims.in_force();
    assert_ne!(
        before.acquisition(&resource()),
        after.acquisition(&resource())
    );
    // The one before, which was only frozen, answers the probe again: it had owned, and proves nothing.
    bench.alive("first");
    bench.pass(Millis(TTL.0 * 2)).await;
    assert!(bench.is_lost(), "{:?}", bench.claim());
    bench.alive("third");
    bench.pass(EVERY).await;
    assert_eq!(bench.generation().as_deref(), Some("3"));
}

#[tokio::test]
async fn what_the_worker_says_of_itself_counts_once() {
    let mut bench = Bench::owning().await;
    bench.stuck();
    bench.pass(TTL).await;
    bench.alive("first");
    bench.pass(TTL).await;
    assert!(bench.is_lost());
    bench.acknowledge().await;
    assert!(bench.is_not_yet());
    bench.pass(EVERY).await;
    assert_eq!(bench.generation().as_deref(), Some("2"));
    // While it is owned: what is new is not done under the old one.
    bench.acknowledge().await;
    assert!(bench.is_not_yet(), "{:?}", bench.claim());
    bench.pass(EVERY).await;
    assert_eq!(bench.generation().as_deref(), Some("3"));
    bench.stuck();
    bench.pass(TTL).await;
    bench.alive("first");
    bench.pass(TTL).await;
    assert!(bench.is_lost(), "{:?}", bench.claim());
}

#[tokio::test]
async fn a_probe_without_a_start_proves_nothing() {
    let mut bench = Bench::new();
    let nobody = |bench: &Bench| *bench.worker.0.lock().unwrap() = Ok(None);
    nobody(&bench);
    bench.pass(Millis::default()).await;
    assert_eq!(bench.generation().as_deref(), Some("1"));
    bench.stuck();
    bench.pass(TTL).await;
    nobody(&bench);
    bench.pass(TTL).await;
    assert!(bench.is_lost());
    // Nor does one that says more than the one before did.
    bench.alive("first");
    bench.pass(TTL).await;
    assert!(bench.is_lost());
    bench.acknowledge().await;
    bench.pass(EVERY).await;
    assert_eq!(bench.generation().as_deref(), Some("2"));
}

#[tokio::test]
async fn a_sidecar_that_was_restarted_goes_on_under_the_same_token() {
    let mut bench = Bench::owning().await;
    let before = bench.claims.in_force();
    bench.clock.pass(Millis(20_000));
    bench.start();
    assert!(bench.is_not_yet(), "{:?}", bench.claim());
    bench.now().await;
    assert_eq!(bench.generation().as_deref(), Some("1"));
    let after = bench.claims.in_force();
    assert_eq!(
        before.acquisition(&resource()),
        after.acquisition(&resource())
    );
    assert_eq!(bench.source.is().acquisitions, 1);
    // It is renewed: its whole time again.
    bench.clock.pass(Millis(20_000));
    assert_eq!(bench.generation().as_deref(), Some("1"));
}

#[tokio::test]
async fn a_sidecar_that_was_away_too_long_needs_proof() {
    let mut bench = Bench::owning().await;
    bench.clock.pass(TTL);
    bench.start();
    bench.pass(TTL).await;
    assert!(bench.is_lost(), "{:?}", bench.claim());
    assert_eq!(bench.source.is().acquisitions, 1);
    bench.start();
    bench.pass(TTL).await;
    assert!(bench.is_lost(), "{:?}", bench.claim());
    bench.alive("second");
    bench.pass(EVERY).await;
    assert_eq!(bench.generation().as_deref(), Some("2"));
}

#[tokio::test]
async fn a_restarted_sidecar_with_another_worker_begins_anew() {
    let mut bench = Bench::owning().await;
    bench.alive("second");
    bench.start();
    bench.now().await;
    assert_eq!(bench.generation().as_deref(), Some("2"));
}

#[tokio::test]
async fn another_boot_resumes_nothing() {
    let mut bench = Bench::owning().await;
    bench.clock.reboot(Millis(5_000));
    bench.start();
    bench.pass(EVERY).await;
    assert!(bench.is_lost(), "{:?}", bench.claim());
}

#[tokio::test]
async fn a_state_that_is_broken_claims_nothing_until_it_is_acknowledged() {
    let mut bench = Bench::owning().await;
    let path = state_path(bench.folder.path());
    bench.held = None;
    std::fs::write(&path, "{").unwrap();
    bench.source.is().held = None;
    bench.start();
    assert!(bench.is_lost(), "{:?}", bench.claim());
    bench.alive("second");
    bench.pass(TTL).await;
    assert!(bench.is_lost(), "{:?}", bench.claim());
    assert_eq!(bench.source.is().acquisitions, 1);
    bench.acknowledge().await;
    bench.pass(EVERY).await;
    assert_eq!(bench.generation().as_deref(), Some("2"));
    assert!(state(bench.folder.path()).contains("\"token\":\"2\""));
}

#[tokio::test]
async fn nothing_is_claimed_that_cannot_be_remembered() {
    let mut bench = Bench::new();
    // A directory stands where the file would be written aside.
    let mut aside = bench.held().state.path().as_os_str().to_owned();
    aside.push(".new");
    let aside = PathBuf::from(aside);
    std::fs::create_dir(&aside).unwrap();
    bench.alive("first");
    bench.pass(EVERY).await;
    assert!(bench.is_not_yet(), "{:?}", bench.claim());
    assert!(bench.source.is().held.is_none(), "it was given back");
    std::fs::remove_dir(aside).unwrap();
    bench.pass(Millis(6_000)).await;
    assert!(bench.generation().is_some());
}

#[tokio::test]
async fn a_source_that_is_behind_is_not_believed() {
    let mut bench = Bench::owning().await;
    bench.source.is().issued = 0;
    bench.source.is().held = None;
    bench.alive("second");
    bench.pass(EVERY).await;
    let Claim::NotYet(why) = bench.claim() else {
        panic!("{:?}", bench.claim());
    };
    assert!(why.contains("behind"), "{why}");
}

#[tokio::test]
async fn what_is_given_back_at_the_end_is_anybodys() {
    let mut bench = Bench::owning().await;
    let held = bench.held.take().unwrap();
    held.release().await;
    assert!(bench.source.is().held.is_none());
    assert!(bench.is_not_yet(), "{:?}", bench.claim());
    bench.start();
    bench.pass(TTL).await;
    assert!(bench.is_lost(), "the same process: {:?}", bench.claim());
}

/// C10: whoever gives up in the middle of acquiring leaves nothing that is renewed for ever.
#[tokio::test]
async fn who_is_told_to_let_go_renews_nothing_more() {
    let mut bench = Bench::owning().await;
    let let_go = CancellationToken::new();
    let running = bench
        .held
        .take()
        .unwrap()
        .run(CancellationToken::new(), let_go.clone());
    let_go.cancel();
    let held = running.await;
    drop(held);
    let before = bench.source.is().renewals;
    bench.clock.pass(TTL);
    assert_eq!(bench.source.is().renewals, before);
    assert!(bench.source.taken_by_another());
}

/// Another replica is to have what this one only would hold up.
#[tokio::test]
async fn a_sidecar_that_is_stopping_begins_nothing_and_goes_on_with_what_it_owns() {
    let mut bench = Bench::new();
    bench.held().stopping.cancel();
    bench.alive("first");
    bench.pass(TTL).await;
    assert!(bench.is_not_yet(), "{:?}", bench.claim());
    assert_eq!(bench.source.is().acquisitions, 0);
    let mut bench = Bench::owning().await;
    bench.start();
    bench.held().stopping.cancel();
    bench.pass(EVERY).await;
    assert_eq!(bench.source.is().renewals, 0, "it is not resumed");
    let mut bench = Bench::owning().await;
    bench.held().stopping.cancel();
    bench.pass(TTL).await;
    assert_eq!(bench.generation().as_deref(), Some("1"), "it is renewed");
    // The worker is replaced: nothing comes after it.
    bench.alive("second");
    bench.pass(TTL).await;
    assert_eq!(bench.source.is().acquisitions, 1);
}

/// A write that nobody waits for any more is over before what is given back is noted down.
#[tokio::test]
async fn what_is_given_back_is_noted_down_after_what_is_being_written() {
    let mut bench = Bench::owning().await;
    let held = bench.held.take().unwrap();
    let turn = held.state.turn().await;
    let releasing = held.release();
    tokio::pin!(releasing);
    let waits = timeout(Duration::from_millis(20), &mut releasing).await;
    assert!(waits.is_err(), "it did not wait");
    assert!(state(bench.folder.path()).contains("\"released\":false"));
    drop(turn);
    releasing.await;
    assert!(state(bench.folder.path()).contains("\"released\":true"));
}
