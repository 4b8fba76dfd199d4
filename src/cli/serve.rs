//! `serve`: runs the proxy.
//!
//! What always holds: a config with errors is refused before anything listens; its warnings are on
//! standard error before the first log line; SIGTERM and SIGINT drain, a second one ends the drain;
//! SIGHUP reads the config again.
//!
//! What it does not do: choose the order of start and stop (`app`).

use std::io::Write;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Mutex;

use super::Serve;
use super::failure::Failure;
use crate::app::{AppError, Instance};
use crate::config;
use crate::telemetry::logs;

/// Runs until the process is told to stop. What it answers is printed at the end.
pub async fn run(serve: &Serve) -> Result<String, Failure> {
    let (config, warnings) = config::load(&serve.config).map_err(Failure::Config)?;
    if !warnings.list().is_empty() {
        // A start is not refused because nobody reads warnings.
        let _ = writeln!(std::io::stderr(), "{warnings}");
    }
    logs::start(&serve.log).map_err(anyhow::Error::from)?;
    let told = Mutex::new(Told::listen().context("signals cannot be listened to")?);
    let mut hang_up = signal(SignalKind::hangup()).context("signals cannot be listened to")?;
    let instance = Instance::start(config, &serve.config, serve.accept_restored)
        .await
        .map_err(anyhow::Error::from)?;
    let stop = async { told.lock().await.stop().await };
    let hurry = async { told.lock().await.stop().await };
    let reloader = instance.reloader();
    let reload = async {
        while hang_up.recv().await.is_some() {
            // It has said in the log what came of it.
            let _reload = reloader.reload("SIGHUP", None).await;
        }
        std::future::pending::<std::convert::Infallible>().await
    };
    tokio::select! {
        served = instance.serve(stop, hurry) => served.map_err(|why| match why {
            AppError::LeaseLost(_) => Failure::LeaseLost(why),
            _ => anyhow::Error::from(why).into(),
        })?,
        never = reload => match never {},
    }
    Ok(String::new())
}

/// SIGTERM and SIGINT.
struct Told {
    terminate: Signal,
    interrupt: Signal,
}

impl Told {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
