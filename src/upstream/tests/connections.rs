//! Reserving: one connection for many effects, or one each, and never a bad one.

use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use bytes::Bytes;

use super::scripted::*;
use crate::clock;
use crate::protocol::time::Millis;
use crate::upstream::{EffectPool, Endpoint, Limits, Outbound, TlsMaterial, Unreachable};

#[tokio::test]
async fn a_refused_connection_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let endpoint = Endpoint::new(&url, &TlsMaterial::default(), false).unwrap();
    let pool = EffectPool::new(endpoint, Limits::default(), system_clock());
    assert!(matches!(pool.reserve().await, Err(Unreachable::Connect(_))));
    assert!(pool.idle().is_none());
}

#[tokio::test]
async fn a_name_is_tried_at_all_its_addresses() {
    // localhost is ::1 and 127.0.0.1 on most machines; only the second one listens.
    let upstream = Scripted::answering(OK);
    let url = format!("http://localhost:{}", upstream.port);
    let endpoint = Endpoint::new(&url, &TlsMaterial::default(), false).unwrap();
    let pool = EffectPool::new(endpoint, Limits::default(), system_clock());
    answered(send(&pool, post(&pool, 1)).await);
}

#[tokio::test]
async fn one_connection_carries_many_effects() {
    let upstream = Scripted::answering(OK);
    let pool = upstream.pool();
    for _ in 0..20 {
        let answer = answered(send(&pool, post(&pool, 100)).await);
        assert_eq!(answer.body.unwrap(), "ok");
    }
    assert_eq!(upstream.accepted(), 1);
}

#[tokio::test]
async fn a_fresh_connection_carries_one_effect_and_says_so() {
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let upstream = Scripted::run(move |_, mut peer| {
        while let Some(request) = peer.request() {
            tell.lock().unwrap().send(request).unwrap();
            peer.write(OK);
        }
    });
    let pool = EffectPool::new(upstream.endpoint(true), Limits::default(), system_clock());
    // A connection that carried nothing is as good as new.
    drop(pool.reserve().await.unwrap());
    for _ in 0..5 {
        answered(send(&pool, post(&pool, 1)).await);
        let request = String::from_utf8(told.recv().unwrap()).unwrap();
        assert!(request.contains("\r\nconnection: close\r\n"), "{request}");
        assert!(pool.idle().is_none());
    }
    assert_eq!(upstream.accepted(), 5);
}

#[tokio::test]
async fn the_request_goes_out_as_stored() {
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let upstream = Scripted::run(move |_, mut peer| {
        while let Some(request) = peer.request() {
            tell.lock().unwrap().send(request).unwrap();
            peer.write(OK);
        }
    });
    let url = format!("http://127.0.0.1:{}/v1/", upstream.port);
    let endpoint = Endpoint::new(&url, &TlsMaterial::default(), false).unwrap();
    let pool = EffectPool::new(endpoint, Limits::default(), system_clock());
    let host = format!("127.0.0.1:{}", upstream.port);

    let with_content = stored("PUT", "/a%2Fb/?q=%20&r", Bytes::from("body"));
    let outbound = Outbound::new(pool.endpoint(), &with_content).unwrap();
    let outbound = outbound.with_field(b"Idempotency-Key", b"k-1").unwrap();
    answered(send(&pool, outbound).await);
    assert_eq!(
        String::from_utf8(told.recv().unwrap()).unwrap(),
        format!(
            "PUT /v1/a%2Fb/?q=%20&r HTTP/1.1\r\nhost: {host}\r\nx-caller: c\r\n\
             content-length: 4\r\nidempotency-key: k-1\r\n\r\nbody"
        )
    );

    // A POST without content says that there is none; a DELETE need not.
    for (method, length) in [("POST", "content-length: 0\r\n"), ("DELETE", "")] {
        let outbound = Outbound::new(pool.endpoint(), &stored(method, "/x", Bytes::new()));
        answered(send(&pool, outbound.unwrap()).await);
        assert_eq!(
            String::from_utf8(told.recv().unwrap()).unwrap(),
            format!("{method} /v1/x HTTP/1.1\r\nhost: {host}\r\nx-caller: c\r\n{length}\r\n")
        );
    }
}

#[tokio::test]
async fn a_connection_the_upstream_closed_is_not_handed_out() {
    for reset in [false, true] {
        let (go, gone) = (signal(), signal());
        let (taken, told) = (go.clone(), gone.clone());
        let upstream = Scripted::run(move |_, mut peer| {
            peer.request();
            peer.write(OK);
            taken.wait();
            if reset {
                peer.reset();
            } else {
                peer.close();
            }
            told.give();
        });
        let pool = upstream.pool();
        answered(send(&pool, post(&pool, 1)).await);
        assert!(pool.idle().is_some(), "it is good until then");
        go.give();
        gone.wait();
        assert!(pool.idle().is_none());
    }
}

#[tokio::test]
async fn an_answer_that_ends_keep_alive_or_is_followed_by_more_ends_the_connection() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned(),
        "HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned(),
        format!("{OK}HTTP/1.1 200 OK\r\n\r\n"),
        format!("{OK}x"),
    ] {
        let upstream = Scripted::answering(answer.clone());
        let pool = upstream.pool();
        for _ in 0..2 {
            assert_eq!(answered(send(&pool, post(&pool, 1)).await).status, 200);
            assert!(pool.idle().is_none(), "kept after {answer:?}");
        }
        assert_eq!(upstream.accepted(), 2);
    }
}

#[tokio::test]
async fn idle_connections_grow_old_and_few() {
    let upstream = Scripted::answering(OK);
    let pool = upstream.pool_with(Limits {
        idle_for: Duration::from_millis(5),
        idle_connections: 2,
        ..Limits::default()
    });
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(pool.reserve().await.unwrap());
    }
    drop(held);
    let since = clock::boottime();
    while clock::boottime().since(since) <= Millis(10) {
        tokio::task::yield_now().await;
    }
    assert!(pool.idle().is_none(), "an old connection was handed out");
    assert_eq!(upstream.accepted(), 4);

    let pool = upstream.pool_with(Limits {
        idle_connections: 2,
        ..Limits::default()
    });
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(pool.reserve().await.unwrap());
    }
    drop(held);
    let kept = [pool.idle(), pool.idle(), pool.idle()];
    assert_eq!(kept.iter().flatten().count(), 2);
}

#[tokio::test]
async fn what_nobody_takes_is_swept_away() {
    let upstream = Scripted::run(|_, mut peer| {
        peer.drain();
    });
    let pool = upstream.pool_with(Limits {
        idle_for: Duration::from_millis(5),
        ..Limits::default()
    });
    drop(pool.reserve().await.unwrap());
    assert_eq!(pool.idle_count(), 1);
    while pool.idle_count() > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
