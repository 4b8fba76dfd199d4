//! What the lane is asked for, by whom, and what it answers.
//!
//! What always holds: whoever asked for an attempt and is not there any more gets none; evidence counts
//! whether or not anybody still listens. An ask that may have been committed is never refused; a person's
//! verdict among them is given up once nobody waits for it any more.
//!
//! What it does not do: decide.

use tokio::sync::oneshot;

use crate::protocol::command::{Admission, Command, Grant, Reply, ResendReply, Ruling};
use crate::protocol::ids::{AttemptId, InstanceId};
use crate::protocol::void::VoidReply;
use crate::store::postgres::batch::Item;
use crate::store::{StoreError, Wanted};

/// What the lane is asked for.
pub(in crate::store::postgres) enum Errand {
    /// Decide and commit.
    Apply(Ask),
    /// Commit something, to prove that it can.
    Prove(oneshot::Sender<Result<(), StoreError>>),
    /// Stop, after what came before.
    Close(oneshot::Sender<()>),
}

/// A command, and who waits for it.
pub(in crate::store::postgres) struct Ask {
    pub(in crate::store::postgres) command: Box<Command>,
    pub(in crate::store::postgres) wanted: Option<Wanted>,
    /// May it be guessed?
    pub(in crate::store::postgres) swiftly: bool,
    pub(in crate::store::postgres) answer: oneshot::Sender<Result<Answer, StoreError>>,
    /// It may have been committed already.
    pub(in crate::store::postgres) doubt: Option<Box<Doubt>>,
}

/// A decision that may have been committed, by nobody knows.
pub(in crate::store::postgres) struct Doubt {
    /// This would be its reply.
    pub(super) reply: Box<Reply>,
    /// What was to be written, with what it was decided on; `None`: nothing was yet.
    pub(super) written: Option<Item>,
}

impl Doubt {
    /// Nothing was written, and it must be.
    pub(super) fn of_nothing_yet() -> Self {
        Self {
            reply: Box::new(Reply::Parked(None)),
            written: None,
        }
    }
}

/// What an ask is answered.
#[derive(Debug)]
pub(in crate::store::postgres) enum Answer {
    /// Committed.
    Reply(Box<Reply>),
    /// No guess is good enough: look at the register first.
    Look,
}

impl Ask {
    /// Whoever asked for an attempt and went away has withdrawn. Evidence counts whether or not anybody
    /// still listens.
    pub(super) fn unless_withdrawn(self) -> Option<Self> {
        let asks = self.command.asks_for_attempt();
        let gone = self.wanted.as_ref().is_some_and(|wanted| !wanted.still());
        if asks && self.doubt.is_none() && (gone || self.answer.is_closed()) {
            self.tell(Err(Wanted::withdrawn()));
            return None;
        }
        Some(self)
    }

    /// On ground that admits nothing, whoever asks for an attempt is told so at once; what may have been
    /// admitted before is found out all the same.
    pub(super) fn unless_closed(self, closed: Option<&StoreError>) -> Option<Self> {
        let asks = self.command.asks_for_attempt();
        match closed {
            Some(why) if asks && self.doubt.is_none() => {
                self.tell(Err(why.clone()));
                None
            }
            Some(_) | None => Some(self),
        }
    }

    /// It came to a server that the register has left: whoever asks for an attempt is told so; all else is
    /// decided again as soon as the lane has looked where it is.
    pub(super) fn kept_unless_it_admits(mut self) -> Self {
        let admits = match &*self.command {
            Command::Admit(_) | Command::Resend(_) => true,
            // Whoever gives it back is heard as soon as it is known where.
            Command::Lease(_) => self.command.asks_for_attempt(),
            Command::Record(_)
            | Command::Park(_)
            | Command::Start(_)
            | Command::Find(_)
            | Command::BeginVoid(_)
            | Command::Voided(_)
            | Command::TakeUp(_)
            | Command::Resolve(_)
            | Command::Steer(_)
            | Command::Note(_) => false,
        };
        if !admits {
            let nothing = || Box::new(Doubt::of_nothing_yet());
            self.doubt.get_or_insert_with(nothing);
        }
        self
    }

    /// Is it settled whether or not anybody waits for the answer? What was admitted must not be left as it is,
    /// and evidence must not be lost. A verdict on what stood when it was given is written by that first
    /// write or never: whoever gave it was told that nobody knows.
    pub(super) fn must_be_settled(&self) -> bool {
        match *self.command {
            Command::Admit(_)
            | Command::Record(_)
            | Command::Resend(_)
            | Command::BeginVoid(_)
            | Command::Voided(_) => true,
            // What was found can be found again; a callback that is not recorded is sent again.
            Command::Park(_)
            | Command::Start(_)
            | Command::Find(_)
            | Command::TakeUp(_)
            | Command::Resolve(_)
            | Command::Steer(_)
            | Command::Lease(_)
            | Command::Note(_) => false,
        }
    }

    pub(super) fn tell(self, answer: Result<Answer, StoreError>) {
        // Nobody may be listening any more; the record speaks for itself.
        let _gone = self.answer.send(answer);
    }
}

pub(super) fn refuse(asks: impl IntoIterator<Item = Ask>, error: &StoreError) {
    for ask in asks {
        ask.tell(Err(error.clone()));
    }
}

/// The grant of a reply, if it is one.
pub(super) fn granted(reply: &Reply) -> Option<&Grant> {
    match reply {
        Reply::Admission(Admission {
            ruling: Ruling::Granted(grant),
            ..
        })
        | Reply::Resend(ResendReply::Granted(grant)) => Some(grant),
        Reply::Admission(_)
        | Reply::Recorded(_)
        | Reply::Resend(_)
        | Reply::Parked(_)
        | Reply::Started(_)
        | Reply::Found(_)
        | Reply::Void(_)
        | Reply::Voided(_)
        | Reply::TakenUp(_)
        | Reply::Resolved(_)
        | Reply::Steered(_)
        | Reply::Leased(_)
        | Reply::Noted(_) => None,
    }
}

/// What a reply lets begin: an attempt, or an undo.
pub(super) fn begun(reply: &Reply) -> Option<AttemptId> {
    match reply {
        Reply::Void(VoidReply::Granted(grant)) => Some(grant.attempt),
        Reply::Admission(_)
        | Reply::Recorded(_)
        | Reply::Resend(_)
        | Reply::Parked(_)
        | Reply::Started(_)
        | Reply::Found(_)
        | Reply::Void(_)
        | Reply::Voided(_)
        | Reply::TakenUp(_)
        | Reply::Resolved(_)
        | Reply::Steered(_)
        | Reply::Leased(_)
        | Reply::Noted(_) => granted(reply).map(|grant| grant.attempt),
    }
}

/// An attempt bears the id of who makes it; one that has been declared dead since makes none.
pub(super) fn is_of_the_dead(reply: &Reply, own: InstanceId) -> bool {
    begun(reply).is_some_and(|attempt| attempt.instance != own)
}
