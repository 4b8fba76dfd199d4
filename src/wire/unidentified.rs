//! Why there is nothing to put to the register.
//!
//! What always holds: nothing was sent, and the reply says what is wrong.
//!
//! What it does not do: word it (`problem`).

use super::canonical::NotCanonical;
use super::meaning::Meaningless;
use super::problem::{self, About, Fault, Row};
use super::reply::Reply;
use crate::config::Fence;
use crate::expression::Missing;
use crate::protocol::rejection::Rejection;

/// Why there is nothing to put to the register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unidentified {
    /// Something cannot be had or read.
    Fault(Fault),
    /// The identity needs the token, and the token is not there or unreadable.
    Token(Rejection),
}

impl Unidentified {
    /// The problem's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Fault(fault) => Row::of_fault(fault).name(),
            Self::Token(rejection) => Row::of_rejection(rejection).name(),
        }
    }

    /// What to tell the caller. `fence`: the effect's.
    pub fn reply(&self, fence: Option<&Fence>) -> Reply {
        let about = About {
            token: fence.map(|fence| &fence.token),
            ..About::default()
        };
        match self {
            Self::Fault(fault) => problem::fault(fault, about),
            Self::Token(rejection) => problem::refused(rejection, about),
        }
    }
}

impl From<Fault> for Unidentified {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Missing> for Unidentified {
    fn from(missing: Missing) -> Self {
        let field = missing.to_string();
        Self::Fault(Fault::IdentityMissing { field })
    }
}

impl From<Meaningless> for Unidentified {
    fn from(why: Meaningless) -> Self {
        match why {
            Meaningless::NotCanonical(NotCanonical(why)) => {
                let field = why.to_string();
                Self::Fault(Fault::IdentityMissing { field })
            }
            Meaningless::Missing(missing) => missing.into(),
        }
    }
}
