//! What a caller is sent: status, fields, content.
//!
//! What always holds: a reply holds no framing. Content-Length and the like are made anew for the
//! connection it goes out on, and where HTTP allows no content (answers to HEAD, 204, 205, 304) none
//! is sent, whatever was stored. Content is shared with the record, not copied.
//!
//! What it does not do: choose what to say (`answer`, `problem`).

use std::net::SocketAddr;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body_util::Full;
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

use super::shaped::Facts;
use crate::protocol::ids::{OperationKey, Principal};
use crate::protocol::outcome::Provenance;

/// `Fencepost-Source`: who made this reply, see [`Source`].
pub const SOURCE: HeaderName = HeaderName::from_static("fencepost-source");
/// `Fencepost-Operation`: the id of the operation that this reply is about.
pub const OPERATION: HeaderName = HeaderName::from_static("fencepost-operation");
/// `Fencepost-State`: `uncertain` on an answer that proves nothing, `stale-token` on an outcome that
/// is replayed to a caller whose token is outdated. Absent otherwise.
pub const STATE: HeaderName = HeaderName::from_static("fencepost-state");
/// `Fencepost-Completed`: when a replayed outcome was recorded, RFC 3339.
pub const COMPLETED: HeaderName = HeaderName::from_static("fencepost-completed");
/// `Fencepost-Provenance`: who said how a replayed operation ended.
pub const PROVENANCE: HeaderName = HeaderName::from_static("fencepost-provenance");
/// `Fencepost-Body: not-kept` where the answer was too large to keep.
pub const BODY: HeaderName = HeaderName::from_static("fencepost-body");
/// `Fencepost-Joined: blind-retry`: this reply is about another request, an equal one without a key.
pub const JOINED: HeaderName = HeaderName::from_static("fencepost-joined");
/// `Idempotent-Replayed: true`: this answer was given before.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Who said how an operation ended, in a word.
pub(super) fn word(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Answer => "answer",
        Provenance::LookUp => "look-up",
        Provenance::Callback => "callback",
        Provenance::Operator => "operator",
        Provenance::Void => "void",
    }
}

/// A wall clock's time.
pub(super) fn rfc3339(wall_ms: u64) -> String {
    /// The end of the year 9999; later has no such form.
    const LATEST_MS: u64 = 253_402_300_799_999;
    let at = UNIX_EPOCH + Duration::from_millis(wall_ms.min(LATEST_MS));
    humantime::format_rfc3339_millis(at).to_string()
}

/// Who made a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The upstream, just now.
    Upstream,
    /// The upstream, earlier; or whoever settled the operation.
    Stored,
    /// This proxy.
    Proxy,
}

/// A reply.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// Its fields, none of them about framing.
    pub headers: HeaderMap,
    /// Its content.
    pub body: Bytes,
    /// The problem that it tells, if it is one of the proxy's own.
    pub(super) problem: Option<Box<Facts>>,
    /// Does its `Location` say where the operation can be looked at?
    located: bool,
}

impl Reply {
    /// An empty one.
    pub fn new(status: StatusCode, source: Source) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(SOURCE, HeaderValue::from_static(source.word()));
        Self {
            status,
            headers,
            body: Bytes::new(),
            problem: None,
            located: false,
        }
    }

    /// That the operation goes on, and where it can be looked at (RFC 7240, 4.1).
    pub fn accepted(key: &OperationKey) -> Self {
        let mut reply = Self::new(StatusCode::ACCEPTED, Source::Proxy);
        let headers = &mut reply.headers;
        let applied = HeaderValue::from_static("respond-async");
        headers.insert(HeaderName::from_static("preference-applied"), applied);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        reply.about(key);
        reply.locate(key);
        let told = serde_json::json!({
            "operation": key.id.as_str(), "upstream": key.upstream.as_str(), "state": "INTENDED",
        });
        reply.body = Bytes::from(told.to_string());
        reply
    }

    /// The same where operations are looked at on a listener of its own, at this address.
    pub fn based_at(mut self, worker: Option<SocketAddr>) -> Self {
        let (true, Some(worker)) = (self.located, worker) else {
            return self;
        };
        let path = self.headers.get(LOCATION).and_then(|it| it.to_str().ok());
        let whole = path.map(|path| HeaderValue::try_from(format!("http://{worker}{path}")));
        if let Some(Ok(whole)) = whole {
            self.headers.insert(LOCATION, whole);
        }
        self
    }

    /// Adds stored fields, after those already there. Names and values came from a header map, so
    /// that all of them can be written again.
    pub fn append<'f>(&mut self, fields: impl Iterator<Item = &'f (Bytes, Bytes)>) {
        for (name, value) in fields {
            let name = HeaderName::from_bytes(name);
            let value = HeaderValue::from_maybe_shared(value.clone());
            if let (Ok(name), Ok(value)) = (name, value) {
                self.headers.append(name, value);
            }
        }
    }

    /// Names the operation.
    pub(super) fn about(&mut self, key: &OperationKey) {
        self.headers.insert(OPERATION, id_value(key));
    }

    /// Says where the operation can be looked at.
    pub(super) fn locate(&mut self, key: &OperationKey) {
        if let Ok(path) = HeaderValue::try_from(location(key)) {
            self.headers.insert(LOCATION, path);
            self.located = true;
        }
    }

    /// Has HTTP room for content in the response to a request of this method?
    pub fn may_have_content(&self, method: &Method) -> bool {
        *method != Method::HEAD
            && !matches!(
                self.status,
                StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED
            )
    }

    /// The response to a request of this method.
    pub fn into_response(self, method: &Method) -> Response<Full<Bytes>> {
        let body = if self.may_have_content(method) {
            self.body
        } else {
            Bytes::new()
        };
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

impl Source {
    fn word(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::Stored => "stored",
            Self::Proxy => "proxy",
        }
    }
}

// Customer content never enters logs.
impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Reply({}, {} fields, {} bytes)",
            self.status,
            self.headers.len(),
            self.body.len()
        )
    }
}

/// What is left as it is in a segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// A name as a segment of a path.
pub fn segment(name: &str) -> String {
    utf8_percent_encode(name, SEGMENT).to_string()
}

/// Path of an operation in the worker and operator APIs.
pub fn location(key: &OperationKey) -> String {
    let upstream = utf8_percent_encode(key.upstream.as_str(), SEGMENT);
    let id = utf8_percent_encode(key.id.as_str(), SEGMENT);
    // Others may share the id, now or later: its whole name.
    let principal = match &key.principal {
        Principal::None => "none".to_owned(),
        Principal::Hashed(digest) => format!("{:032x}", u128::from_be_bytes(*digest)),
    };
    let incarnation = key.incarnation.0;
    format!("/v1/operations/{upstream}/{id}?principal={principal}&incarnation={incarnation}")
}

/// The id as a field value: exact where it is visible ASCII, as all ids named by callers are; what
/// is not, percent-encoded.
fn id_value(key: &OperationKey) -> HeaderValue {
    const INVISIBLE: &AsciiSet = &CONTROLS.add(b' ');
    let text = utf8_percent_encode(key.id.as_str(), INVISIBLE).to_string();
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
pub(super) mod fixtures {
    use crate::protocol::ids::{
        Incarnation, OperationId, OperationKey, Principal, Tenant, UpstreamId,
    };

    pub(crate) fn operation(id: &str) -> OperationKey {
        OperationKey {
            tenant: Tenant::new("t"),
            upstream: UpstreamId::new("bank/eu"),
            principal: Principal::None,
            id: OperationId::new(id),
            incarnation: Incarnation(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fixtures::operation;
    use super::*;
    use crate::protocol::ids::Incarnation;
    use http_body::Body;

    #[test]
    fn ids_cannot_leave_their_path_segment_or_header_line() {
        for (id, path, value) in [
            ("order-1", "order-1", "order-1"),
            ("publish:a/b:7", "publish%3Aa%2Fb%3A7", "publish:a/b:7"),
            ("../../x", "..%2F..%2Fx", "../../x"),
            ("50%", "50%25", "50%"),
            ("a\r\nx: y", "a%0D%0Ax%3A%20y", "a%0D%0Ax:%20y"),
            ("é", "%C3%A9", "%C3%A9"),
        ] {
            let mut reply = Reply::new(StatusCode::OK, Source::Proxy);
            reply.about(&operation(id));
            reply.locate(&operation(id));
            let expected = format!("/v1/operations/bank%2Feu/{path}?principal=none&incarnation=0");
            assert_eq!(reply.headers[http::header::LOCATION], *expected);
            assert_eq!(reply.headers[OPERATION], value);
        }
    }

    #[test]
    fn an_address_tells_apart_whoever_shares_an_id_and_is_whole_where_it_can_be() {
        let key = OperationKey {
            principal: Principal::Hashed([0x0a; 16]),
            incarnation: Incarnation(2),
            ..operation("k")
        };
        let path = location(&key);
        let digest = "0a".repeat(16);
        let expected = format!("/v1/operations/bank%2Feu/k?principal={digest}&incarnation=2");
        assert_eq!(path, expected);
        let worker = Some("127.0.0.1:15010".parse().unwrap());
        let told = Reply::accepted(&key).based_at(worker);
        let whole = format!("http://127.0.0.1:15010{expected}");
        assert_eq!(told.headers[LOCATION], *whole);
        assert_eq!(told.headers["preference-applied"], "respond-async");
        // An upstream's own address is its own.
        let mut upstreams = Reply::new(StatusCode::CREATED, Source::Upstream);
        let own = HeaderValue::from_static("/v1/operations/x/y");
        upstreams.headers.insert(LOCATION, own.clone());
        assert_eq!(upstreams.based_at(worker).headers[LOCATION], own);
    }

    /// B26: no content where HTTP has room for none, whatever is stored.
    #[test]
    fn answers_that_cannot_have_content_have_none() {
        for (method, status, expected) in [
            (Method::POST, 200, Some(2)),
            (Method::POST, 402, Some(2)),
            (Method::HEAD, 200, Some(0)),
            (Method::DELETE, 204, Some(0)),
            (Method::PUT, 205, Some(0)),
            (Method::PUT, 304, Some(0)),
        ] {
            let mut reply = Reply::new(StatusCode::from_u16(status).unwrap(), Source::Stored);
            reply.body = Bytes::from_static(b"no");
            let response = reply.into_response(&method);
            assert_eq!(response.body().size_hint().exact(), expected, "{status}");
        }
    }
}
