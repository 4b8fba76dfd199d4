//! Questions about an operation, and the request that undoes one: what is asked, and what the answer means.
//!
//! What always holds: a question goes to the upstream that the operation went to, by GET or POST, and its
//! method and target say nothing of another one; what no condition is about is not known; whatever is read
//! is bounded.
//!
//! What it does not do: ask (`reconcile`), or decide what an answer is worth (`protocol::weigh`).

use http::{HeaderName, HeaderValue};

use super::callbacks::FoundOutcome;
use super::secret::Secret;
use crate::expression::{FoundCondition, Member, Pick, Reference, Template};

/// What the steps of an effect ask, in the order of the file. The steps themselves are in its policy, each
/// under the same name.
#[derive(Clone, Debug, Default)]
pub struct Asking {
    /// Questions by look-up.
    pub look_ups: Vec<LookUp>,
    /// Questions by comparison.
    pub compares: Vec<Compare>,
    /// Requests that undo.
    pub voids: Vec<Undo>,
}

/// A question with a condition for each answer.
#[derive(Clone, Debug)]
pub struct LookUp {
    /// Its name among the steps of its effect.
    pub name: String,
    /// What is asked.
    pub query: Query,
    /// When it was applied; `None`: this question never says so.
    pub applied: Option<FoundCondition>,
    /// When it was not, as far as can be seen; `None`: this question never says so.
    pub not_applied: Option<FoundCondition>,
    /// How the next page is found, where there may be more than one.
    pub pages: Option<Pages>,
    /// What callers get, where it was applied.
    pub outcome: FoundOutcome<Pick>,
    /// Longest content of an answer, in bytes.
    pub answer_limit: usize,
}

/// What is there now, compared with what was sent.
#[derive(Clone, Debug)]
pub struct Compare {
    /// Its name among the steps of its effect.
    pub name: String,
    /// Where it is; `None`: where it was sent to.
    pub query: Option<Query>,
    /// Stands in where the stored request's credential is refused.
    pub credential: Option<Credential>,
    /// Does what is there never go back to what was there before? Else "as before" may be the end of a longer
    /// story: made, used and removed again.
    pub never_reverts: bool,
    /// Longest content of an answer, in bytes.
    pub answer_limit: usize,
}

/// A request that undoes.
#[derive(Clone, Debug)]
pub struct Undo {
    /// Its name among the steps of its effect.
    pub name: String,
    /// What is sent.
    pub query: Query,
    /// When the upstream says that nothing of the operation is in force.
    pub done: FoundCondition,
    /// Longest content of an answer, in bytes.
    pub answer_limit: usize,
}

/// A request made for an operation.
#[derive(Clone, Debug)]
pub struct Query {
    /// Path and query, from `/`; values in it are escaped.
    pub target: Template,
    /// By GET, or by POST with this content.
    pub content: Option<Content>,
    /// Fields of its own, beside those of the stored request that say who asks.
    pub fields: Vec<(HeaderName, HeaderValue)>,
    /// Stands in where the stored request's credential is refused, or not kept.
    pub credential: Option<Credential>,
}

/// What a question by POST carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A form.
    Form(Vec<(String, Template)>),
    /// A JSON object.
    Json(Vec<(String, Value)>),
}

/// A member of a JSON object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(Template),
    /// An object.
    Object(Vec<(String, Value)>),
}

/// A credential of the config's.
#[derive(Clone, Debug)]
pub struct Credential {
    /// The header that carries it.
    pub header: HeaderName,
    /// What it carries.
    pub value: Secret,
}

/// How the next page is found.
#[derive(Clone, Debug)]
pub struct Pages {
    /// The parameter of the query that names a page.
    pub parameter: String,
    /// Its value for the next one, out of the answer; absent, null, empty or false: there is none.
    pub next: Pick,
    /// So many pages are read at most.
    pub most: u32,
}

impl Query {
    /// The texts in it that are made of something.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let mut all = vec![&self.target];
        match &self.content {
            None => {}
            Some(Content::Form(fields)) => all.extend(fields.iter().map(|(_, value)| value)),
            Some(Content::Json(members)) => {
                for (_, value) in members {
                    value.list(&mut all);
                }
            }
        }
        all.into_iter()
    }

    /// What they read by a short form.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.templates().flat_map(Template::members)
    }

    /// What their computed parts read.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.templates().flat_map(Template::references)
    }
}

impl LookUp {
    /// What question and conditions read.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        let conditions = self.applied.iter().chain(&self.not_applied);
        let next = self.pages.iter().map(|pages| &pages.next);
        let picks = self.outcome.body.iter().chain(next);
        let own = conditions.flat_map(FoundCondition::references);
        let picked = picks.flat_map(Pick::references);
        self.query.references().chain(own).chain(picked)
    }
}

impl Undo {
    /// What question and condition read.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.query.references().chain(self.done.references())
    }
}

impl Value {
    fn list<'v>(&'v self, all: &mut Vec<&'v Template>) {
        match self {
            Self::Text(template) => all.push(template),
            Self::Object(members) => {
                for (_, value) in members {
                    value.list(all);
                }
            }
        }
    }
}

impl Asking {
    /// The look-up of that name.
    pub fn look_up(&self, name: &str) -> Option<&LookUp> {
        self.look_ups.iter().find(|look_up| look_up.name == name)
    }

    /// The comparison of that name.
    pub fn compare(&self, name: &str) -> Option<&Compare> {
        self.compares.iter().find(|compare| compare.name == name)
    }

    /// The request that undoes, of that name.
    pub fn undo(&self, name: &str) -> Option<&Undo> {
        self.voids.iter().find(|undo| undo.name == name)
    }
}
