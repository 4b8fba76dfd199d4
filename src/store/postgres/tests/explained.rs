//! What the database makes of the statements that must stay cheap however much is stored: their plans, with
//! tables large enough for a wrong one.

use super::*;
use crate::store::postgres::doubt::of_carriers;
use crate::store::postgres::forget::What;

/// Rows as they are when many have gone down: of a tenth nobody knows how it ended.
fn fill(database: &Database) {
    database.query(
        "INSERT INTO fencepost.operations (identity, version, tenant, upstream, principal, id, incarnation,
             state, unsettled, owner, first_seen_wall_ms, record, settled_ms)
         SELECT decode(md5(n::text), 'hex'), 1, 't', 'u', '', n::text::bytea, 0,
             CASE WHEN n % 10 = 0 THEN 'UNCERTAIN' ELSE 'COMPLETED' END, n % 10 = 0,
             decode(md5((n % 503)::text), 'hex'), n, '', CASE WHEN n % 10 <> 0 THEN n END
         FROM generate_series(1, 40000) n;
         INSERT INTO fencepost.events (operation, record)
         SELECT identity, '' FROM fencepost.operations;
         INSERT INTO fencepost.twins (identity, tenant, upstream, principal, id, incarnation, record, first)
         SELECT identity, 't', 'u', '', '', 0, '', identity FROM fencepost.operations;
         ANALYZE fencepost.operations, fencepost.events, fencepost.twins",
    );
}

fn plan(database: &Database, statement: &str, parameters: &str) -> String {
    let arguments: Vec<_> = parameters.split("; ").collect();
    let mut statement = statement.to_owned();
    for (number, argument) in arguments.iter().enumerate().rev() {
        statement = statement.replace(&format!("${}", number + 1), argument);
    }
    let plan = database.query(&format!("EXPLAIN (COSTS OFF) {statement}"));
    for table in ["operations", "events", "twins"] {
        assert!(!plan.contains(&format!("Seq Scan on {table}")), "{plan}");
    }
    plan
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_searched_through_from_end_to_end() {
    let database = database();
    let a = join(&database, A, LONG).await;
    fill(&database);
    let answers = What::Answers.statement();
    let found = plan(
        &database,
        &answers,
        "0::smallint; 100; 50; 500; 200; 10; 't'",
    );
    assert!(found.contains("using operations_in_order"), "{found}");
    assert!(found.contains("operations_pkey"), "{found}");
    let identities = What::Identities.statement();
    let found = plan(
        &database,
        &identities,
        "1::smallint; 100; 50; 500; 200; 10; 't'",
    );
    for index in [
        "operations_in_order",
        "operations_pkey",
        "events_of_operation",
        "twins_of_first",
    ] {
        assert!(found.contains(index), "{index}: {found}");
    }
    let owners = "ARRAY['\\x00'::bytea, '\\x01'::bytea]; 0; 256; 't'";
    let found = plan(&database, &of_carriers(), owners);
    assert!(found.contains("unsettled_of_owner"), "{found}");
    a.register.read().close().await.unwrap();
}
