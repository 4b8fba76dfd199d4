//! The real binary as a process of its own: started, asked, killed, started again.
//!
//! What always holds: only the process that this value started is ever signalled, by its own id; it
//! is gone when the value is dropped; when a test fails, its log is shown.

use std::fs::{File, OpenOptions};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::call::{Answer, Call};
use super::disk::Disk;
use super::gate::{eventually, until};
use super::setup::{OPERATOR, Setup};

/// Where it may die.
pub const FAILPOINTS: [&str; 8] = [
    "before-intent",
    "after-intent",
    "after-resend",
    "after-first-byte",
    "after-last-byte",
    "after-answer",
    "before-outcome-commit",
    "after-outcome-commit",
];

/// A proxy that serves.
pub struct Proxy {
    setup: Setup,
    child: Child,
}

impl Proxy {
    /// Starts one and waits until it is ready.
    pub fn start(setup: Setup) -> Self {
        Self::armed(setup, None)
    }

    /// The same, to die at a failpoint (`name` or `name:n`); needs the cargo feature.
    pub fn dying_at(setup: Setup, failpoint: &str) -> Self {
        Self::armed(setup, Some(failpoint))
    }

    /// Starts one that ends instead of serving, with code 1. Its log says why.
    pub fn refused(setup: Setup) -> Self {
        let child = spawn(&setup, None);
        let mut proxy = Self { setup, child };
        match proxy.becomes_ready() {
            Err(status) => assert_eq!(status.code(), Some(1), "{}", proxy.log()),
            Ok(()) => panic!("it serves"),
        }
        proxy
    }

    fn armed(setup: Setup, failpoint: Option<&str>) -> Self {
        let child = spawn(&setup, failpoint);
        let mut proxy = Self { setup, child };
        proxy.until_ready();
        proxy
    }

    /// Kill -9, now.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Asks it to end in order (SIGTERM) and waits until it has.
    pub fn stop(&mut self) -> ExitStatus {
        self.begin_to_stop();
        self.ended()
    }

    /// Asks it to end in order (SIGTERM) and does not wait.
    pub fn begin_to_stop(&self) {
        self.signal(Signal::TERM);
    }

    /// Freezes every thread of it, until `thaw`.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Waits until it stands still, because it froze itself at a failpoint for example.
    pub fn until_frozen(&self) {
        let stat = format!("/proc/{}/stat", self.child.id());
        until("the proxy is frozen", || {
            let text = std::fs::read_to_string(&stat).unwrap();
            text.rsplit(") ").next().unwrap().starts_with('T')
        });
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits until it has ended by itself, at its failpoint for example.
    pub fn ended(&mut self) -> ExitStatus {
        let child = &mut self.child;
        eventually("the proxy ends", || child.try_wait().unwrap())
    }

    /// How it has ended by itself, if it has.
    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Starts it again on the same register, config and ports.
    pub fn start_again(&mut self) {
        self.start_again_dying_at(None);
    }

    /// The same with another failpoint.
    pub fn start_again_dying_at(&mut self, failpoint: Option<&str>) {
        assert!(self.child.try_wait().unwrap().is_some(), "still running");
        self.child = spawn(&self.setup, failpoint);
        self.until_ready();
    }

    /// Starts it again and does not wait.
    pub fn begin_again(&mut self) {
        assert!(self.child.try_wait().unwrap().is_some(), "still running");
        self.child = spawn(&self.setup, None);
    }

    /// The same, for a failpoint that it may already reach while it starts. `false`: it did.
    pub fn starts_again_dying_at(&mut self, failpoint: &str) -> bool {
        assert!(self.child.try_wait().unwrap().is_some(), "still running");
        self.child = spawn(&self.setup, Some(failpoint));
        self.becomes_ready().is_ok()
    }

    /// The same with further arguments. `Err`: it ended instead.
    pub fn starts_again_with(&mut self, arguments: &[&str]) -> Result<(), ExitStatus> {
        assert!(self.child.try_wait().unwrap().is_some(), "still running");
        self.child = spawn_with(&self.setup, None, arguments);
        self.becomes_ready()
    }

    /// The disk of its register; panics unless it was set up with one that fails.
    pub fn disk(&self) -> &Disk {
        self.setup.disk().expect("set up on a disk that fails")
    }

    /// Writes the config anew, for the next start: the first such text becomes the other.
    pub fn change_config(&self, text: &str, other: &str) {
        let config = self.setup.config();
        let before = std::fs::read_to_string(&config).unwrap();
        assert!(before.contains(text), "{before}");
        std::fs::write(config, before.replacen(text, other, 1)).unwrap();
    }

    /// The directory of its register.
    pub fn register(&self) -> PathBuf {
        self.setup.register()
    }

    /// Its config.
    pub fn config(&self) -> PathBuf {
        self.setup.config()
    }

    /// Tells it to read its config again (SIGHUP).
    pub fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    /// Where operators ask.
    pub fn admin_address(&self) -> SocketAddr {
        self.setup.admin
    }

    /// Where probes ask.
    pub fn health_address(&self) -> SocketAddr {
        self.setup.health
    }

    /// What it holds in memory, in KiB.
    pub fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let number = line.unwrap().split_whitespace().nth(1);
        number.unwrap().parse().unwrap()
    }

    /// Has it ended? How?
    pub fn end(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Where workers send to.
    pub fn address(&self) -> SocketAddr {
        self.setup.listener
    }

    pub fn post(&self, path: &str) -> Call {
        self.call("POST", path)
    }

    pub fn put(&self, path: &str) -> Call {
        self.call("PUT", path)
    }

    pub fn call(&self, method: &str, path: &str) -> Call {
        Call::new(self.address(), method, path)
    }

    /// An operator's request.
    pub fn admin(&self, method: &str, path: &str) -> Call {
        Call::new(self.setup.admin, method, path)
            .field("Authorization", &format!("Bearer {}", OPERATOR.1))
    }

    /// What an operator reads; panics unless it is 200.
    pub fn read(&self, path: &str) -> Value {
        let answer = self.admin("GET", path).send();
        assert_eq!(answer.status, 200, "GET {path}: {}", answer.text());
        answer.json()
    }

    /// An endpoint of the health listener.
    pub fn health(&self, path: &str) -> Answer {
        Call::new(self.setup.health, "GET", path).send()
    }

    /// The sum of all series of a metric; 0 while there is none.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.health("/metrics").text();
        text.lines()
            .filter(|line| {
                line.strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with(['{', ' ']))
            })
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }

    /// The same of what is counted in whole numbers.
    pub fn counted(&self, name: &str) -> u64 {
        let number = self.metric(name);
        let whole = format!("{number:.0}");
        whole
            .parse()
            .unwrap_or_else(|_| panic!("{name} is {number}"))
    }

    /// Runs an operator command against this proxy, found through its config.
    pub fn command(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_fencepost"))
            .args(arguments)
            .arg("--config")
            .arg(self.setup.config())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Runs a command without its config.
    pub fn command_alone(arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_fencepost"))
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Everything it has logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.setup.log()).unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    fn until_ready(&mut self) {
        if let Err(status) = self.becomes_ready() {
            panic!("the proxy ended at its start: {status}");
        }
    }

    /// Waits until it is ready or has ended.
    fn becomes_ready(&mut self) -> Result<(), ExitStatus> {
        let Self { setup, child } = self;
        eventually("the proxy is ready", || {
            if let Some(status) = child.try_wait().unwrap() {
                return Some(Err(status));
            }
            let is_ready = TcpStream::connect(setup.health).is_ok()
                && Call::new(setup.health, "GET", "/readyz")
                    .attempt()
                    .is_ok_and(|answer| answer.status == 200);
            is_ready.then_some(Ok(()))
        })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- log of the proxy ---\n{}", self.log());
        }
    }
}

fn spawn(setup: &Setup, failpoint: Option<&str>) -> Child {
    spawn_with(setup, failpoint, &[])
}

fn spawn_with(setup: &Setup, failpoint: Option<&str>, arguments: &[&str]) -> Child {
    let log: File = OpenOptions::new()
        .create(true)
        .append(true)
        .open(setup.log())
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command
        .args(["serve", "--config"])
        .arg(setup.config())
        .args(arguments)
        .env_remove("FENCEPOST_FAILPOINT")
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    if let Some(name) = failpoint {
        command.env("FENCEPOST_FAILPOINT", name);
    }
    if let Some(disk) = setup.disk() {
        disk.stand_under(&mut command);
    }
    command.spawn().unwrap()
}
