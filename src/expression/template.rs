//! Text with `{expression}` parts: identities and resource names.
//!
//! What always holds: two different lists of values never give one text. A value is inserted with
//! `%`, `:`, `/`, control characters and whatever begins the text after any value percent-encoded,
//! and two values never touch: so the first unencoded such character ends a value, for any reader.
//! A template that is one member and nothing else takes the value as it is: it is somebody's own id.
//!
//! An expression that is a plain member is one: it never enters the interpreter, and it may name
//! headers with hyphens as they are (`{headers.x-name}`, in CEL a subtraction).
//!
//! What it does not do: compare types: the text `1` and the number 1 are one value.

use std::borrow::Cow;

mod shape;

use http::HeaderName;

use super::escape::encode_into;
use super::graphql::GraphQl;
use super::interpreter::{Program, Reference, Root, SLOW_ABOVE, Scope};
use super::member::{JsonPointer, Member, Missing, RequestFacts, WhyMissing, bounded};

/// Text with members, compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
    /// What begins a text that follows a value.
    separators: Vec<char>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Member(Member),
    Computed(Program),
}

/// A template that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TemplateError {
    /// Byte offset into the text.
    pub offset: usize,
    /// What is wrong, and what is understood instead.
    pub message: String,
}

/// Where a text between values has what may not stand in it, and why.
type FindWrong = fn(&str) -> Option<(usize, &'static str)>;

impl Template {
    /// A template of one member and no text.
    pub fn of(member: Member) -> Self {
        Self {
            parts: vec![Part::Member(member)],
            separators: Vec::new(),
        }
    }

    /// Reads `publish:{path.account}:{token.generation}`.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        Self::read(text, no_text)
    }

    /// Reads a target, `/charges/search?query=id%3A{operation.id}`: what stands between values goes out as it is
    /// written, so that escapes may stand in it.
    pub fn parse_target(text: &str) -> Result<Self, TemplateError> {
        Self::read(text, no_target)
    }

    /// `find_wrong`: where a text between values has what may not stand in it, and why.
    fn read(text: &str, find_wrong: FindWrong) -> Result<Self, TemplateError> {
        let mut template = Self {
            parts: Vec::new(),
            separators: Vec::new(),
        };
        let mut rest = text;
        while !rest.is_empty() {
            let offset = text.len().saturating_sub(rest.len());
            rest = match rest.strip_prefix('{') {
                Some(inner) => template.push_member(inner, offset)?,
                None => template.push_text(rest, offset, find_wrong)?,
            };
        }
        if template.parts.is_empty() {
            return Err(wrong(0, "is empty"));
        }
        Ok(template)
    }

    fn push_member<'t>(&mut self, inner: &'t str, offset: usize) -> Result<&'t str, TemplateError> {
        let end = closing_brace(inner).ok_or_else(|| wrong(offset, "`{` is never closed"))?;
        let (expression, rest) = inner.split_at_checked(end).unwrap_or((inner, ""));
        if matches!(self.parts.last(), Some(Part::Member(_) | Part::Computed(_))) {
            let message = "two values need text between them, else they could not be told apart";
            return Err(wrong(offset, message));
        }
        let part = match member(expression) {
            Some(member) => Part::Member(member),
            None => Part::Computed(computed(expression, offset)?),
        };
        self.parts.push(part);
        Ok(rest.strip_prefix('}').unwrap_or(rest))
    }

    fn push_text<'t>(
        &mut self,
        rest: &'t str,
        offset: usize,
        find_wrong: FindWrong,
    ) -> Result<&'t str, TemplateError> {
        let end = rest.find('{').unwrap_or(rest.len());
        let (text, rest) = rest.split_at_checked(end).unwrap_or((rest, ""));
        if let Some((at, message)) = find_wrong(text) {
            return Err(wrong(offset.saturating_add(at), message));
        }
        if let (Some(Part::Member(_) | Part::Computed(_)), Some(first)) =
            (self.parts.last(), text.chars().next())
        {
            self.separators.push(first);
        }
        self.parts.push(Part::Text(text.to_owned()));
        Ok(rest)
    }

    /// The text for one request: an identity, or a name.
    pub fn render(&self, facts: &RequestFacts<'_>) -> Result<String, Missing> {
        let alone = self.parts.len() == 1;
        self.write(facts, |out, value| {
            if alone {
                out.push_str(value);
            } else {
                encode_into(out, value, |c| self.escapes(c));
            }
        })
    }

    /// The text as part of a request's target: in every value, all but unreserved characters (RFC 3986, 2.3)
    /// are escaped, so that none of them ends the value.
    pub fn render_for_target(&self, facts: &RequestFacts<'_>) -> Result<String, Missing> {
        let unreserved = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~');
        self.write(facts, |out, value| {
            encode_into(out, value, |c| !unreserved(c));
        })
    }

    /// The text with its values as they are, for what encodes the whole of it.
    pub fn render_plainly(&self, facts: &RequestFacts<'_>) -> Result<String, Missing> {
        self.write(facts, String::push_str)
    }

    fn write(
        &self,
        facts: &RequestFacts<'_>,
        append: impl Fn(&mut String, &str),
    ) -> Result<String, Missing> {
        let computes = self
            .parts
            .iter()
            .any(|part| matches!(part, Part::Computed(_)));
        let scope = computes.then(|| Scope::of_request(&self.references(), facts));
        let scope = scope.transpose()?;
        let mut out = String::new();
        for part in &self.parts {
            let value = match part {
                Part::Text(text) => {
                    out.push_str(text);
                    continue;
                }
                Part::Member(member) => member.read(facts)?,
                Part::Computed(program) => Cow::Owned(compute(program, scope.as_ref())?),
            };
            append(&mut out, &value);
        }
        Ok(out)
    }

    fn escapes(&self, character: char) -> bool {
        matches!(character, ':' | '/')
            || character.is_control()
            || self.separators.contains(&character)
    }

    /// The member, if this is one member and no text: then the value is taken as it is.
    pub fn single_value(&self) -> Option<&Member> {
        match self.parts.as_slice() {
            [Part::Member(member)] => Some(member),
            _ => None,
        }
    }

    /// What it reads from a request.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) | Part::Computed(_) => None,
            Part::Member(member) => Some(member),
        })
    }

    /// What its computed parts read from a request.
    pub fn references(&self) -> impl Iterator<Item = &Reference> + Clone {
        self.parts.iter().flat_map(|part| match part {
            Part::Text(_) | Part::Member(_) => &[],
            Part::Computed(program) => program.references(),
        })
    }

    /// Does it read this header, or may it?
    pub fn reads_header(&self, name: &HeaderName) -> bool {
        let is_member = |member: &Member| matches!(member, Member::Header(read) if read == name);
        let is_reference = |reference: &Reference| {
            let named = reference.name.as_deref();
            reference.root == Root::Headers
                && named.is_none_or(|read| name.as_str().eq_ignore_ascii_case(read))
        };
        self.members().any(is_member) || self.references().any(is_reference)
    }

    /// Contents above this many bytes are read off the async workers.
    pub fn slow_above(&self) -> usize {
        let computed = self.parts.iter().filter_map(|part| match part {
            Part::Text(_) | Part::Member(_) => None,
            Part::Computed(program) => Some(program.slow_above()),
        });
        computed.min().unwrap_or(SLOW_ABOVE)
    }

    fn reads(&self, root: Root) -> bool {
        self.references().any(|reference| reference.root == root)
    }

    /// Does the text contain the token's generation? Then it is once per generation.
    pub fn uses_generation(&self) -> bool {
        self.members().any(|member| *member == Member::Token) || self.reads(Root::Token)
    }

    /// Does it name the incarnation of the resource?
    pub fn names_incarnation(&self) -> bool {
        self.members().any(|member| *member == Member::Incarnation)
    }

    /// Does an identity of this form carry the incarnation (contract §4)?
    pub fn follows_incarnation(&self) -> bool {
        self.uses_generation() || self.names_incarnation()
    }
}

/// In a text of which values are told apart again, `%` begins an encoded character of a value, and nothing else.
fn no_text(text: &str) -> Option<(usize, &'static str)> {
    let at = text.find(|c: char| c == '%' || c == '}' || c.is_control())?;
    let message = "`%`, `}` and control characters cannot stand in the text between values";
    Some((at, message))
}

/// In a target, `%` begins an escape (RFC 3986, 2.1).
fn no_target(text: &str) -> Option<(usize, &'static str)> {
    let is_wrong = |(at, character): &(usize, char)| match character {
        '%' => {
            let digits = text
                .as_bytes()
                .get(at.saturating_add(1)..at.saturating_add(3));
            !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
        }
        character => *character == '}' || character.is_control(),
    };
    let (at, _) = text.char_indices().find(is_wrong)?;
    let message = "in a target `%` begins an escape of two digits; `}` and control characters cannot stand in it";
    Some((at, message))
}

fn wrong(offset: usize, message: &str) -> TemplateError {
    TemplateError {
        offset,
        message: message.to_owned(),
    }
}

/// What is not a plain member is CEL. Its problems stand where they are in the template.
fn computed(expression: &str, brace: usize) -> Result<Program, TemplateError> {
    let start = brace.saturating_add(1);
    Program::compile(expression, Root::OF_REQUEST, start).map_err(|error| TemplateError {
        offset: error.offset,
        message: error.message,
    })
}

fn compute(program: &Program, scope: Option<&Scope<'_>>) -> Result<String, Missing> {
    let value = scope
        .ok_or(WhyMissing::Failed)
        .and_then(|scope| program.text(scope));
    value.and_then(bounded).map_err(|why| Missing {
        field: format!("expression `{}`", program.source().trim()),
        why,
    })
}

/// Where the expression ends: braces and quotes inside it are its own.
fn closing_brace(inner: &str) -> Option<usize> {
    let mut quote = None;
    let mut open: usize = 0;
    let mut escaped = false;
    for (index, character) in inner.char_indices() {
        if std::mem::take(&mut escaped) {
            continue;
        }
        match (quote, character) {
            (None, '}') if open == 0 => return Some(index),
            (None, '}') => open = open.saturating_sub(1),
            (None, '{') => open = open.saturating_add(1),
            (None, '"' | '\'') => quote = Some(character),
            (Some(_), '\\') => escaped = true,
            (Some(opened), close) if opened == close => quote = None,
            (None | Some(_), _) => {}
        }
    }
    None
}

/// Reads `root.name["other name"]`.
fn member(expression: &str) -> Option<Member> {
    let (root, names) = selectors(expression.trim())?;
    let mut names = names.into_iter();
    let member = match root {
        "body" => {
            let names: Vec<String> = names.by_ref().collect();
            (!names.is_empty()).then(|| Member::Json(JsonPointer::of(names)))?
        }
        "path" => Member::Path(names.next()?),
        "query" => Member::Query(names.next()?),
        "form" => Member::Form(names.next()?),
        "headers" => Member::Header(HeaderName::try_from(names.next()?).ok()?),
        "graphql" => Member::GraphQl(GraphQl::parse(
            &names.by_ref().collect::<Vec<_>>().join("."),
        )?),
        "token" => match names.next().as_deref() {
            None | Some("generation") => Member::Token,
            Some(_) => return None,
        },
        "operation" => (names.next()? == "id").then_some(Member::OperationId)?,
        "resource" => (names.next()? == "incarnation").then_some(Member::Incarnation)?,
        _ => return None,
    };
    names.next().is_none().then_some(member)
}

fn selectors(expression: &str) -> Option<(&str, Vec<String>)> {
    let end = expression.find(['.', '[']).unwrap_or(expression.len());
    let (root, mut rest) = expression.split_at_checked(end)?;
    let mut names = Vec::new();
    while !rest.is_empty() {
        let (name, after) = match rest.strip_prefix('.') {
            Some(rest) => plain_name(rest)?,
            None => bracketed(rest.strip_prefix('[')?)?,
        };
        names.push(name.to_owned());
        rest = after;
    }
    Some((root, names))
}

fn plain_name(rest: &str) -> Option<(&str, &str)> {
    let is_end = |c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let (name, after) = rest.split_at_checked(rest.find(is_end).unwrap_or(rest.len()))?;
    (!name.is_empty()).then_some((name, after))
}

/// `"name"]`, `'name']`, `0]`. No escapes inside quotes.
fn bracketed(rest: &str) -> Option<(&str, &str)> {
    let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        let (index, after) = rest.split_once(']')?;
        let plain = !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit());
        return plain.then_some((index, after));
    };
    let (name, after) = rest.get(1..)?.split_once(quote)?;
    let plain = !name.is_empty() && !name.contains('\\');
    plain.then_some((name, after.strip_prefix(']')?))
}

#[cfg(test)]
mod tests;
