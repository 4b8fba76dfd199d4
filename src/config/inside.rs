//! Where in the file the characters of a scalar stand, so that a problem inside a long text is shown
//! at its own line and column.
//!
//! What always holds: a place is given only if every character up to it was found in the file, by
//! the rules of the scalar's style (quotes, escapes, folded lines, indentation).
//!
//! What it does not do: read YAML. Where the file cannot be followed, the scalar's own place stands
//! for all of it.

use std::str::Chars;

use saphyr_parser::ScalarStyle;

use super::problems::Place;

/// The places of a text's characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Inside {
    /// All on one line, as written, this many columns from the scalar's place.
    Shift(usize),
    /// Each on its own.
    Each(Vec<Place>),
    /// Not to be told.
    Unknown,
}

impl Inside {
    /// Follows `text` through the file from where its scalar begins: `written`.
    pub(super) fn of(written: &str, at: Place, text: &str, style: ScalarStyle) -> Self {
        let quotes = usize::from(matches!(
            style,
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted
        ));
        let as_it_is = written
            .get(quotes..)
            .is_some_and(|shown| shown.starts_with(text));
        let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        if as_it_is && !is_block && !text.contains('\n') {
            return Self::Shift(quotes);
        }
        let mut cursor = Cursor {
            rest: written.chars(),
            at,
            in_fold: false,
            indent: 0,
            solid: None,
        };
        let places = if is_block {
            cursor.block(written, text, style)
        } else {
            cursor.flow(text, style)
        };
        places.map_or(Self::Unknown, Self::Each)
    }

    /// The place of the character at this byte of the text.
    pub(super) fn place(&self, own: Place, text: &str, offset: usize) -> Place {
        let before = text
            .get(..offset)
            .map_or(0, |before| before.chars().count());
        match self {
            Self::Shift(shift) => Place {
                line: own.line,
                column: own.column.saturating_add(*shift).saturating_add(before),
            },
            // At the end of a text stands what follows its last character.
            Self::Each(places) => match (places.get(before), places.last()) {
                (Some(place), _) => *place,
                (None, Some(last)) => Place {
                    line: last.line,
                    column: last.column.saturating_add(1),
                },
                (None, None) => own,
            },
            Self::Unknown => own,
        }
    }
}

/// A file, walked through from its beginning to its end.
#[derive(Debug)]
pub(super) struct Walk<'s> {
    source: &'s str,
    rest: &'s str,
    at: Place,
}

impl<'s> Walk<'s> {
    pub(super) fn through(source: &'s str) -> Self {
        Self {
            source,
            rest: source,
            at: Place::START,
        }
    }

    /// The file from there on; `None` if there is no such place. Scalars come in their order, so that no
    /// part of the file is walked twice; for an earlier one it begins anew.
    pub(super) fn from(&mut self, place: Place) -> Option<&'s str> {
        if place < self.at {
            *self = Self::through(self.source);
        }
        while self.at.line < place.line {
            let (_, rest) = self.rest.split_once('\n')?;
            self.rest = rest;
            self.at = Place {
                line: self.at.line.saturating_add(1),
                column: 1,
            };
        }
        while self.at.column < place.column {
            let mut ahead = self.rest.chars();
            ahead.next().filter(|passed| *passed != '\n')?;
            self.rest = ahead.as_str();
            self.at.column = self.at.column.saturating_add(1);
        }
        Some(self.rest)
    }
}

struct Cursor<'s> {
    rest: Chars<'s>,
    at: Place,
    /// Within the line ends between two lines of text.
    in_fold: bool,
    /// Of a block's lines.
    indent: usize,
    /// So many bytes before the end stands something other than a blank, with nothing but blanks between
    /// here and there: looked for once, not at every blank.
    solid: Option<usize>,
}

impl Cursor<'_> {
    fn step(&mut self) -> Option<char> {
        let character = self.rest.next()?;
        if character == '\n' {
            self.at = Place {
                line: self.at.line.saturating_add(1),
                column: 1,
            };
        } else {
            self.at.column = self.at.column.saturating_add(1);
        }
        Some(character)
    }

    fn blanks(&mut self, most: usize) {
        for _ in 0..most {
            if !self.rest.as_str().starts_with([' ', '\t']) {
                break;
            }
            self.step();
        }
    }

    /// Plain and quoted texts; line ends are folded.
    fn flow(&mut self, text: &str, style: ScalarStyle) -> Option<Vec<Place>> {
        if style != ScalarStyle::Plain {
            self.step();
        }
        text.chars()
            .map(|character| self.flow_character(character, style))
            .collect()
    }

    fn flow_character(&mut self, wanted: char, style: ScalarStyle) -> Option<Place> {
        if style == ScalarStyle::DoubleQuoted {
            self.skip_joined_lines();
        }
        if matches!(wanted, ' ' | '\n') && self.is_at_line_end() {
            return self.folded(wanted);
        }
        self.in_fold = false;
        let place = self.at;
        match (style, self.step()?) {
            (ScalarStyle::DoubleQuoted, '\\') => self.escape(),
            (ScalarStyle::SingleQuoted, '\'') => (self.step()? == '\'').then_some(())?,
            (_, written) => (written == wanted).then_some(())?,
        }
        Some(place)
    }

    /// Is there nothing but blanks before the end of the line?
    fn is_at_line_end(&mut self) -> bool {
        let rest = self.rest.as_str();
        if self.solid.is_some_and(|solid| solid <= rest.len()) {
            return false;
        }
        let ahead = rest.trim_start_matches([' ', '\t', '\r']);
        if ahead.starts_with('\n') {
            return true;
        }
        self.solid = Some(ahead.len());
        false
    }

    /// One line end is a space; of more, all but the first stay.
    fn folded(&mut self, wanted: char) -> Option<Place> {
        let place = self.at;
        if !std::mem::replace(&mut self.in_fold, true) {
            self.line_end()?;
        }
        if wanted == ' ' {
            self.in_fold = false;
        } else {
            self.line_end()?;
        }
        Some(place)
    }

    fn line_end(&mut self) -> Option<()> {
        while self.step()? != '\n' {}
        self.blanks(usize::MAX);
        Some(())
    }

    /// `\` at the end of a line says that the next one goes on.
    fn skip_joined_lines(&mut self) {
        loop {
            if !self.rest.as_str().starts_with("\\\n") {
                return;
            }
            self.step();
            self.step();
            self.blanks(usize::MAX);
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) {
        let digits = match self.step() {
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            Some(_) | None => 0,
        };
        for _ in 0..digits {
            self.step();
        }
    }

    /// `|` and `>`: lines after a header, all indented.
    fn block(&mut self, written: &str, text: &str, style: ScalarStyle) -> Option<Vec<Place>> {
        if written.starts_with(['|', '>']) {
            let header = written.lines().next()?;
            // An indentation that is written out counts from the parent's, which is not known here.
            if header.contains(|c: char| c.is_ascii_digit()) {
                return None;
            }
            while self.step()? != '\n' {}
        }
        let lines = written
            .lines()
            .skip(usize::from(written.starts_with(['|', '>'])));
        let first = lines.into_iter().find(|line| !line.trim().is_empty())?;
        self.indent = if self.at.column > 1 {
            self.at.column.saturating_sub(1)
        } else {
            first
                .len()
                .saturating_sub(first.trim_start_matches(' ').len())
        };
        if self.at.column == 1 {
            self.blanks(self.indent);
        }
        let folds = style == ScalarStyle::Folded;
        text.chars()
            .map(|character| self.block_character(character, folds))
            .collect()
    }

    fn block_character(&mut self, wanted: char, folds: bool) -> Option<Place> {
        let place = self.at;
        let Some(written) = self.step() else {
            // The end of the file ends the last line.
            return (wanted == '\n').then_some(place);
        };
        if written != '\n' {
            self.in_fold = false;
            return (written == wanted).then_some(place);
        }
        self.blanks(self.indent);
        let again = folds && wanted == '\n' && !std::mem::replace(&mut self.in_fold, true);
        if again && self.rest.as_str().starts_with('\n') {
            self.step();
            self.blanks(self.indent);
        }
        let fits = wanted == '\n' || (folds && wanted == ' ');
        fits.then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::super::problems::Findings;
    use super::super::tree::{Value, build};

    /// Where `part` of the value of `a` is said to stand.
    fn place_of(yaml: &str, part: &str) -> (usize, usize) {
        let findings = Findings::default();
        let root = build(yaml, &findings).unwrap();
        let Value::Map(entries) = &root.value else {
            panic!("not a map")
        };
        let node = &entries[0].node;
        let Value::Scalar(scalar) = &node.value else {
            panic!("not a scalar")
        };
        let offset = scalar.text.find(part).expect(&scalar.text);
        let place = scalar.inside.place(node.at, &scalar.text, offset);
        (place.line, place.column)
    }

    #[test]
    fn a_character_is_found_however_its_text_is_written() {
        for (yaml, line, column) in [
            ("a: one HERE\n", 1, 8),
            ("a: 'one HERE'\n", 1, 9),
            ("a: \"one HERE\"\n", 1, 9),
            ("a: 'é''s HERE'\n", 1, 10),
            ("a: \"\\u00e9\\\"\\x41 HERE\"\n", 1, 18),
            ("a: \"one\n  two\n\n  HERE\"\n", 4, 3),
            ("a: 'one\n  two HERE'\n", 2, 7),
            ("a: \"one \\\n  two HERE\"\n", 2, 7),
            ("a: one\n  two   \n  HERE\n", 3, 3),
            ("a: |\n  one\n  two HERE\n", 3, 7),
            ("a: |\n  one\n\n    two HERE\n", 4, 9),
            ("a: >\n  one\n  two HERE\n", 3, 7),
            ("a: >-\n  one\n\n  two HERE\n", 4, 7),
            ("a: >\n  one\n\n\n  two\n  HERE\n", 6, 3),
            ("a: >\n  one\n    more\n  HERE\n", 4, 3),
        ] {
            assert_eq!(place_of(yaml, "HERE"), (line, column), "{yaml}");
        }
        // What cannot be followed stands at the scalar.
        let (line, _) = place_of("a: |2\n    one HERE\n", "HERE");
        assert!(line <= 2);
    }
}
