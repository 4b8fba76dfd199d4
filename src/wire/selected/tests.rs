//! What a list selects, and what it refuses.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::*;
use crate::expression::{JsonPointer, PathParams};

fn json(pointer: &str) -> Member {
    Member::Json(JsonPointer::parse(pointer).unwrap())
}

fn header() -> Member {
    Member::Header(HeaderName::from_static("x-mode"))
}

/// The bytes that count, or what is lacking.
fn bytes(
    rule: &[(Member, bool)],
    (query, fields, body): (&str, &[&'static [u8]], &str),
) -> Result<Vec<u8>, String> {
    let rule: Vec<_> = rule
        .iter()
        .map(|(member, optional)| Selected {
            member: member.clone(),
            optional: *optional,
        })
        .collect();
    let mut headers = HeaderMap::new();
    for value in fields {
        let value = HeaderValue::from_bytes(value).unwrap();
        headers.append(HeaderName::from_static("x-mode"), value);
    }
    let facts = RequestFacts {
        method: &http::Method::POST,
        raw_path: "/",
        path: &PathParams::default(),
        query: Some(query),
        headers: &headers,
        body: body.as_bytes(),
        token: None,
        operation: None,
    };
    let selection = Selection::read(&rule, &facts).map_err(|missing| missing.to_string())?;
    let mut out = Vec::new();
    selection.feed(&mut |bytes| {
        out.extend(length(bytes));
        out.extend_from_slice(bytes);
    });
    Ok(out)
}

#[test]
fn json_counts_in_its_canonical_form_whatever_it_holds() {
    let of = |body| bytes(&[(json("/a"), false)], ("", &[], body));
    assert_eq!(
        of(r#"{"a":{"x":1,"y":[2]},"n":1}"#),
        of(r#"{"n":2, "a": {"y":[ 2 ],"\u0078":1}}"#)
    );
    for other in [
        r#"{"a":{"x":1.0,"y":[2]}}"#,
        r#"{"a":{"x":1,"y":[]}}"#,
        r#"{"a":null}"#,
        r#"{"a":""}"#,
        r#"{"a":"null"}"#,
    ] {
        assert_ne!(of(other), of(r#"{"a":{"x":1,"y":[2]}}"#), "{other}");
        assert!(of(other).is_ok(), "{other}");
    }
}

#[test]
fn what_is_not_there_refuses_unless_it_may_be_lacking() {
    let rules = [
        json("/a"),
        Member::Form("a".to_owned()),
        Member::Query("a".to_owned()),
        header(),
        Member::Path("a".to_owned()),
    ];
    for member in rules {
        let lacking = ("b=1", &[][..], r#"{"b":1}"#);
        let refused = bytes(&[(member.clone(), false)], lacking);
        assert_eq!(refused, Err(format!("{member} is not there")));
        assert!(bytes(&[(member, true)], lacking).is_ok());
    }
    for body in [
        "",
        "a=1",
        r#"{"a":1,"a":2}"#,
        r#"{"a":1,"b":{"c":1,"c":1}}"#,
    ] {
        let refused = bytes(&[(json("/a"), true)], ("", &[], body));
        assert!(refused.unwrap_err().contains("cannot be read"), "{body}");
    }
}

#[test]
fn absence_is_not_an_empty_value_and_repeats_count() {
    let optional = |member: Member| move |sent| bytes(&[(member.clone(), true)], sent).unwrap();
    let of = optional(Member::Form("a".to_owned()));
    let form = |body| of(("", &[], body));
    assert_ne!(form("b=1"), form("a=&b=1"));
    assert_ne!(form("a=1"), form("a=1&a=1"));
    assert_ne!(form("a=1&a=2"), form("a=2&a=1"));
    assert_eq!(form("a=x+y&b=1"), form("b=2&%61=x%20y"));
    let of = optional(header());
    let fields = |fields| of(("", fields, ""));
    assert_ne!(fields(&[]), fields(&[b""]));
    assert_ne!(fields(&[b"1"]), fields(&[b"1", b"1"]));
    assert_ne!(fields(&[b"\xFF"]), fields(&[b"\xFE"]));
    let of = optional(Member::Query("a".to_owned()));
    assert_eq!(of(("a=1&b=2", &[], "")), of(("b=3&a=1", &[], "")));
}

#[test]
fn two_members_never_run_together() {
    let rule = [
        (Member::Form("a".to_owned()), true),
        (Member::Form("b".to_owned()), true),
    ];
    let of = |body| bytes(&rule, ("", &[], body)).unwrap();
    let all = [
        "a=1", "b=1", "a=1&b=1", "a=11", "b=11", "a=&b=1", "a=1&a=1", "c=1",
    ];
    for (index, one) in all.iter().enumerate() {
        for other in &all[index + 1..] {
            assert_ne!(of(one), of(other), "{one} {other}");
        }
    }
}
