//! An operator has the config read again, and may confirm one that was refused.
//!
//! What always holds: a confirmation names the digest of exactly one config, and comes with the
//! operator's name and a reason; once begun, a reload is finished, even if the operator hangs up.
//!
//! What it does not do: read a config, judge it, or put it in force (`app::reload`).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use super::access::Operator;
use super::api::Api;
use super::comparison::ComparisonView;
use super::in_force::{Reload, ReloadView, Verdict};
use super::problem::Problem;
use super::resolve::LONGEST_REASON;

/// Reads the config again; with a confirmation, also one that was refused for want of it.
pub type Reloading =
    Arc<dyn Fn(Option<Confirmation>) -> Pin<Box<dyn Future<Output = Reload> + Send>> + Send + Sync>;

/// A person accepts that unsettled operations change their identity under a config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// Of that config and no other.
    pub digest: String,
    /// Who.
    pub operator: String,
    /// Why; never empty.
    pub reason: String,
}

/// `POST /v1/reload`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Digest of the config that is confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_identity_changes: Option<String>,
    /// Why; goes with a confirmation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a refused config is confirmed, for a person to type; or why it is not.
pub fn how_to_confirm(comparison: &ComparisonView) -> String {
    if comparison.sends_otherwise {
        return "this cannot be confirmed while one of them would be sent again otherwise than it was: \
                settle those first (`fencepost operations list`, `fencepost operations why`)"
            .to_owned();
    }
    let digest = &comparison.digest;
    format!(
        "to put it in force all the same, type: \
         fencepost reload --accept-identity-changes {digest} --reason WHY"
    )
}

/// `POST /v1/reload`: answers once it is in force, or why it is not.
pub(super) async fn reload(
    State(api): State<Api>,
    Operator(operator): Operator,
    asked: Result<Json<Asked>, JsonRejection>,
) -> Result<Json<ReloadView>, Problem> {
    let Json(asked) = asked.map_err(|error| Problem::malformed(error.body_text()))?;
    let confirmation = confirmation(asked, &operator)?;
    let Some(reloading) = api.reloading.clone() else {
        return Err(Problem::conflict(
            "no-instance",
            "no instance is running on this register: start one with the config you want",
        ));
    };
    let reloaded = api.tasks.spawn(reloading(confirmation)).await;
    let reload = reloaded.map_err(|_broken| {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "reload-broken",
            "the reload broke off: GET /v1/config says which config is in force",
        )
    })?;
    let reasons = || reload.reasons.join("; ");
    match reload.verdict {
        Verdict::Applied => Ok(Json(reload.view())),
        Verdict::Invalid => Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "config-invalid",
            reasons(),
        )),
        Verdict::Refused => Err(Problem::conflict("config-refused", reasons())),
    }
}

fn confirmation(asked: Asked, operator: &str) -> Result<Option<Confirmation>, Problem> {
    let reason = asked.reason.as_deref().map_or("", str::trim).to_owned();
    match asked.accept_identity_changes {
        None if reason.is_empty() => Ok(None),
        None => Err(Problem::malformed(
            "`reason` goes with `accept_identity_changes`: nothing else is confirmed",
        )),
        Some(_) if reason.is_empty() || reason.len() > LONGEST_REASON => Err(Problem::malformed(
            "`reason` says why it may be so, in 1 to 2000 bytes: it is kept with every operation",
        )),
        Some(digest) => Ok(Some(Confirmation {
            digest,
            operator: operator.to_owned(),
            reason,
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Option<Confirmation>, Problem> {
        confirmation(serde_json::from_str(body).unwrap(), "alice")
    }

    #[test]
    fn a_confirmation_names_a_digest_and_a_reason_or_it_is_none() {
        assert_eq!(read("{}"), Ok(None));
        let confirmed = read(r#"{"accept_identity_changes":"d2","reason":" asked the bank "}"#);
        let confirmed = confirmed.unwrap().unwrap();
        assert_eq!(
            (&*confirmed.digest, &*confirmed.operator, &*confirmed.reason),
            ("d2", "alice", "asked the bank")
        );
        for bad in [
            r#"{"accept_identity_changes":"d2"}"#,
            r#"{"accept_identity_changes":"d2","reason":" "}"#,
            r#"{"reason":"so"}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
