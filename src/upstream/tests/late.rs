//! Attempts that outlast the response limit.

use std::future::{pending, ready};
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use super::scripted::*;
use crate::protocol::outcome::{Interruption, Phase};
use crate::store::permit::Receipt;
use crate::upstream::{EffectPool, LateReader, Limits, Sent};

const LONG: Duration = Duration::from_secs(20);

fn impatient() -> Limits {
    Limits {
        response: Duration::from_millis(40),
        ..Limits::default()
    }
}

/// Says `before` at once and `after` when told to; tells what else it got.
fn slow(before: &'static str, after: &'static str) -> (Scripted, Arc<Signal>, Arc<Signal>) {
    let (go, gone) = (signal(), signal());
    let (taken, told) = (go.clone(), gone.clone());
    let upstream = Scripted::run(move |_, mut peer| {
        while peer.request().is_some() {
            peer.write(before);
            taken.wait();
            peer.write(after);
        }
        told.give();
    });
    (upstream, go, gone)
}

async fn given_up(pool: &EffectPool) -> (Receipt, LateReader) {
    let reserved = pool.reserve().await.unwrap();
    match reserved.send(permit(), post(pool, 10), judge).await {
        Sent::Interrupted { receipt, late } => (receipt, late),
        Sent::Ended(receipt) => panic!("ended: {receipt:?}"),
    }
}

#[tokio::test]
async fn a_late_answer_is_read() {
    let (upstream, go, _) = slow("", OK);
    let pool = upstream.pool_with(impatient());
    for _ in 0..2 {
        let (receipt, late) = given_up(&pool).await;
        assert_eq!(
            receipt.evidence(),
            &interrupted(Phase::Waiting, Interruption::Timeout)
        );
        go.give();
        let end = late.wait(LONG, pending()).await;
        assert_eq!(end.attempt(), receipt.attempt());
        assert_eq!(answered(end.evidence().clone()).status, 200);
    }
    assert_eq!(upstream.accepted(), 1, "good again after its late answer");
}

#[tokio::test]
async fn an_answer_that_stalls_in_its_content_is_late_too() {
    let (upstream, go, _) = slow("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nha", "lf");
    let pool = upstream.pool_with(impatient());
    let (receipt, late) = given_up(&pool).await;
    assert_eq!(
        receipt.evidence(),
        &interrupted(Phase::Receiving, Interruption::Timeout)
    );
    go.give();
    let answer = answered(late.wait(LONG, pending()).await.evidence().clone());
    assert_eq!(answer.body.unwrap(), "half");
}

#[tokio::test]
async fn a_settle_step_closes_the_attempt_first() {
    let (upstream, go, gone) = slow("", OK);
    let pool = upstream.pool_with(impatient());
    let (_, late) = given_up(&pool).await;
    let end = late.wait(LONG, ready(())).await;
    assert_eq!(
        end.evidence(),
        &interrupted(Phase::Waiting, Interruption::ClosedToSettle)
    );
    go.give();
    gone.wait(); // the upstream saw the end of the stream
    assert!(pool.idle().is_none());
}

#[tokio::test]
async fn a_late_reader_gives_up_in_the_end() {
    let (upstream, go, gone) = slow("", OK);
    let pool = upstream.pool_with(impatient());
    let (_, late) = given_up(&pool).await;
    let end = late.wait(Duration::from_millis(20), pending()).await;
    assert_eq!(
        end.evidence(),
        &interrupted(Phase::Waiting, Interruption::Timeout)
    );
    go.give();
    gone.wait();
}

#[tokio::test]
async fn a_late_end_without_an_answer_is_told() {
    let close = signal();
    let closer = close.clone();
    let upstream = Scripted::run(move |_, mut peer| {
        peer.request();
        closer.wait();
        peer.close();
    });
    let pool = upstream.pool_with(impatient());
    let (_, late) = given_up(&pool).await;
    close.give();
    let end = late.wait(LONG, pending()).await;
    assert_eq!(
        end.evidence(),
        &interrupted(Phase::Waiting, Interruption::Closed)
    );
}

/// What was not sent by the response limit is not sent after it.
#[tokio::test]
async fn a_request_that_could_not_be_sent_in_time_is_cut_off() {
    let (go, gone) = (signal(), signal());
    let (taken, told) = (go.clone(), gone.clone());
    let length = 64 << 20;
    let upstream = Scripted::run(move |_, mut peer| {
        let mut one = [0];
        peer.tcp.read_exact(&mut one).unwrap();
        taken.wait();
        assert!(peer.drain() < length);
        told.give();
    });
    let pool = upstream.pool_with(impatient());
    let evidence = send(&pool, post(&pool, length)).await;
    assert_eq!(evidence, interrupted(Phase::Sending, Interruption::Timeout));
    go.give();
    gone.wait();
}
