//! A new config, compared with what the register holds.
//!
//! What always holds: every unsettled operation is looked at, and as many of the newest settled ones as
//! `RECENT` says. Nothing is changed; secrets that a config names are not read.
//!
//! What it does not do: judge one operation (`wire::recorded`), or put a config in force.

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use super::api::Api;
use super::problem::Problem;
use super::views::KeyView;
use crate::config::{self, Config};
use crate::protocol::ids::OperationKey;
use crate::protocol::operation::Operation;
use crate::store::{OperationQuery, Register, StoreError};
use crate::wire::recorded::{Change, Judge};

/// So many of the newest settled operations are looked at.
const RECENT: usize = 1_000;

/// Records read at once.
const PAGE: usize = 250;

/// Most operations that are listed; all are counted.
const LISTED: usize = 100;

/// States that are unsettled, by the contract's words.
const UNSETTLED: [&str; 3] = ["INTENDED", "UNCERTAIN", "NEEDS_ATTENTION"];

/// What would change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparisonView {
    /// Digest of the new config.
    pub digest: String,
    /// Operations that must not change.
    pub unsettled: CountView,
    /// Settled ones of late: a repeat of one that changes would be sent.
    pub recent: CountView,
    /// Would an unsettled one be sent again otherwise than it was? No person can accept that.
    #[serde(default)]
    pub sends_otherwise: bool,
    /// Those that change, unsettled ones first; at most 100.
    pub changes: Vec<ChangeView>,
}

/// How many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountView {
    /// Were looked at.
    pub looked_at: usize,
    /// Would change.
    pub would_change: usize,
}

/// One operation that would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeView {
    /// Which.
    #[serde(flatten)]
    pub operation: KeyView,
    /// Its recorded state.
    pub state: String,
    /// What would become of it.
    pub would: Vec<String>,
}

impl std::fmt::Display for ChangeView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            operation,
            state,
            would,
        } = self;
        let would = would.join("; ");
        write!(
            f,
            "{} {} ({state}): {would}",
            operation.upstream, operation.id
        )
    }
}

/// `POST /v1/config/compare`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// What problems of the config call it.
    pub name: String,
    /// Its text.
    pub config: String,
}

/// `POST /v1/config/compare`: with the register, and with the config in force.
pub(super) async fn compare(
    State(api): State<Api>,
    asked: Result<Json<Asked>, JsonRejection>,
) -> Result<Json<ComparisonView>, Problem> {
    let Json(asked) = asked.map_err(|error| Problem::malformed(error.body_text()))?;
    let (after, _) = config::parse_without_secrets(&asked.config, &asked.name)
        .map_err(|it| Problem::new(StatusCode::BAD_REQUEST, "config-invalid", it.to_string()))?;
    let before = api.in_force.config();
    let compared = compared(&api.register, before.as_deref(), &after).await?;
    Ok(Json(compared.view))
}

/// What would change, for people and for the register.
#[derive(Clone, Debug, Default)]
pub struct Compared {
    /// For people.
    pub view: ComparisonView,
    /// All unsettled operations that would change.
    pub changing: Vec<OperationKey>,
}

/// Looks at unsettled and at recent operations. `before`: the config in force, where there is one.
pub async fn compared(
    register: &Register,
    before: Option<&Config>,
    after: &Config,
) -> Result<Compared, StoreError> {
    let mut comparison = Comparison {
        register,
        judge: Judge::new(after, before),
        found: Compared {
            view: ComparisonView {
                digest: after.digest.clone(),
                ..ComparisonView::default()
            },
            changing: Vec::new(),
        },
    };
    for state in UNSETTLED {
        comparison.look_at(Some(state), usize::MAX).await?;
    }
    comparison.look_at(None, RECENT).await?;
    Ok(comparison.found)
}

struct Comparison<'a> {
    register: &'a Register,
    judge: Judge<'a>,
    found: Compared,
}

impl Comparison<'_> {
    async fn look_at(
        &mut self,
        state: Option<&'static str>,
        at_most: usize,
    ) -> Result<(), StoreError> {
        let mut query = OperationQuery {
            state,
            limit: PAGE,
            ..OperationQuery::default()
        };
        let mut left = at_most;
        while left > 0 {
            query.limit = PAGE.min(left);
            let page = self.register.read().operations(&query).await?;
            for operation in &page.operations {
                let is_unsettled = operation.state.is_unsettled();
                // Unsettled ones had their turn.
                if state.is_some() == is_unsettled {
                    self.judge_one(operation).await?;
                }
            }
            left = left.saturating_sub(page.operations.len());
            let Some(next) = page.next else {
                break;
            };
            query.before = Some(next);
        }
        Ok(())
    }

    async fn judge_one(&mut self, operation: &Operation) -> Result<(), StoreError> {
        // With its request goes its state: it may have been settled since the page was read.
        let stored = if operation.request_kept {
            self.register.read().operation(&operation.key, true).await?
        } else {
            None
        };
        let (operation, request) = match &stored {
            Some(stored) => (&stored.operation, stored.request.as_ref()),
            None => (operation, None),
        };
        let changes = self.judge.changes(operation, request);
        let Compared { view, changing } = &mut self.found;
        let is_unsettled = operation.state.is_unsettled();
        let count = if is_unsettled {
            &mut view.unsettled
        } else {
            &mut view.recent
        };
        count.looked_at = count.looked_at.saturating_add(1);
        if changes.is_empty() {
            return Ok(());
        }
        count.would_change = count.would_change.saturating_add(1);
        if is_unsettled {
            changing.push(operation.key.clone());
            view.sends_otherwise |= changes.iter().any(Change::sends_otherwise);
        }
        if view.changes.len() < LISTED {
            view.changes.push(ChangeView {
                operation: KeyView::of(&operation.key),
                state: operation.state.word().to_owned(),
                would: changes.iter().map(ToString::to_string).collect(),
            });
        }
        Ok(())
    }
}
