//! A dead upstream is not hammered: how long settling leaves one alone.
//!
//! What always holds: after some failures in a row nobody tries but one at a time, after pauses that double up
//! to a bound; the first success lets everybody in again. Only exchanges that failed count, never what an
//! answer says: an upstream that refuses is not away.
//!
//! What it does not do: hold up callers' own requests, or count against a step: waiting uses nothing up.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::protocol::time::{BootInstant, Millis};

/// So many failures in a row, and it is left alone.
const FAILURES: u32 = 5;

/// The first pause.
const SHORTEST: Millis = Millis(1_000);

/// The longest.
const LONGEST: Millis = Millis(60_000);

/// How one upstream fared lately.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    failures: u32,
    /// Nobody tries before.
    alone_until: Option<BootInstant>,
}

/// May it be tried?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Yes.
    Now,
    /// Not before so much later.
    After(Millis),
}

impl Breaker {
    /// May somebody try now? Where it is left alone, the one who is told "now" tries for all: the others
    /// wait for what he finds.
    pub(super) fn turn(&self, now: BootInstant) -> Turn {
        let mut state = self.state();
        let Some(until) = state.alone_until else {
            return Turn::Now;
        };
        let left = until.since(now);
        if left > Millis::default() {
            return Turn::After(left);
        }
        // Should he never come back, the next one goes after the same pause.
        state.alone_until = Some(now.after(pause(state.failures)));
        Turn::Now
    }

    /// It answered, whatever it said.
    pub(super) fn answered(&self) {
        *self.state() = State::default();
    }

    /// It could not be reached, or broke off, or took too long.
    pub(super) fn failed(&self, now: BootInstant) {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
        if state.failures >= FAILURES {
            state.alone_until = Some(now.after(pause(state.failures)));
        }
    }

    /// Failures in a row, and how long it is still left alone.
    pub(super) fn standing(&self, now: BootInstant) -> (u32, Millis) {
        let state = *self.state();
        let left = state.alone_until.map(|until| until.since(now));
        (state.failures, left.unwrap_or_default())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pause(failures: u32) -> Millis {
    let doublings = failures.saturating_sub(FAILURES).min(16);
    let doubled = SHORTEST.0.saturating_mul(2_u64.saturating_pow(doublings));
    Millis(doubled).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: BootInstant = BootInstant(7_000);

    fn failing(times: u32) -> Breaker {
        let breaker = Breaker::default();
        for _ in 0..times {
            breaker.failed(START);
        }
        breaker
    }

    #[test]
    fn a_few_failures_stop_nobody() {
        let breaker = failing(FAILURES - 1);
        assert_eq!(breaker.turn(START), Turn::Now);
        assert_eq!(breaker.turn(START), Turn::Now);
    }

    #[test]
    fn one_at_a_time_tries_a_dead_one() {
        let breaker = failing(FAILURES);
        assert_eq!(breaker.turn(START), Turn::After(SHORTEST));
        let later = START.after(SHORTEST);
        assert_eq!(breaker.turn(later), Turn::Now);
        assert_eq!(
            breaker.turn(later),
            Turn::After(SHORTEST),
            "the others wait"
        );
        breaker.failed(later);
        assert_eq!(breaker.turn(later), Turn::After(Millis(2_000)));
        let later = later.after(Millis(2_000));
        assert_eq!(breaker.turn(later), Turn::Now);
        breaker.answered();
        assert_eq!(breaker.turn(later), Turn::Now);
        assert_eq!(breaker.turn(later), Turn::Now, "everybody may");
    }

    #[test]
    fn pauses_end_somewhere() {
        assert_eq!(failing(1_000).turn(START), Turn::After(LONGEST));
    }

    /// Who tries for all may die on the way.
    #[test]
    fn nobody_waits_for_one_who_never_comes_back() {
        let breaker = failing(FAILURES);
        let later = START.after(SHORTEST);
        assert_eq!(breaker.turn(later), Turn::Now);
        assert_eq!(breaker.turn(later.after(SHORTEST)), Turn::Now);
    }
}
