//! One canonical text for every way of writing the same JSON value.
//!
//! What always holds: two texts have the same canonical form exactly if they hold the same value,
//! where members of an object have no order, white space and the way a character is escaped say
//! nothing, and numbers are compared *as written*: `1`, `1.0` and `1e0` are three numbers here,
//! because no reader is bound to take them for one (and some round 9007199254740993). Strings are
//! sequences of UTF-16 code units: a lone surrogate stays what it is. The grammar is RFC 8259 to the
//! letter; a byte order mark and a repeated member name (after unescaping) are refused, since
//! readers differ on what such a text means. Nesting ends at 128 levels.
//!
//! The form: the JSON text without white space; members in the byte order of their canonical names
//! (nobody else ever computes this form, so any fixed order does); in strings only `"` and `\` are
//! escaped, everything else stands for itself, lone surrogates as three bytes.
//!
//! What it does not do: build a value, or understand numbers. `anatomy.rs` takes the form apart again.

mod anatomy;

use std::ops::Range;

pub(super) use anatomy::{at, leaves, outermost};

/// Arrays and objects within each other, at most. Twice what any sane request holds, and little
/// enough that recursion cannot exhaust a thread's stack.
pub(super) const MAX_DEPTH: u8 = 128;

/// Why a text has no canonical form. Offsets are bytes from the start; no content is quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// Not UTF-8.
    #[error("the JSON text is not UTF-8 at byte {at}")]
    NotUtf8 {
        /// Where.
        at: usize,
    },
    /// It begins with U+FEFF.
    #[error("the JSON text begins with a byte order mark")]
    ByteOrderMark,
    /// Not RFC 8259.
    #[error("the JSON text is malformed at byte {at}")]
    Malformed {
        /// Where.
        at: usize,
    },
    /// Nested deeper than 128 levels.
    #[error("the JSON text is nested deeper than 128 levels at byte {at}")]
    TooDeep {
        /// Where.
        at: usize,
    },
    /// A member name occurs twice in one object.
    #[error("a member name occurs twice in the JSON object that ends at byte {at}")]
    DuplicateMember {
        /// Where the object ends.
        at: usize,
    },
}

/// The canonical form of a JSON text.
pub fn canonical(text: &[u8]) -> Result<Vec<u8>, JsonError> {
    if text.starts_with(b"\xEF\xBB\xBF") {
        return Err(JsonError::ByteOrderMark);
    }
    if let Err(error) = std::str::from_utf8(text) {
        let at = error.valid_up_to();
        return Err(JsonError::NotUtf8 { at });
    }
    let mut reader = Reader {
        text,
        at: 0,
        out: Vec::with_capacity(text.len()),
    };
    reader.skip_blanks();
    reader.value(0)?;
    reader.skip_blanks();
    match reader.peek() {
        None => Ok(reader.out),
        Some(_) => Err(reader.malformed()),
    }
}

/// Where one pass over a text stands. `text` is valid UTF-8.
struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    out: Vec<u8>,
}

/// A member of the object at hand, as it stands in `out`: `"name":value,`.
struct Member {
    name: Range<usize>,
    whole: Range<usize>,
}

impl Reader<'_> {
    fn value(&mut self, depth: u8) -> Result<(), JsonError> {
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            Some(_) | None => Err(self.malformed()),
        }
    }

    fn object(&mut self, depth: u8) -> Result<(), JsonError> {
        let depth = self.enter(depth)?;
        self.take(b'{')?;
        self.out.push(b'{');
        let first = self.out.len();
        let mut members = Vec::new();
        self.skip_blanks();
        if self.peek() != Some(b'}') {
            loop {
                members.push(self.member(depth)?);
                self.skip_blanks();
                if self.peek() != Some(b',') {
                    break;
                }
                self.at += 1;
                self.skip_blanks();
            }
        }
        self.take(b'}')?;
        self.sort(first, &mut members)?;
        self.close(b'}');
        Ok(())
    }

    fn member(&mut self, depth: u8) -> Result<Member, JsonError> {
        let start = self.out.len();
        self.string()?;
        let name = start..self.out.len();
        self.skip_blanks();
        self.take(b':')?;
        self.out.push(b':');
        self.skip_blanks();
        self.value(depth)?;
        self.out.push(b',');
        let whole = start..self.out.len();
        Ok(Member { name, whole })
    }

    fn array(&mut self, depth: u8) -> Result<(), JsonError> {
        let depth = self.enter(depth)?;
        self.take(b'[')?;
        self.out.push(b'[');
        self.skip_blanks();
        if self.peek() != Some(b']') {
            loop {
                self.value(depth)?;
                self.out.push(b',');
                self.skip_blanks();
                if self.peek() != Some(b',') {
                    break;
                }
                self.at += 1;
                self.skip_blanks();
            }
        }
        self.take(b']')?;
        self.close(b']');
        Ok(())
    }

    fn enter(&self, depth: u8) -> Result<u8, JsonError> {
        if depth < MAX_DEPTH {
            Ok(depth + 1)
        } else {
            Err(JsonError::TooDeep { at: self.at })
        }
    }

    /// Ends an array or object: in place of the comma after its last element, if it has one.
    fn close(&mut self, bracket: u8) {
        match self.out.last_mut() {
            Some(last) if *last == b',' => *last = bracket,
            Some(_) | None => self.out.push(bracket),
        }
    }

    /// Puts the members that begin at `first` in order. Most texts come in one order or another that
    /// their writer repeats; those already in ours cost no copy.
    fn sort(&mut self, first: usize, members: &mut [Member]) -> Result<(), JsonError> {
        let out = &self.out;
        let name = |member: &Member| out.get(member.name.clone()).unwrap_or_default();
        if members.is_sorted_by(|a, b| name(a) < name(b)) {
            return Ok(());
        }
        members.sort_by(|a, b| name(a).cmp(name(b)));
        if !members.is_sorted_by(|a, b| name(a) < name(b)) {
            return Err(JsonError::DuplicateMember { at: self.at });
        }
        let mut sorted = Vec::with_capacity(out.len().saturating_sub(first));
        for member in members {
            sorted.extend_from_slice(out.get(member.whole.clone()).unwrap_or_default());
        }
        self.out.truncate(first);
        self.out.append(&mut sorted);
        Ok(())
    }

    fn string(&mut self) -> Result<(), JsonError> {
        self.take(b'"')?;
        self.out.push(b'"');
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let plain = rest
                .iter()
                .position(|&byte| byte == b'"' || byte == b'\\' || byte < 0x20)
                .unwrap_or(rest.len());
            self.out
                .extend_from_slice(rest.get(..plain).unwrap_or_default());
            self.at += plain;
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(_) | None => return Err(self.malformed()),
            }
        }
        self.at += 1;
        self.out.push(b'"');
        Ok(())
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        self.take(b'\\')?;
        let plain = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'b') => 0x08,
            Some(b'f') => 0x0C,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                self.at += 1;
                return self.code_units();
            }
            Some(_) | None => return Err(self.malformed()),
        };
        self.at += 1;
        self.write(char::from(plain));
        Ok(())
    }

    /// What follows `\u`: one code unit, or two that are a pair.
    fn code_units(&mut self) -> Result<(), JsonError> {
        let unit = self.hex4()?;
        let second = match unit {
            0xD800..=0xDBFF => self.low_surrogate_ahead(),
            _ => None,
        };
        let units = [unit, second.unwrap_or_default()];
        let units = units
            .iter()
            .copied()
            .take(1 + usize::from(second.is_some()));
        for decoded in char::decode_utf16(units) {
            match decoded {
                Ok(character) => self.write(character),
                Err(lone) => self.write_surrogate(lone.unpaired_surrogate()),
            }
        }
        Ok(())
    }

    /// Takes `\uDC00`–`\uDFFF` if that is what comes next; else leaves everything for later.
    fn low_surrogate_ahead(&mut self) -> Option<u16> {
        let before = self.at;
        if self.text.get(self.at..)?.starts_with(b"\\u") {
            self.at += 2;
            if let Ok(unit @ 0xDC00..=0xDFFF) = self.hex4() {
                return Some(unit);
            }
            self.at = before;
        }
        None
    }

    fn hex4(&mut self) -> Result<u16, JsonError> {
        let mut unit: u16 = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let digit = digit.and_then(|digit| u16::try_from(digit).ok());
            unit = (unit << 4) | digit.ok_or_else(|| self.malformed())?;
            self.at += 1;
        }
        Ok(unit)
    }

    fn write(&mut self, character: char) {
        if matches!(character, '"' | '\\') {
            self.out.push(b'\\');
        }
        let mut room = [0; 4];
        self.out
            .extend_from_slice(character.encode_utf8(&mut room).as_bytes());
    }

    /// As UTF-8 would write it if it could; no valid text contains these bytes.
    fn write_surrogate(&mut self, unit: u16) {
        let [high, low] = unit.to_be_bytes();
        let second = 0x80 | ((high & 0x0F) << 2) | (low >> 6);
        self.out.extend([0xED, second, 0x80 | (low & 0x3F)]);
    }

    fn number(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        self.skip_if(b"-");
        if !self.skip_if(b"0") {
            self.digits()?;
        }
        if self.skip_if(b".") {
            self.digits()?;
        }
        if self.skip_if(b"eE") {
            self.skip_if(b"+-");
            self.digits()?;
        }
        let token = self.text.get(start..self.at).unwrap_or_default();
        self.out.extend_from_slice(token);
        Ok(())
    }

    /// One digit or more.
    fn digits(&mut self) -> Result<(), JsonError> {
        let before = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == before {
            return Err(self.malformed());
        }
        Ok(())
    }

    fn word(&mut self, word: &'static [u8]) -> Result<(), JsonError> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        if !rest.starts_with(word) {
            return Err(self.malformed());
        }
        self.at += word.len();
        self.out.extend_from_slice(word);
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn skip_if(&mut self, any_of: &[u8]) -> bool {
        let there = self.peek().is_some_and(|byte| any_of.contains(&byte));
        self.at += usize::from(there);
        there
    }

    fn take(&mut self, byte: u8) -> Result<(), JsonError> {
        if self.skip_if(&[byte]) {
            Ok(())
        } else {
            Err(self.malformed())
        }
    }

    fn malformed(&self) -> JsonError {
        JsonError::Malformed { at: self.at }
    }
}

#[cfg(test)]
mod tests;
