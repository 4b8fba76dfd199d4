//! Moments and durations, as values.
//!
//! What always holds: nothing here reads a clock. A [`Moment`] names the boot it was counted in, and
//! two moments of different boots are compared through the wall clock only where the contract says
//! how. Arithmetic saturates and never wraps.
//!
//! What it does not do: sleep, or decide what a deadline means.

/// A boot of a machine (`/proc/sys/kernel/random/boot_id`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BootId(pub u128);

/// A length of time in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// Sum, saturating.
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// That many hundredths of it.
    pub fn percent(self, hundredths: u64) -> Self {
        Self(
            self.0
                .saturating_mul(hundredths)
                .checked_div(100)
                .unwrap_or_default(),
        )
    }
}

/// A point on the clock that counts suspend (`CLOCK_BOOTTIME`), in milliseconds since the boot.
/// Comparable within one boot only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootInstant(pub u64);

impl BootInstant {
    /// Later by that much, saturating.
    pub fn after(self, length: Millis) -> Self {
        Self(self.0.saturating_add(length.0))
    }

    /// How much later this is than `earlier`; zero if it is not.
    pub fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

/// One reading of all clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Moment {
    /// The boot that `boottime` counts in.
    pub boot: BootId,
    /// The clock that counts suspend.
    pub boottime: BootInstant,
    /// Milliseconds since 1970 UTC; can step either way.
    pub wall_ms: u64,
}

impl Moment {
    /// Time from `earlier` to `self` within one boot; `None` across boots.
    pub fn elapsed_within_boot(&self, earlier: &Self) -> Option<Millis> {
        (self.boot == earlier.boot).then(|| self.boottime.since(earlier.boottime))
    }

    /// Age for a limit that must not be overrun: the largest that any clock shows. `None` where the
    /// clocks cannot bound it (another boot and a wall clock that stepped back): treat as overrun.
    pub fn age_at_most(&self, earlier: &Self) -> Option<Millis> {
        let by_wall = self.wall_ms.checked_sub(earlier.wall_ms).map(Millis);
        match self.elapsed_within_boot(earlier) {
            Some(by_boot) => Some(by_wall.map_or(by_boot, |wall| wall.max(by_boot))),
            None => by_wall,
        }
    }

    /// Age for a wait that must not be cut short: the smallest that any clock shows. `None` where the clocks
    /// cannot bound it (another boot and a wall clock that stepped back): it begins again. The clock that
    /// counts suspend never runs ahead, so within a boot it alone counts.
    pub fn age_at_least(&self, earlier: &Self) -> Option<Millis> {
        self.elapsed_within_boot(earlier)
            .or_else(|| self.wall_ms.checked_sub(earlier.wall_ms).map(Millis))
    }

    /// Has `limit` passed since `earlier`? Another boot counts as past.
    pub fn is_past(&self, earlier: &Self, limit: Millis) -> bool {
        self.elapsed_within_boot(earlier)
            .is_none_or(|elapsed| elapsed > limit)
    }
}
