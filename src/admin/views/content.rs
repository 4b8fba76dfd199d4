//! One operation with its event log and, on request, its stored bodies.
//!
//! What always holds: of stored header fields only the content type is shown; others may be
//! credentials.
//!
//! What it does not do: decide who may see bodies (`operations`).

use serde::{Deserialize, Serialize};

use super::words::{hex, time};
use super::{Looker, OperationView};
use crate::protocol::command::Event;
use crate::protocol::operation::State;
use crate::protocol::outcome::{Answer, Fields, StoredRequest};
use crate::store::Stored;

/// One operation with its event log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationDetail {
    /// The operation.
    #[serde(flatten)]
    pub operation: OperationView,
    /// Its event log, oldest first.
    pub events: Vec<EventView>,
    /// The stored request, where asked for and kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<ContentView>,
    /// The stored answer, where asked for and kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<ContentView>,
}

/// A line of an event log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventView {
    /// When.
    pub at: String,
    /// Of which attempt.
    pub attempt: Option<String>,
    /// What happened.
    pub text: String,
}

/// Stored content. Of header fields only `content-type` is shown: others may be credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentView {
    /// `POST /v1/charges` of a request.
    pub line: Option<String>,
    /// Status of an answer.
    pub status: Option<u16>,
    /// As sent.
    pub content_type: Option<String>,
    /// Length in bytes; null if the content was too large to keep.
    pub length: Option<usize>,
    /// The content, where it is UTF-8.
    pub body: Option<String>,
    /// The content in hex, where it is not UTF-8.
    pub body_hex: Option<String>,
}

impl OperationDetail {
    /// With bodies where `bodies`.
    pub fn of(stored: &Stored, bodies: bool, looker: &Looker) -> Self {
        let answer = match &stored.operation.state {
            State::Completed(completion) if bodies => completion.answer.as_ref(),
            State::Completed(_)
            | State::Intended
            | State::Uncertain
            | State::NeedsAttention(_)
            | State::NotApplied(_) => None,
        };
        let request = stored.request.as_ref().filter(|_| bodies);
        Self {
            operation: OperationView::of(&stored.operation, looker),
            events: stored.events.iter().map(EventView::of).collect(),
            request: request.map(ContentView::of_request),
            answer: answer.map(ContentView::of_answer),
        }
    }
}

impl EventView {
    fn of(event: &Event) -> Self {
        Self {
            at: time(&event.at),
            attempt: event.attempt.map(|attempt| attempt.to_string()),
            text: event.text.clone(),
        }
    }
}

impl ContentView {
    fn of_request(request: &StoredRequest) -> Self {
        let method = String::from_utf8_lossy(&request.method);
        let target = String::from_utf8_lossy(&request.target);
        Self {
            line: Some(format!("{method} {target}")),
            content_type: content_type(&request.fields),
            ..Self::of_body(Some(&request.body))
        }
    }

    fn of_answer(answer: &Answer) -> Self {
        Self {
            status: Some(answer.status),
            content_type: content_type(&answer.fields),
            ..Self::of_body(answer.body.as_deref())
        }
    }

    fn of_body(body: Option<&[u8]>) -> Self {
        let text = body.map(std::str::from_utf8);
        Self {
            length: body.map(<[u8]>::len),
            body: text.and_then(Result::ok).map(str::to_owned),
            body_hex: body.filter(|_| matches!(text, Some(Err(_)))).map(hex),
            ..Self::default()
        }
    }
}

fn content_type(fields: &Fields) -> Option<String> {
    let field = fields.iter().find(|(name, _)| &name[..] == b"content-type");
    field.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
}
