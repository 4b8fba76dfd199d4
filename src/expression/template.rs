//! Text with `{member}` parts: identities and resource names.
//!
//! What always holds: two different lists of values never give one text. A value is inserted with
//! `%`, `:`, `/`, control characters and whatever begins the text after any value percent-encoded,
//! and two values never touch: so the first unencoded such character ends a value, for any reader.
//! A template that is one member and nothing else takes the value as it is: it is somebody's own id.
//!
//! What it does not do: evaluate anything but plain members (CEL comes in a later version).

mod shape;

use http::HeaderName;

use super::escape::encode_into;
use super::member::{JsonPointer, Member, Missing, RequestFacts};

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
        let mut template = Self {
            parts: Vec::new(),
            separators: Vec::new(),
        };
        let mut rest = text;
        while !rest.is_empty() {
            let offset = text.len().saturating_sub(rest.len());
            rest = match rest.strip_prefix('{') {
                Some(inner) => template.push_member(inner, offset)?,
                None => template.push_text(rest, offset)?,
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
        if matches!(self.parts.last(), Some(Part::Member(_))) {
            let message = "two values need text between them, else they could not be told apart";
            return Err(wrong(offset, message));
        }
        let member = member(expression).ok_or_else(|| TemplateError {
            offset,
            message: not_understood(expression),
        })?;
        self.parts.push(Part::Member(member));
        Ok(rest.strip_prefix('}').unwrap_or(rest))
    }

    fn push_text<'t>(&mut self, rest: &'t str, offset: usize) -> Result<&'t str, TemplateError> {
        let end = rest.find('{').unwrap_or(rest.len());
        let (text, rest) = rest.split_at_checked(end).unwrap_or((rest, ""));
        if let Some(at) = text.find(|c: char| c == '%' || c == '}' || c.is_control()) {
            let message = "`%`, `}` and control characters cannot stand in the text between values";
            return Err(wrong(offset.saturating_add(at), message));
        }
        if let (Some(Part::Member(_)), Some(first)) = (self.parts.last(), text.chars().next()) {
            self.separators.push(first);
        }
        self.parts.push(Part::Text(text.to_owned()));
        Ok(rest)
    }

    /// The text for one request.
    pub fn render(&self, facts: &RequestFacts<'_>) -> Result<String, Missing> {
        if let Some(member) = self.single_value() {
            return member.read(facts).map(std::borrow::Cow::into_owned);
        }
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Member(member) => {
                    encode_into(&mut out, &member.read(facts)?, |c| self.escapes(c));
                }
            }
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
            Part::Text(_) => None,
            Part::Member(member) => Some(member),
        })
    }

    /// Does the text contain the token's generation? Then it is once per generation.
    pub fn uses_generation(&self) -> bool {
        self.members().any(|member| *member == Member::Token)
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

fn wrong(offset: usize, message: &str) -> TemplateError {
    TemplateError {
        offset,
        message: message.to_owned(),
    }
}

fn not_understood(expression: &str) -> String {
    format!(
        "`{{{expression}}}` is not a plain member. Understood are path.NAME, query.NAME, headers.NAME, \
         body.NAME.NAME (JSON), form.NAME, token.generation, operation.id, resource.incarnation, and \
         [\"NAME\"] for other names; CEL is not supported by this version"
    )
}

/// Where the expression ends; braces in quotes do not count.
fn closing_brace(inner: &str) -> Option<usize> {
    let mut quote = None;
    for (index, character) in inner.char_indices() {
        match (quote, character) {
            (None, '}') => return Some(index),
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), close) if open == close => quote = None,
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
