//! The ground under instances whose connections live on: behind a pooler nothing ends when the server is
//! another one.
//!
//! What always holds: the server stays the one it is; what the register says of where it was whole, or of
//! how far instances had come, is made another's. That is all that an instance sees of a fail-over behind a
//! pooler. Signs of life are given and read when a test says so.

use super::super::life;
use super::restored::{admits_nothing, ask, until_admits, until_closed};
use super::*;
use crate::protocol::rejection::Rejection;
use crate::store::postgres::accept_restored;
use crate::store::{Backend, StoreError};

/// As after a fail-over: all that is there was there on another timeline.
pub(super) const FAIL_OVER: &str =
    "UPDATE fencepost.ground SET timeline = 0; UPDATE fencepost.instances SET timeline = 0";

/// As if that had not happened.
const TAKE_BACK: &str =
    "UPDATE fencepost.ground SET timeline = fencepost.timeline_1(), noticed = NULL";

fn column(of: InstanceId) -> String {
    format!("'\\x{:032x}'::bytea", of.0)
}

fn is_dead(database: &Database, of: InstanceId) -> bool {
    let own = column(of);
    database.query(&format!(
        "SELECT dead FROM fencepost.instances WHERE id = {own}"
    )) == "t"
}

/// Declares it dead as it is there now. Answers how many were.
fn declare(database: &Database, of: InstanceId) -> String {
    let own = column(of);
    database.query(&format!(
        "SELECT count(d) FROM fencepost.instances i, LATERAL fencepost.declare_1(ARRAY[i.id], ARRAY[i.beat],
         ARRAY[i.position]) d WHERE i.id = {own}"
    ))
}

/// An idle one notices by itself, without a new connection; and that whoever cannot say any more that he
/// misses nothing is not made to have said so: neither by others nor by his own leave.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_fail_over_nobody_is_declared_dead_before_the_register_is_known_whole() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let b = join(&database, B, LONG).await;
    a.carry_out(&c::admit("a", A), c::applied()).await;
    a.freeze().await;
    b.beat().await;
    // Its lane has looked, and would not again.
    b.backend.ready().await.unwrap();
    database.query(FAIL_OVER);
    assert_eq!(declare(&database, A), "0");
    a.register.read().close().await.unwrap();
    assert!(!is_dead(&database, A));
    b.beat().await;
    // Nobody asks it anything.
    until("it has looked by itself", async || {
        b.backend.standing().unwrap().closed.is_some()
    })
    .await;
    until_closed(&b.backend, &A.to_string()).await;
    admits_nothing(&b.backend, B.0).await;
    assert!(!b.takes_for_dead(A));
    // Where it is known whole he is.
    database.query(TAKE_BACK);
    assert_eq!(declare(&database, A), "1");
    until_admits(&b.backend).await;
}

/// Evidence of one that was declared dead, before it goes on as another: it counts, and is missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_dead_recorded_is_missed_when_it_is_lost() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let b = join(&database, B, LONG).await;
    a.freeze().await;
    let permit = a.granted(&c::admit("a", A)).await;
    b.beat().await;
    assert_eq!(declare(&database, A), "1");
    let receipt = permit.finish(c::applied());
    a.register.record(&receipt, c::at(900)).await.unwrap();
    assert_eq!(a.state("a").await, "COMPLETED");
    let aside = "UPDATE fencepost.instances SET aside = aside - 1 WHERE dead RETURNING aside";
    assert!(database.query(aside).starts_with('0'));
    a.backend.shared.ground.suspect();
    let why = until_closed(&a.backend, "it could admit nothing").await;
    assert!(why.contains(&A.to_string()), "{why}");
}

/// Whoever stops where the register is not known whole is still to say whether it misses anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_leaves_where_the_register_does_not_stand_is_told_that_it_has_not() {
    let database = database();
    let a = join(&database, A, LONG).await;
    a.freeze().await;
    let leave = async || life::take_leave(&a.backend.shared, &a.backend.reader).await;
    database.query("UPDATE fencepost.ground SET timeline = 0");
    assert!(!leave().await.unwrap());
    assert!(!is_dead(&database, A));
    database.query("UPDATE fencepost.ground SET timeline = fencepost.timeline_1()");
    assert!(leave().await.unwrap());
    assert!(is_dead(&database, A));
}

/// The first write on the new ground would take the place of the one commit that is missing there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_lost_commit_is_not_made_up_for_by_the_next_write() {
    let database = database();
    let a = join(&database, A, LONG).await;
    a.carry_out(&c::admit("a", A), c::applied()).await;
    a.freeze().await;
    database.query("UPDATE fencepost.instances SET position = position - 1");
    let told = ask(&a.backend, c::admit("next", A)).await;
    assert!(matches!(told, Err(StoreError::Unavailable(_))), "{told:?}");
    until_closed(&a.backend, "commits are missing").await;
    admits_nothing(&a.backend, A.0).await;
}

/// After a loss the same version of a fence comes again, with another content.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_remembered_goes_with_the_ground() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let b = join(&database, B, LONG).await;
    a.carry_out(&c::fenced("a", "r", "5", A), c::applied())
        .await;
    let version = database.query("SELECT version FROM fencepost.fences");
    let clock = Clock::system().unwrap();
    database.query("SELECT fencepost.close_1('commits were lost', 0, 0)");
    until_closed(&a.backend, "commits were lost").await;
    let accepted = accept_restored(&database.url(), None, Millis(0), "alice", &clock).await;
    assert_eq!(accepted.unwrap().unwrap().epoch, 1);
    for party in [&a, &b] {
        until_admits(&party.backend).await;
    }
    let _newer = b.granted(&c::fenced("b", "r", "1:4", B)).await;
    database.query(&format!("UPDATE fencepost.fences SET version = {version}"));
    // It has met the new epoch elsewhere.
    a.carry_out(&c::fenced("c", "other", "1:1", A), c::applied())
        .await;
    let stale = ask(&a.backend, c::fenced("d", "r", "1:3", A)).await;
    assert!(
        matches!(stale, Ok(Ruling::Refused(Rejection::StaleToken { .. }))),
        "{stale:?}"
    );
}

/// What the others had done was read with their signs of life, long after the connection was made; one
/// that has died since says nothing himself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_of_another_that_are_gone_are_missed() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let b = join(&database, B, LONG).await;
    b.carry_out(&c::admit("b", B), c::applied()).await;
    a.carry_out(&c::admit("a", A), c::applied()).await;
    a.freeze().await;
    b.beat().await;
    // The disk of before, on the same server, and nobody's connection had to end for it.
    let own = column(A);
    database.query(&format!(
        "UPDATE fencepost.instances SET position = 0 WHERE id = {own}"
    ));
    b.beat().await;
    let why = until_closed(&b.backend, "commits are missing").await;
    assert!(why.contains(&A.to_string()), "{why}");
    admits_nothing(&b.backend, B.0).await;
}

/// So is one that is not there any more at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_living_instance_that_is_gone_is_missed() {
    let database = database();
    let b = join(&database, B, LONG).await;
    let a = join(&database, A, LONG).await;
    a.freeze().await;
    b.backend.ready().await.unwrap();
    let mut life = b.life();
    life.beat().await.unwrap();
    let own = column(A);
    database.query(&format!("DELETE FROM fencepost.instances WHERE id = {own}"));
    life.beat().await.unwrap();
    until("it has looked by itself", async || {
        b.backend.standing().unwrap().closed.is_some()
    })
    .await;
    let why = until_closed(&b.backend, "is not known").await;
    assert!(why.contains(&A.to_string()), "{why}");
}

/// Two servers whose timelines have the same number, behind a pooler that now leads to the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_server_is_noticed_with_the_next_write() {
    let database = database();
    let a = join(&database, A, LONG).await;
    a.carry_out(&c::admit("a", A), c::applied()).await;
    a.freeze().await;
    database.query("UPDATE fencepost.ground SET system = system + 1");
    let error = ask(&a.backend, c::admit("next", A)).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert_eq!(
        database.query("SELECT count(*) FROM fencepost.operations"),
        "1"
    );
    until_closed(&a.backend, "it was copied").await;
}

/// A person looks at operations while it is not known whether commits are missing; that decides nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operators_tool_only_looks() {
    const GROUND: &str = "SELECT g.*, (SELECT count(*) FROM fencepost.history),
        (SELECT epoch FROM fencepost.register) FROM fencepost.ground g";
    let database = database();
    let a = join(&database, A, LONG).await;
    a.carry_out(&c::admit("a", A), c::applied()).await;
    a.register.read().close().await.unwrap();
    let look = async |words: &str| {
        let options = Options {
            part: Part::Operator,
            ..options(database.url(), c::TENANT, LONG)
        };
        let before = database.query(GROUND);
        let tool = open(options, owner(B)).await.unwrap().backend;
        until_closed(&tool, words).await;
        let found = tool.operation(&c::key("a"), false).await.unwrap();
        assert!(found.is_some());
        assert_eq!(database.query(GROUND), before);
    };
    database.query("UPDATE fencepost.ground SET system = system + 1");
    look("it was copied").await;
    database.query("UPDATE fencepost.ground SET system = system - 1");
    database.query(FAIL_OVER);
    look("find out whether anything is missing").await;
    let accepted = "SELECT begun FROM fencepost.accept_1(0, 'alice', 0)";
    assert_eq!(database.query(accepted), "1");
    look("accepted by alice").await;
}
