//! Numbers are given out before their rows are committed: whoever remembers the last one that he saw misses what
//! comes below it later.
//!
//! What always holds: what is in doubt is found by its state, in every pass from the beginning.

use super::super::servers::{psql, waiting};
use super::*;

/// The row of the one called `slow` has its number, and waits before it commits for whoever holds this lock.
const WAITS: &str = "
    CREATE FUNCTION fencepost.waits() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NULL; END';
    CREATE TRIGGER waits AFTER INSERT ON fencepost.operations FOR EACH ROW
        WHEN (NEW.id = 'slow') EXECUTE FUNCTION fencepost.waits();";

const HELD: &str = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
    WHERE l.locktype = 'advisory' AND l.objid = 4711 AND d.datname = current_database()";

/// F05.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_committed_after_a_later_number_is_found_all_the_same() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let b = join(&database, B, LONG).await;
    database.query(WAITS);
    let url = database.url();
    let holder = std::thread::spawn(move || {
        psql(&url, "SELECT pg_advisory_lock(4711); SELECT pg_sleep(60)")
    });
    let count = |sql: &str| database.query(sql).parse::<u32>().unwrap();
    waiting::until("somebody holds the lock", || count(HELD) == 1);

    let register = a.register.clone();
    let slow = c::admit("slow", A);
    let mut admitted = tokio::task::JoinSet::new();
    admitted.spawn(async move { register.admit(slow).await.unwrap() });
    let waits = format!("{HELD} AND NOT l.granted");
    waiting::until("the slow one has its number", || count(&waits) == 1);
    b.carry_out(&c::admit("quick", B), c::interrupted()).await;
    assert_eq!(b.in_doubt().await, ["quick"]);
    let page = b.register.read().in_doubt(0, 2).await.unwrap();
    let (seen, _) = page[0];

    let holds = format!("SELECT pg_terminate_backend(pid) FROM ({HELD}) h");
    let holds = holds
        .replace("count(*)", "l.pid")
        .replace(") h", " AND l.granted) h");
    database.query(&holds);
    holder.join().unwrap().unwrap_err();
    let permit = admitted.join_next().await.unwrap().unwrap().permit.unwrap();
    let receipt = permit.finish(c::interrupted());
    a.register.record(&receipt, c::at(500)).await.unwrap();
    let order = "SELECT convert_from(id, 'UTF8') FROM fencepost.operations ORDER BY sequence";
    assert_eq!(
        database.query(order),
        "slow\nquick",
        "as numbers were given out"
    );

    // It is looked for by the other, who has seen a later number.
    a.register.read().close().await.unwrap();
    b.beat().await;
    assert_eq!(b.in_doubt().await, ["slow", "quick"]);
    let beyond = b.register.read().in_doubt(seen, 2).await.unwrap();
    assert!(
        beyond.is_empty(),
        "whoever remembers that number never sees it"
    );
    for id in ["slow", "quick"] {
        b.register.park(c::park(&c::key(id))).await.unwrap();
    }
    assert!(b.in_doubt().await.is_empty());
}
