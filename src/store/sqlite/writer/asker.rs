//! Who asked for a command to be applied.
//!
//! What always holds: whoever is gone when the command's turn comes has withdrawn it, whether or not
//! somebody else still waits for the answer.
//!
//! What it does not do: choose which commands can be withdrawn (`writer`).

use super::Answer;
use crate::protocol::command::Reply;
use crate::store::{StoreError, Wanted};

/// Waits for the reply to one command.
#[derive(Debug)]
pub(in crate::store::sqlite) struct Asker {
    answer: Answer<Reply>,
    wanted: Option<Wanted>,
}

impl Asker {
    /// `wanted`: sees whether it was withdrawn, where whoever waits for the answer is not the one who
    /// asked.
    pub(in crate::store::sqlite) fn new(answer: Answer<Reply>, wanted: Option<Wanted>) -> Self {
        Self { answer, wanted }
    }

    /// Has it been withdrawn?
    pub(super) fn is_gone(&self) -> bool {
        let withdrawn = self.wanted.as_ref().is_some_and(|wanted| !wanted.still());
        withdrawn || self.answer.is_closed()
    }

    pub(super) fn answer(self, reply: Result<Reply, StoreError>) {
        // Nobody may be listening any more; the record speaks for itself.
        let _gone = self.answer.send(reply);
    }
}
