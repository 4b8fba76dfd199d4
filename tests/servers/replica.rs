//! A streaming replica: behind by as much as a test wants, and promoted by hand.
//!
//! What always holds: it is a server like any other, with all that `postgres` says. How much a primary
//! waits for it is the primary's own setting: `set("synchronous_standby_names", "*")`, and
//! `synchronous_commit`.

use std::net::SocketAddr;

use super::account::{command, postgres_program, run};
use super::database::url;
use super::folder::Folder;
use super::postgres::{OWNER, PASSWORD, Postgres};
use super::settings::Settings;
use super::waiting::until;

impl Postgres {
    /// A replica of it, which streams.
    pub fn replica(&self) -> Self {
        self.replica_over(self.address())
    }

    /// The same by way of a wire to it.
    pub fn replica_over(&self, address: SocketAddr) -> Self {
        let folder = Folder::new();
        base_backup(address, &folder);
        folder.write("data/standby.signal", "");
        let primary = url(address, OWNER, PASSWORD, OWNER);
        let settings = Settings {
            small_disk: None,
            ..self.settings.clone().with("primary_conninfo", &primary)
        };
        let replica = Self::start_on(folder, settings);
        replica.until_receiving();
        replica
    }

    /// Makes a replica a primary, on a timeline of its own. What it has received is replayed first, what it
    /// has not is lost. Returns when it takes writes.
    pub fn promote(&self) {
        assert_eq!(self.query("SELECT pg_promote(true, 30)"), "t");
        self.until_writable();
    }

    /// A replica receives and does not show: its readers see the past.
    pub fn pause_replay(&self) {
        self.query("SELECT pg_wal_replay_pause()");
        until("the replay is paused", || {
            self.query("SELECT pg_get_wal_replay_pause_state()") == "paused"
        });
    }

    pub fn resume_replay(&self) {
        self.query("SELECT pg_wal_replay_resume()");
    }

    /// A replica receives no more: what the primary commits from now on would be lost with it. An
    /// asynchronous primary does not notice.
    pub fn stop_receiving(&self) {
        self.query("ALTER SYSTEM SET primary_conninfo = ''");
        self.reload();
        until("the replica receives no more", || !self.is_receiving());
    }

    /// Goes on where it stopped.
    pub fn receive_again(&self) {
        // Once reset, what stands in the config counts.
        self.query("ALTER SYSTEM RESET primary_conninfo");
        self.reload();
        self.until_receiving();
    }

    /// Waits until all that the primary has committed so far can be read here.
    pub fn until_caught_up_with(&self, primary: &Self) {
        let position = primary.query("SELECT pg_current_wal_insert_lsn()");
        let sql = format!("SELECT pg_last_wal_replay_lsn() >= '{position}'");
        until("the replica has caught up", || self.query(&sql) == "t");
    }

    /// The timeline that it writes, or that it last replayed.
    pub fn timeline(&self) -> u32 {
        // A replica's own file of control is of its last restart point; a primary's is of its promotion
        // once the checkpoint after it is made.
        let sql = "SELECT CASE WHEN pg_is_in_recovery() \
             THEN (SELECT timeline_id FROM pg_control_checkpoint()) \
             ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int END";
        self.query(sql).parse().unwrap()
    }

    pub(super) fn until_writable(&self) {
        until("the server takes writes", || {
            self.query("SELECT pg_is_in_recovery()") == "f"
        });
    }

    fn until_receiving(&self) {
        until("the replica receives", || self.is_receiving());
    }

    fn is_receiving(&self) -> bool {
        let sql = "SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'";
        self.query(sql) == "1"
    }
}

/// What a running server holds, copied to the folder's data directory.
pub(super) fn base_backup(from: SocketAddr, folder: &Folder) {
    run(command(postgres_program("pg_basebackup"))
        .args(["--dbname", &url(from, OWNER, PASSWORD, OWNER)])
        .arg("--pgdata")
        .arg(folder.join("data"))
        .args(["--wal-method=stream", "--checkpoint=fast", "--no-sync"]));
}
