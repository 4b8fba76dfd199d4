//! A stored answer is the upstream's bytes, whatever they are, after a crash too.
//!
//! What always holds: content is compared as bytes with what the upstream wrote; how it is framed is the
//! business of each connection.

use super::*;
use crate::support::script::Script;
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

/// Every byte there is, so that no text survives by luck.
fn every_byte() -> Vec<u8> {
    (0..=255).collect()
}

fn chunked(fields: &str, pieces: &[&[u8]]) -> Vec<u8> {
    let mut answer =
        format!("HTTP/1.1 200 OK\r\n{fields}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
    for piece in pieces {
        answer.extend(format!("{:x}\r\n", piece.len()).into_bytes());
        answer.extend_from_slice(piece);
        answer.extend(b"\r\n");
    }
    answer.extend(b"0\r\n\r\n");
    answer
}

/// B14, B24: a stream in pieces, every byte value, a coding that nobody here undoes, nothing at all.
#[test]
fn a_stored_answer_is_the_same_bytes_after_a_crash() {
    let upstream = Upstream::start(Keys::Ignored);
    let mut proxy = Proxy::start(Setup::opaque(upstream.address()));
    let bytes = every_byte();
    // Not gzip at all: whoever tried to decode it would fail.
    let coded = b"\x1f\x8b not really".as_slice();
    let answers = [
        (
            "pieces",
            chunked("", &[b"one ", b"two ", b"three"]),
            b"one two three".to_vec(),
        ),
        (
            "bytes",
            chunked("Content-Type: application/octet-stream\r\n", &[&bytes]),
            bytes.clone(),
        ),
        (
            "coded",
            chunked("Content-Encoding: gzip\r\n", &[coded]),
            coded.to_vec(),
        ),
        (
            "nothing",
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec(),
            Vec::new(),
        ),
    ];
    for (key, answer, content) in &answers {
        upstream.next(Script::answer_raw(answer.clone()));
        let told = pay(&proxy, key, "{}").send();
        assert_eq!((told.status, &told.body), (200, content), "{key}");
    }
    proxy.kill();
    proxy.start_again();
    for (key, _, content) in &answers {
        let again = pay(&proxy, key, "{}").send();
        assert_eq!((again.status, &again.body), (200, content), "{key}");
        assert!(again.is_replay(), "{key}");
        let coding = (*key == "coded").then_some("gzip");
        assert_eq!(again.field("content-encoding"), coding, "{key}");
    }
    assert_eq!(upstream.heads().len(), answers.len());
}

/// B08: an identity on another endpoint is another request, never the first one's answer.
#[test]
fn a_key_used_on_another_endpoint_is_refused() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::opaque(upstream.address()));
    assert_eq!(pay(&proxy, "k", "{}").send().status, 201);
    let elsewhere = proxy
        .post("/accounts/42/payments")
        .token("1")
        .key("k")
        .json("{}");
    let told = elsewhere.send();
    assert_refused(&told, 422, "idempotency-key-reused", "never");
    assert_eq!(upstream.heads().len(), 1);
}
