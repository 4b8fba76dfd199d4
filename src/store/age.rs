//! How long a register has lived: the time that its memory is counted in.
//!
//! What always holds: it never goes back, and within a boot it goes on exactly as the clock that
//! counts suspend does, also while the register is closed. What passed while the machine was off is
//! known from the wall clock alone, which may be wrong by years; of that, at most a day is counted. So
//! a wall clock that stepped forward cannot make a register forget what it has just learned, and one
//! that stepped back only makes it remember longer.
//!
//! What it does not do: tell the time of day. It begins with the wall clock of the register's first
//! moment, so that its numbers look like times, and then goes its own way.

use crate::protocol::time::{Millis, Moment};

/// Counted at most for one time that the machine was off.
const OFF_AT_MOST: Millis = Millis(24 * 60 * 60 * 1_000);

/// A point in a register's life, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store) struct Lived(pub(super) u64);

/// How old a register was at some reading of the clocks.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Age {
    pub(in crate::store) lived: Lived,
    pub(in crate::store) read: Moment,
}

impl Lived {
    pub(in crate::store) fn after(self, length: Millis) -> Self {
        Self(self.0.saturating_add(length.0))
    }

    /// `None`: the register is not as old as that.
    pub(in crate::store) fn before(self, length: Millis) -> Option<Self> {
        self.0.checked_sub(length.0).map(Self)
    }

    pub(in crate::store) fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }

    /// As a column. Beyond the range of SQLite's integers lies the year 292 million.
    pub(in crate::store) fn column(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }
}

impl Age {
    /// Of a register that is made now.
    pub(in crate::store) fn of_new(now: Moment) -> Self {
        Self {
            lived: Lived(now.wall_ms),
            read: now,
        }
    }

    /// At a later reading.
    pub(in crate::store) fn at(&self, now: &Moment) -> Lived {
        let passed = now.elapsed_within_boot(&self.read).unwrap_or_else(|| {
            let off = now.wall_ms.saturating_sub(self.read.wall_ms);
            Millis(off).min(OFF_AT_MOST)
        });
        self.lived.after(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Manual;
    use crate::protocol::time::{BootId, BootInstant};

    const HOUR: u64 = 3_600_000;
    const DAY: u64 = 24 * HOUR;

    fn start() -> (Manual, Age) {
        let manual = Manual::at(Moment {
            boot: BootId(1),
            boottime: BootInstant(5 * HOUR),
            wall_ms: 1_790_000_000_000,
        });
        let age = Age::of_new(manual.now());
        (manual, age)
    }

    fn lived(manual: &Manual, age: &Age) -> u64 {
        age.at(&manual.now()).since(age.lived).0
    }

    #[test]
    fn suspend_counts_and_a_wall_clock_that_steps_does_not() {
        let (manual, age) = start();
        manual.pass(Millis(HOUR));
        assert_eq!(lived(&manual, &age), HOUR);
        manual.step_wall(i64::try_from(4_000 * DAY).unwrap());
        assert_eq!(lived(&manual, &age), HOUR);
        manual.step_wall(-i64::try_from(9_000 * DAY).unwrap());
        manual.pass(Millis(9 * HOUR));
        assert_eq!(lived(&manual, &age), 10 * HOUR);
    }

    #[test]
    fn a_machine_that_was_off_adds_a_day_at_most() {
        let (manual, age) = start();
        manual.reboot(Millis(HOUR));
        assert_eq!(lived(&manual, &age), HOUR);
        // Its clock was wrong when it came up.
        manual.step_wall(i64::try_from(4_000 * DAY).unwrap());
        assert_eq!(lived(&manual, &age), DAY);
    }

    #[test]
    fn it_never_goes_back() {
        let (manual, age) = start();
        manual.reboot(Millis(0));
        manual.step_wall(-i64::try_from(900 * DAY).unwrap());
        assert_eq!(lived(&manual, &age), 0);
    }
}
