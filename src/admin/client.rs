//! The client of the operator API, for the command line: to a running instance, or within this process
//! to a register that none is running on.
//!
//! What always holds: no request is repeated by itself; the token goes to the one address that was
//! given and is never shown; an answer is bounded in size and time.
//!
//! What it does not do: TLS. The operator API is plain HTTP on loopback or behind something that
//! adds it.

use std::time::Duration;

use bytes::Bytes;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body::Body;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::time::timeout;
use tower::ServiceExt as _;

use super::problem::Details;
use crate::config::Secret;
use crate::protocol::time::Millis;

/// How long an answer is waited for.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Longest answer, in bytes: a page of operations, or two bodies in hex.
const ANSWER_LIMIT: usize = 64 << 20;

/// What to look at where nobody answers, by whose listener it is.
const OF_OPERATORS: &str = "is it running, and is that its `admin` address?";
const OF_WORKERS: &str =
    "is it running, with `worker: { address: … }` in its config? else `--worker URL`";

/// What may stand in a path part or a query value as it is (RFC 3986, unreserved).
const UNRESERVED: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Speaks to one operator API.
#[derive(Debug)]
pub struct AdminClient {
    instance: Authority,
    /// What to look at where nobody answers.
    remedy: &'static str,
    credential: Option<HeaderValue>,
    way: Way,
    /// An answer must be complete within this, besides a wait that was asked for.
    patience: Duration,
}

/// How requests get there.
#[derive(Debug)]
enum Way {
    Http(Client<HttpConnector, Full<Bytes>>),
    Within(axum::Router),
}

/// The instance did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// That is no address of an instance.
    #[error("`{text}` is not the address of an instance: say it like http://127.0.0.1:15000")]
    Address {
        /// What was given.
        text: String,
    },
    /// The token has bytes that no header field holds.
    #[error("the token cannot be sent: it is to be one line of printable characters")]
    Token,
    /// Nobody answered.
    #[error("no instance answers at http://{instance} ({remedy})")]
    Unreachable {
        /// Where.
        instance: Authority,
        /// What to look at.
        remedy: &'static str,
        /// Why; `None`: not in time.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// It refused.
    #[error("{} ({})", .0.detail, .0.kind)]
    Refused(Box<Details>),
    /// Somebody answered, but not an instance of Fencepost that this version understands.
    #[error("what answers at http://{instance} is not understood: {what}")]
    NotUnderstood {
        /// Where.
        instance: Authority,
        /// What is wrong with it.
        what: String,
    },
}

impl AdminClient {
    /// `address`: `http://host:port`, no path. `token`: an operator's.
    pub fn new(address: &str, token: Option<&Secret>) -> Result<Self, ClientError> {
        let wrong = || ClientError::Address {
            text: address.to_owned(),
        };
        let parts = address.parse::<Uri>().map_err(|_| wrong())?.into_parts();
        let is_bare = parts.path_and_query.is_none_or(|path| path == "/");
        let instance = match (parts.scheme, parts.authority) {
            (Some(scheme), Some(instance)) if scheme == Scheme::HTTP && is_bare => instance,
            _ => return Err(wrong()),
        };
        if instance.as_str().contains('@') {
            return Err(wrong());
        }
        let credential = token.map(credential).transpose()?;
        let http = Client::builder(TokioExecutor::new())
            .retry_canceled_requests(false)
            .build_http();
        Ok(Self {
            instance,
            remedy: OF_OPERATORS,
            credential,
            way: Way::Http(http),
            patience: TIME_LIMIT,
        })
    }

    /// Speaks to the listener for workers of an instance.
    pub fn of_worker(address: &str) -> Result<Self, ClientError> {
        let client = Self::new(address, None)?;
        Ok(Self {
            remedy: OF_WORKERS,
            ..client
        })
    }

    /// Speaks to an API in this very process.
    pub fn within(router: axum::Router, token: &Secret) -> Result<Self, ClientError> {
        Ok(Self {
            instance: Authority::from_static("localhost"),
            remedy: OF_OPERATORS,
            credential: Some(credential(token)?),
            way: Way::Within(router),
            patience: TIME_LIMIT,
        })
    }

    /// Waits no longer than this for an answer.
    #[cfg(test)]
    #[must_use]
    pub fn within_time(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// What stands at a [`path`] below `/v1`.
    pub async fn read(&self, path: &str) -> Result<Value, ClientError> {
        self.call(Method::GET, path, Bytes::new(), self.patience)
            .await
    }

    /// Asks for a change. `body`: JSON.
    pub async fn change(&self, path: &str, body: String) -> Result<Value, ClientError> {
        self.call(Method::POST, path, body.into(), self.patience)
            .await
    }

    /// Asks for a change that the instance may wait with for so long before it answers.
    pub async fn change_after(
        &self,
        path: &str,
        body: String,
        wait: Millis,
    ) -> Result<Value, ClientError> {
        let limit = self.limit_after(wait);
        self.call(Method::POST, path, body.into(), limit).await
    }

    /// An answer as the view that it is to be.
    pub fn understand<T: serde::de::DeserializeOwned>(
        &self,
        answer: &Value,
    ) -> Result<T, ClientError> {
        serde::Deserialize::deserialize(answer)
            .map_err(|error: serde_json::Error| self.not_understood(error.to_string()))
    }

    /// What an answer comes to that nobody waits for any longer.
    pub fn late(&self) -> ClientError {
        self.unreachable(None)
    }

    /// A wait that was asked for is no lateness.
    fn limit_after(&self, wait: Millis) -> Duration {
        let wait = Duration::from_millis(wait.0);
        self.patience.saturating_add(wait)
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<Value, ClientError> {
        let request = self.request(method, path, body)?;
        let (status, content) = match timeout(limit, self.exchange(request)).await {
            Ok(answered) => answered.map_err(|source| self.unreachable(Some(source)))?,
            Err(_) => return Err(self.late()),
        };
        if status == StatusCode::NO_CONTENT {
            return Ok(Value::Null);
        }
        if status.is_success() {
            return serde_json::from_slice(&content)
                .map_err(|error| self.not_understood(error.to_string()));
        }
        match serde_json::from_slice::<Details>(&content) {
            Ok(details) => Err(ClientError::Refused(Box::new(details))),
            Err(_) => Err(self.not_understood(format!("it answers {status}"))),
        }
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let path = PathAndQuery::try_from(format!("/v1{path}"));
        let uri = Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(self.instance.clone())
            .path_and_query(path.map_err(|error| self.not_understood(error.to_string()))?)
            .build()
            .map_err(|error| self.not_understood(error.to_string()))?;
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(credential) = &self.credential {
            request = request.header(header::AUTHORIZATION, credential);
        }
        request
            .body(Full::new(body))
            .map_err(|error| self.not_understood(error.to_string()))
    }

    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), Box<dyn std::error::Error + Send + Sync>> {
        match &self.way {
            Way::Http(http) => whole(http.request(request).await?).await,
            Way::Within(router) => {
                let answered = router.clone().oneshot(request.map(axum::body::Body::new));
                whole(answered.await.unwrap_or_else(|never| match never {})).await
            }
        }
    }

    fn unreachable(&self, source: Option<Box<dyn std::error::Error + Send + Sync>>) -> ClientError {
        ClientError::Unreachable {
            instance: self.instance.clone(),
            remedy: self.remedy,
            source,
        }
    }

    fn not_understood(&self, what: String) -> ClientError {
        ClientError::NotUnderstood {
            instance: self.instance.clone(),
            what,
        }
    }
}

async fn whole<B>(
    response: Response<B>,
) -> Result<(StatusCode, Bytes), Box<dyn std::error::Error + Send + Sync>>
where
    B: Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let status = response.status();
    let content = Limited::new(response.into_body(), ANSWER_LIMIT);
    Ok((status, content.collect().await?.to_bytes()))
}

fn credential(token: &Secret) -> Result<HeaderValue, ClientError> {
    let field = format!("Bearer {}", token.expose());
    let mut field = HeaderValue::try_from(field).map_err(|_| ClientError::Token)?;
    field.set_sensitive(true);
    Ok(field)
}

/// A path of encoded parts, with a query of the fields that are there.
pub fn path(parts: &[&str], query: &[(&str, Option<String>)]) -> String {
    let mut path = String::new();
    for part in parts {
        path.push('/');
        path.extend(utf8_percent_encode(part, &UNRESERVED));
    }
    let given = query
        .iter()
        .filter_map(|(name, value)| Some((name, value.as_ref()?)));
    for (index, (name, value)) in given.enumerate() {
        path.push(if index == 0 { '?' } else { '&' });
        path.push_str(name);
        path.push('=');
        path.extend(utf8_percent_encode(value, &UNRESERVED));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_in_paths_and_queries() {
        assert_eq!(
            path(
                &["operations", "stripe", "pay:a/b c%é", "resolve"],
                &[
                    ("principal", None),
                    ("resource", Some("a&b=c+d".to_owned())),
                    ("limit", Some("5".to_owned())),
                ],
            ),
            "/operations/stripe/pay%3Aa%2Fb%20c%25%C3%A9/resolve?resource=a%26b%3Dc%2Bd&limit=5"
        );
    }

    #[test]
    fn only_a_bare_http_address_is_one() {
        for good in [
            "http://127.0.0.1:15000",
            "http://localhost:1/",
            "http://[::1]:2",
        ] {
            assert!(AdminClient::new(good, None).is_ok(), "{good}");
        }
        for bad in [
            "127.0.0.1:15000",
            "https://a:1",
            "http://a:1/v1",
            "http://a:1/?x",
            "",
        ] {
            assert!(AdminClient::new(bad, None).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn nobody_there_is_told_apart_from_a_refusal() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let client = AdminClient::new(&format!("http://{address}"), None).unwrap();
        assert!(matches!(
            client.read("/status").await,
            Err(ClientError::Unreachable { .. })
        ));
        let late = |client: AdminClient| client.late().to_string();
        assert!(late(client).contains("`admin` address"));
        let of_worker = late(AdminClient::of_worker(&format!("http://{address}")).unwrap());
        assert!(!of_worker.contains("admin"), "{of_worker}");
        assert!(of_worker.contains("worker: { address"), "{of_worker}");
    }

    #[test]
    fn a_wait_that_was_asked_for_is_no_lateness() {
        let client = AdminClient::new("http://127.0.0.1:1", None).unwrap();
        let after = |wait| client.limit_after(Millis(wait));
        assert_eq!((after(0), after(60_000)), (TIME_LIMIT, TIME_LIMIT * 3));
    }

    #[tokio::test]
    async fn an_answer_counts_until_the_limit_of_its_call() {
        let late = || async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            "7"
        };
        let router = axum::Router::new().route("/v1/late", axum::routing::post(late));
        let client = AdminClient::within(router, &Secret::new("t")).unwrap();
        let ask = async |limit| {
            let body = Bytes::new();
            client.call(Method::POST, "/late", body, limit).await
        };
        assert!(matches!(
            ask(Duration::from_millis(1)).await,
            Err(ClientError::Unreachable { source: None, .. })
        ));
        assert_eq!(ask(TIME_LIMIT).await.unwrap(), 7);
        let waited = client.change_after("/late", String::new(), Millis(1)).await;
        assert_eq!(waited.unwrap(), 7);
    }
}
