//! Who gets a lease, when, and what others are told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::protocol::ids::{InstanceId, ResourceName, Tenant};
use crate::store::memory::MemoryBackend;

mod hung_up;
mod late;
mod lost;
mod stage;

use stage::Staged;

const TTL: Millis = Millis(30_000);

fn resource(name: &str) -> ResourceKey {
    ResourceKey {
        tenant: Tenant::new("default"),
        name: ResourceName::new(name),
    }
}

fn wanted(holder: &str, wait: u64) -> Wanted {
    Wanted {
        holder: holder.to_owned(),
        ttl: TTL,
        wait: Millis(wait),
    }
}

fn spawn<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    TaskTracker::new().spawn(task)
}

fn own() -> Own {
    let backend = MemoryBackend::new(InstanceId(1));
    let register = Register::new(Arc::new(backend));
    Own::new(register, Clock::system().unwrap())
}

#[tokio::test]
async fn who_waits_is_served_in_the_order_of_coming_for_two_commits_each() {
    let backend = Staged::new();
    let register = Register::new(Arc::clone(&backend) as Arc<dyn crate::store::Backend>);
    let own = Own::new(register, Clock::system().unwrap());
    let first = own
        .acquire(&resource("r"), &wanted("first", 0))
        .await
        .unwrap();
    let served = Arc::new(AtomicUsize::new(0));
    let mut waiting = Vec::new();
    for number in 0..1_000 {
        let (own, served) = (own.clone(), Arc::clone(&served));
        waiting.push(spawn(async move {
            let mine = own
                .acquire(&resource("r"), &wanted("w", 30_000))
                .await
                .unwrap();
            assert_eq!(served.fetch_add(1, Ordering::SeqCst), number);
            own.release(&mine.resource, &mine.lease.acquisition)
                .await
                .unwrap();
            mine.lease.token
        }));
    }
    // On one thread each of them stands in line before this goes on.
    tokio::task::yield_now().await;
    own.release(&first.resource, &first.lease.acquisition)
        .await
        .unwrap();
    let mut last = first.lease.token;
    for waiter in waiting {
        let token = waiter.await.unwrap();
        assert!(token > last, "{token} after {last}");
        last = token;
    }
    // The one that was held first, and each of a thousand.
    assert_eq!(backend.asked.load(Ordering::SeqCst), 2 * 1_001);
}

/// Whoever hangs up costs nobody his place, and a wait that ends costs the register nothing.
#[tokio::test]
async fn who_leaves_the_line_costs_nobody_his_place() {
    let backend = Staged::new();
    let register = Register::new(Arc::clone(&backend) as Arc<dyn crate::store::Backend>);
    let own = Own::new(register, Clock::system().unwrap());
    let first = own.acquire(&resource("r"), &wanted("a", 0)).await.unwrap();
    let waits = |holder: &'static str, wait| {
        let own = own.clone();
        spawn(async move { own.acquire(&resource("r"), &wanted(holder, wait)).await })
    };
    let mut waiting = Vec::new();
    for (holder, wait) in [("b", 30_000), ("gone", 30_000), ("late", 5), ("c", 30_000)] {
        waiting.push(waits(holder, wait));
        tokio::task::yield_now().await;
    }
    let last = waiting.pop().unwrap();
    let late = waiting.pop().unwrap();
    let refused = late.await.unwrap();
    assert!(matches!(refused, Err(NoLease::Held(left)) if left > Millis(20_000)));
    waiting.pop().unwrap().abort();
    let second = waiting.pop().unwrap();
    let give = async |owned: Owned| {
        let released = own.release(&owned.resource, &owned.lease.acquisition).await;
        released.unwrap();
    };
    give(first).await;
    let second = second.await.unwrap().unwrap();
    assert_eq!(second.lease.holder, "b");
    give(second).await;
    assert_eq!(last.await.unwrap().unwrap().lease.holder, "c");
    assert_eq!(backend.asked.load(Ordering::SeqCst), 5);
}

fn at(ms: u64) -> Moment {
    Moment {
        boot: crate::protocol::time::BootId(1),
        boottime: BootInstant(ms),
        wall_ms: ms,
    }
}

/// However many resources come by, what is remembered is bounded, and whoever was seen long ago is not forgotten for
/// them.
#[test]
fn memory_is_bounded_and_the_oldest_sight_stays() {
    let lines = Lines::remembering(64);
    let lease = |holder: &str| Lease {
        acquisition: AcquisitionId::new(holder),
        holder: holder.to_owned(),
        token: crate::protocol::ids::FencingToken::new(0, 1).unwrap(),
        ttl: TTL,
        renewals: 0,
        since: at(0),
    };
    let (old, _) = lines.of(&resource("old"));
    old.granted(&lease("dead"), old.asked().1, at(1));
    drop(old);
    let (waiting, _) = lines.of(&resource("waited for"));
    for number in 0..10_000 {
        let name = number.to_string();
        let (line, _) = lines.of(&resource(&name));
        // Half of them are given back.
        if number % 2 == 0 {
            line.granted(&lease(&name), line.asked().1, at(1_000 + number));
        }
        assert!(lines.len() <= 64, "{}", lines.len());
    }
    let old = lines.known(&resource("old")).unwrap();
    assert_eq!(old.left(&at(10_001)), Millis(TTL.0 - 10_000));
    let same = lines.known(&resource("waited for")).unwrap();
    assert!(Arc::ptr_eq(&waiting, &same));
}

#[tokio::test]
async fn a_wait_is_bounded_and_says_what_is_left() {
    let own = own();
    let held = own.acquire(&resource("r"), &wanted("a", 0)).await.unwrap();
    for wait in [0, 30] {
        let refused = own.acquire(&resource("r"), &wanted("b", wait)).await;
        let Err(NoLease::Held(left)) = refused else {
            panic!("{refused:?}");
        };
        assert!(left <= TTL && left > Millis(20_000), "{left:?}");
    }
    let live = own.live(&resource("r")).unwrap();
    assert_eq!(live.acquisition, held.lease.acquisition);
    assert!(live.until <= own.clock.boottime().after(TTL));
}

#[tokio::test]
async fn what_is_released_or_another_s_is_not_live() {
    let own = own();
    let held = own.acquire(&resource("r"), &wanted("a", 0)).await.unwrap();
    let acquisition = &held.lease.acquisition;
    assert!(own.renew(&resource("r"), acquisition).await.unwrap().until >= held.until);
    let guessed = AcquisitionId::new("guessed");
    let lost = Err(NoLease::Lost);
    assert_eq!(own.renew(&resource("r"), &guessed).await, lost);
    assert_eq!(
        own.release(&resource("r"), &guessed).await,
        Err(NoLease::Lost)
    );
    assert!(
        own.live(&resource("r")).is_some(),
        "it touches only its own"
    );
    own.release(&resource("r"), acquisition).await.unwrap();
    assert!(own.live(&resource("r")).is_none());
    assert_eq!(own.renew(&resource("r"), acquisition).await, lost);
}

#[tokio::test]
async fn several_are_taken_all_or_none() {
    let own = own();
    let all = || ["c", "a", "b"].map(resource);
    let held = own
        .acquire(&resource("c"), &wanted("other", 0))
        .await
        .unwrap();
    let refused = own.acquire_all(all(), &wanted("w", 20)).await;
    let (which, why) = refused.unwrap_err();
    assert_eq!(which, resource("c"));
    assert!(matches!(why, NoLease::Held(_)), "{why:?}");
    for name in ["a", "b"] {
        assert!(own.live(&resource(name)).is_none(), "{name}");
    }
    own.release(&held.resource, &held.lease.acquisition)
        .await
        .unwrap();
    let taken = own.acquire_all(all(), &wanted("w", 0)).await.unwrap();
    let names: Vec<_> = taken
        .iter()
        .map(|it| it.resource.name.to_string())
        .collect();
    assert_eq!(names, ["a", "b", "c"]);
}
