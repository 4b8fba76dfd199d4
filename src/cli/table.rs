//! Text for people: aligned columns, ages, and text from callers made harmless.
//!
//! What always holds: nothing that a caller named (an operation, a resource) can move the cursor,
//! change colours or turn the reading direction of a terminal.
//!
//! What it does not do: measure wide characters; columns of such names stand a little off.

use std::borrow::Cow;
use std::fmt::Write;

pub(super) use crate::admin::views::shell_word;

/// Rows under headings, in columns two spaces apart.
#[derive(Debug)]
pub(super) struct Table<const N: usize> {
    headings: [&'static str; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// Without rows.
    pub(super) fn new(headings: [&'static str; N]) -> Self {
        Self {
            headings,
            rows: Vec::new(),
        }
    }

    /// One more row.
    pub(super) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| clean(&cell).into_owned()));
    }

    /// Lines, each ended.
    pub(super) fn text(&self) -> String {
        let headings = self.headings.map(str::to_owned);
        let lines = || std::iter::once(&headings).chain(&self.rows);
        let mut widths = [0; N];
        for line in lines() {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = cell.chars().count().max(*width);
            }
        }
        let mut text = String::new();
        for line in lines() {
            let mut padded = String::new();
            for (width, cell) in widths.iter().zip(line) {
                // Writing to a String cannot fail.
                let _ = write!(padded, "{cell:<width$}  ");
            }
            text.push_str(padded.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Names and what they are, one a line; what is not there is left out.
#[derive(Debug, Default)]
pub(super) struct Facts(Vec<(&'static str, String)>);

impl Facts {
    /// One more, if it is there.
    pub(super) fn fact(&mut self, name: &'static str, value: Option<impl ToString>) -> &mut Self {
        if let Some(value) = value {
            self.0.push((name, clean(&value.to_string()).into_owned()));
        }
        self
    }

    /// Lines, each ended.
    pub(super) fn text(&self) -> String {
        let width = self.0.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        self.0
            .iter()
            .fold(String::new(), |mut text, (name, value)| {
                let _ = writeln!(text, "{name:<width$}  {value}");
                text
            })
    }
}

/// The largest whole unit: `0s`, `59s`, `3m`, `5h`, `2d`.
pub(super) fn age(length_ms: u64) -> String {
    let seconds = length_ms / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        86_400.. => format!("{}d", seconds / 86_400),
    }
}

/// What is there, or a dash.
pub(super) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Control characters and those that turn the reading direction, written out: for one line.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    without(text, steers)
}

/// The same for text of several lines.
pub(super) fn clean_lines(text: &str) -> Cow<'_, str> {
    without(text, |c| c != '\n' && steers(c))
}

fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn without(text: &str, unwanted: fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(unwanted) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if unwanted(c) {
            safe.extend(c.escape_unicode());
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_end_without_blanks() {
        let mut table = Table::new(["STATE", "ID"]);
        table.row(["COMPLETED".to_owned(), "é".to_owned()]);
        table.row(["X".to_owned(), String::new()]);
        assert_eq!(table.text(), "STATE      ID\nCOMPLETED  é\nX\n");
    }

    #[test]
    fn a_callers_name_cannot_steer_the_terminal() {
        let mut table = Table::new(["ID"]);
        table.row(["a\u{1b}[2J\r\n\u{9b}31m\u{202e}b".to_owned()]);
        let text = table.text();
        assert!(
            text.contains(r"a\u{1b}[2J\u{d}\u{a}\u{9b}31m\u{202e}b"),
            "{text}"
        );
    }

    #[test]
    fn ages_are_in_the_largest_whole_unit() {
        for (ms, text) in [
            (0, "0s"),
            (59_999, "59s"),
            (60_000, "1m"),
            (3_599_999, "59m"),
            (3_600_000, "1h"),
            (86_399_999, "23h"),
            (86_400_000, "1d"),
            (u64::MAX, "213503982334d"),
        ] {
            assert_eq!(age(ms), text);
        }
    }

    #[test]
    fn what_a_shell_would_read_otherwise_is_quoted() {
        assert_eq!(shell_word("pay:acc/7"), "pay:acc/7");
        assert_eq!(shell_word("it's; rm"), r"'it'\''s; rm'");
        assert_eq!(shell_word(""), "''");
    }
}
