//! What befalls one request at the upstream.
//!
//! What always holds: a script is for one request, taken when its first byte arrives; without one a
//! request is served at once. A script bends the delivery; whether there is an effect is the
//! upstream's own rule, except where the script cuts the request short or replaces the answer.

use super::gate::Gate;

/// How the connection goes on after the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    #[default]
    KeepAlive,
    Close,
    Reset,
}

/// What an upstream says that has not done it, and never says of what it did.
#[derive(Clone)]
pub(super) struct Refusal {
    pub(super) answer: Vec<u8>,
    /// Is it what the key gets from now on?
    pub(super) remembered: bool,
}

/// One request's fate.
#[derive(Clone, Default)]
pub struct Script {
    pub(super) cut_request_after: Option<usize>,
    pub(super) before_effect: Option<Gate>,
    pub(super) before_answer: Option<Gate>,
    pub(super) answer: Option<Vec<u8>>,
    pub(super) refusal: Option<Refusal>,
    pub(super) effect_answer: Option<Vec<u8>>,
    pub(super) cut_answer_after: Option<usize>,
    pub(super) before_rest: Option<(usize, Gate)>,
    pub(super) ending: Ending,
}

impl Script {
    /// Reset after so many bytes of the request; no effect.
    pub fn cut_request_after(bytes: usize) -> Self {
        Self {
            cut_request_after: Some(bytes),
            ending: Ending::Reset,
            ..Self::default()
        }
    }

    /// The request has arrived whole and waits; its effect happens when the gate opens.
    pub fn hold_effect(gate: &Gate) -> Self {
        Self {
            before_effect: Some(gate.clone()),
            ..Self::default()
        }
    }

    /// The effect happens at once, the answer waits.
    pub fn hold_answer(gate: &Gate) -> Self {
        Self {
            before_answer: Some(gate.clone()),
            ..Self::default()
        }
    }

    /// The effect happens; only so many bytes of the answer leave, then the connection closes.
    pub fn cut_answer_after(bytes: usize) -> Self {
        Self {
            cut_answer_after: Some(bytes),
            ending: Ending::Close,
            ..Self::default()
        }
    }

    /// The effect happens and the connection is reset instead of an answer.
    pub fn lose_answer() -> Self {
        Self {
            ending: Ending::Reset,
            ..Self::cut_answer_after(0)
        }
    }

    /// The effect happens, and this is what it is answered, now and whenever its key comes again.
    pub fn store(status: u16, body: &str) -> Self {
        Self::store_raw(json_answer(status, body))
    }

    /// No effect, and this answer; unless the request's key is known or on its way to its effect: then as
    /// usual. `remembered`: it is the answer to the key from now on.
    pub fn refuse_what_is_new(status: u16, body: &str, remembered: bool) -> Self {
        let answer = json_answer(status, body);
        Self {
            refusal: Some(Refusal { answer, remembered }),
            ..Self::default()
        }
    }

    /// The effect happens, and these bytes are what it is answered, now and whenever its key comes again.
    pub fn store_raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            effect_answer: Some(bytes.into()),
            ..Self::default()
        }
    }

    /// No effect; these bytes instead of an answer.
    pub fn answer_raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            answer: Some(bytes.into()),
            ..Self::default()
        }
    }

    /// No effect; this status with a JSON body.
    pub fn refuse(status: u16, body: &str) -> Self {
        Self::answer_raw(json_answer(status, body))
    }

    /// The answer, whatever it is, waits.
    pub fn held_at(self, gate: &Gate) -> Self {
        Self {
            before_answer: Some(gate.clone()),
            ..self
        }
    }

    /// So many bytes of the answer leave at once, the rest waits. Whether an answer is still coming
    /// cannot be left to its size: what the sockets hold differs from one machine to another.
    pub fn rest_held_at(self, after: usize, gate: &Gate) -> Self {
        Self {
            before_rest: Some((after, gate.clone())),
            ..self
        }
    }

    /// How the connection goes on afterwards.
    pub fn then(self, ending: Ending) -> Self {
        Self { ending, ..self }
    }
}

/// The bytes of a JSON answer that keeps the connection.
pub fn json_answer(status: u16, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Scripted\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}
