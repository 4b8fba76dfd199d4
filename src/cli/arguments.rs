//! What can be typed.
//!
//! What always holds: a value that has a form (a state, a verdict) is parsed here, so that a mistake
//! is a usage error before anything is asked of an instance.
//!
//! What it does not do: act.

mod operators;

use std::convert::Infallible;
use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::TypedValueParser;
use clap::{Args, Parser, Subcommand};

use super::lease::Lease;
use super::moving;
use super::profiles::Profiles;
use crate::app::direct::Place;
use crate::config::Secret;
pub(super) use operators::{
    Epoch, EpochAdvance, Leases, LeasesList, OperationName, OperationResolve, OperationSettle,
    OperationShow, OperationWhy, Operations, OperationsList, OperationsResolve, ResourceAccept,
    ResourceRepair, ResourceShow, ResourceSteer, Resources, ResourcesList, VerdictWord,
};

/// A sidecar fencing proxy: at most one accepted effect per operation, given the upstream's declared
/// capability; otherwise an explicit `uncertain`, never a guess.
#[derive(Parser)]
#[command(name = "fencepost", version, arg_required_else_help = true)]
pub(super) struct Arguments {
    /// Print JSON rather than tables.
    #[arg(long, global = true)]
    pub(super) json: bool,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Subcommand)]
pub(super) enum Command {
    /// Run the proxy.
    Serve(Serve),
    /// See the story played over real sockets: a stale worker, a lost answer, a crash.
    Demo(Demo),
    /// Check config files: every problem, with line and column.
    Check(Check),
    /// Print the JSON Schema of the config, for editors and pipelines.
    Schema,
    /// Say what would be made of a request: effect, identity, resource, key, policy. Nothing is sent.
    Explain(Explain),
    /// What is known about APIs: profiles that an upstream of the config can name.
    #[command(subcommand)]
    Profiles(Profiles),
    /// Operations of a running instance, or straight of a register.
    #[command(subcommand)]
    Operations(Operations),
    /// Resources, and which generation is authoritative.
    #[command(subcommand)]
    Resources(Resources),
    /// The epoch of all tokens.
    #[command(subcommand)]
    Epoch(Epoch),
    /// What the rules found, or would have done, since counting began: per effect, from a running
    /// instance or a register that none is running on.
    Report(Report),
    /// Have a running instance read its config again; or confirm one that it refused.
    Reload(Reload),
    /// Whether effects can be admitted now; if not, why, what to compare and what to type next. From a running
    /// instance, or a register without one.
    Doctor(Doctor),
    /// Leases for scripts.
    #[command(subcommand)]
    Lease(Lease),
    /// Who owns what, and until when at most.
    #[command(subcommand)]
    Leases(Leases),
    /// The register itself.
    #[command(subcommand)]
    Store(Store),
    /// Print the version.
    Version,
}

/// `serve`.
#[derive(Args)]
pub struct Serve {
    /// The config.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Least level that is logged, or a filter like `info,fencepost::proxy=debug`.
    #[arg(
        long,
        value_name = "LEVEL",
        env = "FENCEPOST_LOG",
        default_value = "info"
    )]
    pub log: String,
    /// Use a register that may have been restored or copied. Once: it starts a new epoch, which makes
    /// every token of before stale, and nothing is admitted until what was under way must have ended.
    #[arg(long)]
    pub accept_restored: bool,
}

/// `demo`.
#[derive(Args)]
pub struct Demo {
    /// End after the table instead of serving on.
    #[arg(long)]
    pub once: bool,
}

#[derive(Args)]
pub(super) struct Check {
    /// Config files.
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Compare them with this register: whose identity would change, and what could not be settled any
    /// more. A directory on which no instance is running, or a database as for --register elsewhere.
    #[arg(long, value_name = "REGISTER", conflicts_with = "admin", value_parser = PlaceParser)]
    pub(super) against_register: Option<Place>,
    /// The same with the register and the config of a running instance, by its operator API.
    #[arg(long, value_name = "URL")]
    pub(super) admin: Option<String>,
    /// An operator's token. Better in the environment, where other users do not see it.
    #[arg(long, env = "FENCEPOST_TOKEN", hide_env_values = true, value_parser = secret)]
    pub(super) token: Option<Secret>,
}

#[derive(Args)]
pub(super) struct Explain {
    /// The config.
    #[arg(long, value_name = "FILE")]
    pub(super) config: PathBuf,
    /// The upstream, where host and port of the request do not say it.
    #[arg(long, value_name = "NAME")]
    pub(super) upstream: Option<String>,
    /// The certificate (PEM) that the caller shows, where the request does not say it (--cert). It is read
    /// and not verified.
    #[arg(long, value_name = "FILE")]
    pub(super) client_cert: Option<PathBuf>,
    /// As for curl (-X, -H, -d, --cert, URL), or @FILE with a captured HTTP/1.1 request. With --and and another
    /// one: are they one operation?
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "REQUEST"
    )]
    pub(super) request: Vec<String>,
}

#[derive(Args)]
pub(super) struct Doctor {
    #[command(flatten)]
    pub(super) instance: Instance,
}

#[derive(Args)]
pub(super) struct Report {
    #[command(flatten)]
    pub(super) instance: Instance,
}

#[derive(Args)]
pub(super) struct Reload {
    /// Digest of the config that the instance refused: it is to be put in force although unsettled
    /// operations change their identity, and repeats of them will be new operations and sent.
    #[arg(long, value_name = "DIGEST", requires = "reason")]
    pub(super) accept_identity_changes: Option<String>,
    /// Why that may be; kept with every operation that changes.
    #[arg(long, requires = "accept_identity_changes")]
    pub(super) reason: Option<String>,
    #[command(flatten)]
    pub(super) instance: Instance,
}

#[derive(Args)]
pub(super) struct Page {
    /// At most so many, up to 500.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub(super) limit: u16,
    /// Go on after an earlier page.
    #[arg(long, value_name = "NEXT")]
    pub(super) after: Option<String>,
}

#[derive(Subcommand)]
pub(super) enum Store {
    /// Copy the register, also while an instance is running on it. The key is not copied: keep it
    /// elsewhere, and apart from the copy.
    Backup(StoreBackup),
    /// Give the pages of a stopped register their checksums anew, after another program wrote to its file:
    /// `sqlite3` without `-readonly`, after a crash. What is damaged otherwise is refused. Not for a register
    /// whose disk failed: there, put a backup in its place.
    Mend(Which),
    /// Make the tables of a register in PostgreSQL, or bring them up to date. `serve` does so too, unless
    /// `register.postgres.migrate` is false.
    Migrate(StoreMigrate),
    /// Write everything in a register to a file, to move it. It admits nothing any more.
    Export(moving::Export),
    /// Make a register in PostgreSQL out of such a file.
    Import(moving::Import),
    /// Use a register again that was exported: only if the file is used nowhere, and never will be. One in
    /// PostgreSQL is accepted then as one that was restored.
    TakeBack(moving::TakeBack),
    /// Use a register in PostgreSQL as it is, although it may have lost commits. It starts a new epoch, which
    /// makes every token of before stale, and nothing is admitted until what was under way must have ended.
    AcceptRestored(moving::AcceptRestored),
}

#[derive(Args)]
pub(super) struct StoreMigrate {
    /// A config with the register's keys, and its database.
    #[arg(long, value_name = "FILE")]
    pub(super) config: PathBuf,
    /// The same database by a role that may make tables: `postgres://…`, or better '${env:NAME}' or
    /// '${file:/path}', where other users do not see it.
    #[arg(long, value_name = "URL", value_parser = PlaceParser)]
    pub(super) register: Option<Place>,
}

#[derive(Args)]
pub(super) struct StoreBackup {
    #[command(flatten)]
    pub(super) which: Which,
    /// File to copy to. It must not be there.
    #[arg(long, value_name = "FILE")]
    pub(super) to: PathBuf,
}

/// Which register.
#[derive(Args)]
pub(super) struct Which {
    /// Directory of the register.
    #[arg(
        long,
        value_name = "DIR",
        required_unless_present = "config",
        conflicts_with = "config",
        value_parser = PlaceParser
    )]
    pub(super) register: Option<Place>,
    /// A config that says where the register is.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
}

/// How to reach a running instance, or a register without one.
#[derive(Args, Clone)]
pub(super) struct Instance {
    /// Its operator API. Default: http://127.0.0.1:15000.
    #[arg(long, value_name = "URL")]
    pub(super) admin: Option<String>,
    /// Find the operator API, and the token if there is one operator only, in its config.
    #[arg(long, value_name = "FILE", conflicts_with = "admin")]
    pub(super) config: Option<PathBuf>,
    /// An operator's token. Better in the environment, where other users do not see it.
    #[arg(long, env = "FENCEPOST_TOKEN", hide_env_values = true, value_parser = secret)]
    pub(super) token: Option<Secret>,
    /// Work straight on a register: the directory of one that no instance is running on, or a database
    /// (`postgres://…`, '${env:NAME}', '${file:/path}'), beside its sidecars. Together with --config, tenant,
    /// keys, witness and TLS are taken from there.
    #[arg(long, value_name = "REGISTER", conflicts_with = "admin", value_parser = PlaceParser)]
    pub(super) register: Option<Place>,
    /// Whose operations, with --register alone.
    #[arg(
        long,
        value_name = "NAME",
        requires = "register",
        conflicts_with = "config"
    )]
    pub(super) tenant: Option<String>,
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "the shape of a value parser; every text is a token"
)]
pub(super) fn secret(text: &str) -> Result<Secret, Infallible> {
    Ok(Secret::new(text))
}

/// Reads where a register is. What is typed may hold a password: a complaint does not repeat it.
#[derive(Clone)]
pub(super) struct PlaceParser;

impl TypedValueParser for PlaceParser {
    type Value = Place;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Place, clap::Error> {
        let Some(text) = value.to_str() else {
            return Ok(Place::Directory(value.into()));
        };
        let usage = |why: String| {
            let kind = clap::error::ErrorKind::ValueValidation;
            clap::Error::raw(kind, format!("{why}\n")).with_cmd(command)
        };
        text.parse().map_err(usage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn mistakes_are_usage_errors() {
        for bad in [
            "fencepost operations list --state done",
            "fencepost operations list --limit 0",
            "fencepost operations resolve bank pay-1 --verdict maybe --reason x",
            "fencepost operations resolve bank pay-1 --verdict applied",
            "fencepost operations resolve bank pay-1 --verdict not-applied --reason x",
            "fencepost operations resolve-all --verdict applied --reason x",
            "fencepost operations resolve-all --upstream bank --verdict applied",
            "fencepost operations resolve-all --upstream bank --state completed --verdict applied --reason x",
            "fencepost operations settle bank pay-1 --send",
            "fencepost resources cancel account:1",
            "fencepost resources advance --reason x",
            "fencepost resources show",
            "fencepost check",
            "fencepost check f.yaml --against-register /r --admin http://a:1",
            "fencepost serve",
            "fencepost reload --accept-identity-changes d",
            "fencepost reload --reason so",
            "fencepost resources list --admin http://a:1 --config f.yaml",
            "fencepost resources list --admin http://a:1 --register /r",
            "fencepost resources list --tenant t",
            "fencepost store migrate --register postgres://u@h/x",
            "fencepost resources list --register postgres:///x",
            "fencepost store backup --to f",
            "fencepost store backup --register /r",
            "fencepost store backup --register /r --config f.yaml --to f",
            "fencepost store export --to f",
            "fencepost store export --register /r",
            "fencepost store import --from f",
            "fencepost store take-back",
            "fencepost store accept-restored --register postgres://h/d",
            "fencepost store accept-restored --quiet 1m",
        ] {
            match Arguments::try_parse_from(bad.split(' ')) {
                Err(usage) => assert_eq!(usage.exit_code(), 2, "{bad}"),
                Ok(_) => panic!("{bad}"),
            }
        }
    }

    #[test]
    fn a_complaint_about_a_database_does_not_show_its_password() {
        let bad = "fencepost resources list --register postgres://u:hunter2@h:port/x";
        let Err(usage) = Arguments::try_parse_from(bad.split(' ')) else {
            panic!("accepted");
        };
        assert!(!usage.to_string().contains("hunter2"), "{usage}");
        assert_eq!(usage.exit_code(), 2);
    }

    #[test]
    fn json_may_stand_anywhere() {
        for good in [
            "fencepost --json version",
            "fencepost version --json",
            "fencepost operations show bank pay-1 --json --principal none",
        ] {
            assert!(
                Arguments::try_parse_from(good.split(' ')).is_ok_and(|a| a.json),
                "{good}"
            );
        }
    }
}
