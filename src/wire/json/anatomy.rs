//! Canonical JSON, taken apart again: values by pointer, and the values a text is made of.
//!
//! What always holds: the text is one that [`super::canonical`] wrote; every value handed out is a
//! slice of it, and so in canonical form itself. Work is bounded by the length of the text times
//! [`DEEPEST`].
//!
//! What it does not do: read anything else; what is not canonical gives fewer parts, never a panic.

/// Values deeper than this are parts of the one around them.
const DEEPEST: usize = 8;

/// The value at a pointer.
pub(in crate::wire) fn at<'t>(text: &'t [u8], pointer: &[String]) -> Option<&'t [u8]> {
    let mut value = text;
    for token in pointer {
        value = match value.first()? {
            b'{' => {
                let name = token.replace('\\', "\\\\").replace('"', "\\\"");
                Elements::of(value).find(|element| element.name == Some(name.as_bytes()))?
            }
            b'[' => {
                let index: usize = token.parse().ok()?;
                // RFC 6901: no leading zeros, no sign.
                Elements::of(value)
                    .nth(index)
                    .filter(|_| index.to_string() == *token)?
            }
            _ => return None,
        }
        .value;
    }
    Some(value)
}

/// Hands out pointer and value of everything that is neither an object nor an array, or is empty;
/// `None` if there is more of it than `at_most`.
pub(in crate::wire) fn leaves(
    text: &[u8],
    at_most: usize,
    sink: &mut dyn FnMut(&[u8], &[u8]),
) -> Option<()> {
    let mut left = at_most;
    branch(text, DEEPEST, &mut Vec::new(), &mut left, sink)
}

/// Hands out pointer and value of the members of the outermost object or array, likewise.
pub(in crate::wire) fn outermost(
    text: &[u8],
    at_most: usize,
    sink: &mut dyn FnMut(&[u8], &[u8]),
) -> Option<()> {
    let mut left = at_most;
    branch(text, 1, &mut Vec::new(), &mut left, sink)
}

fn branch(
    value: &[u8],
    depth: usize,
    pointer: &mut Vec<u8>,
    left: &mut usize,
    sink: &mut dyn FnMut(&[u8], &[u8]),
) -> Option<()> {
    let mut elements = Elements::of(value).enumerate().peekable();
    let Some(deeper) = depth.checked_sub(1).filter(|_| elements.peek().is_some()) else {
        *left = left.checked_sub(1)?;
        sink(pointer, value);
        return Some(());
    };
    for (index, element) in elements {
        let length = pointer.len();
        pointer.push(b'/');
        match element.name {
            Some(name) => push_token(pointer, name),
            None => pointer.extend_from_slice(index.to_string().as_bytes()),
        }
        branch(element.value, deeper, pointer, left, sink)?;
        pointer.truncate(length);
    }
    Some(())
}

/// A member's name as a pointer writes it.
fn push_token(pointer: &mut Vec<u8>, name: &[u8]) {
    let mut bytes = name.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            // Only `"` and `\` are ever escaped.
            b'\\' => pointer.extend(bytes.next()),
            b'~' => pointer.extend_from_slice(b"~0"),
            b'/' => pointer.extend_from_slice(b"~1"),
            plain => pointer.push(plain),
        }
    }
}

/// What an object or array holds; nothing for any other value.
struct Elements<'t> {
    rest: &'t [u8],
    named: bool,
}

struct Element<'t> {
    name: Option<&'t [u8]>,
    value: &'t [u8],
}

impl<'t> Elements<'t> {
    fn of(value: &'t [u8]) -> Self {
        match value.split_first() {
            Some((b'{', rest)) => Self { rest, named: true },
            Some((b'[', rest)) => Self { rest, named: false },
            Some(_) | None => Self {
                rest: b"",
                named: false,
            },
        }
    }

    fn value(&mut self) -> Option<&'t [u8]> {
        let (value, rest) = self.rest.split_at_checked(value_end(self.rest)?)?;
        self.rest = rest;
        Some(value)
    }

    fn skip(&mut self, byte: u8) {
        if let Some((first, rest)) = self.rest.split_first()
            && *first == byte
        {
            self.rest = rest;
        }
    }
}

impl<'t> Iterator for Elements<'t> {
    type Item = Element<'t>;

    fn next(&mut self) -> Option<Element<'t>> {
        let mut name = None;
        if self.named {
            let quoted = self.value()?;
            name = quoted.get(1..quoted.len().checked_sub(1)?);
            self.skip(b':');
        }
        let value = self.value()?;
        self.skip(b',');
        Some(Element { name, value })
    }
}

/// Where the value ends that begins here; `None` where none begins.
fn value_end(text: &[u8]) -> Option<usize> {
    match text.first()? {
        b'"' => string_end(text),
        b'{' | b'[' => container_end(text),
        b'}' | b']' | b',' | b':' => None,
        _ => Some(
            text.iter()
                .position(|byte| matches!(byte, b',' | b'}' | b']'))
                .unwrap_or(text.len()),
        ),
    }
}

fn string_end(text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    let inner = text.get(1..)?.iter();
    let quote = inner.enumerate().find(|(_, byte)| {
        let ends = **byte == b'"' && !escaped;
        escaped = **byte == b'\\' && !escaped;
        ends
    });
    quote.map(|(at, _)| at.saturating_add(2))
}

fn container_end(text: &[u8]) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = 0_usize;
    while let Some(byte) = text.get(at) {
        let mut step = 1;
        match byte {
            b'"' => step = string_end(text.get(at..)?)?,
            b'{' | b'[' => depth = depth.saturating_add(1),
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at = at.saturating_add(step);
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::canonical;
    use super::*;
    use proptest::prelude::*;

    fn pointed(text: &str, pointer: &[&str]) -> Option<String> {
        let text = canonical(text.as_bytes()).unwrap();
        let pointer: Vec<_> = pointer.iter().map(|&token| token.to_owned()).collect();
        at(&text, &pointer).map(|value| String::from_utf8(value.to_vec()).unwrap())
    }

    type Parts = Option<Vec<(String, String)>>;
    type Take = fn(&[u8], usize, &mut dyn FnMut(&[u8], &[u8])) -> Option<()>;

    fn parts(take: Take, text: &str, at_most: usize) -> Parts {
        let text = canonical(text.as_bytes()).unwrap();
        let mut found = Vec::new();
        take(&text, at_most, &mut |pointer, value| {
            let owned = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            found.push((owned(pointer), owned(value)));
        })?;
        Some(found)
    }

    fn told(parts: Parts) -> String {
        let parts = parts.unwrap().into_iter();
        let parts: Vec<_> = parts
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        parts.join(" ")
    }

    const TEXT: &str = r#"{"b":[1.50,{"x":null}],"a":{"q\"/~":"v\\","e":{}},"s":"}],","n":-1e3}"#;

    #[test]
    fn values_by_pointer_in_their_canonical_form() {
        let of = |pointer: &[&str]| pointed(TEXT, pointer);
        assert_eq!(of(&["b", "0"]).as_deref(), Some("1.50"));
        assert_eq!(of(&["b", "1"]).as_deref(), Some(r#"{"x":null}"#));
        assert_eq!(of(&["b", "1", "x"]).as_deref(), Some("null"));
        assert_eq!(of(&["a", "q\"/~"]).as_deref(), Some(r#""v\\""#));
        assert_eq!(of(&["s"]).as_deref(), Some(r#""}],""#));
        assert_eq!(of(&["n"]).as_deref(), Some("-1e3"));
        for absent in [
            &["c"][..],
            &["b", "2"],
            &["b", "00"],
            &["b", "-"],
            &["s", "0"],
            &["n", "x"],
        ] {
            assert_eq!(of(absent), None, "{absent:?}");
        }
        assert_eq!(pointed("3", &[]).as_deref(), Some("3"));
    }

    #[test]
    fn a_text_is_made_of_its_leaves() {
        assert_eq!(
            told(parts(leaves, TEXT, 9)),
            r#"/a/e={} /a/q"~1~0="v\\" /b/0=1.50 /b/1/x=null /n=-1e3 /s="}],""#
        );
        assert_eq!(parts(leaves, TEXT, 5), None);
        assert_eq!(told(parts(leaves, "true", 1)), "=true");
        assert_eq!(told(parts(leaves, "[]", 1)), "=[]");
        let deep = format!("{}1{}", "[".repeat(20), "]".repeat(20));
        let value = format!("{}1{}", "[".repeat(12), "]".repeat(12));
        assert_eq!(
            told(parts(leaves, &deep, 1)),
            format!("/0/0/0/0/0/0/0/0={value}")
        );
    }

    #[test]
    fn or_of_its_outermost_members() {
        assert_eq!(
            told(parts(outermost, TEXT, 4)),
            r#"/a={"e":{},"q\"/~":"v\\"} /b=[1.50,{"x":null}] /n=-1e3 /s="}],""#
        );
        assert_eq!(parts(outermost, TEXT, 3), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            bytes in prop::collection::vec(
                prop_oneof![prop::sample::select(b"{}[]\",:\\/~10a".to_vec()), any::<u8>()], 0..48),
        ) {
            let _ = leaves(&bytes, 20, &mut |_, _| {});
            let _ = outermost(&bytes, 20, &mut |_, _| {});
            let _ = at(&bytes, &["a".to_owned(), "0".to_owned()]);
        }
    }
}
