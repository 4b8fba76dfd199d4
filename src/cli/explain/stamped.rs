//! The lease on whose behalf a request without a token would be stamped.
//!
//! What always holds: only a config is looked at: whether the lease is owned is not known here, and a token stands in.
//!
//! What it does not do: ask a sidecar.

use std::borrow::Cow;

use crate::config::{Config, HeldLease, Protect};
use crate::expression::{Missing, RequestFacts, WhyMissing};
use crate::protocol::ids::{AcquisitionId, FencingToken};
use crate::wire::stamp::{Stamp, Stamps, Token};

/// The token that stands in for the one that a sidecar would have.
pub(super) fn stand_in() -> Option<FencingToken> {
    FencingToken::new(0, 1)
}

/// The lease that a request would be stamped under. `token`: its own; one that is there is judged as it is.
pub(super) fn lease<'c>(
    config: &'c Config,
    protect: &Protect,
    token: Option<&Result<Cow<'_, str>, Missing>>,
    facts: &RequestFacts<'_>,
) -> Option<&'c HeldLease> {
    let missing = token?.as_ref().err()?;
    if missing.why != WhyMissing::Absent {
        return None;
    }
    let resource = protect.fence.as_ref()?.resource.render(facts).ok()?;
    let mut leases = config.leases.iter();
    leases.find(|lease| lease.resource.as_str() == resource)
}

/// As if all were owned.
pub(super) fn stamps(config: &Config) -> Stamps {
    let leases = config.leases.iter().filter_map(|lease| {
        let token = Token {
            token: stand_in()?,
            acquisition: AcquisitionId::new("(that of the sidecar)"),
            source: lease.source.clone(),
        };
        Some((lease.resource.clone(), Stamp::Owned(token)))
    });
    leases.collect()
}
