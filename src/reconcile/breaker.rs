//! A dead upstream is not hammered: how long settling leaves one alone.
//!
//! What always holds: after some failures in a row nobody tries but one at a time, after pauses that double up
//! to a bound; the first success, of a caller's own request too, lets everybody in again. Only exchanges that
//! failed count, never what an answer says: an upstream that refuses is not away.
//!
//! What it does not do: hold up callers' own requests, or count against a step: waiting uses nothing up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::standing::Watch;
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
    /// Somebody tries for all.
    is_tried: bool,
}

/// May it be tried?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Yes. Where somebody tries for all: with what the others wait for.
    Now(Option<Only>),
    /// Not before so much later.
    After(Millis),
}

/// The turn of the one who tries for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Only {
    since: BootInstant,
    failures: u32,
    alone_until: BootInstant,
}

/// A turn to go to an upstream. Dropped without an exchange, it is the next one's.
pub(super) struct TurnThere {
    watch: Arc<Watch>,
    only: Option<Only>,
}

impl TurnThere {
    /// One, or for how long nobody gets any.
    pub(super) fn take(watch: Arc<Watch>, now: BootInstant) -> Result<Self, Millis> {
        match watch.breaker.turn(now) {
            Turn::Now(only) => Ok(Self { watch, only }),
            Turn::After(left) => Err(left),
        }
    }
}

impl Drop for TurnThere {
    fn drop(&mut self) {
        if let Some(only) = self.only {
            self.watch.breaker.give_back(only);
        }
    }
}

impl Breaker {
    /// May somebody try now? Where it is left alone, the one who is told "now" tries for all: the others
    /// wait for what he finds.
    fn turn(&self, now: BootInstant) -> Turn {
        let mut state = self.state();
        let Some(until) = state.alone_until else {
            return Turn::Now(None);
        };
        let left = until.since(now);
        if left > Millis::default() {
            return Turn::After(left);
        }
        // Should he never come back, the next one goes after the same pause.
        let alone_until = now.after(pause(state.failures));
        state.alone_until = Some(alone_until);
        state.is_tried = true;
        Turn::Now(Some(Only {
            since: now,
            failures: state.failures,
            alone_until,
        }))
    }

    /// A turn of which no exchange came: nobody knows more than before.
    fn give_back(&self, only: Only) {
        let mut state = self.state();
        if state.failures == only.failures && state.alone_until == Some(only.alone_until) {
            state.alone_until = Some(only.since);
            state.is_tried = false;
        }
    }

    /// It answered, whatever it said.
    pub(super) fn answered(&self) {
        *self.state() = State::default();
    }

    /// It could not be reached, or broke off, or took too long.
    pub(super) fn failed(&self, now: BootInstant) {
        let mut state = self.state();
        // Those who were under way when it was found to be away find the same: that is no further failure.
        let is_left_alone = state.alone_until.is_some_and(|until| until > now);
        if is_left_alone && !state.is_tried {
            return;
        }
        state.failures = state.failures.saturating_add(1);
        state.is_tried = false;
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
        let mut now = START;
        for _ in 0..times {
            if let Turn::After(left) = breaker.turn(now) {
                now = now.after(left);
                assert!(goes(&breaker, now));
            }
            breaker.failed(now);
        }
        breaker
    }

    /// Many were under way when it went away: the first pause is a short one all the same.
    #[test]
    fn those_who_were_under_way_are_no_further_failures() {
        let breaker = failing(FAILURES);
        (0..60).for_each(|_| breaker.failed(START));
        assert_eq!(breaker.standing(START), (FAILURES, SHORTEST));
    }

    fn goes(breaker: &Breaker, now: BootInstant) -> bool {
        matches!(breaker.turn(now), Turn::Now(_))
    }

    /// Whoever goes for all and finds that there is nothing to send takes nobody's time.
    #[test]
    fn a_turn_without_an_exchange_is_the_next_ones() {
        let watch = Arc::new(Watch::default());
        (0..FAILURES).for_each(|_| watch.breaker.failed(START));
        let later = START.after(SHORTEST);
        let take = || TurnThere::take(Arc::clone(&watch), later);
        let unused = take().ok();
        assert!(unused.is_some());
        assert_eq!(take().err(), Some(SHORTEST), "meanwhile nobody else goes");
        drop(unused);
        let used = take().ok();
        assert!(used.is_some());
        watch.breaker.failed(later);
        drop(used);
        assert_eq!(take().err(), Some(Millis(2_000)), "that was an exchange");
        watch.breaker.answered();
        assert!(take().is_ok());
    }

    #[test]
    fn a_few_failures_stop_nobody() {
        let breaker = failing(FAILURES - 1);
        assert_eq!(breaker.turn(START), Turn::Now(None));
        assert_eq!(breaker.turn(START), Turn::Now(None));
    }

    #[test]
    fn one_at_a_time_tries_a_dead_one() {
        let breaker = failing(FAILURES);
        assert_eq!(breaker.turn(START), Turn::After(SHORTEST));
        let later = START.after(SHORTEST);
        assert!(goes(&breaker, later));
        assert_eq!(
            breaker.turn(later),
            Turn::After(SHORTEST),
            "the others wait"
        );
        breaker.failed(later);
        assert_eq!(breaker.turn(later), Turn::After(Millis(2_000)));
        let later = later.after(Millis(2_000));
        assert!(goes(&breaker, later));
        breaker.answered();
        assert!(goes(&breaker, later));
        assert!(goes(&breaker, later), "everybody may");
    }

    #[test]
    fn pauses_end_somewhere() {
        let breaker = failing(100);
        let (_, left) = breaker.standing(START);
        let at = START.after(left).after(LONGEST);
        assert!(goes(&breaker, at));
        breaker.failed(at);
        assert_eq!(breaker.turn(at), Turn::After(LONGEST));
    }

    /// Who tries for all may die on the way.
    #[test]
    fn nobody_waits_for_one_who_never_comes_back() {
        let breaker = failing(FAILURES);
        let later = START.after(SHORTEST);
        assert!(goes(&breaker, later));
        assert!(goes(&breaker, later.after(SHORTEST)));
    }
}
