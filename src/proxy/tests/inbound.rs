//! What asks the worker for work, through a listener before it, and a worker on a raw socket.
//!
//! What always holds: what is known of some work is looked at while the worker has it, and not only after.

use std::sync::mpsc::{Receiver, Sender, channel};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::callers::opened;
use super::on_behalf::{Held, told, way};
use super::*;
use crate::config::Inbound;
use crate::lease::claim::Claims;
use crate::lease::pins::{Past, Pinned};
use crate::protocol::ids::{AcquisitionId, FencingToken};
use crate::protocol::time::Millis;
use crate::proxy::doors::Face;
use crate::proxy::inbound::{InboundFront, InboundShared};

const FIRST: &str = "first";

fn under(acquisition: &str, token: u64) -> Pinned {
    Pinned::Under(Past {
        token: FencingToken::new(0, token).unwrap(),
        acquisition: AcquisitionId::new(acquisition),
    })
}

/// A way in to whatever is at that address, with the lease owned.
struct Ground {
    held: Held,
    listen: SocketAddr,
}

impl Ground {
    async fn before(worker: SocketAddr, change: impl FnOnce(&mut Inbound)) -> Self {
        let mut rules = way();
        rules.url = format!("http://{worker}").parse().unwrap();
        change(&mut rules);
        let held = Held::pinning_by(&rules);
        held.owned(FIRST, 107, Millis(60_000));
        let endpoint =
            Endpoint::new(&rules.url.to_string(), &TlsMaterial::default(), false).unwrap();
        let front = InboundFront::new(InboundShared {
            way: 0,
            rules,
            claims: held.claims.clone(),
            worker: PassThrough::new(endpoint, &Limits::default()).keeping_host(),
            supervisor: Supervisor::default(),
            asked: TaskTracker::new(),
        });
        let face = Face::Inbound(front);
        let listen = opened(face, Claims::default(), CancellationToken::new()).await;
        Self { held, listen }
    }

    /// `fields`: each with its line end.
    async fn ask(&self, fields: &str) -> String {
        let head = format!(
            "POST /work HTTP/1.1\r\nHost: x\r\n{fields}Connection: close\r\nContent-Length: 2\r\n\r\n{{}}"
        );
        told(self.sent(&head)).await
    }

    fn sent(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.listen).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }
}

/// Where nobody listens.
fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

/// A worker that hands out each of its connections.
fn worker(address: SocketAddr) -> (SocketAddr, Receiver<TcpStream>) {
    let listener = TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap();
    let (connections, taken): (Sender<TcpStream>, _) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            if connections.send(stream).is_err() {
                return;
            }
        }
    });
    (address, taken)
}

fn anywhere() -> (SocketAddr, Receiver<TcpStream>) {
    worker("127.0.0.1:0".parse().unwrap())
}

/// The same, with every request answered; gives them out.
fn prompt_worker() -> (SocketAddr, Receiver<String>) {
    let (address, connections) = anywhere();
    let (requests, taken) = channel();
    std::thread::spawn(move || {
        for mut stream in connections {
            let request = read_request(&mut stream);
            answer(&mut stream, 202);
            if requests.send(request).is_err() {
                return;
            }
        }
    });
    (address, taken)
}

/// Reads until `end` was read.
fn read_to(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    while !text.contains(end) {
        let mut piece = [0; 1024];
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "it ended before {end:?}: {text:?}");
        text.push_str(std::str::from_utf8(&piece[..read]).unwrap());
    }
    text
}

fn assert_told(text: &str, status: u16, problem: &str, part: &str) {
    assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
    let kind = format!("urn:fencepost:problem:{problem}\"");
    assert!(text.contains(&kind) && text.contains(part), "{text}");
}

/// It may act before it has answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_work_came_in_is_known_before_the_worker_has_it() {
    let (address, connections) = anywhere();
    let ground = Ground::before(address, |_| ()).await;
    let asked = ground.sent(
        "POST /work HTTP/1.1\r\nHost: x\r\nX-Work: w\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
    );
    let mut worker = connections.recv_timeout(LIMIT).unwrap();
    read_request(&mut worker);
    assert_eq!(ground.held.pinned("w"), under(FIRST, 107));
    ground.held.owned("second", 108, Millis(60_000));
    answer(&mut worker, 202);
    assert!(told(asked).await.starts_with("HTTP/1.1 202 "));
    assert_eq!(ground.held.pinned("w"), under(FIRST, 107));
}

/// Whoever asks while the worker is being replaced asks again, and means the same work: nobody has begun it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_never_reached_the_worker_has_not_come_in() {
    let address = nobody();
    let ground = Ground::before(address, |_| ()).await;
    let text = ground.ask("X-Work: w\r\n").await;
    assert_told(&text, 502, "upstream-unreachable", "is it running?");
    assert_eq!(ground.held.pinned("w"), Pinned::Free);
    ground.held.owned("second", 108, Millis(60_000));
    let (_, connections) = worker(address);
    let asked = ground.sent(
        "POST /work HTTP/1.1\r\nHost: x\r\nX-Work: w\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
    );
    let mut worker = connections.recv_timeout(LIMIT).unwrap();
    read_request(&mut worker);
    // It breaks off: it may have begun.
    drop(worker);
    let text = told(asked).await;
    assert_told(&text, 502, "outcome-uncertain", "It may have begun");
    assert_eq!(ground.held.pinned("w"), under("second", 108));
}

/// Or the worker would go on without it, and as if nobody had asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_connection_names_is_no_id_of_the_work() {
    let (address, requests) = prompt_worker();
    let ground = Ground::before(address, |_| ()).await;
    let text = ground.ask("X-Work: w\r\nConnection: x-work\r\n").await;
    assert!(text.starts_with("HTTP/1.1 202 "), "{text}");
    let request = requests.recv_timeout(LIMIT).unwrap().to_lowercase();
    assert!(!request.contains("x-work"), "{request}");
    assert_eq!(ground.held.pinned("w"), Pinned::Free);

    let strict = Ground::before(address, |rules| rules.pin.required = true).await;
    let text = strict.ask("X-Work: w\r\nConnection: x-work\r\n").await;
    assert_told(&text, 400, "identity-missing", "x-work");
}

/// What is not let in has not come in: it may come later, and be of that moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_turned_away_reaches_nobody_and_is_not_noted() {
    let (address, requests) = prompt_worker();
    let ground = Ground::before(address, |rules| {
        rules.pin.required = true;
        rules.at_most = 2;
    })
    .await;
    for fields in ["", "X-Work: w\r\nX-Work: v\r\n", "X-Work:\r\n"] {
        let text = ground.ask(fields).await;
        assert_told(&text, 400, "identity-missing", "pin.required");
    }
    for work in ["w", "v"] {
        assert_eq!(ground.held.pinned(work), Pinned::Free);
    }
    assert!(ground.ask("X-Work: w\r\n").await.contains(" 202 "));
    ground.held.owned("second", 108, Millis(60_000));
    assert!(ground.ask("X-Work: u\r\n").await.contains(" 202 "));
    assert_eq!(ground.held.pinned("u"), under("second", 108));
    let text = ground.ask("X-Work: v\r\n").await;
    assert_told(&text, 503, "overloaded", "at_most");
    assert!(text.to_lowercase().contains("retry-after"), "{text}");
    assert_eq!(ground.held.pinned("v"), Pinned::Free);
    assert!(ground.ask("X-Work: w\r\n").await.contains(" 202 "));
    assert_eq!(requests.try_iter().count(), 3);
}

/// Of either, the other side has the beginning before the end is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_streams_both_ways() {
    let (address, connections) = anywhere();
    let ground = Ground::before(address, |_| ()).await;
    let mut caller = ground.sent(
        "POST /work HTTP/1.1\r\nHost: x\r\nX-Work: w\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nask1\r\n",
    );
    caller.set_read_timeout(Some(LIMIT)).unwrap();
    let mut worker = connections.recv_timeout(LIMIT).unwrap();
    read_to(&mut worker, "ask1");
    worker
        .write_all(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ntell1\r\n")
        .unwrap();
    read_to(&mut caller, "tell1");
    caller.write_all(b"4\r\nask2\r\n0\r\n\r\n").unwrap();
    read_to(&mut worker, "ask2");
    worker.write_all(b"5\r\ntell2\r\n0\r\n\r\n").unwrap();
    read_to(&mut caller, "tell2");
}

/// One request on the way in is one for the worker, as long as it was here, and with the host that its target names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_hides_in_another() {
    let (address, requests) = prompt_worker();
    let ground = Ground::before(address, |_| ()).await;
    let hidden = "POST /hidden HTTP/1.1\r\nHost: x\r\nX-Work: hidden\r\nContent-Length: 0\r\n\r\n";
    let both = format!(
        "POST http://named/work HTTP/1.1\r\nHost: other\r\nX-Work: w\r\nContent-Length: {}\r\n\
         Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}",
        hidden.len() + 5
    );
    let _caller = ground.sent(&both);
    let request = requests.recv_timeout(LIMIT).unwrap().to_lowercase();
    assert!(!request.contains("hidden"), "{request}");
    let framings = ["content-length:", "transfer-encoding:"];
    let framed = framings.iter().filter(|name| request.contains(*name));
    assert!(framed.count() <= 1, "{request}");
    assert!(request.starts_with("post /work http/1.1\r\n"), "{request}");
    assert!(request.contains("host: named\r\n"), "{request}");
    assert!(!request.contains("other"), "{request}");
    // What comes after it is a request of its own, and noted as one; or nothing at all.
    let was_let_in = requests.recv_timeout(Duration::from_secs(1)).is_ok();
    let is_noted = ground.held.pinned("hidden") == under(FIRST, 107);
    assert_eq!(was_let_in, is_noted);
}
