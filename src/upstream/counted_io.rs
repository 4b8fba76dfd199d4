//! How far a request got, counted where it leaves.
//!
//! Three wrappers around one [`Meter`]: [`CountedIo`] around the TCP stream counts the bytes that the
//! kernel took (with TLS these are its records: a record buffered above and never written is not
//! sent); [`Gate`], the stream that hyper writes to, lets the first byte of a request through only at
//! the last possible instant; [`CountedBody`] notes that the content was handed over.
//!
//! What always holds:
//! - no byte passes the gate outside an attempt, after `dispatch-by`, or while an unsolicited byte or
//!   the end of the stream is readable; a gate that refused stays shut;
//! - the look before the first byte asks the kernel itself, not the runtime's idea of readiness;
//! - a write that fails before the kernel took any byte fails; one that fails later is swallowed and
//!   remembered, so that an answer that came early is still read.
//!
//! What it does not do: say what this proves (`evidence`).

use std::convert::Infallible;
use std::io::{self, IoSlice, Read};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::stream::Stream;
use crate::clock::Clock;
use crate::failpoint;
use crate::protocol::time::BootInstant;

/// A crash test wants to die with part of a request sent: then the first write is kept short.
const FIRST_WRITE: Option<usize> = if cfg!(feature = "failpoints") {
    Some(16)
} else {
    None
};

/// What is known of the attempt on one connection. Shared by the wrappers and whoever reads them.
#[derive(Debug)]
pub(super) struct Meter {
    facts: Mutex<Facts>,
    clock: Clock,
}

/// A reading of the meter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// May the request pass, and did it?
    pub(super) gate: GateState,
    /// Bytes that the kernel took since the gate opened.
    pub(super) sent: u64,
    /// Bytes that came back since the gate opened, above TLS.
    pub(super) received: u64,
    /// The whole request was taken by the kernel.
    handed_over: bool,
    /// A write failed after the first byte.
    pub(super) broken: bool,
    /// The head of a final answer was read.
    pub(super) head_came: bool,
    content_taken: bool,
    looking: bool,
}

/// Where the gate stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GateState {
    /// No attempt is under way.
    Shut,
    /// An attempt may begin until then.
    Armed(BootInstant),
    /// It began.
    Open,
    /// It may not begin any more.
    Refused(Refusal),
}

/// Why the gate refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// `dispatch-by` had passed.
    Expired,
    /// The connection had ended, or held a byte that nobody asked for.
    Unusable,
}

impl Meter {
    /// `clock`: says whether `dispatch-by` has passed.
    pub(super) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            facts: Mutex::new(Facts::at_rest(GateState::Shut)),
            clock,
        })
    }

    /// Takes the baseline of an attempt. The connection is exclusively the caller's.
    pub(super) fn arm(&self, dispatch_by: BootInstant) {
        *self.lock() = Facts::at_rest(GateState::Armed(dispatch_by));
    }

    /// The attempt ended well; nothing may be written until the next one.
    pub(super) fn disarm(&self) {
        *self.lock() = Facts::at_rest(GateState::Shut);
    }

    pub(super) fn head_came(&self) {
        self.lock().head_came = true;
    }

    pub(super) fn facts(&self) -> Facts {
        *self.lock()
    }

    /// Runs `look` while reads ask the kernel itself. Such a read registers no waker.
    pub(super) fn looking<T>(&self, look: impl FnOnce() -> T) -> T {
        self.lock().looking = true;
        let seen = look();
        self.lock().looking = false;
        seen
    }

    fn is_first_write(&self) -> bool {
        let facts = self.lock();
        facts.gate == GateState::Open && facts.sent == 0
    }

    fn accepted(&self, bytes: usize) {
        let first = {
            let mut facts = self.lock();
            if facts.gate != GateState::Open {
                return; // a TLS handshake or farewell
            }
            let first = facts.sent == 0 && bytes > 0;
            facts.sent = facts.sent.saturating_add(bytes as u64);
            first
        };
        if first {
            failpoint::pass("after-first-byte");
        }
    }

    /// Is this failed write to be swallowed? Only one that followed a byte of the request, on a
    /// connection that the peer closed.
    fn swallows(&self, error: &io::Error) -> bool {
        let mut facts = self.lock();
        let closed = matches!(
            error.kind(),
            io::ErrorKind::BrokenPipe
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
        );
        let swallow = closed && facts.gate == GateState::Open && facts.sent > 0;
        facts.broken |= swallow;
        swallow
    }

    fn flushed(&self) {
        let whole = {
            let mut facts = self.lock();
            let whole = facts.content_taken
                && facts.sent > 0
                && !facts.broken
                && !facts.handed_over
                && facts.gate == GateState::Open;
            facts.handed_over |= whole;
            whole
        };
        if whole {
            failpoint::pass("after-last-byte");
        }
    }

    fn received(&self, bytes: usize) {
        let mut facts = self.lock();
        if facts.gate == GateState::Open {
            facts.received = facts.received.saturating_add(bytes as u64);
        }
    }

    // The lock is held for a few assignments, never across a call that can panic.
    fn lock(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Facts {
    /// Did the kernel take the whole request?
    pub(super) fn all_sent(&self) -> bool {
        self.handed_over && !self.broken
    }

    fn at_rest(gate: GateState) -> Self {
        Self {
            gate,
            sent: 0,
            received: 0,
            handed_over: false,
            broken: false,
            head_came: false,
            content_taken: false,
            looking: false,
        }
    }
}

/// A TCP stream that counts.
#[derive(Debug)]
pub(super) struct CountedIo {
    tcp: TcpStream,
    meter: Arc<Meter>,
}

impl CountedIo {
    pub(super) fn new(tcp: TcpStream, meter: Arc<Meter>) -> Self {
        Self { tcp, meter }
    }

    /// Reads without asking the runtime whether there is anything: it may not know yet.
    fn read_now(&self, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let socket = SockRef::from(&self.tcp);
        match (&*socket).read(buf.initialize_unfilled()) {
            Ok(bytes) => {
                buf.advance(bytes);
                Poll::Ready(Ok(()))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl AsyncRead for CountedIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.meter.facts().looking {
            return this.read_now(buf);
        }
        Pin::new(&mut this.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for CountedIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let offered = bufs.iter().map(|buf| buf.len()).sum();
        if this.meter.facts().broken {
            return Poll::Ready(Ok(offered));
        }
        let tcp = Pin::new(&mut this.tcp);
        let written = ready!(match FIRST_WRITE {
            Some(most) if this.meter.is_first_write() => {
                let first = bufs.iter().find(|buf| !buf.is_empty());
                let start = first.map_or(&[][..], |buf| buf.get(..most).unwrap_or(buf));
                tcp.poll_write(cx, start)
            }
            Some(_) | None => tcp.poll_write_vectored(cx, bufs),
        });
        Poll::Ready(match written {
            Ok(bytes) => {
                this.meter.accepted(bytes);
                Ok(bytes)
            }
            Err(error) if this.meter.swallows(&error) => Ok(offered),
            Err(error) => Err(error),
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_shutdown(cx)
    }
}

/// What hyper writes to: nothing passes before the gate has opened.
#[derive(Debug)]
pub(super) struct Gate {
    stream: Stream<CountedIo>,
    meter: Arc<Meter>,
}

impl Gate {
    pub(super) fn new(stream: Stream<CountedIo>, meter: Arc<Meter>) -> Self {
        Self { stream, meter }
    }

    /// Called before every write; the first one of an attempt decides.
    fn pass(&mut self) -> io::Result<()> {
        let dispatch_by = match self.meter.facts().gate {
            GateState::Open => return Ok(()),
            GateState::Armed(dispatch_by) => dispatch_by,
            GateState::Shut | GateState::Refused(_) => {
                return Err(io::Error::other("no attempt may write here"));
            }
        };
        let state = if !self.is_quiet() {
            GateState::Refused(Refusal::Unusable)
        } else if self.meter.clock.boottime() > dispatch_by {
            GateState::Refused(Refusal::Expired)
        } else {
            GateState::Open
        };
        self.meter.lock().gate = state;
        match state {
            GateState::Open => Ok(()),
            GateState::Shut | GateState::Armed(_) | GateState::Refused(_) => {
                Err(io::Error::other("the attempt may not begin"))
            }
        }
    }

    /// Is the connection open, with nothing to read on it? Records of TLS itself (session tickets)
    /// are digested; a byte of content, or the end, makes it unusable.
    fn is_quiet(&mut self) -> bool {
        let Self { stream, meter } = self;
        let mut cx = Context::from_waker(Waker::noop());
        let mut byte = [0; 1];
        let mut buf = ReadBuf::new(&mut byte);
        meter.looking(|| Pin::new(stream).poll_read(&mut cx, &mut buf).is_pending())
    }
}

impl AsyncRead for Gate {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        let bytes = buf.filled().len().saturating_sub(before);
        this.meter.received(bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Gate {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.pass()?;
        Pin::new(&mut this.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.pass()?;
        Pin::new(&mut this.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.stream).poll_flush(cx))?;
        // hyper flushes only when nothing is left in its own buffer.
        this.meter.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

/// Content in one piece, which notes when it was taken.
#[derive(Debug)]
pub(super) struct CountedBody {
    content: Option<Bytes>,
    meter: Arc<Meter>,
}

impl CountedBody {
    /// To be made after the baseline was taken.
    pub(super) fn new(content: Bytes, meter: Arc<Meter>) -> Self {
        let content = (!content.is_empty()).then_some(content);
        // Without content the head is all there is.
        meter.lock().content_taken = content.is_none();
        Self { content, meter }
    }
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        this.meter.lock().content_taken = true;
        Poll::Ready(this.content.take().map(|content| Ok(Frame::data(content))))
    }

    fn is_end_stream(&self) -> bool {
        self.content.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(
            self.content
                .as_ref()
                .map_or(0, |content| content.len() as u64),
        )
    }
}
