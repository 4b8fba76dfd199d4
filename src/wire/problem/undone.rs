//! What callers of an operation get that was undone because nobody knew how it ended.
//!
//! What always holds: it is an answer like any other, stored and replayed; it says that a new effect needs a
//! new identity.
//!
//! What it does not do: stand in the contract's table of refusals. Nothing was refused here.

use bytes::Bytes;
use http::StatusCode;
use serde_json::json;

use crate::protocol::ids::OperationKey;
use crate::protocol::outcome::Answer;

/// The answer of an operation that the upstream was asked to undo, and has.
pub fn undone(key: &OperationKey) -> Answer {
    let status = StatusCode::CONFLICT.as_u16();
    let document = json!({
        "type": "urn:fencepost:problem:operation-voided",
        "title": "The operation was undone",
        "status": status,
        "detail": "Nobody knew how this operation ended, and its rules say that such a one is undone: the \
                   upstream has confirmed that nothing of it is in force. To have the effect after all, \
                   begin a new operation under a new identity.",
        "retry": "never",
        "operation": key.id.as_str(),
        "upstream": key.upstream.as_str(),
    });
    Answer {
        status,
        fields: vec![(
            Bytes::from_static(b"content-type"),
            Bytes::from_static(b"application/problem+json"),
        )],
        body: Some(Bytes::from(document.to_string())),
    }
}
