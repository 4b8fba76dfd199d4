//! `inbound`: ways in to the worker, as they are read, and what is refused.

use super::{effect, good, refused};
use crate::config::PinBy;
use crate::protocol::ids::ResourceName;
use crate::protocol::time::Millis;

const LEASES: &str = "leases:
  payer: { resource: 'r:1', alive: { file: /a } }
  other: { resource: 'r:2', alive: { file: /b } }
";

fn file(leases: &str, inbound: &str) -> String {
    let fence =
        "        fence: { resource: \"r:{path.id}\", token: { header: T, source: fencepost } }\n";
    format!("{}{leases}inbound:\n{inbound}\n", effect(fence))
}

fn one(fields: &str) -> String {
    file(
        LEASES,
        &format!("  jobs: {{ listen: 127.0.0.1:15003, url: \"http://127.0.0.1:8080\", {fields} }}"),
    )
}

#[test]
fn what_is_not_said_has_a_default() {
    let config = good(&one("pin: { by: traceparent }"));
    let [way] = config.inbound.as_slice() else {
        panic!("{:?}", config.inbound);
    };
    assert_eq!(way.name, "jobs");
    assert_eq!(way.url.to_string(), "http://127.0.0.1:8080/");
    assert_eq!((way.keep, way.at_most), (Millis(600_000), 400_000));
    assert_eq!(
        (&way.pin.by, way.pin.required, way.pin.strict),
        (&PinBy::Trace, false, false)
    );
    let resources: Vec<_> = way.resources.iter().map(ResourceName::as_str).collect();
    assert_eq!(resources, ["r:1", "r:2"]);
    let said = good(&one(
        "pin: { by: { header: X-Request-Id }, required: true, strict: true }, keep: 1h, at_most: 7, leases: [other]",
    ));
    let way = &said.inbound[0];
    let PinBy::Header(name) = &way.pin.by else {
        panic!("{:?}", way.pin.by);
    };
    assert_eq!(name, "x-request-id");
    assert!(way.pin.required && way.pin.strict);
    assert_eq!((way.keep, way.at_most), (Millis(3_600_000), 7));
    let resources: Vec<_> = way.resources.iter().map(ResourceName::as_str).collect();
    assert_eq!(resources, ["r:2"]);
}

#[test]
fn what_cannot_work_is_refused() {
    let pin = "pin: { by: traceparent }";
    let cases = [
        (one("keep: 1m"), "`pin` is missing"),
        (one("pin: {}"), "`by` is missing"),
        (one("pin: { by: span }"), "`span` is not one of"),
        (
            one("pin: { by: { header: traceparent } }"),
            "with every span",
        ),
        (
            one("pin: { by: { header: Connection } }"),
            "belongs to one connection",
        ),
        (one(&format!("{pin}, keep: 999ms")), "from `1s` to `24h`"),
        (one(&format!("{pin}, at_most: 0")), "a number from 1"),
        (
            one(&format!("{pin}, leases: [nobody]")),
            "is none of `leases`",
        ),
        (one(&format!("{pin}, leases: []")), "names no lease"),
        (
            file(
                "",
                &format!("  jobs: {{ listen: 127.0.0.1:15003, url: \"http://a\", {pin} }}"),
            ),
            "there is nothing to pin to",
        ),
        (
            file(
                LEASES,
                &format!("  jobs: {{ listen: 127.0.0.1:15003, url: \"https://a\", {pin} }}"),
            ),
            "is not the `http` URL",
        ),
        (
            file(
                LEASES,
                &format!("  jobs: {{ listen: 127.0.0.1:15003, url: \"http://a/x\", {pin} }}"),
            ),
            "path and query",
        ),
        (
            file(
                LEASES,
                &format!("  jobs: {{ listen: 127.0.0.1:15020, url: \"http://a\", {pin} }}"),
            ),
            "listens there already",
        ),
    ];
    for (text, part) in cases {
        let problems = refused(&text).to_string();
        assert!(
            problems.contains(part),
            "no {part:?} in\n{problems}\nof\n{text}"
        );
    }
}

#[test]
fn it_does_not_ask_itself() {
    let asks = |listen: &str, host: &str| {
        let way = format!(
            "  jobs: {{ listen: \"{listen}\", url: \"http://{host}\", pin: {{ by: traceparent }} }}"
        );
        file(LEASES, &way)
    };
    for (listen, host) in [
        ("127.0.0.1:15003", "127.0.0.1:15003"),
        ("127.0.0.1:15003", "localhost:15003"),
        ("0.0.0.0:15003", "127.0.0.1:15003"),
        ("0.0.0.0:15003", "localhost:15003"),
        ("10.0.0.7:15003", "10.0.0.7:15003"),
        ("[::1]:15003", "[::1]:15003"),
        ("127.0.0.1:80", "127.0.0.1"),
    ] {
        let problems = refused(&asks(listen, host)).to_string();
        assert!(
            problems.contains("is this listener itself"),
            "{listen} {host}: {problems}"
        );
    }
    for (listen, host) in [
        ("127.0.0.1:15003", "127.0.0.1:8080"),
        ("10.0.0.7:15003", "127.0.0.1:15003"),
        ("0.0.0.0:15003", "worker:15003"),
    ] {
        let _accepted = good(&asks(listen, host));
    }
}
