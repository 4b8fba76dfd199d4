//! What is under way: attempts, questions, callbacks and undos; on our side, on the network, and in truth.
//!
//! What always holds: each is one value of plain numbers, so that states with the same under way are equal. What is
//! over stays listed as long as somebody may ask what it was.

use fencepost::protocol::ids::FencingToken;

use super::world::{Instance, Name};

/// One attempt: our side of it, the network's side, and the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Try {
    pub name: Name,
    pub instance: Instance,
    /// Attempts of one instance are numbered; a repeated write has the number of the first.
    pub number: u8,
    /// The call that started it; none for a resend.
    pub call: Option<u8>,
    pub round: u8,
    pub form: u8,
    pub condition: Option<u8>,
    /// Tick of its request.
    pub at: u8,
    /// Its operation's number in the order of the resource; 0 without.
    pub place: u8,
    /// Which resource; 0 without.
    pub resource: u8,
    pub incarnation: u8,
    pub token: Option<FencingToken>,
    pub strict: bool,
    pub sequence: Option<u64>,
    /// The first byte may leave until then, in milliseconds.
    pub dispatch_by: u32,
    pub look_again: bool,
    pub task: Task,
    pub packet: Packet,
    pub proof: Proof,
    /// When its effect was accepted, where it takes time to show.
    pub shown_from: u8,
    /// Was its effect undone?
    pub undone: bool,
}

/// A question to the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    pub name: Name,
    pub step: u8,
    pub proxy: u8,
    pub asked: u8,
    pub admitted: u32,
    /// How many attempts there were by then.
    pub tries: u8,
    /// The form that it is compared with.
    pub form: u8,
    /// What was seen; `None`: it has not arrived there yet.
    pub seen: Option<Sight>,
    /// The attempt whose effect was seen, where there was but one.
    pub saw: Option<u8>,
}

/// What a question saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sight {
    Applied,
    Absent,
    Unclear,
}

/// A callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Letter {
    pub name: Name,
    pub applied: bool,
    pub definitive: bool,
}

/// A request that undoes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Undo {
    pub name: Name,
    pub instance: Instance,
    /// Undos of one instance are numbered; a repeated write has the number of the first.
    pub number: u8,
    /// By which step.
    pub step: u8,
    /// Tick of its request.
    pub at: u8,
    pub round: u8,
    pub dispatch_by: u32,
    pub packet: Packet,
    /// Does its sender still wait?
    pub at_work: bool,
}

/// Our side of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// Holds a permit.
    Permitted,
    /// Has checked everything, and stands still before its first byte, at most until then.
    Frozen(u8),
    /// Waits for the answer since then.
    Waiting(u8),
    /// Recorded as interrupted; still listens.
    Listening,
    /// Over.
    Gone,
}

/// The network's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Packet {
    /// Nothing left.
    Unsent,
    /// On its way, at most until then.
    Flying(u8),
    /// The answer is on its way.
    Answered(u16),
    /// Nothing moves any more.
    Over,
}

/// What was recorded as proof that an attempt had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Proof {
    None,
    NotSent,
    NotProcessed,
    /// A person, a look-up or a callback said so.
    Said,
}

/// A write to be repeated because its reply was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repeat {
    /// The admission of a call, under the attempt of this try.
    Admit { attempt: u8 },
    /// The resend of this try.
    Resend { attempt: u8, attended: bool },
    /// What a try showed.
    Record { attempt: u8, shown: Shown },
    /// What was found by a question, at that tick.
    Find {
        question: Question,
        instance: Instance,
        at: u8,
    },
    /// The beginning of this undo.
    Void { undo: u8 },
}

/// What an attempt showed, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shown {
    Expired,
    ConnectionLost,
    AlreadySettled,
    Cut,
    TimedOut,
    ClosedToSettle,
    Answer(u16),
}
