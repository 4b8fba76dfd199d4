//! The plays: what goes wrong, and what the provider has counted when everybody has ended.
//!
//! What always holds: a fault happens at a point that was awaited; workers are paused with SIGSTOP and
//! killed with SIGKILL; the count is read from the provider, and what a worker believes comes second.

use std::time::Instant;

use super::stage::{LIFETIME, Stage};
use super::{Cell, Column};
use crate::stripe;
use crate::support::gate::{Gate, until};
use crate::support::script::{Script, json_answer};
use crate::support::upstream::{Keys, Upstream};

const OLD: &str = "old";
const NEW: &str = "new";

/// A payment, counted.
fn paid(effects: usize) -> Cell {
    Cell {
        effects,
        note: "",
        harm: effects > 1,
    }
}

/// One answer is lost on its way back.
pub fn lost_answer(column: Column) -> Cell {
    paid(payments_with_answers_lost(column, 1))
}

/// So many answers are lost that the SDK gives up; the application calls it once more.
pub fn application_retry(column: Column) -> Cell {
    paid(payments_with_answers_lost(column, 3))
}

fn payments_with_answers_lost(column: Column, count: usize) -> usize {
    let provider = Upstream::start(Keys::Honoured);
    let stage = Stage::honouring_keys(column, provider.address());
    stage.lose_answers(count);
    let mut worker = stage.payer("alice", "order-1");
    worker.go();
    assert_eq!(worker.status(), 200);
    assert_eq!(stage.network.answers_lost(), count);
    provider.effects().len()
}

/// The worker dies when the provider has made the payment and not yet answered, and what runs beside
/// it dies too; the job is given to another worker.
pub fn crash_after_send(column: Column) -> Cell {
    let provider = Upstream::start(Keys::Honoured);
    let mut stage = Stage::honouring_keys(column, provider.address());
    let answer = Gate::closed();
    provider.next(Script::hold_answer(&answer));
    let mut alice = stage.payer("alice", "order-1");
    alice.go();
    answer.until_reached();
    alice.kill();
    stage.restart_sidecar();
    answer.open();

    let mut bob = stage.payer("bob", "order-1");
    bob.go();
    assert_eq!(bob.status(), 200);
    paid(provider.effects().len())
}

/// The worker has looked whether it still owns the job, and pauses before it sends. Another one takes
/// over and publishes the newer result. The first one wakes up and sends.
pub fn paused_worker(column: Column) -> Cell {
    let provider = Upstream::start(Keys::Ignored);
    let stage = Stage::without_keys(column, provider.address());
    let mut alice = stage.publisher("alice", OLD, "107");
    stage.pause(&alice);
    let mut bob = stage.publisher("bob", NEW, "108");
    bob.go();
    assert_eq!(bob.status(), 201);

    alice.go();
    alice.wake();
    let told = alice.status();
    assert_eq!(told == 412, column == Column::Fencepost, "{told}");
    published(&provider)
}

/// The worker's request has left it and is under way when the worker pauses and another one takes
/// over. It arrives when the newer one has got as far as it gets.
pub fn stale_request(column: Column) -> Cell {
    let provider = Upstream::start(Keys::Ignored);
    let stage = Stage::without_keys(column, provider.address());
    stage.network.hold_requests();
    let mut alice = stage.publisher("alice", OLD, "107");
    alice.go();
    until("the request is on the wire", || {
        stage.network.request_bytes_held() > 0
    });
    stage.pause(&alice);
    stage.network.hold_requests_on_open_connections();

    let mut bob = stage.publisher("bob", NEW, "108");
    bob.go();
    stage.until_newer_is_as_far_as_it_gets(&mut bob, "108");
    stage.network.release_requests();
    stage.let_newer_end(&mut bob);
    alice.wake();
    assert_eq!(alice.status(), 201);
    published(&provider)
}

/// What stands in the end is what counts.
fn published(provider: &Upstream) -> Cell {
    let effects = provider.effects().into_iter();
    let texts: Vec<String> = effects
        .filter(|it| it.method == "PUT")
        .map(|it| it.body)
        .collect();
    let words: Vec<&str> = texts.iter().map(String::as_str).collect();
    let (note, harm) = match words.as_slice() {
        [.., OLD] => ("the old one last", true),
        [NEW] => ("the old one is refused", false),
        [OLD, NEW] => ("the old one first", false),
        other => panic!("neither story: {other:?}"),
    };
    Cell {
        effects: words.len(),
        note,
        harm,
    }
}

/// localstripe, which takes every request for a new one. The answer is lost at its door; everybody
/// asks again, as they do.
pub fn api_without_keys(column: Column) -> Cell {
    let provider = stripe::Provider::start();
    let stage = Stage::without_keys(column, provider.address());
    stage.network.lose_next_answer();
    let mut worker = stage.payer("alice", "order-1");
    worker.go();
    let status = worker.status();
    let cell = paid(provider.intents("order-1").len());
    let Some((proxy, road)) = stage.front() else {
        assert_eq!(status, 200);
        return cell;
    };
    let operation = proxy.read("/v1/operations/provider/pay%3Aorder-1");
    assert_eq!(operation["state"], "NEEDS_ATTENTION");
    let told = road.passed_back();
    let mut told = told.split("HTTP/1.1 ").skip(1).map(|it| &it[..3]);
    assert_eq!(told.next(), Some("504"), "nobody knows");
    assert!(told.all(|it| it == "409"), "a person has to say");
    assert_eq!(status, 409);
    Cell {
        note: "and `504`, then `409` until a person says how it ended",
        ..cell
    }
}

/// localstripe again, and Fencepost is told that it can be asked: it lists what it has made.
pub fn api_that_can_be_asked(column: Column) -> Cell {
    let provider = stripe::Provider::start();
    let stage = Stage::listing(column, provider.address());
    stage.network.lose_next_answer();
    let mut worker = stage.payer("alice", "order-1");
    worker.go();
    assert_eq!(worker.status(), 200);
    paid(provider.intents("order-1").len())
}

/// The worker dies when the provider has made the payment, and what runs beside it dies too. Another worker
/// gets the job when the provider no longer knows the key; it lists what it has made, as long as anybody asks.
pub fn forgotten_key(column: Column) -> Cell {
    let provider = Upstream::start(Keys::Honoured);
    provider.when_asked(|effects, _, _| {
        let listed = effects
            .iter()
            .map(|_| r#"{"id":"pi_1","metadata":{"order":"order-1"}}"#);
        let listed = listed.collect::<Vec<_>>().join(",");
        json_answer(200, &format!(r#"{{"data":[{listed}]}}"#))
    });
    let mut stage = Stage::forgetting_keys(column, provider.address());
    let answer = Gate::closed();
    provider.next(Script::hold_answer(&answer));
    let mut alice = stage.payer("alice", "order-1");
    alice.go();
    answer.until_reached();
    let sent = Instant::now();
    alice.kill();
    stage.kill_sidecar();
    answer.open();
    until("the key is past its time", || sent.elapsed() > LIFETIME);
    provider.forget_keys();
    stage.start_sidecar();

    let mut bob = stage.payer("bob", "order-1");
    bob.go();
    assert_eq!(bob.status(), 200);
    paid(provider.effects().len())
}
