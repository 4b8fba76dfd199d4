//! What a connection may say on behalf of the worker: the acquisitions that were in force when it was accepted.
//!
//! What always holds: a connection that was accepted under one acquisition, or under none, never carries the token of
//! another: whatever comes over it may have been begun before. A request whose work is known to have come in earlier
//! never carries a token of later than that. A request is stamped only for as long as its ownership lasts: it is looked
//! at again right before it is admitted, and nothing of it is sent beyond the end; where the ownership is over already,
//! nothing at all.
//!
//! What it does not do: own (`lease::held`), or close connections (`listener`).

use std::sync::Arc;

use http::HeaderMap;

use crate::lease::claim::{Claim, Claims, InForce, Ownership};
use crate::lease::pins::Pinned;
use crate::protocol::command::Admit;
use crate::protocol::ids::{AcquisitionId, ResourceName, TokenSource};
use crate::protocol::policy::TokenMode;
use crate::wire::identify::Identified;
use crate::wire::problem::Fault;
use crate::wire::stamp::{Stamp, Stamps, Standing, Token};

/// What a connection is bound to. Clones are of the same connection.
#[derive(Clone)]
pub(super) struct Bound {
    claims: Claims,
    in_force: InForce,
}

/// What a request may say that came over a connection.
pub(super) fn stamps_of(extensions: &http::Extensions, headers: &HeaderMap) -> Stamps {
    let bound = extensions.get::<Arc<Bound>>();
    bound.map(|bound| bound.stamps(headers)).unwrap_or_default()
}

/// The ownership that a request was stamped with, if it was.
#[derive(Clone, Default)]
pub(super) enum Stamped {
    /// It was not, or nothing is refused.
    #[default]
    No,
    /// With one that is to last until it is sent.
    Own(Own),
    /// With one that is over.
    Over,
}

/// Which one.
#[derive(Clone)]
pub(super) struct Own {
    claims: Claims,
    resource: ResourceName,
    acquisition: AcquisitionId,
}

impl Default for Bound {
    fn default() -> Self {
        Self::now(&Claims::default())
    }
}

impl Bound {
    /// To what is in force now.
    pub(super) fn now(claims: &Claims) -> Self {
        Self {
            claims: claims.clone(),
            in_force: claims.in_force(),
        }
    }

    /// To nothing, and outlived already if anything can be owned at all.
    pub(super) fn to_nothing(claims: &Claims) -> Self {
        Self {
            claims: claims.clone(),
            in_force: claims.nothing_in_force(),
        }
    }

    /// Resolves once an acquisition has begun or ended since.
    pub(super) async fn outlived(&self) {
        self.in_force.clone().changed().await;
    }

    /// What a request with these headers may say that comes over it now.
    pub(super) fn stamps(&self, headers: &HeaderMap) -> Stamps {
        let all = self.claims.all();
        let stamps = all.map(|(resource, source, claim)| {
            let own = self.in_force.acquisition(resource);
            let pinned = self.claims.pinned(resource, headers);
            let stamp = match claim {
                Claim::Owned(owned) if own == Some(&owned.acquisition) => {
                    stamp(owned, source, pinned)
                }
                Claim::Owned(_) => Stamp::Lost(
                    "its connection was opened before the lease was acquired".to_owned(),
                ),
                Claim::NotYet(why) if own.is_none() => not_yet(why, &pinned),
                Claim::NotYet(_) => Stamp::Lost(
                    "the acquisition that its connection was opened under is over".to_owned(),
                ),
                Claim::Lost(why) => Stamp::Lost(why),
            };
            (resource.clone(), stamp)
        });
        stamps.collect()
    }

    /// The ownership that a request was stamped with.
    pub(super) fn stamped(&self, identified: &Identified) -> Stamped {
        let policy = identified.policy.fence.as_ref();
        let observed = policy.is_some_and(|policy| policy.token == TokenMode::Observe);
        match (identified.stamped, &identified.presented) {
            (None, _) => Stamped::No,
            (Some(Standing::Earlier), _) if observed => Stamped::No,
            (Some(Standing::Present), Some(presented)) => match &presented.acquisition {
                Some(acquisition) => Stamped::Own(Own {
                    claims: self.claims.clone(),
                    resource: presented.resource.name.clone(),
                    acquisition: acquisition.clone(),
                }),
                None => Stamped::Over,
            },
            (Some(Standing::Earlier), _) | (Some(Standing::Present), None) => Stamped::Over,
        }
    }
}

/// It is owned, and the connection may say so.
fn stamp(owned: Ownership, source: &TokenSource, pinned: Pinned) -> Stamp {
    let of = |token, acquisition| Token {
        token,
        acquisition,
        source: source.clone(),
    };
    match pinned {
        Pinned::Under(past) if past.acquisition != owned.acquisition => {
            Stamp::Earlier(of(past.token, past.acquisition))
        }
        Pinned::Free | Pinned::Under(_) => Stamp::Owned(of(owned.token, owned.acquisition)),
        Pinned::Unowned => Stamp::Lost(UNOWNED.to_owned()),
        Pinned::Unknown => Stamp::Lost(UNKNOWN.to_owned()),
    }
}

/// It is not owned. What is of another moment has nothing to wait for.
fn not_yet(why: String, pinned: &Pinned) -> Stamp {
    match pinned {
        Pinned::Free => Stamp::NotYet(why),
        Pinned::Under(_) => {
            Stamp::Lost("the acquisition that its work came in under is over".to_owned())
        }
        Pinned::Unowned => Stamp::Lost(UNOWNED.to_owned()),
        Pinned::Unknown => Stamp::Lost(UNKNOWN.to_owned()),
    }
}

const UNOWNED: &str = "its work came in when the lease was not owned";
const UNKNOWN: &str = "it is not known when its work came in, and that is required (`pin.strict`)";

impl Stamped {
    /// May anything be sent for it, if the fence lets it? What is over is judged, and answered from the record where
    /// there is one.
    pub(super) fn may_be_sent(&self) -> bool {
        !matches!(self, Self::Over)
    }

    /// What is over was let in all the same, and is not sent.
    pub(super) fn over() -> Fault {
        let why = "the acquisition that its work came in under is over".to_owned();
        Fault::LeaseLost { why }
    }

    /// Only while it is owned, and so that nothing is sent beyond the end.
    pub(super) fn limit(&self, mut admit: Admit) -> Result<Admit, Fault> {
        let own = match self {
            Self::No | Self::Over => return Ok(admit),
            Self::Own(own) => own,
        };
        let Some(until) = own.claims.until(&own.resource, &own.acquisition) else {
            let why = "the acquisition that it was stamped with is over".to_owned();
            return Err(Fault::LeaseLost { why });
        };
        let left = until.since(admit.at.boottime);
        if admit.policy.timeouts.dispatch > left {
            let mut policy = (*admit.policy).clone();
            policy.timeouts.dispatch = left;
            admit.policy = Arc::new(policy);
        }
        Ok(admit)
    }
}
