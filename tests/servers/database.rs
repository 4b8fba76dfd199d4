//! A database of one test, and how to get to it.
//!
//! What always holds: no other test is given the same name; the database goes with its value, also
//! when somebody is still connected. A server that has gone before is no fault.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::account::{command, postgres_program};
use super::postgres::{OWNER, PASSWORD};

/// An empty database at first.
#[derive(Debug)]
pub struct Database {
    access: Access,
    name: String,
}

impl Database {
    pub(super) fn create(access: Access) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        access.query(OWNER, &format!("CREATE DATABASE {name}"));
        Self { access, name }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// `postgres://USER:PASSWORD@127.0.0.1:PORT/NAME`, as the superuser.
    pub fn url(&self) -> String {
        self.url_at(self.access.address)
    }

    /// The same by way of a bouncer or a wire.
    pub fn url_at(&self, address: SocketAddr) -> String {
        self.url_as(address, OWNER, PASSWORD)
    }

    /// The same as another role.
    pub fn url_as(&self, address: SocketAddr, user: &str, password: &str) -> String {
        url(address, user, password, &self.name)
    }

    /// What the superuser is told: one line a row, `|` between the columns.
    pub fn query(&self, sql: &str) -> String {
        self.access.query(&self.name, sql)
    }

    /// The same, where it may fail. `Err`: what psql says.
    pub fn try_query(&self, sql: &str) -> Result<String, String> {
        self.access.try_query(&self.name, sql)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.access.log();
            let marked = format!("] {} ", self.name);
            let own: Vec<_> = log.lines().filter(|it| it.contains(&marked)).collect();
            eprintln!("--- log of {} ---\n{}", self.name, own.join("\n"));
        }
        let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let _ = self.access.try_query(OWNER, &sql);
    }
}

/// Where a server listens, and where it logs to.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) address: SocketAddr,
    pub(super) log: PathBuf,
}

impl Access {
    pub(super) fn query(&self, database: &str, sql: &str) -> String {
        self.try_query(database, sql)
            .unwrap_or_else(|said| panic!("{sql}: {said}"))
    }

    pub(super) fn try_query(&self, database: &str, sql: &str) -> Result<String, String> {
        psql(&url(self.address, OWNER, PASSWORD, database), sql)
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

pub(super) fn url(address: SocketAddr, user: &str, password: &str, database: &str) -> String {
    format!("postgres://{user}:{password}@{address}/{database}")
}

/// Asks whoever listens there. The statements are one transaction, unless they say otherwise. `Err`: what
/// psql says.
pub fn psql(url: &str, sql: &str) -> Result<String, String> {
    let mut psql = command(postgres_program("psql"));
    psql.args(["--no-psqlrc", "--no-password", "--quiet"])
        .args(["--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"])
        .args(["--command", sql, url]);
    converse(&mut psql, "")
}

/// Runs a script of pgbench's, which speaks the extended protocol if asked. `Ok`: its report.
pub fn pgbench(url: &str, arguments: &[&str], script: &str) -> Result<String, String> {
    let mut pgbench = command(postgres_program("pgbench"));
    pgbench.args(arguments).args(["--file=-", url]);
    converse(&mut pgbench, script)
}

/// What the program says to that; `Err` if it fails.
fn converse(program: &mut Command, text: &str) -> Result<String, String> {
    let mut child = program
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One that fails at once does not listen.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim_end().to_owned();
    if output.status.success() {
        Ok(text(output.stdout))
    } else {
        Err(text(output.stderr))
    }
}
