//! Callers: workers that send one request and say what they saw.
//!
//! What always holds: one request, one connection, no retry of their own.
//!
//! What it does not do: understand more of HTTP/1.1 than a demo needs.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Longer than anything in the story takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a worker asks for.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) content: String,
}

/// What it saw.
#[derive(Clone, Debug)]
pub(super) struct Saw {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) content: Bytes,
}

impl Ask {
    /// Publish a statement under a fencing token.
    pub(super) fn publish(account: u32, token: &str, object: &str) -> Self {
        Self {
            method: Method::PUT,
            path: format!("/accounts/{account}/statements/2026-09-13"),
            headers: vec![("fencing-token", token.to_owned())],
            content: serde_json::json!({ "object_key": object }).to_string(),
        }
    }

    /// Own the statement of an account, for a second: nobody here renews.
    pub(super) async fn own(account: u32, holder: &str, worker: SocketAddr) -> Result<String> {
        let acquire = Self {
            method: Method::POST,
            path: format!("/v1/leases/statement:{account}:2026-09-13/acquire"),
            headers: Vec::new(),
            content: serde_json::json!({ "ttl": "1s", "wait": "30s", "holder": holder })
                .to_string(),
        };
        let saw = acquire.send(worker).await?;
        let told: serde_json::Value = serde_json::from_slice(&saw.content)?;
        let token = told.get("token").and_then(|token| token.as_str());
        token
            .map(str::to_owned)
            .with_context(|| format!("{holder} was given no lease: {}", saw.words()))
    }

    /// Charge, named by the caller's own key.
    pub(super) fn charge(key: &str, amount: u32) -> Self {
        Self {
            method: Method::POST,
            path: "/charges".to_owned(),
            headers: vec![("idempotency-key", key.to_owned())],
            content: serde_json::json!({ "order": key, "amount": amount }).to_string(),
        }
    }

    /// An effect that is named by its order, without a key.
    pub(super) fn post(path: &str, order: &str) -> Self {
        Self {
            method: Method::POST,
            path: path.to_owned(),
            headers: Vec::new(),
            content: serde_json::json!({ "order": order }).to_string(),
        }
    }

    /// Sends it and reads the whole answer.
    pub(super) async fn send(&self, to: SocketAddr) -> Result<Saw> {
        tokio::time::timeout(PATIENCE, self.exchange(to))
            .await
            .context("no answer in a minute")?
    }

    async fn exchange(&self, to: SocketAddr) -> Result<Saw> {
        let stream = TcpStream::connect(to)
            .await
            .context("the proxy does not answer")?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let mut request = Request::builder()
            .method(&self.method)
            .uri(&self.path)
            .header("host", to.to_string())
            .header("content-type", "application/json");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(Bytes::from(self.content.clone())))?;
        let answered = async {
            let response = sender.send_request(request).await?;
            let (head, body) = response.into_parts();
            let content = body.collect().await?.to_bytes();
            Ok::<_, anyhow::Error>(Saw {
                status: head.status,
                headers: head.headers,
                content,
            })
        };
        tokio::select! {
            saw = answered => saw,
            ended = connection => {
                ended.context("the connection broke")?;
                bail!("the connection ended without an answer")
            }
        }
    }
}

impl Saw {
    /// In a few words.
    pub(super) fn words(&self) -> String {
        let header = |name: &str| self.headers.get(name).and_then(|value| value.to_str().ok());
        let problem = serde_json::from_slice::<serde_json::Value>(&self.content)
            .ok()
            .and_then(|value| {
                value
                    .get("type")?
                    .as_str()?
                    .rsplit(':')
                    .next()
                    .map(str::to_owned)
            });
        let mut words = self.status.as_u16().to_string();
        if let Some(problem) = problem {
            words.push(' ');
            words.push_str(&problem);
        } else if header("fencepost-provenance") == Some("operator") {
            words.push_str(", as the person said");
        } else if header("fencepost-provenance") == Some("look-up") {
            words.push_str(", found by a look-up");
        } else if header("idempotent-replayed") == Some("true") {
            words.push_str(", the saved answer");
        }
        words
    }
}
