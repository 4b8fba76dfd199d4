//! A request that can be sent as it stands.
//!
//! What always holds: method and target are those of the stored request, byte for byte behind the
//! base path; Host, Content-Length and the fields of the connection are the endpoint's and ours. What
//! cannot be said in HTTP/1.1 is found out here, before an intent exists.
//!
//! What it does not do: choose which fields a third party may see, or derive the key (`wire`).

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST};
use http::{HeaderMap, HeaderValue, Method, Request, Uri};

use super::endpoint::Endpoint;
use super::fields;
use crate::protocol::outcome::StoredRequest;

/// A request for one endpoint.
#[derive(Clone)]
pub struct Outbound {
    method: Method,
    target: Uri,
    fields: HeaderMap,
    content: Bytes,
    keep: Option<usize>,
}

/// Why a request cannot be sent. To be answered to the caller before anything is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnfitRequest {
    /// No method, or CONNECT.
    #[error("the method cannot be sent to an upstream")]
    Method,
    /// Not in origin form, or not a target.
    #[error("the target cannot be sent to an upstream")]
    Target,
    /// A field name or value that HTTP does not allow, or too many fields.
    #[error("a header field cannot be sent to an upstream")]
    Field,
    /// What goes out with every request cannot be put into it.
    #[error("the upstream's key or a reference cannot be put into it")]
    Insertion,
}

impl Outbound {
    /// Fits `request` to `endpoint`.
    pub fn new(endpoint: &Endpoint, request: &StoredRequest) -> Result<Self, UnfitRequest> {
        let method = Method::from_bytes(&request.method).map_err(|_| UnfitRequest::Method)?;
        if method == Method::CONNECT {
            return Err(UnfitRequest::Method); // a tunnel has no outcome
        }
        let target = endpoint
            .target(&request.target)
            .ok_or(UnfitRequest::Target)?;
        let mut fields = HeaderMap::with_capacity(request.fields.len().saturating_add(4));
        fields.insert(HOST, endpoint.host_header().clone());
        fields::append(&request.fields, &mut fields).map_err(|_| UnfitRequest::Field)?;
        if let Some(length) = content_length(&method, request.body.len()) {
            fields.insert(CONTENT_LENGTH, length);
        }
        if endpoint.fresh_connections() {
            fields.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(Self {
            method,
            target: Uri::from(target),
            fields,
            content: request.body.clone(),
            keep: None,
        })
    }

    /// Keeps at most so many bytes of the answer's content; never more than the pool's limit.
    pub fn keeping_at_most(mut self, bytes: usize) -> Self {
        self.keep = Some(bytes);
        self
    }

    /// Keeps as much of the answer as that one.
    pub fn keeping_as(mut self, other: &Self) -> Self {
        self.keep = other.keep;
        self
    }

    /// What is kept of the answer under the pool's `limit`.
    pub(super) fn kept_of_answer(&self, limit: usize) -> usize {
        self.keep.map_or(limit, |own| own.min(limit))
    }

    /// With this field instead of any of its name: the upstream's key, which is known only after
    /// admission.
    pub fn with_field(mut self, name: &[u8], value: &[u8]) -> Result<Self, UnfitRequest> {
        let (name, value) = fields::sendable(name, value).map_err(|_| UnfitRequest::Field)?;
        self.fields
            .try_insert(name, value)
            .map_err(|_| UnfitRequest::Field)?;
        Ok(self)
    }

    /// As hyper takes it.
    pub(super) fn into_request<B>(self, body: impl FnOnce(Bytes) -> B) -> Request<B> {
        let mut request = Request::new(body(self.content));
        *request.method_mut() = self.method;
        *request.uri_mut() = self.target;
        *request.headers_mut() = self.fields;
        request
    }
}

// Customer content never enters logs.
impl std::fmt::Debug for Outbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (fields, content) = (self.fields.len(), self.content.len());
        write!(
            f,
            "Outbound({}, {fields} fields, {content} bytes)",
            self.method
        )
    }
}

/// A method that usually has content says so even when it has none (RFC 9110 §8.6).
fn content_length(method: &Method, length: usize) -> Option<HeaderValue> {
    let expected = [Method::POST, Method::PUT, Method::PATCH].contains(method);
    (length > 0 || expected).then(|| HeaderValue::from(length))
}
