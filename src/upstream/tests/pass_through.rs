//! Forwarding what is no effect.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Channel, Full};

use super::scripted::*;
use crate::upstream::{Endpoint, Limits, PassThrough, PassThroughError, TlsMaterial};

#[tokio::test]
async fn requests_and_answers_stream_both_ways() {
    let half = signal();
    let told = half.clone();
    let upstream = Scripted::run(move |_, mut peer| {
        use std::io::Read;
        // Answers before the request has ended.
        let mut text = Vec::new();
        let mut byte = [0];
        while !text.ends_with(b"\r\n\r\n3\r\none\r\n") {
            peer.tcp.read_exact(&mut byte).unwrap();
            text.push(byte[0]);
        }
        assert!(text.starts_with(b"POST /base/up?x HTTP/1.1\r\n"));
        peer.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nuno\r\n");
        while !text.ends_with(b"3\r\ntwo\r\n0\r\n\r\n") {
            peer.tcp.read_exact(&mut byte).unwrap();
            text.push(byte[0]);
        }
        told.wait();
        peer.write("3\r\ndos\r\n0\r\n\r\n");
    });
    let url = format!("http://127.0.0.1:{}/base", upstream.port);
    let endpoint = Endpoint::new(&url, &TlsMaterial::default(), false).unwrap();
    let client: PassThrough<Channel<Bytes>> = PassThrough::new(endpoint, &Limits::default());
    let (mut content, body) = Channel::new(1);
    content.send_data(Bytes::from("one")).await.unwrap();
    let mut request = Request::new(body);
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = "/up?x".parse().unwrap();
    let mut answer = client.send(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let first = answer.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(first.into_data().unwrap(), "uno");
    content.send(Frame::data(Bytes::from("two"))).await.unwrap();
    drop(content);
    half.give();
    let rest = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(rest, "dos");
}

/// A request on a connection that the upstream closed meanwhile is not sent on another one.
#[tokio::test]
async fn nothing_is_forwarded_twice() {
    let (go, gone) = (signal(), signal());
    let (taken, told) = (go.clone(), gone.clone());
    let upstream = Scripted::run(move |_, mut peer| {
        peer.request();
        peer.write(OK);
        taken.wait();
        peer.close();
        told.give();
    });
    let client = PassThrough::new(upstream.endpoint(false), &Limits::default());
    let request = || {
        Request::post("/x")
            .body(Full::new(Bytes::from("b")))
            .unwrap()
    };
    let first = client.send(request()).await.unwrap();
    first.into_body().collect().await.unwrap();
    // The client's own tasks, on this thread, put the connection back meanwhile.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    go.give();
    gone.wait();
    let second = client.send(request()).await;
    assert!(matches!(second, Err(PassThroughError::Broken(_))));
    assert_eq!(upstream.accepted(), 1);
}

#[tokio::test]
async fn the_host_is_the_upstreams() {
    let upstream = Scripted::run(|_, mut peer| {
        let request = String::from_utf8(peer.request().unwrap()).unwrap();
        let host = request.lines().find(|line| line.starts_with("host: "));
        let host = host.unwrap_or("none");
        peer.write(format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{host}",
            host.len()
        ));
    });
    let client = PassThrough::new(upstream.endpoint(false), &Limits::default());
    let request = Request::get("/").header("host", "elsewhere.test");
    let request = request.body(Full::<Bytes>::default()).unwrap();
    let answer = client.send(request).await.unwrap();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, format!("host: 127.0.0.1:{}", upstream.port));
}

#[tokio::test]
async fn an_upstream_that_is_not_there_is_unreachable() {
    let url = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let endpoint = Endpoint::new(&url, &TlsMaterial::default(), false).unwrap();
    let client = PassThrough::new(endpoint, &Limits::default());
    let request = Request::get("/").body(Full::<Bytes>::default()).unwrap();
    assert!(matches!(
        client.send(request).await,
        Err(PassThroughError::Unreachable(_))
    ));
}
