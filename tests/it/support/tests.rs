//! The support is believed by every story: here it is made to prove that it counts right.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::call::Call;
use super::gate::{Gate, until};
use super::http::Reader;
use super::link::Link;
use super::ports;
use super::script::{Ending, Script};
use super::upstream::{Keys, Upstream};

fn pay(target: SocketAddr) -> Call {
    Call::new(target, "POST", "/payments").json(r#"{"amount":5}"#)
}

#[test]
fn an_upstream_counts_effects_heads_and_connections() {
    let upstream = Upstream::start(Keys::Ignored);
    let look = Call::new(upstream.address(), "GET", "/payments").send();
    assert_eq!(look.json()["effects"], 0);
    for _ in 0..2 {
        assert_eq!(pay(upstream.address()).key("k").send().status, 201);
    }
    assert_eq!(upstream.effects_on("/payments"), 2);
    assert_eq!(upstream.effects_on("/other"), 0);
    assert_eq!(upstream.heads().len(), 3);
    assert_eq!(upstream.connections(), 3);
    let effects = upstream.effects();
    assert_eq!(effects[1].key.as_deref(), Some("k"));
    assert_eq!(effects[1].body, r#"{"amount":5}"#);
    assert_eq!(effects[1].method, "POST");
    assert!(effects[1].head.text.ends_with("\r\n\r\n"));
    assert_eq!(upstream.text().matches(r#"{"amount":5}"#).count(), 2);
}

#[test]
fn a_key_that_is_honoured_has_one_effect_and_one_answer() {
    let upstream = Upstream::start(Keys::Honoured);
    let first = pay(upstream.address()).key("k").send();
    let second = pay(upstream.address()).key("k").send();
    let other = pay(upstream.address()).key("l").send();
    assert_eq!(first.body, second.body);
    assert_ne!(first.body, other.body);
    assert_eq!(upstream.effects().len(), 2);
}

#[test]
fn a_request_that_is_cut_has_no_effect_however_short_the_cut() {
    for length in [1, 5, 40, pay(any()).bytes().len() - 1] {
        let upstream = Upstream::start(Keys::Ignored);
        upstream.next(Script::cut_request_after(length));
        let fault = pay(upstream.address()).attempt().unwrap_err();
        assert_eq!(fault.kind(), std::io::ErrorKind::ConnectionReset);
        assert_eq!(upstream.text().len(), length);
        assert_eq!(upstream.effects().len(), 0);
    }
}

#[test]
fn half_a_request_has_no_effect() {
    let upstream = Upstream::start(Keys::Ignored);
    let call = pay(upstream.address());
    let half = call.start_with(call.bytes().len() - 1);
    until("the head is there", || upstream.heads().len() == 1);
    half.hang_up();
    assert_eq!(call.send().status, 201);
    assert_eq!(upstream.effects().len(), 1);
}

#[test]
fn an_answer_can_be_lost_after_the_effect() {
    let upstream = Upstream::start(Keys::Ignored);
    upstream.next(Script::lose_answer());
    upstream.next(Script::cut_answer_after(20));
    let reset = pay(upstream.address()).attempt().unwrap_err();
    assert_eq!(reset.kind(), std::io::ErrorKind::ConnectionReset);
    let short = pay(upstream.address()).attempt().unwrap_err();
    assert_eq!(short.kind(), std::io::ErrorKind::UnexpectedEof);
    assert_eq!(upstream.effects().len(), 2);
}

#[test]
fn an_effect_can_be_held_and_so_can_its_answer() {
    let upstream = Upstream::start(Keys::Ignored);
    let (effect, answer) = (Gate::closed(), Gate::closed());
    upstream.next(Script::hold_effect(&effect));
    let first = pay(upstream.address()).start();
    effect.until_reached();
    assert_eq!(upstream.effects().len(), 0);
    effect.open();
    assert_eq!(first.answer().status, 201);

    upstream.next(Script::hold_answer(&answer));
    let second = pay(upstream.address()).start();
    answer.until_reached();
    assert_eq!(upstream.effects().len(), 2);
    assert!(!second.is_answered());
    answer.open();
    second.until_answered();
    assert_eq!(second.answer().status, 201);
}

#[test]
fn a_scripted_answer_is_no_effect_and_says_how_the_connection_ends() {
    let upstream = Upstream::start(Keys::Ignored);
    upstream.next(Script::refuse(402, "{}").then(Ending::Close));
    upstream.next(
        Script::answer_raw("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nto the end")
            .then(Ending::Close),
    );
    assert_eq!(pay(upstream.address()).send().status, 402);
    assert_eq!(pay(upstream.address()).send().text(), "to the end");
    assert_eq!(upstream.effects().len(), 0);
}

#[test]
fn a_kept_connection_serves_the_next_request_too() {
    let upstream = Upstream::start(Keys::Ignored);
    let mut stream = TcpStream::connect(upstream.address()).unwrap();
    for number in 1..=2 {
        write!(
            stream,
            "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        )
        .unwrap();
        let mut reader = Reader::new(&stream, |_: &[u8]| {});
        let head = reader.head().unwrap().unwrap();
        let body = reader.body(&head, false).unwrap();
        assert_eq!(body, format!(r#"{{"id":"effect-{number}"}}"#).into_bytes());
    }
    assert_eq!(upstream.connections(), 1);
    assert_eq!(upstream.effects()[1].body, "abc");
}

#[test]
fn a_request_in_the_network_arrives_even_after_its_sender_is_gone() {
    let upstream = Upstream::start(Keys::Ignored);
    let link = Link::to(upstream.address());
    link.hold_requests();
    let call = pay(link.address());
    let sent = call.start();
    until("all of it is in the link", || {
        link.request_bytes_held() == call.bytes().len()
    });
    assert_eq!(upstream.heads().len(), 0);
    sent.hang_up();
    link.release_requests();
    until("it arrives", || upstream.effects().len() == 1);
}

#[test]
fn an_answer_in_the_network_can_be_held_or_lost() {
    let upstream = Upstream::start(Keys::Ignored);
    let link = Link::to(upstream.address());
    link.hold_answers();
    let held = pay(link.address()).start();
    until("the effect is there", || upstream.effects().len() == 1);
    assert!(!held.is_answered());
    link.release_answers();
    assert_eq!(held.answer().status, 201);

    link.lose_next_answer();
    let fault = pay(link.address()).attempt().unwrap_err();
    assert_eq!(fault.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!((link.answers_lost(), upstream.effects().len()), (1, 2));
    assert_eq!(pay(link.address()).send().status, 201);
}

#[test]
fn a_link_cuts_the_callers_that_it_has_and_serves_the_next() {
    let upstream = Upstream::start(Keys::Ignored);
    let link = Link::to(upstream.address());
    link.hold_answers();
    let cut = pay(link.address()).start();
    until("the effect is there", || upstream.effects().len() == 1);
    link.cut_callers();
    let fault = cut.try_answer().unwrap_err();
    assert_eq!(fault.kind(), std::io::ErrorKind::ConnectionReset);
    link.release_answers();
    assert_eq!(pay(link.address()).send().status, 201);
    assert_eq!(link.connections(), 2);
}

#[test]
fn ports_are_given_out_once_and_lie_below_the_outgoing_ones() {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    let first_outgoing: u16 = range.split_whitespace().next().unwrap().parse().unwrap();
    let (one, two) = (ports::free(), ports::free());
    assert_ne!(one, two);
    assert!(one < first_outgoing && two < first_outgoing);
}

fn any() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 1))
}

#[test]
fn whoever_has_done_it_never_refuses_it_and_a_refusal_may_be_remembered() {
    for (remembered, second) in [(true, 402), (false, 201)] {
        let upstream = Upstream::start(Keys::Honoured);
        let refusal = || Script::refuse_what_is_new(402, "{}", remembered);
        let send = |key: &str| pay(upstream.address()).key(key).send().status;
        upstream.next(refusal());
        assert_eq!([send("new"), send("new")], [402, second]);
        let done = upstream.effects().len();
        assert_eq!(done, usize::from(second == 201));
        assert_eq!(send("done"), 201);
        upstream.next(refusal());
        assert_eq!(send("done"), 201);
        let gate = Gate::closed();
        upstream.next(Script::hold_effect(&gate));
        let running = pay(upstream.address()).key("running").start();
        gate.until_reached();
        upstream.next(refusal());
        assert_eq!(send("running"), 201);
        gate.open();
        assert_eq!(running.answer().status, 201);
        assert_eq!(upstream.effects().len(), done + 2);
        assert_eq!(upstream.served().len(), 6);
    }
}

#[test]
fn a_slow_gate_opens_by_itself_and_not_at_once() {
    let upstream = Upstream::start(Keys::Ignored);
    let slow = Duration::from_millis(100);
    upstream.next(Script::hold_effect(&Gate::slow(slow)));
    let begun = Instant::now();
    assert_eq!(pay(upstream.address()).send().status, 201);
    assert!(begun.elapsed() >= slow);
}

#[test]
fn a_condition_holds_for_what_is_there_and_no_longer() {
    let upstream = Upstream::start(Keys::Ignored);
    upstream.judge_conditions();
    let put = |path: &str, condition: &str, of: &str| {
        let put = Call::new(upstream.address(), "PUT", path).content("text/plain", "x");
        put.field(condition, of).send().status
    };
    assert_eq!(put("/a", "If-None-Match", "*"), 201);
    assert_eq!(put("/a", "If-None-Match", "*"), 412);
    assert_eq!(put("/a", "If-Match", "\"other\""), 412);
    assert_eq!(put("/a", "If-Match", "\"effect-1\""), 201);
    assert_eq!(put("/a", "If-Match", "\"effect-1\""), 412);
    assert_eq!(put("/seeded", "If-None-Match", "*"), 412);
    assert_eq!(put("/seeded", "If-Match", "\"seed\""), 201);
    assert_eq!(upstream.effects().len(), 3);
}
