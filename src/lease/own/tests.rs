//! Who gets a lease, when, and what others are told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::protocol::ids::{InstanceId, ResourceName, Tenant};
use crate::store::memory::MemoryBackend;

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

fn own() -> Own {
    let backend = MemoryBackend::new(InstanceId(1));
    let register = Register::new(Arc::new(backend));
    Own::new(register, Clock::system().unwrap())
}

#[tokio::test]
async fn who_waits_is_served_in_the_order_of_coming() {
    let own = own();
    let first = own
        .acquire(&resource("r"), &wanted("first", 0))
        .await
        .unwrap();
    let served = Arc::new(AtomicUsize::new(0));
    let mut waiting = Vec::new();
    for number in 0..1_000 {
        let (own, served) = (own.clone(), Arc::clone(&served));
        waiting.push(tokio::spawn(async move {
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
    assert!(matches!(refused, Err(NoLease::Held(_))), "{refused:?}");
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
