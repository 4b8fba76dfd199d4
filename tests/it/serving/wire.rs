//! The network between clients and a server.

use std::time::{Duration, Instant};

use super::ask;
use crate::servers::waiting::until;
use crate::servers::{Database, Direction, Postgres, Settings, Wire, pgbench, psql, shared};

fn over_a_wire() -> (Database, Wire, String) {
    let (database, wire) = (shared().database(), Wire::to(shared().address()));
    database.query("CREATE TABLE kept (id int)");
    let url = database.url_at(wire.address());
    (database, wire, url)
}

const COMMITS: &str = "BEGIN; INSERT INTO kept VALUES (1); COMMIT";

#[test]
fn the_answer_to_a_commit_is_lost_and_the_row_is_there() {
    let (database, wire, url) = over_a_wire();
    wire.lose_answer_to("commit");
    assert!(psql(&url, COMMITS).is_err());
    assert_eq!(wire.lost(), 1);
    assert_eq!(database.query("TABLE kept"), "1");
    assert_eq!(psql(&url, "TABLE kept").unwrap(), "1", "only that one");
}

#[test]
fn a_commit_is_lost_and_the_row_is_not_there() {
    let (database, wire, url) = over_a_wire();
    wire.lose("COMMIT");
    assert!(psql(&url, COMMITS).is_err());
    assert_eq!(wire.lost(), 1);
    assert_eq!(database.query("TABLE kept"), "");
}

#[test]
fn the_answer_to_the_second_statement_is_lost() {
    let (database, wire, url) = over_a_wire();
    wire.lose_answer_number(2);
    assert_eq!(psql(&url, "INSERT INTO kept VALUES (1)"), Ok(String::new()));
    assert!(psql(&url, "INSERT INTO kept VALUES (2)").is_err());
    assert_eq!(database.query("SELECT count(*) FROM kept"), "2");
    assert_eq!(wire.connections(), 2);
}

#[test]
fn statements_that_are_prepared_and_then_run_are_known_by_text_and_parameters() {
    let (database, wire, _) = over_a_wire();
    let script = "\\set id 7\nBEGIN;\nINSERT INTO kept VALUES (:id);\n\
        INSERT INTO kept VALUES (:id + 1);\nEND;\n";
    let told = |wanted: &str| {
        wire.lose_answer_to(wanted);
        let once = ["--no-vacuum", "--protocol=prepared", "--transactions=1"];
        pgbench(&database.url_at(wire.address()), &once, script)
    };
    assert!(told("INSERT INTO kept VALUES ($1 + 1)").is_err());
    assert_eq!(wire.lost(), 1);
    assert_eq!(database.query("TABLE kept"), "", "not committed");
    assert!(told("END").is_err());
    assert_eq!(wire.lost(), 2);
    assert_eq!(database.query("SELECT count(*) FROM kept"), "2");
}

#[test]
fn an_answer_that_is_stalled_arrives_when_it_is_released() {
    let (database, wire, url) = over_a_wire();
    database.query("CREATE TABLE gate ()");
    let guard = ask(database.url(), "LOCK TABLE gate; SELECT pg_sleep(60)");
    let others = "pg_stat_activity WHERE datname = current_database() AND wait_event";
    let guards = format!("{others} = 'PgSleep'");
    until("the gate is closed", || {
        database.query(&format!("SELECT count(*) FROM {guards}")) == "1"
    });
    let client = ask(url, "LOCK TABLE gate; INSERT INTO kept VALUES (1)");
    until("the client waits", || {
        database.query(&format!("SELECT count(*) FROM {others}_type = 'Lock'")) == "1"
    });

    wire.stall(Direction::ToClient);
    database.query(&format!("SELECT pg_terminate_backend(pid) FROM {guards}"));
    until("the row is there", || database.query("TABLE kept") == "1");

    assert!(!client.is_finished(), "the answer is held");
    wire.release(Direction::ToClient);
    assert_eq!(client.join().unwrap(), Ok(String::new()));
    assert!(guard.join().unwrap().is_err());
}

#[test]
fn a_request_that_is_stalled_arrives_when_it_is_released() {
    let (database, wire, url) = over_a_wire();
    wire.stall(Direction::ToServer);
    let client = ask(url, "INSERT INTO kept VALUES (1)");
    until("the client is connected", || wire.connections() > 0);
    assert_eq!(database.query("TABLE kept"), "");
    assert!(!client.is_finished());
    wire.release(Direction::ToServer);
    assert_eq!(client.join().unwrap(), Ok(String::new()));
    assert_eq!(database.query("TABLE kept"), "1");
}

#[test]
fn a_cut_resets_what_is_open_and_nothing_later() {
    let (database, wire, url) = over_a_wire();
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'";
    let sleeping = format!("{sleeping} AND datname = '{}'", database.name());
    let client = ask(url.clone(), "SELECT pg_sleep(30)");
    until("the client waits", || database.query(&sleeping) == "1");
    assert_eq!(wire.open_connections(), 1);

    wire.cut();

    let told = client.join().unwrap().unwrap_err();
    assert!(
        told.contains("reset by peer") || told.contains("unexpectedly"),
        "{told}"
    );
    assert_eq!(wire.open_connections(), 0);
    assert_eq!(psql(&url, "SELECT 1").unwrap(), "1");
    wire.refuse();
    assert!(psql(&url, "SELECT 1").is_err());
    wire.accept();
    assert_eq!(psql(&url, "SELECT 1").unwrap(), "1");
}

#[test]
fn a_delay_is_added_to_every_round_trip() {
    let (_database, wire, url) = over_a_wire();
    wire.delay(Direction::ToServer, Duration::from_millis(20));
    wire.delay(Direction::ToClient, Duration::from_millis(30));
    let start = Instant::now();
    assert_eq!(psql(&url, "SELECT 1").unwrap(), "1");
    // Encryption, start, two of SCRAM, the query: five round trips.
    assert!(start.elapsed() >= Duration::from_millis(250));
}

#[test]
fn a_wire_leads_elsewhere_and_does_not_look_into_tls() {
    let server = Postgres::start_with(&Settings::default().with_tls());
    let wire = Wire::to(shared().address());
    wire.lead_to(server.address());
    let database = server.database();
    wire.lose_answer_to("SELECT");
    let url = format!(
        "{}?sslmode=verify-full&sslrootcert={}",
        database.url_at(wire.address()),
        server.authority().display()
    );
    let sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    assert_eq!(psql(&url, sql).unwrap(), "t");
    assert_eq!(wire.lost(), 0);
    assert!(psql(&url.replace("verify-full", "disable"), sql).is_err());
    assert_eq!(wire.lost(), 1);
}

#[test]
fn what_vanishes_in_one_direction_leaves_the_connection_half_open_for_good() {
    let (database, wire, url) = over_a_wire();
    let sessions = || {
        database.query(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
             AND pid <> pg_backend_pid() AND backend_type = 'client backend'",
        )
    };
    wire.swallow_from("VALUES (1)");
    let client = ask(url.clone(), "INSERT INTO kept VALUES (1)");
    until("the server has a session", || sessions() == "1");
    wire.carry_again();
    let next = psql(&url, "INSERT INTO kept VALUES (2)");
    assert_eq!(next, Ok(String::new()));
    until("only the first one is there", || sessions() == "1");
    assert!(!client.is_finished());
    wire.cut();
    assert!(client.join().unwrap().is_err());
    until("the server has noticed", || sessions() == "0");
    assert_eq!(database.query("TABLE kept"), "2");
}

#[test]
fn an_answer_that_vanishes_was_given() {
    let (database, wire, url) = over_a_wire();
    wire.swallow(Direction::ToClient);
    let refused = psql(&format!("{url}?connect_timeout=2"), "SELECT 1");
    assert!(refused.unwrap_err().contains("timeout expired"));
    wire.carry_again();
    assert_eq!(psql(&url, "INSERT INTO kept VALUES (1)"), Ok(String::new()));
    assert_eq!(database.query("TABLE kept"), "1");
}
