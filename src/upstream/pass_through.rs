//! Requests that are no effects: forwarded on the stock pooled client, both ways streaming.
//!
//! What always holds: HTTP/1.1; nothing is sent twice, also not what the client could not send at
//! first; method, target and fields are the caller's, Host is the upstream's unless it is to stay the caller's too.
//!
//! What it does not do: count bytes, buffer content, bound how long an answer takes, undo codings,
//! follow redirects, or choose which fields may pass (`wire`).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tower::Service;

use super::connect::{self, Unreachable};
use super::endpoint::Endpoint;
use super::reserve::Limits;
use super::stream::Stream;

/// A client for what is no effect. Cheap to clone; clones share their connections. `B`: the content
/// of requests.
pub struct PassThrough<B = Incoming> {
    client: Client<Connector, B>,
    endpoint: Endpoint,
    /// Is a Host that the request has kept?
    keeps_host: bool,
}

/// Why there is no answer to a forwarded request.
#[derive(Debug, thiserror::Error)]
pub enum PassThroughError {
    /// The target cannot be sent.
    #[error("the target cannot be sent to an upstream")]
    Target,
    /// No connection; nothing was sent.
    #[error("the upstream cannot be reached")]
    Unreachable(#[source] legacy::Error),
    /// It may have been sent.
    #[error("the exchange with the upstream broke off")]
    Broken(#[source] legacy::Error),
}

// Derived, it would ask for content that can be cloned.
impl<B> Clone for PassThrough<B> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            endpoint: self.endpoint.clone(),
            keeps_host: self.keeps_host,
        }
    }
}

impl<B> PassThrough<B>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// A client without connections.
    pub fn new(endpoint: Endpoint, limits: &Limits) -> Self {
        let connector = Connector {
            endpoint: endpoint.clone(),
            limit: limits.connect,
        };
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(limits.idle_for)
            .pool_max_idle_per_host(limits.idle_connections)
            .http1_max_headers(limits.answer_fields)
            .retry_canceled_requests(false)
            .set_host(false)
            .build(connector);
        Self {
            client,
            endpoint,
            keeps_host: false,
        }
    }

    /// The same; what is forwarded keeps its own Host, where it has one.
    #[must_use]
    pub fn keeping_host(self) -> Self {
        Self {
            keeps_host: true,
            ..self
        }
    }

    /// Forwards `request`, whose target is in origin form. Ends with the head of the answer; its
    /// content streams.
    pub async fn send(
        &self,
        mut request: Request<B>,
    ) -> Result<Response<Incoming>, PassThroughError> {
        let target = request
            .uri()
            .path_and_query()
            .and_then(|target| self.endpoint.target(target.as_str().as_bytes()))
            .and_then(|target| absolute(&self.endpoint, target))
            .ok_or(PassThroughError::Target)?;
        *request.uri_mut() = target;
        if !(self.keeps_host && request.headers().contains_key(http::header::HOST)) {
            request
                .headers_mut()
                .insert(http::header::HOST, self.endpoint.host_header().clone());
        }
        self.client.request(request).await.map_err(|error| {
            if error.is_connect() {
                PassThroughError::Unreachable(error)
            } else {
                PassThroughError::Broken(error)
            }
        })
    }
}

/// The client keys its pool by scheme and authority; what it sends is the origin form.
fn absolute(endpoint: &Endpoint, target: PathAndQuery) -> Option<Uri> {
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(endpoint.scheme().clone());
    parts.authority = Some(endpoint.authority().clone());
    parts.path_and_query = Some(target);
    Uri::from_parts(parts).ok()
}

/// Connects to the endpoint, whatever the URI says.
#[derive(Clone, Debug)]
struct Connector {
    endpoint: Endpoint,
    limit: Duration,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream<TcpStream>>;
    type Error = Unreachable;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Unreachable>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Unreachable>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _uri: Uri) -> Self::Future {
        let Self { endpoint, limit } = self.clone();
        Box::pin(async move {
            let stream = connect::open(&endpoint, limit, |tcp| tcp).await?;
            Ok(TokioIo::new(stream))
        })
    }
}

impl<B> std::fmt::Debug for PassThrough<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PassThrough({:?})", self.endpoint)
    }
}
