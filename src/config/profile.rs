//! Profiles: what is known about an API, as data under a name.
//!
//! What always holds: a profile is a file of the same fields that an upstream has, never a branch in
//! code. What the config says about the same field wins: maps are merged field by field, the
//! config's effects come before the profile's, other values are replaced. Values from a profile stand
//! where the config names it, since that is the line its author can change. A profile of the config's own
//! directory stands for the one of its name that is compiled in.
//!
//! What it does not do: know what its fields mean (`parse`).

use std::io::Read;
use std::path::{Path, PathBuf};

use super::field::Field;
use super::inside::Inside;
use super::parse::PLACES;
use super::problems::{Findings, Place};
use super::tree::{Entry, Node, Value, build};

/// Compiled in, by name.
const PROFILES: [(&str, &str); 20] = [
    ("adyen", include_str!("../../config/profiles/adyen.yaml")),
    (
        "aws-ec2",
        include_str!("../../config/profiles/aws-ec2.yaml"),
    ),
    ("brevo", include_str!("../../config/profiles/brevo.yaml")),
    (
        "checkout-com",
        include_str!("../../config/profiles/checkout-com.yaml"),
    ),
    (
        "generic",
        include_str!("../../config/profiles/generic.yaml"),
    ),
    ("github", include_str!("../../config/profiles/github.yaml")),
    (
        "gocardless",
        include_str!("../../config/profiles/gocardless.yaml"),
    ),
    ("google", include_str!("../../config/profiles/google.yaml")),
    ("ietf", include_str!("../../config/profiles/ietf.yaml")),
    (
        "increase",
        include_str!("../../config/profiles/increase.yaml"),
    ),
    ("paypal", include_str!("../../config/profiles/paypal.yaml")),
    ("resend", include_str!("../../config/profiles/resend.yaml")),
    ("s3", include_str!("../../config/profiles/s3.yaml")),
    (
        "sendgrid",
        include_str!("../../config/profiles/sendgrid.yaml"),
    ),
    (
        "shopify-graphql",
        include_str!("../../config/profiles/shopify-graphql.yaml"),
    ),
    ("square", include_str!("../../config/profiles/square.yaml")),
    (
        "stripe-v1",
        include_str!("../../config/profiles/stripe-v1.yaml"),
    ),
    (
        "stripe-v2",
        include_str!("../../config/profiles/stripe-v2.yaml"),
    ),
    ("twilio", include_str!("../../config/profiles/twilio.yaml")),
    ("wise", include_str!("../../config/profiles/wise.yaml")),
];

/// Longer than any profile has reason to be.
const LONGEST: u64 = 256 << 10;

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

/// The profiles that a config can name.
#[derive(Debug, Default)]
pub(super) struct Library {
    /// Where its own are.
    own: Option<PathBuf>,
}

/// A profile for whoever reads it.
#[derive(Clone, Debug)]
pub struct ProfileText {
    /// What a config calls it.
    pub name: String,
    /// The file that it comes from; `None`: it is compiled in.
    pub file: Option<PathBuf>,
    /// As it is written, with its sources.
    pub yaml: String,
    /// What it says, without its comments.
    pub fields: serde_json::Value,
}

/// All profiles by name: those that are compiled in, and in their place or beside them those of a
/// directory. `Err`: the directory or one of its files cannot be read, in words.
pub fn profiles(own: Option<&Path>) -> Result<Vec<ProfileText>, String> {
    let mut all = Vec::new();
    for (name, yaml) in PROFILES {
        all.push(ProfileText::of(name, None, yaml.to_owned())?);
    }
    for (name, file) in own.map(own_files).transpose()?.unwrap_or_default() {
        let yaml = read(&file)?;
        all.retain(|known| known.name != name);
        all.push(ProfileText::of(&name, Some(file), yaml)?);
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

impl ProfileText {
    fn of(name: &str, file: Option<PathBuf>, yaml: String) -> Result<Self, String> {
        let (tree, problems) = tree_of(&yaml);
        let tree = tree.filter(|_| problems.is_empty());
        let tree = tree.ok_or_else(|| format!("profile `{name}`: {}", problems.join("; ")))?;
        Ok(Self {
            name: name.to_owned(),
            file,
            fields: json(&tree),
            yaml,
        })
    }
}

impl Library {
    /// With the profiles of a directory, or without.
    pub(super) fn new(own: Option<PathBuf>) -> Self {
        Self { own }
    }

    /// The profile that a field names. Problems are reported there.
    pub(super) fn find(&self, field: &Field<'_>) -> Option<Profile> {
        field.suggest(&PROFILES.map(|(name, _)| name));
        let is_plain = |text: &str| super::parse::is_name(text);
        let expected = "the name of a profile (`fencepost profiles list`)";
        let name = field.read(expected, |text| is_plain(text).then_some(text))?;
        let yaml = self.yaml(name, field)?;
        let (tree, problems) = tree_of(&yaml);
        for problem in &problems {
            field.error(format!("profile `{name}`, {problem}"));
        }
        Some(profile(tree?, field.at()))
    }

    fn yaml(&self, name: &str, field: &Field<'_>) -> Option<String> {
        let own = self
            .own
            .as_ref()
            .map(|own| own.join(format!("{name}.yaml")));
        if let Some(file) = own.filter(|file| file.exists()) {
            field.depends_on(file.clone());
            return read(&file).map_err(|problem| field.error(problem)).ok();
        }
        let built_in = PROFILES.iter().find(|(known, _)| *known == name);
        if built_in.is_none() {
            let names = PROFILES.map(|(name, _)| name).join(", ");
            field.error(format!(
                "there is no profile `{name}`; compiled in are {names}"
            ));
        }
        built_in.map(|(_, yaml)| (*yaml).to_owned())
    }
}

/// Names and files of the profiles in a directory.
fn own_files(directory: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let unreadable = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        let is_yaml = file
            .extension()
            .is_some_and(|extension| extension == "yaml");
        let name = file.file_stem().and_then(|stem| stem.to_str());
        let name = name.filter(|name| is_yaml && super::parse::is_name(name));
        files.extend(name.map(str::to_owned).map(|name| (name, file)));
    }
    Ok(files)
}

fn read(file: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("{}: {error}", file.display());
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(unreadable)?;
    // One byte more than there may be tells whether there is more.
    let mut bounded = opened.take(LONGEST.saturating_add(1));
    bounded.read_to_string(&mut text).map_err(unreadable)?;
    if u64::try_from(text.len()).is_ok_and(|length| length <= LONGEST) {
        Ok(text)
    } else {
        let file = file.display();
        Err(format!("{file}: is longer than {} KiB", LONGEST >> 10))
    }
}

/// The tree, and what is wrong with it as YAML.
fn tree_of(yaml: &str) -> (Option<Node>, Vec<String>) {
    let findings = Findings::default();
    let tree = build(yaml, &findings);
    let problems = findings.into_list();
    let problems = problems
        .iter()
        .map(|it| format!("line {}, column {}: {}", it.line, it.column, it.message));
    (tree, problems.collect())
}

fn json(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Null => serde_json::Value::Null,
        Value::Scalar(scalar) => match scalar.text.as_str() {
            "true" => true.into(),
            "false" => false.into(),
            text => match text.parse::<u64>() {
                Ok(number) => number.into(),
                Err(_) => text.into(),
            },
        },
        Value::List(items) => items.iter().map(json).collect(),
        Value::Map(entries) => {
            let entries = entries.iter().map(|it| (it.key.clone(), json(&it.node)));
            serde_json::Value::Object(entries.collect())
        }
    }
}

/// The names of those that are compiled in.
#[cfg(test)]
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
fn profile(mut upstream: Node, at: Place) -> Profile {
    relocate(&mut upstream, at);
    let answers = remove(&mut upstream, "answers");
    let notes = remove(&mut upstream, "notes")
        .map(texts)
        .unwrap_or_default();
    Profile {
        upstream,
        answers,
        notes,
    }
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
    // A text goes to one place: that of the config, if it names one.
    let is_place = |entry: &Entry| PLACES.contains(&entry.key.as_str());
    let has_place = own.iter().any(is_place);
    for theirs in base
        .iter()
        .filter(|theirs| !(has_place && is_place(theirs)))
    {
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
        let config = tree("key: { json: /k, value: derived }\ncapability: []\neffects: [mine]\n");
        let profile = tree(
            "key: { header: K, value: caller, longest: 9 }\ncapability: [idempotent]\neffects: [theirs]\nunlisted: pass\n",
        );
        assert_eq!(
            shown(&overlay(&config, &profile)),
            "{key:{json:/k,value:derived,longest:9},capability:[],effects:[mine,theirs],unlisted:pass}"
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
