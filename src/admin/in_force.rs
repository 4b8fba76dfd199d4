//! Which config is in force, since when, and what became of the last one that was to follow it.
//!
//! What always holds: what is shown is one whole state; whoever is named in it may use the API from the
//! moment that it is in force.
//!
//! What it does not do: read a config, or put one in force (`app::reload`).

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};

use super::api::Api;
use super::views::time;
use crate::config::Config;
use crate::dispatch::live::Live;
use crate::protocol::time::Moment;

/// The config in force. Clones share it.
#[derive(Clone, Debug)]
pub struct InForce(Live<Now>);

#[derive(Clone, Debug)]
struct Now {
    config: Option<Arc<Config>>,
    since: Option<Moment>,
    last_reload: Option<Reload>,
}

/// A config that was read while another was in force.
#[derive(Clone, Debug)]
pub struct Reload {
    /// When.
    pub at: Moment,
    /// What became of it.
    pub verdict: Verdict,
    /// Of the file that was read, if it could be.
    pub digest: Option<String>,
    /// Why it is not in force.
    pub reasons: Vec<String>,
}

/// What became of a config that was read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is in force.
    Applied,
    /// It has problems; the old one stays.
    Invalid,
    /// It cannot follow the old one, which stays.
    Refused,
}

/// `GET /v1/config`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigView {
    /// Digest of the config in force: SHA-256 of its file.
    pub digest: String,
    /// Since when.
    pub since: Option<String>,
    /// The last time that it was read again.
    pub last_reload: Option<ReloadView>,
}

/// What became of a config that was read while another was in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadView {
    /// When.
    pub at: String,
    /// `applied`, `invalid` or `refused`.
    pub result: String,
    /// Digest of the file that was read.
    pub digest: Option<String>,
    /// Why it is not in force.
    pub reasons: Vec<String>,
}

impl InForce {
    /// `None`: there is a register only, and nobody runs on it.
    pub fn new(config: Option<Arc<Config>>, since: Option<Moment>) -> Self {
        Self(Live::new(Arc::new(Now {
            config,
            since,
            last_reload: None,
        })))
    }

    /// The config.
    pub fn config(&self) -> Option<Arc<Config>> {
        self.0.now().config.clone()
    }

    /// Its digest; empty without one.
    pub fn digest(&self) -> String {
        let now = self.0.now();
        let digest = now.config.as_ref().map(|config| config.digest.clone());
        digest.unwrap_or_default()
    }

    /// Another one is in force from now on.
    pub fn replace(&self, config: Arc<Config>, since: Moment) {
        self.0.replace(Arc::new(Now {
            config: Some(config),
            since: Some(since),
            last_reload: self.0.now().last_reload.clone(),
        }));
    }

    /// It was read again. Answers whether that is news: the same came of the same file before.
    pub fn note(&self, reload: Reload) -> bool {
        let told = |it: &Reload| (it.verdict, it.digest.clone(), it.reasons.clone());
        let last = self.0.now().last_reload.as_ref().map(told);
        let is_news = last != Some(told(&reload));
        self.0.replace(Arc::new(Now {
            last_reload: Some(reload),
            ..(*self.0.now()).clone()
        }));
        is_news
    }

    fn view(&self) -> ConfigView {
        let now = self.0.now();
        ConfigView {
            digest: self.digest(),
            since: now.since.as_ref().map(time),
            last_reload: now.last_reload.as_ref().map(Reload::view),
        }
    }
}

impl Reload {
    pub(super) fn view(&self) -> ReloadView {
        ReloadView {
            at: time(&self.at),
            result: self.verdict.word().to_owned(),
            digest: self.digest.clone(),
            reasons: self.reasons.clone(),
        }
    }
}

impl Verdict {
    /// For logs, metrics and the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Invalid => "invalid",
            Self::Refused => "refused",
        }
    }
}

/// `GET /v1/config`.
pub(super) async fn show(State(api): State<Api>) -> Json<ConfigView> {
    Json(api.in_force.view())
}
