//! Leases, through the door of every backend.

use super::Subject;
use super::commands::{self as c, at, fenced, resource_key};
use super::scenarios::{granted, own};
use crate::protocol::ids::{AcquisitionId, FencingToken, TokenSource};
use crate::protocol::lease::{Lease, LeaseReply, Leasing, OWN_SOURCE, Sight, Wish};
use crate::protocol::rejection::Rejection;
use crate::protocol::time::Millis;

const TTL: Millis = Millis(30_000);

fn acquire(acquisition: &str) -> Wish {
    Wish::Acquire {
        acquisition: AcquisitionId::new(acquisition),
        holder: "worker-1".to_owned(),
        ttl: TTL,
    }
}

fn renew(acquisition: &str) -> Wish {
    let acquisition = AcquisitionId::new(acquisition);
    Wish::Renew { acquisition }
}

async fn ask(subject: &Subject, wish: Wish, seen: Option<Sight>, ms: u64) -> LeaseReply {
    let leasing = Leasing {
        resource: resource_key("r"),
        wish,
        seen,
        at: at(ms),
    };
    subject.register().lease(leasing).await.unwrap()
}

async fn lease_of(subject: &Subject) -> Option<Lease> {
    let stored = subject.read().resource(&resource_key("r")).await.unwrap();
    stored.and_then(|stored| stored.fence.lease)
}

fn owned(reply: LeaseReply) -> Lease {
    match reply {
        LeaseReply::Granted(lease) => lease,
        other => panic!("{other:?}"),
    }
}

pub(super) async fn a_lease_outlives_the_process(mut subject: Subject) {
    let first = owned(ask(&subject, acquire("a"), None, 0).await);
    assert_eq!(first.token, FencingToken::new(0, 1).unwrap());
    // Asked twice it is one, and its time counts anew.
    let again = owned(ask(&subject, acquire("a"), None, 10).await);
    assert_eq!((again.renewals, again.token), (1, first.token));
    subject.restart().await;
    assert_eq!(lease_of(&subject).await, Some(again.clone()));
    let held = ask(&subject, acquire("b"), None, 90_000).await;
    assert_eq!(held, LeaseReply::Held(again, TTL));
    let renewed = owned(ask(&subject, renew("a"), None, 90_000).await);
    assert_eq!((renewed.renewals, renewed.token), (2, first.token));
    subject.restart().await;
    assert_eq!(lease_of(&subject).await, Some(renewed.clone()));
    let seen = Some(renewed.seen(at(90_000)));
    let second = owned(ask(&subject, acquire("b"), seen, 120_000).await);
    assert!(second.token > first.token);
    assert_eq!(
        ask(&subject, renew("a"), None, 120_000).await,
        LeaseReply::Lost
    );
}

/// In the same transaction: whoever is asked next refuses the old owner.
pub(super) async fn a_lease_cuts_off_the_owner_before(subject: Subject) {
    let instance = own(&subject);
    let of = |id: &str, token: &str, acquisition: &str| {
        let mut admit = fenced(id, "r", token, instance);
        if let Some(shown) = &mut admit.presented {
            shown.source = TokenSource::new(OWN_SOURCE);
            shown.acquisition = Some(AcquisitionId::new(acquisition));
        }
        admit
    };
    let first = owned(ask(&subject, acquire("a"), None, 0).await);
    drop(granted(&subject, &of("a", "1", "a")).await);
    let release = Wish::Release {
        acquisition: AcquisitionId::new("a"),
    };
    assert_eq!(ask(&subject, release, None, 10).await, LeaseReply::Released);
    assert_eq!(lease_of(&subject).await, None);
    let second = owned(ask(&subject, acquire("b"), None, 20).await);
    let refused = super::scenarios::refusal(&subject, c::again(&of("late", "1", "a"))).await;
    let stale = Rejection::StaleToken {
        presented: first.token,
        current: Some(second.token),
        epoch: None,
    };
    assert_eq!(refused, stale);
}

/// Those that have a lease, among more that have none.
pub(super) async fn leases_are_listed_by_name(subject: Subject) {
    let leasing = |name: &str, wish| Leasing {
        resource: resource_key(name),
        wish,
        seen: None,
        at: at(0),
    };
    for number in 0..300 {
        let name = format!("r{number:03}");
        let admit = fenced(&name, &name, "1", own(&subject));
        if number % 100 == 7 {
            subject
                .register()
                .lease(leasing(&name, acquire("a")))
                .await
                .unwrap();
        } else {
            drop(granted(&subject, &admit).await);
        }
    }
    let names = |after: Option<&'static str>, limit| {
        let read = subject.read();
        async move {
            let fences = read.leased(after, limit).await.unwrap();
            let names = fences.iter().map(|fence| fence.resource.name.to_string());
            names.collect::<Vec<_>>()
        }
    };
    assert_eq!(names(None, 10).await, ["r007", "r107", "r207"]);
    assert_eq!(names(None, 2).await, ["r007", "r107"]);
    assert_eq!(names(Some("r007"), 2).await, ["r107", "r207"]);
    assert_eq!(names(Some("r207"), 2).await, Vec::<String>::new());
    let acquisition = AcquisitionId::new("a");
    let release = Wish::Release { acquisition };
    let released = subject.register().lease(leasing("r107", release)).await;
    assert_eq!(released, Ok(LeaseReply::Released));
    assert_eq!(names(None, 10).await, ["r007", "r207"]);
}
