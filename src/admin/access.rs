//! Who may use the operator API.
//!
//! What always holds: where operators are named, every request needs the token of one of them. Where
//! none are, the listener is on loopback, everybody there may read, and nobody may change anything:
//! an audit line without a name is none. Tokens are compared in constant time and never logged.
//!
//! What it does not do: TLS, roles, or sessions.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;

use super::problem::Problem;
use crate::config::Secret;
use crate::dispatch::live::Live;

/// The named operators and their tokens. Clones share them.
#[derive(Clone, Debug)]
pub struct Operators(Live<Vec<(Arc<str>, Secret)>>);

/// The operator API cannot be served there.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Everybody could reach it, and nobody is named.
    #[error(
        "the operator API is not served on {address} without operators: \
         name some under admin.operators, or listen on 127.0.0.1"
    )]
    Exposed {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be had.
    #[error("cannot listen on {address} for operators")]
    Io {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// One of the operators.
    Operator(Arc<str>),
    /// Somebody on this machine, where no operators are named.
    Anonymous,
}

/// A named operator; as an extractor it refuses everybody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operator(pub(super) Arc<str>);

/// Listens for operators. Refuses an address beyond loopback where no operators are named.
pub async fn bind(address: SocketAddr, operators: &Operators) -> Result<TcpListener, BindError> {
    if operators.is_empty() && !address.ip().is_loopback() {
        return Err(BindError::Exposed { address });
    }
    TcpListener::bind(address)
        .await
        .map_err(|source| BindError::Io { address, source })
}

/// Lets in who may come in, and notes who it is.
pub(super) async fn authenticate(
    State(operators): State<Operators>,
    mut request: Request,
    next: Next,
) -> Response {
    match operators.caller(request.headers()) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    }
}

impl Operators {
    /// Names and tokens, from the config.
    pub fn new(named: impl IntoIterator<Item = (String, Secret)>) -> Self {
        Self(Live::new(Arc::new(shared(named))))
    }

    /// From now on it is these.
    pub fn replace(&self, named: impl IntoIterator<Item = (String, Secret)>) {
        self.0.replace(Arc::new(shared(named)));
    }

    /// Is nobody named?
    pub fn is_empty(&self) -> bool {
        self.0.now().is_empty()
    }

    fn caller(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        if self.is_empty() {
            return local(headers).map(|()| Caller::Anonymous);
        }
        let Some(token) = bearer(headers) else {
            return Err(unauthorized("Bearer"));
        };
        // Every token is compared, so that the time says nothing of which one was close.
        let named = self.0.now();
        let known = named.iter().fold(None, |found, (name, secret)| {
            if secret.matches(token) {
                found.or(Some(name))
            } else {
                found
            }
        });
        known.cloned().map(Caller::Operator).ok_or_else(|| {
            tracing::warn!("a request to the operator API carried an unknown token");
            unauthorized(r#"Bearer error="invalid_token""#)
        })
    }
}

impl Default for Operators {
    fn default() -> Self {
        Self::new([])
    }
}

fn shared(named: impl IntoIterator<Item = (String, Secret)>) -> Vec<(Arc<str>, Secret)> {
    let named = named.into_iter();
    named.map(|(name, token)| (name.into(), token)).collect()
}

impl<S: Send + Sync> FromRequestParts<S> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        match parts.extensions.get::<Caller>() {
            Some(Caller::Operator(name)) => Ok(Self(name.clone())),
            Some(Caller::Anonymous) | None => Err(Problem::new(
                StatusCode::FORBIDDEN,
                "operators-required",
                "this needs a named operator, and none is configured: name one with a token under \
                 admin.operators, so that the record can say who decided",
            )),
        }
    }
}

/// The token of the one `Authorization: Bearer` field.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut fields = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(field), None) = (fields.next(), fields.next()) else {
        return None;
    };
    let (scheme, token) = field.as_bytes().split_at_checked(7)?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token)
}

/// Without tokens, a web page in a browser on this machine must not get at the API under a name of
/// its own that resolves to loopback.
pub(super) fn local(headers: &HeaderMap) -> Result<(), Problem> {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .and_then(|host| host.parse::<axum::http::uri::Authority>().ok());
    let is_local = host.is_some_and(|host| {
        let name = host.host().trim_start_matches('[').trim_end_matches(']');
        let address = name.parse::<std::net::IpAddr>();
        name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|ip| ip.is_loopback())
    });
    is_local.then_some(()).ok_or_else(|| {
        Problem::new(
            StatusCode::FORBIDDEN,
            "host-not-allowed",
            "without tokens the API answers only to localhost and loopback addresses",
        )
    })
}

fn unauthorized(challenge: &'static str) -> Problem {
    Problem::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        "send the token of an operator as `Authorization: Bearer …` (fencepost: --token, or \
         FENCEPOST_TOKEN)",
    )
    .challenge(challenge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[tokio::test]
    async fn a_listener_that_everybody_can_reach_needs_operators() {
        let anywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
        let refused = bind(anywhere, &Operators::default()).await;
        assert!(matches!(refused, Err(BindError::Exposed { .. })));
        let named = Operators::new([("alice".to_owned(), Secret::new("s"))]);
        assert!(bind(anywhere, &named).await.is_ok());
        let loopback: SocketAddr = "[::1]:0".parse().unwrap();
        let unnamed = bind(loopback, &Operators::default()).await;
        assert!(!matches!(unnamed, Err(BindError::Exposed { .. })));
    }

    #[test]
    fn only_one_well_formed_bearer_field_counts() {
        let headers = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, HeaderValue::from_static(value));
            }
            headers
        };
        assert_eq!(bearer(&headers(&["Bearer abc"])), Some(&b"abc"[..]));
        assert_eq!(bearer(&headers(&["bearer  abc "])), Some(&b"abc"[..]));
        for bad in [&["Basic abc"][..], &["Bearer "], &["Bearer"], &["abc"], &[]] {
            assert_eq!(bearer(&headers(bad)), None, "{bad:?}");
        }
        assert_eq!(bearer(&headers(&["Bearer abc", "Bearer abc"])), None);
    }
}
