//! Are two requests one operation? And if not, what tells them apart?
//!
//! What always holds: what is compared is what a running instance would compare; a value that is hidden
//! is compared and not shown.
//!
//! What it does not do: know which came first, or what became of it.

use serde::Serialize;

use super::explanation::any_key;
use super::views::{Composed, Explanation, Named};
use crate::protocol::meaning::Likeness;
use crate::protocol::operation::IdentityOrigin;
use crate::protocol::time::Millis;
use crate::wire::identify::Identified;

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
            return Self::without_key(one, other);
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
        if alike(one, other) {
            return Self {
                one_operation: true,
                verdict: "One operation: the second is a repeat, is not sent, and gets the answer of the first."
                    .to_owned(),
                differences,
            };
        }
        differences.extend(meanings(first, second));
        Self {
            one_operation: true,
            verdict: "One operation that says two things: the second is refused, 422 idempotency-key-reused. \
                      What differs:"
                .to_owned(),
            differences,
        }
    }

    /// One of them brings no key.
    fn without_key(one: &Identified, other: &Identified) -> Self {
        let equal = [one, other]
            .iter()
            .all(|it| it.origin == IdentityOrigin::Fresh)
            && alike(one, other)
            && one.key.principal == other.key.principal
            && one.key.upstream == other.key.upstream;
        match other.blind_retry.filter(|_| equal) {
            Some(Millis(within)) => Self::not(
                &format!(
                    "Two operations: a request that brings no key is new every time. But while it is not \
                     known what became of the first, and for {} s at most, the second joins it.",
                    within / 1_000
                ),
                Vec::new(),
            ),
            None => Self::not(
                "Two operations: a request that brings no key is new every time.",
                Vec::new(),
            ),
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

/// Do they mean the same?
fn alike(one: &Identified, other: &Identified) -> bool {
    other.meaning.likeness(&one.meaning.fingerprint) == Likeness::Same
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

/// What differs in what two requests mean, as the refusal would say it. Names, never values.
fn meanings(first: &Explanation, second: &Explanation) -> Vec<String> {
    let named = match (&first.identified, &second.original) {
        (Some(one), Some((original, rule))) => {
            original.differences(&any_key(), rule, &one.meaning.members)
        }
        (_, _) => Vec::new(),
    };
    if named.is_empty() {
        return vec!["more than can be named".to_owned()];
    }
    named
}
