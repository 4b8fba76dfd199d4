//! What a rule `means: [ … ]` selects from a request.
//!
//! What always holds: a JSON member counts in its canonical form, whatever it holds; a header, field
//! or parameter counts with all its values in the order sent. What is not there refuses the request,
//! unless the rule says that it may be lacking: then its absence counts, and is not an empty value.
//! (A pointer that is misspelt would else make all requests alike.)
//!
//! What it does not do: look at anything that the rule does not name.

use std::borrow::Cow;

use super::canonical::length;
use super::{form, json};
use crate::config::Selected;
use crate::expression::{Member, Missing, RequestFacts, WhyMissing};

/// What was selected, in the order of the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selection(Vec<Value>);

/// One member of the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value {
    /// As the config names it: `json /amount`.
    pub(super) name: String,
    /// What stands there; none: it is lacking.
    values: Vec<Vec<u8>>,
}

impl Selection {
    /// Reads all of them. Errors: the first that cannot be had.
    pub(super) fn read(rule: &[Selected], facts: &RequestFacts<'_>) -> Result<Self, Missing> {
        let mut body = Body {
            bytes: facts.body,
            canonical: None,
        };
        rule.iter()
            .map(|selected| Value::read(selected, facts, &mut body))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Hands every piece to `part`, which sets them apart.
    pub(super) fn feed(&self, part: &mut impl FnMut(&[u8])) {
        for value in &self.0 {
            part(value.name.as_bytes());
            part(&value.written());
        }
    }

    pub(super) fn values(&self) -> &[Value] {
        &self.0
    }
}

impl Value {
    fn read(
        selected: &Selected,
        facts: &RequestFacts<'_>,
        body: &mut Body<'_>,
    ) -> Result<Self, Missing> {
        let name = selected.member.to_string();
        match read(&selected.member, facts, body) {
            Ok(values) if values.is_empty() && !selected.optional => Err(Missing {
                field: name,
                why: WhyMissing::Absent,
            }),
            Ok(values) => Ok(Self { name, values }),
            Err(why) => Err(Missing { field: name, why }),
        }
    }

    /// Its values, each set apart; nothing where there is none.
    pub(super) fn written(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for value in &self.values {
            out.extend(length(value));
            out.extend_from_slice(value);
        }
        out
    }
}

/// All values of a member.
fn read(
    member: &Member,
    facts: &RequestFacts<'_>,
    body: &mut Body<'_>,
) -> Result<Vec<Vec<u8>>, WhyMissing> {
    match member {
        Member::Json(pointer) => {
            let found = json::at(body.json()?, pointer.tokens());
            Ok(found.map(<[u8]>::to_vec).into_iter().collect())
        }
        Member::Form(name) => Ok(named(facts.body, name)),
        Member::Query(name) => Ok(named(facts.query.unwrap_or_default().as_bytes(), name)),
        Member::Header(name) => {
            let values = facts.headers.get_all(name).iter();
            Ok(values.map(|value| value.as_bytes().to_vec()).collect())
        }
        // Everything else has one text, or none.
        other => match other.read(facts) {
            Ok(text) => Ok(vec![text.into_owned().into_bytes()]),
            Err(missing) if missing.why == WhyMissing::Absent => Ok(Vec::new()),
            Err(missing) => Err(missing.why),
        },
    }
}

/// The values of a name, in the order sent. A name without `=` has an empty one.
fn named(pairs: &[u8], name: &str) -> Vec<Vec<u8>> {
    form::pairs(pairs)
        .filter(|pair| *pair.name == *name.as_bytes())
        .map(|pair| pair.value.map_or_else(Vec::new, Cow::into_owned))
        .collect()
}

/// Content, read as JSON when the first member asks for it.
struct Body<'a> {
    bytes: &'a [u8],
    canonical: Option<Vec<u8>>,
}

impl Body<'_> {
    fn json(&mut self) -> Result<&[u8], WhyMissing> {
        if self.canonical.is_none() {
            let text = json::canonical(self.bytes).map_err(|_| WhyMissing::Unreadable)?;
            self.canonical = Some(text);
        }
        Ok(self.canonical.as_deref().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
