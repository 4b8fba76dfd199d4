//! What a transaction of the writer has decided, before it is true.
//!
//! What always holds: a reply stands where its command stood. Failpoints of an intent, an end or a resend are passed
//! where there was one.
//!
//! What it does not do: answer anybody.

use crate::failpoint;
use crate::protocol::command::{Admission, Reply, ResendReply, Ruling};
use crate::store::StoreError;
use crate::store::age::Age;

/// Decided, and not yet true.
pub(super) struct Decided {
    pub(super) replies: Vec<Result<Reply, StoreError>>,
    /// Does it hold a granted admission? A recorded end? A granted resend? For the failpoints.
    pub(super) intent: bool,
    pub(super) outcome: bool,
    pub(super) resend: bool,
    /// Was anything written?
    pub(super) moved: bool,
    /// How far the register has come by it, if that was counted up.
    pub(super) advanced: Option<(u64, Age)>,
}

impl Decided {
    pub(super) fn push(&mut self, reply: Result<Reply, StoreError>) {
        match &reply {
            Ok(Reply::Admission(Admission {
                ruling: Ruling::Granted(_),
                ..
            })) => self.intent = true,
            Ok(Reply::Recorded(_)) => self.outcome = true,
            Ok(Reply::Resend(ResendReply::Granted(_))) => self.resend = true,
            Ok(
                Reply::Admission(_)
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
                | Reply::Noted(_),
            )
            | Err(_) => {}
        }
        self.replies.push(reply);
    }

    pub(super) fn pass_failpoints_before(&self) {
        if self.intent {
            failpoint::pass("before-intent");
        }
        if self.outcome {
            failpoint::pass("before-outcome-commit");
        }
    }

    pub(super) fn pass_failpoints(&self) {
        if self.intent {
            failpoint::pass("after-intent");
        }
        if self.resend {
            failpoint::pass("after-resend");
        }
        if self.outcome {
            failpoint::pass("after-outcome-commit");
        }
    }
}
