//! One request and its answer on one connection.
//!
//! What always holds: the connection is driven from here and from nowhere else, so that when this
//! ends or is dropped, nothing more can be written; whoever gets a [`Cut`] gets it after the
//! connection is gone. Writing the request and reading the answer go on side by side: an upstream may
//! answer before it has read everything.
//!
//! What it does not do: watch the time, or try again.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;

use super::answer::{self, Keeping, Unusable};
use super::counted_io::{CountedBody, CountedIo, Gate, Meter};
use super::outbound::Outbound;
use super::reserve::Limits;
use super::stream::Stream;
use crate::failpoint;
use crate::protocol::outcome::Answer;

/// An open connection. No task drives it: while it is idle it is looked at, while it carries an
/// exchange it is driven by that.
pub(super) struct Live {
    sender: SendRequest<CountedBody>,
    /// `None` once it ended.
    connection: Option<Connection<TokioIo<Gate>, CountedBody>>,
    meter: Arc<Meter>,
    used: bool,
}

/// How an exchange ended.
pub(super) enum Exchanged {
    /// With an answer. The connection, if it may carry another request.
    Answered(Answer, Option<Box<Live>>),
    /// Without one. The connection is gone.
    Cut(Cut),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Cut {
    /// No head of a final answer came.
    #[error("the exchange broke off before the head of an answer")]
    BeforeHead(#[source] hyper::Error),
    /// One came, but the answer cannot be used.
    #[error(transparent)]
    Answer(Unusable),
}

impl Live {
    /// A new HTTP/1.1 connection over `stream`. Nothing is written yet.
    pub(super) async fn new(
        stream: Stream<CountedIo>,
        meter: Arc<Meter>,
        limits: &Limits,
    ) -> Result<Box<Self>, hyper::Error> {
        let io = TokioIo::new(Gate::new(stream, Arc::clone(&meter)));
        let (sender, connection) = Builder::new()
            .max_headers(limits.answer_fields)
            .max_header_size(limits.answer_head_bytes)
            .handshake(io)
            .await?;
        Ok(Box::new(Self {
            sender,
            connection: Some(connection),
            meter,
            used: false,
        }))
    }

    /// Did it carry a request?
    pub(super) fn used(&self) -> bool {
        self.used
    }

    pub(super) fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    /// Is it open, at the beginning of an exchange, and without a byte that nobody asked for? Looks at
    /// the kernel, waits for nothing.
    pub(super) fn is_clean(&mut self) -> bool {
        let meter = Arc::clone(&self.meter);
        meter.looking(|| self.is_at_rest())
    }

    /// The same, as far as the runtime and hyper have noticed.
    pub(super) fn is_at_rest(&mut self) -> bool {
        let Some(connection) = &mut self.connection else {
            return false;
        };
        let mut cx = Context::from_waker(Waker::noop());
        if Pin::new(connection).poll(&mut cx).is_ready() {
            self.connection = None;
        }
        self.connection.is_some() && self.sender.is_ready()
    }

    /// Sends `outbound` and reads the answer. The meter is armed.
    pub(super) async fn exchange(
        mut self: Box<Self>,
        outbound: Outbound,
        keeping: Keeping,
        accept_by_close: bool,
    ) -> Exchanged {
        self.used = true;
        match self.drive(outbound, keeping, accept_by_close).await {
            Ok(answer) => {
                failpoint::pass("after-answer");
                let reusable = self.connection.is_some() && !self.meter.facts().broken;
                self.meter.disarm();
                Exchanged::Answered(answer, reusable.then_some(self))
            }
            Err(cut) => {
                drop(self);
                Exchanged::Cut(cut)
            }
        }
    }

    async fn drive(
        &mut self,
        outbound: Outbound,
        keeping: Keeping,
        accept_by_close: bool,
    ) -> Result<Answer, Cut> {
        let meter = Arc::clone(&self.meter);
        let request = outbound.into_request(|content| CountedBody::new(content, meter));
        let response = self.sender.try_send_request(request);
        let meter = &self.meter;
        let read = async {
            let response = response
                .await
                .map_err(|error| Cut::BeforeHead(error.into_error()))?;
            meter.head_came();
            answer::read(response, keeping, accept_by_close)
                .await
                .map_err(Cut::Answer)
        };
        tokio::pin!(read);
        while let Some(connection) = &mut self.connection {
            tokio::select! {
                biased;
                // Its end is told by what was read so far. Dropping it releases the reader.
                _ended = connection => self.connection = None,
                end = &mut read => return end,
            }
        }
        read.await
    }
}
