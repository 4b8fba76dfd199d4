//! Who the servers run as, and where their programs are.
//!
//! What always holds: never root, since PostgreSQL and pgbouncer refuse that; whoever is not root
//! runs them as himself.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An account of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    pub user: u32,
    pub group: u32,
}

/// The account that servers are given; nothing where it is the one that the tests have.
pub fn account() -> Option<Account> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    let named = |name: &str| passwd.lines().find_map(|line| parse(line, name));
    let found = named("postgres").or_else(|| named("nobody"));
    Some(found.expect("/etc/passwd knows postgres or nobody"))
}

fn parse(line: &str, name: &str) -> Option<Account> {
    let fields: Vec<_> = line.split(':').collect();
    (*fields.first()? == name).then_some(())?;
    Some(Account {
        user: fields.get(2)?.parse().ok()?,
        group: fields.get(3)?.parse().ok()?,
    })
}

/// The program, to be run as that account. Settings of the tests' surroundings do not reach it.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = match account() {
        None => Command::new(program),
        Some(Account { user, group }) => {
            let mut command = Command::new("setpriv");
            command
                .arg(format!("--reuid={user}"))
                .arg(format!("--regid={group}"))
                .arg("--clear-groups")
                .arg(program.as_ref());
            command
        }
    };
    // `PGDATA` and its like would lead elsewhere; a message in another language is not recognised.
    command
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C.UTF-8")
        .current_dir("/");
    command
}

/// One of PostgreSQL's own programs, of the newest version that Debian has put on this machine.
pub fn postgres_program(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok();
    let newest = versions
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|version| bin(*version).join("postgres").exists())
        .max();
    let newest =
        newest.expect("PostgreSQL's server is missing: run tests/run once, it installs it");
    bin(newest).join(name)
}

fn bin(version: u32) -> PathBuf {
    Path::new("/usr/lib/postgresql").join(format!("{version}/bin"))
}

/// pgbouncer, which Debian keeps where only administrators look.
pub fn bouncer_program() -> PathBuf {
    let path = PathBuf::from("/usr/sbin/pgbouncer");
    assert!(
        path.exists(),
        "pgbouncer is missing: run tests/run once, it installs it"
    );
    path
}

/// Runs it to its end; panics with what it said unless it went well.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
