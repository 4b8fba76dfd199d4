//! What the database makes of the statements that must stay cheap however much is stored: their plans, with
//! tables large enough for a wrong one.

use super::super::servers::{Postgres, Settings};
use super::*;
use crate::store::Backend;
use crate::store::postgres::doubt::of_carriers;
use crate::store::postgres::forget::What;
use crate::store::postgres::pressing;

/// Rows as they are when many have gone down: of a tenth nobody knows how it ended.
fn fill(database: &Database) {
    database.query(
        "INSERT INTO fencepost.operations (identity, version, tenant, upstream, principal, id, incarnation,
             state, unsettled, owner, first_seen_wall_ms, record, settled_ms)
         SELECT decode(md5(n::text), 'hex'), 1, 't', 'u', '', n::text::bytea, 0,
             CASE WHEN n % 10 = 0 THEN 'UNCERTAIN' ELSE 'COMPLETED' END, n % 10 = 0,
             decode(md5((n % 503)::text), 'hex'), n, '', CASE WHEN n % 10 <> 0 THEN n END
         FROM generate_series(1, 40000) n;
         INSERT INTO fencepost.events (tenant, operation, record)
         SELECT 't', identity, '' FROM fencepost.operations;
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
    // What every scrape asks ends after so many rows, however many there are.
    for (statement, behind) in [(pressing::COUNTS, ""), (&pressing::behind(), "; 7")] {
        let found = plan(&database, statement, &format!("'t'; 100{behind}"));
        assert!(found.contains("unsettled_in_order"), "{found}");
        assert!(found.contains("Limit"), "{found}");
    }
    let bounded = pressing::COUNTS.replace("$1", "'t'").replace("$2", "100");
    let counted = database.query(&format!("SELECT sum(count) FROM ({bounded}) it"));
    assert_eq!(counted, "100");
    a.register.read().close().await.unwrap();
}

/// The planner guesses at hundreds of rows where a table was never counted; a plan that seems dear enough for it
/// is compiled first, for ten milliseconds at every call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_compiled_in_a_register_that_is_new() {
    let settings = Settings::default()
        .with("session_preload_libraries", "auto_explain")
        .with("auto_explain.log_min_duration", "0")
        .with("auto_explain.log_nested_statements", "on")
        .with("auto_explain.log_analyze", "on");
    let server = Postgres::start_with(&settings);
    let database = server.database();
    let party = Party::of(sidecar(database.url(), A.0).await);
    let fenced = c::fenced("new", "r", "1", A);
    party.carry_out(&fenced, c::applied()).await;
    let again = party.register.admit(c::again(&fenced)).await.unwrap();
    assert!(matches!(again.admission.ruling, Ruling::Replay { .. }));
    let in_doubt = c::admit("in-doubt", A);
    party.carry_out(&in_doubt, c::interrupted()).await;
    party.beat().await;
    party.in_doubt().await;
    party.backend.about().await.unwrap();
    party.backend.close().await.unwrap();
    let log = server.log();
    for function in ["write_1", "view_1", "beat_1", "ground_1", "leave_1"] {
        let plan = format!("PL/pgSQL function fencepost.{function}(");
        assert!(log.contains(&plan), "{function} was not called");
    }
    let compiled = log.lines().position(|line| line.trim() == "JIT:");
    let compiled = compiled.map(|at| {
        log.lines()
            .skip(at.saturating_sub(30))
            .take(40)
            .collect::<Vec<_>>()
    });
    assert!(compiled.is_none(), "{}", compiled.unwrap().join("\n"));
}
