//! The command line.
//!
//! What always holds: results go to standard output, everything else to standard error; exit codes
//! are 0 fine, 1 refused, 2 usage, 3 unreachable; text that came from callers cannot steer the
//! terminal.
//!
//! What it does not do: touch a register that an instance runs on. Operator commands speak to the
//! instance, or to a register without one.

mod arguments;
mod check;
pub mod demo;
mod doctor;
mod epoch;
mod explain;
mod failure;
mod instance;
mod lease;
mod leases;
mod moving;
mod operations;
mod profiles;
mod reload;
mod report;
mod resources;
pub mod serve;
mod store;
mod table;
mod version;

pub use arguments::{Demo, Serve};
pub use failure::Failure;

use std::io::Write;
use std::process::ExitCode;

use arguments::{Arguments, Command};
use clap::Parser;

use crate::telemetry::logs;

/// Parses the arguments of the process and does what they say.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(usage) => {
            // Help and version come this way too. If nobody reads it there is nobody to tell.
            let _ = usage.print();
            return u8::try_from(usage.exit_code()).map_or(ExitCode::from(2), ExitCode::from);
        }
    };
    let json = arguments.json;
    if let Command::Lease(lease) = &arguments.command {
        let status = one_thread().and_then(|thread| thread.block_on(lease::run(lease)));
        return status.unwrap_or_else(|failure| failure.report(json));
    }
    match run(arguments) {
        Ok(text) => failure::written(print(&text)),
        Err(failure) => failure.report(json),
    }
}

/// Does what the arguments say; answers what to print.
fn run(arguments: Arguments) -> Result<String, Failure> {
    let json = arguments.json;
    // After all that may log, and before anything is said of how it went.
    let _logs = logs::Finish;
    match arguments.command {
        Command::Serve(serve) => threads()?.block_on(serve::run(&serve)),
        Command::Demo(demo) => threads()?.block_on(demo::run(&demo)),
        Command::Check(check) => one_thread()?.block_on(check::run(&check, json)),
        Command::Schema => Ok(format!("{:#}", crate::config::schema())),
        Command::Explain(explain) => explain::run(&explain, json),
        Command::Profiles(command) => profiles::run(&command, json),
        Command::Operations(command) => one_thread()?.block_on(operations::run(&command, json)),
        Command::Resources(command) => one_thread()?.block_on(resources::run(&command, json)),
        Command::Leases(command) => one_thread()?.block_on(leases::run(&command, json)),
        Command::Epoch(command) => one_thread()?.block_on(epoch::run(&command, json)),
        Command::Report(command) => one_thread()?.block_on(report::run(&command, json)),
        Command::Reload(command) => one_thread()?.block_on(reload::run(&command, json)),
        Command::Doctor(command) => one_thread()?.block_on(doctor::run(&command, json)),
        Command::Store(command) => one_thread()?.block_on(store::run(&command, json)),
        Command::Version => Ok(version::text(json)),
        // Its status is the command's, and it prints nothing.
        Command::Lease(_) => Ok(String::new()),
    }
}

fn threads() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("fencepost")
        .build();
    runtime.map_err(Failure::Runtime)
}

fn one_thread() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.map_err(Failure::Runtime)
}

fn print(text: &str) -> std::io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()
}

#[cfg(test)]
mod tests;
