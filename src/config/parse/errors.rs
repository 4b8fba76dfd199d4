//! The shapes of errors for a vendor's SDK.
//!
//! What always holds: a shape names problems, facts and a status that there are; content is JSON.
//!
//! What it does not do: fill anything in (`config::errors`).

use http::{HeaderName, HeaderValue};
use serde_json::Value;

use crate::config::errors::{ErrorShape, PROBLEMS, RETRIES, unknown_fact};
use crate::config::field::{Field, Fields};

/// Reads `errors`, in the order in which they are tried.
pub(super) fn errors(fields: &mut Fields<'_>) -> Vec<ErrorShape> {
    let Some(field) = fields.take("errors") else {
        return Vec::new();
    };
    let items = field.list().unwrap_or_default();
    items.iter().filter_map(shape).collect()
}

fn shape(field: &Field<'_>) -> Option<ErrorShape> {
    let mut fields = field.map()?;
    let names = fields.take("for").map(|field| names(&field));
    let retry = fields.take("retry").and_then(|field| {
        let words = RETRIES.map(|word| (word, word));
        field.choice(&words)
    });
    let status = fields
        .take("status")
        .and_then(|field| field.number("a status from 400 to 599", 400..=599));
    let headers = fields.take("headers").map(|field| headers(&field));
    let body = fields.need("body").and_then(|field| body(&field));
    fields.finish();
    Some(ErrorShape {
        names: names.unwrap_or_default(),
        retry,
        status,
        headers: headers.unwrap_or_default(),
        body: body?,
    })
}

fn names(field: &Field<'_>) -> Vec<&'static str> {
    let known = PROBLEMS.map(|name| (name, name));
    let items = field.list().unwrap_or_default();
    items
        .iter()
        .filter_map(|item| item.choice(&known))
        .collect()
}

/// Fields that would say how the answer is framed, or what it holds, are not theirs.
fn headers(field: &Field<'_>) -> Vec<(HeaderName, HeaderValue)> {
    let mut headers = Vec::new();
    for (name, field) in field.named() {
        let named = HeaderName::try_from(name).ok();
        let is_ours = |it: &HeaderName| {
            it.as_str().starts_with("fencepost-")
                || matches!(it.as_str(), "content-type" | "location")
        };
        let framing = [
            "content-length",
            "transfer-encoding",
            "connection",
            "trailer",
            "upgrade",
        ];
        match named {
            Some(named) if !is_ours(&named) && !framing.contains(&named.as_str()) => {
                let value = field.read("the value of a header", |text| {
                    HeaderValue::try_from(text).ok()
                });
                headers.extend(value.map(|value| (named, value)));
            }
            Some(_) | None => field.error(format!("`{name}` is no header that an error may set")),
        }
    }
    headers
}

fn body(field: &Field<'_>) -> Option<Value> {
    let expected = "JSON (`{\"error\": {\"message\": \"{detail}\"}}`)";
    let body: Value = field.read(expected, |text| serde_json::from_str(text).ok())?;
    if let Some(name) = unknown_fact(&body) {
        field.error(format!(
            "`{{{name}}}` is nothing that is known of an error: name, title, detail, retry, operation, status \
             are"
        ));
    }
    Some(body)
}
