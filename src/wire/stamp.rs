//! What a sidecar says of a resource on behalf of a worker that sends no token.
//!
//! What always holds: a request that carries its own token is judged as it is. One that carries none, for a resource
//! that is held on its sender's behalf, gets the token of the ownership, or is refused: it is never taken for one
//! without a token, but where tokens are only observed. What is known to be of an earlier ownership gets that one's
//! token, and is judged by it. An acquisition that it names itself must be that ownership's.
//!
//! What it does not do: know who owns what now, or on which connection it came (`proxy`).

use crate::config::{Fence, Protect};
use crate::expression::{Member, RequestFacts, WhyMissing};
use crate::protocol::command::TokenField;
use crate::protocol::ids::{AcquisitionId, FencingToken, ResourceName, TokenSource};
use crate::protocol::policy::TokenMode;

use super::identify::Unidentified;
use super::problem::{Fault, Remedy};

/// How it stands with a resource, for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// It is owned, and the request may say so.
    Owned(Token),
    /// It is owned, and the request is of an earlier ownership: this one's token it may have, and no later one.
    Earlier(Token),
    /// It is not owned yet.
    NotYet(String),
    /// It was owned, and this request comes too late for it.
    Lost(String, Remedy),
}

/// What is stamped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Orders the owner.
    pub token: FencingToken,
    /// Which acquisition it is.
    pub acquisition: AcquisitionId,
    /// Who issued it.
    pub source: TokenSource,
}

/// Of which ownership a token is that was stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Of the present one.
    Present,
    /// Of one that is over.
    Earlier,
}

/// All that are held on the sender's behalf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamps(Vec<(ResourceName, Stamp)>);

impl FromIterator<(ResourceName, Stamp)> for Stamps {
    fn from_iter<I: IntoIterator<Item = (ResourceName, Stamp)>>(stamps: I) -> Self {
        Self(stamps.into_iter().collect())
    }
}

impl Stamps {
    /// What the request is stamped with; `None`: it is not.
    pub(super) fn stamp(
        &self,
        protect: &Protect,
        token: TokenField,
        facts: &RequestFacts<'_>,
    ) -> Result<Option<(&Token, Standing)>, Unidentified> {
        let Some(fence) = &protect.fence else {
            return Ok(None);
        };
        if self.0.is_empty() || token != TokenField::Absent || fence.resource.uses_generation() {
            return Ok(None);
        }
        let resource = fence.resource.render(facts)?;
        let mut stamps = self.0.iter();
        let Some((resource, stamp)) = stamps.find(|(held, _)| held.as_str() == resource) else {
            return Ok(None);
        };
        let refused = match stamp {
            Stamp::Owned(token) if names_another(fence, facts, &token.acquisition) => {
                let why = "it names an acquisition that is over";
                lost(resource, why, Remedy::BeginAnew)
            }
            Stamp::Earlier(token) if names_another(fence, facts, &token.acquisition) => {
                let why = "it names an acquisition that its work did not come in under";
                lost(resource, why, Remedy::AskAgain)
            }
            Stamp::Owned(token) => return Ok(Some((token, Standing::Present))),
            Stamp::Earlier(token) => return Ok(Some((token, Standing::Earlier))),
            Stamp::NotYet(why) => Fault::LeaseHeld {
                resource: resource.clone(),
                why: why.clone(),
            },
            Stamp::Lost(why, remedy) => lost(resource, why, *remedy),
        };
        let policy = protect.policy.fence.as_ref();
        if policy.is_some_and(|policy| policy.token == TokenMode::Observe) {
            return Ok(None);
        }
        Err(refused.into())
    }
}

fn lost(resource: &ResourceName, why: &str, remedy: Remedy) -> Fault {
    Fault::LeaseLost {
        resource: Some(resource.clone()),
        why: why.to_owned(),
        remedy,
    }
}

fn names_another(fence: &Fence, facts: &RequestFacts<'_>, own: &AcquisitionId) -> bool {
    match Member::Header(fence.acquisition.clone()).read(facts) {
        Ok(named) => named != own.as_str(),
        Err(missing) => missing.why != WhyMissing::Absent,
    }
}

#[cfg(test)]
mod tests;
