//! What a request means, as one unambiguous string of bytes.
//!
//! What always holds: the bytes cover method, path and query exactly as sent, and the content in the
//! form that its Content-Type calls for. They cover no header field: not the identity, not the
//! token, not a credential, so that a repeat by another worker with fresh credentials means the same.
//! Every part is preceded by its length, so no two different requests run together into one string.
//!
//! | Content-Type (case and parameters ignored) | content counts as |
//! |---|---|
//! | `application/json`, `…+json` | its JSON value (`json.rs` says which texts hold the same); what is not one JSON text, or repeats a member name, is refused |
//! | `application/x-www-form-urlencoded` | its decoded pairs, names in order, equal names in the order sent; `a` is not `a=` |
//! | anything else, none, several, or coded content (`Content-Encoding`) | its exact bytes |
//!
//! No content at all means the same under every type.
//!
//! What it does not do: read a `charset` (JSON is UTF-8), undo content codings, or take multipart
//! apart.

use std::borrow::Cow;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName};

use super::json::{self, JsonError};

/// Version of the canonical form. Whatever changes a single canonical byte raises it: fingerprints
/// of two forms are not comparable.
pub const FORM: u8 = 1;

/// Why a request has no canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the content has no canonical form")]
pub struct NotCanonical(#[source] pub JsonError);

/// The canonical form of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canonical<'a> {
    method: &'a str,
    path: &'a str,
    query: Option<&'a str>,
    class: ContentClass,
    content: Cow<'a, [u8]>,
}

/// How content is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContentClass {
    Exact,
    Json,
    Form,
}

impl<'a> Canonical<'a> {
    /// `target`: origin form, as sent.
    pub fn of(
        method: &'a str,
        target: &'a str,
        headers: &HeaderMap,
        content: &'a [u8],
    ) -> Result<Self, NotCanonical> {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let class = if content.is_empty() {
            ContentClass::Exact
        } else {
            ContentClass::of(headers)
        };
        let content = match class {
            ContentClass::Exact => Cow::Borrowed(content),
            ContentClass::Json => Cow::Owned(json::canonical(content).map_err(NotCanonical)?),
            ContentClass::Form => Cow::Owned(canonical_form(content)),
        };
        Ok(Self {
            method,
            path,
            query,
            class,
            content,
        })
    }

    /// Hands the canonical bytes to `sink`, in pieces whose borders mean nothing.
    pub fn feed(&self, mut sink: impl FnMut(&[u8])) {
        let mut part = |bytes: &[u8]| {
            sink(&length(bytes));
            sink(bytes);
        };
        part(self.method.as_bytes());
        part(self.path.as_bytes());
        match self.query {
            None => part(b""),
            // Never empty: `/a?` is not `/a`.
            Some(query) => part(format!("?{query}").as_bytes()),
        }
        part(self.class.tag());
        part(&self.content);
    }
}

impl ContentClass {
    fn of(headers: &HeaderMap) -> Self {
        if headers.contains_key(CONTENT_ENCODING) {
            return Self::Exact;
        }
        let Some(declared) = sole(headers, &CONTENT_TYPE) else {
            return Self::Exact;
        };
        let essence = declared.split(';').next().unwrap_or_default().trim();
        let essence = essence.to_ascii_lowercase();
        match essence.as_str() {
            "application/json" => Self::Json,
            "application/x-www-form-urlencoded" => Self::Form,
            other if other.contains('/') && other.ends_with("+json") => Self::Json,
            _ => Self::Exact,
        }
    }

    fn tag(self) -> &'static [u8] {
        match self {
            Self::Exact => b"exact",
            Self::Json => b"json",
            Self::Form => b"form",
        }
    }
}

/// The text of a field that occurs once and no more and is readable.
fn sole<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        (Some(_), Some(_)) | (None, _) => None,
    }
}

/// Pairs as the URL standard decodes them, which gives every string of bytes a meaning. Sorted by
/// name up to its first `[]`, in the order sent where that is equal: in `i[][a]=1&i[][b]=2&i[][a]=3`
/// it is the order that says where one item ends.
fn canonical_form(content: &[u8]) -> Vec<u8> {
    let mut pairs: Vec<_> = content
        .split(|&byte| byte == b'&')
        .filter(|piece| !piece.is_empty())
        .map(Pair::read)
        .collect();
    pairs.sort_by(|a, b| a.stem().cmp(b.stem()));
    let mut out = Vec::with_capacity(content.len() + pairs.len() * 17);
    for pair in pairs {
        out.extend(length(&pair.name));
        out.extend_from_slice(&pair.name);
        match pair.value {
            None => out.push(0),
            Some(value) => {
                out.push(1);
                out.extend(length(&value));
                out.extend_from_slice(&value);
            }
        }
    }
    out
}

struct Pair<'a> {
    name: Cow<'a, [u8]>,
    value: Option<Cow<'a, [u8]>>,
}

impl<'a> Pair<'a> {
    fn read(piece: &'a [u8]) -> Self {
        let mut halves = piece.splitn(2, |&byte| byte == b'=');
        Self {
            name: decoded(halves.next().unwrap_or_default()),
            value: halves.next().map(decoded),
        }
    }

    fn stem(&self) -> &[u8] {
        let end = self.name.windows(2).position(|two| two == b"[]");
        self.name
            .get(..end.unwrap_or(self.name.len()))
            .unwrap_or_default()
    }
}

fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if text.contains(&b'+') {
        let spaced: Vec<u8> = text
            .iter()
            .map(|&byte| if byte == b'+' { b' ' } else { byte })
            .collect();
        Cow::Owned(percent_encoding::percent_decode(&spaced).collect())
    } else {
        percent_encoding::percent_decode(text).into()
    }
}

/// Eight bytes, big-endian.
pub(super) fn length(bytes: &[u8]) -> [u8; 8] {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn typed(content_type: &str) -> HeaderMap {
        let value = HeaderValue::from_str(content_type).unwrap();
        HeaderMap::from_iter([(CONTENT_TYPE, value)])
    }

    fn bytes(method: &str, target: &str, headers: &HeaderMap, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let canonical = Canonical::of(method, target, headers, content).unwrap();
        canonical.feed(|piece| out.extend_from_slice(piece));
        out
    }

    fn form(content: &str) -> Vec<u8> {
        let headers = typed("application/x-www-form-urlencoded");
        bytes("POST", "/", &headers, content.as_bytes())
    }

    #[test]
    fn the_content_type_decides_how_content_is_compared() {
        let one = br#"{"a":1,"b":2}"#;
        let two = br#"{ "b":2, "a":1 }"#;
        let post = |kind: &str, content: &[u8]| bytes("POST", "/x", &typed(kind), content);
        for json in [
            "application/json",
            "Application/JSON ; charset=utf-8",
            "application/vnd.api+json;v=1",
            "application/problem+JSON",
        ] {
            assert_eq!(post(json, one), post(json, two), "{json}");
            assert_eq!(post(json, one), post("application/json", one), "{json}");
        }
        for exact in [
            "text/plain",
            "application/jsonl",
            "+json",
            "x",
            "multipart/form-data",
        ] {
            assert_ne!(post(exact, one), post(exact, two), "{exact}");
        }
        assert_ne!(
            post("application/json", br#"{"a":1,"b":2}"#),
            post("text/plain", br#"{"a":1,"b":2}"#),
            "exact bytes that look like a canonical form are not one"
        );
    }

    #[test]
    fn doubled_types_and_coded_content_count_byte_by_byte() {
        let mut doubled = typed("application/json");
        doubled.append(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut coded = typed("application/json");
        coded.append(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        for headers in [doubled, coded] {
            assert!(Canonical::of("POST", "/", &headers, b"\x1f\x8b not json").is_ok());
            assert_ne!(
                bytes("POST", "/", &headers, b"[1, 2]"),
                bytes("POST", "/", &headers, b"[1,2]")
            );
        }
    }

    #[test]
    fn json_that_readers_could_understand_in_two_ways_is_refused() {
        let headers = typed("application/json");
        for content in [
            &b"{\"a\":1,\"a\":1}"[..],
            b"\xEF\xBB\xBF{}",
            b"{a:1}",
            b"  ",
        ] {
            assert!(Canonical::of("POST", "/", &headers, content).is_err());
        }
    }

    #[test]
    fn no_content_means_the_same_under_every_type() {
        let none = bytes("POST", "/", &HeaderMap::new(), b"");
        for kind in [
            "application/json",
            "application/x-www-form-urlencoded",
            "a/b",
        ] {
            assert_eq!(bytes("POST", "/", &typed(kind), b""), none);
        }
    }

    #[test]
    fn method_path_and_query_count_exactly_as_sent() {
        let variants = [
            ("POST", "/a"),
            ("PUT", "/a"),
            ("post", "/a"),
            ("POST", "/A"),
            ("POST", "/%61"),
            ("POST", "/a/"),
            ("POST", "/a?"),
            ("POST", "/a??"),
            ("POST", "/a?x=1&y=2"),
            ("POST", "/a?y=2&x=1"),
            ("POST", "/a%3Fx=1"),
        ];
        for (index, one) in variants.iter().enumerate() {
            for other in &variants[index + 1..] {
                let headers = HeaderMap::new();
                assert_ne!(
                    bytes(one.0, one.1, &headers, b""),
                    bytes(other.0, other.1, &headers, b""),
                    "{one:?} {other:?}"
                );
            }
        }
    }

    #[test]
    fn no_header_field_but_the_content_type_counts() {
        let mut headers = typed("application/json");
        let before = bytes("POST", "/", &headers, b"1");
        for name in ["authorization", "idempotency-key", "fencing-token", "x-any"] {
            headers.append(name, HeaderValue::from_static("1"));
        }
        assert_eq!(bytes("POST", "/", &headers, b"1"), before);
    }

    #[test]
    fn forms_count_by_their_decoded_pairs() {
        for (one, other) in [
            ("a=1&b=2", "b=2&a=1"),
            ("a=1&&b=2&", "a=1&b=2"),
            ("a=x+y", "a=x%20y"),
            ("%61=%31", "a=1"),
            ("a=50%", "a=50%25"),
            ("i[]=1&b=2&i[]=3", "b=2&i%5B%5D=1&i%5b%5d=3"),
        ] {
            assert_eq!(form(one), form(other), "{one} {other}");
        }
        for (one, other) in [
            ("a=1&a=2", "a=2&a=1"),
            ("a", "a="),
            ("a=1", "a=1&b="),
            ("a=1&b=2", "a=1%26b=2"),
            ("a=b=c", "a%3Db=c"),
            ("a=+", "a=%2B"),
            ("i[][a]=1&i[][b]=2&i[][a]=3", "i[][a]=1&i[][a]=3&i[][b]=2"),
        ] {
            assert_ne!(form(one), form(other), "{one} {other}");
        }
    }

    proptest! {
        /// Distinct names may be written in any order, and with any escapes.
        #[test]
        fn shuffled_and_escaped_forms_are_equal(
            pairs in prop::collection::btree_map("[a-z&=+ %\u{e9}]{1,4}", "[a-z&=+ %\u{e9}]{0,4}", 0..5),
            seed in any::<u64>(),
        ) {
            let escape = |text: &str, all: bool| -> String {
                text.bytes()
                    .map(|byte| match byte {
                        b' ' if !all => "+".to_owned(),
                        plain if plain.is_ascii_lowercase() && !all => char::from(plain).to_string(),
                        other => format!("%{other:02X}"),
                    })
                    .collect()
            };
            let write = |all: bool, turn: usize| -> String {
                let mut written: Vec<String> = pairs
                    .iter()
                    .map(|(name, value)| format!("{}={}", escape(name, all), escape(value, all)))
                    .collect();
                if !written.is_empty() {
                    let by = turn % written.len();
                    written.rotate_left(by);
                }
                written.join("&")
            };
            let turn = usize::try_from(seed % 5).unwrap();
            prop_assert_eq!(form(&write(false, 0)), form(&write(true, turn)));
        }
    }
}
