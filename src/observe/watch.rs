//! Watching a request that is forwarded as it came: what it says, and how it ended.
//!
//! What always holds: nothing here waits, and nothing here fails towards the caller. Of every request
//! that is watched two parts are told, once each: that it was asked, and how it ended; told in the very
//! moment, so that what one caller does in order is judged in that order. Watching is bounded by a
//! number of requests and by room of its own for their content: what is enforced loses none of its.
//!
//! What it does not do: judge (`judge`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::request::Parts;
use http::{HeaderMap, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::counts::{Counts, Finding, Occasion, Treatment};
use crate::config::{Protect, Upstream};
use crate::expression::PathParams;
use crate::protocol::ids::{AttemptId, Tenant};
use crate::protocol::outcome::{Evidence, Interruption, Phase};
use crate::protocol::time::Moment;
use crate::telemetry::metrics::Metrics;
use crate::wire::body::BodyBudget;
use crate::wire::caller::Caller;
use crate::wire::fingerprint::FingerprintKey;
use crate::wire::overheard::{Ear, Heard};
use crate::wire::stamp::Stamps;

/// Most requests that are watched at once.
const MOST: usize = 4_096;

/// Room for what is overheard, in bytes.
const ROOM: usize = 64 << 20;

/// Watches requests. Clones share everything.
#[derive(Clone)]
pub struct Observer(Arc<Inner>);

struct Inner {
    parts: mpsc::UnboundedSender<Part>,
    free: Arc<Semaphore>,
    bodies: BodyBudget,
    next: AtomicU64,
    counts: Counts,
    metrics: Metrics,
}

/// What whoever judges is told.
pub(super) type Told = mpsc::UnboundedReceiver<Part>;

/// A request, as far as it is known when it comes in.
#[derive(Debug)]
pub struct Seen {
    /// Namespace in the register.
    pub tenant: Tenant,
    /// To compare its meaning.
    pub fingerprints: FingerprintKey,
    /// Where it goes.
    pub upstream: Arc<Upstream>,
    /// Name of its effect.
    pub effect: String,
    /// The rule.
    pub protect: Arc<Protect>,
    /// What its path captured.
    pub params: PathParams,
    /// Its head, as received.
    pub head: Parts,
    /// Who sent it.
    pub caller: Caller,
    /// What is held on its sender's behalf.
    pub stamps: Stamps,
    /// The attempt that it would be.
    pub attempt: AttemptId,
    /// When it came.
    pub at: Moment,
}

/// One of the two parts of a request that is watched.
pub(super) struct Part {
    pub(super) of: Arc<Turn>,
    pub(super) what: What,
}

pub(super) enum What {
    Asked(Arc<Seen>, Heard),
    Ended(End),
}

/// How it ended.
#[derive(Debug)]
pub(super) enum End {
    Answered {
        status: u16,
        headers: HeaderMap,
        heard: Heard,
    },
    Unanswered(Evidence),
}

/// One request; its place is free once both of its parts were judged.
pub(super) struct Turn {
    pub(super) number: u64,
    _place: OwnedSemaphorePermit,
}

/// A request that is watched.
pub struct Watch {
    observer: Observer,
    turn: Arc<Turn>,
    seen: Arc<Seen>,
}

/// The same, once its content is listened to.
pub struct Answering {
    observer: Observer,
    turn: Option<Arc<Turn>>,
}

impl Observer {
    /// Nothing is watched yet; the parts go to whoever judges.
    pub(super) fn new(counts: Counts, metrics: Metrics) -> (Self, Told) {
        let (parts, told) = mpsc::unbounded_channel();
        let observer = Self(Arc::new(Inner {
            parts,
            free: Arc::new(Semaphore::new(MOST)),
            bodies: BodyBudget::new(ROOM),
            next: AtomicU64::new(0),
            counts,
            metrics,
        }));
        (observer, told)
    }

    /// The report.
    pub fn counts(&self) -> &Counts {
        &self.0.counts
    }

    /// Watches a request; `None` where too many are being watched: that is counted, and the request is
    /// forwarded all the same.
    pub fn watch(&self, seen: Seen) -> Option<Watch> {
        let Ok(place) = Arc::clone(&self.0.free).try_acquire_owned() else {
            let finding = Finding::NotJudged("too-many-at-once".into());
            self.0.metrics.observed(&seen.effect, finding.word());
            let about = Occasion {
                upstream: seen.upstream.id.as_str(),
                effect: &seen.effect,
                treatment: Treatment::Observed,
                method: seen.head.method.as_str(),
                operation: None,
                at_ms: seen.at.wall_ms,
            };
            self.0.counts.request(about, &[finding]);
            return None;
        };
        Some(Watch {
            observer: self.clone(),
            turn: Arc::new(Turn {
                number: self.0.next.fetch_add(1, Ordering::Relaxed),
                _place: place,
            }),
            seen: Arc::new(seen),
        })
    }

    fn tell(&self, of: Arc<Turn>, what: What) {
        // Nobody judges any more: the process is stopping.
        let _ = self.0.parts.send(Part { of, what });
    }
}

impl Watch {
    /// What listens to its content, and what its answer is told to.
    pub fn listen(self) -> (Ear, Answering) {
        let Self {
            observer,
            turn,
            seen,
        } = self;
        let limit = seen.protect.body_limit;
        let answering = Answering {
            observer: observer.clone(),
            turn: Some(Arc::clone(&turn)),
        };
        let budget = observer.0.bodies.clone();
        let ear = Ear::new(&budget, limit, move |heard| {
            observer.tell(turn, What::Asked(seen, heard));
        });
        (ear, answering)
    }
}

impl Answering {
    /// It is being answered: what listens to the answer, up to `limit` bytes.
    pub fn answered(
        mut self,
        status: StatusCode,
        headers: &HeaderMap,
        limit: usize,
    ) -> Option<Ear> {
        let turn = self.turn.take()?;
        let (observer, headers) = (self.observer.clone(), headers.clone());
        Some(Ear::new(&self.observer.0.bodies, limit, move |heard| {
            let end = End::Answered {
                status: status.as_u16(),
                headers,
                heard,
            };
            observer.tell(turn, What::Ended(end));
        }))
    }

    /// It gets no answer.
    pub fn unanswered(mut self, evidence: Evidence) {
        if let Some(turn) = self.turn.take() {
            self.observer
                .tell(turn, What::Ended(End::Unanswered(evidence)));
        }
    }
}

/// The caller went away before the answer came.
impl Drop for Answering {
    fn drop(&mut self) {
        if let Some(turn) = self.turn.take() {
            let gone = Evidence::Interrupted {
                phase: Phase::Waiting,
                why: Interruption::Closed,
            };
            self.observer.tell(turn, What::Ended(End::Unanswered(gone)));
        }
    }
}
