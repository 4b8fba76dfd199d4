//! The hash by which states are told apart.
//!
//! What always holds: each step can be undone, so that nothing is lost on the way. It is fast without optimisation: most
//! of a state is small numbers, and seven of them are mixed at once. Seven of them look like one number above 2^56: no
//! state has such a one but for hashes (`kept`), and eight bytes at once are mixed as such.

use std::hash::{Hash, Hasher};

use super::scenario::Budget;

pub fn hash<T: Hash>(it: &T) -> u64 {
    let mut mixer = Mixer {
        mixed: 0x9e37_79b9_7f4a_7c15,
        small: 0,
    };
    it.hash(&mut mixer);
    mixer.finish()
}

struct Mixer {
    mixed: u64,
    /// Numbers below 256 that are not mixed yet, and in the highest byte how many.
    small: u64,
}

const ONE: u64 = 1 << 56;
const FULL: u64 = 7 * ONE;

impl Mixer {
    fn mix(&mut self, word: u64) {
        self.mixed = mixed(self.mixed, word);
    }

    fn put(&mut self, number: u64) {
        if number < 256 {
            let count = self.small & (0xff * ONE);
            self.small = (count + ONE) | ((self.small & (ONE - 1)) << 8 | number) & (ONE - 1);
            if count + ONE == FULL {
                self.flush();
            }
        } else {
            self.flush();
            self.mix(number);
        }
    }

    fn flush(&mut self) {
        if self.small != 0 {
            let small = self.small;
            self.small = 0;
            self.mix(small);
        }
    }
}

fn mixed(before: u64, word: u64) -> u64 {
    let mixed = (before.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        if bytes.len() < 8 {
            for byte in bytes {
                self.put(u64::from(*byte));
            }
            return;
        }
        self.flush();
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(last) ^ (rest.len() as u64) << 56);
    }

    fn write_u8(&mut self, value: u8) {
        self.put(u64::from(value));
    }

    fn write_u16(&mut self, value: u16) {
        self.put(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.put(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.put(value);
    }

    fn write_u128(&mut self, value: u128) {
        self.put((value >> 64) as u64);
        self.put(value as u64);
    }

    fn write_usize(&mut self, value: usize) {
        self.put(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.put(value as u64);
    }

    fn finish(&self) -> u64 {
        mixed(self.mixed, self.small)
    }
}

/// Its counts are small, and many: they are mixed eight at once. A new one does not compile until it is named here.
impl Hash for Budget {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            crashes,
            false_deaths,
            losses,
            timeouts,
            unsent,
            odd,
            lost_replies,
            take_ups,
            sends,
            verdicts,
            lies,
            new_keys,
            questions,
            unclear,
            blind,
            letters,
            cancels,
            advances,
            reopens,
            amends,
            epochs,
            acquisitions,
            renewals,
            releases,
        } = *self;
        for eight in [
            [
                crashes,
                false_deaths,
                losses,
                timeouts,
                unsent,
                odd,
                lost_replies,
                take_ups,
            ],
            [
                sends, verdicts, lies, new_keys, questions, unclear, blind, letters,
            ],
            [
                cancels,
                advances,
                reopens,
                amends,
                epochs,
                acquisitions,
                renewals,
                releases,
            ],
        ] {
            state.write(&eight);
        }
    }
}
