//! What client and server say to each other in PostgreSQL's protocol, followed far enough to know which
//! bytes answer which statement.
//!
//! What always holds: bytes are passed on in whole messages, unchanged and in order. A statement is what
//! the server runs: a simple query, or the execution of a portal, whose text is then that of its
//! statement and its parameters. To prepare one is not to run it.
//!
//! What it does not do: look into TLS. From there on everything is passed on as it comes.
//!
//! Source: PostgreSQL's manual, "Frontend/Backend Protocol", messages of version 3.

use std::collections::{HashMap, VecDeque};

/// What becomes of a statement that is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Answered,
    /// The server runs it, and nobody hears how that went.
    AnswerLost,
    /// The server never hears of it.
    Lost,
    /// Nor of anything after it, and nobody notices.
    Swallowed,
}

/// One connection's.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    from_client: Vec<u8>,
    from_server: Vec<u8>,
    secrecy: Secrecy,
    started: bool,
    statements: HashMap<Vec<u8>, Vec<u8>>,
    portals: HashMap<Vec<u8>, Vec<u8>>,
    /// What the server has yet to answer, oldest first.
    pending: VecDeque<Pending>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Secrecy {
    #[default]
    None,
    /// Asked for; the server's answer is one byte.
    Asked,
    Agreed,
}

/// What an answer is to. `Ready`: the start of the session, or a `Sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    Ready,
    Query(Fate),
    Execute(Fate),
}

/// What is to be passed on, and whether the connection is to be cut after it.
#[derive(Debug, Default)]
pub(super) struct Passed {
    pub(super) bytes: Vec<u8>,
    pub(super) ends_here: bool,
    /// What follows vanishes.
    pub(super) is_swallowed: bool,
}

impl Conversation {
    /// The client has sent these. `fate` decides about each statement that is run.
    pub(super) fn hear_client(&mut self, bytes: &[u8], fate: impl Fn(&[u8]) -> Fate) -> Passed {
        self.from_client.extend(bytes);
        let mut passed = Passed::default();
        while !passed.ends_here && !passed.is_swallowed {
            if self.secrecy == Secrecy::Agreed {
                passed.bytes.append(&mut self.from_client);
                break;
            }
            let head = usize::from(self.started);
            let Some(message) = take_message(&mut self.from_client, head) else {
                break;
            };
            let fate = if self.started {
                self.note_message(&message, &fate)
            } else {
                self.note_start(&message);
                Fate::Answered
            };
            passed.ends_here = fate == Fate::Lost;
            passed.is_swallowed = fate == Fate::Swallowed;
            if !passed.ends_here && !passed.is_swallowed {
                passed.bytes.extend(message);
            }
        }
        passed
    }

    /// The server has sent these.
    pub(super) fn hear_server(&mut self, bytes: &[u8]) -> Passed {
        self.from_server.extend(bytes);
        let mut passed = Passed::default();
        if self.secrecy == Secrecy::Asked && !self.from_server.is_empty() {
            let answer = self.from_server.remove(0);
            passed.bytes.push(answer);
            self.secrecy = match answer {
                b'S' | b'G' => Secrecy::Agreed,
                _refused => Secrecy::None,
            };
        }
        if self.secrecy == Secrecy::Agreed {
            passed.bytes.append(&mut self.from_server);
        }
        while !passed.ends_here {
            let Some(message) = take_message(&mut self.from_server, 1) else {
                break;
            };
            let is_lost = matches!(
                self.pending.front(),
                Some(Pending::Query(Fate::AnswerLost) | Pending::Execute(Fate::AnswerLost))
            );
            if !is_lost {
                self.note_answer(message[0]);
                passed.bytes.extend(message);
            } else if message[0] == b'Z' {
                // Only now it is certain that the server is done: an implicit transaction ends here.
                passed.ends_here = true;
            }
        }
        passed
    }

    fn note_start(&mut self, message: &[u8]) {
        const SSL: u32 = 80_877_103;
        const GSS: u32 = 80_877_104;
        match message.get(4..8).map(number) {
            Some(SSL | GSS) => self.secrecy = Secrecy::Asked,
            _session_or_cancellation => {
                self.started = true;
                self.pending.push_back(Pending::Ready);
            }
        }
    }

    /// Query, Parse, Bind, Execute, Sync, and a function call, which is answered like a query.
    fn note_message(&mut self, message: &[u8], fate: impl Fn(&[u8]) -> Fate) -> Fate {
        let body = &message[5..];
        let (first, rest) = split_string(body);
        match message[0] {
            b'Q' | b'F' => {
                let fate = fate(body);
                self.pending.push_back(Pending::Query(fate));
                return fate;
            }
            b'P' => {
                let (text, _types) = split_string(rest);
                self.statements.insert(first.to_vec(), text.to_vec());
            }
            b'B' => {
                let (statement, parameters) = split_string(rest);
                let mut text = self.statements.get(statement).cloned().unwrap_or_default();
                text.extend(parameters);
                self.portals.insert(first.to_vec(), text);
            }
            b'E' => {
                let fate = fate(self.portals.get(first).map_or(&[], Vec::as_slice));
                self.pending.push_back(Pending::Execute(fate));
                return fate;
            }
            b'S' => self.pending.push_back(Pending::Ready),
            _others_are_not_waited_for => {}
        }
        Fate::Answered
    }

    /// An error skips what is left up to the next `Sync`; ready for the next one ends all before it.
    fn note_answer(&mut self, kind: u8) {
        match kind {
            b'Z' => while matches!(self.pending.pop_front(), Some(Pending::Execute(_))) {},
            // CommandComplete, EmptyQueryResponse, PortalSuspended, ErrorResponse.
            b'C' | b'I' | b's' | b'E' => {
                if matches!(self.pending.front(), Some(Pending::Execute(_))) {
                    self.pending.pop_front();
                }
            }
            _others_end_nothing => {}
        }
    }
}

/// The first whole message, which has so many bytes before its length.
fn take_message(bytes: &mut Vec<u8>, head: usize) -> Option<Vec<u8>> {
    let length = number(bytes.get(head..head + 4)?);
    let end = head + usize::try_from(length).unwrap();
    (bytes.len() >= end).then(|| bytes.drain(..end).collect())
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().unwrap())
}

/// Up to the next NUL, and after it.
fn split_string(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|it| *it == 0) {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (bytes, &[]),
    }
}
