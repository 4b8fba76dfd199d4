//! `means`: what of a request counts when it is compared with the first of its identity.
//!
//! What always holds: a list names at least one thing, nothing twice, and only what the request itself
//! holds: not the token, which the next owner has another of.
//!
//! What it does not do: read requests (`wire`).

use super::value;
use crate::config::field::{Field, Fields};
use crate::config::settings::{Means, Selected};
use crate::expression::{PathTemplate, Template};

/// Reads `means`; without it the whole request counts.
pub(super) fn means(fields: &mut Fields<'_>, path: Option<&PathTemplate>) -> Means {
    fields.or("means", Means::Whole, |field| {
        if field.is_list() {
            return listed(field, path);
        }
        let whole = field.choice(&[("raw", false), ("whole", true)])?;
        Some(if whole { Means::Whole } else { Means::Raw })
    })
}

fn listed(field: &Field<'_>, path: Option<&PathTemplate>) -> Option<Means> {
    let items = field.list()?;
    if items.is_empty() {
        field.error("names nothing: all requests of one identity would be the same");
    }
    let mut listed: Vec<Selected> = Vec::new();
    for item in items {
        let Some(selected) = selected(&item, path) else {
            continue;
        };
        if listed.iter().any(|other| other.member == selected.member) {
            item.error("is named already");
        }
        listed.push(selected);
    }
    (!listed.is_empty()).then_some(Means::Listed(listed))
}

/// `{ json: /amount }`, `{ header: X, optional: true }`.
fn selected(field: &Field<'_>, path: Option<&PathTemplate>) -> Option<Selected> {
    let mut fields = field.map()?;
    let member = value::member(&mut fields);
    let optional = fields.or("optional", false, Field::boolean);
    fields.finish();
    let member = member?;
    value::path_names(field, &Template::of(member.clone()), path);
    Some(Selected { member, optional })
}
