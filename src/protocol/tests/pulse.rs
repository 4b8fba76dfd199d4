//! Signs of life, as tables: what is read and when, and from which read on the other is dead.

use crate::protocol::pulse::{Pulse, READS, Read, Sign};
use crate::protocol::time::{BootInstant, Millis};

const LIMIT: Millis = Millis(12_000);

fn sign(beat: u64, position: u64) -> Sign {
    Sign { beat, position }
}

/// A read that took so long.
fn read(asked: u64, took: u64) -> Read {
    Read {
        asked: BootInstant(asked),
        answered: BootInstant(asked + took),
    }
}

/// The number of the first read that shows it dead.
fn dead_at(reads: &[(Sign, Read)]) -> Option<usize> {
    let mut pulse: Option<Pulse> = None;
    reads.iter().position(|(sign, read)| {
        let seen = match pulse {
            None => Pulse::first(*sign, *read),
            Some(before) => before.then(*sign, *read, LIMIT),
        };
        pulse = Some(seen);
        seen.is_dead(LIMIT)
    })
}

/// Reads at these moments that all show the same.
fn same(moments: &[u64]) -> Vec<(Sign, Read)> {
    let all = moments.iter();
    all.map(|at| (sign(3, 9), read(*at, 10))).collect()
}

#[test]
fn one_that_shows_the_same_over_the_whole_limit_is_dead() {
    assert_eq!(dead_at(&same(&[0, 3_000, 6_000, 9_000, 12_000])), None);
    let spanning = same(&[0, 3_000, 6_000, 9_000, 12_010]);
    assert_eq!(dead_at(&spanning), Some(4));
}

#[test]
fn whatever_it_writes_is_a_sign_of_life() {
    for later in [sign(4, 9), sign(3, 10), sign(0, 0)] {
        let mut reads = same(&[0, 3_000, 6_000, 9_000, 12_010]);
        reads[3].0 = later;
        reads[4].0 = later;
        assert_eq!(dead_at(&reads), None);
    }
}

#[test]
fn few_reads_kill_nobody_however_long_they_span() {
    assert_eq!(READS, 4);
    assert_eq!(dead_at(&same(&[0, 6_000 - 10, 12_010])), None);
}

/// The reader slept for an hour, and the other perhaps with it.
#[test]
fn a_reader_that_slept_begins_again_when_it_wakes() {
    const HOUR: u64 = 3_600_000;
    let reads = same(&[0, 3_000, HOUR, HOUR + 1, HOUR + 2, HOUR + 3]);
    assert_eq!(dead_at(&reads), None);
    let goes_on = same(&[0, 3_000, HOUR, HOUR + 4_000, HOUR + 8_000, HOUR + 12_010]);
    assert_eq!(dead_at(&goes_on), Some(5));
}

/// Answers that came late were on their way, or it stood still, before they were read.
#[test]
fn a_reader_that_was_cut_off_begins_again() {
    let mut reads = same(&[0, 3_000, 6_000]);
    reads.push((sign(3, 9), read(6_500, 40_000)));
    reads.extend(same(&[50_000, 54_000]));
    assert_eq!(dead_at(&reads), None);
}

/// Its first answer may be as old as its question, and its last one too: the least is counted.
#[test]
fn slow_answers_are_counted_by_what_is_certain() {
    let slow = |at| (sign(3, 9), read(at, 2_000));
    let reads: Vec<_> = [0, 3_000, 6_000, 9_000, 12_000, 13_999].map(slow).to_vec();
    assert_eq!(dead_at(&reads), None);
    let longer: Vec<_> = [0, 3_000, 6_000, 9_000, 12_000, 14_000].map(slow).to_vec();
    assert_eq!(dead_at(&longer), Some(5));
}
