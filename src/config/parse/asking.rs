//! What is asked about an operation, and what its answers mean.
//!
//! What always holds: a question is a GET or a POST of the upstream's own; it says when the effect was applied
//! or when it was not; a text in it comes from the stored request or from the operation's identity.
//!
//! What it does not do: read how often and how long is asked (`settle`).

use http::{HeaderName, HeaderValue};

use super::value;
use crate::config::asking::{Compare, Content, Credential, LookUp, Pages, Query, Undo, Value};
use crate::config::callbacks::FoundOutcome;
use crate::config::field::{Field, Fields};
use crate::config::insertion::{IfPresent, Insert, ReferencePart, ReferenceRule, Signed};
use crate::config::scalar::{self, SIZE};
use crate::expression::{
    ExpressionError, FoundCondition, Member, PathTemplate, Pick, Reference, Root, Template,
};

/// Of an answer to a question.
const DEFAULT_ANSWER: usize = 1 << 20;
/// A question is read whole, and read more than once.
const LARGEST_ANSWER: usize = 16 << 20;
const DEFAULT_PAGES: u32 = 10;
const DEFAULT_STATUS: u16 = 200;

/// Reads the rest of a `look_up`.
pub(super) fn look_up(
    fields: &mut Fields<'_>,
    name: String,
    path: Option<&PathTemplate>,
) -> Option<LookUp> {
    let query = query(fields, path);
    let applied = fields.take("applied").and_then(|field| condition(&field));
    let not_applied = fields
        .take("not_applied")
        .and_then(|field| condition(&field));
    if applied.is_none() && not_applied.is_none() {
        fields
            .own()
            .error("says nothing: when was it `applied`, and when `not_applied`?");
    }
    let pages = fields.take("pages").and_then(|field| pages(&field));
    let outcome = outcome(fields, "response.body", Pick::of_found)?;
    let answer_limit = answer_limit(fields);
    Some(LookUp {
        name,
        query: query?,
        applied,
        not_applied,
        pages,
        outcome,
        answer_limit,
    })
}

/// Reads the rest of a `compare`.
pub(super) fn compare(
    fields: &mut Fields<'_>,
    name: String,
    path: Option<&PathTemplate>,
) -> Compare {
    let target = fields.take("get").and_then(|field| target(&field, path));
    let query = target.map(|target| Query {
        target,
        content: None,
        fields: Vec::new(),
        credential: None,
    });
    let credential = credential(fields);
    let never_reverts = fields.or("never_reverts", false, Field::boolean);
    Compare {
        name,
        query: query.map(|query| Query {
            credential: credential.clone(),
            ..query
        }),
        credential,
        never_reverts,
        answer_limit: answer_limit(fields),
    }
}

/// Reads the rest of a `void`.
pub(super) fn undo(
    fields: &mut Fields<'_>,
    name: String,
    path: Option<&PathTemplate>,
) -> Option<Undo> {
    let query = query(fields, path);
    let done = fields.need("done").and_then(|field| condition(&field));
    let answer_limit = answer_limit(fields);
    Some(Undo {
        name,
        query: query?,
        done: done?,
        answer_limit,
    })
}

/// Nothing is found by what goes into no request, and that would be taken for a proof.
pub(super) fn names_what_is_sent<'r>(
    field: &Field<'_>,
    (members, references): (
        impl Iterator<Item = &'r Member>,
        impl Iterator<Item = &'r Reference>,
    ),
    insert: &Insert,
) {
    let read: Vec<&str> = references
        .filter(|reference| reference.root == Root::Operation)
        .filter_map(|reference| reference.name.as_deref())
        .chain(members.filter_map(|member| (*member == Member::OperationId).then_some("id")))
        .collect();
    let rules_with = |part: &ReferencePart| -> Vec<&ReferenceRule> {
        let rules = insert.references.iter();
        rules.filter(|rule| rule.value.contains(part)).collect()
    };
    let may_lack = |rule: &&ReferenceRule| {
        rule.if_present == IfPresent::Keep || insert.signed == Signed::LeftAlone
    };
    if read.contains(&"reference") {
        match rules_with(&ReferencePart::Digest).as_slice() {
            [] => field.error(
                "`operation.reference` goes into no request of this effect, so nothing is ever found by it; \
                 say where it goes: `reference: [ { json: /metadata/operation } ]`",
            ),
            [_] => {}
            several if several.iter().any(may_lack) => field.error(
                "`operation.reference` goes to several places, and to one of them not in every request \
                 (`if_present: keep`): a question at that one would find nothing",
            ),
            _ => {}
        }
    }
    // The id is known whether it went along or not; what was put in of the reference is looked for.
    if read.contains(&"id") && rules_with(&ReferencePart::Id).iter().any(may_lack) {
        field.error(
            "`operation.id` does not go into every request of this effect (`if_present: keep`, or `signed: \
             leave-alone`), so that nothing may be found by it; use `operation.reference`, which is asked for \
             only where it went along",
        );
    }
    if read.contains(&"key") && insert.key.is_none() {
        field.error("`operation.key` goes into no request of this effect: it has no `key`");
    }
}

/// With `keep_request: never` there is neither a request to read from nor a credential of its own.
pub(super) fn needs_nothing_stored(field: &Field<'_>, query: Option<&Query>) {
    let Some(query) = query else {
        return;
    };
    if query.credential.is_none() {
        field.error("with `keep_request: never` this needs a `credential` of its own");
    }
    if query.templates().any(reads_request) {
        field.error("with `keep_request: never` only `operation` can be read from");
    }
}

fn reads_request(template: &Template) -> bool {
    let own = |member: &Member| *member == Member::OperationId;
    let own_root = |reference: &Reference| reference.root == Root::Operation;
    !(template.members().all(own) && template.references().all(own_root))
}

/// `get: TARGET`, or `post: TARGET` with `form` or `json`; `headers`, `credential`.
fn query(fields: &mut Fields<'_>, path: Option<&PathTemplate>) -> Option<Query> {
    let (get, post) = (fields.take("get"), fields.take("post"));
    let form = fields.take("form");
    let json = fields.take("json");
    let headers = fields.take("headers");
    let credential = credential(fields);
    let own = headers.map(|field| own_fields(&field)).unwrap_or_default();
    let (asked, content) = match (get, post) {
        (Some(get), None) => {
            for field in form.iter().chain(&json) {
                field.error("a GET carries no content; write `post`");
            }
            (get, None)
        }
        (None, Some(post)) => (post, content(form, json, path)),
        (None, None) => {
            fields.own().error("one of get, post is missing");
            return None;
        }
        (Some(_), Some(post)) => {
            post.error("it is asked by `get` or by `post`");
            return None;
        }
    };
    Some(Query {
        target: target(&asked, path)?,
        content,
        fields: own,
        credential,
    })
}

fn content(
    form: Option<Field<'_>>,
    json: Option<Field<'_>>,
    path: Option<&PathTemplate>,
) -> Option<Content> {
    match (form, json) {
        (Some(form), None) => {
            let named = form.named().into_iter();
            let named = named.filter_map(|(name, field)| {
                Some((name.to_owned(), value::template(&field, path)?))
            });
            Some(Content::Form(named.collect()))
        }
        (None, Some(json)) => Some(Content::Json(members(&json, path))),
        (None, None) => None,
        (Some(_), Some(json)) => {
            json.error("its content is a `form` or `json`");
            None
        }
    }
}

fn members(field: &Field<'_>, path: Option<&PathTemplate>) -> Vec<(String, Value)> {
    let named = field.named().into_iter();
    let named = named.filter_map(|(name, field)| {
        let value = if field.is_map() {
            Value::Object(members(&field, path))
        } else {
            let template = value::text_template(&field)?;
            value::path_names(&field, &template, path);
            Value::Text(template)
        };
        Some((name.to_owned(), value))
    });
    named.collect()
}

/// A path and a query, from `/`.
fn target(field: &Field<'_>, path: Option<&PathTemplate>) -> Option<Template> {
    let text = field.text()?;
    if !text.starts_with('/') || text.contains(['#', ' ']) {
        field.error(
            "expected a path, and a query where there is one (`/charges?ref={operation.id}`)",
        );
        return None;
    }
    let template = value::target_template(field)?;
    value::path_names(field, &template, path);
    Some(template)
}

fn own_fields(field: &Field<'_>) -> Vec<(HeaderName, HeaderValue)> {
    let named = field.named().into_iter();
    let named = named.filter_map(|(name, field)| {
        let header = HeaderName::try_from(name).ok();
        if header.is_none() {
            field.error(format!("`{name}` is not the name of a header"));
        }
        let value = field.read("the value of a header", |text| {
            HeaderValue::from_str(text).ok()
        })?;
        Some((header?, value))
    });
    named.collect()
}

fn credential(fields: &mut Fields<'_>) -> Option<Credential> {
    let field = fields.take("credential")?;
    let mut fields = field.map()?;
    let header = fields.or("header", http::header::AUTHORIZATION, value::header);
    let value = fields.need("value").and_then(|field| field.secret());
    fields.finish();
    Some(Credential {
        header,
        value: value?,
    })
}

fn pages(field: &Field<'_>) -> Option<Pages> {
    let mut fields = field.map()?;
    let parameter = fields
        .need("parameter")
        .and_then(|field| field.read("a name", |text| (!text.is_empty()).then(|| text.to_owned())));
    let next = fields
        .need("next")
        .and_then(|field| pick(&field, Pick::of_found));
    let most = fields.or("most", DEFAULT_PAGES, |field| {
        field.number("a number from 1 to 100", 1..=100)
    });
    fields.finish();
    Some(Pages {
        parameter: parameter?,
        next: next?,
        most,
    })
}

/// `outcome: { status: 200, body: EXPRESSION }`; by default everything that was found.
pub(super) fn outcome(
    fields: &mut Fields<'_>,
    whole: &str,
    parse: fn(&str) -> Result<Pick, ExpressionError>,
) -> Option<FoundOutcome<Pick>> {
    let whole = parse(whole).ok();
    let Some(field) = fields.take("outcome") else {
        return Some(FoundOutcome {
            status: DEFAULT_STATUS,
            body: whole,
        });
    };
    let mut fields = field.map()?;
    let status = fields.or("status", DEFAULT_STATUS, |field| {
        field.number("a status from 200 to 299", 200..=299)
    });
    let body = match fields.take("body") {
        Some(field) if field.is_word("none") => None,
        Some(field) => pick(&field, parse),
        None => whole,
    };
    fields.finish();
    Some(FoundOutcome { status, body })
}

fn pick(field: &Field<'_>, parse: fn(&str) -> Result<Pick, ExpressionError>) -> Option<Pick> {
    in_place(field, parse(field.text()?))
}

fn condition(field: &Field<'_>) -> Option<FoundCondition> {
    in_place(field, FoundCondition::parse(field.text()?))
}

/// Its problem stands where it is in the text.
pub(super) fn in_place<T>(field: &Field<'_>, read: Result<T, ExpressionError>) -> Option<T> {
    read.map_err(|error| field.error_within(error.offset, error.message))
        .ok()
}

fn answer_limit(fields: &mut Fields<'_>) -> usize {
    fields.or("answer", DEFAULT_ANSWER, |field| {
        let limit = field.read(SIZE, scalar::size)?;
        if limit > LARGEST_ANSWER {
            field.error("an answer to a question is at most 16MiB");
        }
        Some(limit)
    })
}
