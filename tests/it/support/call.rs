//! A caller on a raw socket: sends a request, and reads, waits or hangs up exactly when told to.
//!
//! What always holds: one connection and one request per call, and no retry of any kind. An answer
//! is handed out only when it arrived whole.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};

use serde_json::Value;

use super::gate::{PATIENCE, until};
use super::http::{Fields, Head, Reader};

/// A request in the making.
#[derive(Clone, Debug)]
pub struct Call {
    target: SocketAddr,
    first_line: String,
    fields: Fields,
    body: String,
}

/// A request that has been sent.
pub struct InFlight {
    stream: TcpStream,
}

/// A complete answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub head: Head,
    pub body: Vec<u8>,
}

impl Call {
    pub fn new(target: SocketAddr, method: &str, path: &str) -> Self {
        Self {
            target,
            first_line: format!("{method} {path} HTTP/1.1"),
            fields: Fields::default(),
            body: String::new(),
        }
    }

    pub fn field(mut self, name: &str, value: &str) -> Self {
        self.fields.0.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The operation's identity.
    pub fn key(self, key: &str) -> Self {
        self.field("Idempotency-Key", key)
    }

    /// The caller's fencing token.
    pub fn token(self, token: &str) -> Self {
        self.field("Fencing-Token", token)
    }

    pub fn json(self, body: &str) -> Self {
        self.content("application/json", body)
    }

    /// Content of any type.
    pub fn content(self, kind: &str, body: &str) -> Self {
        Self {
            body: body.to_owned(),
            ..self.field("Content-Type", kind)
        }
    }

    /// As a caller of the old version asks.
    pub fn in_http_1_0(self) -> Self {
        let first_line = self.first_line.replace("HTTP/1.1", "HTTP/1.0");
        Self { first_line, ..self }
    }

    /// Where it goes.
    pub fn target(&self) -> SocketAddr {
        self.target
    }

    /// The exact bytes that `start` writes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{}\r\nHost: {}\r\n", self.first_line, self.target);
        for (name, value) in &self.fields.0 {
            write!(text, "{name}: {value}\r\n").unwrap();
        }
        let length = self.body.len();
        write!(
            text,
            "Connection: close\r\nContent-Length: {length}\r\n\r\n"
        )
        .unwrap();
        text.push_str(&self.body);
        text.into_bytes()
    }

    /// Sends it whole and does not wait.
    pub fn start(&self) -> InFlight {
        self.start_with(usize::MAX)
    }

    /// Sends only the first so many bytes of it.
    pub fn start_with(&self, first: usize) -> InFlight {
        let mut stream = TcpStream::connect(self.target).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let bytes = self.bytes();
        stream.write_all(&bytes[..first.min(bytes.len())]).unwrap();
        InFlight { stream }
    }

    /// Sends it and waits for the answer; panics without one.
    pub fn send(&self) -> Answer {
        self.start().answer()
    }

    /// The same, for callers who must live with a proxy that dies: no connection or no whole answer
    /// is an error.
    pub fn attempt(&self) -> io::Result<Answer> {
        let mut stream = TcpStream::connect(self.target)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&self.bytes())?;
        InFlight { stream }.try_answer()
    }
}

impl InFlight {
    /// Waits for the whole answer; panics if it never comes.
    pub fn answer(self) -> Answer {
        self.try_answer().expect("a complete answer")
    }

    /// Waits for the whole answer or the end of the connection.
    pub fn try_answer(self) -> io::Result<Answer> {
        read_answer(&self.stream)
    }

    /// Has anything come back yet, be it only the end?
    pub fn is_answered(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let seen = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        !matches!(seen, Err(fault) if fault.kind() == io::ErrorKind::WouldBlock)
    }

    /// Waits until the first byte of the answer is there, without reading it.
    pub fn until_answered(&self) {
        until("an answer begins", || self.is_answered());
    }

    /// Closes the connection and waits until the other side has noticed and closed it as well.
    pub fn hang_up_and_be_missed(self) {
        let own = self.stream.local_addr().unwrap().port();
        let other = self.stream.peer_addr().unwrap().port();
        self.hang_up();
        until("the other side notices that the caller is gone", || {
            !is_held_open(other, own)
        });
    }

    /// Closes the connection in the caller's way: at once, without reading.
    pub fn hang_up(self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Reads one whole answer from whatever it comes over.
pub fn read_answer(stream: impl io::Read) -> io::Result<Answer> {
    let mut reader = Reader::new(stream, |_: &[u8]| {});
    loop {
        let head = reader.head()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let status = head.word(1).parse().map_err(io::Error::other)?;
        if status >= 200 {
            let body = reader.body(&head, true)?;
            return Ok(Answer { status, head, body });
        }
    }
}

/// Does the process at `port` still hold its end of the connection from `from`? By the kernel's own
/// table, on loopback.
fn is_held_open(port: u16, from: u16) -> bool {
    let (port, from) = (
        format!("0100007F:{port:04X}"),
        format!("0100007F:{from:04X}"),
    );
    // ESTABLISHED and CLOSE_WAIT: nobody has closed that end.
    std::fs::read_to_string("/proc/net/tcp")
        .unwrap()
        .lines()
        .any(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            words
                .get(1..4)
                .is_some_and(|it| it[0] == port && it[1] == from && matches!(it[2], "01" | "08"))
        })
}

impl Answer {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.fields.first(name)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|fault| panic!("not JSON ({fault}): {}", self.text()))
    }

    /// The problem's name, if the proxy refused.
    pub fn problem(&self) -> Option<String> {
        let kind = self.field("content-type")?;
        let is_problem = kind.starts_with("application/problem+json");
        let json = is_problem.then(|| self.json())?;
        let name = json["type"]
            .as_str()?
            .strip_prefix("urn:fencepost:problem:")?;
        Some(name.to_owned())
    }

    /// Status and problem in one: `(412, "stale-fencing-token")`, `(201, "")`.
    pub fn verdict(&self) -> (u16, String) {
        (self.status, self.problem().unwrap_or_default())
    }

    /// Was this answer given before?
    pub fn is_replay(&self) -> bool {
        self.field("idempotent-replayed") == Some("true")
    }
}
