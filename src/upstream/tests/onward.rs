//! Answers too large to keep, passed on while they are read.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::sync::oneshot;

use super::scripted::*;
use crate::protocol::outcome::{AnswerClass, Evidence, Interruption, Phase};
use crate::upstream::{
    Arrival, EffectPool, Incomplete, Limits, Oversized, PassingBody, Sent, onward,
};
use crate::wire::body::BodyBudget;

const KEPT: usize = 1_000;

fn small() -> Limits {
    Limits {
        answer_bytes: KEPT,
        ..Limits::default()
    }
}

/// Content in which a piece that is lost or misplaced shows.
fn content(length: usize) -> Vec<u8> {
    (b'a'..=b'z').cycle().step_by(7).take(length).collect()
}

fn counted(length: usize) -> Vec<u8> {
    let mut text =
        format!("HTTP/1.1 200 OK\r\nx-a: 1\r\ncontent-length: {length}\r\n\r\n").into_bytes();
    text.extend(content(length));
    text
}

fn chunked(length: usize) -> Vec<u8> {
    let mut text = b"HTTP/1.1 200 OK\r\nx-a: 1\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for piece in content(length).chunks(333) {
        text.extend(format!("{:x}\r\n", piece.len()).into_bytes());
        text.extend(piece);
        text.extend(b"\r\n");
    }
    text.extend(b"0\r\n\r\n");
    text
}

/// Sends, in a task of its own.
async fn sending(pool: &EffectPool) -> (tokio::task::JoinHandle<Sent>, Arrival) {
    let (onward, arrival) = onward();
    let reserved = pool.reserve().await.unwrap();
    let outbound = post(pool, 10);
    let sending = reserved.send_passing_on(permit(), outbound, judge, Some(onward));
    (tokio::spawn(sending), arrival)
}

async fn arrived(arrival: &mut Arrival) -> Oversized {
    let arrived = tokio::time::timeout(Duration::from_secs(20), arrival.wait());
    arrived.await.unwrap().expect("it is too large to keep")
}

fn ended(sent: Sent) -> Evidence {
    match sent {
        Sent::Ended(receipt) => receipt.evidence().clone(),
        Sent::Interrupted { receipt, .. } => panic!("still open: {receipt:?}"),
    }
}

async fn whole(body: PassingBody) -> Result<Bytes, Incomplete> {
    body.collect()
        .await
        .map(http_body_util::Collected::to_bytes)
}

#[tokio::test]
async fn it_is_passed_on_unchanged_and_completes_without_content() {
    let length = 100_000;
    for (text, known) in [(counted(length), Some(100_000)), (chunked(length), None)] {
        let upstream = Scripted::answering(text);
        let pool = upstream.pool_with(small());
        for _ in 0..2 {
            let (sent, mut arrival) = sending(&pool).await;
            let oversized = arrived(&mut arrival).await;
            assert_eq!((oversized.status, oversized.length), (200, known));
            assert_eq!(oversized.fields, vec![("x-a".into(), "1".into())]);
            let (release, released) = oneshot::channel();
            release.send(()).unwrap();
            let taken = whole(oversized.content.held_until(released)).await;
            assert_eq!(taken.unwrap(), content(length));
            let answer = answered(ended(sent.await.unwrap()));
            assert_eq!((answer.status, answer.body), (200, None));
        }
        assert_eq!(upstream.accepted(), 1, "read to its end");
    }
}

#[tokio::test]
async fn an_answer_that_can_be_kept_arrives_nowhere() {
    let upstream = Scripted::answering(counted(KEPT));
    let pool = upstream.pool_with(small());
    let (sent, mut arrival) = sending(&pool).await;
    assert!(arrival.wait().await.is_none());
    let answer = answered(ended(sent.await.unwrap()));
    assert_eq!(answer.body.unwrap(), content(KEPT));
}

/// The last piece goes when it is released, and never without.
#[tokio::test]
async fn whoever_takes_it_has_all_but_the_end_until_somebody_vouches_for_it() {
    for vouched in [true, false] {
        let length = 50_000;
        let upstream = Scripted::answering(chunked(length));
        let pool = upstream.pool_with(small());
        let (sent, mut arrival) = sending(&pool).await;
        let (release, released) = oneshot::channel();
        let mut body = arrived(&mut arrival).await.content.held_until(released);
        let mut taken = Vec::new();
        // The exchange ends while the last piece is held.
        let exchange = async { ended(sent.await.unwrap()) };
        tokio::pin!(exchange);
        let evidence = loop {
            tokio::select! {
                biased;
                Some(frame) = body.frame() => taken.extend(frame.unwrap().into_data().unwrap()),
                evidence = &mut exchange => break evidence,
            }
        };
        assert_eq!(answered(evidence).status, 200);
        assert!(taken.len() < length, "all of it, and nobody vouched for it");
        if vouched {
            release.send(()).unwrap();
            taken.extend(whole(body).await.unwrap());
            assert_eq!(taken, content(length));
        } else {
            drop(release);
            assert_eq!(whole(body).await, Err(Incomplete));
        }
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_never_looks_whole() {
    for cut in [chunked(50_000), counted(50_000)] {
        let text = cut[..40_000].to_vec();
        let upstream = Scripted::run(move |_, mut peer| {
            peer.request();
            peer.write(&text);
            peer.close();
        });
        let pool = upstream.pool_with(small());
        let (sent, mut arrival) = sending(&pool).await;
        let (release, released) = oneshot::channel();
        release.send(()).unwrap();
        let body = arrived(&mut arrival).await.content.held_until(released);
        assert_eq!(whole(body).await, Err(Incomplete));
        let evidence = ended(sent.await.unwrap());
        let bad = interrupted(Phase::Receiving, Interruption::BadAnswer);
        assert_eq!(evidence, bad);
    }
}

#[tokio::test]
async fn a_taker_that_is_gone_stops_nothing() {
    let upstream = Scripted::answering(counted(5_000_000));
    let pool = upstream.pool_with(small());
    for gone in ["before it arrives", "when it has arrived", "in its midst"] {
        let (sent, mut arrival) = sending(&pool).await;
        if gone == "before it arrives" {
            drop(arrival);
        } else {
            let (_release, released) = oneshot::channel();
            let mut body = arrived(&mut arrival).await.content.held_until(released);
            if gone == "in its midst" {
                body.frame().await.unwrap().unwrap();
            }
        }
        let answer = answered(ended(sent.await.unwrap()));
        assert_eq!((answer.status, answer.body), (200, None), "{gone}");
    }
    assert_eq!(upstream.accepted(), 1, "read to its end");
}

#[tokio::test]
async fn a_taker_that_is_too_slow_is_left_behind() {
    let upstream = Scripted::answering(counted(5_000_000));
    let pool = upstream.pool_with(Limits {
        response: Duration::from_secs(2),
        ..small()
    });
    let (sent, mut arrival) = sending(&pool).await;
    let (release, released) = oneshot::channel();
    let body = arrived(&mut arrival).await.content.held_until(released);
    // It takes nothing.
    let answer = answered(ended(sent.await.unwrap()));
    assert_eq!((answer.status, answer.body), (200, None));
    release.send(()).unwrap();
    assert_eq!(whole(body).await, Err(Incomplete));
}

/// The response limit holds to the end of the answer; after it, it is passed on while it is read on.
#[tokio::test]
async fn an_answer_that_outlasts_the_limit_is_passed_on_late() {
    let go = signal();
    let goes = Arc::clone(&go);
    let upstream = Scripted::run(move |_, mut peer| {
        let text = counted(50_000);
        peer.request();
        peer.write(&text[..30_000]);
        goes.wait();
        peer.write(&text[30_000..]);
        peer.drain();
    });
    let pool = upstream.pool_with(Limits {
        response: Duration::from_millis(300),
        ..small()
    });
    let (sent, mut arrival) = sending(&pool).await;
    let (release, released) = oneshot::channel();
    let body = arrived(&mut arrival).await.content.held_until(released);
    let taken = tokio::spawn(whole(body));
    let Sent::Interrupted { receipt, late } = sent.await.unwrap() else {
        panic!("it outlasts the limit");
    };
    let timed_out = interrupted(Phase::Receiving, Interruption::Timeout);
    assert_eq!(receipt.evidence(), &timed_out);
    go.give();
    let end = late
        .wait(Duration::from_secs(20), std::future::pending())
        .await;
    assert_eq!(answered(end.evidence().clone()).body, None);
    release.send(()).unwrap();
    assert_eq!(taken.await.unwrap().unwrap(), content(50_000));
}

/// Answers count against the room for all content, but for small ones: those are kept in any case.
#[tokio::test]
async fn an_answer_for_which_there_is_no_room_is_passed_on_and_not_kept() {
    let room = 85_000;
    let bodies = BodyBudget::new(room);
    let pool_to = |upstream: &Scripted| {
        let (bodies, endpoint) = (bodies.clone(), upstream.endpoint(false));
        EffectPool::within(bodies, endpoint, Limits::default(), system_clock())
    };
    let large = Scripted::answering(counted(80_000));
    let large = pool_to(&large);
    let kept = answered(send(&large, post(&large, 1)).await);
    assert_eq!(kept.body.as_ref().unwrap(), &content(80_000));
    assert!(bodies.left() < room - 60_000, "{}", bodies.left());

    let (sent, mut arrival) = sending(&large).await;
    let (release, released) = oneshot::channel();
    release.send(()).unwrap();
    let taken = whole(arrived(&mut arrival).await.content.held_until(released)).await;
    assert_eq!(taken.unwrap(), content(80_000));
    assert_eq!(answered(ended(sent.await.unwrap())).body, None);

    let small = Scripted::answering(counted(10_000));
    let small = pool_to(&small);
    let answer = answered(send(&small, post(&small, 1)).await);
    assert_eq!(answer.body.unwrap(), content(10_000));

    drop(kept);
    assert_eq!(bodies.left(), room, "its room is free again");
}

#[tokio::test]
async fn its_head_proves_what_any_head_proves() {
    let text = String::from_utf8(counted(5_000)).unwrap();
    let upstream = Scripted::answering(text.replace("200 OK", "503 Busy"));
    let pool = upstream.pool_with(small());
    match send(&pool, post(&pool, 1)).await {
        Evidence::Answered { class, answer } => {
            assert_eq!((class, answer.body), (AnswerClass::Ambiguous, None));
        }
        other => panic!("{other:?}"),
    }
}
