//! Answers that come out of order, too late, or not at all, and what is known after them.

use super::lost::{now_or_later, staged};
use super::*;
use crate::lease::own::line::Asked;
use crate::protocol::ids::FencingToken;

fn lease(holder: &str, generation: u64, renewals: u64) -> Lease {
    Lease {
        acquisition: AcquisitionId::new(holder),
        holder: holder.to_owned(),
        token: FencingToken::new(0, generation).unwrap(),
        ttl: TTL,
        renewals,
        since: at(0),
    }
}

fn line() -> (Arc<Line>, Asked) {
    let (line, _) = Lines::default().of(&resource("r"));
    let (_, asked) = line.asked();
    (line, asked)
}

/// What was asked for before a release, and comes after it, is no reason to wait for it.
#[test]
fn an_answer_from_before_a_release_is_no_news() {
    let (line, asked) = line();
    line.granted(&lease("a", 1, 0), asked, at(1));
    let (_, asked) = line.asked();
    assert!(line.is_without(&AcquisitionId::new("a")).is_some());
    line.held_by(&lease("a", 1, 0), asked, at(2));
    assert_eq!(line.held(&at(2), POLL), None);
    line.granted(&lease("a", 1, 1), asked, at(2));
    assert_eq!(line.seen(), None);
    // Nor where it was not known here.
    let (_, asked) = line.asked();
    assert_eq!(line.is_without(&AcquisitionId::new("b")), None);
    line.held_by(&lease("b", 2, 0), asked, at(3));
    assert_eq!(line.seen(), None);
    let (_, asked) = line.asked();
    line.held_by(&lease("c", 3, 0), asked, at(4));
    assert!(line.held(&at(4), POLL).is_some());
}

/// An answer from before somebody doubted does not end the doubt.
#[test]
fn an_answer_from_before_a_doubt_leaves_it() {
    let (line, asked) = line();
    line.held_by(&lease("a", 1, 0), asked, at(1));
    let (_, asked) = line.asked();
    line.doubt();
    line.held_by(&lease("a", 1, 0), asked, at(2));
    assert_eq!(line.held(&at(2), POLL), None);
    let (_, asked) = line.asked();
    line.held_by(&lease("a", 1, 0), asked, at(3));
    assert!(line.held(&at(3), POLL).is_some());
}

/// The first sight of a renewal counts, whatever comes in after it: else it would have its full time twice.
#[test]
fn an_answer_from_before_a_renewal_does_not_put_the_sight_back() {
    let (line, asked) = line();
    line.granted(&lease("a", 1, 2), asked, at(1));
    let (_, asked) = line.asked();
    line.granted(&lease("a", 1, 3), asked, at(10));
    let sight = line.seen();
    line.held_by(&lease("a", 1, 2), asked, at(20));
    line.granted(&lease("a", 1, 2), asked, at(20));
    assert_eq!(line.seen(), sight);
    let (_, asked) = line.asked();
    line.held_by(&lease("a", 1, 3), asked, at(30));
    assert_eq!(line.seen(), sight);
    // A register that went back is timed as it is: what is above would never be seen to end.
    line.held_by(&lease("a", 1, 1), asked, at(40));
    assert_eq!(line.seen(), Some(lease("a", 1, 1).seen(at(40))));
}

/// A renewal whose answer comes when its holder's time is over: he may have been taken for dead, and stays so.
#[tokio::test]
async fn a_renewal_that_is_told_too_late_is_loss() {
    let (backend, own, clock) = staged();
    let held = own.acquire(&resource("r"), &wanted("a", 0)).await.unwrap();
    clock.pass(Millis(TTL.0 / 2));
    backend.holds_back.store(true, Ordering::SeqCst);
    let (asker, acquisition) = (own.clone(), held.lease.acquisition.clone());
    let late = spawn(async move { asker.renew(&resource("r"), &acquisition).await });
    now_or_later(backend.until_committed(2)).await;
    // What he had is over, what he would get is not.
    clock.pass(Millis(TTL.0 / 2));
    backend.holds_back.store(false, Ordering::SeqCst);
    backend.answers.add_permits(1);
    assert_eq!(now_or_later(late).await.unwrap(), Err(NoLease::Lost));
    assert!(own.live(&resource("r")).is_none());
    // Nobody waits for it.
    now_or_later(backend.until_committed(3)).await;
    assert_eq!(backend.lease("r").await, None);
}

/// Renewed where nobody can say so, it is its holder's for the time that he had, and no longer.
#[tokio::test]
async fn a_renewal_in_doubt_leaves_what_he_had() {
    let (backend, own, clock) = staged();
    let held = own.acquire(&resource("r"), &wanted("a", 0)).await.unwrap();
    clock.pass(Millis(TTL.0 / 2));
    backend.loses.store(1, Ordering::SeqCst);
    let renewed = own.renew(&resource("r"), &held.lease.acquisition).await;
    assert!(
        matches!(renewed, Err(NoLease::Store(StoreError::CommitUnknown(_)))),
        "{renewed:?}"
    );
    assert_eq!(own.live(&resource("r")).unwrap().until, held.until);
    let renewed = own.renew(&resource("r"), &held.lease.acquisition).await;
    let until = renewed.unwrap().until;
    assert_eq!(until, clock.now().boottime.after(TTL));
    assert_eq!(own.live(&resource("r")).unwrap().until, until);
    clock.pass(TTL);
    assert!(own.live(&resource("r")).is_none());
}

/// Of two renewals the one that was asked for first is told last.
#[tokio::test]
async fn a_renewal_that_comes_in_after_a_later_one_takes_nothing_from_it() {
    let (_backend, own, clock) = staged();
    let held = own.acquire(&resource("r"), &wanted("a", 0)).await.unwrap();
    clock.pass(Millis(10));
    let later = own.renew(&resource("r"), &held.lease.acquisition).await;
    let later = later.unwrap().until;
    let first = own.in_time(held.clone(), Some(held.until));
    assert_eq!(first.unwrap().until, held.until);
    assert_eq!(own.live(&resource("r")).unwrap().until, later);
}

/// Whoever waits learns of a release, though whoever released has hung up before its answer came.
#[tokio::test]
async fn a_release_wakes_who_waits_though_its_caller_hung_up() {
    let (backend, own, _clock) = staged();
    let held = own.acquire(&resource("r"), &wanted("a", 0)).await.unwrap();
    let (releaser, acquisition) = (own.clone(), held.lease.acquisition);
    backend.holds_back.store(true, Ordering::SeqCst);
    let gone = spawn(async move { releaser.release(&resource("r"), &acquisition).await });
    now_or_later(backend.until_committed(2)).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    // What is known here is that it is held, and this clock stands: he sleeps until he is woken.
    let waiter = own.clone();
    let waiting = spawn(async move { waiter.acquire(&resource("r"), &wanted("b", 20_000)).await });
    tokio::task::yield_now().await;
    backend.holds_back.store(false, Ordering::SeqCst);
    backend.answers.add_permits(1);
    now_or_later(waiting).await.unwrap().unwrap();
}

/// The same where nobody can say whether it is released.
#[tokio::test]
async fn a_release_in_doubt_wakes_who_waits() {
    let (backend, own, _clock) = staged();
    let held = own.acquire(&resource("r"), &wanted("a", 0)).await.unwrap();
    let waiter = own.clone();
    let waiting = spawn(async move { waiter.acquire(&resource("r"), &wanted("b", 20_000)).await });
    tokio::task::yield_now().await;
    backend.loses.store(1, Ordering::SeqCst);
    let released = own.release(&resource("r"), &held.lease.acquisition).await;
    assert!(matches!(released, Err(NoLease::Store(_))), "{released:?}");
    now_or_later(waiting).await.unwrap().unwrap();
}

/// Names that somebody makes up leave nothing behind; what is resumed does.
#[tokio::test]
async fn what_was_never_seen_here_leaves_nothing_behind() {
    let (backend, own, clock) = staged();
    let guessed = AcquisitionId::new("guessed");
    for number in 0..10 {
        let made_up = resource(&number.to_string());
        assert_eq!(own.renew(&made_up, &guessed).await, Err(NoLease::Lost));
        assert_eq!(own.release(&made_up, &guessed).await, Err(NoLease::Lost));
    }
    assert_eq!(own.lines.len(), 0);
    let held = own.acquire(&resource("r"), &wanted("a", 0)).await.unwrap();
    let register = Register::new(Arc::clone(&backend) as Arc<dyn crate::store::Backend>);
    let again = Own::new(register, clock.clock());
    let renewed = again.renew(&resource("r"), &held.lease.acquisition).await;
    let renewed = renewed.unwrap();
    assert_eq!(
        again.live(&resource("r")).unwrap().acquisition,
        renewed.lease.acquisition
    );
    clock.pass(Millis(10));
    assert_eq!(
        again.left(&resource("r"), &renewed.lease),
        Millis(TTL.0 - 10)
    );
}

/// In doubt when the register went away, or when whoever asked did: it is nobody's, and given back.
#[tokio::test]
async fn what_is_in_doubt_when_nobody_asks_any_more_is_given_back() {
    let (backend, own, clock) = staged();
    backend.loses.store(1, Ordering::SeqCst);
    // Also the first time that it is tried to give it back.
    backend.refuses.store(2, Ordering::SeqCst);
    let refused = own.acquire(&resource("r"), &wanted("a", 0)).await;
    let away = matches!(refused, Err(NoLease::Store(StoreError::Unavailable(_))));
    assert!(away, "{refused:?}");
    now_or_later(backend.until_committed(2)).await;
    assert_eq!(backend.lease("r").await, None);
    // Time over.
    backend.loses.store(1, Ordering::SeqCst);
    backend.holds_back.store(true, Ordering::SeqCst);
    let asker = own.clone();
    let late = spawn(async move { asker.acquire(&resource("r"), &wanted("b", 0)).await });
    now_or_later(backend.until_committed(3)).await;
    clock.pass(UNKNOWN);
    backend.holds_back.store(false, Ordering::SeqCst);
    backend.answers.add_permits(1);
    let unknown = now_or_later(late).await.unwrap();
    let is_unknown = matches!(unknown, Err(NoLease::Store(StoreError::CommitUnknown(_))));
    assert!(is_unknown, "{unknown:?}");
    now_or_later(backend.until_committed(4)).await;
    assert_eq!(backend.lease("r").await, None);
    // Gone, before its answer is lost.
    backend.loses.store(1, Ordering::SeqCst);
    backend.holds_back.store(true, Ordering::SeqCst);
    let asker = own.clone();
    let gone = spawn(async move { asker.acquire(&resource("r"), &wanted("c", 0)).await });
    now_or_later(backend.until_committed(5)).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    backend.holds_back.store(false, Ordering::SeqCst);
    backend.answers.add_permits(1);
    now_or_later(backend.until_committed(6)).await;
    assert_eq!(backend.lease("r").await, None);
}
