//! `multipart/form-data` content, taken apart (RFC 7578 on RFC 2046).
//!
//! What always holds: parts come in the order sent, as slices of the content; nothing is copied,
//! unescaped or decoded. Content is read only if no reader we know of could take it apart in another
//! way: lines end in CRLF; a line that begins with the boundary *is* a delimiter, so one that only
//! begins like it is refused; the closing delimiter is there; every part has a
//! `Content-Disposition: form-data` with one `name`. Preamble, epilogue and the blanks after a
//! delimiter say nothing. Parts, fields and their length are bounded.
//!
//! What it does not do: other kinds of multipart, nested ones, transfer encodings, or the question of
//! what a file's name means: `filename` is the text between its quotes, backslashes included.

use memchr::memmem;

/// Parts in one content, at most.
pub const MOST_PARTS: usize = 1_000;
/// Header fields of one part, at most.
pub const MOST_FIELDS: usize = 16;
/// The header of one part, at most, in bytes.
pub const LONGEST_HEADER: usize = 8 * 1024;

/// RFC 2046, 5.1.1.
const LONGEST_BOUNDARY: usize = 70;

/// One part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// The field's name, as between its quotes.
    pub name: &'a str,
    /// The file's name, as between its quotes, where the part is a file.
    pub filename: Option<&'a str>,
    /// `Content-Type`, as sent.
    pub content_type: Option<&'a str>,
    /// Whatever else the header says, as sent and in that order: other fields, and other parameters
    /// of `Content-Disposition` (`filename*`). Names may be in any case.
    pub others: Vec<(&'a str, &'a str)>,
    /// The exact bytes.
    pub content: &'a [u8],
}

/// Why content cannot be taken apart. No content is quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MultipartError {
    /// It does not begin with a delimiter, or a delimiter line goes on.
    #[error("a delimiter of the multipart content is malformed at byte {at}")]
    Delimiter {
        /// Where the delimiter begins.
        at: usize,
    },
    /// It ends before its closing delimiter.
    #[error("the multipart content ends before its closing delimiter")]
    Unclosed,
    /// A part's header cannot be read, or says who the part is twice or not at all.
    #[error("the header of part {part} of the multipart content cannot be read")]
    Header {
        /// Which part, from 0.
        part: usize,
    },
    /// More than [`MOST_PARTS`].
    #[error("the multipart content has more than {MOST_PARTS} parts")]
    TooManyParts,
}

/// The boundary that a `Content-Type` names, if it is `multipart/form-data` with one readable
/// boundary.
pub fn boundary(content_type: &str) -> Option<&str> {
    let (essence, parameters) = content_type.split_once(';')?;
    if !essence.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let mut found = None;
    for (name, value) in Parameters(parameters) {
        if name?.eq_ignore_ascii_case("boundary") && found.replace(value).is_some() {
            return None;
        }
    }
    found.filter(|boundary| is_boundary(boundary))
}

/// The parts of `content`, in the order sent. `boundary`: without its two hyphens.
pub fn parts<'a>(boundary: &str, content: &'a [u8]) -> Result<Vec<Part<'a>>, MultipartError> {
    let delimiter = format!("\r\n--{boundary}");
    let finder = memmem::Finder::new(&delimiter);
    let mut at = first_line(&delimiter, &finder, content)?;
    let mut found = Vec::new();
    loop {
        let rest = content.get(at..).unwrap_or_default();
        let start = match after_delimiter(rest) {
            Some(After::Close) => return Ok(found),
            Some(After::Part { start }) => at.saturating_add(start),
            None => return Err(MultipartError::Delimiter { at }),
        };
        if found.len() == MOST_PARTS {
            return Err(MultipartError::TooManyParts);
        }
        // From the delimiter's own line end on: a part may be without header and content.
        let body = content.get(start.saturating_sub(2)..).unwrap_or_default();
        let length = finder.find(body).ok_or(MultipartError::Unclosed)?;
        let whole = body.get(2..length.max(2)).unwrap_or_default();
        let part = found.len();
        found.push(read_part(whole).ok_or(MultipartError::Header { part })?);
        at = start
            .saturating_sub(2)
            .saturating_add(length)
            .saturating_add(delimiter.len());
    }
}

/// Where the first delimiter ends: at the very start, or after a preamble.
fn first_line(
    delimiter: &str,
    finder: &memmem::Finder<'_>,
    content: &[u8],
) -> Result<usize, MultipartError> {
    let bare = delimiter.as_bytes().get(2..).unwrap_or_default();
    if content.starts_with(bare) {
        return Ok(bare.len());
    }
    let at = finder.find(content).ok_or(MultipartError::Unclosed)?;
    Ok(at.saturating_add(delimiter.len()))
}

/// What a delimiter begins.
enum After {
    /// A part, that many bytes on.
    Part { start: usize },
    /// Nothing more.
    Close,
}

/// `None`: neither, the line goes on.
fn after_delimiter(rest: &[u8]) -> Option<After> {
    let (rest, closes) = match rest.strip_prefix(b"--") {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let padding = rest
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t'))
        .count();
    let line_end = rest.get(padding..).unwrap_or_default();
    match closes {
        true if line_end.is_empty() || line_end.starts_with(b"\r\n") => Some(After::Close),
        false if line_end.starts_with(b"\r\n") => Some(After::Part {
            start: padding.saturating_add(2),
        }),
        true | false => None,
    }
}

fn read_part(whole: &[u8]) -> Option<Part<'_>> {
    // A part without a header would begin with the empty line, and say nothing of itself.
    let end = memmem::find(whole, b"\r\n\r\n").filter(|end| *end <= LONGEST_HEADER)?;
    let header = std::str::from_utf8(whole.get(..end)?).ok()?;
    let content = whole.get(end.saturating_add(4)..)?;
    let mut disposition = None;
    let mut content_type = None;
    let mut others = Vec::new();
    for (index, line) in header.split("\r\n").enumerate() {
        let (name, value) = field(line).filter(|_| index < MOST_FIELDS)?;
        let sole = match name {
            _ if name.eq_ignore_ascii_case("content-disposition") => &mut disposition,
            _ if name.eq_ignore_ascii_case("content-type") => &mut content_type,
            _ => {
                others.push((name, value));
                continue;
            }
        };
        if sole.replace(value).is_some() {
            return None;
        }
    }
    let (kind, parameters) = disposition?.split_once(';')?;
    let mut part = Part {
        name: "",
        filename: None,
        content_type,
        others,
        content,
    };
    if !kind.trim().eq_ignore_ascii_case("form-data") {
        return None;
    }
    part.name = named(parameters, &mut part)?;
    Some(part)
}

/// Reads the parameters of `Content-Disposition`: gives the name, keeps the rest.
fn named<'a>(parameters: &'a str, part: &mut Part<'a>) -> Option<&'a str> {
    let mut found = None;
    for (name, value) in Parameters(parameters) {
        let name = name?;
        let sole = match name {
            _ if name.eq_ignore_ascii_case("name") => &mut found,
            _ if name.eq_ignore_ascii_case("filename") => &mut part.filename,
            _ => {
                part.others.push((name, value));
                continue;
            }
        };
        if sole.replace(value).is_some() {
            return None;
        }
    }
    found
}

/// `Name: value`, on one line, in printable characters.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let readable = is_token(name) && !value.chars().any(|c| c.is_control() && c != '\t');
    readable.then_some((name, value.trim_matches([' ', '\t'])))
}

fn is_token(text: &str) -> bool {
    let in_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(in_token)
}

fn is_boundary(text: &str) -> bool {
    let in_boundary = |byte: u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&byte);
    (1..=LONGEST_BOUNDARY).contains(&text.len())
        && !text.ends_with(' ')
        && text.bytes().all(in_boundary)
}

/// `name=value; name="value"`: name and value of each, the value as between its quotes. A name that
/// is `None` says that the rest cannot be read.
struct Parameters<'a>(&'a str);

impl<'a> Iterator for Parameters<'a> {
    type Item = (Option<&'a str>, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.0.trim_matches([' ', '\t', ';']);
        self.0 = "";
        if rest.is_empty() {
            return None;
        }
        let Some((name, value, rest)) = parameter(rest) else {
            return Some((None, ""));
        };
        self.0 = rest;
        Some((Some(name), value))
    }
}

fn parameter(text: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = text.split_once('=')?;
    let is_bare = !rest.starts_with('"');
    let (value, rest) = if let Some(quoted) = rest.strip_prefix('"') {
        let end = closing_quote(quoted)?;
        (quoted.get(..end)?, quoted.get(end.checked_add(1)?..)?)
    } else {
        let end = rest.find([';', ' ', '\t']).unwrap_or(rest.len());
        rest.split_at_checked(end)?
    };
    // A quote in the middle of a bare value: to one reader a part of it, to another its end.
    if is_bare && value.contains(['"', '\\']) {
        return None;
    }
    let rest = rest.trim_start_matches([' ', '\t']);
    let ends = rest.is_empty() || rest.starts_with(';');
    (is_token(name) && ends).then_some((name, value, rest))
}

/// A quote after a backslash does not end the text.
fn closing_quote(quoted: &str) -> Option<usize> {
    let mut escaped = false;
    quoted.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

#[cfg(test)]
mod tests;
