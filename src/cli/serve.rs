//! `serve`: runs the proxy.
//!
//! What always holds: a config with errors is refused before anything listens; its warnings are on
//! standard error before the first log line.
//!
//! What it does not do: choose the order of start and stop (`app`).

use std::io::Write;

use super::Serve;
use super::failure::Failure;
use crate::config;
use crate::telemetry::logs;

/// Runs until the process is told to stop. What it answers is printed at the end.
#[expect(
    clippy::unused_async,
    reason = "the signature is settled; the proxy behind it is not assembled yet"
)]
pub async fn run(serve: &Serve) -> Result<String, Failure> {
    let (_config, warnings) = config::load(&serve.config).map_err(Failure::Config)?;
    if !warnings.list().is_empty() {
        // A start is not refused because nobody reads warnings.
        let _ = writeln!(std::io::stderr(), "{warnings}");
    }
    logs::start(&serve.log).map_err(anyhow::Error::from)?;
    Err(Failure::Service(anyhow::anyhow!("not built yet")))
}
