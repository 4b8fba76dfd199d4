//! What counts as an answer, and what is kept of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use super::scripted::*;
use crate::protocol::outcome::{AnswerClass, Evidence, Fields, Interruption, Phase};
use crate::upstream::Limits;

fn fields(list: &[(&'static str, &'static str)]) -> Fields {
    list.iter()
        .map(|(name, value)| (Bytes::from(*name), Bytes::from(*value)))
        .collect()
}

/// What one POST is told by an upstream that answers so and then closes.
async fn told(answer: impl Into<Vec<u8>>, limits: Limits) -> Evidence {
    let answer = answer.into();
    let upstream = Scripted::run(move |_, mut peer| {
        peer.request();
        peer.write(&answer);
        peer.close();
    });
    let pool = upstream.pool_with(limits);
    send(&pool, post(&pool, 10)).await
}

#[tokio::test]
async fn an_answer_is_kept_with_its_fields_and_content() {
    let answer = answered(
        told(
            "HTTP/1.1 201 Made\r\nSet-Cookie: b\r\nset-cookie: a\r\nX-Hop: 1\r\n\
             Connection: keep-alive, x-hop\r\nKeep-Alive: timeout=5\r\nContent-Type: a/b\r\n\
             Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\nTrailer: x-end\r\n\r\n\
             3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\nx-end: 1\r\n\r\n",
            Limits::default(),
        )
        .await,
    );
    assert_eq!(answer.status, 201);
    assert_eq!(answer.body.unwrap(), "abcde");
    assert_eq!(
        answer.fields,
        fields(&[
            ("set-cookie", "b"),
            ("set-cookie", "a"),
            ("content-type", "a/b"),
            ("content-encoding", "gzip"),
        ])
    );
}

#[tokio::test]
async fn the_judge_decides_what_it_proves() {
    let busy = "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n";
    for (text, expected) in [(OK, AnswerClass::Applied), (busy, AnswerClass::Ambiguous)] {
        match told(text, Limits::default()).await {
            Evidence::Answered { class, .. } => assert_eq!(class, expected),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn interim_answers_are_none() {
    let text =
        format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n{OK}");
    let answer = answered(told(text, Limits::default()).await);
    assert_eq!((answer.status, answer.fields), (200, Vec::new()));
}

#[tokio::test]
async fn an_answer_without_content_is_complete() {
    for (method, text, status) in [
        ("HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", 200),
        ("POST", "HTTP/1.1 204 No Content\r\n\r\n", 204),
        (
            "POST",
            "HTTP/1.1 304 Same\r\ncontent-length: 9\r\n\r\n",
            304,
        ),
        ("POST", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 200),
    ] {
        let upstream = Scripted::answering(text);
        let pool = upstream.pool();
        for _ in 0..2 {
            let outbound = outbound(&pool, method, Bytes::new());
            let answer = answered(send(&pool, outbound).await);
            assert_eq!(answer.status, status);
            assert_eq!(answer.body.unwrap(), "");
        }
        assert_eq!(upstream.accepted(), 1, "{text:?} is complete: reuse");
    }
}

#[tokio::test]
async fn an_answer_that_does_not_end_properly_is_none() {
    let bad = interrupted(Phase::Receiving, Interruption::BadAnswer);
    for text in [
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhalf\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\nended by nothing but close",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nxxx",
        "HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        "HTTP/1.1 600 What\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-end: 1\r\n",
    ] {
        assert_eq!(told(text, Limits::default()).await, bad, "{text:?}");
    }
}

#[tokio::test]
async fn a_head_that_cannot_be_read_is_none() {
    let bad = interrupted(Phase::Waiting, Interruption::BadAnswer);
    for text in [
        "HTTP/1.1 200 OK\r\ncontent-le",
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 200 OK\r\nx y: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ] {
        assert_eq!(told(text, Limits::default()).await, bad, "{text:?}");
    }
}

/// What follows a complete answer is not part of it, and its connection carries nothing more.
#[tokio::test]
async fn a_connection_on_which_bytes_follow_an_answer_is_not_used_again() {
    let stray = "HTTP/1.1 299 Stray\r\ncontent-length: 0\r\n\r\n";
    for text in [
        format!("{OK}{stray}"),
        format!("{OK}x"),
        format!("HTTP/1.1 204 None\r\ncontent-length: 5\r\n\r\n{stray}"),
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{stray}"),
    ] {
        let upstream = Scripted::answering(text.clone());
        let pool = upstream.pool();
        for number in 1..=2 {
            let answer = answered(send(&pool, post(&pool, 1)).await);
            assert!(matches!(answer.status, 200 | 204), "{text:?}");
            assert_eq!(upstream.accepted(), number, "{text:?}");
        }
    }
}

/// An upstream may answer before it has read everything, and leave the rest unread: its answer counts,
/// and the connection, on which the rest is still to come, carries nothing else.
#[tokio::test]
async fn an_early_answer_on_a_connection_that_stays_open_counts() {
    let upstream = Scripted::run(|_, mut peer| {
        use std::io::Read;
        let mut head = [0; 40];
        peer.tcp.read_exact(&mut head).unwrap();
        peer.write("HTTP/1.1 422 No\r\ncontent-length: 2\r\n\r\nno");
        peer.drain();
    });
    let pool = upstream.pool();
    let answer = answered(send(&pool, post(&pool, 64 << 20)).await);
    assert_eq!(
        (answer.status, &answer.body.unwrap()[..]),
        (422, &b"no"[..])
    );
    assert!(pool.idle().is_none());
}

#[tokio::test]
async fn only_a_profile_makes_the_end_of_the_connection_the_end_of_the_answer() {
    let limits = Limits {
        accept_by_close: true,
        ..Limits::default()
    };
    let answer = answered(told("HTTP/1.1 200 OK\r\n\r\nall of it", limits).await);
    assert_eq!(answer.body.unwrap(), "all of it");
}

#[tokio::test]
async fn large_heads_are_read_up_to_the_limits() {
    let with = |count: usize, width: usize| {
        let mut head = "HTTP/1.1 200 OK\r\n".to_owned();
        for number in 0..count {
            head.extend(["x-", &number.to_string(), ": ", &"v".repeat(width), "\r\n"]);
        }
        head + "content-length: 0\r\n\r\n"
    };
    let many = answered(told(with(300, 10), Limits::default()).await);
    assert_eq!(many.fields.len(), 300);
    let wide = answered(told(with(2, 100_000), Limits::default()).await);
    assert_eq!(wide.fields[1].1.len(), 100_000);

    let bad = interrupted(Phase::Waiting, Interruption::BadAnswer);
    assert_eq!(told(with(600, 10), Limits::default()).await, bad);
    assert_eq!(told(with(4, 100_000), Limits::default()).await, bad);
}

#[tokio::test]
async fn content_too_large_to_keep_is_read_to_its_end() {
    let length = 300_000;
    let counted = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{}",
        "c".repeat(length)
    );
    let chunked = format!(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{length:x}\r\n{}\r\n0\r\n\r\n",
        "c".repeat(length)
    );
    for text in [counted, chunked] {
        for (keep, kept) in [(length - 1, false), (length, true)] {
            let upstream = Scripted::answering(text.clone());
            let pool = upstream.pool_with(Limits {
                answer_bytes: keep,
                ..Limits::default()
            });
            for _ in 0..2 {
                let answer = answered(send(&pool, post(&pool, 1)).await);
                assert_eq!(answer.status, 200);
                assert_eq!(answer.body.map(|body| body.len()), kept.then_some(length));
            }
            assert_eq!(upstream.accepted(), 1, "not read to its end");
        }
    }
}

#[tokio::test]
async fn an_early_answer_is_read_though_the_connection_is_reset() {
    let upstream = Scripted::run(|_, mut peer| {
        use std::io::Read;
        let mut head = [0; 40];
        peer.tcp.read_exact(&mut head).unwrap();
        peer.write("HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig");
        // Closing with unread bytes resets.
    });
    let pool = upstream.pool();
    let mut read = 0;
    for _ in 0..100 {
        match send(&pool, post(&pool, 8 << 20)).await {
            Evidence::Answered { answer, .. } => {
                assert_eq!(answer.status, 413);
                read += 1;
            }
            Evidence::Interrupted { .. } => {}
            Evidence::NotSent(_) => panic!("bytes were sent"),
        }
        assert!(pool.idle().is_none(), "a broken connection was kept");
    }
    assert!(read >= 99, "read {read} of 100");
}

#[tokio::test]
async fn nothing_is_repeated_or_followed() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = requests.clone();
    let upstream = Scripted::run(move |_, mut peer| {
        while peer.request().is_some() {
            counter.fetch_add(1, Ordering::SeqCst);
            peer.write("HTTP/1.1 307 Go\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let pool = upstream.pool();
    let answer = answered(send(&pool, post(&pool, 1)).await);
    assert_eq!(answer.status, 307);
    assert_eq!(answer.fields, fields(&[("location", "/elsewhere")]));
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}
