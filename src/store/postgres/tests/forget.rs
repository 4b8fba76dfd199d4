//! Forgetting, by the register's own age: what goes when, what never does, and who does it.

use super::*;
use crate::protocol::command::Ruling;
use crate::protocol::rejection::Rejection;
use crate::store::postgres::session::Session;

/// Until nothing is left that is old.
async fn tend(party: &Party) -> (u64, u64) {
    let (mut answers, mut identities) = (0, 0);
    let mut session: Option<Session> = None;
    loop {
        let tended = party.backend.tend(&mut session).await.unwrap();
        answers += tended.purged.answers;
        identities += tended.purged.identities;
        if !tended.more {
            return (answers, identities);
        }
    }
}

fn count(database: &Database, table: &str) -> u64 {
    let sql = format!("SELECT count(*) FROM fencepost.{table}");
    database.query(&sql).parse().unwrap()
}

fn lived(database: &Database) -> u64 {
    database
        .query("SELECT lived_ms FROM fencepost.ages")
        .parse()
        .unwrap()
}

async fn rule(party: &Party, admit: &Admit) -> Ruling {
    let repeat = c::again(admit);
    party.register.admit(repeat).await.unwrap().admission.ruling
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_goes_first_then_the_identity_but_nothing_unsettled_and_no_fence() {
    let database = database();
    let clock = machine(1);
    let a = join_with(&database, A, LONG, clock.clock()).await;
    let at = clock.now();
    let now = |admit: Admit| Admit { at, ..admit };
    let (done, open) = (
        now(c::fenced("done", "r", "1", A)),
        now(c::admit("open", A)),
    );
    a.carry_out(&done, c::applied()).await;
    a.carry_out(&open, c::interrupted()).await;
    let events = count(&database, "events");
    clock.pass(Millis(HOUR - 1));
    assert_eq!(tend(&a).await, (0, 0));
    assert!(matches!(rule(&a, &done).await, Ruling::Replay { .. }));
    clock.pass(Millis(1));
    assert_eq!(tend(&a).await, (1, 0));
    let expired = rule(&a, &done).await;
    assert!(
        matches!(expired, Ruling::Refused(Rejection::AnswerExpired(_))),
        "{expired:?}"
    );
    assert_eq!(count(&database, "events"), events);
    clock.pass(Millis(9 * HOUR));
    assert_eq!(tend(&a).await, (0, 1));
    assert_eq!(count(&database, "operations"), 1);
    assert_eq!(count(&database, "fences"), 1);
    let kept = c::resource_key("r");
    let resource = a.register.read().resource(&kept).await.unwrap().unwrap();
    assert_eq!(resource.last_completed, None);
    assert_eq!(a.state("open").await, "UNCERTAIN");
    let story = a
        .register
        .read()
        .operation(&c::key("open"), true)
        .await
        .unwrap()
        .unwrap();
    assert!(!story.events.is_empty() && story.request.is_some());
    assert_eq!(
        count(&database, "events"),
        story.events.len() as u64,
        "the other story is gone"
    );
}

/// A step is bounded; and one that was settled late is passed, and found in the next lap.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_is_bounded_and_what_was_settled_late_goes_in_the_next_lap() {
    let database = database();
    let clock = machine(1);
    let a = join_with(&database, A, LONG, clock.clock()).await;
    let open = Admit {
        at: clock.now(),
        ..c::admit("open", A)
    };
    let permit = a.granted(&open).await;
    let begun = clock.now().wall_ms;
    database.query(&format!(
        "INSERT INTO fencepost.operations (identity, version, tenant, upstream, principal, id, incarnation,
             state, unsettled, first_seen_wall_ms, record, answer, settled_ms)
         SELECT decode(md5(n::text), 'hex'), 1, '{tenant}', 'u', '', n::text::bytea, 0, 'COMPLETED', false,
             {begun}, '', 'answer', {begun} FROM generate_series(1, 1200) n",
        tenant = c::TENANT
    ));
    clock.pass(Millis(2 * HOUR));
    let mut session = None;
    let first = a.backend.tend(&mut session).await.unwrap();
    assert_eq!((first.purged.answers, first.more), (499, true));
    assert_eq!(tend(&a).await, (701, 0));
    a.register
        .record(&permit.finish(c::applied()), clock.now())
        .await
        .unwrap();
    clock.pass(Millis(2 * HOUR));
    assert_eq!(tend(&a).await, (0, 0), "it was passed when it was in doubt");
    clock.pass(Millis(20 * HOUR));
    // The first look finds that the lap is over, the second one begins the next.
    let (mut answers, mut identities) = tend(&a).await;
    for _ in 0..2 {
        let more = tend(&a).await;
        (answers, identities) = (answers + more.0, identities + more.1);
    }
    assert_eq!((answers, identities), (1, 1201));
    assert_eq!(count(&database, "operations"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_that_look_after_one_register_do_not_wait_for_each_other() {
    let database = database();
    let clock = machine(1);
    let a = join_with(&database, A, LONG, clock.clock()).await;
    let admit = Admit {
        at: clock.now(),
        ..c::admit("a", A)
    };
    a.carry_out(&admit, c::applied()).await;
    clock.pass(Millis(2 * HOUR));
    let other = a.backend.connector.connect().await.unwrap();
    other
        .script(&format!(
            "BEGIN; SELECT 1 FROM fencepost.forgotten WHERE tenant = '{}' FOR UPDATE",
            c::TENANT
        ))
        .await
        .unwrap();
    assert_eq!(tend(&a).await, (0, 0));
    other.script("ROLLBACK").await.unwrap();
    assert_eq!(tend(&a).await, (1, 0));
}

/// How far one tenant's were forgotten says nothing of another's, whether or not the database keeps them apart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_forgets_for_another_tenant() {
    let database = database();
    let clock = machine(1);
    let a = join_with(&database, A, LONG, clock.clock()).await;
    let admit = Admit {
        at: clock.now(),
        ..c::admit("a", A)
    };
    a.carry_out(&admit, c::applied()).await;
    let owner = Owner {
        clock: clock.clock(),
        ..owner(B)
    };
    let others = options(database.url(), "another", LONG);
    let another = open(others, owner).await.unwrap().backend;
    clock.pass(Millis(2 * HOUR));
    let mut session = None;
    let forgotten = another.tend(&mut session).await.unwrap().purged;
    assert!(forgotten.is_nothing(), "{forgotten:?}");
    assert_eq!(tend(&a).await, (1, 0));
    // Nor does it make anybody's memory older.
    clock.pass(Millis(20 * HOUR));
    another.tend(&mut session).await.unwrap();
    let ages =
        "SELECT a.lived_ms - r.lived_ms FROM fencepost.ages a, fencepost.register r ORDER BY 1";
    assert_eq!(database.query(ages), format!("{}\n{}", 2 * HOUR, 22 * HOUR));
    a.beat().await;
    assert_eq!(
        a.backend.shared.others().living,
        [A],
        "nor do they know each other"
    );
}

/// It grows older by the clocks that count suspend of whoever is there, and by nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_whose_wall_clocks_disagree_make_no_register_older() {
    let database = database();
    let (one, two) = (machine(1), machine(2));
    two.step_wall(365 * 24 * 3_600_000);
    let a = join_with(&database, A, LONG, one.clock()).await;
    let begun = lived(&database);
    one.pass(Millis(1_000));
    tend(&a).await;
    assert_eq!(lived(&database), begun + 1_000);
    for _ in 0..3 {
        let b = join_with(&database, B, LONG, two.clock()).await;
        tend(&b).await;
        tend(&a).await;
        b.register.read().close().await.unwrap();
    }
    assert_eq!(lived(&database), begun + 1_000);
    one.pass(Millis(1_000));
    tend(&a).await;
    // Whoever is behind hears of it with the next beat.
    let b = join_with(&database, C, LONG, two.clock()).await;
    one.pass(Millis(5_000));
    tend(&a).await;
    b.beat().await;
    tend(&b).await;
    assert_eq!(lived(&database), begun + 7_000);
}

/// What it told may be lost with a fail-over while it runs on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_long_anything_is_remembered_is_told_again() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let told = "SELECT string_agg(remember_ms::text, ' ' ORDER BY what) FROM fencepost.forgotten";
    let before = database.query(told);
    database.query("UPDATE fencepost.forgotten SET remember_ms = 1");
    a.backend.remind().await;
    assert_eq!(database.query(told), before);
    database.query("DELETE FROM fencepost.forgotten");
    let backend = Arc::clone(&a.backend);
    let keeping = async { backend.keep(|_| {}).await };
    let kept = async {
        until("it tells by itself", async || {
            database.query(told) == before
        })
        .await;
    };
    tokio::select! { () = keeping => {}, () = kept => {} }
}

/// A sidecar with a shorter memory forgets nothing that one with a longer memory wanted kept, also while that
/// one is away; until a person says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_memory_that_was_ever_told_counts() {
    let database = database();
    let clock = machine(1);
    let long = Options {
        remember: Remember {
            answers: Millis(3 * HOUR),
            identities: Millis(30 * HOUR),
        },
        ..options(database.url(), c::TENANT, LONG)
    };
    let told = open(long, owner(B)).await.unwrap();
    crate::store::Backend::close(&*told.backend).await.unwrap();
    let a = join_with(&database, A, LONG, clock.clock()).await;
    let done = Admit {
        at: clock.now(),
        ..c::fenced("done", "r", "1", A)
    };
    a.carry_out(&done, c::applied()).await;
    clock.pass(Millis(3 * HOUR - 1));
    assert_eq!(tend(&a).await, (0, 0));
    clock.pass(Millis(1));
    assert_eq!(tend(&a).await, (1, 0));
    clock.pass(Millis(27 * HOUR - 1));
    assert_eq!(tend(&a).await, (0, 0));
    // As the manual has it; what was told longer is forgotten by that alone.
    database.query("UPDATE fencepost.forgotten SET remember_ms = 0");
    assert_eq!(tend(&a).await, (0, 1));
}

/// Whoever remembers the one before, frozen for longer than that was kept, finds no version that he knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_identity_that_comes_again_is_another_row() {
    let database = database();
    let clock = machine(1);
    let a = join_with(&database, A, LONG, clock.clock()).await;
    let version = || database.query("SELECT version FROM fencepost.operations");
    let mut versions = Vec::new();
    for number in 1..=2 {
        let mut admit = c::admit("again", A);
        admit.at = clock.now();
        admit.attempt.number = number;
        let permit = a.granted(&admit).await;
        versions.push(version().parse::<i64>().unwrap());
        let receipt = permit.finish(c::applied());
        a.register.record(&receipt, admit.at).await.unwrap();
        versions.push(version().parse().unwrap());
        clock.pass(Millis(40 * HOUR));
        tend(&a).await;
        assert_eq!(count(&database, "operations"), 0);
    }
    let [first, second, third, fourth] = versions[..] else {
        panic!("{versions:?}");
    };
    assert_eq!((second, fourth), (first + 1, third + 1), "counted up");
    assert!(third.abs_diff(first) > 1_000, "{versions:?}");
}
