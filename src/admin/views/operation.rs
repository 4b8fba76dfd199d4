//! Operations without bodies, and lists of them.
//!
//! What always holds: the state shown is the one that holds here and now, not the recorded one.
//!
//! What it does not do: show content (`content`).

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::Looker;
use super::words::{hex, interruption, order, origin, provenance, reason, shell_word, time};
use crate::protocol::ids::{OperationKey, Principal};
use crate::protocol::operation::{Attempt, AttemptEnd, Completion, Operation, State};
use crate::protocol::outcome::{Phase, Verdict};
use crate::protocol::remaining;
use crate::store::OperationPage;

/// An operation, without bodies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationView {
    /// Durable id of its upstream.
    pub upstream: String,
    /// Its id.
    pub id: String,
    /// Digest of account or caller, 32 hex digits; null without one.
    pub principal: Option<String>,
    /// Incarnation of its resource, for ids that follow it; else 0.
    pub incarnation: u64,
    /// `caller`, `derived` or `fresh`.
    pub origin: String,
    /// The contract's word.
    pub state: String,
    /// Why it needs a person, or what proved that it had no effect.
    pub reason: Option<String>,
    /// Name of its resource.
    pub resource: Option<String>,
    /// Token that it was admitted with.
    pub token: Option<String>,
    /// Sequence that it was admitted with.
    pub sequence: Option<String>,
    /// Its number among all admissions of its resource.
    pub admission: Option<u64>,
    /// `strict` or `free`.
    pub order: String,
    /// How many other keys were used towards the upstream before this one.
    pub round: u32,
    /// When the key in force may first have been sent.
    pub key_first_used: Option<String>,
    /// How long the upstream remembers the key; null if not published, or without a key.
    pub key_lifetime_ms: Option<u64>,
    /// How much of that is left while it is unsettled; null also where no attempt may have sent yet.
    #[serde(default)]
    pub key_lifetime_left_ms: Option<u64>,
    /// Attempts admitted, ever.
    pub admitted: u32,
    /// Resends among them.
    pub resends: u32,
    /// Attempts that may have had an effect.
    pub attempts: Vec<AttemptView>,
    /// How it ended.
    pub outcome: Option<OutcomeView>,
    /// Are the bytes to send again still stored?
    pub request_kept: bool,
    /// When it was first admitted.
    pub first_seen: String,
    /// When its record last changed.
    pub changed: String,
    /// Since `first_seen`.
    pub age_ms: u64,
}

/// One try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptView {
    /// `<instance>-<number>`.
    pub id: String,
    /// Under which key.
    pub round: u32,
    /// When it was admitted.
    pub admitted: String,
    /// Silent longer than this: overdue.
    pub overdue_after_ms: u64,
    /// Started by the reconciler?
    pub resend: bool,
    /// Can it still act or learn something?
    pub live: bool,
    /// `silent`, `open`, `closed`, `ambiguous` or `disproved`.
    pub end: String,
    /// How it came to that, in words.
    pub detail: Option<String>,
    /// Status of an answer that proves nothing.
    pub status: Option<u16>,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeView {
    /// `applied` or `refused`.
    pub verdict: String,
    /// `answer`, `look-up`, `callback` or `operator`.
    pub provenance: String,
    /// The attempt that it completed, where one is known.
    pub attempt: Option<String>,
    /// Status that callers get; null once the answer was purged.
    pub status: Option<u16>,
    /// Is the answer's content kept?
    pub body_kept: bool,
    /// When.
    pub at: String,
}

/// A page of operations, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationList {
    /// The page.
    pub operations: Vec<OperationView>,
    /// Give this as `after` for the next page; null at the end.
    pub next: Option<String>,
}

/// What a resolution did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolutionView {
    /// Durable id of the upstream.
    pub upstream: String,
    /// Id of the operation.
    pub id: String,
    /// Its state now.
    pub state: String,
}

/// What became of a request to settle now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettlingView {
    /// Durable id of the upstream.
    pub upstream: String,
    /// Id of the operation.
    pub id: String,
    /// The state that it began in.
    pub state: String,
    /// `settling`, or `sent again`.
    pub did: String,
    /// The attempt that sends it again.
    pub attempt: Option<String>,
}

/// Name of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyView {
    /// Durable id of its upstream.
    pub upstream: String,
    /// Its id.
    pub id: String,
    /// Digest of account or caller, 32 hex digits; null without one.
    pub principal: Option<String>,
    /// Incarnation of its resource, for ids that follow it; else 0.
    pub incarnation: u64,
}

impl OperationView {
    /// As `looker` sees it.
    pub fn of(operation: &Operation, looker: &Looker) -> Self {
        let key = KeyView::of(&operation.key);
        let place = operation.place.as_ref();
        let lifetime = operation.settle.key.and_then(|key| key.lifetime);
        Self {
            upstream: key.upstream,
            id: key.id,
            principal: key.principal,
            incarnation: key.incarnation,
            origin: origin(operation.origin).to_owned(),
            state: looker.state_word(operation).to_owned(),
            reason: reason(&operation.state),
            resource: place.map(|place| place.resource.to_string()),
            token: place.and_then(|place| place.token.map(|token| token.to_string())),
            sequence: place.and_then(|place| place.sequence.map(|number| number.to_string())),
            admission: place.map(|place| place.number.0),
            order: order(operation.order).to_owned(),
            round: operation.key_use.round.0,
            key_first_used: operation.key_use.first.as_ref().map(|(_, at)| time(at)),
            key_lifetime_ms: lifetime.map(|length| length.0),
            key_lifetime_left_ms: remaining::lifetime_of_key(operation, &looker.now)
                .filter(|_| operation.state.is_unsettled())
                .map(|left| left.0),
            admitted: operation.admitted,
            resends: operation.resends,
            attempts: operation
                .attempts
                .iter()
                .map(|attempt| AttemptView::of(attempt, looker))
                .collect(),
            outcome: match &operation.state {
                State::Completed(completion) => Some(OutcomeView::of(completion)),
                State::Intended
                | State::Uncertain
                | State::NeedsAttention(_)
                | State::NotApplied(_) => None,
            },
            request_kept: operation.request_kept,
            first_seen: time(&operation.first_seen),
            changed: time(&operation.changed),
            age_ms: looker.age(&operation.first_seen).0,
        }
    }
}

impl OperationView {
    /// Its name.
    pub fn key(&self) -> KeyView {
        KeyView {
            upstream: self.upstream.clone(),
            id: self.id.clone(),
            principal: self.principal.clone(),
            incarnation: self.incarnation,
        }
    }

    /// The command that says how it ended: of the attempts that show here, and of none that is sent later.
    pub fn resolving(&self) -> String {
        format!(
            "fencepost operations resolve {} --admitted {} --verdict applied|not-applied --reason '…'",
            self.key().typed(),
            self.admitted
        )
    }
}

impl OperationList {
    /// A page, as `looker` sees it.
    pub fn of(page: &OperationPage, looker: &Looker) -> Self {
        let view = |operation| OperationView::of(operation, looker);
        Self {
            operations: page.operations.iter().map(view).collect(),
            next: page.next.map(|cursor| cursor.to_string()),
        }
    }
}

impl AttemptView {
    fn of(attempt: &Attempt, looker: &Looker) -> Self {
        let cut = |phase: Phase, why| format!("{} while {}", interruption(why), phase.word());
        let (end, detail, status) = match attempt.end {
            AttemptEnd::Silent => ("silent", None, None),
            AttemptEnd::Open(phase, why) => ("open", Some(cut(phase, why)), None),
            AttemptEnd::Closed(phase, why) => ("closed", Some(cut(phase, why)), None),
            AttemptEnd::Ambiguous(status) => ("ambiguous", None, Some(status)),
            AttemptEnd::Disproved(by) => {
                let detail = format!("no effect, by {}", provenance(by));
                ("disproved", Some(detail), None)
            }
        };
        Self {
            id: attempt.id.to_string(),
            round: attempt.round.0,
            admitted: time(&attempt.at),
            overdue_after_ms: attempt.overdue_after.0,
            resend: attempt.resend,
            live: attempt.is_live(&looker.living, &looker.now),
            end: end.to_owned(),
            detail,
            status,
        }
    }
}

impl OutcomeView {
    fn of(completion: &Completion) -> Self {
        let answer = completion.answer.as_ref();
        let verdict = match completion.verdict {
            Verdict::Applied => "applied",
            Verdict::Refused => "refused",
        };
        Self {
            verdict: verdict.to_owned(),
            provenance: provenance(completion.provenance).to_owned(),
            attempt: completion.attempt.map(|attempt| attempt.to_string()),
            status: answer.map(|answer| answer.status),
            body_kept: answer.is_some_and(|answer| answer.body.is_some()),
            at: time(&completion.at),
        }
    }
}

impl KeyView {
    /// As a command names it, even where others share its id.
    pub fn typed(&self) -> String {
        let mut name = format!("{} {}", shell_word(&self.upstream), shell_word(&self.id));
        let principal = self.principal.as_deref().unwrap_or("none");
        // Writing to a String cannot fail.
        let _ = write!(
            name,
            " --principal {principal} --incarnation {}",
            self.incarnation
        );
        name
    }

    /// Without its tenant, which is the instance's own.
    pub fn of(key: &OperationKey) -> Self {
        Self {
            upstream: key.upstream.to_string(),
            id: key.id.to_string(),
            principal: match &key.principal {
                Principal::None => None,
                Principal::Hashed(digest) => Some(hex(digest)),
            },
            incarnation: key.incarnation.0,
        }
    }
}
