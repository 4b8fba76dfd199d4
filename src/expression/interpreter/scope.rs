//! What an expression finds in its roots, for one request or one answer.
//!
//! What always holds: only roots that are named are filled, and of those that name their members
//! only the members that are named; a member that is ambiguous refuses every expression that could
//! read it, since the interpreter would compare it with anything and say no.
//!
//! What it does not do: fill roots that the request does not have: they refuse, naming themselves.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use cel::Context;
use http::HeaderName;

use super::check::{Reference, Root};
use super::limits::Extent;
use super::program::ENVIRONMENT;
use super::values::{self, Boxed};
use crate::expression::form::Form;
use crate::expression::member::{Missing, RequestFacts, WhyMissing, header};
use crate::expression::{AnswerFacts, pairs};

/// Functions and macros, shared by all; what a request brings is put into children of it.
static SHARED: LazyLock<Context<'static, 'static>> =
    LazyLock::new(|| Context::with_env(Arc::clone(&ENVIRONMENT)));

/// The filled roots.
pub(in crate::expression) struct Scope<'v> {
    context: Context<'v, 'v>,
    extent: Extent,
}

type Filled<'v> = Result<(Boxed<'v>, Extent), Missing>;
type Entries<'v> = Vec<(Cow<'v, str>, Cow<'v, str>)>;

impl<'v> Scope<'v> {
    /// For a request.
    pub(in crate::expression) fn of_request<'r>(
        references: &(impl Iterator<Item = &'r Reference> + Clone),
        facts: &RequestFacts<'v>,
    ) -> Result<Self, Missing> {
        let mut scope = Self::empty();
        for &root in Root::OF_REQUEST {
            let named = Named::of(references.clone(), root);
            if !named.is_empty() {
                scope.fill(root, root_of_request(root, &named, facts)?);
            }
        }
        Ok(scope)
    }

    /// For a stored request and the answer to a question about it.
    pub(in crate::expression) fn of_found<'r>(
        references: &(impl Iterator<Item = &'r Reference> + Clone),
        request: &RequestFacts<'v>,
        answer: &AnswerFacts<'v>,
    ) -> Result<Self, WhyMissing> {
        let mut scope = Self::of_request(references, request).map_err(|missing| missing.why)?;
        scope.fill_answer(references, answer)?;
        Ok(scope)
    }

    /// For an answer.
    pub(in crate::expression) fn of_answer<'r>(
        references: &(impl Iterator<Item = &'r Reference> + Clone),
        facts: &AnswerFacts<'v>,
    ) -> Result<Self, WhyMissing> {
        let mut scope = Self::empty();
        scope.fill_answer(references, facts)?;
        Ok(scope)
    }

    fn fill_answer<'r>(
        &mut self,
        references: &(impl Iterator<Item = &'r Reference> + Clone),
        facts: &AnswerFacts<'v>,
    ) -> Result<(), WhyMissing> {
        let fields = Named::of_fields(references.clone());
        let named = Named::of(references.clone(), Root::Response);
        if !named.is_empty() {
            self.fill(Root::Response, response(&named, &fields, facts)?);
        }
        Ok(())
    }

    fn empty() -> Self {
        Self {
            context: SHARED.new_inner_scope(),
            extent: Extent::default(),
        }
    }

    fn fill(&mut self, root: Root, (value, extent): (Boxed<'v>, Extent)) {
        self.context.add_variable_as_val(root.name(), value);
        self.extent = self.extent.and(extent);
    }

    pub(super) fn context(&self) -> &Context<'v, 'v> {
        &self.context
    }

    pub(super) fn extent(&self) -> Extent {
        self.extent
    }
}

/// Which members of a root are named.
enum Named {
    /// These.
    Only(Vec<String>),
    /// Any could be.
    Any,
}

impl Named {
    fn of<'r>(references: impl Iterator<Item = &'r Reference>, root: Root) -> Self {
        let names = references.filter(|reference| reference.root == root);
        Self::distinct(names.map(|reference| reference.name.as_ref()))
    }

    /// Fields of an answer.
    fn of_fields<'r>(references: impl Iterator<Item = &'r Reference>) -> Self {
        let is_field = |reference: &&Reference| reference.name.as_deref() == Some("headers");
        Self::distinct(
            references
                .filter(is_field)
                .map(|reference| reference.field.as_ref()),
        )
    }

    fn distinct<'r>(names: impl Iterator<Item = Option<&'r String>>) -> Self {
        let mut only = Vec::new();
        for name in names {
            match name {
                None => return Self::Any,
                Some(name) if only.contains(name) => {}
                Some(name) => only.push(name.clone()),
            }
        }
        Self::Only(only)
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Only(names) if names.is_empty())
    }

    fn names(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(names) => names.iter().any(|named| named == name),
        }
    }
}

fn root_of_request<'v>(root: Root, named: &Named, facts: &RequestFacts<'v>) -> Filled<'v> {
    let absent = |why| Missing {
        field: root.name().to_owned(),
        why,
    };
    match root {
        Root::Request => Ok(values::texts([
            ("method".into(), facts.method.as_str().into()),
            ("path".into(), facts.raw_path.into()),
        ])),
        Root::Path => {
            let params = facts.path.iter();
            Ok(values::texts(
                params.map(|(name, value)| (name.into(), value.into())),
            ))
        }
        Root::Query => {
            let query = facts.query.unwrap_or_default();
            let one = |name: &str| pairs::value(query, name);
            fields(root, named, one, || pairs::all(query))
        }
        Root::Headers => headers(named, facts),
        Root::Body => values::json(facts.body).map_err(absent),
        Root::Form => {
            let form = Form::of(facts.headers, facts.body).map_err(absent)?;
            fields(root, named, |name| form.value(name), || form.all())
        }
        Root::Token => {
            let token = facts.token.ok_or_else(|| absent(WhyMissing::Absent))?;
            Ok(values::texts([(
                "generation".into(),
                token.to_string().into(),
            )]))
        }
        Root::Operation => {
            let operation = facts.operation.ok_or_else(|| absent(WhyMissing::Absent))?;
            let id = ("id", Some(operation.id));
            let all = [
                id,
                ("key", operation.key),
                ("reference", operation.reference),
                ("answers", operation.answers),
            ];
            let all = all
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)));
            Ok(values::texts(
                all.map(|(name, value)| (name.into(), value.into())),
            ))
        }
        // No request has one: `Program::compile` refuses it where there is none.
        Root::Response => Err(absent(WhyMissing::Absent)),
    }
}

/// The named fields, or all. An absent one is left out, which the expression may ask for.
fn fields<'v>(
    root: Root,
    named: &Named,
    one: impl Fn(&str) -> Result<Cow<'v, str>, WhyMissing>,
    all: impl FnOnce() -> Result<Entries<'v>, (String, WhyMissing)>,
) -> Filled<'v> {
    let missing = |name: &str, why| Missing {
        field: format!("{} {name}", root.name()),
        why,
    };
    let entries = match named {
        Named::Any => all().map_err(|(name, why)| missing(&name, why))?,
        Named::Only(names) => {
            let mut entries = Entries::new();
            for name in names {
                match one(name) {
                    Ok(value) => entries.push((name.clone().into(), value)),
                    Err(WhyMissing::Absent) => {}
                    Err(why) => return Err(missing(name, why)),
                }
            }
            entries
        }
    };
    Ok(values::texts(entries))
}

/// Names are in lower case where the expression does not spell them.
fn headers<'v>(named: &Named, facts: &RequestFacts<'v>) -> Filled<'v> {
    let all = || {
        let names = facts.headers.keys();
        let entries = names.map(|name| match header(facts.headers, name) {
            Ok(value) => Ok((Cow::Borrowed(name.as_str()), value)),
            Err(why) => Err((name.to_string(), why)),
        });
        entries.collect::<Result<_, _>>()
    };
    let one = |name: &str| {
        let name = HeaderName::try_from(name).map_err(|_| WhyMissing::Absent)?;
        header(facts.headers, &name)
    };
    fields(Root::Headers, named, one, all)
}

fn response<'v>(
    named: &Named,
    fields: &Named,
    facts: &AnswerFacts<'v>,
) -> Result<(Boxed<'v>, Extent), WhyMissing> {
    let mut entries = Vec::new();
    let mut extent = Extent::default();
    if named.names("status") {
        entries.push(("status", values::integer(i64::from(facts.status))));
    }
    if named.names("headers") {
        let (value, more) = values::texts(fields_of_answer(fields, facts)?);
        entries.push(("headers", value));
        extent = extent.and(more);
    }
    // Content that cannot be read is not there: whoever looks into it does not know.
    if named.names("body")
        && let Some(body) = facts.json_body()
        && let Ok((value, more)) = values::json(body)
    {
        entries.push(("body", value));
        extent = extent.and(more);
    }
    Ok((values::map(entries), extent))
}

/// The named fields, or all; one that stands twice says nothing, and neither does the answer then.
fn fields_of_answer<'v>(named: &Named, facts: &AnswerFacts<'v>) -> Result<Entries<'v>, WhyMissing> {
    let mut entries = Entries::new();
    match named {
        Named::Any => {
            for (name, _) in facts.fields {
                let name = std::str::from_utf8(name).map_err(|_| WhyMissing::NotText)?;
                entries.push((name.into(), facts.field(name)?.into()));
            }
        }
        Named::Only(names) => {
            for name in names {
                match facts.field(&name.to_ascii_lowercase()) {
                    Ok(value) => entries.push((name.clone().into(), value.into())),
                    Err(WhyMissing::Absent) => {}
                    Err(why) => return Err(why),
                }
            }
        }
    }
    Ok(entries)
}

#[cfg(test)]
impl<'v> Scope<'v> {
    /// With any value for a body.
    pub(super) fn with_body(body: Boxed<'v>) -> Self {
        let mut scope = Self::empty();
        scope.fill(Root::Body, (body, Extent::default()));
        scope
    }
}
