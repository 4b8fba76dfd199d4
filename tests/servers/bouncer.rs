//! A real pgbouncer between clients and a server.
//!
//! What always holds: its processes end with its value; every role of the server gets through it with
//! its own password.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;

use rustix::process::Signal;

use super::account::{bouncer_program, command};
use super::daemon::Daemon;
use super::database::url;
use super::folder::Folder;
use super::ports;
use super::postgres::{OWNER, PASSWORD};
use super::waiting::until;

/// A pooler. It runs, unless it was killed.
#[derive(Debug)]
pub struct Bouncer {
    daemon: Option<Daemon>,
    address: SocketAddr,
    folder: Folder,
}

/// How it shares the server's connections.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    pub mode: Mode,
    /// Connections to the server for each database and role.
    pub connections: u32,
    /// Clients at the same time.
    pub clients: u32,
}

/// For how long a client keeps a connection to the server.
#[derive(Clone, Copy, Debug)]
pub enum Mode {
    Session,
    Transaction,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            mode: Mode::Transaction,
            connections: 20,
            clients: 1000,
        }
    }
}

impl Bouncer {
    /// One before the server at that address, or before a wire to it.
    pub fn start(server: SocketAddr, pool: Pool) -> Self {
        let folder = Folder::new();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()));
        let users = folder.write("users", &format!("\"{OWNER}\" \"{PASSWORD}\"\n"));
        let mode = match pool.mode {
            Mode::Session => "session",
            Mode::Transaction => "transaction",
        };
        let text = format!(
            "[databases]\n\
             * = host={} port={} auth_user={OWNER}\n\
             [pgbouncer]\n\
             listen_addr = {}\n\
             listen_port = {}\n\
             unix_socket_dir =\n\
             auth_type = scram-sha-256\n\
             auth_file = {}\n\
             admin_users = {OWNER}\n\
             pool_mode = {mode}\n\
             default_pool_size = {}\n\
             max_client_conn = {}\n",
            server.ip(),
            server.port(),
            address.ip(),
            address.port(),
            users.display(),
            pool.connections,
            pool.clients,
        );
        folder.write("pgbouncer.ini", &text);
        let mut bouncer = Self {
            daemon: None,
            address,
            folder,
        };
        bouncer.start_again();
        bouncer
    }

    /// Where clients connect to: `Database::url_at` makes an URL of it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of its own console (`SHOW POOLS`).
    pub fn console(&self) -> String {
        url(self.address, OWNER, PASSWORD, "pgbouncer")
    }

    /// Kills it (SIGKILL).
    pub fn kill(&mut self) {
        self.running().kill();
        self.daemon = None;
    }

    /// Stops it at once (SIGTERM).
    pub fn stop(&mut self) {
        self.running().end(Signal::TERM);
        self.daemon = None;
    }

    /// Starts it on the same port, after it was stopped or killed.
    pub fn start_again(&mut self) {
        assert!(self.daemon.is_none(), "still running");
        let mut command = command(bouncer_program());
        command.arg(self.folder.join("pgbouncer.ini"));
        let daemon = Daemon::start(&command, "TERM", &self.folder.join("log"));
        until("the bouncer listens", || {
            assert!(!daemon.is_over(), "it ended at its start:\n{}", self.log());
            TcpStream::connect(self.address).is_ok()
        });
        self.daemon = Some(daemon);
    }

    pub fn freeze(&mut self) {
        self.running().freeze();
    }

    pub fn thaw(&mut self) {
        self.running().thaw();
    }

    /// All that would be left of it: its processes and its folder, for [`daemon::is_left`].
    pub fn traces(&self) -> Vec<String> {
        self.running().traces(self.folder.path())
    }

    /// Everything that it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn running(&self) -> &Daemon {
        self.daemon.as_ref().expect("the bouncer runs")
    }
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        self.daemon = None;
        if std::thread::panicking() {
            eprintln!("--- log of the bouncer ---\n{}", self.log());
        }
    }
}
