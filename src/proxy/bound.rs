//! What a connection may say on behalf of the worker: the acquisitions that were in force when it was accepted.
//!
//! What always holds: a connection that was accepted under one acquisition, or under none, never carries the token of
//! another: whatever comes over it may have been begun before. A request whose work is known to have come in earlier
//! never carries a token of later than that. A request is stamped only for as long as its ownership lasts: it is looked
//! at again right before it is admitted, and nothing of it is sent beyond the end; where the ownership is over already,
//! nothing at all. Whoever is not on this machine is not the worker that is looked after here: on his behalf nothing is
//! owned.
//!
//! What it does not do: own (`lease::held`), or close connections (`listener`).

use std::sync::Arc;

use http::HeaderMap;

use crate::dispatch::arrivals::Peer;
use crate::lease::claim::{Claim, Claims, InForce, Ownership};
use crate::lease::pins::Pinned;
use crate::protocol::command::Admit;
use crate::protocol::ids::{AcquisitionId, ResourceName, TokenSource};
use crate::protocol::policy::TokenMode;
use crate::wire::identify::Identified;
use crate::wire::problem::{Fault, Remedy};
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
    let stamps = bound.map(|bound| match extensions.get::<Peer>() {
        Some(peer) if is_beside_us(peer) => bound.stamps(headers),
        Some(_) | None => bound.stamps_of_others(),
    });
    stamps.unwrap_or_default()
}

/// Is it on this machine?
fn is_beside_us(peer: &Peer) -> bool {
    let address = peer.address.map(|address| address.to_canonical());
    address.is_some_and(|address| address.is_loopback())
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
                    Remedy::BeginAnew,
                ),
                Claim::NotYet(why) if own.is_none() => not_yet(why, &pinned),
                Claim::NotYet(_) => Stamp::Lost(
                    "the acquisition that its connection was opened under is over".to_owned(),
                    Remedy::BeginAnew,
                ),
                Claim::Lost(why) => Stamp::Lost(why, Remedy::BeginAnew),
            };
            (resource.clone(), stamp)
        });
        stamps.collect()
    }

    /// What a request may say of somebody who is not the worker: never taken for one that needs no token.
    fn stamps_of_others(&self) -> Stamps {
        let all = self.claims.all();
        all.map(|(resource, _, _)| {
            let why = "it is held on behalf of the worker beside this sidecar, and its caller is elsewhere";
            let lost = Stamp::Lost(why.to_owned(), Remedy::SendFromThere);
            (resource.clone(), lost)
        })
        .collect()
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
        Pinned::Unowned => Stamp::Lost(UNOWNED.to_owned(), Remedy::AskAgain),
        Pinned::Unknown => Stamp::Lost(UNKNOWN.to_owned(), Remedy::CarryId),
    }
}

/// It is not owned. What is of another moment has nothing to wait for.
fn not_yet(why: String, pinned: &Pinned) -> Stamp {
    match pinned {
        Pinned::Free => Stamp::NotYet(why),
        Pinned::Under(_) => Stamp::Lost(OVER.to_owned(), Remedy::AskAgain),
        Pinned::Unowned => Stamp::Lost(UNOWNED.to_owned(), Remedy::AskAgain),
        Pinned::Unknown => Stamp::Lost(UNKNOWN.to_owned(), Remedy::CarryId),
    }
}

const OVER: &str = "the acquisition that its work came in under is over";
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
        Fault::LeaseLost {
            resource: None,
            why: OVER.to_owned(),
            remedy: Remedy::AskAgain,
        }
    }

    /// Only while it is owned, and so that nothing is sent beyond the end.
    pub(super) fn limit(&self, mut admit: Admit) -> Result<Admit, Fault> {
        let own = match self {
            Self::No | Self::Over => return Ok(admit),
            Self::Own(own) => own,
        };
        let Some(until) = own.claims.until(&own.resource, &own.acquisition) else {
            let why = "the acquisition that it was stamped with is over".to_owned();
            return Err(Fault::LeaseLost {
                resource: Some(own.resource.clone()),
                why,
                remedy: Remedy::BeginAnew,
            });
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

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tokio::sync::{mpsc, watch};

    use super::*;
    use crate::clock::Manual;
    use crate::lease::claim::{Changes, Entry};
    use crate::protocol::ids::FencingToken;
    use crate::protocol::time::{BootId, BootInstant, Moment};

    fn at(address: &str) -> Peer {
        let address: IpAddr = address.parse().unwrap();
        Peer {
            address: Some(address),
            connection: 1,
        }
    }

    /// What a request from there may say while one resource is owned.
    fn stamped_from(peer: Option<Peer>) -> Stamps {
        let clock = Manual::at(Moment {
            boot: BootId(1),
            boottime: BootInstant(1_000),
            wall_ms: 1_700_000_000_000,
        });
        let owned = Claim::Owned(Ownership {
            token: FencingToken::parse("7").unwrap(),
            acquisition: AcquisitionId::new("a-1"),
            until: BootInstant(31_000),
        });
        let (_claims, claim) = watch::channel(owned);
        let (acknowledge, _none) = mpsc::channel(1);
        let entry = Entry {
            resource: ResourceName::new("r:1"),
            source: TokenSource::new("fencepost"),
            claim,
            acknowledge,
        };
        let claims = Claims::new(clock.clock(), vec![entry], Changes::default());
        let mut extensions = http::Extensions::new();
        extensions.insert(Arc::new(Bound::now(&claims)));
        if let Some(peer) = peer {
            extensions.insert(peer);
        }
        stamps_of(&extensions, &HeaderMap::new())
    }

    #[test]
    fn whoever_is_elsewhere_gets_no_token_and_is_not_taken_for_one_without() {
        let of_worker = Stamp::Owned(Token {
            token: FencingToken::parse("7").unwrap(),
            acquisition: AcquisitionId::new("a-1"),
            source: TokenSource::new("fencepost"),
        });
        let of_worker: Stamps = [(ResourceName::new("r:1"), of_worker)]
            .into_iter()
            .collect();
        for beside in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(stamped_from(Some(at(beside))), of_worker, "{beside}");
        }
        let elsewhere = ["10.0.0.7", "::ffff:10.0.0.7", "fe80::1"].map(at);
        let nobody_knows_where = [None, Some(Peer::default())];
        for peer in elsewhere.map(Some).into_iter().chain(nobody_knows_where) {
            let stamps = stamped_from(peer);
            assert!(format!("{stamps:?}").contains("Lost"), "{stamps:?}");
            assert!(!format!("{stamps:?}").contains("a-1"), "{stamps:?}");
        }
    }
}
