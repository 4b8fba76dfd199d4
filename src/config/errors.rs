//! How refusals and uncertain answers of the proxy's own are shaped for a vendor's SDK.
//!
//! What always holds: the first shape that fits a problem counts; where none does, the problem goes out as
//! problem+json. Content is JSON with texts filled in, so that nothing a caller named can break it.
//!
//! What it does not do: apply a shape (`wire`), or know what an SDK makes of it.

use http::{HeaderName, HeaderValue};
use serde_json::Value;

/// The names of problems that callers of effects are told, as in the documentation.
pub(crate) const PROBLEMS: [&str; 31] = [
    "answer-expired",
    "body-too-large",
    "credential-required",
    "dispatch-expired",
    "draining",
    "fencing-token-malformed",
    "fencing-token-required",
    "fencing-token-unknown",
    "generation-used",
    "idempotency-key-malformed",
    "idempotency-key-required",
    "idempotency-key-reused",
    "identity-missing",
    "insertion-refused",
    "lease-held",
    "lease-lost",
    "lease-not-current",
    "meaning-not-comparable",
    "near-duplicate",
    "needs-attention",
    "no-route",
    "operation-in-flight",
    "outcome-uncertain",
    "overloaded",
    "predecessor-unsettled",
    "resource-cancelled",
    "sequence-regressed",
    "stale-fencing-token",
    "store-unavailable",
    "token-held-by-another",
    "upstream-unreachable",
];

/// Whether a retry can help, in the words of a problem.
pub(crate) const RETRIES: [&str; 3] = ["never", "same-operation", "after-settlement"];

/// What a text of a shape may name.
pub(crate) const FACTS: [&str; 6] = ["name", "title", "detail", "retry", "operation", "status"];

/// A shape for some problems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorShape {
    /// For these; none: for all.
    pub names: Vec<&'static str>,
    /// Only where a retry can help so much; `None`: whatever.
    pub retry: Option<&'static str>,
    /// Its status; `None`: the problem's own.
    pub status: Option<u16>,
    /// Fields beside the usual ones.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Its content: JSON whose texts may name facts.
    pub body: Value,
}

impl ErrorShape {
    /// Is it for this problem?
    pub fn fits(&self, name: &str, retry: &str) -> bool {
        (self.names.is_empty() || self.names.contains(&name))
            && self.retry.is_none_or(|only| only == retry)
    }

    /// Its content, with facts filled in.
    pub fn filled(&self, fact: &dyn Fn(&str) -> String) -> Value {
        filled(&self.body, fact)
    }
}

fn filled(value: &Value, fact: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(text_filled(text, fact)),
        Value::Array(items) => items.iter().map(|item| filled(item, fact)).collect(),
        Value::Object(members) => {
            let members = members.iter();
            let members = members.map(|(name, value)| (name.clone(), filled(value, fact)));
            Value::Object(members.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// What is filled in is not looked at again.
fn text_filled(text: &str, fact: &dyn Fn(&str) -> String) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        match after.split_once('}') {
            Some((name, later)) if FACTS.contains(&name) => {
                out.push_str(&fact(name));
                rest = later;
            }
            Some(_) | None => {
                out.push('{');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// The first name in braces that is no fact.
pub(super) fn unknown_fact(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => text.split('{').skip(1).find_map(|part| {
            let (name, _) = part.split_once('}')?;
            (!FACTS.contains(&name)).then_some(name)
        }),
        Value::Array(items) => items.iter().find_map(unknown_fact),
        Value::Object(members) => members.values().find_map(unknown_fact),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_are_filled_in_once_and_cannot_break_the_content() {
        let shape = ErrorShape {
            names: vec!["no-route"],
            retry: Some("never"),
            status: None,
            headers: Vec::new(),
            body: json!({"error": {"code": "x_{name}", "all": ["{detail}", 1, true], "{name}": null}}),
        };
        let fact = |name: &str| match name {
            "detail" => "a \"quote\" and {name}".to_owned(),
            other => other.to_uppercase(),
        };
        assert_eq!(
            shape.filled(&fact),
            json!({"error": {
                "code": "x_NAME", "all": ["a \"quote\" and {name}", 1, true], "{name}": null,
            }})
        );
        assert!(shape.fits("no-route", "never"));
        assert!(!shape.fits("no-route", "same-operation"));
        assert!(!shape.fits("draining", "never"));
    }

    #[test]
    fn a_name_that_is_no_fact_is_found() {
        assert_eq!(
            unknown_fact(&json!({"a": ["{name}", "{nmae}"]})),
            Some("nmae")
        );
        assert_eq!(unknown_fact(&json!({"a": "{detail} {"})), None);
    }
}
