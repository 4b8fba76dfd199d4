//! Bytes in, bytes out: what is put in, and everything that must stop it.

mod signed;

use super::*;
use crate::config::{KeyFormat, Signed};
use crate::expression::JsonPointer;
use crate::protocol::ids::{Incarnation, OperationId, Principal, Tenant, UpstreamId};
use crate::protocol::policy::{KeyPolicy, KeyValue};
use proptest::prelude::*;

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

/// What keys of the operation below are put in as.
const DERIVED: &str = "2f51a489-826d-8e16-9f3c-237ff971a52d";

fn pointer(text: &str) -> Slot {
    Slot::Json(JsonPointer::parse(text).unwrap())
}

fn form(name: &str) -> Slot {
    Slot::Form(name.to_owned())
}

fn query(name: &str) -> Slot {
    Slot::Query(name.to_owned())
}

fn variable(name: &str) -> Slot {
    Slot::GraphQl(name.to_owned())
}

fn rule(slot: Slot, value: KeyValue) -> Insert {
    Insert::of_key(Some(KeyRule {
        slot,
        longest: None,
        format: KeyFormat::Any,
        policy: KeyPolicy {
            value,
            lifetime: None,
            remembers_refusals: false,
            placing: None,
        },
    }))
}

fn referring(slot: Slot, if_present: IfPresent) -> Insert {
    Insert {
        references: vec![ReferenceRule {
            slot,
            value: vec![ReferencePart::Text("op:".to_owned()), ReferencePart::Id],
            longest: Some(40),
            if_present,
        }],
        ..Insert::of_key(None)
    }
}

fn request(target: &str, fields: &[(&'static str, &str)], body: &str) -> StoredRequest {
    StoredRequest {
        method: Bytes::from("POST"),
        target: Bytes::copy_from_slice(target.as_bytes()),
        fields: fields
            .iter()
            .map(|(name, value)| (Bytes::from(*name), Bytes::copy_from_slice(value.as_bytes())))
            .collect(),
        body: Bytes::copy_from_slice(body.as_bytes()),
    }
}

fn typed(kind: &str, body: &str) -> StoredRequest {
    request("/p", &[("content-type", kind)], body)
}

fn key(id: &str) -> OperationKey {
    OperationKey {
        tenant: Tenant::new("t"),
        upstream: UpstreamId::new("u"),
        principal: Principal::None,
        id: OperationId::new(id),
        incarnation: Incarnation(0),
    }
}

fn fill(insert: &Insert, request: &StoredRequest, id: &str) -> Result<Filled, String> {
    let key = key(id);
    let named = Named {
        key: &key,
        origin: IdentityOrigin::Caller,
        round: Round(0),
    };
    filled(insert, request, named).map_err(|why| why.to_string())
}

/// The content with the caller's own key `k` put in.
fn content(slot: Slot, request: &StoredRequest) -> Result<String, String> {
    let filled = fill(&rule(slot, KeyValue::Caller), request, "k")?;
    assert_eq!(filled.request.fields, request.fields);
    Ok(String::from_utf8(filled.request.body.to_vec()).unwrap())
}

fn json(body: &str) -> Result<String, String> {
    content(pointer("/key"), &typed(JSON, body))
}

#[track_caller]
fn refuses(insert: &Insert, request: &StoredRequest, part: &str) {
    let said = fill(insert, request, "k").unwrap_err();
    assert!(said.contains(part), "{said}");
}

/// What is no index to a reader is none to us: it would not find what was put in there.
#[test]
fn an_index_is_written_in_one_way() {
    let body = r#"{"a":[{"c":1}]}"#;
    let put = content(pointer("/a/0/b"), &typed(JSON, body));
    assert_eq!(put.as_deref(), Ok(r#"{"a":[{"b":"k","c":1}]}"#));
    for index in ["00", "01", "+0", "-"] {
        let to = pointer(&format!("/a/{index}/b"));
        let said = content(to, &typed(JSON, body)).unwrap_err();
        assert!(said.contains("no such element"), "{index}: {said}");
    }
}

/// However deep a pointer may lead, the objects on its way are made, and read again.
#[test]
fn what_is_lacking_is_made_as_deep_as_a_pointer_leads() {
    let deepest = "/a".repeat(64);
    let put = content(pointer(&deepest), &typed(JSON, "{}")).unwrap();
    let read: serde_json::Value = serde_json::from_str(&put).unwrap();
    assert_eq!(read.pointer(&deepest).unwrap(), "k");
    assert_eq!(JsonPointer::parse(&"/a".repeat(65)), None);
}

#[test]
fn a_member_is_put_at_the_front_and_nothing_else_is_touched() {
    for (body, expected) in [
        ("{}", r#"{"key":"k"}"#),
        (" { } ", r#" {"key":"k" } "#),
        (
            "{ \"a\" : 1.0e0,\n\t\"b\":[\"}\\\"\",{}] }\r\n",
            "{\"key\":\"k\", \"a\" : 1.0e0,\n\t\"b\":[\"}\\\"\",{}] }\r\n",
        ),
        // The name within another object, or as a value, is another thing.
        (
            r#"{"a":{"key":"x"},"b":"key"}"#,
            r#"{"key":"k","a":{"key":"x"},"b":"key"}"#,
        ),
    ] {
        assert_eq!(json(body).as_deref(), Ok(expected), "{body}");
    }
    let untyped = request("/p", &[], "{}");
    assert_eq!(
        content(pointer("/key"), &untyped).unwrap(),
        r#"{"key":"k"}"#
    );
    let problem = typed("application/merge-patch+json; charset=utf-8", "{}");
    assert!(content(pointer("/key"), &problem).is_ok());
}

#[test]
fn objects_on_the_way_are_found_or_made() {
    let at = |place: &str, body: &str| content(pointer(place), &typed(JSON, body));
    assert_eq!(
        at("/headers/idempotencyKey", r#"{"to":1}"#).as_deref(),
        Ok(r#"{"headers":{"idempotencyKey":"k"},"to":1}"#)
    );
    assert_eq!(
        at("/a/b/c", r#"{"x":[],"a":{"y":{"b":0}}}"#).as_deref(),
        Ok(r#"{"x":[],"a":{"b":{"c":"k"},"y":{"b":0}}}"#)
    );
    assert_eq!(
        at("/units/1/id", r#"{"units":[{"id":"x"}, {"n":2} ]}"#).as_deref(),
        Ok(r#"{"units":[{"id":"x"}, {"id":"k","n":2} ]}"#)
    );
    // An escaped name is that name.
    assert_eq!(
        at("/a/b", r#"{"\u0061":{}}"#).as_deref(),
        Ok(r#"{"\u0061":{"b":"k"}}"#)
    );
    assert_eq!(at("/a~1b", "{}").as_deref(), Ok(r#"{"a/b":"k"}"#));
    for (place, body, part) in [
        ("/units/2/id", r#"{"units":[{},{}]}"#, "no such element"),
        ("/units/0/id", "{}", "no such element"),
        ("/units/0/id", r#"{"units":[]}"#, "no such element"),
        ("/a/b", r#"{"a":1}"#, "no JSON object"),
        ("/a/b", r#"{"a":null}"#, "no JSON object"),
        ("/a/b", r#"{"a":[]}"#, "no such element"),
    ] {
        let said = at(place, body).unwrap_err();
        assert!(said.contains(part), "{place} {body}: {said}");
    }
}

#[test]
fn a_content_that_is_no_json_object_takes_no_key() {
    for body in [
        "",
        "[]",
        "\"x\"",
        "{",
        "{}{}",
        "{\"a\":}",
        "{a:1}",
        "\u{feff}{}",
        "{\"a\":\"\\ud800\"}",
        "amount=5",
    ] {
        assert!(json(body).is_err(), "{body}");
    }
    for wrong in [FORM, "text/plain", "application/xml"] {
        assert!(
            content(pointer("/key"), &typed(wrong, "{}")).is_err(),
            "{wrong}"
        );
    }
    let twice = [("content-type", JSON), ("content-type", JSON)];
    assert!(content(pointer("/key"), &request("/p", &twice, "{}")).is_err());
    let coded = [("content-type", JSON), ("content-encoding", "gzip")];
    let said = content(pointer("/key"), &request("/p", &coded, "{}")).unwrap_err();
    assert!(said.contains("encoded"), "{said}");
}

#[test]
fn what_stands_there_is_never_written_over() {
    for (value, body, fits) in [
        (KeyValue::Caller, r#"{"key":"k"}"#, true),
        (KeyValue::Caller, r#"{"key":"other"}"#, false),
        (KeyValue::Caller, r#"{"key":"k","key":"k"}"#, false),
        (KeyValue::Caller, r#"{"\u006bey":"x"}"#, false),
        (KeyValue::Caller, r#"{"key":null}"#, false),
        (KeyValue::Caller, r#"{"key":""}"#, false),
        (KeyValue::Caller, r#"{"key":{}}"#, false),
        (KeyValue::Derived, r#"{"key":"k"}"#, false),
    ] {
        let given = typed(JSON, body);
        let filled = fill(&rule(pointer("/key"), value), &given, "k");
        assert_eq!(filled.is_ok(), fits, "{body}");
        if let Ok(filled) = filled {
            assert_eq!(filled.request, given);
        }
    }
    let other = typed(FORM, "a=1&key=other");
    refuses(&rule(form("key"), KeyValue::Caller), &other, "already");
    let spelled = typed(FORM, "a=1&%6bey=k");
    assert_eq!(content(form("key"), &spelled).as_deref(), Ok("a=1&%6bey=k"));
    let other = request("/p?key=other", &[], "");
    refuses(&rule(query("key"), KeyValue::Caller), &other, "already");
}

#[test]
fn a_derived_key_is_put_in_the_same_way_in_every_place() {
    let derived = |slot, request: &StoredRequest| {
        let filled = fill(&rule(slot, KeyValue::Derived), request, "k").unwrap();
        (filled.request, filled.field)
    };
    let (sent, field) = derived(pointer("/key"), &typed(JSON, "{}"));
    assert_eq!(sent.body, format!("{{\"key\":\"{DERIVED}\"}}"));
    assert_eq!(field, None);
    let header = Slot::Header(HeaderName::from_static("k"));
    let (sent, field) = derived(header, &typed(JSON, "{}"));
    assert_eq!(
        (sent, field.unwrap().1.as_str()),
        (typed(JSON, "{}"), DERIVED)
    );
}

#[test]
fn a_field_of_a_form_is_put_at_the_end() {
    for (body, expected) in [
        ("", "key=k"),
        ("a=1", "a=1&key=k"),
        ("a=1&", "a=1&key=k"),
        ("a=%2G&b=+", "a=%2G&b=+&key=k"),
    ] {
        let sent = content(form("key"), &typed(FORM, body));
        assert_eq!(sent.as_deref(), Ok(expected));
    }
    let nested = content(form("metadata[op]"), &typed(FORM, "metadata[a]=1"));
    assert_eq!(nested.as_deref(), Ok("metadata[a]=1&metadata%5Bop%5D=k"));
    assert!(content(form("key"), &typed(JSON, "{}")).is_err());
}

#[test]
fn a_field_of_an_upload_is_its_first_part() {
    let kind = "multipart/form-data; boundary=\"b-1\"";
    let upload = "--b-1\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n\0\r\n--b-1--\r\n";
    let sent = content(form("key"), &typed(kind, upload)).unwrap();
    assert_eq!(
        sent,
        format!("--b-1\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nk\r\n{upload}")
    );
    // Read back as it was put in.
    assert_eq!(content(form("key"), &typed(kind, &sent)).unwrap(), sent);
    let preamble = content(form("key"), &typed(kind, &format!("hello\r\n{upload}")));
    assert!(preamble.unwrap_err().contains("first part"));
    assert!(content(form("key"), &typed(kind, "--b-1\r\n")).is_err());
}

#[test]
fn a_parameter_of_the_query_is_put_at_its_end() {
    let target = |target: &str| {
        let filled = fill(
            &rule(query("key"), KeyValue::Caller),
            &request(target, &[], ""),
            "a b",
        );
        String::from_utf8(filled.unwrap().request.target.to_vec()).unwrap()
    };
    assert_eq!(target("/p"), "/p?key=a%20b");
    assert_eq!(target("/p?"), "/p?key=a%20b");
    assert_eq!(target("/p?x=1"), "/p?x=1&key=a%20b");
    assert_eq!(target("/p?key=a%20b"), "/p?key=a%20b");
}

#[test]
fn a_variable_goes_only_to_a_document_that_takes_it() {
    let document =
        "mutation M($k: ID!, $i: In = {a: {b: 1}}) { pay(i: $i) @idempotent(key: $k) { id } }";
    let body = |document: &str, rest: &str| {
        format!(
            "{{\"query\":{}{rest}}}",
            serde_json::to_string(document).unwrap()
        )
    };
    let sent =
        |document: &str, rest: &str| content(variable("k"), &typed(JSON, &body(document, rest)));
    let quoted = serde_json::to_string(document).unwrap();
    assert_eq!(
        sent(document, r#","variables":{"i":1}"#).unwrap(),
        format!(r#"{{"query":{quoted},"variables":{{"k":"k","i":1}}}}"#)
    );
    assert_eq!(
        sent(document, r#","variables": null "#).unwrap(),
        format!(r#"{{"query":{quoted},"variables": {{"k":"k"}} }}"#)
    );
    assert_eq!(
        sent(document, "").unwrap(),
        format!(r#"{{"variables":{{"k":"k"}},"query":{quoted}}}"#)
    );
    let with_fragment = format!("fragment F on X {{ id }} {document}");
    assert!(sent(&with_fragment, "").is_ok());
    for bad in [
        "mutation { pay(i: 1) { id } }",
        "mutation M($k: ID!) { pay { id } }",
        "mutation M { pay @idempotent(key: $k) { id } }",
        // In a comment and in a string nobody uses it.
        "mutation M($k: ID!) { pay { id } # $k\n }",
        "mutation M($k: ID!) { pay(note: \"$k\") { id } }",
        "mutation M($k: ID!) { pay(note: \"\"\" \\\"\"\" $k \"\"\") { id } }",
        "mutation M($kk: ID!) { pay @idempotent(key: $kk) { id } }",
        // Which of them will run?
        "mutation M($k: ID!) { pay @i(key: $k) } mutation N { pay }",
        "{ pay } mutation M($k: ID!) { pay @i(key: $k) }",
        "mutation M($k: ID!) { pay @i(key: $k) ",
        "mutation M($k: ID!) { pay(note: \"x @i(key: $k) }",
    ] {
        let said = sent(bad, "").unwrap_err();
        assert!(said.contains("declares and uses"), "{bad}: {said}");
    }
    for body in [
        "{}",
        "[]",
        r#"{"id":"persisted","variables":{}}"#,
        r#"{"query":"{a}","query":"{b}"}"#,
    ] {
        assert!(
            content(variable("k"), &typed(JSON, body)).is_err(),
            "{body}"
        );
    }
}

#[test]
fn a_reference_is_put_in_beside_the_key_and_never_over_the_callers_own() {
    let metadata = || form("metadata[op]");
    let both = Insert {
        key: rule(form("key"), KeyValue::Caller).key,
        ..referring(metadata(), IfPresent::Refuse)
    };
    let filled = fill(&both, &typed(FORM, "a=1"), "k").unwrap();
    assert_eq!(filled.request.body, "a=1&metadata%5Bop%5D=op%3Ak&key=k");

    let own = typed(FORM, "metadata[op]=mine");
    refuses(&referring(metadata(), IfPresent::Refuse), &own, "already");
    let kept = fill(&referring(metadata(), IfPresent::Keep), &own, "k").unwrap();
    assert_eq!(kept.request, own);

    let long = "x".repeat(38);
    let insert = referring(metadata(), IfPresent::Refuse);
    let said = fill(&insert, &typed(FORM, ""), &long).unwrap_err();
    assert!(said.contains("40 bytes"), "{said}");
    assert!(fill(&insert, &typed(FORM, ""), &long[..37]).is_ok());

    let header = || Slot::Header(HeaderName::from_static("x-op"));
    let filled = fill(
        &referring(header(), IfPresent::Refuse),
        &typed(FORM, ""),
        "k",
    );
    let sent = filled.unwrap().request;
    assert_eq!(sent.fields.last().unwrap(), &("x-op".into(), "op:k".into()));
    let own = request("/p", &[("x-op", "mine")], "");
    refuses(&referring(header(), IfPresent::Refuse), &own, "already");
}

proptest! {
    /// What a reader of the whole text finds: the same, and one member more.
    #[test]
    fn whatever_object_it_is_put_into_reads_as_before_but_for_the_key(
        value in values(), id in "[!-~]{1,40}", pretty: bool, deep: bool,
    ) {
        let object = serde_json::json!({ "a": value, "z": { "y": value } });
        let text = if pretty { format!("{object:#}") } else { object.to_string() };
        let slot = pointer(if deep { "/z/key" } else { "/key" });
        let given = typed(JSON, &text);
        let once = fill(&rule(slot.clone(), KeyValue::Caller), &given, &id).unwrap();
        let again = fill(&rule(slot.clone(), KeyValue::Caller), &given, &id).unwrap();
        prop_assert_eq!(&once, &again);
        let mut read: serde_json::Value = serde_json::from_slice(&once.request.body).unwrap();
        let holder = if deep { read["z"].as_object_mut() } else { read.as_object_mut() };
        prop_assert_eq!(holder.unwrap().remove("key"), Some(id.clone().into()));
        prop_assert_eq!(read, object);
        // Its bytes are still there, around what was put in.
        let grown = once.request.body.len() - text.len();
        prop_assert!(grown >= id.len() + 8);
        // Whoever sends it with its key in it sends these bytes.
        let own = typed(JSON, std::str::from_utf8(&once.request.body).unwrap());
        let kept = fill(&rule(slot, KeyValue::Caller), &own, &id).unwrap();
        prop_assert_eq!(kept.request, own);
    }

    #[test]
    fn bytes_of_strangers_never_panic(body in "[\\[\\]{}:,\"\\\\a1n$@# ]{0,40}", kind in 0_usize..4) {
        let slot = [pointer("/a/0/b"), form("a"), query("a"), variable("a")][kind].clone();
        let declared = [JSON, FORM, FORM, JSON][kind];
        let _ = fill(&rule(slot, KeyValue::Derived), &typed(declared, &body), "k");
    }
}

fn values() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        "[ -~\u{e9}]{0,6}".prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::hash_map("[a-c\"\\\\{}]{0,3}", inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}
