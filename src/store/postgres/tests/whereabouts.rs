//! Two servers at once: a new primary, and the old one, which nobody has stopped.

use super::super::restored::Server;
use super::super::servers::{Bouncer, Pool, Postgres, Wire, psql};
use super::super::shared::Others;
use super::unknown::{admission, stored};
use super::*;
use crate::protocol::command::{Command, Reply};
use crate::protocol::operation::State;
use crate::store::Backend;

/// The sessions of whoever said such a thing last end; others stay where they are.
fn end_sessions(server: &Postgres, last_said: &str) {
    let sql = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
         WHERE application_name = 'fencepost' AND ({last_said})"
    );
    assert_ne!(server.query(&sql), "0", "nobody said that");
}

async fn until_ready(register: &PostgresBackend) {
    until("it admits", async || register.ready().await.is_ok()).await;
}

/// The lane's connection breaks, the reader's to the old server does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_go_where_the_lane_has_gone() {
    let old = Postgres::start();
    let new = old.replica();
    let wire = Wire::to(old.address());
    let database = old.database();
    let register = sidecar(database.url_at(wire.address()), 1).await;
    let Ruling::Granted(_) = admission(&register, &c::admit("first", InstanceId(1)))
        .await
        .unwrap()
    else {
        panic!("refused");
    };
    assert_eq!(
        stored(&register, &c::key("first")).await.state,
        State::Intended
    );
    new.until_caught_up_with(&old);
    new.promote();
    wire.lead_to(new.address());
    end_sessions(&old, "query LIKE '%write_1%' OR query LIKE '%ground_1%'");
    // The lane finds out by itself, and its first look finds another timeline.
    until("it has looked", async || {
        register.standing().unwrap().closed.is_some()
    })
    .await;
    until_ready(&register).await;
    admission(&register, &c::admit("second", InstanceId(1)))
        .await
        .unwrap();
    assert_eq!(
        stored(&register, &c::key("second")).await.state,
        State::Intended
    );
    let there = |server: &Postgres| {
        let of = "datname = current_database() OR application_name = 'fencepost'";
        server.query(&format!(
            "SELECT count(*) FROM pg_stat_activity WHERE ({of}) AND pid <> pg_backend_pid()"
        ))
    };
    until("nobody is at the old one", async || there(&old) == "0").await;
}

/// The reader's connection breaks, the lane's to the old server does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lane_gives_up_a_session_of_a_server_that_others_have_left() {
    let old = Postgres::start();
    let new = old.replica();
    let wire = Wire::to(old.address());
    let database = old.database();
    let register = sidecar(database.url_at(wire.address()), 1).await;
    let first = c::admit("first", InstanceId(1));
    admission(&register, &first).await.unwrap();
    let found = stored(&register, &first.key).await.state;
    assert_eq!(found, State::Intended);
    new.until_caught_up_with(&old);
    new.promote();
    wire.lead_to(new.address());
    end_sessions(
        &old,
        "query LIKE '%fencepost.events%' OR query LIKE '%beat_1%'",
    );
    // Whoever reads now is led to the new one; nobody writes.
    let there = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'fencepost'";
    until("nobody is at the old one", async || {
        let _ = register.operation(&first.key, false).await;
        old.query(there) == "0"
    })
    .await;
    until_ready(&register).await;
    admission(&register, &c::admit("second", InstanceId(1)))
        .await
        .unwrap();
    let sql = "SELECT count(*) FROM fencepost.operations";
    assert_eq!(psql(&database.url_at(new.address()), sql).unwrap(), "2");
}

/// A pooler leads the sign of life to another server than the one that the lane has looked at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_server_says_of_signs_of_life_changes_nothing() {
    let old = Postgres::start();
    let new = old.replica();
    let wire = Wire::to(old.address());
    let bouncer = Bouncer::start(wire.address(), Pool::default());
    let database = old.database();
    let url = database.url_at(bouncer.address());
    let a = Party::of(sidecar(url.clone(), A.0).await);
    let b = Party::of(sidecar(url, B.0).await);
    a.freeze().await;
    // Their lanes have looked, and do not look again by themselves.
    for party in [&a, &b] {
        party.backend.ready().await.unwrap();
    }
    new.until_caught_up_with(&old);
    new.promote();
    wire.lead_to(new.address());
    wire.cut();
    // There, it has been declared dead.
    let name = database.name();
    let sql = format!(
        "UPDATE fencepost.instances SET dead = true WHERE id = '\\x{:032x}'",
        B.0
    );
    let there = psql(&database.url_at(new.address()), &sql);
    there.unwrap_or_else(|why| panic!("{name}: {why}"));
    until("the pooler has arrived", async || {
        a.register.read().in_doubt(0, 1).await.is_ok()
    })
    .await;
    let told = a.try_beat().await;
    let told = told.unwrap_err().into_store_error().to_string();
    assert!(told.contains("timeline"), "{told}");
    assert!(!a.takes_for_dead(B));
    // The lane looks again, then they agree; and once the register stands there, it says who is dead.
    until("the lane has looked", async || {
        a.try_beat().await.is_ok() && a.takes_for_dead(B)
    })
    .await;
    drop(b);
}

/// A pooler leads one transaction back to the old primary, which was whole too and knows of no new epoch. Nothing
/// was committed on the new one yet that would tell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_is_admitted_on_no_other_server_than_the_one_that_was_found_whole() {
    let old = Postgres::start();
    let new = old.replica();
    let wire = Wire::to(old.address());
    let bouncer = Bouncer::start(wire.address(), Pool::default());
    let database = old.database();
    let url = database.url_at(bouncer.address());
    let register = sidecar(url.clone(), A.0).await;
    register.ready().await.unwrap();
    new.until_caught_up_with(&old);
    new.promote();
    let lead = |server: &Postgres| {
        wire.lead_to(server.address());
        wire.cut();
    };
    lead(&new);
    // It looks, as after a sign of life, and commits nothing.
    until("it has noticed", async || {
        register.shared.ground.suspect();
        register.standing().unwrap().closed.is_some()
    })
    .await;
    until("it has gone over", async || {
        let standing = register.standing().unwrap();
        standing.epochs_begun == 1 && standing.closed.is_none()
    })
    .await;
    lead(&old);
    until("the pooler has gone back", async || {
        let there = "SELECT timeline FROM fencepost.ground WHERE timeline = fencepost.timeline_1()";
        psql(&url, there).is_ok_and(|it| it == "1")
    })
    .await;
    let told = admission(&register, &c::admit("contested", A)).await;
    assert!(told.is_err(), "{told:?}");
    let at = |server: &Postgres| {
        let count = "SELECT count(*) FROM fencepost.operations";
        psql(&database.url_at(server.address()), count).unwrap()
    };
    assert_eq!((at(&old).as_str(), at(&new).as_str()), ("0", "0"));
}

/// It is neither refused nor counted there: it is written where the lane finds the register.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_to_be_recorded_and_came_elsewhere_is_recorded_once_the_lane_has_looked() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let (careful, guessed) = (c::admit("careful", A), c::admit("guessed", A));
    let permits = [a.granted(&careful).await, a.granted(&guessed).await];
    let ground = &a.backend.shared.ground;
    for (permit, id) in permits.into_iter().zip(["careful", "guessed"]) {
        if id == "careful" {
            // It remembers nothing of it.
            ground.suspect();
        }
        a.backend.ready().await.unwrap();
        ground.believe_whole_on(Server {
            system: 1,
            timeline: 1,
        });
        let receipt = permit.finish(c::applied());
        a.register.record(&receipt, c::at(900)).await.unwrap();
        assert_eq!(a.state(id).await, "COMPLETED");
    }
    let aside = "SELECT aside FROM fencepost.instances";
    assert_eq!(database.query(aside), "0");
    assert!(a.backend.standing().unwrap().closed.is_none());
}

/// Who is dead was read elsewhere; the transaction that relies on it asks the register that it writes to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_buried_by_hearsay() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let b = join(&database, B, LONG).await;
    let admit = c::admit("a", A);
    let _permit = a.granted(&admit).await;
    let commands = [
        Command::Park(c::park(&admit.key)),
        Command::Resend(c::resend(&admit.key, B)),
    ];
    for command in commands {
        b.backend.shared.meet(Others {
            living: vec![B],
            dead: [(A, Clock::system().unwrap().boottime())].into(),
        });
        assert!(b.takes_for_dead(A));
        let reply = b.backend.apply(command).await.unwrap();
        assert!(!b.takes_for_dead(A), "{reply:?}");
        assert!(
            !matches!(
                reply,
                Reply::Resend(crate::protocol::command::ResendReply::Granted(_))
            ),
            "{reply:?}"
        );
        assert_eq!(b.state("a").await, "INTENDED");
    }
}

/// A replica that reads well is not taken for the register; the next host of the URL is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_hosts_the_one_that_writes_is_taken() {
    let primary = Postgres::start();
    let replica = primary.replica();
    let database = primary.database();
    let url = database.url();
    let (place, one) = (replica.address().to_string(), primary.address().to_string());
    // Also where the URL says that it does not matter.
    let several = format!(
        "{}?target_session_attrs=any",
        url.replace(&one, &format!("{place},{one}"))
    );
    assert_ne!(several, url);
    let register = sidecar(several, 1).await;
    let ruling = admission(&register, &c::admit("a", InstanceId(1)))
        .await
        .unwrap();
    assert!(matches!(ruling, Ruling::Granted(_)), "{ruling:?}");
}

#[test]
fn where_lane_and_reader_part_the_lane_looks_again() {
    let whereabouts = super::super::whereabouts::Whereabouts::default();
    let one = Server {
        system: 1,
        timeline: 1,
    };
    let other = Server { timeline: 2, ..one };
    assert!(whereabouts.agrees(other).is_ok(), "nothing is known yet");
    whereabouts.lane_is_on(one);
    assert!(whereabouts.agrees(one).is_ok());
    assert!(!whereabouts.take_suspicion());
    assert!(whereabouts.agrees(other).is_err());
    assert!(whereabouts.take_suspicion());
    assert!(!whereabouts.take_suspicion(), "once");
}
