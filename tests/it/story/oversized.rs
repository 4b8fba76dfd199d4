//! Answers too large to keep.
//!
//! What always holds: the caller whose attempt brings one gets it whole, or sees that it did not; the
//! effect ends as any other does, whatever becomes of the caller; everybody else is told that its
//! content is not kept.

use std::fmt::Write as _;

use super::*;
use crate::support::gate::Gate;
use crate::support::script::{Ending, Script};
use crate::support::setup::Setup;
use crate::support::upstream::Keys;

/// Answers of more than 1 KiB are not kept.
fn keeping_little(capability: &str) -> String {
    let key = match capability {
        "idempotent" => "key: { header: Idempotency-Key, lifetime: 24h, value: derived }\n",
        _ => "",
    };
    format!(
        "capability: [{capability}]\n{key}effects:\n  - on: POST /payments\n    \
         once: {{ header: Idempotency-Key }}\n    limits: {{ answer: 1KiB }}\n"
    )
}

fn content(length: usize) -> String {
    ('a'..='z').cycle().step_by(7).take(length).collect()
}

fn counted(status: u16, length: usize) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status} X\r\nETag: e\r\nContent-Encoding: x\r\nContent-Length: {length}\r\n\r\n{}",
        content(length)
    )
    .into_bytes()
}

fn chunked(length: usize) -> Vec<u8> {
    let content = content(length);
    let mut text = "HTTP/1.1 201 X\r\nETag: e\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
    for piece in content.as_bytes().chunks(1_000) {
        let piece = String::from_utf8_lossy(piece);
        write!(text, "{:x}\r\n{piece}\r\n", piece.len()).unwrap();
    }
    text.push_str("0\r\n\r\n");
    text.into_bytes()
}

fn assert_not_kept(told: &Answer, status: u16) {
    assert_eq!(told.status, status, "{}", told.text());
    assert_eq!(told.field("fencepost-body"), Some("not-kept"));
    assert!(told.body.is_empty() && told.is_replay());
}

#[test]
fn the_first_caller_gets_it_whole_and_everybody_else_is_told_that_it_is_not_kept() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), &keeping_little("opaque")));
    let length = 3_000_000;
    for (key, answer, known) in [
        ("counted", counted(201, length), Some("3000000")),
        ("chunked", chunked(length), None),
    ] {
        let gate = Gate::closed();
        upstream.next(Script::answer_raw(answer).held_at(&gate));
        let first = pay(&proxy, key, "{}").start();
        gate.until_reached();
        let joiner = pay(&proxy, key, "{}").start();
        gate.open();

        let first = first.answer();

        assert_eq!((first.status, first.text()), (201, content(length)));
        assert_eq!(first.field("content-length"), known);
        assert_eq!(first.field("etag"), Some("e"));
        assert_eq!(first.field("fencepost-body"), Some("not-kept"));
        assert_eq!(first.field("fencepost-source"), Some("upstream"));
        assert_eq!(first.field("fencepost-state"), None);
        // What its caller saw whole is recorded.
        assert_eq!(state(&proxy, key), "COMPLETED");
        assert_not_kept(&joiner.answer(), 201);
        let again = pay(&proxy, key, "{}").send();
        assert_not_kept(&again, 201);
        assert_eq!(again.field("etag"), Some("e"));
        assert_eq!(
            again.field("content-encoding"),
            None,
            "of what is not there"
        );
    }
    assert_eq!(upstream.heads().len(), 2);
}

#[test]
fn one_that_breaks_off_never_looks_whole_and_is_settled() {
    let upstream = Upstream::start(Keys::Honoured);
    let proxy = Proxy::start(Setup::new(
        upstream.address(),
        &keeping_little("idempotent"),
    ));
    for (key, answer) in [
        ("counted", counted(201, 300_000)),
        ("chunked", chunked(300_000)),
    ] {
        let half = answer[..150_000].to_vec();
        upstream.next(Script::answer_raw(half).then(Ending::Close));
        let told = pay(&proxy, key, "{}").start().try_answer();
        assert!(told.is_err(), "it looks whole: {told:?}");
        // The second time the upstream answers in few words.
        until_state(&proxy, key, "COMPLETED");
        let again = pay(&proxy, key, "{}").send();
        assert_eq!((again.status, again.is_replay()), (201, true));
    }
    let keys: Vec<_> = upstream
        .heads()
        .into_iter()
        .map(|head| head.fields.first("idempotency-key").map(str::to_owned))
        .collect();
    assert_eq!(keys.len(), 4);
    assert_eq!((&keys[0], &keys[2]), (&keys[1], &keys[3]));
}

#[test]
fn a_caller_that_hangs_up_in_the_midst_stops_nothing() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), &keeping_little("opaque")));
    let gate = Gate::closed();
    let answer = Script::answer_raw(counted(201, 3_000_000));
    upstream.next(answer.rest_held_at(1_000_000, &gate));
    let gone = pay(&proxy, "k", "{}").start();
    gone.until_answered();
    gone.hang_up();
    gate.open();
    until_state(&proxy, "k", "COMPLETED");
    assert_not_kept(&pay(&proxy, "k", "{}").send(), 201);
    assert_eq!(upstream.heads().len(), 1);
}

#[test]
fn an_ambiguous_one_is_marked_in_its_head() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), &keeping_little("opaque")));
    upstream.next(Script::answer_raw(counted(503, 50_000)));
    let told = pay(&proxy, "k", "{}").send();
    assert_eq!((told.status, told.text()), (503, content(50_000)));
    assert_eq!(told.field("fencepost-state"), Some("uncertain"));
    assert!(told.field("location").is_some());
    until_state(&proxy, "k", "NEEDS_ATTENTION");
}

/// An HTTP/1.0 caller could not tell the end of such an answer from a break: it gets the head alone.
#[test]
fn a_caller_that_could_not_see_it_break_off_gets_its_head() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), &keeping_little("opaque")));
    upstream.next(Script::answer_raw(chunked(50_000)));
    let told = pay(&proxy, "k", "{}").in_http_1_0().send();
    assert_eq!((told.status, told.body.len()), (201, 0));
    assert_eq!(told.field("fencepost-body"), Some("not-kept"));
    assert_eq!(state(&proxy, "k"), "COMPLETED");
}

/// All content that is held at once has one limit. Requests take room too.
#[test]
fn one_for_which_there_is_no_room_is_passed_on_and_not_kept() {
    let upstream = Upstream::start(Keys::Ignored);
    let setup = Setup::opaque(upstream.address()).with("limits: { buffered_bodies: 64KiB }");
    let proxy = Proxy::start(setup);
    let large = format!(r#"{{"note":"{}"}}"#, content(50_000));
    for (key, request, kept) in [("large", large.as_str(), false), ("small", "{}", true)] {
        upstream.next(Script::answer_raw(counted(201, 40_000)));
        let first = pay(&proxy, key, request).send();
        assert_eq!((first.status, first.text()), (201, content(40_000)));
        let again = pay(&proxy, key, request).send();
        if kept {
            assert_replayed(&again, &first);
        } else {
            assert_not_kept(&again, 201);
        }
    }
}

/// It is judged by the config that it began with, to its last byte.
#[test]
fn one_that_streams_while_the_config_changes_ends_whole_and_under_its_own() {
    let upstream = Upstream::start(Keys::Ignored);
    let proxy = Proxy::start(Setup::new(upstream.address(), &keeping_little("opaque")));
    let length = 3_000_000;
    let gate = Gate::closed();
    let answer = Script::answer_raw(counted(201, length));
    upstream.next(answer.rest_held_at(1_000_000, &gate));
    let slow = pay(&proxy, "k", "{}").start();
    slow.until_answered();
    let digest = || proxy.read("/v1/config")["digest"].clone();
    let before = digest();
    let refuses = "answers: { refused: \"response.status == 201\" }\n    effects:";
    proxy.change_config("effects:", refuses);
    proxy.hang_up();
    until("another config is in force", || digest() != before);
    assert_eq!(state(&proxy, "k"), "INTENDED", "it is still coming");

    gate.open();
    let told = slow.answer();

    assert_eq!((told.status, told.body.len()), (201, length));
    assert_eq!(told.text(), content(length));
    until_state(&proxy, "k", "COMPLETED");
    let verdict = |key| operation(&proxy, key)["outcome"]["verdict"].clone();
    assert_eq!(verdict("k"), "applied");
    upstream.next(Script::answer_raw(counted(201, 10)));
    assert_eq!(pay(&proxy, "l", "{}").send().status, 201);
    assert_eq!(verdict("l"), "refused", "by the new one");
}
