//! The only caller of a clock.
//!
//! What always holds: deadlines of effects are counted on CLOCK_BOOTTIME, which goes on while the
//! machine is suspended; a reading names the boot it belongs to. Timers that merely wake somebody up
//! (tokio's) are not clocks: whoever was woken reads this clock before it acts. Where a decision hangs
//! on the time, the clock was handed in, so that a test can suspend the machine, step the wall clock
//! or boot anew; the free functions only measure lengths for people.
//!
//! What it does not do: decide what a deadline means (`protocol::time`).

#[cfg(test)]
mod manual;

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use crate::protocol::time::{BootId, BootInstant, Moment};

#[cfg(test)]
pub(crate) use manual::Manual;

/// Reads the clocks. Cheap to clone; one is made at start and handed to whoever needs time.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    /// The kernel's, in this boot.
    System(BootId),
    /// A test's.
    #[cfg(test)]
    Manual(Manual),
}

impl Clock {
    /// Fails where the kernel does not say which boot this is: without it, no stored moment could be
    /// told apart from one of an earlier boot.
    pub fn system() -> std::io::Result<Self> {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        let boot = u128::from_str_radix(&digits, 16).map_err(std::io::Error::other)?;
        Ok(Self(Source::System(BootId(boot))))
    }

    /// One reading of all clocks.
    pub fn now(&self) -> Moment {
        match &self.0 {
            Source::System(boot) => Moment {
                boot: *boot,
                boottime: boottime(),
                wall_ms: wall_ms(),
            },
            #[cfg(test)]
            Source::Manual(manual) => manual.now(),
        }
    }

    /// Milliseconds since boot, suspend included.
    pub fn boottime(&self) -> BootInstant {
        match &self.0 {
            Source::System(_) => boottime(),
            #[cfg(test)]
            Source::Manual(manual) => manual.now().boottime,
        }
    }
}

/// Milliseconds since boot, suspend included; for measuring lengths.
pub fn boottime() -> BootInstant {
    BootInstant(boottime_us() / 1_000)
}

/// Microseconds since boot, suspend included; for measuring lengths.
pub fn boottime_us() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    let micros = u64::try_from(now.tv_nsec).unwrap_or_default() / 1_000;
    seconds.saturating_mul(1_000_000).saturating_add(micros)
}

/// Milliseconds since 1970 UTC.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the wall clock"
)]
fn wall_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
