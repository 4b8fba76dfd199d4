//! `fencepost lease run`: a command that runs only as long as a lease is held.
//!
//! What always holds: the command begins under a lease, and is stopped, with its whole process group, before the lease
//! can be another's: SIGTERM a grace before its end, SIGKILL at its end, by a clock that counts suspend and began
//! before the lease was asked for, whatever the instance does meanwhile. A renewal that is refused stops it at once. The
//! lease is given back when nobody of the group lives any more: what the command left behind is stopped too, SIGTERM at
//! once and SIGKILL after the grace. Its exit status is ours.
//!
//! What it does not do: protect what the command sends elsewhere than through a fence. Whoever kills *this* process with
//! SIGKILL leaves the command running; its token is stale once the lease is another's.

mod group;
mod held;
mod signals;

use std::io::Write as _;
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt as _;
use std::pin::pin;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use clap::{Args, Subcommand};
use rustix::process::Signal;
use tokio::time::{sleep, timeout};

use super::failure::Failure;
use super::table::clean;
use crate::clock;
use crate::config;
use crate::protocol::time::{BootInstant, Millis};
use group::Group;
use held::Held;
use signals::Signals;

/// Looks at the clock at least so often: timers stand still while the machine sleeps.
const TICK: Millis = Millis(250);

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
    /// How long before the end of a lease that cannot be renewed the command is told to stop; a third of the ttl at
    /// most. When a renewal is refused it is killed at once.
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

pub(super) async fn run(lease: &Lease) -> Result<ExitCode, Failure> {
    let Lease::Run(run) = lease;
    let mut signals = Signals::listen().map_err(Failure::Runtime)?;
    let mut held = match begin(run, &mut signals).await? {
        ControlFlow::Continue(held) => held,
        ControlFlow::Break(signal) => return Ok(of_signal(signal)),
    };
    let environment = [
        ("FENCEPOST_RESOURCE", run.resource.as_str()),
        ("FENCEPOST_FENCING_TOKEN", held.token.as_str()),
        ("FENCEPOST_ACQUISITION", held.acquisition.as_str()),
    ];
    let mut group = match Group::start(&run.command, environment) {
        Ok(group) => group,
        Err(error) => {
            held.release().await;
            return Ok(not_started(run, &error));
        }
    };
    if let Some(why) = attend(&mut held, &mut group, &mut signals).await {
        let resource = &run.resource;
        say(&format!(
            "the lease on `{resource}` is lost: {why}; the command is stopped"
        ));
    }
    if group
        .stop(clock::boottime().after(run.grace).min(held.until))
        .await
    {
        held.release().await;
    } else {
        let resource = &run.resource;
        say(&format!(
            "what the command started cannot be killed; the lease on `{resource}` is not given back, and ends by itself"
        ));
    }
    let status = group.status().map_err(Failure::Runtime)?;
    Ok(status.map_or(of_signal(Signal::KILL), of_status))
}

/// Holds the lease, from now on for its whole time, or was told to end before. Nothing is kept then.
async fn begin<'r>(
    run: &'r Run,
    signals: &mut Signals,
) -> Result<ControlFlow<Signal, Held<'r>>, Failure> {
    let mut held = {
        let mut asked = pin!(Held::acquire(run));
        tokio::select! {
            // What was granted is to be known, to be given back.
            biased;
            held = &mut asked => held?,
            signal = signals.next() => {
                // The answer may be on its way. Whoever waits in line leaves it with his connection.
                let granted = timeout(Duration::from_millis(TICK.0), asked).await;
                if let Ok(Ok(held)) = granted {
                    held.release().await;
                }
                return Ok(ControlFlow::Break(signal));
            }
        }
    };
    let confirmed = tokio::select! {
        biased;
        signal = signals.next() => Err(signal),
        confirmed = held.confirm() => Ok(confirmed),
    };
    match confirmed {
        Ok(Ok(())) => Ok(ControlFlow::Continue(held)),
        Ok(Err(error)) => {
            held.release().await;
            Err(error.into())
        }
        Err(signal) => {
            held.release().await;
            Ok(ControlFlow::Break(signal))
        }
    }
}

/// Keeps the lease until the command ends by itself, or has to: then why.
async fn attend(held: &mut Held<'_>, group: &mut Group, signals: &mut Signals) -> Option<String> {
    // One and the same through all signals: however many there are, it is renewed when it is due.
    let mut lost = pin!(held.keep());
    loop {
        tokio::select! {
            biased;
            why = &mut lost => return Some(why),
            () = group.ended() => return None,
            // It may take its time, as long as the lease is held.
            signal = signals.next() => group.tell(signal),
        }
    }
}

/// Ends when the clock that counts suspend has come there.
async fn reached(moment: BootInstant) {
    loop {
        let left = moment.since(clock::boottime()).min(TICK);
        if left == Millis::default() {
            return;
        }
        sleep(Duration::from_millis(left.0)).await;
    }
}

/// As shells tell it.
fn not_started(run: &Run, error: &std::io::Error) -> ExitCode {
    let program = run.command.first().map_or("", String::as_str);
    say(&format!("`{program}` cannot be started: {error}"));
    match error.kind() {
        std::io::ErrorKind::NotFound => ExitCode::from(127),
        _ => ExitCode::from(126),
    }
}

fn of_status(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| signal.saturating_add(128)));
    of_code(code)
}

fn of_signal(signal: Signal) -> ExitCode {
    of_code(signal.as_raw().checked_add(128))
}

fn of_code(code: Option<i32>) -> ExitCode {
    let code = code.and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(1))
}

fn say(text: &str) {
    // Nobody is left to be told that nobody can be told; the command is attended all the same.
    let _ = writeln!(std::io::stderr(), "fencepost: {}", clean(text));
}
