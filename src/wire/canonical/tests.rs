//! The canonical form: what counts, and what does not.

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

    /// Equal pairs, in an order that says nothing, give equal forms; and nothing else does.
    #[test]
    fn forms_are_equal_exactly_if_their_pairs_are(
        one in prop::collection::vec(("[ab]", prop::option::of("[ab&=+%]{0,2}")), 0..4),
        other in prop::collection::vec(("[ab]", prop::option::of("[ab&=+%]{0,2}")), 0..4),
        turn in 0_usize..4,
    ) {
        type Pairs = Vec<(String, Option<String>)>;
        let escape = |text: &str| -> String {
            let escaped = text.bytes().map(|byte| format!("%{byte:02x}"));
            escaped.collect::<Vec<_>>().concat()
        };
        let write = |pairs: &Pairs| -> String {
            let pair = |(name, value): &(String, Option<String>)| match value {
                None => name.clone(),
                Some(value) => format!("{name}={}", escape(value)),
            };
            pairs.iter().map(pair).collect::<Vec<_>>().join("&")
        };
        let sorted = |pairs: &Pairs| {
            let mut pairs = pairs.clone();
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
            pairs
        };
        prop_assert_eq!(form(&write(&one)) == form(&write(&other)), sorted(&one) == sorted(&other));
        // Names change places as whole groups.
        let mut groups: Vec<Pairs> = sorted(&one)
            .chunk_by(|a, b| a.0 == b.0)
            .map(<[_]>::to_vec)
            .collect();
        let by = turn.min(groups.len());
        groups.rotate_left(by);
        prop_assert_eq!(form(&write(&groups.concat())), form(&write(&one)));
    }
}
