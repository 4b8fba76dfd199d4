//! The proxy as a process of its own: started, killed, started again on the same register.
//!
//! What always holds: a kill is SIGKILL, as a power cut or the OOM killer would; only a process that
//! this demo started is ever killed.
//!
//! What it does not do: share anything with the demo but files and sockets.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::process::{Child, Command};

use super::caller::Ask;
use crate::cli::table::shell_word;

/// The instance must be ready within this.
const READY: Duration = Duration::from_secs(30);

/// A running proxy.
pub(super) struct Proxy {
    config: PathBuf,
    log: PathBuf,
    process: Child,
    address: SocketAddr,
    payouts: SocketAddr,
    mail: SocketAddr,
    health: SocketAddr,
    worker: SocketAddr,
}

impl Proxy {
    /// Writes a config into `room` and starts this very program with it.
    pub(super) async fn start(room: &Path, upstream: SocketAddr) -> Result<Self> {
        let [address, payouts, mail] = [free_port()?, free_port()?, free_port()?];
        let [admin, health, worker] = [free_port()?, free_port()?, free_port()?];
        let config = room.join("fencepost.yaml");
        let token = room.join("token");
        std::fs::write(&token, random_token()?)
            .with_context(|| format!("cannot write {}", token.display()))?;
        let register = room.join("register");
        let text = include_str!("demo.yaml")
            .replace("@register@", &register.display().to_string())
            .replace("@admin@", &admin.to_string())
            .replace("@health@", &health.to_string())
            .replace("@worker@", &worker.to_string())
            .replace("@token@", &token.display().to_string())
            .replace("@listen@", &address.to_string())
            .replace("@payouts@", &payouts.to_string())
            .replace("@mail@", &mail.to_string())
            .replace("@upstream@", &upstream.to_string());
        std::fs::write(&config, text)
            .with_context(|| format!("cannot write {}", config.display()))?;
        let log = room.join("fencepost.log");
        let process = launch(&config, &log)?;
        let mut proxy = Self {
            config,
            log,
            process,
            address,
            payouts,
            mail,
            health,
            worker,
        };
        proxy.ready().await?;
        Ok(proxy)
    }

    /// Where callers reach it.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where callers reach the API that can be asked.
    pub(super) fn payouts(&self) -> SocketAddr {
        self.payouts
    }

    /// Where callers reach the gateway for mail.
    pub(super) fn mail(&self) -> SocketAddr {
        self.mail
    }

    /// What a person types to say that the mail of an order was sent.
    pub(super) fn resolves(&self, order: &str) -> String {
        typed(&self.resolving(order))
    }

    /// What a person types to see all operations.
    pub(super) fn lists(&self) -> String {
        let config = self.config.display().to_string();
        typed(&["operations", "list", "--config", &config].map(str::to_owned))
    }

    /// Types it for him.
    pub(super) async fn resolve(&self, order: &str) -> Result<Output> {
        let program = std::env::current_exe().context("cannot find this program")?;
        Command::new(program)
            .args(self.resolving(order))
            .stdin(Stdio::null())
            .output()
            .await
            .context("cannot run the operator's command")
    }

    fn resolving(&self, order: &str) -> Vec<String> {
        let (operation, config) = (format!("mail:{order}"), self.config.display().to_string());
        let reason = "the gateway lists it as sent";
        let words = [
            "operations",
            "resolve",
            "mail",
            &operation,
            "--verdict",
            "applied",
        ];
        let more = ["--reason", reason, "--config", &config];
        words
            .iter()
            .chain(&more)
            .map(|word| (*word).to_owned())
            .collect()
    }

    /// Where probes reach it.
    pub(super) fn health(&self) -> SocketAddr {
        self.health
    }

    /// Where workers get their leases.
    pub(super) fn worker(&self) -> SocketAddr {
        self.worker
    }

    /// SIGKILL: no destructor, no flush.
    pub(super) async fn kill(&mut self) -> Result<()> {
        self.process.kill().await.context("cannot kill the proxy")
    }

    /// Starts it again, on the same register and ports.
    pub(super) async fn restart(&mut self) -> Result<()> {
        self.process = launch(&self.config, &self.log)?;
        self.ready().await
    }

    async fn ready(&mut self) -> Result<()> {
        let waiting = async {
            loop {
                if let Some(status) = self.process.try_wait()? {
                    let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                    bail!("the proxy ended at once ({status}):\n{log}");
                }
                let probe = Ask {
                    method: http::Method::GET,
                    path: "/readyz".to_owned(),
                    headers: Vec::new(),
                    content: String::new(),
                };
                if probe
                    .send(self.health)
                    .await
                    .is_ok_and(|saw| saw.status.is_success())
                {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(READY, waiting)
            .await
            .context("the proxy is not ready after 30 s")?
    }
}

fn launch(config: &Path, log: &Path) -> Result<Child> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)?;
    Command::new(program)
        .args(["serve", "--config"])
        .arg(config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .context("cannot start the proxy")
}

/// As a person would type it.
fn typed(words: &[String]) -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("fencepost"));
    let program = program.display().to_string();
    let words = std::iter::once(&program).chain(words);
    let words: Vec<_> = words.map(|word| shell_word(word)).collect();
    words.join(" ")
}

/// An operator's token, for as long as the demo lasts.
fn random_token() -> Result<String> {
    let mut bytes = [0; 16];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| anyhow!("the system has no randomness"))?;
    Ok(u128::from_be_bytes(bytes).to_string())
}

/// A port that is free now. Somebody else may take it; then the start says so.
fn free_port() -> Result<SocketAddr> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?)
}
