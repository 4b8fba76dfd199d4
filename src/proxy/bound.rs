//! What a connection may say on behalf of the worker: the acquisitions that were in force when it was accepted.
//!
//! What always holds: a connection that was accepted under one acquisition, or under none, never carries the token of
//! another: whatever comes over it may have been begun before. A request is stamped only for as long as its ownership
//! lasts: it is looked at again right before it is admitted, and nothing of it is sent beyond the end. Whoever is not on
//! this machine is not the worker that is looked after here: on his behalf nothing is owned.
//!
//! What it does not do: own (`lease::held`), or close connections (`listener`).

use std::sync::Arc;

use crate::dispatch::arrivals::Peer;
use crate::lease::claim::{Claim, Claims, InForce};
use crate::protocol::command::Admit;
use crate::protocol::ids::{AcquisitionId, ResourceName};
use crate::wire::identify::Identified;
use crate::wire::problem::Fault;
use crate::wire::stamp::{Stamp, Stamps, Token};

/// What a connection is bound to. Clones are of the same connection.
#[derive(Clone)]
pub(super) struct Bound {
    claims: Claims,
    in_force: InForce,
}

/// What a request may say that came over a connection.
pub(super) fn stamps_of(extensions: &http::Extensions) -> Stamps {
    let bound = extensions.get::<Arc<Bound>>();
    let stamps = bound.map(|bound| match extensions.get::<Peer>() {
        Some(peer) if is_beside_us(peer) => bound.stamps(),
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
pub(super) struct Stamped(Option<Own>);

#[derive(Clone)]
struct Own {
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

    /// What a request that comes over it now may say.
    pub(super) fn stamps(&self) -> Stamps {
        let all = self.claims.all();
        let stamps = all.map(|(resource, source, claim)| {
            let own = self.in_force.acquisition(resource);
            let stamp = match claim {
                Claim::Owned(owned) if own == Some(&owned.acquisition) => Stamp::Owned(Token {
                    token: owned.token,
                    acquisition: owned.acquisition,
                    source: source.clone(),
                }),
                Claim::Owned(_) => Stamp::Lost(
                    "its connection was opened before the lease was acquired".to_owned(),
                ),
                Claim::NotYet(why) if own.is_none() => Stamp::NotYet(why),
                Claim::NotYet(_) => Stamp::Lost(
                    "the acquisition that its connection was opened under is over".to_owned(),
                ),
                Claim::Lost(why) => Stamp::Lost(why),
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
            (resource.clone(), Stamp::Lost(why.to_owned()))
        })
        .collect()
    }

    /// The ownership that a request was stamped with.
    pub(super) fn stamped(&self, identified: &Identified) -> Stamped {
        let presented = identified.presented.as_ref().filter(|_| identified.stamped);
        Stamped(presented.and_then(|presented| {
            Some(Own {
                claims: self.claims.clone(),
                resource: presented.resource.name.clone(),
                acquisition: presented.acquisition.clone()?,
            })
        }))
    }
}

impl Stamped {
    /// Only while it is owned, and so that nothing is sent beyond the end.
    pub(super) fn limit(&self, mut admit: Admit) -> Result<Admit, Fault> {
        let Some(own) = &self.0 else {
            return Ok(admit);
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

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tokio::sync::{mpsc, watch};

    use super::*;
    use crate::clock::Manual;
    use crate::lease::claim::{Changes, Entry, Ownership};
    use crate::protocol::ids::{FencingToken, TokenSource};
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
        stamps_of(&extensions)
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
