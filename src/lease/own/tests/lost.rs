//! Leases that nobody was told of, or was told of too late; and clocks that do what clocks do.

use super::stage::Staged;
use super::*;
use crate::clock::Manual;
use crate::protocol::time::BootId;

fn manual() -> Manual {
    Manual::at(Moment {
        boot: BootId(1),
        boottime: BootInstant(1_000_000),
        wall_ms: 1_800_000_000_000,
    })
}

pub(super) fn staged() -> (Arc<Staged>, Own, Manual) {
    let (backend, clock) = (Staged::new(), manual());
    let register = Register::new(Arc::clone(&backend) as Arc<dyn crate::store::Backend>);
    let own = Own::new(register, clock.clock());
    (backend, own, clock)
}

pub(super) async fn now_or_later<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .unwrap()
}

/// Whoever hangs up between the commit and its answer owns nothing that others wait for.
#[tokio::test]
async fn what_nobody_was_told_of_is_given_back_at_once() {
    let (backend, own, _clock) = staged();
    backend.holds_back.store(true, Ordering::SeqCst);
    let asker = own.clone();
    let gone = spawn(async move { asker.acquire(&resource("r"), &wanted("a", 0)).await });
    now_or_later(backend.until_committed(1)).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    let next = own.clone();
    let next = spawn(async move { next.acquire(&resource("r"), &wanted("b", 20_000)).await });
    backend.holds_back.store(false, Ordering::SeqCst);
    backend.answers.add_permits(1);
    let owned = now_or_later(next).await.unwrap().unwrap();
    assert_eq!(owned.lease.token.generation(), 2);
    assert_eq!(backend.lease("r").await.unwrap().holder, "b");
}

/// The same for several: those that were taken are given back where the rest is not waited for.
#[tokio::test]
async fn several_that_nobody_waits_for_any_more_are_given_back() {
    let (backend, own, _clock) = staged();
    let held = own.acquire(&resource("b"), &wanted("other", 0)).await;
    let held = held.unwrap();
    let asker = own.clone();
    let gone = spawn(async move {
        let both = ["a", "b"].map(resource);
        asker.acquire_all(both, &wanted("both", 20_000)).await
    });
    now_or_later(async {
        while backend.lease("a").await.is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    let all = now_or_later(own.acquire(&resource("a"), &wanted("next", 20_000))).await;
    assert_eq!(all.unwrap().lease.holder, "next");
    let first = backend.lease("b").await.unwrap();
    assert_eq!(first.acquisition, held.lease.acquisition);
}

/// C01: a grant that is told when its time is over is none.
#[tokio::test]
async fn what_is_granted_too_late_is_not_handed_out() {
    let (backend, own, clock) = staged();
    backend.holds_back.store(true, Ordering::SeqCst);
    let asker = own.clone();
    let late = spawn(async move { asker.acquire(&resource("r"), &wanted("a", 0)).await });
    now_or_later(backend.until_committed(1)).await;
    clock.pass(Millis(3 * TTL.0));
    backend.holds_back.store(false, Ordering::SeqCst);
    backend.answers.add_permits(1);
    assert_eq!(now_or_later(late).await.unwrap(), Err(NoLease::Lost));
    assert!(own.live(&resource("r")).is_none());
    assert!(backend.lease("r").await.is_none(), "it is given back");
    let next = own.acquire(&resource("r"), &wanted("b", 0)).await.unwrap();
    assert_eq!(next.lease.token.generation(), 2);
}

/// A lease whose commit was in doubt is renewed by asking again: whoever saw it meanwhile sees another one then, and it
/// counts from before it was asked for again.
#[tokio::test]
async fn what_was_in_doubt_counts_from_before_it_was_asked_for_again() {
    let (backend, own, clock) = staged();
    backend.loses.store(1, Ordering::SeqCst);
    backend.holds_back.store(true, Ordering::SeqCst);
    let asker = own.clone();
    let asked = spawn(async move { asker.acquire(&resource("r"), &wanted("a", 0)).await });
    now_or_later(backend.until_committed(1)).await;
    clock.pass(Millis(500));
    backend.answers.add_permits(1);
    backend.holds_back.store(false, Ordering::SeqCst);
    let owned = now_or_later(asked).await.unwrap().unwrap();
    assert_eq!(owned.until, clock.now().boottime.after(TTL));
    assert_eq!(backend.committed.load(Ordering::SeqCst), 2);
    assert_eq!(owned.lease.renewals, 1);
    assert_eq!(backend.lease("r").await, Some(owned.lease));
}

/// C17: time that passes while the machine sleeps passes; C03: steps of the wall clock, either way, do not.
#[tokio::test]
async fn suspend_counts_and_the_wall_clock_does_not() {
    let (_backend, own, clock) = staged();
    let held = own.acquire(&resource("r"), &wanted("a", 0)).await.unwrap();
    let acquisition = &held.lease.acquisition;
    for step in [3_600_000, -7_200_000] {
        clock.step_wall(step);
        assert!(own.live(&resource("r")).is_some());
        let refused = own.acquire(&resource("r"), &wanted("b", 0)).await;
        assert_eq!(refused, Err(NoLease::Held(TTL)));
        assert_eq!(own.left(&resource("r"), &held.lease), TTL);
    }
    clock.pass(Millis(TTL.0 - 1));
    assert!(own.live(&resource("r")).is_some());
    clock.pass(Millis(1));
    assert!(own.live(&resource("r")).is_none());
    // Delayed so long, a renewal neither extends nor recreates it, though nobody else wanted it.
    let renewed = own.renew(&resource("r"), acquisition).await;
    assert_eq!(renewed, Err(NoLease::Lost));
    let next = own.acquire(&resource("r"), &wanted("b", 0)).await.unwrap();
    assert!(next.lease.token > held.lease.token);
    let renewed = own.renew(&resource("r"), acquisition).await;
    assert_eq!(renewed, Err(NoLease::Lost));
    assert_eq!(
        own.live(&resource("r")).unwrap().acquisition,
        next.lease.acquisition
    );
}

/// Another boot, of a machine that cannot know how long it was off: every lease has its full time again.
#[tokio::test]
async fn another_boot_gives_every_lease_its_full_time_again() {
    let (backend, own, clock) = staged();
    let held = own.acquire(&resource("r"), &wanted("a", 0)).await.unwrap();
    clock.pass(Millis(TTL.0 - 1));
    clock.reboot(Millis(24 * 3_600_000));
    let register = Register::new(Arc::clone(&backend) as Arc<dyn crate::store::Backend>);
    let again = Own::new(register, clock.clock());
    assert!(again.live(&resource("r")).is_none(), "nobody knows");
    let refused = again.acquire(&resource("r"), &wanted("b", 0)).await;
    assert_eq!(refused, Err(NoLease::Held(TTL)));
    clock.pass(Millis(TTL.0 - 1));
    let refused = again.acquire(&resource("r"), &wanted("b", 0)).await;
    assert_eq!(refused, Err(NoLease::Held(Millis(1))));
    clock.pass(Millis(1));
    let next = again.acquire(&resource("r"), &wanted("b", 0)).await;
    assert!(next.unwrap().lease.token > held.lease.token);
}

/// C03: the length that counts is the one on record, not the one that somebody else would like.
#[tokio::test]
async fn the_length_on_record_counts() {
    let (_backend, own, clock) = staged();
    own.acquire(&resource("r"), &wanted("a", 0)).await.unwrap();
    let short = Wanted {
        ttl: Millis(10_000),
        ..wanted("b", 0)
    };
    clock.pass(Millis(10_001));
    let refused = own.acquire(&resource("r"), &short).await;
    assert_eq!(refused, Err(NoLease::Held(Millis(TTL.0 - 10_001))));
    clock.pass(Millis(TTL.0 - 10_001));
    own.acquire(&resource("r"), &short).await.unwrap();
}

/// C12: whoever has lost it gives nothing back that is another's.
#[tokio::test]
async fn a_late_release_touches_nobody_else_s() {
    let (backend, own, clock) = staged();
    let first = own.acquire(&resource("r"), &wanted("a", 0)).await.unwrap();
    clock.pass(TTL);
    let next = own.acquire(&resource("r"), &wanted("b", 0)).await.unwrap();
    let released = own.release(&resource("r"), &first.lease.acquisition).await;
    assert_eq!(released, Err(NoLease::Lost));
    assert_eq!(backend.lease("r").await, Some(next.lease));
    let refused = own.acquire(&resource("r"), &wanted("c", 0)).await;
    assert_eq!(refused, Err(NoLease::Held(TTL)));
}

/// An operator who cuts a holder off does not keep those waiting who waited.
#[tokio::test]
async fn who_waits_learns_of_what_an_operator_did() {
    let (backend, own, _clock) = staged();
    let held = own.acquire(&resource("r"), &wanted("a", 0)).await.unwrap();
    let waiter = own.clone();
    let waiting = spawn(async move { waiter.acquire(&resource("r"), &wanted("b", 20_000)).await });
    tokio::task::yield_now().await;
    let leasing = Leasing {
        resource: resource("r"),
        wish: Wish::Release {
            acquisition: held.lease.acquisition,
        },
        seen: None,
        at: own.clock.now(),
    };
    // Behind its back.
    own.register.lease(leasing).await.unwrap();
    let asked = backend.asked.load(Ordering::SeqCst);
    own.changed(&resource("r"));
    now_or_later(waiting).await.unwrap().unwrap();
    assert_eq!(backend.asked.load(Ordering::SeqCst), asked + 1);
}
