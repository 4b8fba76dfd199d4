//! Equal meaning exactly if equal fingerprint; and what happens where rule, key or form change.

use http::{HeaderValue, Request};
use proptest::prelude::*;

use super::*;
use crate::expression::{JsonPointer, Member, PathParams};
use crate::protocol::meaning::Likeness;

fn key(of: u8) -> FingerprintKey {
    FingerprintKey::new(&[of; 32])
}

fn listed(pointers: &[(&str, bool)]) -> Means {
    let selected = |(pointer, optional): &(&str, bool)| Selected {
        member: Member::Json(JsonPointer::parse(pointer).unwrap()),
        optional: *optional,
    };
    Means::Listed(pointers.iter().map(selected).collect())
}

fn read(key: &FingerprintKey, rule: &Means, kind: &str, body: &[u8]) -> Meaning {
    read_at("/pay?try=1", key, rule, kind, body)
}

fn read_at(target: &str, key: &FingerprintKey, rule: &Means, kind: &str, body: &[u8]) -> Meaning {
    let mut request = Request::post(target).body(()).unwrap();
    let kind = HeaderValue::from_str(kind).unwrap();
    request.headers_mut().insert("content-type", kind);
    let (head, ()) = request.into_parts();
    let facts = RequestFacts {
        method: &head.method,
        raw_path: head.uri.path(),
        path: &PathParams::default(),
        query: head.uri.query(),
        headers: &head.headers,
        body,
        token: None,
        operation: None,
    };
    meaning(key, rule, &head, &facts).unwrap()
}

fn json(rule: &Means, body: &str) -> Meaning {
    read(&key(1), rule, "application/json", body.as_bytes())
}

const FIRST: &str = r#"{"amount":5,"note":"a"}"#;

#[test]
fn a_list_compares_what_it_names_and_method_and_path() {
    let rule = listed(&[("/amount", false)]);
    let first = json(&rule, FIRST).fingerprint;
    assert!(json(&rule, r#"{"note":"b","amount":5}"#).is(&first));
    let other = json(&rule, r#"{"note":"a","amount":6}"#);
    assert_eq!(other.likeness(&first), Likeness::Other);
    let at = |target| read_at(target, &key(1), &rule, "application/json", FIRST.as_bytes());
    assert!(at("/pay?try=2").is(&first), "the query is not named");
    assert_eq!(at("/refund?try=1").likeness(&first), Likeness::Other);
}

#[test]
fn raw_compares_every_byte() {
    let first = json(&Means::Raw, FIRST).fingerprint;
    assert!(json(&Means::Raw, FIRST).is(&first));
    let spaced = json(&Means::Raw, r#"{"amount": 5,"note":"a"}"#);
    assert_eq!(spaced.likeness(&first), Likeness::Other);
    // What has no canonical form has bytes.
    assert!(json(&Means::Raw, "{a:1}").is(&json(&Means::Raw, "{a:1}").fingerprint));
}

#[test]
fn another_key_or_rule_never_reads_as_another_request() {
    let rules = [
        Means::Whole,
        Means::Raw,
        listed(&[("/amount", false)]),
        listed(&[("/note", false)]),
        listed(&[("/amount", false), ("/note", false)]),
        listed(&[("/note", false), ("/amount", false)]),
    ];
    let body = r#"{"amount":6,"note":"b"}"#;
    for (index, before) in rules.iter().enumerate() {
        let first = json(before, FIRST).fingerprint;
        for (other, after) in rules.iter().enumerate() {
            let likeness = json(after, body).likeness(&first);
            let expected = if index == other {
                Likeness::Other
            } else {
                Likeness::NotComparable
            };
            assert_eq!(likeness, expected, "{before:?} then {after:?}");
        }
        let elsewhere = read(&key(2), before, "application/json", body.as_bytes());
        assert_eq!(elsewhere.likeness(&first), Likeness::NotComparable);
        // Recorded as a whole, and found again as a whole: the same under any rule.
        if *before == Means::Whole {
            assert!(rules.iter().all(|after| json(after, FIRST).is(&first)));
        }
    }
    let optional = listed(&[("/amount", true)]);
    assert!(json(&optional, FIRST).is(&json(&rules[2], FIRST).fingerprint));
}

fn parts(boundary: &str, parts: &[(String, Vec<u8>)]) -> (String, Vec<u8>) {
    let mut content = Vec::new();
    for (header, bytes) in parts {
        let head = format!("--{boundary}\r\nContent-Disposition: form-data; {header}\r\n\r\n");
        content.extend_from_slice(head.as_bytes());
        content.extend_from_slice(bytes);
        content.extend_from_slice(b"\r\n");
    }
    content.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    (format!("multipart/form-data; boundary={boundary}"), content)
}

fn upload(boundary: &str, of: &[(&str, &str)]) -> Meaning {
    let of: Vec<_> = of
        .iter()
        .map(|(header, bytes)| ((*header).to_owned(), bytes.as_bytes().to_vec()))
        .collect();
    let (kind, content) = parts(boundary, &of);
    read(&key(1), &Means::Whole, &kind, &content)
}

/// B23: the boundary says nothing; order, names and bytes do.
#[test]
fn an_upload_is_its_parts() {
    let first = [
        ("name=a", "1"),
        ("name=f; filename=\"x\"", "--Y\r\ncontent"),
    ];
    let stored = upload("X", &first).fingerprint;
    assert!(upload("Z-Z", &first).is(&stored));
    for other in [
        &[first[1], first[0]][..],
        &[first[0], ("name=f; filename=\"y\"", "--Y\r\ncontent")],
        &[first[0], ("name=f", "--Y\r\ncontent")],
        &[first[0], ("name=f; filename=\"x\"", "--Y\r\nContent")],
        &[first[0], ("name=f; filename=\"x\"", "--Y\r\ncontent\r\n")],
        &[("name=b", "1"), first[1]],
        &first[..1],
    ] {
        assert_eq!(
            upload("X", other).likeness(&stored),
            Likeness::Other,
            "{other:?}"
        );
    }
    let (kind, content) = parts("X", &[("name=a".to_owned(), b"1".to_vec())]);
    let dressed = [
        b"preamble\r\n".to_vec(),
        content.clone(),
        b"epilogue".to_vec(),
    ]
    .concat();
    let of = |content: &[u8]| read(&key(1), &Means::Whole, &kind, content);
    assert!(of(&dressed).is(&of(&content).fingerprint));
    // What cannot be taken apart counts byte by byte.
    let broken = &content[..content.len() - 4];
    assert!(of(broken).is(&of(broken).fingerprint));
    assert_eq!(
        of(broken).likeness(&of(&content).fingerprint),
        Likeness::Other
    );
}

/// Before form 2 an upload counted byte by byte. The same bytes are recognised; other bytes may be
/// the same upload with another boundary, or not.
#[test]
fn an_upload_of_the_former_form_is_recognised_or_not_comparable() {
    let of = [("name=a".to_owned(), b"1".to_vec())];
    let (kind, content) = parts("X", &of);
    let exact = Canonical::exact("POST", "/pay?try=1", &content);
    let former = Fingerprint {
        form: 1,
        ..key(1).fingerprint(&exact)
    };
    let (other_kind, other) = parts("Y", &of);
    assert!(read(&key(1), &Means::Whole, &kind, &content).is(&former));
    let repeat = read(&key(1), &Means::Whole, &other_kind, &other);
    assert_eq!(repeat.likeness(&former), Likeness::NotComparable);
    // What the form left alone is compared across it.
    let former = Fingerprint {
        form: 1,
        ..json(&Means::Whole, FIRST).fingerprint
    };
    assert!(json(&Means::Whole, FIRST).is(&former));
    assert_eq!(json(&Means::Whole, "{}").likeness(&former), Likeness::Other);
}

proptest! {
    /// Equal parts under any boundary are equal, and any other parts are not.
    #[test]
    fn uploads_are_equal_exactly_if_their_parts_are(
        one in prop::collection::vec(("[ab]{1,2}", "[ab\r\n-]{0,4}"), 0..4),
        other in prop::collection::vec(("[ab]{1,2}", "[ab\r\n-]{0,4}"), 0..4),
    ) {
        let of = |boundary: &str, of: &[(String, String)]| {
            let of: Vec<_> = of
                .iter()
                .map(|(name, bytes)| (format!("name=\"{name}\""), bytes.clone().into_bytes()))
                .collect();
            let (kind, content) = parts(boundary, &of);
            read(&key(1), &Means::Whole, &kind, &content)
        };
        let stored = of("XX", &one).fingerprint;
        prop_assert!(of("YY.Y", &one).is(&stored));
        prop_assert_eq!(of("YY.Y", &other).is(&stored), one == other);
    }

    /// Whatever is sent, reading it gives a meaning or a refusal, and twice the same one.
    #[test]
    fn no_bytes_make_it_panic(
        body in prop::collection::vec(any::<u8>(), 0..64),
        kind in prop_oneof![
            Just("application/json"),
            Just("application/x-www-form-urlencoded"),
            Just("multipart/form-data; boundary=X"),
            Just("text/plain"),
        ],
    ) {
        let request = Request::post("/").header("content-type", kind).body(()).unwrap();
        let (head, ()) = request.into_parts();
        let facts = RequestFacts {
            method: &head.method,
            raw_path: head.uri.path(),
            path: &PathParams::default(),
            query: None,
            headers: &head.headers,
            body: &body,
            token: None,
            operation: None,
        };
        for rule in [Means::Whole, Means::Raw, listed(&[("/a", false)])] {
            let once = meaning(&key(1), &rule, &head, &facts);
            prop_assert_eq!(&once, &meaning(&key(1), &rule, &head, &facts));
        }
    }
}
