//! `profiles`: what is known about APIs, as a config can use it.
//!
//! What always holds: it is the very text that configs are read with, sources included; nothing is asked
//! of anybody.
//!
//! What it does not do: check a profile of the user's own against a config (`check` does).

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::failure::Failure;
use super::table::{Facts, Table, clean_lines, or_dash};
use crate::config::{ProfileText, profiles};

#[derive(Subcommand)]
pub(super) enum Profiles {
    /// List them: where the key goes, and for how long it counts.
    List(OwnProfiles),
    /// Show one.
    Show(ProfileShow),
}

#[derive(Args)]
pub(super) struct OwnProfiles {
    /// A directory of further ones (`profiles` of the config); they stand in place of those of their name.
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) profiles: Option<PathBuf>,
}

#[derive(Args)]
pub(super) struct ProfileShow {
    /// Its name.
    #[arg(value_name = "NAME")]
    pub(super) name: String,
    /// The file as it is, with its sources.
    #[arg(long)]
    pub(super) yaml: bool,
    #[command(flatten)]
    pub(super) own: OwnProfiles,
}

/// Lists them, or shows one.
pub(super) fn run(command: &Profiles, as_json: bool) -> Result<String, Failure> {
    match command {
        Profiles::List(own) => {
            let all = profiles(own.profiles.as_deref()).map_err(Failure::Wrong)?;
            Ok(if as_json {
                listed_json(&all)
            } else {
                listed(&all)
            })
        }
        Profiles::Show(show) => {
            let all = profiles(show.own.profiles.as_deref()).map_err(Failure::Wrong)?;
            let profile = all.iter().find(|profile| profile.name == show.name);
            let profile = profile.ok_or_else(|| {
                let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
                Failure::Usage(format!(
                    "there is no profile `{}`; there are {}",
                    show.name,
                    names.join(", ")
                ))
            })?;
            Ok(shown(profile, show, as_json))
        }
    }
}

fn listed(all: &[ProfileText]) -> String {
    let mut table = Table::new(["NAME", "CAPABILITY", "KEY", "VALUE", "LONGEST", "LIFETIME"]);
    for profile in all {
        let fields = &profile.fields;
        let key = |name| text(fields.pointer("/key")?.get(name)?);
        let lifetime = lifetimes(fields);
        table.row([
            profile.name.clone(),
            text(&fields["capability"]).unwrap_or_default(),
            or_dash(place(&fields["key"])),
            or_dash(key("value")),
            or_dash(key("longest")),
            match (&fields["key"], lifetime.as_slice()) {
                (Value::Null, _) => "-".to_owned(),
                (_, []) => "unpublished".to_owned(),
                (_, all) => all.join(", "),
            },
        ]);
    }
    table.text()
}

fn listed_json(all: &[ProfileText]) -> String {
    let all: Vec<Value> = all.iter().map(document).collect();
    format!("{:#}", json!({ "profiles": all }))
}

fn document(profile: &ProfileText) -> Value {
    json!({
        "name": profile.name,
        "file": profile.file,
        "fields": profile.fields,
    })
}

fn shown(profile: &ProfileText, show: &ProfileShow, as_json: bool) -> String {
    if as_json {
        return format!("{:#}", document(profile));
    }
    if show.yaml {
        return clean_lines(&profile.yaml).into_owned();
    }
    let fields = &profile.fields;
    let key = &fields["key"];
    let of_key = |name: &str| text(key.get(name)?);
    let mut facts = Facts::default();
    facts
        .fact("name", Some(&profile.name))
        .fact("from", profile.file.as_ref().map(|file| file.display()))
        .fact("capability", text(&fields["capability"]))
        .fact("key", place(key))
        .fact("key value", of_key("value"))
        .fact("longest key", of_key("longest"))
        .fact("key format", of_key("format"))
        .fact("key lifetime", lifetime_of(key))
        .fact(
            "refusals",
            of_key("remembers_refusals").map(|it| format!("remembered under the key: {it}")),
        )
        .fact("principal", text(&fields["principal"]))
        .fact("signed", text(&fields["signed"]));
    for (class, rule) in members(&fields["answers"]) {
        facts.fact("answers", text(rule).map(|rule| format!("{class}: {rule}")));
    }
    for effect in fields["effects"].as_array().into_iter().flatten() {
        facts.fact("effect", text(&effect["on"]));
        for (name, value) in members(effect).filter(|(name, _)| *name != "on") {
            facts.fact("", text(value).map(|value| format!("  {name}: {value}")));
        }
    }
    facts.fact("unlisted", text(&fields["unlisted"]));
    for note in fields["notes"].as_array().into_iter().flatten() {
        facts.fact("note", text(note));
    }
    format!(
        "{}\nSources: `fencepost profiles show {} --yaml`\n",
        facts.text(),
        profile.name
    )
}

fn lifetime_of(key: &Value) -> Option<String> {
    if key.is_null() {
        return None;
    }
    let published = key.get("lifetime").and_then(text);
    Some(published.unwrap_or_else(|| {
        "unpublished: nothing is sent again unattended, unless the config says one".to_owned()
    }))
}

/// The upstream's and those of effects, each once.
fn lifetimes(fields: &Value) -> Vec<String> {
    let effects = fields["effects"].as_array().into_iter().flatten();
    let mut all = Vec::new();
    for key in std::iter::once(&fields["key"]).chain(effects.map(|effect| &effect["key"])) {
        let lifetime = key.get("lifetime").and_then(text);
        all.extend(lifetime.filter(|it| !all.contains(it)));
    }
    all
}

/// `json /idempotency_key`.
fn place(key: &Value) -> Option<String> {
    let places = ["header", "json", "form", "query", "graphql"];
    let mut named = places.iter().filter_map(|place| {
        let name = text(key.get(place)?)?;
        Some(format!("{place} {name}"))
    });
    named.next()
}

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let members = value.as_object().into_iter().flatten();
    members.map(|(name, value)| (name.as_str(), value))
}

/// Short, for a line; `None`: there is nothing.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Array(items) if items.is_empty() => Some("none".to_owned()),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().filter_map(text).collect();
            Some(items.join(", "))
        }
        Value::Object(_) => {
            let members: Vec<String> = members(value)
                .filter_map(|(name, value)| Some(format!("{name} {}", text(value)?)))
                .collect();
            Some(members.join(", "))
        }
    }
}
