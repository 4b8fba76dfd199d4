//! Every way an attempt can end, as its own caller and a joiner are told it.

use super::*;
use crate::protocol::ids::InstanceId;
use crate::protocol::operation::{Parked, WhyNot};
use crate::protocol::outcome::{AnswerClass, Interruption, Phase, Provenance, Verdict};
use crate::protocol::time::{BootId, BootInstant, Moment};
use crate::wire::reply::fixtures::operation;
use crate::wire::reply::{OPERATION, SOURCE};
use bytes::Bytes;
use http::Method;
use http_body::Body;

const AT: Moment = Moment {
    boot: BootId(1),
    boottime: BootInstant(1),
    wall_ms: 1_789_000_000_123,
};

fn attempt(number: u64) -> AttemptId {
    AttemptId {
        instance: InstanceId(1),
        number,
    }
}

fn field(name: &'static str, value: &'static str) -> (Bytes, Bytes) {
    (name.into(), value.into())
}

/// B12.
fn created() -> Answer {
    Answer {
        status: 201,
        fields: vec![
            field("location", "/charges/1"),
            field("etag", "\"1\""),
            field("link", "<a>; rel=a"),
            field("set-cookie", "a=1"),
            field("link", "<b>; rel=b"),
            field("set-cookie", "b=2"),
            field("retry-after", "7"),
            field("x-ratelimit-remaining", "0"),
            field("ratelimit-reset", "0"),
            field("ratelimit", "x"),
            field("www-authenticate", "Basic"),
            field("proxy-authenticate", "Basic"),
            field("date", "Sun, 13 Sep 2026 00:00:00 GMT"),
            field("idempotent-replayed", "false"),
            field("fencepost-source", "forged"),
            field("content-length", "999"),
            field("content-encoding", "gzip"),
        ],
        body: Some(Bytes::from_static(b"\x1f\x8bcontent")),
    }
}

fn completed(answer: Option<Answer>, attempt: Option<AttemptId>) -> Completion {
    Completion {
        verdict: Verdict::Applied,
        provenance: Provenance::Answer,
        attempt,
        answer,
        at: AT,
    }
}

fn answered(answer: Answer, class: AnswerClass) -> Evidence {
    Evidence::Answered { answer, class }
}

const TIMEOUT: Evidence = Evidence::Interrupted {
    phase: Phase::Waiting,
    why: Interruption::Timeout,
};

fn told(state: Option<&State>, evidence: &Evidence, listener: Listener) -> Reply {
    let end = Ended {
        key: &operation("pay:1"),
        resource: None,
        attempt: attempt(1),
        evidence,
        state,
        uncertain_status: StatusCode::GATEWAY_TIMEOUT,
    };
    ended(&end, listener)
}

fn problem_of(reply: &Reply) -> String {
    let document: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
    document["type"]
        .as_str()
        .unwrap()
        .replace("urn:fencepost:problem:", "")
}

fn values(reply: &Reply, name: &str) -> Vec<String> {
    let values = reply.headers.get_all(name).iter();
    values
        .map(|value| value.to_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_first_answer_passes_everything() {
    let state = State::Completed(completed(Some(created()), Some(attempt(1))));
    let evidence = answered(created(), AnswerClass::Applied);
    let reply = told(Some(&state), &evidence, Listener::Sender);
    assert_eq!(reply.status, 201);
    assert_eq!(values(&reply, "link"), ["<a>; rel=a", "<b>; rel=b"]);
    assert_eq!(values(&reply, "set-cookie"), ["a=1", "b=2"]);
    assert_eq!(
        values(&reply, "idempotent-replayed"),
        ["false"],
        "the upstream's own word"
    );
    for name in [
        "date",
        "x-ratelimit-remaining",
        "www-authenticate",
        "retry-after",
    ] {
        assert!(reply.headers.contains_key(name), "{name}");
    }
    assert_eq!(values(&reply, "fencepost-source"), ["upstream"]);
    assert_eq!(reply.headers[LOCATION], "/charges/1");
    assert!(!reply.headers.contains_key("content-length"));
    assert!(!reply.headers.contains_key(STATE));
    assert_eq!(reply.body, created().body.unwrap());
}

#[test]
fn a_replay_has_the_same_answer_without_what_was_of_the_moment() {
    let completion = completed(Some(created()), Some(attempt(1)));
    let reply = replay(&operation("pay:1"), &completion, false);
    assert_eq!(reply.status, 201);
    assert_eq!(reply.headers[LOCATION], "/charges/1");
    assert_eq!(reply.headers["etag"], "\"1\"");
    assert_eq!(values(&reply, "link"), ["<a>; rel=a", "<b>; rel=b"]);
    assert_eq!(values(&reply, "idempotent-replayed"), ["true"]);
    assert_eq!(values(&reply, "fencepost-source"), ["stored"]);
    for name in [
        "set-cookie",
        "www-authenticate",
        "proxy-authenticate",
        "date",
        "x-ratelimit-remaining",
        "ratelimit-reset",
        "ratelimit",
    ] {
        assert!(!reply.headers.contains_key(name), "{name}");
    }
    assert_eq!(reply.headers["content-encoding"], "gzip");
    assert_eq!(reply.body, created().body.unwrap());
    assert_eq!(reply.headers[OPERATION], "pay:1");
    assert_eq!(reply.headers[PROVENANCE], "answer");
    assert_eq!(reply.headers[COMPLETED], "2026-09-10T00:26:40.123Z");
    assert!(!reply.headers.contains_key(STATE));
}

#[test]
fn a_stale_caller_learns_the_outcome_and_that_it_is_stale() {
    let completion = completed(Some(created()), Some(attempt(1)));
    let reply = replay(&operation("pay:1"), &completion, true);
    assert_eq!(reply.status, 201);
    assert_eq!(reply.headers[STATE], "stale-token");
}

#[test]
fn joiners_and_overtaken_senders_get_a_replay() {
    let evidence = answered(created(), AnswerClass::Applied);
    let own = State::Completed(completed(Some(created()), Some(attempt(1))));
    let by_another = State::Completed(completed(Some(created()), Some(attempt(2))));
    let by_a_person = State::Completed(completed(Some(created()), None));
    for (state, evidence, listener) in [
        (&own, &evidence, Listener::Joiner),
        (&by_another, &evidence, Listener::Sender),
        (&by_a_person, &TIMEOUT, Listener::Sender),
    ] {
        let reply = told(Some(state), evidence, listener);
        assert_eq!(values(&reply, "idempotent-replayed"), ["true"]);
        assert!(!reply.headers.contains_key("set-cookie"));
    }
}

#[test]
fn an_answer_too_large_to_keep_says_so_each_time() {
    let large = Answer {
        body: None,
        ..created()
    };
    let state = State::Completed(completed(Some(large.clone()), Some(attempt(1))));
    let evidence = answered(large.clone(), AnswerClass::Applied);
    let first = told(Some(&state), &evidence, Listener::Sender);
    let again = replay(&operation("pay:1"), &completed(Some(large), None), false);
    for reply in [first, again] {
        assert_eq!(reply.status, 201);
        assert_eq!(reply.headers[BODY], "not-kept");
        assert!(reply.body.is_empty());
        assert!(!reply.headers.contains_key("content-encoding"));
    }
}

#[test]
fn a_purged_answer_is_expired() {
    let reply = replay(&operation("pay:1"), &completed(None, None), false);
    assert_eq!(problem_of(&reply), "answer-expired");
    let state = State::Completed(completed(None, Some(attempt(1))));
    let reply = told(Some(&state), &TIMEOUT, Listener::Sender);
    assert_eq!(problem_of(&reply), "answer-expired");
}

#[test]
fn an_answer_that_proves_nothing_passes_marked() {
    let refused = Answer {
        status: 503,
        ..created()
    };
    let evidence = answered(refused, AnswerClass::Ambiguous);
    for state in [
        None,
        Some(State::Intended),
        Some(State::Uncertain),
        Some(State::NeedsAttention(Parked::NoStep)),
    ] {
        let reply = told(state.as_ref(), &evidence, Listener::Sender);
        assert_eq!(reply.status, 503);
        assert_eq!(values(&reply, "fencepost-state"), ["uncertain"]);
        assert_eq!(reply.headers[SOURCE], "upstream");
        assert_eq!(
            reply.headers[LOCATION], "/charges/1",
            "a redirect still leads where it did"
        );
        let joined = told(state.as_ref(), &evidence, Listener::Joiner);
        assert_eq!(values(&joined, "fencepost-state"), ["uncertain"]);
        assert_eq!(values(&joined, "idempotent-replayed"), ["true"]);
    }
    let bare = Answer {
        status: 500,
        fields: Vec::new(),
        body: Some(Bytes::new()),
    };
    let reply = told(
        None,
        &answered(bare, AnswerClass::Ambiguous),
        Listener::Sender,
    );
    assert_eq!(
        reply.headers[LOCATION],
        "/v1/operations/bank%2Feu/pay%3A1?principal=none&incarnation=0"
    );
}

#[test]
fn even_an_applied_answer_is_uncertain_until_its_record_is_there() {
    let reply = told(
        None,
        &answered(created(), AnswerClass::Applied),
        Listener::Sender,
    );
    assert_eq!(reply.status, 201);
    assert_eq!(values(&reply, "fencepost-state"), ["uncertain"]);
}

#[test]
fn without_an_answer_the_record_decides_what_is_said() {
    let dispatch = Evidence::NotSent(Unsent::DispatchExpired);
    let lost = Evidence::NotSent(Unsent::ConnectionLost);
    let not_sent = |unsent| Some(State::NotApplied(WhyNot::NotSent(unsent)));
    let said = Some(State::NotApplied(WhyNot::Said(Provenance::Operator)));
    let parked = Some(State::NeedsAttention(Parked::NoStep));
    for (state, evidence, status, name) in [
        (
            not_sent(Unsent::DispatchExpired),
            &dispatch,
            503,
            "dispatch-expired",
        ),
        (
            not_sent(Unsent::ConnectionLost),
            &lost,
            502,
            "upstream-unreachable",
        ),
        (Some(State::Uncertain), &lost, 504, "outcome-uncertain"),
        (Some(State::Uncertain), &TIMEOUT, 504, "outcome-uncertain"),
        (Some(State::Intended), &TIMEOUT, 504, "outcome-uncertain"),
        (None, &TIMEOUT, 504, "outcome-uncertain"),
        (said, &TIMEOUT, 504, "outcome-uncertain"),
        (parked, &TIMEOUT, 409, "needs-attention"),
    ] {
        for listener in [Listener::Sender, Listener::Joiner] {
            let reply = told(state.as_ref(), evidence, listener);
            assert_eq!(reply.status, status);
            assert_eq!(problem_of(&reply), name);
            assert_eq!(reply.headers[SOURCE], "proxy");
            assert_eq!(reply.headers[OPERATION], "pay:1");
        }
    }
}

#[test]
fn what_was_not_processed_is_told_in_the_upstreams_words() {
    let limited = Answer {
        status: 429,
        ..created()
    };
    let state = State::NotApplied(WhyNot::NotProcessed(429));
    let evidence = answered(limited, AnswerClass::NotProcessed);
    let reply = told(Some(&state), &evidence, Listener::Sender);
    assert_eq!(reply.status, 429);
    assert_eq!(reply.headers["retry-after"], "7");
    assert!(!reply.headers.contains_key(STATE));
    assert_eq!(values(&reply, "fencepost-source"), ["upstream"]);
    let joined = told(Some(&state), &evidence, Listener::Joiner);
    assert_eq!(joined.status, 429);
    assert_eq!(values(&joined, "fencepost-source"), ["stored"]);
}

/// B26.
#[test]
fn replays_without_room_for_content_carry_none() {
    for status in [204, 205, 304] {
        let bogus = Answer {
            status,
            ..created()
        };
        let reply = replay(&operation("x"), &completed(Some(bogus), None), false);
        let response = reply.into_response(&Method::DELETE);
        assert_eq!(response.body().size_hint().exact(), Some(0));
        assert!(!response.headers().contains_key("content-length"));
        assert!(!response.headers().contains_key("transfer-encoding"));
    }
}

#[test]
fn a_time_beyond_the_calendar_does_not_panic() {
    assert_eq!(rfc3339(u64::MAX), "9999-12-31T23:59:59.999Z");
    assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
}
