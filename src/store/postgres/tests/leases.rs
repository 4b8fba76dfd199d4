//! Leases where a register may have lost commits, and where a new epoch has begun.
//!
//! What always holds: what is asserted of a sidecar is asserted of one that has not heard of it yet, and of one that
//! has. That nothing is granted is asserted of the answer and of what is on record.

use super::super::accept_restored;
use super::super::servers::{psql, waiting};
use super::epoch::{is_stale, new};
use super::restored::{admits_nothing, ask, until_admits, until_closed};
use super::*;
use crate::protocol::command::TokenField;
use crate::protocol::ids::{AcquisitionId, FencingToken, TokenSource};
use crate::protocol::lease::{Lease, LeaseFacts, LeaseReply, Leasing, LiveLease, OWN_SOURCE, Wish};
use crate::protocol::policy::{Ownership, TokenMode};
use crate::protocol::rejection::Rejection;
use crate::store::StoreError;

const RESOURCE: &str = "leased";

fn acquire(acquisition: &str) -> Wish {
    Wish::Acquire {
        acquisition: AcquisitionId::new(acquisition),
        holder: "worker".to_owned(),
        ttl: Millis(HOUR),
    }
}

fn renew(acquisition: &str) -> Wish {
    let acquisition = AcquisitionId::new(acquisition);
    Wish::Renew { acquisition }
}

fn release(acquisition: &str) -> Wish {
    let acquisition = AcquisitionId::new(acquisition);
    Wish::Release { acquisition }
}

async fn try_lease(party: &Party, wish: Wish) -> Result<LeaseReply, StoreError> {
    let leasing = Leasing {
        resource: c::resource_key(RESOURCE),
        wish,
        seen: None,
        at: c::at(0),
    };
    let told = tokio::time::timeout(waiting::PATIENCE, party.register.lease(leasing));
    told.await.expect("it is told neither yes nor no")
}

async fn lease(party: &Party, wish: Wish) -> LeaseReply {
    try_lease(party, wish).await.unwrap()
}

async fn acquired(party: &Party, acquisition: &str) -> FencingToken {
    match lease(party, acquire(acquisition)).await {
        LeaseReply::Granted(lease) => lease.token,
        other => panic!("{other:?}"),
    }
}

async fn on_record(party: &Party) -> Option<Lease> {
    let key = c::resource_key(RESOURCE);
    let found = party.register.read().resource(&key).await.unwrap();
    found.and_then(|stored| stored.fence.lease)
}

/// Neither to whoever wants it first nor to whoever has it, and nothing of it is on record.
async fn grants_nothing(party: &Party, owner: &str) {
    let before = on_record(party).await;
    // Acquired again it would be renewed.
    for wish in [acquire("another"), acquire(owner), renew(owner)] {
        let told = try_lease(party, wish.clone()).await;
        // Where it is another's anyway nobody writes, and it need not have been noticed.
        let refused = matches!(
            told,
            Err(StoreError::Unavailable(_)) | Ok(LeaseReply::Held(..))
        );
        assert!(refused, "{wish:?}: {told:?}");
    }
    assert_eq!(on_record(party).await, before);
}

/// By an admission that needs ownership, of an instance that takes it for its worker's still. It carries no token: what
/// is refused is refused for the lease.
async fn is_current(party: &Party, id: &str, acquisition: &str, own: InstanceId) -> bool {
    let mut admit = c::under(c::fenced(id, RESOURCE, "1", own), |fence| {
        fence.token = TokenMode::Prefer;
        fence.require = Ownership::Current;
    });
    if let Some(shown) = &mut admit.presented {
        shown.source = TokenSource::new(OWN_SOURCE);
        shown.token = TokenField::Absent;
    }
    admit.lease = LeaseFacts::of(Some(LiveLease {
        acquisition: AcquisitionId::new(acquisition),
        until: admit.at.boottime.after(Millis(HOUR)),
    }));
    let asked = party.register.admit(admit).await.unwrap();
    match (asked.permit, asked.admission.ruling) {
        (Some(permit), Ruling::Granted(_)) => {
            let receipt = permit.finish(c::applied());
            party.register.record(&receipt, c::at(10)).await.unwrap();
            true
        }
        (None, Ruling::Refused(Rejection::LeaseNotCurrent)) => false,
        (_, other) => panic!("{other:?}"),
    }
}

/// The commit that is missing may be the grant to somebody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_granted_where_commits_may_be_missing() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let b = join(&database, B, LONG).await;
    let first = acquired(&a, "a").await;
    let owned = on_record(&a).await;
    a.freeze().await;
    b.freeze().await;
    database.query("UPDATE fencepost.ground SET system = system + 1");
    // Neither has looked at the ground since.
    grants_nothing(&b, "a").await;
    grants_nothing(&a, "a").await;
    for party in [&a, &b] {
        until_closed(&party.backend, "it was copied").await;
        grants_nothing(party, "a").await;
    }
    // Where it turns out that nothing was lost he goes on.
    database.query(
        "UPDATE fencepost.ground SET system = fencepost.system_1(), doubt = NULL, noticed = NULL",
    );
    for party in [&a, &b] {
        until_admits(&party.backend).await;
    }
    assert_eq!(on_record(&b).await, owned);
    let held = lease(&b, acquire("b")).await;
    assert!(matches!(held, LeaseReply::Held(..)), "{held:?}");
    assert_eq!(acquired(&a, "a").await, first);
}

/// Whoever gives it back leaves nothing behind that others would have to wait for; and nobody takes what he left before
/// the register is known whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_back_where_commits_may_be_missing_is_nobodys() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let first = acquired(&a, "a").await;
    a.freeze().await;
    database.query("SELECT fencepost.close_1('commits were lost', 0, 0)");
    until_closed(&a.backend, "commits were lost").await;
    assert_eq!(lease(&a, release("a")).await, LeaseReply::Released);
    assert_eq!(on_record(&a).await, None);
    grants_nothing(&a, "a").await;
    admits_nothing(&a.backend, A.0).await;
    let clock = Clock::system().unwrap();
    let accepted = accept_restored(&database.url(), None, Millis(0), "alice", &clock).await;
    assert_eq!(accepted.unwrap().unwrap().epoch, 1);
    until_admits(&a.backend).await;
    assert!(acquired(&a, "b").await > first);
}

/// Contract §7: tokens never go back over a restore, and whoever held a lease holds none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_of_before_an_acceptance_are_lost() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let first = acquired(&a, "a").await;
    assert!(is_current(&a, "before", "a", A).await);
    database.query("UPDATE fencepost.ground SET system = system + 1");
    until_closed(&a.backend, "it was copied").await;
    let clock = Clock::system().unwrap();
    let accepted = accept_restored(&database.url(), None, Millis(300), "alice", &clock).await;
    assert_eq!(accepted.unwrap().unwrap().epoch, 1);
    until_admits(&a.backend).await;
    assert_eq!(lease(&a, renew("a")).await, LeaseReply::Lost);
    assert!(!is_current(&a, "after", "a", A).await);
    is_stale(&a, "late", RESOURCE, &first.to_string(), A).await;
    let next = acquired(&a, "b").await;
    assert_eq!(next, FencingToken::new(1, 1).unwrap());
    assert!(next > first);
}

/// Whoever has not heard of the new epoch neither keeps an owner of the old one nor makes one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sidecar_that_has_not_heard_of_a_new_epoch_grants_nothing_of_the_old_one() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let b = join(&database, B, LONG).await;
    acquired(&b, "b").await;
    assert!(is_current(&b, "before", "b", B).await);
    a.freeze().await;
    b.freeze().await;
    assert_eq!(a.register.read().begin_epoch(&new()).await, Ok(1));
    assert_eq!(b.backend.shared.epoch(), 0);
    assert!(!is_current(&b, "late", "b", B).await);
    assert_eq!(lease(&b, renew("b")).await, LeaseReply::Lost);
    // The lease of the old epoch is no reason to wait.
    let next = acquired(&b, "c").await;
    assert_eq!(next, FencingToken::new(1, 1).unwrap());
    assert!(is_current(&b, "after", "c", B).await);
    assert_eq!(lease(&b, release("b")).await, LeaseReply::Lost);
}

/// Decided in the old epoch, and not written before the new one began.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_a_new_epoch_overtakes_is_decided_again() {
    const HOLDS: &str = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()
        AND wait_event = 'PgSleep'";
    const WAITS: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND query LIKE '%write_1%' AND wait_event_type = 'Lock'";
    for begun_as in ["nobody's", "his"] {
        let database = database();
        let a = join(&database, A, LONG).await;
        let b = join(&database, B, LONG).await;
        if begun_as == "his" {
            acquired(&a, "a").await;
        }
        a.freeze().await;
        b.freeze().await;
        // Whoever writes for that instance waits, after he has read.
        let url = database.url();
        let held = tokio::task::spawn_blocking(move || {
            psql(
                &url,
                "BEGIN; UPDATE fencepost.instances SET position = position WHERE id = \
                 '\\x0000000000000000000000000000000a'; SELECT pg_sleep(600)",
            )
        });
        until("its row is held", async || {
            !database.query(HOLDS).is_empty()
        })
        .await;
        let asked = lease(&a, acquire("a"));
        let overtaken = async {
            until("it is decided", async || database.query(WAITS) == "1").await;
            let begun = async { b.register.read().begin_epoch(&new()).await };
            let freed = async {
                let epoch = "SELECT epoch FROM fencepost.register";
                until("it begins", async || database.query(epoch) == "1").await;
                database.query(&format!(
                    "SELECT pg_terminate_backend(pid) FROM ({HOLDS}) h"
                ));
            };
            tokio::join!(begun, freed).0
        };
        let (granted, begun) = tokio::join!(asked, overtaken);
        assert_eq!(begun, Ok(1));
        held.await.unwrap().unwrap_err();
        let LeaseReply::Granted(granted) = granted else {
            panic!("{begun_as}: {granted:?}");
        };
        assert_eq!(
            granted.token,
            FencingToken::new(1, 1).unwrap(),
            "{begun_as}"
        );
        assert_eq!(on_record(&b).await, Some(granted), "{begun_as}");
        let late = ask(&b.backend, c::fenced("late", RESOURCE, "1", B)).await;
        assert!(
            matches!(late, Ok(Ruling::Refused(Rejection::StaleToken { .. }))),
            "{begun_as}: {late:?}"
        );
    }
}
