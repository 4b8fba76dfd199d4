//! A member put into a JSON object, without writing anything else anew.
//!
//! What always holds: the text is one that a reader of all of it has accepted (`insertion` reads the
//! member first); what is put in stands at the beginning of the innermost object that is there, so that
//! neither white space nor the order of what follows changes; objects that are lacking on the way are
//! made.
//!
//! What it does not do: replace a value. The one exception is `"variables": null` of a GraphQL request,
//! which says that there are none.

use super::Why;

/// With the text under this pointer, where nothing stands.
pub(super) fn with(content: &[u8], tokens: &[String], text: &str) -> Result<Vec<u8>, Why> {
    let (at, rest) = match way(content, tokens)? {
        Way::Room { at, rest } => (at, rest),
        Way::Null { .. } => return Err(Why::NoRoom),
    };
    put(content, at, rest, text)
}

/// With the text as this variable of a GraphQL request.
pub(super) fn with_variable(content: &[u8], name: &str, text: &str) -> Result<Vec<u8>, Why> {
    let tokens = ["variables".to_owned(), name.to_owned()];
    match way(content, &tokens)? {
        Way::Room { at, rest } => put(content, at, rest, text),
        Way::Null { at, rest } => {
            let (before, after) = content.split_at_checked(at).ok_or(Why::Content)?;
            let after = after.strip_prefix(b"null").ok_or(Why::Content)?;
            let object = format!("{{{}}}", member(rest, text)?);
            Ok([before, object.as_bytes(), after].concat())
        }
    }
}

/// How far a pointer leads into a text.
enum Way<'p> {
    /// Behind the brace at `at` there is room for what is lacking.
    Room { at: usize, rest: &'p [String] },
    /// `null` at `at` stands where an object would be.
    Null { at: usize, rest: &'p [String] },
}

fn way<'p>(content: &[u8], tokens: &'p [String]) -> Result<Way<'p>, Why> {
    let mut cursor = Cursor {
        text: content,
        at: 0,
    };
    cursor.skip_blanks();
    if cursor.peek() != Some(b'{') {
        return Err(Why::NotObject);
    }
    let mut rest = tokens;
    loop {
        let (token, deeper) = rest.split_first().ok_or(Why::Present)?;
        let start = cursor.at;
        let is_there = match cursor.peek() {
            Some(b'{') => cursor.enter_member(token)?,
            Some(b'[') if cursor.enter_element(token)? => true,
            Some(b'[') => return Err(Why::NoElement),
            Some(b'n') => return Ok(Way::Null { at: start, rest }),
            Some(_) | None => return Err(Why::NoRoom),
        };
        if !is_there {
            let at = start.saturating_add(1);
            return Ok(Way::Room { at, rest });
        }
        if deeper.is_empty() {
            return Err(Why::Present);
        }
        rest = deeper;
    }
}

fn put(content: &[u8], at: usize, rest: &[String], text: &str) -> Result<Vec<u8>, Why> {
    let (before, after) = content.split_at_checked(at).ok_or(Why::Content)?;
    let mut cursor = Cursor { text: after, at: 0 };
    cursor.skip_blanks();
    let comma: &[u8] = if cursor.peek() == Some(b'}') {
        b""
    } else {
        b","
    };
    let member = member(rest, text)?;
    Ok([before, member.as_bytes(), comma, after].concat())
}

/// `"a":{"b":"text"}`. An array that is lacking is not made: of what else would its element consist?
fn member(names: &[String], text: &str) -> Result<String, Why> {
    let (innermost, outer) = names.split_last().ok_or(Why::Present)?;
    if names.iter().skip(1).any(|name| is_index(name)) {
        return Err(Why::NoElement);
    }
    let mut member = String::new();
    for name in outer {
        member.push_str(&quoted(name)?);
        member.push_str(":{");
    }
    member.push_str(&quoted(innermost)?);
    member.push(':');
    member.push_str(&quoted(text)?);
    member.extend(outer.iter().map(|_| '}'));
    Ok(member)
}

/// Would it be one, to whoever takes it for one? Nobody is to tell it from a name by its zeros.
fn is_index(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

/// RFC 6901: no sign, no leading zeros.
fn index(text: &str) -> Option<usize> {
    let index: usize = text.parse().ok()?;
    (index.to_string() == text).then_some(index)
}

fn quoted(text: &str) -> Result<String, Why> {
    serde_json::to_string(text).map_err(|_| Why::Content)
}

/// A place in a JSON text.
struct Cursor<'t> {
    text: &'t [u8],
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at = self.at.saturating_add(1);
        }
    }

    /// From an object to the value of a member; `false`: there is none of the name.
    fn enter_member(&mut self, name: &str) -> Result<bool, Why> {
        self.step();
        loop {
            self.skip_blanks();
            match self.peek() {
                Some(b'}') => return Ok(false),
                Some(b',') => self.step(),
                Some(b'"') => {
                    let start = self.at;
                    self.skip_value()?;
                    let read = self.text.get(start..self.at).unwrap_or_default();
                    self.skip_blanks();
                    self.step(); // the colon
                    self.skip_blanks();
                    if serde_json::from_slice::<String>(read).is_ok_and(|read| read == name) {
                        return Ok(true);
                    }
                    self.skip_value()?;
                }
                Some(_) | None => return Err(Why::Content),
            }
        }
    }

    /// From an array to an element; `false`: it has none of that number.
    fn enter_element(&mut self, number: &str) -> Result<bool, Why> {
        let Some(mut left) = index(number) else {
            return Ok(false);
        };
        self.step();
        loop {
            self.skip_blanks();
            match self.peek() {
                Some(b']') => return Ok(false),
                Some(b',') => self.step(),
                Some(_) if left == 0 => return Ok(true),
                Some(_) => {
                    self.skip_value()?;
                    left = left.saturating_sub(1);
                }
                None => return Err(Why::Content),
            }
        }
    }

    fn step(&mut self) {
        self.at = self.at.saturating_add(1);
    }

    /// Behind the value that begins here.
    fn skip_value(&mut self) -> Result<(), Why> {
        let mut open = 0_usize;
        loop {
            match self.peek().ok_or(Why::Content)? {
                b'"' => self.skip_string()?,
                b'{' | b'[' => {
                    open = open.saturating_add(1);
                    self.step();
                }
                b'}' | b']' => {
                    open = open.checked_sub(1).ok_or(Why::Content)?;
                    self.step();
                }
                b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' => self.step(),
                _ => self.skip_scalar(),
            }
            if open == 0 {
                return Ok(());
            }
        }
    }

    fn skip_string(&mut self) -> Result<(), Why> {
        self.step();
        loop {
            match self.peek().ok_or(Why::Content)? {
                b'"' => {
                    self.step();
                    return Ok(());
                }
                b'\\' => self.at = self.at.saturating_add(2),
                _ => self.step(),
            }
        }
    }

    fn skip_scalar(&mut self) {
        let ends = |byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
        while self.peek().is_some_and(|byte| !ends(byte)) {
            self.step();
        }
    }
}
