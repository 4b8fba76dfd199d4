//! Which header fields travel, in either direction.
//!
//! What always holds: fields that belong to one connection stay on it (RFC 9110, 7.6.1), those that
//! `Connection` names too; framing is made anew on each side; our own fields and whatever tells a
//! third party about the inside of a network do not leave. Our fields are set *after* this, so that a
//! caller's `Connection: Idempotency-Key` cannot strip them. Order, duplicates and bytes of all else
//! are kept.
//!
//! What it does not do: let single fields through by route (a later version).

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::protocol::outcome::{Fields, StoredRequest};

/// Of one connection. `proxy-*` are between a client and its next proxy.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Made anew for each message that is sent. `expect` is ours to answer: content is read before a
/// request goes out.
const FRAMING: [&str; 3] = ["content-length", "expect", "host"];

/// What tells a third party about the network behind us; some of them refuse a request for it, and
/// some deduplicate by `x-request-id`.
const REVEALING: [&str; 5] = [
    "forwarded",
    "proxy-authorization",
    "via",
    "x-real-ip",
    "x-request-id",
];

/// The bytes of a request as they are kept to be sent: once now, and again should it come to that.
/// `withheld`: names of our own beyond `Fencing-*` and `Fencepost-*`, as configured.
pub fn stored_request(head: &Parts, body: Bytes, withheld: &[HeaderName]) -> StoredRequest {
    let target = head
        .uri
        .path_and_query()
        .map_or("/", |target| target.as_str());
    StoredRequest {
        method: Bytes::copy_from_slice(head.method.as_str().as_bytes()),
        target: Bytes::copy_from_slice(target.as_bytes()),
        fields: outbound(&head.headers, withheld)
            .map(|(name, value)| {
                (
                    Bytes::copy_from_slice(name.as_str().as_bytes()),
                    Bytes::copy_from_slice(value.as_bytes()),
                )
            })
            .collect(),
        body,
    }
}

/// The fields to send: what is stored, and the key, which is not.
pub fn with_key(request: &StoredRequest, key: Option<(&HeaderName, &str)>) -> Fields {
    let mut fields = request.fields.clone();
    if let Some((name, key)) = key {
        fields.push((
            Bytes::copy_from_slice(name.as_str().as_bytes()),
            Bytes::copy_from_slice(key.as_bytes()),
        ));
    }
    fields
}

/// The fields of a request that is no effect, on their way out.
pub fn pass_on(headers: &HeaderMap, withheld: &[HeaderName]) -> HeaderMap {
    let length = length_of_nothing(headers).into_iter();
    outbound(headers, withheld)
        .chain(length)
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The fields of a request that is only observed: as its caller sent them, so that its upstream sees
/// what it would see without us. What belongs to one connection stays on it all the same, and what is
/// for us is for nobody else. `ours`: names of our own beyond `Fencing-*` and `Fencepost-*`.
pub fn as_sent(headers: &HeaderMap, ours: &[HeaderName]) -> HeaderMap {
    let nominated = Nominated::by(headers);
    let stays = |name: &HeaderName| {
        let text = name.as_str();
        is_hop_by_hop(text)
            || FRAMING.contains(&text)
            || text == "proxy-authorization"
            || is_ours(text)
            || nominated.contain(text)
            || ours.contains(name)
    };
    let travels = headers.iter().filter(|(name, _)| !stays(name));
    travels
        .chain(length_of_nothing(headers))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The fields of a request to the worker, from whoever asks it: all but what belongs to one connection.
pub fn to_worker(headers: &HeaderMap) -> HeaderMap {
    let nominated = Nominated::by(headers);
    let stays = |name: &HeaderName| {
        let text = name.as_str();
        let is_framing = FRAMING.contains(&text) && *name != HOST;
        is_hop_by_hop(text) || is_framing || nominated.contain(text)
    };
    let travels = headers.iter().filter(|(name, _)| !stays(name));
    travels
        .chain(length_of_nothing(headers))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Framing is made anew where a request is forwarded, and leaves out a length of nothing; some servers
/// ask for it (411).
fn length_of_nothing(headers: &HeaderMap) -> Option<(&HeaderName, &HeaderValue)> {
    let (name, value) = headers.iter().find(|(name, _)| **name == CONTENT_LENGTH)?;
    let alone = headers.get_all(CONTENT_LENGTH).iter().count() == 1;
    (alone && value == "0").then_some((name, value))
}

/// Fields that carry a credential wherever they stand. Others may too; what is not known as one does
/// not open a stored answer.
const CREDENTIALS: [&str; 6] = [
    "api-key",
    "authorization",
    "cookie",
    "x-api-key",
    "x-auth-token",
    "x-access-token",
];

/// Does the caller show a credential? Which one is the upstream's affair: they rotate.
pub fn carries_credential(headers: &HeaderMap) -> bool {
    CREDENTIALS
        .iter()
        .any(|name| headers.get(*name).is_some_and(|value| !value.is_empty()))
}

/// The fields of an answer to a request that was no effect, on their way back. A length without
/// content is kept: it says what a GET would have brought.
pub fn pass_back(headers: &HeaderMap, method: &Method, status: StatusCode) -> HeaderMap {
    back(headers, method, status, answers)
}

/// The same of an answer of the worker to whoever asked it: what it says of us is its own affair.
pub fn from_worker(headers: &HeaderMap, method: &Method, status: StatusCode) -> HeaderMap {
    let travels = |name: &str| !(is_hop_by_hop(name) || FRAMING.contains(&name));
    back(headers, method, status, travels)
}

fn back(
    headers: &HeaderMap,
    method: &Method,
    status: StatusCode,
    travels: fn(&str) -> bool,
) -> HeaderMap {
    let bare = *method == Method::HEAD || status == StatusCode::NOT_MODIFIED;
    let nominated = Nominated::by(headers);
    headers
        .iter()
        .filter(|(name, _)| (bare && **name == CONTENT_LENGTH) || travels(name.as_str()))
        .filter(|(name, _)| !nominated.contain(name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// May a field of an answer reach the caller? It must not pose as ours.
pub fn answers(name: &str) -> bool {
    !(is_hop_by_hop(name) || FRAMING.contains(&name) || is_ours(name))
}

fn outbound<'a>(
    headers: &'a HeaderMap,
    withheld: &'a [HeaderName],
) -> impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)> {
    let nominated = Nominated::by(headers);
    headers.iter().filter(move |(name, _)| {
        let text = name.as_str();
        let stays = is_hop_by_hop(text)
            || FRAMING.contains(&text)
            || is_revealing(text)
            || is_ours(text)
            || nominated.contain(text)
            || withheld.contains(name);
        !stays
    })
}

fn is_hop_by_hop(name: &str) -> bool {
    HOP_BY_HOP.contains(&name)
}

fn is_revealing(name: &str) -> bool {
    name.starts_with("x-forwarded-") || REVEALING.contains(&name)
}

fn is_ours(name: &str) -> bool {
    name.starts_with("fencing-") || name.starts_with("fencepost-")
}

/// What the `Connection` fields of a message name.
struct Nominated(Vec<String>);

impl Nominated {
    fn by(headers: &HeaderMap) -> Self {
        let values = headers.get_all(CONNECTION).iter();
        // Byte by byte: one name that cannot be read does not undo the others.
        let names = values
            .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
            .filter_map(|name| std::str::from_utf8(name.trim_ascii()).ok())
            .map(str::to_ascii_lowercase);
        Self(names.collect())
    }

    fn contain(&self, name: &str) -> bool {
        self.0.iter().any(|nominated| nominated == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::put("/a/b?c=%20d");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn sent(fields: &[(&str, &str)], withheld: &[HeaderName]) -> Vec<(String, String)> {
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        stored_request(&head(fields), Bytes::new(), withheld)
            .fields
            .iter()
            .map(|(name, value)| (text(name), text(value)))
            .collect()
    }

    /// D04, D25, and the contract's §6.
    #[test]
    fn what_must_not_leave_does_not() {
        let kept = [("authorization", "Bearer x"), ("traceparent", "00-1-2-01")];
        let mut all: Vec<(&str, &str)> = kept.to_vec();
        all.extend([
            ("X-Forwarded-For", "10.0.0.1"),
            ("X-Forwarded-Host", "inside"),
            ("X-Forwarded-Proto", "http"),
            ("X-Real-IP", "10.0.0.1"),
            ("X-Request-Id", "1"),
            ("Forwarded", "for=10.0.0.1"),
            ("Via", "1.1 mesh"),
            ("Proxy-Authorization", "Basic x"),
            ("proxy-authorization", "Basic y"),
            ("Proxy-Connection", "keep-alive"),
            ("Connection", "close, X-Hop"),
            ("connection", "x-other"),
            ("X-Hop", "1"),
            ("X-Other", "1"),
            ("Keep-Alive", "timeout=5"),
            ("TE", "trailers"),
            ("Trailer", "x"),
            ("Transfer-Encoding", "chunked"),
            ("Upgrade", "h2c"),
            ("HTTP2-Settings", "x"),
            ("Content-Length", "0"),
            ("Expect", "100-continue"),
            ("Host", "127.0.0.1"),
            ("Fencing-Token", "108"),
            ("Fencing-Anything", "x"),
            ("Fencepost-Operation", "x"),
            ("Idempotency-Key", "caller"),
        ]);
        let key = HeaderName::from_static("idempotency-key");
        let expected: Vec<_> = kept
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        assert_eq!(sent(&all, std::slice::from_ref(&key)), expected);
        let passed = pass_on(&head(&all).headers, &[]);
        assert_eq!(passed.len(), 4);
        assert_eq!(passed[CONTENT_LENGTH], "0");
        assert_eq!(passed[key], "caller");
    }

    #[test]
    fn what_is_only_observed_keeps_all_that_its_caller_would_have_sent() {
        let kept = [
            ("idempotency-key", "caller"),
            ("x-request-id", "1"),
            ("x-forwarded-for", "10.0.0.1"),
            ("via", "1.1 mesh"),
            ("x-b", "2"),
            ("x-b", "1"),
            ("content-length", "0"),
        ];
        let mut all: Vec<(&str, &str)> = kept.to_vec();
        all.extend([
            ("Connection", "close, X-Hop"),
            ("X-Hop", "1"),
            ("Fencing-Token", "108"),
            ("X-Generation", "108"),
            ("Proxy-Authorization", "Basic x"),
        ]);
        let ours = HeaderName::from_static("x-generation");
        let sent = as_sent(&head(&all).headers, std::slice::from_ref(&ours));
        let sent: Vec<_> = sent
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        assert_eq!(sent, kept);
    }

    #[test]
    fn duplicates_order_and_bytes_are_kept() {
        let fields = [
            ("x-b", "2"),
            ("x-a", "1"),
            ("x-b", " 3 ,, 4"),
            ("cookie", "a=b; c=d"),
        ];
        let fields = sent(&fields, &[]);
        let values: Vec<_> = fields
            .iter()
            .filter(|(name, _)| name == "x-b")
            .map(|(_, value)| value.as_str())
            .collect();
        assert_eq!(values, ["2", " 3 ,, 4"]);
        assert_eq!(fields.len(), 4);
        let stored = stored_request(&head(&[]), Bytes::from_static(b"x"), &[]);
        assert_eq!(stored.method, "PUT");
        assert_eq!(stored.target, "/a/b?c=%20d");
        assert_eq!(stored.body, "x");
    }

    #[test]
    fn a_connection_field_cannot_strip_our_key() {
        let name = HeaderName::from_static("idempotency-key");
        let head = head(&[
            ("Connection", "Idempotency-Key"),
            ("Idempotency-Key", "callers"),
        ]);
        let stored = stored_request(&head, Bytes::new(), std::slice::from_ref(&name));
        assert_eq!(stored.fields, []);
        let fields = with_key(&stored, Some((&name, "ours")));
        let ours = (
            Bytes::from_static(b"idempotency-key"),
            Bytes::from_static(b"ours"),
        );
        assert_eq!(fields, [ours]);
        assert_eq!(with_key(&stored, None), []);
    }

    #[test]
    fn on_the_way_to_the_worker_and_back_only_what_is_of_one_connection_stays() {
        let kept = [
            ("host", "worker.internal"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-request-id", "1"),
            ("traceparent", "00-1-2-01"),
            ("fencing-token", "108"),
            ("proxy-authorization", "Basic x"),
            ("content-length", "0"),
        ];
        let mut all: Vec<(&str, &str)> = kept.to_vec();
        all.extend([
            ("Connection", "close, X-Hop"),
            ("X-Hop", "1"),
            ("Transfer-Encoding", "chunked"),
            ("Expect", "100-continue"),
            ("Upgrade", "h2c"),
        ]);
        let there = to_worker(&head(&all).headers);
        let there: Vec<_> = there
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        assert_eq!(there, kept);
        let answer = [("Fencepost-Source", "stored"), ("Keep-Alive", "x")];
        let back = from_worker(&head(&answer).headers, &Method::GET, StatusCode::OK);
        assert_eq!(back.len(), 1);
        assert_eq!(back["fencepost-source"], "stored");
    }

    #[test]
    fn answers_lose_their_framing_and_cannot_pose_as_ours() {
        let headers = head(&[
            ("Content-Type", "text/plain"),
            ("Content-Length", "500"),
            ("Transfer-Encoding", "chunked"),
            ("Connection", "x-hop"),
            ("X-Hop", "1"),
            ("Via", "1.1 cdn"),
            ("Set-Cookie", "a"),
            ("Set-Cookie", "b"),
            ("Fencepost-Source", "stored"),
        ])
        .headers;
        let back = pass_back(&headers, &Method::GET, StatusCode::OK);
        assert_eq!(back.len(), 4);
        assert_eq!(back.get_all("set-cookie").iter().count(), 2);
        for (method, status) in [
            (Method::HEAD, StatusCode::OK),
            (Method::GET, StatusCode::NOT_MODIFIED),
        ] {
            assert_eq!(pass_back(&headers, &method, status)[CONTENT_LENGTH], "500");
        }
    }
}
