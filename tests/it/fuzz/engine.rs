//! Seeds, mutations, and what happens to an input that breaks a property.
//!
//! What always holds: inputs stay below [`LONGEST`]; the same seed makes the same inputs; time per
//! input is CPU time of this thread, so that a busy machine fails nothing.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::Shape;

/// Longest input, in bytes: enough to show a parser that takes the square of the time.
const LONGEST: usize = 32 * 1024;

/// No parser may take longer for one of them, unoptimised as tests are.
const SLOWEST: Duration = Duration::from_secs(2);

/// Kept for further mutation, at most.
const MOST_KEPT: usize = 4096;

/// Bytes that grammars here give a meaning to.
const TELLING: &[u8] = b"{}[]\":,;&=%+/\\.~#?*-0123456789eE \t\r\n\0\x7f\x80\xc3\xed\xff";

/// The inputs that a target begins with.
pub struct Corpus {
    name: &'static str,
    seeds: Vec<Vec<u8>>,
}

impl Corpus {
    /// One input a line, escaped as in Rust's byte strings (`\n`, `\\`, `\xff`). `## ` begins a comment.
    pub fn read(name: &'static str, text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with("## "));
        Self {
            name,
            seeds: lines.map(unescaped).collect(),
        }
    }
}

fn unescaped(line: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = line.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        let (byte, tail) = match (first, rest) {
            (b'\\', [b'x', digits @ ..]) if digits.len() >= 2 => {
                let digits = std::str::from_utf8(&digits[..2]).unwrap();
                (u8::from_str_radix(digits, 16).unwrap(), &rest[3..])
            }
            (b'\\', [b'n', tail @ ..]) => (b'\n', tail),
            (b'\\', [b'r', tail @ ..]) => (b'\r', tail),
            (b'\\', [b't', tail @ ..]) => (b'\t', tail),
            (b'\\', [plain, tail @ ..]) => (*plain, tail),
            (plain, tail) => (*plain, tail),
        };
        out.push(byte);
        rest = tail;
    }
    out
}

/// Checks every seed, then mutations of them until the time is up.
pub fn run(corpus: &Corpus, check: fn(&[u8]) -> Shape) {
    let seed = variable("FENCEPOST_FUZZ_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    let seconds = variable("FENCEPOST_FUZZ_SECONDS").unwrap_or(1);
    let attempt = |input: &[u8]| checked(corpus.name, seed, input, check);
    let mut seen: HashSet<Shape> = corpus.seeds.iter().map(|it| attempt(it)).collect();
    let mut kept = corpus.seeds.clone();
    let mut random = Random(seed);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut count = 0_u64;
    while Instant::now() < end || count < 100 {
        let input = mutated(&mut random, &kept);
        let is_new = seen.insert(attempt(&input));
        if is_new && kept.len() < MOST_KEPT {
            kept.push(input);
        }
        count += 1;
    }
    println!(
        "{}: {count} inputs, {} shapes, seed {seed}",
        corpus.name,
        seen.len()
    );
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

fn checked(name: &str, seed: u64, input: &[u8], check: fn(&[u8]) -> Shape) -> Shape {
    let begun = cpu_time();
    let outcome = catch_unwind(AssertUnwindSafe(|| check(input)));
    let took = cpu_time().saturating_sub(begun);
    let told = || {
        eprintln!(
            "seed {seed}; the input, for tests/it/fuzz/corpus/{name}.txt:\n{}",
            input.escape_ascii()
        );
    };
    match outcome {
        Ok(shape) if took <= SLOWEST => shape,
        Ok(_) => {
            told();
            panic!("{} bytes took {took:?}", input.len());
        }
        Err(panic) => {
            told();
            resume_unwind(panic)
        }
    }
}

/// Of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap(),
        u32::try_from(time.tv_nsec).unwrap(),
    )
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`; 0 where that is 0.
    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap().max(1);
        usize::try_from(self.next() % end).unwrap()
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// A piece of `length` bytes, mostly a short one.
    fn piece(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        let most = if self.below(4) == 0 { length } else { 8 };
        start..(start + self.below(most + 1)).min(length)
    }
}

/// One to four changes of something kept.
fn mutated(random: &mut Random, kept: &[Vec<u8>]) -> Vec<u8> {
    let mut input = random.of(kept).clone();
    for _ in 0..=random.below(4) {
        let at = random.piece(input.len());
        match random.below(8) {
            0 => drop(input.drain(at)),
            1 => input.insert(at.start, *random.of(TELLING)),
            2 => input.insert(at.start, random.next().to_le_bytes()[0]),
            3 if !input.is_empty() => {
                let at = random.below(input.len());
                input[at] ^= 1 << random.below(8);
            }
            4 if !input.is_empty() => {
                let at = random.below(input.len());
                input[at] = *random.of(TELLING);
            }
            5 => {
                let copy = input[at.clone()].to_vec();
                input.splice(at.start..at.start, copy);
            }
            6 => {
                let other = random.of(kept);
                let piece = other[random.piece(other.len())].to_vec();
                input.splice(at, piece);
            }
            // Long and deep inputs are made of many small ones.
            _ => {
                let most = if random.below(8) == 0 { 15 } else { 6 };
                let times = 1 << random.below(most);
                let room = LONGEST.saturating_sub(input.len());
                let many: Vec<u8> = input[at.clone()].repeat(times.min(room));
                input.splice(at.start..at.start, many.into_iter().take(room));
            }
        }
    }
    input.truncate(LONGEST);
    input
}

#[test]
fn what_is_printed_can_be_read_again() {
    let every: Vec<u8> = (0..=255).collect();
    assert_eq!(unescaped(&every.escape_ascii().to_string()), every);
}

#[test]
fn a_broken_property_is_found() {
    let corpus = Corpus::read("none", r#"{"a":1}"#);
    let breaks = |input: &[u8]| {
        assert!(!input.ends_with(b"}}"), "found");
        input.len().to_string()
    };
    let found = catch_unwind(|| run(&corpus, breaks));
    assert!(found.is_err());
}
