//! Texts that mean amounts: durations, sizes, statuses; and which known word an unknown one is near.
//!
//! What always holds: a text that is not wholly understood is `None`.
//!
//! What it does not do: report (the field does, with its place).

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::protocol::time::Millis;

/// Longer than any life of a register; keeps arithmetic on durations far from its limits.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

pub(super) const DURATION: &str = "a duration (`200ms`, `30s`, `5m`, `24h`, `7d`) above zero";
pub(super) const SIZE: &str = "a size (`512`, `64KiB`, `1MiB`) above zero";
pub(super) const STATUSES: &str = "a status or a range of them from 200 to 599 (`409`, `202-204`)";

/// Whole milliseconds, above zero.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let duration = humantime::parse_duration(text).ok()?;
    let whole = duration.subsec_nanos() % 1_000_000 == 0;
    (whole && !duration.is_zero() && duration <= LONGEST).then_some(duration)
}

/// Milliseconds, or none at all.
pub fn pause(text: &str) -> Option<Millis> {
    match text {
        "0s" | "0ms" => Some(Millis::default()),
        text => millis(text),
    }
}

/// Milliseconds; `None`: the text is no duration.
pub fn millis(text: &str) -> Option<Millis> {
    let duration = duration(text)?;
    u64::try_from(duration.as_millis()).ok().map(Millis)
}

/// Bytes.
pub(super) fn size(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let unit: usize = match unit.trim_start() {
        "" | "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    let number: usize = number.parse().ok()?;
    number.checked_mul(unit).filter(|&bytes| bytes > 0)
}

/// `409`, `202-204`.
pub(super) fn statuses(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (status(first)?, status(last)?);
    (first <= last).then_some(first..=last)
}

fn status(text: &str) -> Option<u16> {
    let plain = text.len() == 3 && text.bytes().all(|b| b.is_ascii_digit());
    let status = plain.then(|| text.parse().ok())??;
    (200..=599).contains(&status).then_some(status)
}

/// The known word that was probably meant.
pub(super) fn nearest(word: &str, known: &[&'static str]) -> Option<&'static str> {
    let length = word.chars().count();
    let allowed = length.div_ceil(4).min(3);
    known
        .iter()
        // Every character more or less is a slip of its own.
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= allowed)
        .map(|candidate| (distance(word, candidate), *candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's, row by row.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (line, a) in from.chars().enumerate() {
        let mut diagonal = line;
        let mut left = line.saturating_add(1);
        let mut next = vec![left];
        for (b, &above) in to.chars().zip(row.iter().skip(1)) {
            let replaced = diagonal.saturating_add(usize::from(a != b));
            left = replaced
                .min(above.saturating_add(1))
                .min(left.saturating_add(1));
            diagonal = above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_whole_or_not_at_all() {
        assert_eq!(millis("200ms"), Some(Millis(200)));
        assert_eq!(millis("24h"), Some(Millis(86_400_000)));
        for bad in ["", "10", "0s", "-1s", "10 parsecs", "5us", "1000000y"] {
            assert_eq!(millis(bad), None, "{bad}");
        }
        assert_eq!(size("1MiB"), Some(1_048_576));
        assert_eq!(size("512"), Some(512));
        for bad in ["", "0", "MiB", "1mib", "-1", "1.5MiB", "99999999999GiB"] {
            assert_eq!(size(bad), None, "{bad}");
        }
        assert_eq!(statuses("202-204"), Some(202..=204));
        for bad in ["", "99", "199", "600", "204-202", "2xx", "+409", "0200"] {
            assert_eq!(statuses(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_slip_of_the_pen_finds_its_word() {
        let known = ["listen", "timeouts", "effects", "url"];
        assert_eq!(nearest("lisen", &known), Some("listen"));
        assert_eq!(nearest("timeout", &known), Some("timeouts"));
        assert_eq!(nearest("efects", &known), Some("effects"));
        assert_eq!(nearest("database", &known), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
