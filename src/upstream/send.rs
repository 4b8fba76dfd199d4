//! Sending: a permit in, a receipt out.
//!
//! What always holds: one permit, one attempt, on the one connection that was reserved for it; every
//! way out ends in a receipt. An attempt that outlasts the response limit is given up as interrupted;
//! if all of it was sent, its connection is kept and read on by a [`LateReader`]; if not, it is closed,
//! so that no more of it leaves after the limit.
//!
//! What it does not do: send again, or write the register. Dropping any of these futures closes the
//! connection and leaves the attempt without a receipt: callers run them detached.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::answer::Keeping;
use super::counted_io::Meter;
use super::evidence;
use super::exchange::Exchanged;
use super::onward::Onward;
use super::outbound::Outbound;
use super::reserve::{EffectPool, Reserved};
use crate::clock;
use crate::protocol::ids::AttemptId;
use crate::protocol::outcome::{Answer, AnswerClass, Evidence, Interruption, Unsent};
use crate::store::permit::{LateEnd, Permit, Receipt};

/// How an attempt ended, or seems to.
#[must_use = "an attempt that is not recorded is lost"]
#[derive(Debug)]
pub enum Sent {
    /// Nothing more can leave and nothing more will be read.
    Ended(Receipt),
    /// All was sent, no answer came in time, and it may still come.
    Interrupted {
        /// To be recorded now: interrupted, its connection open.
        receipt: Receipt,
        /// To be waited on, and its receipt recorded too.
        late: LateReader,
    },
}

/// Reads on where an attempt was given up. Dropping it closes the connection.
#[must_use = "a late reader must say how it ended"]
pub struct LateReader {
    attempt: Attempt,
    end: LateEnd,
}

/// What an answer proves, being found out.
type Judging = Pin<Box<dyn Future<Output = AnswerClass> + Send>>;

/// An exchange under way, and what judges it.
struct Attempt {
    id: AttemptId,
    exchange: Pin<Box<dyn Future<Output = Exchanged> + Send>>,
    meter: Arc<Meter>,
    judge: Box<dyn FnOnce(Answer) -> Judging + Send>,
    pool: EffectPool,
}

impl Reserved {
    /// Makes the attempt that `permit` permits. The first byte leaves before the permit's
    /// `dispatch-by` or not at all; a connection that has died or holds a stray byte by then is not
    /// written to. `judge` says what a complete answer proves.
    pub async fn send<J>(
        self,
        permit: Permit,
        outbound: Outbound,
        judge: impl FnOnce(Answer) -> J + Send + 'static,
    ) -> Sent
    where
        J: Future<Output = AnswerClass> + Send + 'static,
    {
        self.send_passing_on(permit, outbound, judge, None).await
    }

    /// The same, for somebody who takes an answer that is too large to keep. It counts against the
    /// response limit like any other, to its end; whoever takes it may hold the reading up for half of
    /// the time that is left then. After the limit it is passed on for as long as the attempt is read on.
    pub async fn send_passing_on<J>(
        self,
        permit: Permit,
        outbound: Outbound,
        judge: impl FnOnce(Answer) -> J + Send + 'static,
        onward: Option<Onward>,
    ) -> Sent
    where
        J: Future<Output = AnswerClass> + Send + 'static,
    {
        let (Some(live), pool) = self.open() else {
            return Sent::Ended(permit.finish(Evidence::NotSent(Unsent::ConnectionLost)));
        };
        let limits = *pool.limits();
        let meter = Arc::clone(live.meter());
        meter.arm(permit.dispatch_by());
        let keeping = Keeping {
            limit: outbound.kept_of_answer(limits.answer_bytes),
            bodies: pool.bodies().clone(),
            onward,
            begun: clock::boottime(),
            response: limits.response,
        };
        let mut attempt = Attempt {
            id: permit.grant().attempt,
            exchange: Box::pin(live.exchange(outbound, keeping, limits.accept_by_close)),
            meter,
            judge: Box::new(|answer| Box::pin(judge(answer))),
            pool,
        };
        match timeout(limits.response, &mut attempt.exchange).await {
            Ok(exchanged) => Sent::Ended(permit.finish(attempt.evidence_of(exchanged).await)),
            Err(_elapsed) => attempt.give_up(permit),
        }
    }
}

impl LateReader {
    /// Reads on until the answer comes, `at_most` has passed, or `close` is ready: a settle step
    /// closes the attempt before it acts.
    pub async fn wait(mut self, at_most: Duration, close: impl Future<Output = ()>) -> Receipt {
        let why = tokio::select! {
            biased;
            exchanged = &mut self.attempt.exchange => {
                return self.end.finish(self.attempt.evidence_of(exchanged).await);
            }
            () = close => Interruption::ClosedToSettle,
            () = sleep(at_most) => Interruption::Timeout,
        };
        self.end.finish(self.attempt.close(why))
    }
}

impl Attempt {
    async fn evidence_of(self, exchanged: Exchanged) -> Evidence {
        match exchanged {
            Exchanged::Answered(answer, live) => {
                self.pool.put_back(live);
                let class = (self.judge)(answer.clone()).await;
                Evidence::Answered { answer, class }
            }
            Exchanged::Cut(cut) => {
                // Evidence keeps the kind only; this is the one place that knows the cause.
                let cause: &(dyn std::error::Error + 'static) = &cut;
                tracing::info!(attempt = %self.id, cause, "an attempt ended without an answer");
                evidence::of_cut(&self.meter.facts(), &cut)
            }
        }
    }

    fn give_up(self, permit: Permit) -> Sent {
        let facts = self.meter.facts();
        if !facts.all_sent() {
            return Sent::Ended(permit.finish(self.close(Interruption::Timeout)));
        }
        let seen = evidence::of_silence(&facts, Interruption::Timeout);
        let (receipt, end) = permit.interrupt(seen);
        Sent::Interrupted {
            receipt,
            late: LateReader { attempt: self, end },
        }
    }

    /// Closes the connection, then says what the attempt proves.
    fn close(self, why: Interruption) -> Evidence {
        drop(self.exchange);
        evidence::of_end(&self.meter.facts(), why)
    }
}

impl std::fmt::Debug for LateReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LateReader({:?})", self.end)
    }
}
