//! Values computed from a request: templates in text, and the short forms `{ header: X }`.
//!
//! What always holds: a path parameter that is named is one that the path template captures.
//!
//! What it does not do: read values (`expression`).

use http::HeaderName;

use crate::config::field::{Field, Fields};
use crate::expression::{
    GraphQl, JsonPointer, Member, PathTemplate, Root, Template, TemplateError, XmlPath,
};

const FORMS: [&str; 8] = [
    "header",
    "json",
    "form",
    "query",
    "path",
    "multipart",
    "xml",
    "graphql",
];

/// A template in text, or a short form.
pub(super) fn template(field: &Field<'_>, path: Option<&PathTemplate>) -> Option<Template> {
    let template = if field.is_map() {
        let mut fields = field.map()?;
        let template = member(&mut fields).map(Template::of);
        fields.finish();
        template?
    } else {
        text_template(field)?
    };
    path_names(field, &template, path);
    Some(template)
}

/// A template in text.
pub(super) fn text_template(field: &Field<'_>) -> Option<Template> {
    read(field, Template::parse)
}

/// A template of a target.
pub(super) fn target_template(field: &Field<'_>) -> Option<Template> {
    read(field, Template::parse_target)
}

fn read(field: &Field<'_>, parse: fn(&str) -> Result<Template, TemplateError>) -> Option<Template> {
    match parse(field.text()?) {
        Ok(template) => Some(template),
        Err(error) => {
            field.error_within(error.offset, error.message);
            None
        }
    }
}

/// The one short form among the fields.
pub(super) fn member(fields: &mut Fields<'_>) -> Option<Member> {
    let named = FORMS.map(|form| (form, fields.take(form)));
    let mut named = named
        .into_iter()
        .filter_map(|(form, field)| Some((form, field?)));
    let Some((form, field)) = named.next() else {
        fields
            .own()
            .error(format!("one of {} is missing", FORMS.join(", ")));
        return None;
    };
    if let Some((_, second)) = named.next() {
        second.error("a value comes from one place");
    }
    match form {
        "header" => header(&field).map(Member::Header),
        "json" => {
            let pointer = field.read("a JSON pointer (`/order/id`)", JsonPointer::parse);
            pointer.map(Member::Json)
        }
        "form" => name(&field).map(Member::Form),
        "query" => name(&field).map(Member::Query),
        "multipart" => name(&field).map(Member::Multipart),
        "xml" => {
            let path = field.read("the path of an element (`/order/id`)", XmlPath::parse);
            path.map(Member::Xml)
        }
        "graphql" => {
            let expected = "a variable (`amount`, `input.order.id`) or `operationName`";
            field.read(expected, GraphQl::parse).map(Member::GraphQl)
        }
        _ => name(&field).map(Member::Path),
    }
}

fn name(field: &Field<'_>) -> Option<String> {
    field.read("a name", |text| (!text.is_empty()).then(|| text.to_owned()))
}

/// Headers that say how a message is transferred: they do not survive a proxy, or break the message.
const TRANSFER: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A header that means something end to end.
pub(super) fn header(field: &Field<'_>) -> Option<HeaderName> {
    let header = field.read("the name of a header", |text| {
        HeaderName::try_from(text).ok()
    })?;
    if TRANSFER.contains(&header.as_str()) {
        field.error(format!(
            "`{header}` belongs to one connection and cannot carry this"
        ));
    }
    Some(header)
}

/// `{ header: X }` only.
pub(super) fn header_form(field: &Field<'_>) -> Option<HeaderName> {
    let mut fields = field.map()?;
    let header = fields.need("header").and_then(|field| header(&field));
    fields.finish();
    header
}

/// Are the path parameters there?
pub(super) fn path_names(field: &Field<'_>, template: &Template, path: Option<&PathTemplate>) {
    let known = |name: &str| path.is_some_and(|path| path.names().any(|known| known == name));
    let unknown = |name: &str| format!("the path of this effect has no parameter `{{{name}}}`");
    for member in template.members() {
        if let Member::Path(name) = member
            && !known(name)
        {
            field.error(unknown(name));
        }
    }
    for reference in template.references() {
        if let (Root::Path, Some(name)) = (reference.root, &reference.name)
            && !known(name)
        {
            field.error_within(reference.offset, unknown(name));
        }
    }
}
