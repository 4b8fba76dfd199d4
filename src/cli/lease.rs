//! `fencepost lease run`: a command that runs only as long as a lease is held.
//!
//! What always holds: the command begins under a lease, and is stopped, with its whole process group, before the lease
//! can be another's: SIGTERM a grace before its end, SIGKILL at its end, by a clock that counts suspend and began
//! before the lease was asked for. A renewal that is refused stops it at once. Its exit status is ours.
//!
//! What it does not do: protect what the command sends elsewhere than through a fence. Whoever kills *this* process with
//! SIGKILL leaves the command running; its token is stale once the lease is another's.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::json;
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal as Arriving, SignalKind, signal};
use tokio::time::{sleep, timeout};

use super::failure::Failure;
use crate::admin::client::{AdminClient, ClientError, path};
use crate::clock;
use crate::config;
use crate::protocol::time::{BootInstant, Millis};

/// Looks at the clock at least so often: timers stand still while the machine sleeps.
const TICK: Duration = Duration::from_millis(250);

/// Leases for scripts.
#[derive(Subcommand)]
pub(super) enum Lease {
    /// Hold a lease while a command runs, and stop it when the lease is lost.
    Run(Run),
}

/// `lease run`.
#[derive(Args)]
pub(super) struct Run {
    /// The resource that the command works on.
    #[arg(long, value_name = "NAME")]
    resource: String,
    /// For how long, from each renewal on: what others wait for at most after a crash.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = length)]
    ttl: Millis,
    /// How long to wait where another holds it.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = length)]
    wait: Millis,
    /// How long before the end of a lease that cannot be renewed the command is told to stop.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = length)]
    grace: Millis,
    /// Who holds it, for whoever looks; the host's name without it.
    #[arg(long, value_name = "NAME")]
    holder: Option<String>,
    /// The instance's listener for workers.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:15010")]
    worker: String,
    /// The command. Its environment has FENCEPOST_RESOURCE, FENCEPOST_FENCING_TOKEN and FENCEPOST_ACQUISITION.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<String>,
}

fn length(text: &str) -> Result<Millis, String> {
    config::pause(text).ok_or_else(|| "a duration is like 30s or 5m".to_owned())
}

/// As the instance tells it.
#[derive(Deserialize)]
struct Told {
    acquisition: String,
    token: String,
    expires_in_ms: u64,
}

/// A lease as it is held here.
struct Held<'r> {
    client: AdminClient,
    run: &'r Run,
    acquisition: String,
    until: BootInstant,
}

/// Why the command is stopped.
enum Stopped {
    Lost(String),
    Told(Signal),
}

pub(super) async fn run(lease: &Lease) -> Result<ExitCode, Failure> {
    let Lease::Run(run) = lease;
    let mut signals = Signals::listen().map_err(Failure::Runtime)?;
    let (mut held, token) = Held::acquire(run).await?;
    let mut child = start(run, &held.acquisition, &token).map_err(Failure::Runtime)?;
    let status = held.attend(&mut child, &mut signals).await;
    held.release().await;
    let status = status.map_err(Failure::Runtime)?;
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| signal.saturating_add(128)));
    let code = code.and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}

fn start(run: &Run, acquisition: &str, token: &str) -> std::io::Result<Child> {
    let (program, arguments) = match run.command.split_first() {
        Some((program, arguments)) => (program.as_str(), arguments),
        None => ("true", &[][..]),
    };
    Command::new(program)
        .args(arguments)
        .env("FENCEPOST_RESOURCE", &run.resource)
        .env("FENCEPOST_FENCING_TOKEN", token)
        .env("FENCEPOST_ACQUISITION", acquisition)
        .process_group(0)
        .spawn()
}

impl<'r> Held<'r> {
    async fn acquire(run: &'r Run) -> Result<(Self, String), Failure> {
        let client = AdminClient::new(&run.worker, None)?;
        let body = json!({
            "ttl": format!("{}ms", run.ttl.0),
            "wait": format!("{}ms", run.wait.0),
            "holder": run.holder.clone().unwrap_or_else(host),
        });
        let before = clock::boottime();
        let to = path(&["leases", &run.resource, "acquire"], &[]);
        let answer = client.change_after(&to, body.to_string(), run.wait).await?;
        let told: Told = client.understand(&answer)?;
        let held = Self {
            // The wait counts against it too: too short is safe.
            until: before.after(Millis(told.expires_in_ms)),
            client,
            run,
            acquisition: told.acquisition,
        };
        Ok((held, told.token))
    }

    /// Renews until the command ends, or has to.
    async fn attend(
        &mut self,
        child: &mut Child,
        signals: &mut Signals,
    ) -> std::io::Result<std::process::ExitStatus> {
        loop {
            let stopped = tokio::select! {
                status = child.wait() => return status,
                signal = signals.next() => Stopped::Told(signal),
                why = self.keep() => Stopped::Lost(why),
            };
            let group = child
                .id()
                .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
            let tell = |signal| {
                // Whoever is gone already needs no telling.
                let _gone = group.map(|group| kill_process_group(group, signal));
            };
            match stopped {
                // It may take its time, as long as the lease is held.
                Stopped::Told(signal) => tell(signal),
                Stopped::Lost(why) => {
                    eprintln!(
                        "fencepost: the lease on `{}` is lost: {why}; the command is stopped",
                        self.run.resource
                    );
                    tell(Signal::TERM);
                    let left = self.until.since(clock::boottime()).min(self.run.grace);
                    if let Ok(status) = timeout(Duration::from_millis(left.0), child.wait()).await {
                        tell(Signal::KILL);
                        return status;
                    }
                    tell(Signal::KILL);
                    return child.wait().await;
                }
            }
        }
    }

    /// Renews at every third of its time; ends when it is lost, or could not be renewed until a grace before its end.
    async fn keep(&mut self) -> String {
        let third = Millis((self.run.ttl.0 / 3).max(1));
        let mut due = clock::boottime().after(third);
        let mut trouble = "it was not renewed in time".to_owned();
        loop {
            sleep(TICK).await;
            let now = clock::boottime();
            if self.until.since(now) <= self.run.grace.min(third) {
                return trouble;
            }
            if now < due {
                continue;
            }
            let to = path(&["leases", &self.run.resource, "renew"], &[]);
            let body = json!({ "acquisition": self.acquisition }).to_string();
            let patience = Duration::from_millis(third.0);
            match timeout(patience, self.client.change(&to, body)).await {
                Ok(Ok(answer)) => match self.client.understand::<Told>(&answer) {
                    Ok(told) => {
                        self.until = now.after(Millis(told.expires_in_ms));
                        due = now.after(third);
                    }
                    Err(error) => trouble = error.to_string(),
                },
                Ok(Err(ClientError::Refused(details)))
                    if details.status == 412 || details.status == 410 =>
                {
                    self.until = now;
                    return details.detail;
                }
                Ok(Err(error)) => trouble = error.to_string(),
                Err(_late) => "the instance does not answer".clone_into(&mut trouble),
            }
        }
    }

    /// Best effort: what is not released ends by itself.
    async fn release(&self) {
        let to = path(&["leases", &self.run.resource, "release"], &[]);
        let body = json!({ "acquisition": self.acquisition }).to_string();
        let _released = timeout(Duration::from_secs(2), self.client.change(&to, body)).await;
    }
}

fn host() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

/// What others tell this process, for the command.
struct Signals {
    term: Arriving,
    interrupt: Arriving,
    hang_up: Arriving,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.term.recv() => Signal::TERM,
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.hang_up.recv() => Signal::HUP,
        }
    }
}
