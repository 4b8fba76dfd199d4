//! `profiles`: what a newcomer sees of them.
//!
//! What always holds: nothing runs and nothing is sent.

use serde_json::Value;

use crate::support::proxy::Proxy;

fn said(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Proxy::command_alone(arguments);
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[test]
fn the_list_says_where_keys_go_and_for_how_long_they_count() {
    let (code, table) = said(&["profiles", "list"]);
    assert_eq!(code, Some(0), "{table}");
    let line = |name: &str| {
        let line = table
            .lines()
            .find(|line| line.split_whitespace().next() == Some(name));
        line.unwrap_or_else(|| panic!("{name}\n{table}"))
            .split("  ")
            .filter(|it| !it.is_empty())
            .map(str::trim)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        line("square"),
        [
            "square",
            "idempotent",
            "json /idempotency_key",
            "caller",
            "45",
            "unpublished"
        ]
    );
    assert_eq!(line("paypal")[5], "6h, 45d, 30d");
    assert_eq!(line("twilio"), ["twilio", "opaque", "-", "-", "-", "-"]);
    assert_eq!(table.lines().count(), 21, "{table}");

    let (code, json) = said(&["--json", "profiles", "list"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (code, json["profiles"].as_array().unwrap().len()),
        (Some(0), 20)
    );
}

#[test]
fn one_is_shown_with_its_answers_and_its_sources() {
    let (code, text) = said(&["profiles", "show", "brevo"]);
    assert_eq!(code, Some(0), "{text}");
    for part in [
        "json /headers/idempotencyKey",
        "15m",
        "uuid",
        "duplicate_parameter",
        "POST /v3/smtp/email",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let (_, yaml) = said(&["profiles", "show", "brevo", "--yaml"]);
    assert!(yaml.contains("developers.brevo.com"), "{yaml}");
    let (_, json) = said(&["--json", "profiles", "show", "brevo"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["fields"]["key"]["longest"], 36);
    let (code, text) = said(&["profiles", "show", "nobody"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("there is no profile `nobody`; there are adyen,"),
        "{text}"
    );
}

#[test]
fn explain_says_where_the_key_goes_and_what_else_is_put_in() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.yaml");
    let text = "version: 1\nupstreams:\n  a:\n    listen: 127.0.0.1:15001\n    url: http://127.0.0.1:1\n    capability: [idempotent]\n    key: { json: /k, lifetime: 1h }\n    reference: [ { json: /meta/op, value: \"op:{operation.id}\" } ]\n    effects: [ { on: POST /x } ]\n";
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    let request = |more: &[&'static str]| {
        let usual = ["explain", "--config", config];
        let url = ["-H", "Idempotency-Key: order-1", "http://127.0.0.1:15001/x"];
        said(&[&usual[..], more, &url[..]].concat())
    };
    let json = ["-H", "Content-Type: application/json", "-d"];
    let (code, told) = request(&[&json[..], &["{}"]].concat());
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("upstream key  json /k: "), "{told}");
    assert!(told.contains("json /meta/op = op:order-1"), "{told}");
    let (_, told) = request(&[&json[..], &[r#"{"k":1}"#]].concat());
    assert!(told.contains("400 insertion-refused"), "{told}");
    let (_, told) = request(
        &[
            &json[..],
            &["{}"],
            &["-H", "Content-Digest: sha-256=:YQ==:"],
        ]
        .concat(),
    );
    assert!(told.contains("is signed (header content-digest)"), "{told}");
}
