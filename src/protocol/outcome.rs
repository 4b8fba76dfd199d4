//! What went out and what came back: stored requests, answers, evidence, outcomes.
//!
//! What always holds: header fields keep their order, their duplicates and their bytes. An answer's
//! body is the content, never the framing. Evidence belongs to one attempt and is a fact about it,
//! not an error.
//!
//! What it does not do: classify an answer (`policy`), or decide what evidence changes (`operation`).

use bytes::Bytes;

/// Header fields in order of arrival, names lower-case, values exact.
pub type Fields = Vec<(Bytes, Bytes)>;

/// The exact request of an intent: everything a resend needs, but for the upstream key, which is
/// derived again from identity and round.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredRequest {
    /// Method, upper-case as sent.
    pub method: Bytes,
    /// Origin-form target, byte for byte.
    pub target: Bytes,
    /// End-to-end header fields, credentials included, our own fields not.
    pub fields: Fields,
    /// Content.
    pub body: Bytes,
}

/// An answer of an upstream, as far as it can be replayed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Answer {
    /// Final status, 200 to 599.
    pub status: u16,
    /// End-to-end header fields.
    pub fields: Fields,
    /// Content; `None` if it was too large to keep.
    pub body: Option<Bytes>,
}

// Customer content never enters logs, so Debug shows sizes only.
impl std::fmt::Debug for StoredRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "StoredRequest({} fields, {} bytes)",
            self.fields.len(),
            self.body.len()
        )
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body = self.body.as_ref().map(Bytes::len);
        write!(
            f,
            "Answer({}, {} fields, body {body:?})",
            self.status,
            self.fields.len()
        )
    }
}

/// What an answer proves about the attempt that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AnswerClass {
    /// The effect was accepted.
    Applied,
    /// A definitive no: stored and replayed.
    Refused,
    /// The request's own condition failed (412 of a conditional upstream): a definitive no to the
    /// sole attempt, nothing on a repeat.
    ConditionFailed,
    /// Nothing happened: the identity is free again.
    NotProcessed,
    /// The answer proves nothing.
    Ambiguous,
}

/// How far an attempt got when it was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Some bytes of the request may have left, not all.
    Sending,
    /// All of the request was handed to the kernel; no answer head came.
    Waiting,
    /// The head of a final answer came, its content did not end properly.
    Receiving,
}

/// Why an attempt ended without a usable answer; for people and logs, never for decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interruption {
    /// The response time limit passed; the answer may still come.
    Timeout,
    /// The connection was closed or reset.
    Closed,
    /// The answer could not be understood or was not complete.
    BadAnswer,
    /// An unsolicited byte was readable before the request: the answer cannot be trusted.
    StrayBytes,
    /// The process that made the attempt is gone.
    ProcessGone,
    /// A settle step closed the attempt before it acted.
    ClosedToSettle,
}

/// Why nothing was sent, with proof by our own write wrapper or by never having tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unsent {
    /// `dispatch-by` had passed.
    DispatchExpired,
    /// The connection was dead before the first byte was accepted.
    ConnectionLost,
    /// The request could not be put into bytes.
    Unfit,
    /// The record said, on the last look before the first byte, that the effect was applied.
    AlreadySettled,
}

/// What one attempt showed. Three kinds, and no fourth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// No byte was accepted by our write wrapper, and none can be any more.
    NotSent(Unsent),
    /// Bytes may have left and there is no definitive answer.
    Interrupted {
        /// How far it got.
        phase: Phase,
        /// Why.
        why: Interruption,
    },
    /// A complete answer came.
    Answered {
        /// The answer.
        answer: Answer,
        /// What it proves, by profile and route.
        class: AnswerClass,
    },
}

/// Who said how the operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Provenance {
    /// The upstream's answer to an attempt.
    Answer,
    /// A look-up.
    LookUp,
    /// A verified callback.
    Callback,
    /// A person.
    Operator,
    /// The upstream's answer to an undo.
    Void,
}

/// Which way it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The effect was accepted.
    Applied,
    /// The upstream refused for good.
    Refused,
}
