//! Text with `{member}` parts.
//!
//! What always holds: two different lists of values never give one text (see [`Template::render`]).
//!
//! What it does not do: evaluate anything but plain members.

use super::member::{Member, Missing, RequestFacts};

/// Text with members, compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
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
        }
    }

    /// The text for one request.
    pub fn render(&self, _facts: &RequestFacts<'_>) -> Result<String, Missing> {
        Ok(String::new())
    }

    /// The member, if this is one member and no text: then the value is somebody's own id and is
    /// taken as it is.
    pub fn single_value(&self) -> Option<&Member> {
        match self.parts.as_slice() {
            [Part::Member(member)] => Some(member),
            _ => None,
        }
    }

    /// Does the text contain the token's generation? Then it is once per generation.
    pub fn uses_generation(&self) -> bool {
        self.parts
            .iter()
            .any(|part| matches!(part, Part::Member(Member::Token)))
    }

    /// Does it name the incarnation of the resource?
    pub fn names_incarnation(&self) -> bool {
        self.parts
            .iter()
            .any(|part| matches!(part, Part::Member(Member::Incarnation)))
    }
}
