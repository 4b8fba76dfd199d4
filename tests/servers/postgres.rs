//! A real PostgreSQL server of its own: data, port and log belong to one value.
//!
//! What always holds: a value that was handed out has accepted connections; its processes end with
//! it (`daemon`), and its data then goes (`folder`). Where a test fails, the end of its log is shown.
//!
//! What it does not do: speak the protocol. `psql`, of the same package, is the client.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::process::Signal;

use super::account::{command, postgres_program, run};
use super::daemon::Daemon;
use super::database::{Access, Database};
use super::folder::Folder;
use super::settings::Settings;
use super::waiting::until;
use super::{disk, ports, restore, tls};

/// A server. It runs, unless it was stopped or killed.
#[derive(Debug)]
pub struct Postgres {
    daemon: Option<Daemon>,
    pub(super) access: Access,
    pub(super) settings: Settings,
    pub(super) folder: Arc<Folder>,
}

/// One server for everybody in this test process who only wants a database. Nobody can stop it.
pub fn shared() -> &'static Postgres {
    static SHARED: OnceLock<Postgres> = OnceLock::new();
    SHARED.get_or_init(|| Postgres::start_with(&Settings::default().with("max_connections", "400")))
}

/// The superuser's name.
pub const OWNER: &str = "postgres";

/// The superuser's password.
pub const PASSWORD: &str = "the-servers-of-the-tests";

impl Postgres {
    /// An ordinary one.
    pub fn start() -> Self {
        Self::start_with(&Settings::default())
    }

    pub fn start_with(settings: &Settings) -> Self {
        let folder = Folder::new();
        if let Some(megabytes) = settings.small_disk {
            disk::mount(&folder, megabytes);
        }
        let data = disk::data(&folder);
        if settings.own_identity {
            initialise(&folder, &data);
        } else {
            let original = disk::data(template());
            run(command("cp")
                .args(["-a", "--reflink=auto"])
                .args([&original, &data]));
        }
        Self::start_on(folder, settings.clone())
    }

    /// Starts a server on the data that the folder already holds.
    pub(super) fn start_on(folder: Folder, settings: Settings) -> Self {
        let port = ports::free();
        if settings.with_tls {
            tls::write(&folder);
        }
        if settings.archiving {
            restore::prepare(&folder);
        }
        let mut server = Self {
            daemon: None,
            access: Access {
                address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
                log: folder.join("log"),
            },
            settings,
            folder: Arc::new(folder),
        };
        server.write_config();
        server.start_again();
        server
    }

    pub fn address(&self) -> SocketAddr {
        self.access.address
    }

    /// A fresh, empty database, gone when its value goes.
    pub fn database(&self) -> Database {
        Database::create(self.access.clone())
    }

    /// What the superuser is told in the database `postgres`: one line a row, `|` between the columns.
    pub fn query(&self, sql: &str) -> String {
        self.access.query(OWNER, sql)
    }

    /// The same, where it may fail. `Err`: what psql says.
    pub fn try_query(&self, sql: &str) -> Result<String, String> {
        self.access.try_query(OWNER, sql)
    }

    /// Sets a parameter now, for every session, and for later starts too; not one that needs a restart.
    pub fn set(&self, name: &str, value: &str) {
        self.query(&format!("ALTER SYSTEM SET {name} = '{value}'"));
        self.reload();
    }

    /// Makes it read its settings again, and returns when every new session has them.
    pub(super) fn reload(&self) {
        let last_read = || self.query("SELECT pg_conf_load_time()");
        let before = last_read();
        self.query("SELECT pg_reload_conf()");
        until("the server has read its settings again", || {
            last_read() != before
        });
    }

    /// Stops it in order (SIGINT, `fast`): sessions are ended, what they had not committed is undone.
    pub fn stop(&mut self) {
        self.running().end(Signal::INT);
        self.daemon = None;
    }

    /// Stops it at once (SIGQUIT, `immediate`): sessions hear a last word, and the next start recovers.
    pub fn stop_at_once(&mut self) {
        self.running().end(Signal::QUIT);
        self.daemon = None;
    }

    /// Kills every process of it (SIGKILL): nobody hears anything but the end of the connection.
    pub fn kill(&mut self) {
        self.running().kill();
        self.remove_shared_memory();
        self.daemon = None;
    }

    /// Starts it on the same data and port, after it was stopped or killed.
    pub fn start_again(&mut self) {
        assert!(self.daemon.is_none(), "still running");
        let mut command = command(postgres_program("postgres"));
        command.arg("-D").arg(self.data());
        self.daemon = Some(Daemon::start(&command, "QUIT", &self.access.log));
        self.until_ready();
    }

    pub fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    /// Every process of it stands still: connections stay, nothing answers.
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
        self.access.log()
    }

    /// Whose signature its certificate bears: a file in PEM. Only `with_tls`.
    pub fn authority(&self) -> PathBuf {
        assert!(self.settings.with_tls, "without TLS");
        tls::authority(&self.folder)
    }

    pub(super) fn data(&self) -> PathBuf {
        disk::data(&self.folder)
    }

    pub(super) fn running(&self) -> &Daemon {
        self.daemon.as_ref().expect("the server runs")
    }

    /// Ready for connections, which a standby is too once it is consistent.
    fn until_ready(&self) {
        let daemon = self.running();
        let pid_file = self.data().join("postmaster.pid");
        until("the server is ready", || {
            assert!(
                !daemon.is_over(),
                "the server ended at its start:\n{}",
                self.log()
            );
            let text = std::fs::read_to_string(&pid_file).unwrap_or_default();
            let lines: Vec<_> = text.lines().map(str::trim_end).collect();
            lines.first() == Some(&&*daemon.id().to_string()) && lines.get(7) == Some(&"ready")
        });
    }

    /// What a killed server leaves in the machine and would find at its next start: its data may be gone
    /// by then.
    fn remove_shared_memory(&self) {
        let text = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        let id = text
            .lines()
            .nth(6)
            .and_then(|it| it.split_whitespace().nth(1));
        run(command("ipcrm").args(["-m", id.unwrap()]));
    }

    fn write_config(&self) {
        let mut text = format!(
            "listen_addresses = '127.0.0.1'\n\
             port = {}\n\
             unix_socket_directories = ''\n\
             dynamic_shared_memory_type = mmap\n\
             log_line_prefix = '%m [%p] %d '\n",
            self.address().port()
        );
        let mut line = |name: &str, value: &str| {
            let value = value.replace('\'', "''");
            writeln!(text, "{name} = '{value}'").unwrap();
        };
        if self.settings.with_tls {
            for (name, value) in tls::lines(&self.folder) {
                line(name, &value);
            }
        }
        if self.settings.archiving {
            for (name, value) in restore::lines(&self.folder) {
                line(name, &value);
            }
        }
        for (name, value) in &self.settings.lines {
            line(name, value);
        }
        self.folder.write("own.conf", &text);
        // Read after the copied one; `ALTER SYSTEM` is read after both.
        let own = format!("include = '{}'\n", self.folder.join("own.conf").display());
        let file = self.data().join("postgresql.conf");
        std::fs::write(file, own).unwrap();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.daemon = None;
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().collect();
            let last = lines.len().saturating_sub(100);
            eprintln!("--- log of the server ---\n{}", lines[last..].join("\n"));
        }
    }
}

/// Data of a server that never ran, made once in a test process.
fn template() -> &'static Folder {
    static TEMPLATE: OnceLock<Folder> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let folder = Folder::new();
        initialise(&folder, &disk::data(&folder));
        folder
    })
}

fn initialise(folder: &Folder, data: &Path) {
    let password = folder.write("password", PASSWORD);
    run(command(postgres_program("initdb"))
        .arg("--pgdata")
        .arg(data)
        .args(["--username", OWNER, "--auth", "scram-sha-256"])
        .arg("--pwfile")
        .arg(password)
        .args(["--encoding=UTF8", "--locale=C.UTF-8"])
        // Nobody cuts the machine's power; what the server itself writes later is synced.
        .args(["--no-sync", "--no-instructions"]));
}
