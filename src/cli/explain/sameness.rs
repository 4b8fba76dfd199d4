//! Are two requests one operation? And if not, what tells them apart?
//!
//! What always holds: what is compared is what a running instance would compare; a value that is hidden
//! is compared and not shown.
//!
//! What it does not do: know which came first, or what became of it.

use http::Method;
use serde::Serialize;
use serde_json::Value;

use super::views::{Composed, Explanation, Named};
use crate::protocol::operation::IdentityOrigin;
use crate::protocol::outcome::StoredRequest;

/// Most differences that are listed.
const LISTED: usize = 10;

/// The verdict on two requests.
#[derive(Debug, Serialize)]
pub(super) struct Sameness {
    pub(super) one_operation: bool,
    /// In one sentence.
    pub(super) verdict: String,
    /// What tells them apart, or what differs although they are one.
    pub(super) differences: Vec<String>,
}

impl Sameness {
    /// Compares what was found out about two requests.
    pub(super) fn of(first: &Explanation, second: &Explanation) -> Self {
        let (Some(one), Some(other)) = (&first.identified, &second.identified) else {
            return Self::not(
                "Not one operation: one of them has no identity, for the reason given below.",
                Vec::new(),
            );
        };
        if [one, other]
            .iter()
            .any(|it| it.origin == IdentityOrigin::Fresh)
        {
            return Self::not(
                "Two operations: a request that brings no key is new every time.",
                Vec::new(),
            );
        }
        if one.key != other.key {
            let apart = Apart { first, second }.differences();
            return Self::not("Two operations. What tells them apart:", apart);
        }
        let mut differences = Vec::new();
        let (token, other_token) = (shown_token(first), shown_token(second));
        if token != other_token {
            differences.push(format!(
                "token: {token}, {other_token} (not part of the identity: once ever, whoever owns the work)"
            ));
        }
        if one.fingerprint == other.fingerprint {
            return Self {
                one_operation: true,
                verdict: "One operation: the second is a repeat, is not sent, and gets the answer of the first."
                    .to_owned(),
                differences,
            };
        }
        differences.extend(meanings(&one.request, &other.request));
        Self {
            one_operation: true,
            verdict: "One operation that says two things: the second is refused, 422 idempotency-key-reused. \
                      What differs:"
                .to_owned(),
            differences,
        }
    }

    fn not(verdict: &str, differences: Vec<String>) -> Self {
        Self {
            one_operation: false,
            verdict: verdict.to_owned(),
            differences,
        }
    }
}

struct Apart<'a> {
    first: &'a Explanation,
    second: &'a Explanation,
}

impl Apart<'_> {
    fn differences(&self) -> Vec<String> {
        let (first, second) = (self.first, self.second);
        let mut all = Vec::new();
        if first.upstream != second.upstream {
            all.push(format!("upstream: {}, {}", first.upstream, second.upstream));
        }
        if first.effect != second.effect {
            let rule = |it: &Explanation| it.effect.clone().unwrap_or_default();
            all.push(format!("effect: {}, {}", rule(first), rule(second)));
        }
        let principals = (first.principal.as_deref(), second.principal.as_deref());
        if let (Some(one), Some(other)) = principals {
            all.extend(parts("principal", one, other));
        }
        if let (Some(one), Some(other)) = (&first.once, &second.once) {
            all.extend(parts_of("once", one, other));
        }
        all
    }
}

fn parts_of(of: &str, one: &Composed, other: &Composed) -> Vec<String> {
    if one.template != other.template {
        return vec![format!("{of}: {}, {}", one.template, other.template)];
    }
    parts(of, &one.parts, &other.parts)
}

fn parts(of: &str, one: &[Named], other: &[Named]) -> Vec<String> {
    let differ = one.iter().zip(other).filter(|(a, b)| a.plain != b.plain);
    differ
        .map(|(a, b)| format!("{of}, {}: {}, {}", a.name, shown(a), shown(b)))
        .collect()
}

fn shown(part: &Named) -> &str {
    part.value.as_deref().unwrap_or("(none)")
}

fn shown_token(explanation: &Explanation) -> String {
    let token = explanation.token.as_ref();
    let value = token.and_then(|token| token.value.clone());
    value.unwrap_or_else(|| "(none)".to_owned())
}

/// What differs in what two requests mean. Names, never values.
fn meanings(one: &StoredRequest, other: &StoredRequest) -> Vec<String> {
    let mut all = Vec::new();
    if one.method != other.method {
        let word = |it: &StoredRequest| Method::from_bytes(&it.method).unwrap_or_default();
        all.push(format!("method: {}, {}", word(one), word(other)));
    }
    let halves = |it: &StoredRequest| {
        let target = String::from_utf8_lossy(&it.target).into_owned();
        match target.split_once('?') {
            Some((path, query)) => (path.to_owned(), Some(query.to_owned())),
            None => (target, None),
        }
    };
    let ((path, query), (other_path, other_query)) = (halves(one), halves(other));
    if path != other_path {
        all.push("path".to_owned());
    }
    if query != other_query {
        all.push("query".to_owned());
    }
    if one.body != other.body || all.is_empty() {
        all.extend(contents(&one.body, &other.body));
    }
    all
}

fn contents(one: &[u8], other: &[u8]) -> Vec<String> {
    let json = |bytes| serde_json::from_slice::<Value>(bytes).ok();
    let mut all = Vec::new();
    if let (Some(one), Some(other)) = (json(one), json(other)) {
        members(&one, &other, "", &mut all);
    } else if let (Some(one), Some(other)) = (pairs(one), pairs(other)) {
        let names = one.iter().chain(&other).map(|(name, _)| name);
        let mut names: Vec<&String> = names.collect();
        names.sort_unstable();
        names.dedup();
        let values = |pairs: &[(String, String)], name: &str| -> Vec<String> {
            let own = pairs.iter().filter(|(own, _)| own == name);
            own.map(|(_, value)| value.clone()).collect()
        };
        let differ = names
            .into_iter()
            .filter(|it| values(&one, it) != values(&other, it));
        all.extend(differ.map(|name| format!("form field {name}")));
    }
    if all.is_empty() {
        all.push("content, byte by byte".to_owned());
    }
    all.truncate(LISTED);
    all
}

/// Pointers to the members that differ, the innermost ones.
fn members(one: &Value, other: &Value, at: &str, all: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let names = one
                .keys()
                .chain(other.keys().filter(|it| !one.contains_key(*it)));
            for name in names {
                let at = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                match (one.get(name), other.get(name)) {
                    (Some(one), Some(other)) => members(one, other, &at, all),
                    (_, _) => all.push(format!("JSON member {at}: only one of them has it")),
                }
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                members(one, other, &format!("{at}/{index}"), all);
            }
        }
        (one, other) if one == other => {}
        (_, _) => all.push(format!(
            "JSON member {}",
            if at.is_empty() { "/" } else { at }
        )),
    }
}

fn pairs(bytes: &[u8]) -> Option<Vec<(String, String)>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let pairs = text.split('&').map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named_and_its_values_are_not() {
        let said = |one: &str, other: &str| contents(one.as_bytes(), other.as_bytes()).join(", ");
        assert_eq!(
            said(
                r#"{"a":{"b/c":1,"d":[1,2]},"e":1}"#,
                r#"{"a":{"b/c":2,"d":[1,3]}}"#
            ),
            "JSON member /a/b~1c, JSON member /a/d/1, JSON member /e: only one of them has it"
        );
        assert_eq!(
            said("a=1&b=2&b=3", "a=1&b=3&b=2&c=4"),
            "form field b, form field c"
        );
        assert_eq!(said("x", "y"), "content, byte by byte");
        // Two numbers to a fingerprint, one to this reader.
        assert_eq!(said("[1e2]", "[1E2]"), "content, byte by byte");
    }
}
