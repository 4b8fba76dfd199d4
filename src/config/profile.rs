//! Profiles: what is known about an API, as data under a name.
//!
//! What always holds: a profile is a file of the same fields that an upstream has, never a branch in
//! code. What the config says about the same field wins: maps are merged field by field, the
//! config's effects come before the profile's, other values are replaced. Values from a profile stand
//! where the config names it, since that is the line its author can change.
//!
//! What it does not do: read profiles from a directory (a later version; [`find`] is the seam).

use super::inside::Inside;
use super::problems::{Findings, Place};
use super::tree::{Entry, Node, Value, build};

/// Compiled in.
const PROFILES: [(&str, &str); 2] = [
    (
        "generic",
        include_str!("../../config/profiles/generic.yaml"),
    ),
    (
        "stripe-v1",
        include_str!("../../config/profiles/stripe-v1.yaml"),
    ),
];

/// What a profile brings.
#[derive(Debug)]
pub(super) struct Profile {
    /// Fields of an upstream.
    pub(super) upstream: Node,
    /// Its table of answers, laid under the config's own.
    pub(super) answers: Option<Node>,
    /// What somebody who uses it should know.
    pub(super) notes: Vec<String>,
}

/// The names there are.
pub(super) fn names() -> [&'static str; PROFILES.len()] {
    PROFILES.map(|(name, _)| name)
}

/// Does some profile bring the field that stands there below an upstream?
pub(super) fn brings(path: &[&str]) -> bool {
    PROFILES.iter().any(|(_, text)| {
        let tree = build(text, &Findings::default());
        path.iter()
            .try_fold(tree, |node, name| match node?.value {
                Value::Map(entries) => {
                    let entry = entries.into_iter().find(|entry| entry.key == *name);
                    entry.map(|entry| Some(entry.node))
                }
                Value::Null | Value::Scalar(_) | Value::List(_) => None,
            })
            .is_some()
    })
}

/// A profile, as if it stood at that place of the config.
pub(super) fn find(name: &str, at: Place) -> Option<Profile> {
    let (_, text) = PROFILES.iter().find(|(known, _)| *known == name)?;
    // Compiled in and loaded by a test: a problem here would be ours.
    let mut upstream = build(text, &Findings::default())?;
    relocate(&mut upstream, at);
    let answers = remove(&mut upstream, "answers");
    let notes = remove(&mut upstream, "notes")
        .map(texts)
        .unwrap_or_default();
    Some(Profile {
        upstream,
        answers,
        notes,
    })
}

impl Profile {
    /// As it is for an upstream: what its callbacks are like counts only where somebody listens for them.
    pub(super) fn for_upstream(mut self, config: &Node) -> Self {
        let listens = match &config.value {
            Value::Map(entries) => entries.iter().any(|entry| entry.key == "callbacks"),
            Value::Null | Value::Scalar(_) | Value::List(_) => false,
        };
        if !listens {
            remove(&mut self.upstream, "callbacks");
        }
        self
    }
}

fn remove(node: &mut Node, name: &str) -> Option<Node> {
    let Value::Map(entries) = &mut node.value else {
        return None;
    };
    let index = entries.iter().position(|entry| entry.key == name)?;
    Some(entries.remove(index).node)
}

fn texts(node: Node) -> Vec<String> {
    let Value::List(items) = node.value else {
        return Vec::new();
    };
    let texts = items.into_iter().filter_map(|item| match item.value {
        Value::Scalar(scalar) => Some(scalar.text),
        Value::Null | Value::List(_) | Value::Map(_) => None,
    });
    texts.collect()
}

fn relocate(node: &mut Node, at: Place) {
    node.at = at;
    match &mut node.value {
        Value::Null => {}
        Value::Scalar(scalar) => scalar.inside = Inside::Unknown,
        Value::List(items) => items.iter_mut().for_each(|item| relocate(item, at)),
        Value::Map(entries) => {
            for entry in entries {
                entry.at = at;
                relocate(&mut entry.node, at);
            }
        }
    }
}

/// The config's node, with the profile's fields where it has none.
pub(super) fn overlay(config: &Node, profile: &Node) -> Node {
    let value = match (&config.value, &profile.value) {
        (Value::Map(own), Value::Map(base)) => Value::Map(overlay_entries(own, base)),
        (Value::Null | Value::Scalar(_) | Value::List(_) | Value::Map(_), _) => {
            config.value.clone()
        }
    };
    Node {
        at: config.at,
        value,
    }
}

fn overlay_entries(own: &[Entry], base: &[Entry]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = own.to_vec();
    for theirs in base {
        match entries.iter_mut().find(|entry| entry.key == theirs.key) {
            None => entries.push(theirs.clone()),
            Some(ours) if ours.key == "effects" => append(&mut ours.node, &theirs.node),
            Some(ours) => ours.node = overlay(&ours.node, &theirs.node),
        }
    }
    entries
}

fn append(own: &mut Node, base: &Node) {
    if let (Value::List(own), Value::List(base)) = (&mut own.value, &base.value) {
        own.extend(base.iter().cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Node {
        build(text, &Findings::default()).unwrap()
    }

    fn shown(node: &Node) -> String {
        match &node.value {
            Value::Null => "null".to_owned(),
            Value::Scalar(scalar) => scalar.text.clone(),
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(shown).collect();
                format!("[{}]", items.join(","))
            }
            Value::Map(entries) => {
                let entry = |e: &Entry| format!("{}:{}", e.key, shown(&e.node));
                let entries: Vec<String> = entries.iter().map(entry).collect();
                format!("{{{}}}", entries.join(","))
            }
        }
    }

    #[test]
    fn the_config_wins_field_by_field() {
        let config = tree("key: { value: derived }\ncapability: []\neffects: [mine]\n");
        let profile = tree(
            "key: { header: K, value: caller }\ncapability: [idempotent]\neffects: [theirs]\nunlisted: pass\n",
        );
        assert_eq!(
            shown(&overlay(&config, &profile)),
            "{key:{value:derived,header:K},capability:[],effects:[mine,theirs],unlisted:pass}"
        );
    }

    #[test]
    fn every_profile_is_readable_yaml() {
        for (name, text) in PROFILES {
            let findings = Findings::default();
            assert!(build(text, &findings).is_some(), "{name}");
            assert_eq!(findings.into_list(), Vec::new(), "{name}");
        }
    }
}
