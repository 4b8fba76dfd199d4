//! The text of one element of an XML document, by path.
//!
//! What always holds: the whole document is read; a document type is refused, so there are no
//! entities but the five of XML itself and characters by number; elements are named without their
//! namespace prefix; an element that stands twice on the path has no value; neither has one with
//! elements, comments or instructions inside, which readers take apart differently.
//!
//! What it does not do: trim white space, read attributes, or check against a schema.

use std::fmt;

use quick_xml::Reader;
use quick_xml::events::{BytesDecl, BytesRef, Event};

use super::member::WhyMissing;

/// Elements within elements, at most.
const DEEPEST: usize = 64;

/// The path of an element: `/order/customer/id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XmlPath(Vec<String>);

impl XmlPath {
    /// Reads a path of local names. `None` if it does not start with `/`, or a name is empty or has a
    /// prefix, a predicate or a wildcard.
    pub fn parse(text: &str) -> Option<Self> {
        let names: Vec<String> = text
            .strip_prefix('/')?
            .split('/')
            .map(str::to_owned)
            .collect();
        let is_name = |name: &String| {
            let starts = name
                .chars()
                .next()
                .is_some_and(|c| c.is_alphabetic() || c == '_');
            starts
                && name
                    .chars()
                    .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
        };
        (names.len() <= DEEPEST && names.iter().all(is_name)).then_some(Self(names))
    }
}

impl fmt::Display for XmlPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|name| write!(f, "/{name}"))
    }
}

/// The element's text.
pub(super) fn text(document: &[u8], path: &XmlPath) -> Result<String, WhyMissing> {
    let document = std::str::from_utf8(document).map_err(|_| WhyMissing::Unreadable)?;
    let mut reader = Reader::from_str(document);
    reader.config_mut().enable_all_checks(true);
    let mut walk = Walk {
        path: &path.0,
        depth: 0,
        matched: 0,
        reached: 0,
        had_root: false,
        found: None,
    };
    loop {
        let event = reader.read_event().map_err(|_| WhyMissing::Unreadable)?;
        if matches!(event, Event::Eof) {
            return walk.end();
        }
        walk.take(&event)?;
    }
}

/// Where one pass over a document stands.
struct Walk<'p> {
    path: &'p [String],
    /// Open elements.
    depth: usize,
    /// How many of them, from the root, are those of the path.
    matched: usize,
    /// The most that ever were.
    reached: usize,
    had_root: bool,
    found: Option<Result<String, WhyMissing>>,
}

impl Walk<'_> {
    fn take(&mut self, event: &Event<'_>) -> Result<(), WhyMissing> {
        match event {
            Event::Start(start) => self.open(start.local_name().into_inner()),
            Event::Empty(start) => {
                self.open(start.local_name().into_inner())?;
                self.close()
            }
            Event::End(_) => self.close(),
            Event::Text(text) => self.characters(&text.xml10_content()),
            Event::CData(text) => self.characters(&text.xml10_content()),
            Event::GeneralRef(reference) => {
                let mut buffer = [0; 4];
                let character = resolve(reference).ok_or(WhyMissing::Unreadable)?;
                self.characters(character.encode_utf8(&mut buffer))
            }
            Event::Comment(_) | Event::PI(_) => {
                self.spoil();
                Ok(())
            }
            Event::Decl(declaration) if is_utf8(declaration) && !self.had_root => Ok(()),
            Event::Decl(_) | Event::DocType(_) => Err(WhyMissing::Unreadable),
            Event::Eof => Ok(()),
        }
    }

    fn open(&mut self, name: &str) -> Result<(), WhyMissing> {
        if self.depth >= DEEPEST || (self.depth == 0 && std::mem::replace(&mut self.had_root, true))
        {
            return Err(WhyMissing::Unreadable);
        }
        if self.is_in_target() {
            self.spoil();
        }
        let is_next = self.depth == self.matched
            && self
                .path
                .get(self.matched)
                .is_some_and(|wanted| wanted == name);
        self.depth = self.depth.saturating_add(1);
        if is_next {
            self.matched = self.depth;
            if self.matched <= self.reached {
                self.found = Some(Err(WhyMissing::Repeated));
            } else if self.is_in_target() {
                self.found = Some(Ok(String::new()));
            }
            self.reached = self.reached.max(self.matched);
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), WhyMissing> {
        self.depth = self.depth.checked_sub(1).ok_or(WhyMissing::Unreadable)?;
        self.matched = self.matched.min(self.depth);
        Ok(())
    }

    fn characters(&mut self, text: &str) -> Result<(), WhyMissing> {
        if self.depth == 0 && !text.trim_ascii().is_empty() {
            return Err(WhyMissing::Unreadable);
        }
        if self.is_in_target()
            && self.depth == self.matched
            && let Some(Ok(found)) = &mut self.found
        {
            found.push_str(text);
        }
        Ok(())
    }

    /// What is inside is not only text.
    fn spoil(&mut self) {
        if self.is_in_target() && self.found.as_ref().is_some_and(Result::is_ok) {
            self.found = Some(Err(WhyMissing::NotScalar));
        }
    }

    fn is_in_target(&self) -> bool {
        self.matched == self.path.len()
    }

    fn end(self) -> Result<String, WhyMissing> {
        if self.depth > 0 || !self.had_root {
            return Err(WhyMissing::Unreadable);
        }
        self.found.unwrap_or(Err(WhyMissing::Absent))
    }
}

fn resolve(reference: &BytesRef<'_>) -> Option<char> {
    if let Some(character) = reference.resolve_char_ref().ok()? {
        return Some(character);
    }
    match &*reference.xml10_content() {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "apos" => Some('\''),
        "quot" => Some('"'),
        _ => None,
    }
}

fn is_utf8(declaration: &BytesDecl<'_>) -> bool {
    match declaration.encoding() {
        None => true,
        Some(encoding) => encoding.is_ok_and(|it| it.eq_ignore_ascii_case("utf-8")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(document: &str, path: &str) -> Result<String, WhyMissing> {
        text(document.as_bytes(), &XmlPath::parse(path).unwrap())
    }

    #[test]
    fn an_element_is_found_by_its_local_name() {
        let soap = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\r\n\
            <s:Envelope xmlns:s='urn:s'><s:Body><o:order xmlns:o='urn:o' id='7'>\
            <o:id>a&amp;b&#x41;<![CDATA[<c>]]></o:id><o:empty/><o:other>x</o:other>\
            </o:order></s:Body></s:Envelope>\n";
        assert_eq!(
            read(soap, "/Envelope/Body/order/id").as_deref(),
            Ok("a&bA<c>")
        );
        assert_eq!(read(soap, "/Envelope/Body/order/other").as_deref(), Ok("x"));
        assert_eq!(read(soap, "/Envelope/Body/order/empty").as_deref(), Ok(""));
        assert_eq!(
            read(soap, "/Envelope/Body/order"),
            Err(WhyMissing::NotScalar)
        );
        assert_eq!(read(soap, "/Envelope/Body/id"), Err(WhyMissing::Absent));
        assert_eq!(read(soap, "/Body/order/id"), Err(WhyMissing::Absent));
        assert_eq!(read(soap, "/Envelope/order"), Err(WhyMissing::Absent));
    }

    #[test]
    fn what_readers_take_apart_differently_has_no_value() {
        for (document, why) in [
            ("<a><b>1</b><b>1</b></a>", WhyMissing::Repeated),
            ("<a><b>1</b></a><a/>", WhyMissing::Unreadable),
            ("<a><x/><b>1</b><c/><n:b>2</n:b></a>", WhyMissing::Repeated),
            ("<a><b>1<!-- -->2</b></a>", WhyMissing::NotScalar),
            ("<a><b>1<?x y?>2</b></a>", WhyMissing::NotScalar),
            ("<a><b>1<c/></b></a>", WhyMissing::NotScalar),
            (
                "<!DOCTYPE a [<!ENTITY e 'x'>]><a><b>&e;</b></a>",
                WhyMissing::Unreadable,
            ),
            ("<!DOCTYPE a><a><b>1</b></a>", WhyMissing::Unreadable),
            ("<a><b>&e;</b></a>", WhyMissing::Unreadable),
            ("<a><b>1</b>", WhyMissing::Unreadable),
            ("<a><b>1</a></b>", WhyMissing::Unreadable),
            (
                "<?xml version='1.0' encoding='latin1'?><a><b>1</b></a>",
                WhyMissing::Unreadable,
            ),
            ("x<a><b>1</b></a>", WhyMissing::Unreadable),
            ("<a><b>1</b></a>x", WhyMissing::Unreadable),
            ("", WhyMissing::Unreadable),
            ("{\"a\":{\"b\":1}}", WhyMissing::Unreadable),
            ("<a><b>a & b</b></a>", WhyMissing::Unreadable),
        ] {
            assert_eq!(read(document, "/a/b"), Err(why), "{document}");
        }
        // The same parent twice: which of them is meant?
        let twice = "<a><b><c>1</c></b><b><d/></b></a>";
        assert_eq!(read(twice, "/a/b/c"), Err(WhyMissing::Repeated));
    }

    #[test]
    fn depth_ends() {
        let nested = |depth: usize| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
        assert_eq!(read(&nested(64), "/b"), Err(WhyMissing::Absent));
        assert_eq!(read(&nested(65), "/b"), Err(WhyMissing::Unreadable));
        assert_eq!(read(&nested(100_000), "/b"), Err(WhyMissing::Unreadable));
    }

    #[test]
    fn paths_are_plain() {
        for bad in [
            "", "/", "a", "/a/", "//a", "/a/@id", "/n:a", "/a[1]", "/*", "/1a", "/a b",
        ] {
            assert_eq!(XmlPath::parse(bad), None, "{bad}");
        }
        assert_eq!(XmlPath::parse("/a/b-c").unwrap().to_string(), "/a/b-c");
    }
}
