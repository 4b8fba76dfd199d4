//! `store export`, `import`, `take-back` and `accept-restored`.
//!
//! What always holds: what a command leaves to be done by hand is said together with what it did.
//!
//! What it does not do: start or stop instances.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::arguments::secret;
use super::failure::Failure;
use super::table::clean;
use crate::app::moving::{self, Place};
use crate::config::{self, Config, Secret};
use crate::protocol::time::Millis;
use crate::store::moving::Moved;

/// `store export`.
#[derive(Args)]
pub(super) struct Export {
    /// Directory of an embedded register, on which no instance is running.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with = "database",
        required_unless_present_any = ["config", "database"]
    )]
    register: Option<PathBuf>,
    /// A config that says where the embedded register is, and what it is sealed with.
    #[arg(long, value_name = "FILE", conflicts_with = "database")]
    config: Option<PathBuf>,
    /// URL of a shared register.
    #[arg(long, value_name = "URL", value_parser = secret)]
    database: Option<Secret>,
    /// File to write. It must not be there.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
}

/// `store import`.
#[derive(Args)]
pub(super) struct Import {
    /// File that `export` wrote.
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// URL of a database that holds no register. Better in the environment.
    #[arg(
        long,
        value_name = "URL",
        env = "FENCEPOST_DATABASE",
        hide_env_values = true,
        value_parser = secret
    )]
    database: Secret,
}

/// `store take-back`.
#[derive(Args)]
pub(super) struct TakeBack {
    /// Directory of the embedded register.
    #[arg(long, value_name = "DIR")]
    register: PathBuf,
}

/// `store accept-restored`.
#[derive(Args)]
pub(super) struct AcceptRestored {
    /// URL of the shared register. Better in the environment.
    #[arg(
        long,
        value_name = "URL",
        env = "FENCEPOST_DATABASE",
        hide_env_values = true,
        value_parser = secret
    )]
    database: Secret,
    /// A config of its sidecars: nothing is admitted for as long as its longest request can take.
    #[arg(long, value_name = "FILE", conflicts_with = "quiet")]
    config: Option<PathBuf>,
    /// The longest that a request of any sidecar can take: dispatch and response.
    #[arg(
        long,
        value_name = "DURATION",
        required_unless_present = "config",
        value_parser = humantime::parse_duration
    )]
    quiet: Option<Duration>,
}

pub(super) async fn export(export: &Export, json: bool) -> Result<String, Failure> {
    let config = export.config.as_deref().map(loaded).transpose()?;
    let place = match (&export.database, &export.register, &config) {
        (Some(url), _, _) => Place::Database(url.clone()),
        (None, Some(path), _) => Place::Directory(path.clone()),
        (None, None, Some(config)) => Place::Directory(config.register.path.clone()),
        (None, None, None) => {
            let why = "say which register with --register, --config or --database";
            return Err(Failure::Usage(why.to_owned()));
        }
    };
    let undo = match &place {
        Place::Directory(_) => "`fencepost store take-back`",
        Place::Database(_) => "`fencepost store accept-restored`",
    };
    let moved = moving::export(place, config.as_ref(), &export.to).await?;
    if json {
        return Ok(told(&moved, &export.to));
    }
    Ok(format!(
        "{}\nThe register admits nothing any more. Should the file never be used anywhere: {undo}.\n\
         The keys are not in the file: the sidecars of the new register need them, the same ones.\n",
        counted("exported", &moved, &export.to)
    ))
}

pub(super) async fn import(import: &Import, json: bool) -> Result<String, Failure> {
    let moved = moving::import(&import.database, &import.from).await?;
    if json {
        return Ok(told(&moved, &import.from));
    }
    Ok(format!(
        "{}\nOperations that were under way are UNCERTAIN, and are settled once a sidecar runs.\n",
        counted("imported", &moved, &import.from)
    ))
}

pub(super) async fn take_back(back: &TakeBack, json: bool) -> Result<String, Failure> {
    moving::take_back(back.register.clone()).await?;
    if json {
        return Ok(format!("{:#}", json!({ "taken_back": true })));
    }
    Ok("taken back: an instance may be started on it again\n".to_owned())
}

pub(super) async fn accept_restored(
    accept: &AcceptRestored,
    json: bool,
) -> Result<String, Failure> {
    let quiet = match (&accept.quiet, &accept.config) {
        (Some(quiet), _) => Millis(u64::try_from(quiet.as_millis()).unwrap_or(u64::MAX)),
        (None, Some(file)) => moving::quiet_of(&loaded(file)?),
        (None, None) => return Err(Failure::Usage("say --config or --quiet".to_owned())),
    };
    let operator = format!("the user with id {}", rustix::process::getuid().as_raw());
    let accepted = moving::accept_restored(&accept.database, quiet, &operator).await?;
    let Some(accepted) = accepted else {
        let why = "nothing speaks against the register: nothing was changed";
        return Err(Failure::Wrong(why.to_owned()));
    };
    if json {
        let told = json!({ "epoch": accepted.epoch, "quiet_ms": quiet.0 });
        return Ok(format!("{told:#}"));
    }
    Ok(format!(
        "accepted: epoch {} begins, every token of before is stale. Each sidecar counts {} ms from when it \
         hears of this; then all of them admit again.\n",
        accepted.epoch, quiet.0
    ))
}

fn told(moved: &Moved, file: &Path) -> String {
    let counts = &moved.counts;
    let told = json!({
        "file": file.display().to_string(),
        "bytes": moved.bytes,
        "operations": counts.operations,
        "events": counts.events,
        "answers": counts.answers,
        "requests": counts.requests,
        "twins": counts.twins,
        "fences": counts.fences,
    });
    format!("{told:#}")
}

fn counted(done: &str, moved: &Moved, file: &Path) -> String {
    let counts = &moved.counts;
    format!(
        "{done}: {} operations ({} answers, {} requests, {} events), {} notes, {} fences; {} is {} bytes",
        counts.operations,
        counts.answers,
        counts.requests,
        counts.events,
        counts.twins,
        counts.fences,
        clean(&file.display().to_string()),
        moved.bytes,
    )
}

fn loaded(file: &Path) -> Result<Config, Failure> {
    Ok(config::load(file).map_err(Failure::Config)?.0)
}
