//! What a database does to those who trust it: it is killed, it hangs, it is full, it only reads, it is
//! behind a pooler.
//!
//! What always holds: while it cannot commit nothing is admitted, and whoever asked is told so in bounded
//! time; what was admitted is found again; nobody restarts a sidecar for it.

use std::time::Duration;

use super::super::servers::{
    Bouncer, Direction, Pool, Postgres, Settings, Wire, psql, shared, waiting,
};
use super::unknown::{admission, end_of, stored};
use super::{
    LONG, OpenError, Options, PostgresBackend, open, options, owner, sidecar, try_sidecar,
};
use crate::protocol::command::{Admit, Reply, Ruling};
use crate::protocol::ids::InstanceId;
use crate::protocol::operation::State;
use crate::store::conformance::commands as c;
use crate::store::{Backend, StoreError};

const OWN: InstanceId = InstanceId(1);

async fn is_refused(register: &PostgresBackend, admit: &Admit) {
    let error = admission(register, admit).await.unwrap_err();
    let said = matches!(
        error,
        StoreError::Unavailable(_) | StoreError::CommitUnknown(_)
    );
    assert!(said, "{error:?}");
}

async fn comes_back(register: &PostgresBackend) {
    let back = async {
        while register.ready().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(waiting::PATIENCE, back).await.unwrap();
}

async fn is_completed(register: &PostgresBackend, admit: &Admit) {
    let reply = register.apply(end_of(admit)).await.unwrap();
    let Reply::Recorded(recorded) = reply else {
        panic!("{reply:?}");
    };
    assert!(matches!(recorded.state, Some(State::Completed(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_loses_nothing_and_is_found_again() {
    let mut server = Postgres::start();
    let database = server.database();
    let register = sidecar(database.url(), 1).await;
    let before = c::fenced("before", "r", "5", OWN);
    let ruling = admission(&register, &before).await.unwrap();
    assert!(matches!(ruling, Ruling::Granted(_)), "{ruling:?}");
    server.kill();
    is_refused(&register, &c::fenced("meanwhile", "r", "6", OWN)).await;
    assert!(register.ready().await.is_err());
    server.start_again();
    comes_back(&register).await;
    is_completed(&register, &before).await;
    let stale = admission(&register, &c::fenced("late", "r", "4", OWN)).await;
    assert!(matches!(stale, Ok(Ruling::Refused(_))), "{stale:?}");
    let after = c::fenced("after", "r", "7", OWN);
    let ruling = admission(&register, &after).await.unwrap();
    assert!(matches!(ruling, Ruling::Granted(_)), "{ruling:?}");
}

/// In either direction nobody hears of it: the answer, if any, is not waited for for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_half_open_holds_nobody_for_long() {
    let database = shared().database();
    for (number, direction) in [(1, Direction::ToServer), (2, Direction::ToClient)] {
        let wire = Wire::to(shared().address());
        let register = sidecar(database.url_at(wire.address()), number).await;
        let looker = sidecar(database.url(), number + 10).await;
        let own = InstanceId(number);
        let first = c::admit(&format!("first-{number}"), own);
        admission(&register, &first).await.unwrap();
        wire.stall(direction);
        let second = c::admit(&format!("second-{number}"), own);
        is_refused(&register, &second).await;
        wire.release(direction);
        comes_back(&register).await;
        is_completed(&register, &first).await;
        // It was admitted by then, or it was not: it is not sent, and it is not in doubt for ever.
        let settled = async {
            loop {
                let found = looker.operation(&second.key, false).await.unwrap();
                match found.map(|it| it.operation.state) {
                    Some(State::Intended) => tokio::time::sleep(Duration::from_millis(50)).await,
                    Some(State::NotApplied(_)) | None => return,
                    other => panic!("{other:?}"),
                }
            }
        };
        tokio::time::timeout(waiting::PATIENCE, settled)
            .await
            .unwrap();
    }
}

/// Somebody holds a row: the statement is given up, and nothing was committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_times_out_has_done_nothing() {
    let server = Postgres::start();
    let database = server.database();
    let register = sidecar(database.url(), 1).await;
    server.set("statement_timeout", "500ms");
    let first = c::fenced("first", "r", "5", OWN);
    admission(&register, &first).await.unwrap();
    is_completed(&register, &first).await;
    let url = database.url();
    let holder = std::thread::spawn(move || {
        psql(
            &url,
            "BEGIN; SET statement_timeout = 0; UPDATE fencepost.fences SET version = version;
             SELECT pg_sleep(2); ROLLBACK",
        )
    });
    let held = "SELECT count(*) FROM pg_locks WHERE relation = 'fencepost.fences'::regclass
        AND mode = 'RowExclusiveLock' AND granted";
    waiting::until("the fence is held", || database.query(held) != "0");
    let second = c::fenced("second", "r", "6", OWN);
    let error = admission(&register, &second).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    holder.join().unwrap().unwrap();
    assert!(register.peek(&second.key, None).await.unwrap().is_none());
    let ruling = admission(&register, &c::again(&second)).await.unwrap();
    assert!(matches!(ruling, Ruling::Granted(_)), "{ruling:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_room_admits_nothing_until_there_is_some() {
    let server = Postgres::start_with(&Settings::default().on_a_small_disk(96));
    let database = server.database();
    let register = sidecar(database.url(), 1).await;
    let first = c::admit("first", OWN);
    admission(&register, &first).await.unwrap();
    server.fill_disk();
    // What fits into pages that are there is still written: until it does not fit any more.
    let mut refused = None;
    for number in 0..2_000 {
        let admit = c::admit(&format!("more-{number}"), OWN);
        if admission(&register, &admit).await.is_err() {
            refused = Some(admit);
            break;
        }
    }
    let refused = refused.expect("the disk is never full");
    server.free_disk();
    comes_back(&register).await;
    is_completed(&register, &first).await;
    let found = register.operation(&refused.key, false).await.unwrap();
    let state = found.map(|it| it.operation.state);
    assert!(
        matches!(state, None | Some(State::NotApplied(_) | State::Intended)),
        "{state:?}"
    );
}

/// A standby, or a primary that was told to: it is not the one to ask.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_only_reads_admits_nothing() {
    let server = Postgres::start();
    let database = server.database();
    let register = sidecar(database.url(), 1).await;
    let first = c::admit("first", OWN);
    admission(&register, &first).await.unwrap();
    server.set("default_transaction_read_only", "on");
    is_refused(&register, &c::admit("second", OWN)).await;
    assert!(register.ready().await.is_err());
    assert_eq!(stored(&register, &first.key).await.state, State::Intended);
    server.set("default_transaction_read_only", "off");
    comes_back(&register).await;
    is_completed(&register, &first).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_free_connection_nobody_takes_part_and_whoever_does_goes_on() {
    let server = Postgres::start_with(&Settings::default().with("max_connections", "6"));
    let database = server.database();
    let register = sidecar(database.url(), 1).await;
    let mut held = Vec::new();
    let refused = loop {
        match try_sidecar(database.url(), 2 + u128::try_from(held.len()).unwrap()).await {
            Ok(one) => held.push(one),
            Err(error) => break error,
        }
        assert!(held.len() < 10, "there is always one more");
    };
    assert!(
        matches!(&refused, OpenError::Database(why) if why.contains("53300")),
        "{refused}"
    );
    let admit = c::admit("a", OWN);
    admission(&register, &admit).await.unwrap();
    is_completed(&register, &admit).await;
}

/// Every transaction may be given another connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_between_changes_nothing() {
    let database = shared().database();
    let mut bouncer = Bouncer::start(shared().address(), Pool::default());
    let url = || database.url_at(bouncer.address());
    let (one, other) = (sidecar(url(), 1).await, sidecar(url(), 2).await);
    for number in 0..20 {
        let (id, token) = (format!("a-{number}"), format!("{}", number + 1));
        let admit = c::fenced(&id, "r", &token, OWN);
        let ruling = admission(&one, &admit).await.unwrap();
        assert!(matches!(ruling, Ruling::Granted(_)), "{ruling:?}");
        is_completed(&one, &admit).await;
        let repeat = Admit {
            attempt: c::attempt(InstanceId(2)),
            ..admit
        };
        let ruling = admission(&other, &repeat).await.unwrap();
        assert!(matches!(ruling, Ruling::Replay { .. }), "{ruling:?}");
    }
    bouncer.kill();
    is_refused(&one, &c::admit("b", OWN)).await;
    bouncer.start_again();
    comes_back(&one).await;
    let ruling = admission(&one, &c::admit("c", OWN)).await.unwrap();
    assert!(matches!(ruling, Ruling::Granted(_)), "{ruling:?}");
}

/// A permit is worth what the disk is. An operator's tool admits nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_write_durably_is_refused_unless_it_may_be_lost() {
    let server = Postgres::start();
    let database = server.database();
    drop(sidecar(database.url(), 1).await);
    for setting in ["fsync", "full_page_writes"] {
        server.set(setting, "off");
        let refused = try_sidecar(database.url(), 2).await;
        let Err(OpenError::Volatile { setting: named }) = refused else {
            panic!("{setting}: accepted");
        };
        assert_eq!(named, setting);
        let options = Options {
            ephemeral: true,
            ..options(database.url(), c::TENANT, LONG)
        };
        assert!(open(options, owner(OWN)).await.is_ok());
        server.set(setting, "on");
    }
    assert!(try_sidecar(database.url(), 2).await.is_ok());
}

/// A role that prefers to wait for its own disk only, or for a replica, gets what it prefers; one that waits
/// for nothing waits for the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_waits_for_the_disk_and_for_what_else_the_server_says() {
    let database = shared().database();
    drop(sidecar(database.url(), 1).await);
    for (preferred, got) in [
        ("off", "on"),
        ("local", "local"),
        ("remote_write", "remote_write"),
        ("remote_apply", "remote_apply"),
        ("on", "on"),
    ] {
        let arrays = ["NULL"; 45].join(", ");
        let sql = format!(
            "BEGIN; SET LOCAL synchronous_commit = {preferred};
             SELECT 1 FROM fencepost.write_1('\\x01', 0, {arrays});
             SELECT current_setting('synchronous_commit'); COMMIT"
        );
        let told = database.query(&sql);
        assert!(told.lines().any(|line| line == got), "{preferred}: {told}");
    }
}
