//! Path templates, and the one way to read a request's path.
//!
//! What always holds: matching looks at decoded segments; a path that two servers could read as two
//! different ones does not become a [`RequestPath`]; one slash at the end makes no difference, so
//! that it cannot take an effect out of its rule. The bytes sent upstream are the caller's.
//!
//! What it does not do: look at the query, or rewrite anything.

use super::escape::{decode, encode_into};

/// `/accounts/{account}/statements/{date}`: `{name}` is one segment, `{name...}` the rest, which may
/// be nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathTemplate {
    text: String,
    segments: Vec<Segment>,
    rest: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Exactly(String),
    Any(String),
}

/// What a template captured: percent-decoded values by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathParams(Vec<(String, String)>);

/// A request's path, in decoded segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestPath {
    segments: Vec<String>,
    /// The reading of a server that decodes before it splits, where it differs (`%2F`).
    split_late: Option<Vec<String>>,
}

/// A path whose meaning depends on who reads it: a request that could be an effect is refused for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the path {0}")]
pub struct AmbiguousPath(&'static str);

/// A template that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PathTemplateError {
    /// Byte offset into the template.
    pub offset: usize,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl PathTemplate {
    /// Reads a template.
    pub fn parse(text: &str) -> Result<Self, PathTemplateError> {
        let Some(inner) = text.strip_prefix('/') else {
            return Err(wrong(0, "a path starts with `/`"));
        };
        let mut template = Self {
            text: text.to_owned(),
            segments: Vec::new(),
            rest: None,
        };
        let mut offset = 1;
        for raw in inner.strip_suffix('/').unwrap_or(inner).split('/') {
            // "/" alone has no segment.
            if !(raw.is_empty() && inner.len() < 2) {
                template.push(raw, offset)?;
            }
            offset = offset.saturating_add(raw.len()).saturating_add(1);
        }
        Ok(template)
    }

    fn push(&mut self, raw: &str, offset: usize) -> Result<(), PathTemplateError> {
        if self.rest.is_some() {
            return Err(wrong(offset, "nothing can follow `{name...}`"));
        }
        let Some(name) = raw.strip_prefix('{').and_then(|raw| raw.strip_suffix('}')) else {
            let segment = literal(raw).map_err(|message| wrong(offset, message))?;
            self.segments.push(Segment::Exactly(segment));
            return Ok(());
        };
        let (name, is_rest) = match name.strip_suffix("...") {
            Some(name) => (name, true),
            None => (name, false),
        };
        if !is_name(name) {
            let message =
                "a parameter is named by letters, digits and `_`, and does not start with a digit";
            return Err(wrong(offset, message));
        }
        if self.names().any(|known| known == name) {
            return Err(wrong(offset, "a parameter of this name is there already"));
        }
        if is_rest {
            self.rest = Some(name.to_owned());
        } else {
            self.segments.push(Segment::Any(name.to_owned()));
        }
        Ok(())
    }

    /// As written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The names of its parameters.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let single = self.segments.iter().filter_map(|segment| match segment {
            Segment::Exactly(_) => None,
            Segment::Any(name) => Some(name.as_str()),
        });
        single.chain(self.rest.as_deref())
    }

    /// What it captures of the path; `None` if it does not match.
    pub fn captures(&self, path: &RequestPath) -> Option<PathParams> {
        self.captures_of(&path.segments)
    }

    /// Would it match only for a server that takes `%2F` for a slash? Then the request could be this
    /// effect and could be none: it is refused.
    pub fn might_match(&self, path: &RequestPath) -> bool {
        path.split_late
            .as_ref()
            .is_some_and(|segments| self.captures_of(segments).is_some())
    }

    fn captures_of(&self, path: &[String]) -> Option<PathParams> {
        let (head, tail) = path.split_at_checked(self.segments.len())?;
        let mut params = Vec::new();
        for (segment, value) in self.segments.iter().zip(head) {
            match segment {
                Segment::Exactly(text) if text == value => {}
                Segment::Exactly(_) => return None,
                Segment::Any(name) => params.push((name.clone(), value.clone())),
            }
        }
        match &self.rest {
            Some(name) => params.push((name.clone(), joined(tail))),
            None if tail.is_empty() => {}
            None => return None,
        }
        Some(PathParams(params))
    }
}

/// Slashes inside segments stay told apart from those between them.
fn joined(segments: &[String]) -> String {
    let mut out = String::new();
    for (index, segment) in segments.iter().enumerate() {
        if index > 0 {
            out.push('/');
        }
        encode_into(&mut out, segment, |character| character == '/');
    }
    out
}

fn literal(raw: &str) -> Result<String, &'static str> {
    if raw.contains(['{', '}']) {
        return Err("a parameter is a whole segment: `/{name}/`, or `/{name...}` at the end");
    }
    if raw.contains(['?', '#', '*']) || raw.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("a path holds no `?`, `#`, `*` or space; use `{name}` for what varies");
    }
    segment(raw).map_err(|AmbiguousPath(why)| why)
}

fn is_name(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn wrong(offset: usize, message: &str) -> PathTemplateError {
    PathTemplateError {
        offset,
        message: message.to_owned(),
    }
}

impl PathParams {
    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The value captured under the name.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

impl RequestPath {
    /// Reads the raw path of a request target, without its query. Refused: dot segments and empty
    /// ones (servers that clean a path drop them), broken escapes, backslashes and control
    /// characters, escaped or not.
    pub fn parse(raw: &str) -> Result<Self, AmbiguousPath> {
        let inner = raw
            .strip_prefix('/')
            .ok_or(AmbiguousPath("does not start with a slash"))?;
        let inner = inner.strip_suffix('/').unwrap_or(inner);
        if inner.is_empty() {
            // `//` must not pass for `/`.
            return if raw == "/" {
                Ok(Self::of(Vec::new()))
            } else {
                Err(EMPTY_SEGMENT)
            };
        }
        let segments: Vec<String> = inner.split('/').map(segment).collect::<Result<_, _>>()?;
        let path = Self::of(segments);
        let late = path.split_late.iter().flatten();
        if late
            .into_iter()
            .any(|segment| is_dots(segment) || segment.is_empty())
        {
            return Err(AmbiguousPath(
                "hides dots or nothing behind an escaped slash",
            ));
        }
        Ok(path)
    }

    fn of(segments: Vec<String>) -> Self {
        let split_late = segments
            .iter()
            .any(|segment| segment.contains('/'))
            .then(|| {
                let pieces = segments.iter().flat_map(|segment| segment.split('/'));
                pieces.map(str::to_owned).collect()
            });
        Self {
            segments,
            split_late,
        }
    }
}

const EMPTY_SEGMENT: AmbiguousPath = AmbiguousPath("has an empty segment");

/// Decodes one segment.
fn segment(raw: &str) -> Result<String, AmbiguousPath> {
    if raw.is_empty() {
        return Err(EMPTY_SEGMENT);
    }
    let text = decode(raw).ok_or(AmbiguousPath("has a broken escape"))?;
    if is_dots(&text) {
        return Err(AmbiguousPath("has a dot segment"));
    }
    if text.contains(|c: char| c == '\\' || c.is_control()) {
        return Err(AmbiguousPath("has a backslash or a control character"));
    }
    Ok(text.into_owned())
}

fn is_dots(segment: &str) -> bool {
    segment == "." || segment == ".."
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(template: &str, path: &str) -> Option<Vec<(String, String)>> {
        let template = PathTemplate::parse(template).unwrap();
        template
            .captures(&RequestPath::parse(path).unwrap())
            .map(|params| params.0)
    }

    /// What `captured` gives, in short.
    macro_rules! found {
        ($($name:literal: $value:literal),*) => {
            Some(vec![$(($name.to_owned(), $value.to_owned())),*])
        };
    }

    #[test]
    fn a_name_is_one_segment_and_dots_are_the_rest() {
        let statements = "/accounts/{account}/statements/{date}";
        let both = found!("account": "42", "date": "2026-09-13");
        assert_eq!(
            captured(statements, "/accounts/42/statements/2026-09-13"),
            both
        );
        assert_eq!(
            captured(statements, "/accounts/42/statements/2026-09-13/"),
            both
        );
        assert_eq!(captured(statements, "/accounts/42/statements"), None);
        assert_eq!(captured(statements, "/accounts/42/statements/a/b"), None);
        assert_eq!(captured(statements, "/Accounts/42/statements/a"), None);
        assert_eq!(
            captured("/v1/{rest...}", "/v1/a/b%20c"),
            found!("rest": "a/b c")
        );
        assert_eq!(captured("/v1/{rest...}", "/v1"), found!("rest": ""));
        assert_eq!(captured("/{rest...}", "/"), found!("rest": ""));
        assert_eq!(captured("/", "/"), found!());
        assert_eq!(captured("/", "/a"), None);
    }

    #[test]
    fn escapes_do_not_change_what_matches() {
        assert_eq!(captured("/charges", "/%63harges"), found!());
        assert_eq!(
            captured("/caf%C3%A9/{x}", "/café/1%2B1"),
            found!("x": "1+1")
        );
    }

    #[test]
    fn the_rest_tells_slashes_inside_segments_from_those_between() {
        let one = captured("/{rest...}", "/a/b%2Fc").unwrap();
        let other = captured("/{rest...}", "/a%2Fb/c").unwrap();
        assert_ne!(one, other);
    }

    #[test]
    fn paths_that_two_servers_read_differently_are_refused() {
        for bad in [
            "",
            "*",
            "charges",
            "//",
            "//charges",
            "/a//b",
            "/a/./b",
            "/a/../b",
            "/a/%2e%2E/b",
            "/a/%2e",
            "/%zz",
            "/a%",
            "/a\\b",
            "/a%5Cb",
            "/a%00",
            "/a%0d",
            "/a%ff",
            "/x%2F..%2Fcharges",
            "/x%2F%2Fy",
        ] {
            assert!(RequestPath::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_escaped_slash_that_hides_an_effect_shows() {
        let template = PathTemplate::parse("/accounts/{id}").unwrap();
        let hidden = RequestPath::parse("/accounts%2F1").unwrap();
        assert_eq!(template.captures(&hidden), None);
        assert!(template.might_match(&hidden));
        let plain = RequestPath::parse("/accounts/group%2Fname").unwrap();
        assert!(template.captures(&plain).is_some());
        assert!(!template.might_match(&plain));
    }

    #[test]
    fn bad_templates_say_where() {
        for (text, offset) in [
            ("charges", 0),
            ("/a/{x", 3),
            ("/a/{x}.json", 3),
            ("/a/{}", 3),
            ("/a/{1x}", 3),
            ("/{x}/{x}", 5),
            ("/{x...}/b", 8),
            ("/a//b", 3),
            ("/a/../b", 3),
            ("/a?b", 1),
            ("/a/*", 3),
        ] {
            let error = PathTemplate::parse(text).unwrap_err();
            assert_eq!(error.offset, offset, "{text}: {error}");
        }
    }
}
