//! What stands behind a primary: replicas, and backups.

use super::ask;
use crate::servers::waiting::until;
use crate::servers::{Postgres, Settings};

#[test]
fn a_replica_that_is_promoted_goes_on_with_what_it_received() {
    let mut primary = Postgres::start();
    let replica = primary.replica();
    primary.query("CREATE TABLE kept (id int)");
    primary.query("INSERT INTO kept VALUES (1)");
    replica.until_caught_up_with(&primary);
    let refused = replica.try_query("INSERT INTO kept VALUES (2)");
    assert!(refused.unwrap_err().contains("read-only"));

    replica.stop_receiving();
    primary.query("INSERT INTO kept VALUES (3)");
    primary.kill();
    let before = replica.timeline();
    replica.promote();

    assert_eq!(replica.query("TABLE kept"), "1", "the last commit is lost");
    replica.query("INSERT INTO kept VALUES (4)");
    assert_eq!((before, replica.timeline()), (1, 2));
}

#[test]
fn a_replica_lags_as_long_as_it_is_told_and_then_catches_up() {
    let primary = Postgres::start();
    let replica = primary.replica();
    primary.query("CREATE TABLE kept (id int)");
    replica.until_caught_up_with(&primary);

    replica.pause_replay();
    primary.query("INSERT INTO kept VALUES (1)");
    assert_eq!(replica.query("TABLE kept"), "");
    replica.resume_replay();
    replica.until_caught_up_with(&primary);
    assert_eq!(replica.query("TABLE kept"), "1");

    replica.stop_receiving();
    primary.query("INSERT INTO kept VALUES (2)");
    assert_eq!(replica.query("SELECT count(*) FROM kept"), "1");
    replica.receive_again();
    replica.until_caught_up_with(&primary);
    assert_eq!(replica.query("SELECT count(*) FROM kept"), "2");
}

#[test]
fn a_primary_waits_for_a_synchronous_replica_and_only_when_told() {
    let primary = Postgres::start();
    let (replica, database) = (primary.replica(), primary.database());
    database.query("CREATE TABLE kept (id int)");
    primary.set("synchronous_standby_names", "*");
    replica.stop_receiving();

    let client = ask(database.url(), "INSERT INTO kept VALUES (1)");
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    until("the commit waits", || primary.query(waiting) == "1");
    database.query("SET synchronous_commit = local; INSERT INTO kept VALUES (2)");
    assert!(!client.is_finished());
    replica.receive_again();
    assert_eq!(client.join().unwrap(), Ok(String::new()));
    assert_eq!(database.query("SELECT sum(id) FROM kept"), "3");
}

#[test]
fn a_server_is_restored_to_a_point_between_two_commits() {
    let primary = Postgres::start_with(&Settings::default().archiving());
    primary.query("CREATE TABLE kept (id int)");
    let backup = primary.backup();
    primary.query("INSERT INTO kept VALUES (1)");
    let point = primary.restore_point();
    primary.query("INSERT INTO kept VALUES (2)");

    let restored = backup.restored_to(&point);

    assert_eq!(restored.query("TABLE kept"), "1");
    assert_eq!(restored.timeline(), 2);
    assert_eq!(primary.query("SELECT max(id) FROM kept"), "2");
    let identity = "SELECT system_identifier FROM pg_control_system()";
    assert_eq!(restored.query(identity), primary.query(identity));
}
