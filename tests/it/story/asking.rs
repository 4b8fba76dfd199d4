//! Callers who ask instead of waiting, and callers whose middleware repeats whatever fails.
//!
//! What always holds: whoever is told that nobody knows yet is told where to ask, in the same way whatever
//! went wrong; and asking again, however blindly, sends nothing.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use super::*;
use crate::support::call::read_answer;
use crate::support::gate::Gate;
use crate::support::link::Link;
use crate::support::ports;
use crate::support::python::python;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

/// A proxy with a listener for workers.
struct Asked {
    proxy: Proxy,
    worker: SocketAddr,
}

fn asked(setup: Setup) -> Asked {
    let worker = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()));
    let setup = setup.with(&format!("worker: {{ address: {worker} }}"));
    Asked {
        proxy: Proxy::start(setup),
        worker,
    }
}

impl Asked {
    /// What stands at an address that a caller was told.
    fn at(&self, location: &str) -> Answer {
        let path = location
            .strip_prefix(&format!("http://{}", self.worker))
            .unwrap_or_else(|| panic!("{location} is not on {}", self.worker));
        Call::new(self.worker, "GET", path).send()
    }
}

#[test]
fn a_caller_who_would_rather_ask_is_told_where_and_the_operation_goes_on_without_him() {
    let upstream = Upstream::start(Keys::Honoured);
    let it = asked(Setup::payments(upstream.address()));
    let answer = Gate::closed();
    upstream.next(Script::hold_answer(&answer));
    let call = pay(&it.proxy, "k", r#"{"amount":5}"#);
    let preferring = call
        .clone()
        .field("Prefer", "respond-async, return=minimal");

    let told = preferring.send();

    assert_eq!(told.status, 202, "{}", told.text());
    assert_eq!(told.field("preference-applied"), Some("respond-async"));
    assert_eq!(told.field("fencepost-source"), Some("proxy"));
    let location = told.field("location").unwrap().to_owned();
    let stands = it.at(&location);
    assert_eq!(
        (stands.status, stands.json()["state"].as_str()),
        (200, Some("INTENDED"))
    );
    assert!(stands.field("retry-after").is_some());
    assert!(stands.json().get("events").is_none() && stands.json().get("request").is_none());
    // Asked again meanwhile, it joins and is told the same.
    assert_eq!(preferring.send().status, 202);
    answer.until_reached();
    // The preference was honoured here, and nobody else is to honour it too.
    assert_eq!(
        upstream.heads()[0].fields.first("prefer"),
        Some("return=minimal")
    );

    answer.open();
    until_state(&it.proxy, "k", "COMPLETED");

    let stands = it.at(&location);
    assert_eq!(stands.json()["outcome"]["status"], 201);
    assert!(stands.field("retry-after").is_none());
    // What has ended is answered at once, whatever he prefers.
    let outcome = preferring.send();
    assert_eq!((outcome.status, outcome.is_replay()), (201, true));
    assert_eq!(outcome.field("preference-applied"), None);
    assert_eq!((upstream.heads().len(), upstream.effects().len()), (1, 1));
}

#[test]
fn what_is_decided_soon_enough_is_answered_as_if_he_had_waited() {
    let upstream = Upstream::start(Keys::Honoured);
    let it = asked(Setup::payments(upstream.address()));
    let paid = pay(&it.proxy, "k", "{}")
        .field("Prefer", "respond-async, wait=30")
        .send();
    assert_eq!((paid.status, paid.field("preference-applied")), (201, None));
    let publish = |token: &str| {
        publish(&it.proxy, token, "{}")
            .field("Prefer", "respond-async, wait=30")
            .send()
    };
    assert_eq!(publish("108").status, 201);
    assert_refused(&publish("107"), 412, "stale-fencing-token", "never");
}

/// Whoever has no name to come back by would never see the outcome: he waits for it.
#[test]
fn whoever_cannot_come_back_waits() {
    let upstream = Upstream::start(Keys::Honoured);
    let route = "capability: [idempotent]\nkey: { header: Idempotency-Key, lifetime: 24h }\neffects:\n  \
                 - { on: POST /payments, once: { header: Idempotency-Key, required: false } }\n";
    let it = asked(Setup::new(upstream.address(), route));
    let paid = it.proxy.post("/payments").json("{}");
    let paid = paid.field("Prefer", "respond-async, return=minimal").send();
    assert_eq!((paid.status, paid.field("preference-applied")), (201, None));
    // It is no preference of ours, then: the upstream may honour it.
    assert_eq!(
        upstream.heads()[0].fields.first("prefer"),
        Some("respond-async, return=minimal")
    );
}

/// Nothing could be asked there, so the preference is none.
#[test]
fn without_a_place_to_ask_everybody_waits() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let paid = pay(&proxy, "k", "{}")
        .field("Prefer", "respond-async")
        .send();
    assert_eq!(paid.status, 201);
}

/// The proxy dies after the 202: the next process settles it, and the address holds.
#[test]
fn what_was_accepted_is_settled_after_a_crash() {
    let upstream = Upstream::start(Keys::Honoured);
    let mut it = asked(Setup::payments(upstream.address()));
    let answer = Gate::closed();
    upstream.next(Script::hold_answer(&answer));
    let told = pay(&it.proxy, "k", "{}")
        .field("Prefer", "respond-async")
        .send();
    let location = told.field("location").unwrap().to_owned();
    answer.until_reached();
    it.proxy.kill();
    answer.open();
    it.proxy.start_again();
    until_state(&it.proxy, "k", "COMPLETED");
    assert_eq!(it.at(&location).json()["outcome"]["status"], 201);
    assert_eq!(upstream.effects().len(), 1);
}

/// A web page in a browser on this machine cannot ask under a name of its own, and nothing can be changed.
#[test]
fn the_listener_of_workers_only_reads_and_only_for_this_machine() {
    let upstream = Upstream::start(Keys::Honoured);
    let it = asked(Setup::payments(upstream.address()));
    assert_eq!(pay(&it.proxy, "k", "{}").send().status, 201);
    let path = "/v1/operations/provider/k";
    assert_eq!(Call::new(it.worker, "GET", path).send().status, 200);
    assert_eq!(
        Call::new(it.worker, "GET", "/v1/operations/provider/none")
            .send()
            .status,
        404
    );
    for (method, path) in [
        ("GET", "/v1/operations"),
        ("POST", "/v1/operations/provider/k/resolve"),
    ] {
        assert_eq!(
            Call::new(it.worker, method, path).send().status,
            404,
            "{path}"
        );
    }
    assert_eq!(Call::new(it.worker, "POST", path).send().status, 405);
    let mut stream = TcpStream::connect(it.worker).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    assert_eq!(read_answer(stream).unwrap().status, 403);
}

/// What urllib3 made of it, asking up to five times.
fn retry_blindly(proxy: &Proxy, key: &str) -> Value {
    let output = python("python/retrying.py")
        .args([&format!("http://{}/payments", proxy.address()), key])
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// F12: a generic retry middleware in front of us, POST allowed, causes no second head, whatever way it came
/// to be unknown; and each way says where to ask.
#[test]
fn a_middleware_that_repeats_whatever_fails_causes_no_second_head() {
    const ROUTE: &str = r"
capability: [opaque]
timeouts: { connect: 2s, response: 1s, dispatch: 5s }
effects:
  - on: POST /payments
    once: { header: Idempotency-Key, required: false }
    join: 200ms
";
    let silent = Gate::closed();
    let ways = [
        ("the answer is lost", Script::lose_answer(), 1),
        // It never arrives whole.
        ("the request is cut", Script::cut_request_after(60), 0),
        ("the answer is cut", Script::cut_answer_after(30), 1),
        (
            "there is no answer in time",
            Script::hold_answer(&silent),
            1,
        ),
        ("a gateway gave up", Script::refuse(504, "{}"), 1),
        ("it broke", Script::refuse(500, "{}"), 1),
    ];
    for (way, script, heads) in ways {
        // With a key of the caller's own, and without any: then equals are taken for repeats.
        for key in ["k", "-"] {
            let upstream = Upstream::start(Keys::Ignored);
            let it = asked(Setup::new(upstream.address(), ROUTE));
            upstream.next(script.clone());
            let told = retry_blindly(&it.proxy, key);
            assert_eq!(upstream.heads().len(), heads, "{way}, {key}: {told}");
            assert_eq!(recorded(&it.proxy), 1, "{way}, {key}: {told}");
            assert!(told["asked"].as_u64().unwrap() > 1, "{way}, {key}: {told}");
            // It ends with a refusal that is not repeated, or with the problem that says where to ask.
            let location = told["location"].as_str();
            let location = location.unwrap_or_else(|| panic!("{way}, {key}: {told}"));
            let stands = it.at(location);
            assert_eq!(stands.status, 200, "{way}, {key}: {}", stands.text());
            assert_eq!(stands.json()["admitted"], 1, "{way}, {key}");
            let state = stands.json()["state"].clone();
            assert!(
                state == "UNCERTAIN" || state == "NEEDS_ATTENTION",
                "{way}, {key}: {state}"
            );
        }
    }
    silent.open();
}

/// Nobody was told anything, and the repeat finds what there is.
#[test]
fn an_answer_that_is_lost_on_the_way_back_is_asked_for_again() {
    let upstream = Upstream::start(Keys::Ignored);
    let it = asked(Setup::opaque(upstream.address()));
    let link = Link::to(it.proxy.address());
    link.lose_next_answer();
    let call = Call::new(link.address(), "POST", "/payments")
        .key("k")
        .json("{}");
    let call = call.field("Prefer", "respond-async, wait=30");
    assert!(call.attempt().is_err());
    let told = call.send();
    assert_eq!((told.status, told.is_replay()), (201, true));
    assert_eq!(upstream.heads().len(), 1);
}
