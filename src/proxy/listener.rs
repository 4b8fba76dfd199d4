//! The accept loop of one reverse listener.
//!
//! What always holds: the listener stays open until draining is over, so that callers beside us are
//! told why instead of being refused a connection; a connection that is idle when draining begins is
//! closed politely; a head that does not come in time closes its connection. Nobody's handshake keeps
//! another caller waiting, and a request comes with the caller that its connection was opened by, and
//! with no other; to what was put behind the door for callers who are known otherwise it does not come.
//! A connection is bound to the acquisitions that were in force when it was accepted, and to none if it may have been
//! opened before them; it is not idle for long once they are in force no more.
//!
//! What it does not do: look at requests (`front`), or shake hands (`tls`).

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::{Service, ServiceBuilder, ServiceExt as _};

use super::bound::Bound;
use super::doors::{Generation, InForce};
use super::front::{self, Content};
use super::tls::{InboundTls, Opened};
use crate::dispatch::arrivals::Peer;
use crate::dispatch::live::Live;
use crate::lease::claim::Claims;
use crate::telemetry::errors::chain;
use crate::wire::caller::Caller;

/// Longest wait for a request head on an open connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Most fields of a request head.
const FIELDS: usize = 128;

/// Most bytes of a request head.
const HEAD_BYTES: usize = 64 * 1024;

/// Most connections of one listener.
const CONNECTIONS: usize = 10_000;

/// Most requests under way on one listener; waiting ones count.
const REQUESTS: usize = 4_096;

/// For so long a connection that is idle outlasts the acquisitions that it is bound to.
const LINGERING: Duration = Duration::from_millis(250);

/// Pause after an accept that failed for want of descriptors or memory.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// A request, and whom it came from.
type Asked = (Request<Incoming>, Origin);

/// The far end of a connection.
#[derive(Clone)]
struct Origin {
    caller: Caller,
    peer: Peer,
    accepted: Accepted,
}

/// As what a connection was accepted.
#[derive(Clone)]
struct Accepted {
    generation: Arc<Generation>,
    bound: Arc<Bound>,
}

/// Accepts until `closing`, then lets the open connections finish the requests they are reading or
/// answering. Resolves when the last one is closed.
///
/// Each request is answered by the front in force when it comes, on whatever connection; each
/// connection is accepted as was in force when it came, and lasts no longer than its generation.
pub(super) async fn serve(
    listener: TcpListener,
    in_force: Live<InForce>,
    claims: Claims,
    closing: CancellationToken,
) {
    let answering = in_force.clone();
    // One for all connections: its clones share the limit. It fails only by shedding.
    let requests = ServiceBuilder::new()
        .load_shed()
        .concurrency_limit(REQUESTS)
        .service_fn(move |(mut request, from): Asked| {
            request.extensions_mut().insert(from.peer);
            request.extensions_mut().insert(from.accepted.bound.clone());
            let now = answering.now();
            async move {
                // It was on its way while its connection's time ended.
                if !now.admits(&from.accepted.generation) {
                    return Ok::<_, Infallible>(front::outlasted(request.method()));
                }
                Ok(now.behind.face.answer(request, &from.caller).await)
            }
        });
    let mut door = Accepting {
        in_force,
        requests,
        connections: TaskTracker::new(),
        room: Arc::new(Semaphore::new(CONNECTIONS)),
        connected: 0,
        // Whoever came before anything was looked at is bound to nothing.
        bound: Arc::new(Bound::to_nothing(&claims)),
    };
    loop {
        let accepted = tokio::select! {
            biased;
            () = closing.cancelled() => break,
            () = door.bound.outlived() => {
                if !door.bind_anew(&listener, &claims) {
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => door.accept(stream, address),
            Err(error) => {
                // One connection's own end is no reason to stop; want of descriptors passes.
                tracing::warn!(error = %error, "a connection could not be accepted");
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }
    // Nobody is to wait in its queue for an answer that never comes.
    drop(listener);
    door.connections.close();
    door.connections.wait().await;
}

/// What accepts the connections of one listener.
struct Accepting<S> {
    in_force: Live<InForce>,
    requests: S,
    connections: TaskTracker,
    room: Arc<Semaphore>,
    connected: u64,
    /// What those are bound to that are accepted from now on.
    bound: Arc<Bound>,
}

impl<S> Accepting<S>
where
    S: Service<Asked, Response = Response<Content>> + Clone + Send + 'static,
    S::Future: Send,
{
    fn accept(&mut self, stream: TcpStream, address: SocketAddr) {
        let Ok(slot) = Arc::clone(&self.room).try_acquire_owned() else {
            tracing::warn!("too many connections: one was closed unread");
            return;
        };
        let now = self.in_force.now();
        let tls = now.behind.tls.clone();
        let accepted = Accepted {
            generation: Arc::clone(&now.connections),
            bound: Arc::clone(&self.bound),
        };
        self.connected = self.connected.saturating_add(1);
        let peer = Peer {
            address: Some(address.ip()),
            connection: self.connected,
        };
        let served = connection(stream, tls, self.requests.clone(), (accepted, peer));
        self.connections.spawn(async move {
            served.await;
            drop(slot);
        });
    }

    /// An acquisition began or ended. Connections that wait to be accepted were opened before this was seen, and what
    /// they bring may be older: they are bound as those before them, until none is left that waits. The runtime may
    /// not know of them yet, so the kernel is asked. `false`: some may wait still.
    fn bind_anew(&mut self, listener: &TcpListener, claims: &Claims) -> bool {
        // Before they are accepted: what changes meanwhile is seen as a change.
        let next = Arc::new(Bound::now(claims));
        for _ in 0..=CONNECTIONS {
            match SockRef::from(listener).accept() {
                Ok((socket, address)) => self.accept_waiting(socket, address.as_socket()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.bound = next;
                    return true;
                }
                // That one is gone.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!(error = %error, "a connection could not be accepted");
                    break;
                }
            }
        }
        // Others may wait still: nobody is bound to what is in force before it is known that none does.
        self.bound = Arc::new(Bound::to_nothing(claims));
        false
    }

    fn accept_waiting(&mut self, socket: socket2::Socket, address: Option<SocketAddr>) {
        let stream = socket.set_nonblocking(true);
        let stream = stream.and_then(|()| TcpStream::from_std(socket.into()));
        match (stream, address) {
            (Ok(stream), Some(address)) => self.accept(stream, address),
            // Closed unread.
            (Ok(_), None) | (Err(_), _) => {}
        }
    }
}

async fn connection<S>(
    stream: TcpStream,
    tls: Option<InboundTls>,
    requests: S,
    (accepted, peer): (Accepted, Peer),
) where
    S: Service<Asked, Response = Response<Content>> + Clone + Send + 'static,
    S::Future: Send,
{
    // Small answers leave at once.
    let _refused = stream.set_nodelay(true);
    match tls {
        None => speak(stream, Origin::nobody(accepted, peer), requests).await,
        // Boxed: a handshake's state is large, and no concern of listeners without it.
        Some(tls) => Box::pin(secure(stream, tls, requests, (accepted, peer))).await,
    }
}

/// The same after a handshake. One that is not over when the connection's time is never will be.
async fn secure<S>(
    stream: TcpStream,
    tls: InboundTls,
    requests: S,
    (accepted, from): (Accepted, Peer),
) where
    S: Service<Asked, Response = Response<Content>> + Clone + Send + 'static,
    S::Future: Send,
{
    let peer = stream.peer_addr().ok();
    let opened = tokio::select! {
        opened = tls.open(stream) => opened,
        () = accepted.generation.ending() => return,
    };
    match opened {
        Ok(Opened::Secure(stream, caller)) => {
            let origin = Origin {
                caller,
                peer: from,
                accepted,
            };
            speak(stream, origin, requests).await;
        }
        Ok(Opened::InTheClear(stream)) => {
            let told = tower::service_fn(|(request, _): Asked| async move {
                Ok::<_, Infallible>(front::in_the_clear(request.method()))
            });
            speak(stream, Origin::nobody(accepted, from), told).await;
        }
        Err(error) => {
            // His certificate is to be mended, and the address is how to find him.
            let peer = peer.map(tracing::field::display);
            tracing::info!(peer, error = %chain(&error), "a caller's connection was not opened");
        }
    }
}

impl Accepted {
    /// Its connection finishes what is under way on it, and takes nothing more. Who is just about to send when an
    /// acquisition begins or ends is given the time to: he gets a whole answer, which says why.
    async fn outlived(&self) {
        let bound = async {
            self.bound.outlived().await;
            tokio::time::sleep(LINGERING).await;
        };
        tokio::select! {
            () = self.generation.ending() => {}
            () = bound => {}
        }
    }
}

impl Origin {
    /// Who nothing is known of.
    fn nobody(accepted: Accepted, peer: Peer) -> Self {
        Self {
            caller: Caller::default(),
            peer,
            accepted,
        }
    }
}

/// HTTP/1.1 until one of both has had enough.
async fn speak<T, S>(stream: T, from: Origin, requests: S)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    S: Service<Asked, Response = Response<Content>> + Clone + Send + 'static,
    S::Future: Send,
{
    let accepted = from.accepted.clone();
    let service = service_fn(move |request| answer(requests.clone(), (request, from.clone())));
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
        () = accepted.outlived() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // Callers hang up; whatever they asked for goes on without them.
        tracing::debug!(error = %error, "a caller's connection ended");
    }
}

/// Answers a request; sheds it where too many are under way, before anything of it is read or
/// recorded. A fault of ours is answered too: a bare close invites a blind resend.
async fn answer(
    service: impl Service<Asked, Response = Response<Content>>,
    asked: Asked,
) -> Result<Response<Content>, Infallible> {
    let method = asked.0.method().clone();
    let answered = AssertUnwindSafe(service.oneshot(asked)).catch_unwind();
    Ok(match answered.await {
        Ok(Ok(response)) => response,
        Ok(Err(_shed)) => front::overloaded(&method),
        Err(_panic) => {
            tracing::error!("a request was given up: a fault of ours");
            front::given_up(&method)
        }
    })
}
