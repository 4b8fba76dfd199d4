//! What the database makes of the statements that must stay cheap however much is stored: their plans, with
//! tables large enough for a wrong one.

use super::super::servers::{Postgres, Settings};
use super::*;
use crate::protocol::operation::IdentityOrigin;
use crate::store::Backend;
use crate::store::postgres::doubt::of_carriers;
use crate::store::postgres::forget::What;
use crate::store::postgres::listing;
use crate::store::postgres::pressing;
use crate::store::postgres::read::reopened;

/// Rows of a tenant as they are when many have gone down: of a tenth nobody knows how it ended.
fn filling(tenant: &str) -> String {
    format!(
        "INSERT INTO fencepost.operations (identity, version, tenant, upstream, principal, id, incarnation,
             state, unsettled, resource, number, keyless, owner, first_seen_wall_ms, record, settled_ms)
         SELECT decode(md5(n::text), 'hex'), 1, '{tenant}', 'u', '', n::text::bytea, 0,
             CASE WHEN n % 10 = 0 THEN 'UNCERTAIN' ELSE 'COMPLETED' END, n % 10 = 0,
             decode(md5((n % 2003)::text), 'hex'), n, decode(md5(n::text), 'hex'),
             decode(md5((n % 503)::text), 'hex'), n, '', CASE WHEN n % 10 <> 0 THEN n END
         FROM generate_series(1, 40000) n;
         INSERT INTO fencepost.events (tenant, operation, record)
         SELECT '{tenant}', decode(md5(n::text), 'hex'), '' FROM generate_series(1, 40000) n;
         INSERT INTO fencepost.twins (identity, tenant, upstream, principal, id, incarnation, record, first)
         SELECT decode(md5(n::text), 'hex'), '{tenant}', 'u', '', '', 0, '', decode(md5(n::text), 'hex')
         FROM generate_series(1, 40000) n;
         INSERT INTO fencepost.fences (tenant, name, version, cancelled, record)
         SELECT '{tenant}', decode(md5(n::text), 'hex'), 1, false, '' FROM generate_series(1, 2003) n;
         UPDATE fencepost.fences SET leased = true WHERE name < '\\x02'"
    )
}

fn fill(database: &Database) {
    database.query(&format!(
        "{}; ANALYZE fencepost.operations, fencepost.events, fencepost.twins, fencepost.fences",
        filling("t")
    ));
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
    assert!(found.contains("operations_by_identity"), "{found}");
    let identities = What::Identities.statement();
    let found = plan(
        &database,
        &identities,
        "1::smallint; 100; 50; 500; 200; 10; 't'",
    );
    for index in [
        "operations_in_order",
        "operations_by_identity",
        "events_of_operation",
        "twins_of_first",
    ] {
        assert!(found.contains(index), "{index}: {found}");
    }
    let owners = "ARRAY['\\x00'::bytea, '\\x01'::bytea]; 0; 256; 't'";
    let found = plan(&database, &of_carriers(), owners);
    assert!(found.contains("unsettled_of_owner"), "{found}");
    let found = plan(&database, &reopened(), "'7'::bytea; 't'");
    assert!(found.contains("reopened_by_id"), "{found}");
    for after in ["NULL", "'\\x01'::bytea"] {
        let found = plan(&database, listing::LEASED, &format!("{after}; 50; 't'"));
        assert!(found.contains("leased_in_order"), "{found}");
        assert!(!found.contains("Sort"), "{found}");
    }
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

const BY_INDEX: &str = "SELECT indexrelname, idx_scan, idx_tup_read FROM pg_stat_user_indexes
    WHERE relname IN ('operations', 'events', 'twins', 'fences')";

/// How many rows were found by an index (but for the one that no decision has a condition for, and signs of life
/// have), and how many on the way from a table's beginning to its end.
const READ: &str = "SELECT i.found || ' ' || t.passed_by FROM
    (SELECT sum(idx_tup_read) AS found FROM pg_stat_user_indexes
     WHERE relname IN ('operations', 'events', 'twins', 'fences')
         AND indexrelname <> 'unsettled_of_owner') i,
    (SELECT sum(seq_tup_read) AS passed_by FROM pg_stat_user_tables
     WHERE relname IN ('operations', 'events', 'twins', 'fences')) t";

/// Every way that a decision reads or writes, as often as it takes to have its plans kept. Each writes to what the
/// other remembers.
async fn every_kind(parties: &[(Party, InstanceId)], round: u32) {
    for number in 0..16 {
        let (party, instance) = &parties[number % 2];
        let name = format!("{round}-{number}");
        let fenced = c::fenced(&name, "r", "7", *instance);
        party.carry_out(&fenced, c::applied()).await;
        let again = party.register.admit(c::again(&fenced)).await.unwrap();
        assert!(matches!(again.admission.ruling, Ruling::Replay { .. }));
        let keyless = Admit {
            origin: IdentityOrigin::Fresh,
            blind_retry: Some(Millis(300_000)),
            ..c::admit(&format!("keyless-{name}"), *instance)
        };
        party.carry_out(&keyless, c::applied()).await;
        let in_doubt = c::admit(&format!("in-doubt-{name}"), *instance);
        party.carry_out(&in_doubt, c::interrupted()).await;
    }
}

/// Plans are kept from when there was little, and nothing need make the planner look again: of what came since,
/// no decision reads more than it needs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_made_while_there_was_little_is_good_when_there_is_much() {
    for (before, meanwhile) in [("", ""), ("", "ANALYZE"), ("VACUUM ANALYZE", "")] {
        // Nobody else counts the rows, and has the plans made anew.
        let server = Postgres::start_with(&Settings::default().with("autovacuum", "off"));
        let database = server.database();
        let a = Party::of(sidecar(database.url(), A.0).await);
        let b = Party::of(sidecar(database.url(), B.0).await);
        let parties = [(a, A), (b, B)];
        database.query(before);
        every_kind(&parties, 0).await;
        database.query(meanwhile);
        every_kind(&parties, 1).await;
        database.query(&filling(c::TENANT));
        database.query("SELECT pg_stat_reset()");
        every_kind(&parties, 2).await;
        for (party, _) in parties {
            party.register.read().close().await.unwrap();
        }
        // Whoever leaves tells what he has read.
        let connected = "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()";
        until("everybody has left", async || {
            database.query(connected).trim() == "0"
        })
        .await;
        let read = database.query(READ);
        let rows: Vec<u64> = read
            .split_whitespace()
            .map(|it| it.parse().unwrap())
            .collect();
        let [found, passed_by] = rows[..] else {
            panic!("{read}");
        };
        assert!(found > 0, "the database counts what it reads");
        assert_eq!(passed_by, 0, "nothing is searched from end to end");
        let by_index = database.query(BY_INDEX);
        assert!(
            found < 5_000,
            "{found} rows were read for 48 operations, counted {before:?}, {meanwhile:?}: {by_index}"
        );
    }
}
