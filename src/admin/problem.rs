//! Refusals of the operator API: problem+json (RFC 9457) with a sentence a person can act on.
//!
//! What always holds: a refusal changed nothing; the one exception, a commit of which nobody knows,
//! says so. Nothing here quotes a credential or a body.
//!
//! What it does not do: the refusals that callers of effects get (`wire`).

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::views::KeyView;
use crate::protocol::time::Millis;
use crate::store::StoreError;

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    challenge: Option<&'static str>,
    details: Box<Details>,
}

/// The JSON of a refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// `urn:fencepost:problem:<name>`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name.
    #[serde(default)]
    pub title: String,
    /// The status again.
    #[serde(default)]
    pub status: u16,
    /// What to do.
    #[serde(default)]
    pub detail: String,
    /// The operation in question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The resource in question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// When to ask again, spread at random so that not all do at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Several operations go by this name: these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<KeyView>,
}

impl Problem {
    /// `name`: as in the documentation, kebab-case.
    pub fn new(status: StatusCode, name: &str, detail: impl Into<String>) -> Self {
        Self {
            status,
            challenge: None,
            details: Box::new(Details {
                kind: format!("urn:fencepost:problem:{name}"),
                title: name.replace('-', " "),
                status: status.as_u16(),
                detail: detail.into(),
                ..Details::default()
            }),
        }
    }

    /// 400 `malformed-request`.
    pub fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed-request", detail)
    }

    /// 409.
    pub fn conflict(name: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, name, detail)
    }

    /// The sentence.
    pub(super) fn detail(&self) -> String {
        self.details.detail.clone()
    }

    /// Could the register not do it, rather than the rules not allow it?
    pub(super) fn is_fault(&self) -> bool {
        self.status.is_server_error()
    }

    /// Names the operation.
    pub fn operation(mut self, id: &impl ToString) -> Self {
        self.details.operation = Some(id.to_string());
        self
    }

    /// Names the resource.
    pub fn resource(mut self, name: &impl ToString) -> Self {
        self.details.resource = Some(name.to_string());
        self
    }

    /// Says when to ask again, also as `Retry-After`.
    pub(super) fn retry_after(mut self, pause: Millis) -> Self {
        self.details.retry_after_ms = Some(pause.0);
        self
    }

    /// Says how to authenticate: the value of `WWW-Authenticate`.
    pub(super) fn challenge(mut self, challenge: &'static str) -> Self {
        self.challenge = Some(challenge);
        self
    }

    /// Lists operations that the name could mean.
    pub fn candidates(mut self, candidates: Vec<KeyView>) -> Self {
        self.details.candidates = candidates;
        self
    }

    /// A change whose task ended before it could tell.
    pub(super) fn broke_off(about: &str) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "commit-unknown",
            format!("it broke off; look at {about} before you repeat it"),
        )
    }

    /// The register did not answer in time.
    pub fn too_slow() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "store-unavailable",
            "the register did not answer in time; try again, and see /readyz and the log",
        )
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let (status, name, advice) = match &error {
            StoreError::Unavailable(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "store-unavailable",
                "nothing was changed; try again",
            ),
            StoreError::Poisoned(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "store-unavailable",
                "nothing was changed; look at the disk, then restart the instance",
            ),
            StoreError::CommitUnknown(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "commit-unknown",
                "look at the operation before you repeat this; repeating it does no harm",
            ),
            StoreError::Corrupt(_) | StoreError::FormatTooNew { .. } => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "register-unreadable",
                "nothing was changed",
            ),
        };
        tracing::warn!(error = %error, "an operator's request met a fault of the register");
        Self::new(status, name, format!("{error}; {advice}"))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(&*self.details)).into_response();
        let headers = response.headers_mut();
        let media = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, media);
        if let Some(challenge) = self.challenge {
            let challenge = HeaderValue::from_static(challenge);
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Some(pause) = self.details.retry_after_ms {
            let seconds = pause.div_ceil(1_000).max(1);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        } else if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
