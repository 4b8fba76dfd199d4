//! The report: per effect, how many requests, and what the rules found in them.
//!
//! What always holds: what is shown is what was counted, of every effect that was ever counted, also
//! under an earlier config.
//!
//! What it does not do: count (`observe`), or forget.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use super::api::Api;
use super::problem::Problem;
use super::views::wall_time;
use crate::observe::counts::{Book, Example, Finding, Found, Row, Treatment};

/// `GET /v1/report`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportView {
    /// Since when it counts; null while nothing was counted.
    pub since: Option<String>,
    /// By upstream, treatment and effect.
    pub effects: Vec<EffectView>,
    /// Requests of effects that were too many to be kept apart.
    pub beyond: u64,
}

/// One effect, treated in one way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectView {
    /// Durable id of the upstream.
    pub upstream: String,
    /// Name of the effect, like `PUT /accounts/{account}`; `unlisted`: none matched.
    pub effect: String,
    /// `enforced`: what was found was done. `observed`: it would have been. `unlisted`: there is no
    /// rule.
    pub treatment: Treatment,
    /// How many requests there were.
    pub requests: u64,
    /// What was found.
    pub found: Vec<FoundView>,
}

/// How often something was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundView {
    /// What, and of what.
    #[serde(flatten)]
    pub finding: Finding,
    /// How often.
    pub count: u64,
    /// First time.
    pub first: String,
    /// Last time.
    pub last: String,
    /// The request that it was found in last: its method, and the first half of the SHA-256 of its
    /// operation's id.
    pub example: Option<Example>,
}

pub(super) async fn show(State(api): State<Api>) -> Result<Json<ReportView>, Problem> {
    let report = api.report.as_ref().ok_or_else(|| {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "report-unreadable",
            "report.json beside the register cannot be read by this version; an instance that starts \
             sets it aside and begins another",
        )
    })?;
    Ok(Json(ReportView::of(report.book().0)))
}

impl ReportView {
    fn of(book: Book) -> Self {
        Self {
            since: Some(book.since_ms).filter(|ms| *ms > 0).map(wall_time),
            effects: book.rows.into_iter().map(EffectView::of).collect(),
            beyond: book.beyond,
        }
    }
}

impl EffectView {
    fn of(row: Row) -> Self {
        Self {
            upstream: row.upstream,
            effect: row.effect,
            treatment: row.treatment,
            requests: row.requests,
            found: row.found.into_iter().map(FoundView::of).collect(),
        }
    }
}

impl FoundView {
    fn of(found: Found) -> Self {
        Self {
            finding: found.finding,
            count: found.count,
            first: wall_time(found.first_ms),
            last: wall_time(found.last_ms),
            example: found.example,
        }
    }
}
