//! Where a lease and its token come from: the register itself, or a service that issues them.
//!
//! What always holds: acquiring is atomic, and happens only where nobody else holds it; renewing and releasing name
//! the acquisition, and touch only that one. The end of a grant is local, and is counted from *before* the request
//! that asked for it was sent. A source that cannot be reached grants nothing, and nobody stands in for it. A token
//! that is not above every one before it is no token: its source is behind.
//!
//! What it does not do: renew by itself, wait for longer than it was told to, or say who is alive.

use std::pin::Pin;

use crate::protocol::ids::{AcquisitionId, FencingToken, ResourceKey, TokenSource};
use crate::protocol::lease::OWN_SOURCE;
use crate::protocol::time::{BootInstant, Millis};
use crate::store::StoreError;

use super::own::{NoLease, Own, Owned, Wanted};

/// An answer that a source is asked for.
pub type Asked<'a, T> = Pin<Box<dyn Future<Output = Result<T, NotGranted>> + Send + 'a>>;

/// What a source grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Orders its holder.
    pub token: FencingToken,
    /// Tells it from every other grant.
    pub acquisition: AcquisitionId,
    /// It is over then, on the own clock: taken from before the request for it was sent.
    pub until: BootInstant,
}

/// Why it grants nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotGranted {
    /// Another holds it; what is left of it at most.
    #[error("another holds it, for {} ms at most", .0.0)]
    Held(Millis),
    /// It was lost, or never his.
    #[error("it is not its holder's any more")]
    Lost,
    /// Nobody may own the resource.
    #[error("the resource is cancelled")]
    Cancelled,
    /// The source issues a token that is not above those it issued before: it was restored, or set back.
    #[error("its source is behind: it issues {issued}, and {known} was issued before")]
    Behind {
        /// What it issues.
        issued: FencingToken,
        /// What was issued before.
        known: FencingToken,
    },
    /// It will not do what is asked, as long as nobody changes something.
    #[error("its source refuses: {0}")]
    Refused(String),
    /// Nobody knows: it does not answer, or not in time.
    #[error("its source does not answer: {0}")]
    Unreachable(String),
}

/// A service that leases come from. Whatever it does is bounded in time by whoever asks.
pub trait LeaseSource: Send + Sync {
    /// What issues its tokens: tokens of two sources are never compared.
    fn name(&self) -> TokenSource;

    /// The lease on a resource, once it is absent or expired. Whoever gives up waiting for the answer owns nothing,
    /// and what was granted to him ends by itself.
    fn acquire<'a>(&'a self, resource: &'a ResourceKey, wanted: &'a Wanted) -> Asked<'a, Granted>;

    /// Its whole time again: the same token, under the same acquisition.
    fn renew<'a>(
        &'a self,
        resource: &'a ResourceKey,
        acquisition: &'a AcquisitionId,
    ) -> Asked<'a, Granted>;

    /// Is the acquisition the one that is recorded? For services whose answer to a renewal does not say so.
    fn confirm<'a>(
        &'a self,
        resource: &'a ResourceKey,
        acquisition: &'a AcquisitionId,
    ) -> Asked<'a, ()>;

    /// Best effort: nobody's correctness depends on it.
    fn release<'a>(
        &'a self,
        resource: &'a ResourceKey,
        acquisition: &'a AcquisitionId,
    ) -> Asked<'a, ()>;
}

impl LeaseSource for Own {
    fn name(&self) -> TokenSource {
        TokenSource::new(OWN_SOURCE)
    }

    fn acquire<'a>(&'a self, resource: &'a ResourceKey, wanted: &'a Wanted) -> Asked<'a, Granted> {
        Box::pin(async move { Ok(Own::acquire(self, resource, wanted).await?.into()) })
    }

    fn renew<'a>(
        &'a self,
        resource: &'a ResourceKey,
        acquisition: &'a AcquisitionId,
    ) -> Asked<'a, Granted> {
        Box::pin(async move { Ok(Own::renew(self, resource, acquisition).await?.into()) })
    }

    /// A renewal is a comparison with the record, in one transaction: there is nothing more to be seen.
    fn confirm<'a>(&'a self, _: &'a ResourceKey, _: &'a AcquisitionId) -> Asked<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn release<'a>(
        &'a self,
        resource: &'a ResourceKey,
        acquisition: &'a AcquisitionId,
    ) -> Asked<'a, ()> {
        Box::pin(async move { Ok(Own::release(self, resource, acquisition).await?) })
    }
}

impl From<Owned> for Granted {
    fn from(owned: Owned) -> Self {
        Self {
            token: owned.lease.token,
            acquisition: owned.lease.acquisition,
            until: owned.until,
        }
    }
}

impl From<NoLease> for NotGranted {
    fn from(why: NoLease) -> Self {
        match why {
            NoLease::Held(left) => Self::Held(left),
            NoLease::Lost => Self::Lost,
            NoLease::Cancelled => Self::Cancelled,
            NoLease::OtherSource(_) | NoLease::Exhausted => Self::Refused(why.to_string()),
            NoLease::Store(
                StoreError::Corrupt(_) | StoreError::FormatTooNew { .. } | StoreError::Poisoned(_),
            ) => Self::Refused(why.to_string()),
            NoLease::Store(_) => Self::Unreachable(why.to_string()),
        }
    }
}
