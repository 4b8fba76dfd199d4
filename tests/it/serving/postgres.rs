//! A PostgreSQL server: its databases, its ends, its beginnings.

use crate::servers::{Postgres, Settings, psql, shared};

#[test]
fn two_databases_of_one_server_know_nothing_of_each_other() {
    let (one, other) = (shared().database(), shared().database());
    one.query("CREATE TABLE mine (id int)");
    assert!(
        other
            .try_query("TABLE mine")
            .unwrap_err()
            .contains("does not exist")
    );
    assert_eq!(
        psql(&one.url(), "SELECT current_database()").unwrap(),
        one.name()
    );
}

#[test]
fn a_database_goes_with_its_value() {
    let database = shared().database();
    let url = database.url();
    drop(database);
    assert!(
        psql(&url, "SELECT 1")
            .unwrap_err()
            .contains("does not exist")
    );
}

#[test]
fn what_was_committed_is_there_after_every_end() {
    let mut server = Postgres::start();
    let database = server.database();
    database.query("CREATE TABLE kept (id int)");
    let ends: [fn(&mut Postgres); 3] = [Postgres::kill, Postgres::stop_at_once, Postgres::stop];
    for end in ends {
        database.query("INSERT INTO kept VALUES (1)");
        let before = database.query("SELECT count(*) FROM kept");
        end(&mut server);
        assert!(
            server
                .try_query("SELECT 1")
                .unwrap_err()
                .contains("refused")
        );
        server.start_again();
        assert_eq!(database.query("SELECT count(*) FROM kept"), before);
    }
    let recoveries = server.log().matches("not properly shut down").count();
    assert_eq!(recoveries, 2, "{}", server.log());
}

#[test]
fn it_obeys_its_settings() {
    let settings = Settings::default().with("statement_timeout", "50ms");
    let server = Postgres::start_with(&settings);
    assert_eq!(server.query("SHOW fsync"), "on");
    let said = server.try_query("SELECT pg_sleep(30)").unwrap_err();
    assert!(said.contains("statement timeout"), "{said}");
    server.set("statement_timeout", "1h");
    assert_eq!(server.query("SHOW statement_timeout"), "1h");
}

#[test]
fn a_frozen_server_takes_connections_and_says_nothing() {
    let mut server = Postgres::start();
    let database = server.database();
    let url = format!("{}?connect_timeout=2", database.url());
    server.freeze();
    let told = psql(&url, "SELECT 1").unwrap_err();
    assert!(told.contains("timeout expired"), "{told}");
    server.thaw();
    assert_eq!(psql(&url, "SELECT 1").unwrap(), "1");
}

#[test]
fn two_servers_share_an_identity_unless_told_otherwise() {
    let identity = |settings: Settings| {
        let server = Postgres::start_with(&settings);
        server.query("SELECT system_identifier FROM pg_control_system()")
    };
    let ordinary = shared().query("SELECT system_identifier FROM pg_control_system()");
    assert_eq!(identity(Settings::default()), ordinary);
    assert_ne!(
        identity(Settings::default().of_its_own_identity()),
        ordinary
    );
}
