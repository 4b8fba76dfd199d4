//! An upstream that does what a test says, with blocking sockets on threads of its own: what it does
//! never depends on the runtime under test.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use bytes::Bytes;

use crate::clock::{self, Clock};
use crate::protocol::command::Grant;
use crate::protocol::ids::{
    AttemptId, Incarnation, InstanceId, OperationId, OperationKey, Principal, Round, Tenant,
    UpstreamId,
};
use crate::protocol::operation::IdentityOrigin;
use crate::protocol::outcome::{
    Answer, AnswerClass, Evidence, Interruption, Phase, StoredRequest, Unsent,
};
use crate::protocol::time::{BootInstant, Millis};
use crate::store::permit::{Permit, permit_for_test};
use crate::upstream::{EffectPool, Endpoint, Limits, Outbound, Reserved, Sent, TlsMaterial};

pub(super) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Serves each connection on a thread, with its number from 0.
pub(super) struct Scripted {
    pub(super) port: u16,
    accepted: Arc<AtomicUsize>,
}

impl Scripted {
    pub(super) fn run(script: impl Fn(usize, Peer) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepted = Arc::new(AtomicUsize::new(0));
        let (counter, script) = (accepted.clone(), Arc::new(script));
        thread::spawn(move || {
            for tcp in listener.incoming() {
                let number = counter.fetch_add(1, Ordering::SeqCst);
                let (tcp, script) = (tcp.unwrap(), script.clone());
                // What is written is on its way when `write` returns.
                tcp.set_nodelay(true).unwrap();
                thread::spawn(move || script(number, Peer { tcp }));
            }
        });
        Self { port, accepted }
    }

    /// Answers every request on every connection with the same text.
    pub(super) fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::run(move |_, mut peer| {
            while peer.request().is_some() {
                peer.write(&answer);
            }
        })
    }

    pub(super) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    pub(super) fn pool(&self) -> EffectPool {
        self.pool_with(Limits::default())
    }

    pub(super) fn pool_with(&self, limits: Limits) -> EffectPool {
        EffectPool::new(self.endpoint(false), limits, system_clock())
    }

    pub(super) fn endpoint(&self, fresh: bool) -> Endpoint {
        let url = format!("http://127.0.0.1:{}", self.port);
        Endpoint::new(&url, &TlsMaterial::default(), fresh).unwrap()
    }
}

pub(super) fn system_clock() -> Clock {
    Clock::system().unwrap()
}

/// The upstream's side of a connection.
pub(super) struct Peer {
    pub(super) tcp: TcpStream,
}

impl Peer {
    /// One request, whole; `None` at the end of the stream.
    pub(super) fn request(&mut self) -> Option<Vec<u8>> {
        read_request(&mut self.tcp)
    }

    pub(super) fn write(&mut self, text: impl AsRef<[u8]>) {
        // The other side may be gone: that is for it to tell.
        let _ = self.tcp.write_all(text.as_ref());
    }

    /// Everything up to the end, how much it was.
    pub(super) fn drain(&mut self) -> usize {
        let mut seen = Vec::new();
        let _ = self.tcp.read_to_end(&mut seen);
        seen.len()
    }

    pub(super) fn close(self) {
        let _ = self.tcp.shutdown(Shutdown::Both);
    }

    pub(super) fn reset(self) {
        let socket = socket2::SockRef::from(&self.tcp);
        socket.set_linger(Some(Duration::ZERO)).unwrap();
    }
}

pub(super) fn read_request(from: &mut impl Read) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"\r\n\r\n") {
        match from.read(&mut byte) {
            Ok(1) => text.push(byte[0]),
            Ok(_) | Err(_) => return None,
        }
    }
    let head = String::from_utf8_lossy(&text).to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.parse().unwrap());
    let mut content = vec![0; length];
    from.read_exact(&mut content).ok()?;
    text.extend(content);
    Some(text)
}

/// A signal between a script and its test. Waiting blocks the thread, and with it the runtime.
pub(super) struct Signal(Sender<()>, std::sync::Mutex<Receiver<()>>);

pub(super) fn signal() -> Arc<Signal> {
    let (give, take) = channel();
    Arc::new(Signal(give, std::sync::Mutex::new(take)))
}

impl Signal {
    pub(super) fn give(&self) {
        self.0.send(()).unwrap();
    }

    pub(super) fn wait(&self) {
        let taken = self.1.lock().unwrap().recv_timeout(Duration::from_secs(20));
        taken.expect("the other side never came here");
    }
}

pub(super) fn permit_until(dispatch_by: BootInstant) -> Permit {
    permit_for_test(Grant {
        key: OperationKey {
            tenant: Tenant::new("t"),
            upstream: UpstreamId::new("u"),
            principal: Principal::None,
            id: OperationId::new("o"),
            incarnation: Incarnation(0),
        },
        attempt: AttemptId {
            instance: InstanceId(1),
            number: 1,
        },
        round: Round(0),
        origin: IdentityOrigin::Caller,
        dispatch_by,
        look_again: false,
        request: None,
    })
}

pub(super) fn permit() -> Permit {
    permit_until(clock::boottime().after(Millis(60_000)))
}

pub(super) fn stored(method: &'static str, target: &'static str, body: Bytes) -> StoredRequest {
    StoredRequest {
        method: method.into(),
        target: target.into(),
        fields: vec![("x-caller".into(), "c".into())],
        body,
    }
}

/// POST with content of that length.
pub(super) fn post(pool: &EffectPool, length: usize) -> Outbound {
    outbound(pool, "POST", Bytes::from(vec![b'x'; length]))
}

pub(super) fn outbound(pool: &EffectPool, method: &'static str, body: Bytes) -> Outbound {
    Outbound::new(pool.endpoint(), &stored(method, "/pay", body)).unwrap()
}

pub(super) async fn judge(answer: Answer) -> AnswerClass {
    if (200..300).contains(&answer.status) {
        AnswerClass::Applied
    } else {
        AnswerClass::Ambiguous
    }
}

/// Reserves, sends and takes what must be the end.
pub(super) async fn send(pool: &EffectPool, outbound: Outbound) -> Evidence {
    let reserved = pool.reserve().await.unwrap();
    send_on(reserved, outbound).await
}

pub(super) async fn send_on(reserved: Reserved, outbound: Outbound) -> Evidence {
    match reserved.send(permit(), outbound, judge).await {
        Sent::Ended(receipt) => receipt.evidence().clone(),
        Sent::Interrupted { receipt, .. } => panic!("still open: {receipt:?}"),
    }
}

pub(super) fn answered(evidence: Evidence) -> Answer {
    match evidence {
        Evidence::Answered { answer, .. } => answer,
        other => panic!("no answer: {other:?}"),
    }
}

pub(super) fn interrupted(phase: Phase, why: Interruption) -> Evidence {
    Evidence::Interrupted { phase, why }
}

pub(super) const LOST: Evidence = Evidence::NotSent(Unsent::ConnectionLost);
