//! What a request means under its rule, and in what it differs from the first of its identity.
//!
//! What always holds: fingerprints of two rules are never compared: each rule (`means`) has a key of
//! its own, and a record names the key. A request is also fingerprinted as it was before the rule or
//! the form changed, where that can still be done, so that a repeat across the change is recognised.
//!
//! What it does not do: compare (`protocol::meaning`), or say what refusals look like (`problem`).

use http::request::Parts;

use super::canonical::{Canonical, NotCanonical};
use super::fingerprint::FingerprintKey;
use super::members;
use super::selected::Selection;
use crate::config::{Means, Selected};
use crate::expression::{Missing, RequestFacts};
use crate::protocol::ids::Fingerprint;
use crate::protocol::meaning::{Meaning, Members};

/// A request has no meaning that could be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaningless {
    /// Its content cannot be read as what it says it is.
    NotCanonical(NotCanonical),
    /// It lacks what its rule names.
    Missing(Missing),
}

/// What the request means. `facts.body`: its whole content.
pub fn meaning(
    key: &FingerprintKey,
    rule: &Means,
    head: &Parts,
    facts: &RequestFacts<'_>,
) -> Result<Meaning, Meaningless> {
    let canonical = canonical(rule, head, facts)?;
    let fingerprint = under(key, rule).fingerprint(&canonical);
    Ok(Meaning {
        fingerprint,
        since: canonical.since(),
        former: former(key, rule, &canonical, head, facts),
        members: members::members(key, &canonical),
    })
}

/// The members in which the request differs from the one that `first` are of, by name; empty where
/// that cannot be told.
pub fn differences(
    key: &FingerprintKey,
    rule: &Means,
    head: &Parts,
    facts: &RequestFacts<'_>,
    first: &Members,
) -> Vec<String> {
    canonical(rule, head, facts)
        .map(|canonical| members::differences(key, &canonical, first))
        .unwrap_or_default()
}

fn canonical<'a>(
    rule: &Means,
    head: &'a Parts,
    facts: &RequestFacts<'a>,
) -> Result<Canonical<'a>, Meaningless> {
    let (method, target) = (head.method.as_str(), target(head));
    match rule {
        Means::Whole => Canonical::of(method, target, &head.headers, facts.body)
            .map_err(Meaningless::NotCanonical),
        Means::Raw => Ok(Canonical::exact(method, target, facts.body)),
        Means::Listed(rule) => {
            let selection = Selection::read(rule, facts).map_err(Meaningless::Missing)?;
            Ok(Canonical::selected(method, target, selection))
        }
    }
}

fn target(head: &Parts) -> &str {
    let target = head.uri.path_and_query();
    target.map_or("/", |target| target.as_str())
}

/// The same request as it would have been fingerprinted: byte by byte if it is multipart; as a whole
/// if it has a rule now. If *that* is found in a record, it is the same request under any rule.
fn former(
    key: &FingerprintKey,
    rule: &Means,
    canonical: &Canonical<'_>,
    head: &Parts,
    facts: &RequestFacts<'_>,
) -> Option<Fingerprint> {
    match rule {
        Means::Whole if canonical.since() > 1 => {
            let exact = Canonical::exact(head.method.as_str(), target(head), facts.body);
            Some(key.fingerprint(&exact))
        }
        Means::Whole => None,
        Means::Raw | Means::Listed(_) => {
            let whole = self::canonical(&Means::Whole, head, facts).ok()?;
            Some(key.fingerprint(&whole))
        }
    }
}

/// The key of a rule. Whether a member may be lacking does not change what a request means.
fn under(key: &FingerprintKey, rule: &Means) -> FingerprintKey {
    match rule {
        Means::Whole => key.clone(),
        Means::Raw => key.of_rule(["raw".to_owned()].into_iter()),
        Means::Listed(rule) => {
            let name = |selected: &Selected| selected.member.to_string();
            key.of_rule(rule.iter().map(name))
        }
    }
}

#[cfg(test)]
mod tests;
