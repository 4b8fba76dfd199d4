//! What goes through: requests that are nobody's effect, and header fields that belong to one hop.
//!
//! What always holds: pass-through streams both ways and leaves no record; a provider never sees a
//! field of ours, nor one that spoke of the hop before.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use super::*;
use crate::support::gate::PATIENCE;
use crate::support::http::Reader;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

/// One effect, one path that passes, the rest as it comes.
const ROUTE: &str = r"
capability: [opaque]
unlisted: observe
effects:
  - on: POST /payments
    once: { header: Idempotency-Key }
  - on: POST /login
    pass: {}
";

/// Fields of the hop before us, or of its infrastructure, or for us.
const NOT_FOR_PROVIDERS: [(&str, &str); 17] = [
    ("Connection", "X-Of-This-Hop, Idempotency-Key"),
    ("X-Of-This-Hop", "secret"),
    ("Keep-Alive", "timeout=5"),
    ("TE", "trailers"),
    ("Proxy-Connection", "keep-alive"),
    ("Proxy-Authorization", "Basic c2VjcmV0"),
    ("Forwarded", "for=10.0.0.1"),
    ("X-Forwarded-For", "10.0.0.1"),
    ("X-Forwarded-Host", "inside.example"),
    ("X-Forwarded-Proto", "http"),
    ("X-Real-IP", "10.0.0.1"),
    ("X-Request-Id", "r-1"),
    ("Via", "1.1 mesh"),
    ("Fencing-Token", "107"),
    ("Fencing-Sequence", "1"),
    ("Fencing-Acquisition", "alice-1"),
    ("Fencing-Resource", "account:42"),
];

fn with_everything(call: Call) -> Call {
    let call = NOT_FOR_PROVIDERS
        .iter()
        .fold(call, |call, (name, value)| call.field(name, value));
    call.field("Authorization", "Bearer theirs")
        .field("X-Custom", "kept")
}

#[test]
fn a_provider_sees_no_field_that_is_not_for_it() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), ROUTE));
    for call in [
        pay(&proxy, "k", "{}"),
        proxy.post("/login"),
        proxy.call("GET", "/balance"),
    ] {
        let told = with_everything(call).send();
        assert!(told.status < 300, "{}: {}", told.status, told.text());
    }
    let heads = upstream.heads();
    assert_eq!(heads.len(), 3);
    for head in heads {
        for (name, _) in &NOT_FOR_PROVIDERS[1..] {
            assert_eq!(head.fields.first(name), None, "{name} in {}", head.text);
        }
        assert!(
            !head.text.to_ascii_lowercase().contains("fenc"),
            "{}",
            head.text
        );
        assert_eq!(head.fields.first("authorization"), Some("Bearer theirs"));
        assert_eq!(head.fields.first("x-custom"), Some("kept"));
        assert_eq!(
            head.fields.first("host"),
            Some(upstream.address().to_string().as_str())
        );
    }
}

#[test]
fn a_key_that_the_provider_does_not_honour_is_not_passed_on() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), ROUTE));
    assert_eq!(pay(&proxy, "k", "{}").send().status, 201);
    // It would arm retries in other software on the way.
    assert_eq!(upstream.effects()[0].key, None);
}

#[test]
fn a_connection_field_cannot_strip_the_key_that_we_set() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::payments(upstream.address()));
    let told = pay(&proxy, "k", "{}")
        .field("Connection", "Idempotency-Key")
        .send();
    // Either it is taken for the identity, or it is refused: it is never sent without a key.
    if told.status == 201 {
        assert!(upstream.effects()[0].key.is_some());
    } else {
        assert_eq!(upstream.heads().len(), 0);
    }
}

#[test]
fn what_is_nobodys_effect_passes_and_leaves_no_record() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), ROUTE));
    for _ in 0..2 {
        assert_eq!(proxy.call("GET", "/balance?of=42").send().status, 200);
        assert_eq!(
            proxy
                .post("/login")
                .key("k")
                .json(r#"{"user":"alice"}"#)
                .send()
                .status,
            201
        );
        assert_eq!(proxy.call("DELETE", "/drafts/7").send().status, 201);
    }
    assert_eq!(recorded(&proxy), 0);
    assert_eq!(
        upstream.effects_on("/login"),
        2,
        "passed, as often as it came"
    );
    assert_eq!(
        upstream.heads()[0].first_line,
        "GET /balance?of=42 HTTP/1.1"
    );
    // An unsafe request that no effect lists is counted; one that was told to pass is not.
    let unprotected = proxy.metric("fencepost_unprotected_effects_total");
    assert!((unprotected - 2.0).abs() < f64::EPSILON, "{unprotected}");
}

#[test]
fn an_answer_streams_through_while_it_is_being_made() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let proxy = Proxy::start(Setup::new(listener.local_addr().unwrap(), ROUTE));
    let mut caller = TcpStream::connect(proxy.address()).unwrap();
    caller.set_read_timeout(Some(PATIENCE)).unwrap();
    caller
        .write_all(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    let (mut provider, _) = listener.accept().unwrap();
    Reader::new(&provider, |_: &[u8]| {})
        .head()
        .unwrap()
        .unwrap();
    provider
        .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nfirst; \r\n")
        .unwrap();

    // The second half does not exist yet.
    let mut seen = String::new();
    let mut piece = [0; 1024];
    while !seen.contains("first; ") {
        let count = caller.read(&mut piece).unwrap();
        assert_ne!(count, 0, "it ended after {seen:?}");
        seen.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    provider.write_all(b"6\r\nsecond\r\n0\r\n\r\n").unwrap();
    while !seen.contains("second") {
        let count = caller.read(&mut piece).unwrap();
        assert_ne!(count, 0, "it ended after {seen:?}");
        seen.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
}

#[test]
fn a_request_streams_through_while_it_is_being_sent() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), ROUTE));
    let call = proxy.post("/login").json(r#"{"user":"alice"}"#);
    let half = call.start_with(call.bytes().len() - 4);
    until("its beginning is at the provider", || {
        upstream.text().contains(r#"{"user":"#)
    });
    assert!(!half.is_answered());
    half.hang_up();
}
