//! `store export`, `import`, `take-back` and `accept-restored`.
//!
//! What always holds: what a command leaves to be done by hand is said together with what it did.
//!
//! What it does not do: start or stop instances.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::arguments::PlaceParser;
use super::failure::Failure;
use super::table::clean;
use crate::app::direct::Place;
use crate::app::moving;
use crate::config::{self, Config, DatabaseUrl};
use crate::protocol::time::Millis;
use crate::store::moving::Moved;

/// `store export`.
#[derive(Args)]
pub(super) struct Export {
    /// The register: the directory of an embedded one, on which no instance is running, or `postgres://…`, or
    /// better '${env:NAME}' or '${file:/path}', where other users do not see it.
    #[arg(long, value_name = "REGISTER", required_unless_present = "config", value_parser = PlaceParser)]
    register: Option<Place>,
    /// A config that says where the register is, what an embedded one is sealed with and how long it remembers,
    /// and whom to trust on the way to a database.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
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
    /// A database that holds no register: `postgres://…`, or better '${env:NAME}' or '${file:/path}'.
    #[arg(long, value_name = "URL", required_unless_present = "config", value_parser = PlaceParser)]
    register: Option<Place>,
    /// A config that says where it is, and whom to trust on the way to it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// `store take-back`.
#[derive(Args)]
pub(super) struct TakeBack {
    /// The register: the directory of an embedded one, or `postgres://…`, or better '${env:NAME}' or
    /// '${file:/path}'; as a role that owns its tables.
    #[arg(long, value_name = "REGISTER", required_unless_present = "config", value_parser = PlaceParser)]
    register: Option<Place>,
    /// A config that says where it is, and whom to trust on the way to a database.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// `store accept-restored`.
#[derive(Args)]
pub(super) struct AcceptRestored {
    /// The shared register: `postgres://…`, or better '${env:NAME}' or '${file:/path}'; as a role that owns
    /// its tables.
    #[arg(long, value_name = "URL", required_unless_present = "config", value_parser = PlaceParser)]
    register: Option<Place>,
    /// A config of its sidecars: nothing is admitted for as long as its longest request can take.
    #[arg(long, value_name = "FILE", required_unless_present = "quiet")]
    config: Option<PathBuf>,
    /// The longest that a request of any sidecar can take: dispatch and response.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    quiet: Option<Duration>,
}

pub(super) async fn export(export: &Export, json: bool) -> Result<String, Failure> {
    let config = export.config.as_deref().map(loaded).transpose()?;
    let place = place(export.register.as_ref(), config.as_ref())?;
    let moved = moving::export(place, config.as_ref(), &export.to).await?;
    if json {
        return Ok(told(&moved, &export.to));
    }
    Ok(format!(
        "{}\nThe register admits nothing any more. Should the file never be used anywhere: \
         `fencepost store take-back`.\n\
         The keys are not in the file: the sidecars of the new register need them, the same ones.\n{}",
        counted("exported", &moved, &export.to),
        forgotten(&moved)
    ))
}

pub(super) async fn import(import: &Import, json: bool) -> Result<String, Failure> {
    let config = import.config.as_deref().map(loaded).transpose()?;
    let url = database(import.register.as_ref(), config.as_ref())?;
    let moved = moving::import(&url, config.as_ref(), &import.from).await?;
    if json {
        return Ok(told(&moved, &import.from));
    }
    Ok(format!(
        "{}\nOperations that were under way are UNCERTAIN, and are settled once a sidecar runs.\n{}",
        counted("imported", &moved, &import.from),
        forgotten(&moved)
    ))
}

pub(super) async fn take_back(back: &TakeBack, json: bool) -> Result<String, Failure> {
    let config = back.config.as_deref().map(loaded).transpose()?;
    let place = place(back.register.as_ref(), config.as_ref())?;
    let next = match &place {
        Place::Directory(_) => "an instance may be started on it again",
        Place::Database(_) => {
            "it admits once it is accepted as it is (`fencepost store accept-restored`)"
        }
    };
    moving::take_back(place, config.as_ref(), &operator()).await?;
    if json {
        return Ok(format!("{:#}", json!({ "taken_back": true })));
    }
    Ok(format!("taken back: {next}\n"))
}

pub(super) async fn accept_restored(
    accept: &AcceptRestored,
    json: bool,
) -> Result<String, Failure> {
    let config = accept.config.as_deref().map(loaded).transpose()?;
    let url = database(accept.register.as_ref(), config.as_ref())?;
    let quiet = match (&accept.quiet, &config) {
        (Some(quiet), _) => Millis(u64::try_from(quiet.as_millis()).unwrap_or(u64::MAX)),
        (None, Some(config)) => moving::quiet_of(config),
        (None, None) => return Err(Failure::Usage("say --config or --quiet".to_owned())),
    };
    let accepted = moving::accept_restored(&url, config.as_ref(), quiet, &operator()).await?;
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

/// Who says so, as far as this machine knows.
fn operator() -> String {
    format!("the user with id {}", rustix::process::getuid().as_raw())
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
        "memories": counts.memories,
    });
    format!("{told:#}")
}

/// What to do where the file does not say how long is remembered.
fn forgotten(moved: &Moved) -> &'static str {
    if moved.counts.memories > 0 || moved.counts.operations == 0 {
        return "";
    }
    "How long answers and identities are remembered is not in the file (an export of an embedded register has \
     it of its --config, and one of before had it never): start the sidecar with the longest `remember` \
     first, or the others forget by theirs.\n"
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

fn place(register: Option<&Place>, config: Option<&Config>) -> Result<Place, Failure> {
    match (register, config) {
        (Some(place), _) => Ok(place.clone()),
        (None, Some(config)) => Ok(Place::of(config)),
        (None, None) => Err(Failure::Usage(
            "say which register with --register or --config".to_owned(),
        )),
    }
}

fn database(register: Option<&Place>, config: Option<&Config>) -> Result<DatabaseUrl, Failure> {
    match place(register, config)? {
        Place::Database(url) => Ok(url),
        Place::Directory(path) => Err(Failure::Usage(format!(
            "this is for a register in a database: {} is the directory of an embedded one",
            clean(&path.display().to_string())
        ))),
    }
}

fn loaded(file: &Path) -> Result<Config, Failure> {
    Ok(config::load(file).map_err(Failure::Config)?.0)
}
