//! Conditions on an answer.
//!
//! What always holds: a condition that only asks for the status is a table of statuses, made when
//! the config is read; of a conjunction, the parts that only ask for the status are, so that the
//! interpreter runs only for statuses that could fulfil it. What cannot be evaluated is not known,
//! never false.
//!
//! What it does not do: say what a condition means for an operation (`config::AnswerRules`).

use std::fmt;

use bytes::Bytes;

use super::interpreter::{ExpressionError, Program, Root, Scope};
use super::member::WhyMissing;

const FIRST_STATUS: u16 = 200;
const STATUSES: usize = 400;

/// What a condition may look at. Borrowed: made per answer, thrown away.
#[derive(Clone, Copy, Debug)]
pub struct AnswerFacts<'a> {
    /// 200 to 599.
    pub status: u16,
    /// End-to-end fields, names in lower case.
    pub fields: &'a [(Bytes, Bytes)],
    /// The whole content; `None` if it was not kept.
    pub body: Option<&'a [u8]>,
}

/// Does it hold?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Truth {
    /// It holds.
    Yes,
    /// It does not.
    No,
    /// It cannot be evaluated on this answer.
    NotKnown,
}

/// A condition, compiled.
#[derive(Clone, PartialEq, Eq)]
pub struct Condition {
    program: Program,
    by_status: Box<[ByStatus]>,
}

/// What the status alone says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByStatus {
    Said(Truth),
    /// The rest of the answer decides.
    Ask,
}

impl Condition {
    /// Compiles `response.status == 200 && response.body.paid`.
    pub fn parse(source: &str) -> Result<Self, ExpressionError> {
        let (program, parts) = Program::with_conjuncts(source, Root::OF_ANSWER)?;
        let of_status = |part: &&Program| {
            let names = |name: &Option<String>| name.as_deref() == Some("status");
            part.references()
                .iter()
                .all(|reference| names(&reference.name))
        };
        let whole_table = of_status(&&program);
        let parts: Vec<&Program> = parts.iter().filter(of_status).collect();
        let by_status = (FIRST_STATUS..).take(STATUSES).map(|status| {
            if whole_table {
                return ByStatus::Said(of_status_alone(&program, status));
            }
            let fails = |part: &&Program| of_status_alone(part, status) == Truth::No;
            // False and anything is false, whatever the anything.
            if parts.iter().any(fails) {
                ByStatus::Said(Truth::No)
            } else {
                ByStatus::Ask
            }
        });
        let by_status = by_status.collect();
        Ok(Self { program, by_status })
    }

    /// Does it hold for this answer?
    pub fn test(&self, facts: &AnswerFacts<'_>) -> Truth {
        match self.by_status(facts.status) {
            ByStatus::Said(truth) => truth,
            ByStatus::Ask => asked(&self.program, facts),
        }
    }

    /// Does it hold for every answer of this status?
    pub fn holds_for_all(&self, status: u16) -> bool {
        self.by_status(status) == ByStatus::Said(Truth::Yes)
    }

    /// Does it hold for no answer at all, as far as the status tells?
    pub fn is_never(&self) -> bool {
        let never = |said: &ByStatus| matches!(said, ByStatus::Said(Truth::No | Truth::NotKnown));
        self.by_status.iter().all(never)
    }

    /// Does it take long enough on an answer of this size to keep others waiting?
    pub fn is_slow(&self, status: u16, body: usize) -> bool {
        self.by_status(status) == ByStatus::Ask && body > self.program.slow_above()
    }

    fn by_status(&self, status: u16) -> ByStatus {
        let index = status.checked_sub(FIRST_STATUS).map(usize::from);
        let said = index.and_then(|index| self.by_status.get(index)).copied();
        said.unwrap_or(ByStatus::Said(Truth::NotKnown))
    }
}

fn of_status_alone(program: &Program, status: u16) -> Truth {
    let facts = AnswerFacts {
        status,
        fields: &[],
        body: None,
    };
    asked(program, &facts)
}

fn asked(program: &Program, facts: &AnswerFacts<'_>) -> Truth {
    let scope = Scope::of_answer(&program.references().iter(), facts);
    match scope.and_then(|scope| program.holds(&scope)) {
        Ok(true) => Truth::Yes,
        Ok(false) => Truth::No,
        Err(_) => Truth::NotKnown,
    }
}

impl<'a> AnswerFacts<'a> {
    /// Does it say that its content is JSON, and is it there?
    pub fn is_json(&self) -> bool {
        self.json_body().is_some()
    }

    /// The content, if it is whole and says that it is JSON, as it stands.
    pub(super) fn json_body(&self) -> Option<&'a [u8]> {
        let body = self.body?;
        if self.field("content-encoding") != Err(WhyMissing::Absent) {
            return None;
        }
        let declared = self.field("content-type").ok()?;
        let essence = declared.split(';').next().unwrap_or_default().trim();
        let essence = essence.to_ascii_lowercase();
        let is_json = essence == "application/json" || essence.ends_with("+json");
        is_json.then_some(body)
    }

    /// The one field of a name in lower case.
    pub(super) fn field(&self, wanted: &str) -> Result<&'a str, WhyMissing> {
        let mut named = self.fields.iter().filter(|(name, _)| name == wanted);
        match (named.next(), named.next()) {
            (None, _) => Err(WhyMissing::Absent),
            (Some((_, value)), None) => std::str::from_utf8(value).map_err(|_| WhyMissing::NotText),
            (Some(_), Some(_)) => Err(WhyMissing::Repeated),
        }
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Condition({})", self.program.source())
    }
}
