//! What admission must know of leases.
//!
//! What always holds: a lease is live only by the *local* deadline of the instance that acquired or
//! last renewed it; an instance that cannot know answers `Unknown`, and `require: current` refuses.
//!
//! What it does not do yet: issue or hold leases. Until then every View carries `LeaseFacts::unknown`.

use super::ids::AcquisitionId;
use super::time::BootInstant;

/// What this instance knows of the lease on a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseFacts {
    /// The recorded acquisition, and until when it is live by this instance's own clock.
    pub live: Option<LiveLease>,
    /// The highest generation that the built-in source has issued; `None` for foreign sources.
    pub issued: Option<u64>,
}

/// A lease that this instance itself acquired or renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveLease {
    /// Which acquisition.
    pub acquisition: AcquisitionId,
    /// Until when, taken from before the acquiring or renewing request was sent.
    pub until: BootInstant,
}

impl LeaseFacts {
    /// Nothing is known: no built-in source, no lease of this instance.
    pub fn unknown() -> Self {
        Self::default()
    }
}
