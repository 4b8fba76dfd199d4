//! A new epoch, where several sidecars share a register.
//!
//! What always holds: what is asserted of the other sidecar is asserted of one that has heard nothing of it.

use super::super::servers::{Postgres, psql};
use super::restored::ask;
use super::verdicts::steer;
use super::*;
use crate::protocol::command::Steering;
use crate::protocol::rejection::Rejection;
use crate::store::{Backend, NewEpoch, StoreError};

pub(super) fn new() -> NewEpoch {
    NewEpoch {
        operator: "alice".to_owned(),
        reason: "it's \u{fc}ber".to_owned(),
        at: c::at(900),
    }
}

pub(super) async fn is_stale(
    party: &Party,
    id: &str,
    resource: &str,
    token: &str,
    own: InstanceId,
) {
    let ruling = ask(&party.backend, c::fenced(id, resource, token, own)).await;
    let ruling = ruling.unwrap();
    let stale = matches!(ruling, Ruling::Refused(Rejection::StaleToken { .. }));
    assert!(stale, "{ruling:?}");
}

/// Also what it would have guessed: it remembers the fence, and admits without reading anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sidecar_that_has_not_heard_of_a_new_epoch_admits_nothing_of_the_old_one() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let b = join(&database, B, LONG).await;
    for (number, party, own) in [(0, &a, A), (1, &b, B), (2, &b, B)] {
        let id = format!("before-{number}");
        party
            .carry_out(&c::fenced(&id, "r", "7", own), c::applied())
            .await;
    }
    // Nobody gives signs of life, from which it could be learnt.
    a.freeze().await;
    b.freeze().await;
    let begun = a.register.read().begin_epoch(&new()).await.unwrap();
    assert_eq!(begun, 1);
    assert_eq!(b.backend.shared.epoch(), 0);
    is_stale(&b, "late", "r", "7", B).await;
    assert_eq!(b.backend.shared.epoch(), 1);
    is_stale(&b, "late", "r", "900", B).await;
    is_stale(&b, "late", "never-seen", "7", B).await;
    is_stale(&a, "late", "r", "7", A).await;
    b.carry_out(&c::fenced("after", "r", "1:1", B), c::applied())
        .await;
    // What is not an attempt goes on: a verdict, an end.
    let told = b.backend.apply(steer(Steering::Advance)).await;
    assert!(told.is_ok(), "{told:?}");
    let history = "SELECT text FROM fencepost.history ORDER BY sequence DESC LIMIT 1";
    let told = database.query(history);
    assert_eq!(told, "epoch 1 begins, as alice says: it's \u{fc}ber");
}

/// Whoever has looked at the epoch before it began, and has not committed yet, is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_epoch_is_answered_once_nobody_writes_in_the_one_before() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let b = join(&database, B, LONG).await;
    a.carry_out(&c::fenced("x", "r", "7", A), c::applied())
        .await;
    b.freeze().await;
    // As a transaction of the other sidecar that stands still.
    let url = database.url();
    let held = tokio::task::spawn_blocking(move || {
        psql(
            &url,
            "BEGIN; UPDATE fencepost.instances SET position = position WHERE id = \
             '\\x0000000000000000000000000000000b'; SELECT pg_sleep(1); COMMIT",
        )
    });
    until("it holds its row", async || {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(1)%'
            AND wait_event = 'PgSleep'";
        database.query(waiting) == "1"
    })
    .await;
    let begun = a.register.read().begin_epoch(&new()).await.unwrap();
    assert_eq!(begun, 1);
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    assert_eq!(database.query(sleeping), "0");
    held.await.unwrap().unwrap();
}

/// It is that of all tenants.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_of_one_tenant_begins_no_epoch() {
    let server = Postgres::start();
    let database = server.database();
    let a = join(&database, A, LONG).await;
    database.query("CREATE ROLE other LOGIN PASSWORD 'x'");
    database.query("SELECT fencepost.let_in('other', 'other')");
    let url = database.url_as(server.address(), "other", "x");
    let options = Options {
        migrate: false,
        ..options(url, "other", LONG)
    };
    let other = open(options, owner(B)).await.unwrap().backend;
    let refused = other.begin_epoch(&new()).await.unwrap_err();
    let StoreError::Unavailable(why) = refused else {
        panic!("{refused:?}");
    };
    assert!(why.contains("that of all tenants"), "{why}");
    assert_eq!(a.register.read().epoch().await.unwrap(), 0);
    // And the other tenant's tokens are stale with everybody's.
    a.register.read().begin_epoch(&new()).await.unwrap();
    let mut late = c::fenced("late", "r", "7", B);
    late.key.tenant = crate::protocol::ids::Tenant::new("other");
    if let Some(shown) = &mut late.presented {
        shown.resource.tenant = late.key.tenant.clone();
    }
    let ruling = ask(&other, late).await.unwrap();
    let stale = matches!(ruling, Ruling::Refused(Rejection::StaleToken { .. }));
    assert!(stale, "{ruling:?}");
}
