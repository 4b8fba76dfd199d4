//! Reading the tree: a field knows its path and place, and reports its own problems.
//!
//! What always holds: reading never stops at a problem; a map that was read reports every key nobody
//! asked for; a value in `${…}` is read by [`Field::secret`] only. Whatever asks for a value says so to
//! the findings, since the schema is made of these questions and of nothing else.
//!
//! What it does not do: know which fields there are (`parse`), or rules between fields.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::problems::{Findings, Place};
use super::questions::Question;
use super::scalar;
use super::secret::{Resolved, Secret, Source};
use super::tree::{Entry, Node, Scalar, Value};

/// One value of the file.
#[derive(Clone, Debug)]
pub(super) struct Field<'a> {
    node: &'a Node,
    path: String,
    findings: &'a Findings,
}

/// A map being read.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    own: Field<'a>,
    entries: &'a [Entry],
    asked: Vec<&'static str>,
}

impl<'a> Field<'a> {
    pub(super) fn root(node: &'a Node, findings: &'a Findings) -> Self {
        Self {
            node,
            path: String::new(),
            findings,
        }
    }

    /// The same field with another value: what a profile was laid under.
    pub(super) fn with_node<'b>(&self, node: &'b Node) -> Field<'b>
    where
        'a: 'b,
    {
        Field {
            node,
            path: self.path.clone(),
            findings: self.findings,
        }
    }

    pub(super) fn error(&self, message: impl Into<String>) {
        self.findings.error(&self.path, self.node.at, message);
    }

    pub(super) fn warn(&self, message: impl Into<String>) {
        self.findings.warn(&self.path, self.node.at, message);
    }

    /// An error inside a text, `offset` bytes from its start.
    pub(super) fn error_within(&self, offset: usize, message: impl Into<String>) {
        let own = self.node.at;
        let at = match &self.node.value {
            Value::Scalar(Scalar { text, inside }) => inside.place(own, text, offset),
            Value::Null | Value::List(_) | Value::Map(_) => own,
        };
        self.findings.error(&self.path, at, message);
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn at(&self) -> Place {
        self.node.at
    }

    pub(super) fn node(&self) -> &'a Node {
        self.node
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.node.value, Value::Null)
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self.node.value, Value::Map(_))
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self.node.value, Value::List(_))
    }

    /// The fields of a map. Nothing is an empty map.
    pub(super) fn map(&self) -> Option<Fields<'a>> {
        self.ask(|| Question::Fields);
        self.fields()
    }

    fn fields(&self) -> Option<Fields<'a>> {
        let entries: &[Entry] = match &self.node.value {
            Value::Map(entries) => entries,
            Value::Null => &[],
            Value::Scalar(_) | Value::List(_) => {
                self.error("expected fields (`name: value`)");
                return None;
            }
        };
        Some(Fields {
            own: self.clone(),
            entries,
            asked: Vec::new(),
        })
    }

    /// The entries of a map with names of the user's choice.
    pub(super) fn named(&self) -> Vec<(&'a str, Field<'a>)> {
        self.ask(|| Question::Entries);
        let Some(fields) = self.fields() else {
            return Vec::new();
        };
        let own = fields.entries.iter();
        own.map(|entry| (entry.key.as_str(), self.child(entry)))
            .collect()
    }

    /// The items of a list. Nothing is an empty list.
    pub(super) fn list(&self) -> Option<Vec<Field<'a>>> {
        self.ask(|| Question::Items);
        let items: &[Node] = match &self.node.value {
            Value::List(items) => items,
            Value::Null => &[],
            Value::Scalar(_) | Value::Map(_) => {
                self.error("expected a list (`[a, b]`)");
                return None;
            }
        };
        let fields = items.iter().enumerate().map(|(index, node)| Field {
            node,
            path: format!("{}[{index}]", self.path),
            findings: self.findings,
        });
        Some(fields.collect())
    }

    /// Notes what is asked here.
    fn ask(&self, question: impl FnOnce() -> Question) {
        self.findings.ask(&self.path, question);
    }

    fn child(&self, entry: &'a Entry) -> Field<'a> {
        let path = if self.path.is_empty() {
            entry.key.clone()
        } else {
            format!("{}.{}", self.path, entry.key)
        };
        Field {
            node: &entry.node,
            path,
            findings: self.findings,
        }
    }

    /// A text as written. `${…}` is refused: what is public stands in the file, for all to review.
    pub(super) fn text(&self) -> Option<&'a str> {
        self.ask(|| Question::Text(String::new()));
        self.public_text()
    }

    fn public_text(&self) -> Option<&'a str> {
        let text = self.raw_text()?;
        if text.contains("${") {
            self.error("`${…}` is for secrets only");
            return None;
        }
        Some(text)
    }

    /// The text of a secret as written: `${env:NAME}`, `${file:/path}`, or itself.
    pub(super) fn secret_text(&self) -> Option<&'a str> {
        self.ask(|| Question::Secret);
        let text = self.raw_text()?;
        if let Ok(Source::File(path)) = Source::of(text) {
            self.depends_on(path.into());
        }
        Some(text)
    }

    /// Is it this one word? No problem if it is something else.
    pub(super) fn is_word(&self, word: &str) -> bool {
        self.ask(|| Question::Choice(vec![word.to_owned()]));
        matches!(&self.node.value, Value::Scalar(scalar) if scalar.text == word)
    }

    /// A text as written, `${…}` included.
    pub(super) fn raw_text(&self) -> Option<&'a str> {
        match &self.node.value {
            Value::Scalar(scalar) => Some(&scalar.text),
            Value::Null => {
                self.error("has no value");
                None
            }
            Value::List(_) | Value::Map(_) => {
                self.error("expected a single value");
                None
            }
        }
    }

    /// A text that must be readable as something.
    pub(super) fn read<T>(
        &self,
        expected: &str,
        read: impl FnOnce(&'a str) -> Option<T>,
    ) -> Option<T> {
        self.ask(|| Question::Text(expected.to_owned()));
        let text = self.public_text()?;
        let value = read(text);
        if value.is_none() {
            self.error(format!("`{text}` is not {expected}"));
        }
        value
    }

    /// A whole number within bounds.
    pub(super) fn number<T: TryFrom<u64>>(
        &self,
        expected: &str,
        bounds: RangeInclusive<u64>,
    ) -> Option<T> {
        self.ask(|| Question::Number(expected.to_owned(), bounds.clone()));
        let text = self.public_text()?;
        let number = text.parse().ok().filter(|number| bounds.contains(number));
        let number = number.and_then(|number: u64| T::try_from(number).ok());
        if number.is_none() {
            self.error(format!("`{text}` is not {expected}"));
        }
        number
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        self.ask(|| Question::Choice(choices.iter().map(|(word, _)| (*word).to_owned()).collect()));
        let text = self.public_text()?;
        let found = choices.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            let words = words.join(" | ");
            self.error(format!("`{text}` is not one of {words}"));
        }
        found.map(|(_, value)| *value)
    }

    /// Says that some words are likely, of more that could stand here.
    pub(super) fn suggest(&self, words: &[&str]) {
        self.ask(|| Question::Choice(words.iter().map(|word| (*word).to_owned()).collect()));
    }

    /// A choice of which this version does not know all: those are refused by name.
    pub(super) fn choice_or_later<T: Copy>(
        &self,
        choices: &[(&str, T)],
        later: &[&str],
    ) -> Option<T> {
        if later.contains(&self.public_text().unwrap_or_default()) {
            self.later();
            return None;
        }
        self.choice(choices)
    }

    /// Reads `${env:NAME}` or `${file:/path}`, or takes the text as it is and warns.
    pub(super) fn secret(&self) -> Option<Secret> {
        let text = self.secret_text()?;
        if self.findings.leaves_secrets() {
            return Some(Secret::new(text));
        }
        let secret = match Secret::resolve(text) {
            Ok(Resolved::Elsewhere(secret)) => secret,
            Ok(Resolved::Literal(secret)) => {
                self.warn("a secret stands in the file; use `${env:NAME}` or `${file:/path}`");
                secret
            }
            Err(problem) => {
                self.error(problem);
                return None;
            }
        };
        if secret.expose().is_empty() {
            self.error("the secret is empty");
            return None;
        }
        Some(secret)
    }

    pub(super) fn leaves_secrets(&self) -> bool {
        self.findings.leaves_secrets()
    }

    /// The value comes from that file, or will: whoever watches the config watches it too.
    pub(super) fn depends_on(&self, file: PathBuf) {
        self.findings.depends_on(file);
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        self.choice(&[("true", true), ("false", false)])
    }

    /// Refuses a field that a later version brings.
    pub(super) fn later(&self) {
        self.ask(|| Question::Later);
        self.error("is not supported by this version");
    }
}

impl<'a> Fields<'a> {
    /// The map itself.
    pub(super) fn own(&self) -> &Field<'a> {
        &self.own
    }

    /// A field, if it is there.
    pub(super) fn take(&mut self, name: &'static str) -> Option<Field<'a>> {
        self.own.ask(|| Question::Member(name));
        self.asked.push(name);
        let entry = self.entries.iter().find(|entry| entry.key == name)?;
        Some(self.own.child(entry))
    }

    /// A field that must be there.
    pub(super) fn need(&mut self, name: &'static str) -> Option<Field<'a>> {
        self.own.ask(|| Question::Needed(name));
        let field = self.take(name);
        if field.is_none() {
            self.own.error(format!("`{name}` is missing"));
        }
        field
    }

    /// Reads a field if it is there, else the default. A field that cannot be read has reported its
    /// problem, and the default stands in, so that reading goes on.
    pub(super) fn or<T>(
        &mut self,
        name: &'static str,
        default: T,
        read: impl FnOnce(&Field<'a>) -> Option<T>,
    ) -> T {
        self.take(name)
            .and_then(|field| read(&field))
            .unwrap_or(default)
    }

    /// Refuses fields that a later version brings, where they are used.
    pub(super) fn refuse_later(&mut self, names: &[&'static str]) {
        for name in names {
            if let Some(field) = self.take(name) {
                field.later();
            }
        }
    }

    /// Reports every key that nobody asked for.
    pub(super) fn finish(self) {
        let unknown = self
            .entries
            .iter()
            .filter(|entry| !self.asked.contains(&entry.key.as_str()));
        for entry in unknown {
            let message = match scalar::nearest(&entry.key, &self.asked) {
                Some(name) => format!("is not a known field; did you mean `{name}`?"),
                None => format!(
                    "is not a known field; known here: {}",
                    self.asked.join(", ")
                ),
            };
            let field = self.own.child(entry);
            self.own.findings.error(&field.path, entry.at, message);
        }
    }
}
