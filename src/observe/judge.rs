//! Judges what is only observed, one request after the other, beside their way.
//!
//! What always holds: a request is judged by the rules it came under, as whoever enforces would judge
//! it; the register is asked what it knows, and never told. A register that does not answer at once is
//! not waited for.
//!
//! What it does not do: keep anybody waiting.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use tokio::time::{Interval, interval, timeout};

use super::counts::{Counts, Finding, Occasion, Treatment};
use super::shadow::{Known, Shadow};
use super::signs;
use super::watch::{End, Observer, Part, Seen, Told, What};
use crate::clock::Clock;
use crate::expression::AnswerFacts;
use crate::protocol::command::{Admit, Ruling};
use crate::protocol::ids::{AttemptId, OperationId, OperationKey, ResourceKey};
use crate::protocol::outcome::{Answer, AnswerClass, Evidence, Interruption, Phase};
use crate::protocol::view::Unsettled;
use crate::store::Register;
use crate::telemetry::metrics::{Metrics, RouteLabels};
use crate::wire::identify::{self, Identified, Scope, Unidentified, identify};
use crate::wire::overheard::Heard;
use crate::wire::problem::Fault;

/// The register is asked no longer than this.
const PATIENCE: Duration = Duration::from_millis(250);

/// How often the epoch is read.
const EPOCH_EVERY: Duration = Duration::from_secs(5);

/// Judges. Runs until nobody watches any more.
pub struct Judge {
    told: Told,
    register: Register,
    clock: Clock,
    counts: Counts,
    metrics: Metrics,
    shadow: Shadow,
    epoch: u64,
    open: HashMap<u64, Open>,
}

/// A request of which one part was told.
enum Open {
    Ended(End),
    Judged(Attempt),
}

/// What was judged, until it ends.
struct Attempt {
    seen: Arc<Seen>,
    id: Option<OperationId>,
    /// It would have been sent.
    granted: Option<Granted>,
}

struct Granted {
    key: OperationKey,
    resource: Option<ResourceKey>,
    attempt: AttemptId,
    conditional: bool,
}

/// Whoever watches, and whoever judges.
pub fn open(
    register: Register,
    clock: Clock,
    counts: Counts,
    metrics: Metrics,
) -> (Observer, Judge) {
    let (observer, told) = Observer::new(counts.clone(), metrics.clone());
    let judge = Judge {
        told,
        shadow: Shadow::new(register.instance()),
        register,
        clock,
        counts,
        metrics,
        epoch: 0,
        open: HashMap::new(),
    };
    (observer, judge)
}

impl Judge {
    /// Judges until nobody watches any more.
    pub async fn run(mut self) {
        let mut epoch: Interval = interval(EPOCH_EVERY);
        loop {
            tokio::select! {
                biased;
                _ = epoch.tick() => self.read_epoch().await,
                part = self.told.recv() => match part {
                    Some(part) => self.hear(part).await,
                    None => return,
                },
            }
        }
    }

    async fn read_epoch(&mut self) {
        if let Ok(Ok(epoch)) = timeout(PATIENCE, self.register.read().epoch()).await {
            self.epoch = epoch;
        }
    }

    async fn hear(&mut self, part: Part) {
        let number = part.of.number;
        match (part.what, self.open.remove(&number)) {
            (What::Asked(seen, heard), Some(Open::Ended(end))) => {
                let attempt = self.ask(seen, heard).await;
                self.end(attempt, end).await;
            }
            (What::Asked(seen, heard), None | Some(Open::Judged(_))) => {
                let attempt = self.ask(seen, heard).await;
                self.open.insert(number, Open::Judged(attempt));
            }
            (What::Ended(end), Some(Open::Judged(attempt))) => self.end(attempt, end).await,
            // Answered before its content was sent whole.
            (What::Ended(end), None | Some(Open::Ended(_))) => {
                self.open.insert(number, Open::Ended(end));
            }
        }
    }

    async fn ask(&mut self, seen: Arc<Seen>, heard: Heard) -> Attempt {
        let identified = match heard {
            Heard::Whole(body) => identified(&seen, body).await,
            Heard::TooLarge => {
                let limit = seen.protect.body_limit;
                Err(Fault::BodyTooLarge { limit }.into())
            }
            Heard::NoRoom => return self.not_judged(seen, "no-room"),
            Heard::CutOff => return self.not_judged(seen, "cut-off"),
        };
        match identified {
            Ok(identified) => self.judge(seen, &identified).await,
            Err(unidentified) => {
                self.found(&seen, None, &signs::of_unidentified(&unidentified));
                nothing_granted(seen)
            }
        }
    }

    async fn judge(&mut self, seen: Arc<Seen>, identified: &Identified) -> Attempt {
        let admit = identified.admit(seen.attempt, seen.at, true);
        let known = self.known(&admit).await;
        let Some(judged) = self.shadow.admit(&admit, known) else {
            return self.not_judged(seen, "no-decision");
        };
        let mut findings = signs::of_request(identified);
        findings.extend(signs::of_admission(&judged.admission, judged.waited));
        let id = judged.admission.key.id.clone();
        self.found(&seen, Some(&id), &findings);
        let granted = match judged.admission.ruling {
            Ruling::Granted(grant) => Some(Granted {
                key: grant.key,
                resource: identified.resource().cloned(),
                attempt: grant.attempt,
                conditional: admit.conditional,
            }),
            Ruling::Replay { .. }
            | Ruling::Join { .. }
            | Ruling::Wait { .. }
            | Ruling::ReserveFirst
            | Ruling::Refused(_) => None,
        };
        Attempt {
            seen,
            id: Some(id),
            granted,
        }
    }

    /// What the register holds of it. It may not be able to say.
    async fn known(&self, admit: &Admit) -> Known {
        let read = self.register.read();
        let resource = admit.presented.as_ref().map(|it| &it.resource);
        let incarnated_by = resource.filter(|_| admit.follows_incarnation);
        let record = async {
            if self.shadow.knows(&admit.key) {
                return None;
            }
            read.peek(&admit.key, incarnated_by).await.ok().flatten()
        };
        let fence = async { read.resource(resource?).await.ok().flatten() };
        let both = async { tokio::join!(record, fence) };
        let (record, stored) = timeout(PATIENCE, both).await.unwrap_or_default();
        let unsettled = stored.iter().flat_map(|it| &it.unsettled);
        Known {
            living: read.living(),
            epoch: self.epoch,
            record,
            unsettled: unsettled.filter_map(Unsettled::of).collect(),
            fence: stored.map(|it| it.fence),
        }
    }

    async fn end(&mut self, attempt: Attempt, end: End) {
        let Some(granted) = attempt.granted else {
            return;
        };
        let evidence = evidence(&attempt.seen, granted.conditional, end).await;
        let now = self.clock.now();
        let resource = granted.resource.as_ref();
        let state = self
            .shadow
            .record(&granted.key, resource, granted.attempt, evidence, now);
        if state.is_some_and(|state| state.is_unsettled()) {
            let about = about(&attempt.seen, attempt.id.as_ref());
            self.counts.later(about, Finding::InDoubt);
            let effect = &attempt.seen.effect;
            self.metrics.observed(effect, Finding::InDoubt.word());
        }
    }

    fn not_judged(&self, seen: Arc<Seen>, why: &'static str) -> Attempt {
        self.found(&seen, None, &[Finding::NotJudged(why.into())]);
        nothing_granted(seen)
    }

    fn found(&self, seen: &Seen, id: Option<&OperationId>, findings: &[Finding]) {
        self.counts.request(about(seen, id), findings);
        let route = RouteLabels::new(&seen.effect, seen.upstream.id.as_str());
        self.metrics.observed(&seen.effect, "request");
        for finding in findings {
            self.metrics.observed(&seen.effect, finding.word());
            if let Finding::Refused(Cow::Borrowed(reason))
            | Finding::LetPass(Cow::Borrowed(reason)) = finding
            {
                self.metrics.would_refuse(&route, reason);
                tracing::info!(
                    upstream = %seen.upstream.id,
                    effect = seen.effect,
                    operation = id.map(tracing::field::display),
                    reason,
                    "forwarded, and would be refused if it were enforced"
                );
            }
        }
    }
}

fn nothing_granted(seen: Arc<Seen>) -> Attempt {
    Attempt {
        seen,
        id: None,
        granted: None,
    }
}

fn about<'a>(seen: &'a Seen, operation: Option<&'a OperationId>) -> Occasion<'a> {
    Occasion {
        upstream: seen.upstream.id.as_str(),
        effect: &seen.effect,
        treatment: Treatment::Observed,
        method: seen.head.method.as_str(),
        operation,
        at_ms: seen.at.wall_ms,
    }
}

/// Much content is looked into where nobody else is kept waiting.
async fn identified(seen: &Arc<Seen>, body: Bytes) -> Result<Identified, Unidentified> {
    if body.len() <= seen.protect.slow_above() {
        return identified_here(seen, body);
    }
    let slow = Arc::clone(seen);
    let identified = tokio::task::spawn_blocking(move || identified_here(&slow, body));
    // It fails only with the process.
    identified.await.unwrap_or(Err(Fault::Draining.into()))
}

fn identified_here(seen: &Seen, body: Bytes) -> Result<Identified, Unidentified> {
    let scope = Scope {
        tenant: &seen.tenant,
        upstream: &seen.upstream,
        fingerprints: &seen.fingerprints,
    };
    let effect = identify::Effect {
        protect: &seen.protect,
        params: &seen.params,
        head: &seen.head,
        body,
        caller: &seen.caller,
        first_attempt: seen.attempt,
        stamps: &seen.stamps,
    };
    identify(scope, effect)
}

/// What the end shows of the attempt. Nothing of an answer is kept but its status.
async fn evidence(seen: &Seen, conditional: bool, end: End) -> Evidence {
    let (status, headers, heard) = match end {
        End::Unanswered(evidence) => return evidence,
        End::Answered {
            status,
            headers,
            heard,
        } => (status, headers, heard),
    };
    let body = match heard {
        Heard::Whole(body) => Some(body),
        Heard::TooLarge | Heard::NoRoom => None,
        Heard::CutOff => {
            return Evidence::Interrupted {
                phase: Phase::Receiving,
                why: Interruption::BadAnswer,
            };
        }
    };
    let class = class(seen, conditional, status, &headers, body).await;
    let answer = Answer {
        status,
        fields: Vec::new(),
        body: None,
    };
    Evidence::Answered { answer, class }
}

async fn class(
    seen: &Seen,
    conditional: bool,
    status: u16,
    headers: &HeaderMap,
    body: Option<Bytes>,
) -> AnswerClass {
    let fields: Vec<(Bytes, Bytes)> = headers
        .iter()
        .map(|(name, value)| {
            let name = Bytes::copy_from_slice(name.as_str().as_bytes());
            (name, Bytes::copy_from_slice(value.as_bytes()))
        })
        .collect();
    let protect = Arc::clone(&seen.protect);
    let length = body.as_ref().map_or(0, Bytes::len);
    let is_slow = protect.answers.is_slow(status, length);
    let judged = move || {
        let facts = AnswerFacts {
            status,
            fields: &fields,
            body: body.as_deref(),
        };
        protect.answers.class(&facts, conditional)
    };
    if is_slow {
        // Nobody knows what it would have said.
        let judged = tokio::task::spawn_blocking(judged).await;
        return judged.unwrap_or(AnswerClass::Ambiguous);
    }
    judged()
}
