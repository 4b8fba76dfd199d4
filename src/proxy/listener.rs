//! The accept loop of one reverse listener.
//!
//! What always holds: the listener stays open until draining is over, so that callers beside us are
//! told why instead of being refused a connection; a connection that is idle when draining begins is
//! closed politely; a head that does not come in time closes its connection.
//!
//! What it does not do: look at requests (`front`).

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::front::{Content, Front};

/// Longest wait for a request head on an open connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Most fields of a request head.
const FIELDS: usize = 128;

/// Most bytes of a request head.
const HEAD_BYTES: usize = 64 * 1024;

/// Most connections of one listener.
const CONNECTIONS: usize = 10_000;

/// Pause after an accept that failed for want of descriptors or memory.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// Accepts until `closing`, then lets the open connections finish the requests they are reading or
/// answering. Resolves when the last one is closed.
pub async fn serve(listener: TcpListener, front: Front, closing: CancellationToken) {
    let connections = TaskTracker::new();
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = closing.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _peer)) => stream,
            Err(error) => {
                // One connection's own end is no reason to stop; want of descriptors passes.
                tracing::warn!(error = %error, "a connection could not be accepted");
                tokio::time::sleep(AFTER_FAILURE).await;
                continue;
            }
        };
        let Ok(slot) = Arc::clone(&room).try_acquire_owned() else {
            tracing::warn!("too many connections: one was closed unread");
            continue;
        };
        let served = connection(stream, front.clone(), closing.clone());
        connections.spawn(async move {
            served.await;
            drop(slot);
        });
    }
    connections.close();
    connections.wait().await;
}

async fn connection(stream: TcpStream, front: Front, closing: CancellationToken) {
    // Small answers leave at once.
    let _refused = stream.set_nodelay(true);
    let service = service_fn(move |request| answer(front.clone(), request));
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(FIELDS)
        .max_buf_size(HEAD_BYTES)
        .pipeline_flush(true);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // Callers hang up; whatever they asked for goes on without them.
        tracing::debug!(error = %error, "a caller's connection ended");
    }
}

fn answer(
    front: Front,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response<Content>, Infallible>> + Send {
    async move { Ok(front.answer(request).await) }
}
