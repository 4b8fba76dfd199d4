//! What the callers of a crash run have seen, and what follows from it.
//!
//! What always holds: only what a caller was told is in the book; from then on every answer is held
//! against it, across all restarts.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use super::traffic::Request;
use crate::support::call::Answer;
use crate::support::dice::Dice;
use crate::support::upstream::Upstream;

/// Shared by all callers of a run.
#[derive(Default)]
pub(super) struct Book(Mutex<Pages>);

#[derive(Default)]
struct Pages {
    known: Vec<Request>,
    /// By operation: the request that it is, and how it ended.
    outcomes: HashMap<String, Outcome>,
    /// By resource: the highest token that the proxy has answered for.
    marks: HashMap<String, u64>,
    /// By operation: how often a person said that it was not applied.
    freed: HashMap<String, usize>,
    tally: HashMap<String, usize>,
}

/// How an operation ended, as a caller was told.
#[derive(Clone)]
pub(super) struct Outcome {
    pub(super) request: Request,
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// What was in the book when a request was sent.
pub(super) struct Before {
    outcome: Option<Outcome>,
    is_stale: bool,
}

impl Book {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap()
    }

    pub(super) fn any_known(&self, dice: &mut Dice) -> Option<Request> {
        let pages = self.pages();
        (!pages.known.is_empty()).then(|| dice.one_of(&pages.known).clone())
    }

    pub(super) fn mark(&self, resource: &str) -> u64 {
        self.pages()
            .marks
            .get(resource)
            .copied()
            .unwrap_or_default()
    }

    /// Every outcome that a caller was told.
    pub(super) fn outcomes(&self) -> Vec<Outcome> {
        self.pages().outcomes.values().cloned().collect()
    }

    /// How often each kind of answer was given.
    pub(super) fn tally(&self) -> Vec<(String, usize)> {
        let mut all: Vec<_> = self.pages().tally.clone().into_iter().collect();
        all.sort();
        all
    }

    /// A person said that it was not applied: one more attempt may be made.
    pub(super) fn free(&self, operation: &str) {
        *self.pages().freed.entry(operation.to_owned()).or_default() += 1;
    }

    pub(super) fn freed(&self, operation: &str) -> usize {
        self.pages()
            .freed
            .get(operation)
            .copied()
            .unwrap_or_default()
    }

    /// A caller is about to send it.
    pub(super) fn sends(&self, request: &Request) -> Before {
        let mut pages = self.pages();
        if !pages.known.contains(request) {
            pages.known.push(request.clone());
        }
        let mark = request
            .resource
            .as_ref()
            .and_then(|name| pages.marks.get(name));
        Before {
            outcome: pages.outcomes.get(&request.operation).cloned(),
            is_stale: mark.is_some_and(|mark| request.token < Some(*mark)),
        }
    }

    /// A caller was told this: is it consistent with everything that anybody was told before?
    pub(super) fn told(
        &self,
        request: &Request,
        before: &Before,
        answer: &Answer,
        upstream: &Upstream,
    ) {
        let told = Told { request, answer };
        let (status, problem) = answer.verdict();
        let word = if answer.is_replay() {
            "replay".to_owned()
        } else {
            problem
        };
        *self
            .pages()
            .tally
            .entry(format!("{status} {word}"))
            .or_default() += 1;
        told.assert_known_kind();
        if before.is_stale {
            told.assert_not_sent();
        }
        if let Some(outcome) = &before.outcome {
            told.assert_after(outcome);
        }
        if let (Some(resource), Some(token), true) =
            (&request.resource, request.token, told.is_judged())
        {
            let mut pages = self.pages();
            let mark = pages.marks.entry(resource.clone()).or_default();
            *mark = token.max(*mark);
        }
        if told.is_outcome() {
            told.assert_in_ledger(upstream);
            self.keep(&told);
        }
    }

    fn keep(&self, told: &Told<'_>) {
        let outcome = Outcome {
            request: told.request.clone(),
            status: told.answer.status,
            body: told.answer.body.clone(),
        };
        let mut pages = self.pages();
        let first = pages
            .outcomes
            .entry(told.request.operation.clone())
            .or_insert(outcome);
        assert_eq!(
            first.request.body, told.request.body,
            "two forms of one operation: {told}"
        );
        assert_eq!(
            (first.status, &first.body),
            (told.answer.status, &told.answer.body),
            "{told}"
        );
    }
}

/// One answer, to be judged.
struct Told<'a> {
    request: &'a Request,
    answer: &'a Answer,
}

impl Told<'_> {
    fn is_uncertain(&self) -> bool {
        self.answer.field("fencepost-state") == Some("uncertain")
    }

    /// Definitive, and the upstream's or an operator's own.
    fn is_outcome(&self) -> bool {
        let definitive = matches!(self.answer.status, 200..=299 | 402);
        definitive && self.answer.problem().is_none() && !self.is_uncertain()
    }

    /// Did the register judge the token, and is its mark at least that token by now?
    fn is_judged(&self) -> bool {
        let (status, problem) = self.answer.verdict();
        self.is_outcome()
            || matches!(
                (status, problem.as_str()),
                (412, "stale-fencing-token")
                    | (422, _)
                    | (
                        409,
                        "operation-in-flight" | "predecessor-unsettled" | "needs-attention"
                    )
            )
    }

    /// A request under a token that is known to be outdated gets stored answers and refusals.
    fn assert_not_sent(&self) {
        assert_ne!(
            self.answer.field("fencepost-source"),
            Some("upstream"),
            "a stale one went out: {self}"
        );
    }

    /// The operation had ended before this was sent.
    fn assert_after(&self, outcome: &Outcome) {
        if outcome.request.body == self.request.body {
            let seen = (self.answer.status, &self.answer.body);
            assert_eq!(
                seen,
                (outcome.status, &outcome.body),
                "an outcome was lost or changed: {self}"
            );
            assert!(self.answer.is_replay(), "{self}");
        } else {
            assert!(
                matches!(self.answer.status, 412 | 422),
                "a changed payload got through: {self}"
            );
        }
    }

    /// What a caller is told to have happened has happened.
    fn assert_in_ledger(&self, upstream: &Upstream) {
        if self.answer.status == 402 {
            return;
        }
        let json = self.answer.json();
        let id = json["id"].as_str().unwrap();
        let number: usize = id.strip_prefix("effect-").unwrap().parse().unwrap();
        assert_eq!(upstream.effect(number).body, self.request.body, "{self}");
    }

    /// Anything else is a fault of the proxy.
    fn assert_known_kind(&self) {
        let (status, problem) = self.answer.verdict();
        let known = matches!(
            (status, problem.as_str()),
            (201 | 400 | 402 | 500, "")
                | (
                    409,
                    "operation-in-flight" | "predecessor-unsettled" | "needs-attention"
                )
                | (412, "stale-fencing-token")
                | (422, "idempotency-key-reused")
                | (504, "outcome-uncertain")
        );
        assert!(known, "{self}");
    }
}

impl std::fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { request, answer } = self;
        write!(
            f,
            "{request:?} was told {} {}",
            answer.head.text,
            answer.text()
        )
    }
}
