//! The JSON Schema of the config (draft 2020-12), found out from the parser itself.
//!
//! What always holds: there is no second list of fields. The parser is run on small documents, one for
//! each known place and each kind of value that could stand there, and notes what it asks; whatever
//! it asks for is a place of its own, and so on until nothing new turns up. A field that the parser
//! learns is in the schema; one that it refuses by name is not.
//!
//! What it does not do: state rules between fields, or what a template may name. Whatever the schema
//! refuses is refused by `check` too; the reverse does not hold.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Map, Value as Json, json};

use super::field::Field;
use super::inside::Inside;
use super::parse::{self, ADDRESS, NAME, VERSION};
use super::problems::{Findings, Place};
use super::profile;
use super::questions::Question;
use super::scalar::{DURATION, SIZE, STATUSES};
use super::tree::{Entry, Node, Scalar, Value};

/// Stands for a name of the user's choice.
const ANY: &str = "*";

/// The schema.
pub fn schema() -> Json {
    let explored = Explored::all();
    let mut root = Map::from_iter([
        member(
            "$schema",
            json!("https://json-schema.org/draft/2020-12/schema"),
        ),
        member("title", json!("Fencepost config, version 1")),
        member(
            "description",
            json!(
                "What may stand where. Rules between fields are checked by `fencepost check`, which \
                 refuses whatever this schema refuses, and more."
            ),
        ),
    ]);
    if let Json::Object(fields) = explored.written(&Vec::new()) {
        root.extend(fields);
    }
    Json::Object(root)
}

/// A step from a value to one within it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Member(&'static str),
    Entry,
    Item,
}

type Path = Vec<Step>;

/// What the parser asks about one place.
#[derive(Debug, Default)]
struct Shape {
    path: Path,
    questions: Vec<Question>,
    /// Does nothing count as an empty map or list here?
    may_be_null: bool,
}

/// All places, by their path as the parser writes it.
#[derive(Debug, Default)]
struct Explored(BTreeMap<String, Shape>);

impl Explored {
    fn all() -> Self {
        let mut explored = Self::default();
        let mut unseen = VecDeque::from([Vec::new()]);
        explored.0.insert(String::new(), Shape::default());
        while let Some(path) = unseen.pop_front() {
            for value in kinds() {
                let is_null = matches!(value, Value::Null);
                for (place, question) in asked(&document(&path, value)) {
                    if is_null && place == written_path(&path) {
                        explored.note_null(&place, &question);
                    }
                    unseen.extend(explored.note(&place, question));
                }
            }
        }
        explored
    }

    fn note_null(&mut self, place: &str, question: &Question) {
        let is_collection = match question {
            Question::Fields | Question::Entries | Question::Items => true,
            Question::Member(_)
            | Question::Needed(_)
            | Question::Choice(_)
            | Question::Text(_)
            | Question::Number(..)
            | Question::Secret
            | Question::Later => false,
        };
        if let Some(shape) = self.0.get_mut(place).filter(|_| is_collection) {
            shape.may_be_null = true;
        }
    }

    /// Answers the place that the question opens, if it is a new one.
    fn note(&mut self, place: &str, question: Question) -> Option<Path> {
        let shape = self.0.get_mut(place)?;
        if shape.questions.contains(&question) {
            return None;
        }
        let step = match &question {
            Question::Member(name) | Question::Needed(name) => Some(Step::Member(name)),
            Question::Entries => Some(Step::Entry),
            Question::Items => Some(Step::Item),
            Question::Fields
            | Question::Choice(_)
            | Question::Text(_)
            | Question::Number(..)
            | Question::Secret
            | Question::Later => None,
        };
        shape.questions.push(question);
        let path: Path = shape.path.iter().cloned().chain([step?]).collect();
        let text = written_path(&path);
        if self.0.contains_key(&text) {
            return None;
        }
        let shape = Shape {
            path: path.clone(),
            ..Shape::default()
        };
        self.0.insert(text, shape);
        Some(path)
    }

    /// The schema of one place.
    fn written(&self, path: &Path) -> Json {
        let Some(shape) = self.0.get(&written_path(path)) else {
            return Json::Bool(true);
        };
        let mut ways: Vec<Json> = Vec::new();
        let mut offer = |way: Json| {
            if !ways.contains(&way) {
                ways.push(way);
            }
        };
        for question in &shape.questions {
            match question {
                Question::Fields => offer(self.object(path, shape)),
                Question::Entries => offer(json!({
                    "type": shape.collection("object"),
                    "additionalProperties": self.below(path, Step::Entry),
                })),
                Question::Items => offer(json!({
                    "type": shape.collection("array"),
                    "items": self.below(path, Step::Item),
                })),
                Question::Choice(words) => offer(choice(words)),
                Question::Text(expected) => offer(text(expected)),
                Question::Number(expected, bounds) => offer(json!({
                    "description": expected,
                    "type": ["integer", "string"],
                    "minimum": bounds.start(),
                    "maximum": bounds.end(),
                    "pattern": "^\\+?[0-9]+$",
                })),
                Question::Secret => offer(json!({
                    "description": "a secret: `${env:NAME}` or `${file:/path}`",
                    "type": "string",
                    "minLength": 1,
                })),
                Question::Member(_) | Question::Needed(_) | Question::Later => {}
            }
        }
        match ways.pop() {
            None => Json::Bool(true),
            Some(only) if ways.is_empty() => only,
            Some(last) => {
                ways.push(last);
                json!({ "anyOf": ways })
            }
        }
    }

    fn below(&self, path: &Path, step: Step) -> Json {
        let path: Path = path.iter().cloned().chain([step]).collect();
        self.written(&path)
    }

    fn object(&self, path: &Path, shape: &Shape) -> Json {
        let mut properties = Map::new();
        let mut required: Vec<&str> = Vec::new();
        for question in &shape.questions {
            match question {
                Question::Member(name) => {
                    let below: Path = path.iter().cloned().chain([Step::Member(name)]).collect();
                    if !self.is_later(&below) {
                        properties.insert((*name).to_owned(), self.written(&below));
                    }
                }
                Question::Needed(name) if !may_come_from_profile(path, name) => required.push(name),
                Question::Needed(_)
                | Question::Fields
                | Question::Entries
                | Question::Items
                | Question::Choice(_)
                | Question::Text(_)
                | Question::Number(..)
                | Question::Secret
                | Question::Later => {}
            }
        }
        let mut object = Map::new();
        let kind = if required.is_empty() {
            shape.collection("object")
        } else {
            json!("object")
        };
        object.extend([
            member("type", kind),
            member("properties", properties.into()),
        ]);
        if !required.is_empty() {
            object.extend([member("required", json!(required))]);
        }
        object.extend([member("additionalProperties", json!(false))]);
        Json::Object(object)
    }

    fn is_later(&self, path: &Path) -> bool {
        let shape = self.0.get(&written_path(path));
        shape.is_some_and(|shape| shape.questions.contains(&Question::Later))
    }
}

impl Shape {
    fn collection(&self, kind: &str) -> Json {
        if self.may_be_null {
            json!([kind, "null"])
        } else {
            json!(kind)
        }
    }
}

fn member(name: &str, value: Json) -> (String, Json) {
    (name.to_owned(), value)
}

/// One of each kind of value, none of which says anything.
fn kinds() -> [Value; 4] {
    let nothing = Node {
        at: Place::START,
        value: Value::Null,
    };
    [
        Value::Null,
        Value::Scalar(Scalar {
            text: "?".to_owned(),
            inside: Inside::Unknown,
        }),
        Value::List(vec![nothing]),
        Value::Map(Vec::new()),
    ]
}

/// A document in which only this stands.
fn document(path: &Path, value: Value) -> Node {
    let node = |value| Node {
        at: Place::START,
        value,
    };
    path.iter().rev().fold(node(value), |within, step| {
        let entry = |key: &str| {
            Value::Map(vec![Entry {
                key: key.to_owned(),
                at: Place::START,
                node: within.clone(),
            }])
        };
        node(match step {
            Step::Member(name) => entry(name),
            Step::Entry => entry(ANY),
            Step::Item => Value::List(vec![within]),
        })
    })
}

/// What the parser asks about a document.
fn asked(document: &Node) -> Vec<(String, Question)> {
    let findings = Findings::with_questions();
    // It is full of mistakes, and no config comes of it.
    let _none = parse::config(&Field::root(document, &findings), String::new());
    findings.into_questions()
}

fn written_path(path: &Path) -> String {
    path.iter().fold(String::new(), |text, step| match step {
        Step::Item => format!("{text}[0]"),
        Step::Entry | Step::Member(_) => {
            let name = match step {
                Step::Member(name) => name,
                Step::Entry | Step::Item => ANY,
            };
            if text.is_empty() {
                name.to_owned()
            } else {
                format!("{text}.{name}")
            }
        }
    })
}

/// A field of an upstream need not stand in the file if a profile may bring it.
fn may_come_from_profile(path: &Path, name: &'static str) -> bool {
    let [Step::Member("upstreams"), Step::Entry, below @ ..] = path.as_slice() else {
        return false;
    };
    let names: Option<Vec<&str>> = below
        .iter()
        .map(|step| match step {
            Step::Member(name) => Some(*name),
            // Items come whole from one side or the other.
            Step::Entry | Step::Item => None,
        })
        .chain([Some(name)])
        .collect();
    names.is_some_and(|names| profile::brings(&names))
}

fn choice(words: &[String]) -> Json {
    let plain = words.iter().map(|word| json!(word));
    // In YAML `true` is no text.
    let truths = words.iter().filter_map(|word| match word.as_str() {
        "true" => Some(json!(true)),
        "false" => Some(json!(false)),
        _ => None,
    });
    json!({ "enum": truths.chain(plain).collect::<Vec<Json>>() })
}

/// Texts whose form can be said. Looser than the parser where the exact form is long.
fn text(expected: &str) -> Json {
    let (kinds, pattern) = match expected {
        VERSION => return json!({ "description": expected, "enum": [1, "1"] }),
        DURATION => (json!("string"), "^\\s*([0-9]+\\s*[A-Za-z]+\\s*)+$"),
        SIZE => (
            json!(["string", "integer"]),
            "^[0-9]+\\s*(B|[kMG]B|[KMG]iB)?$",
        ),
        STATUSES => (
            json!(["string", "integer"]),
            "^[2-5][0-9]{2}(-[2-5][0-9]{2})?$",
        ),
        ADDRESS => (json!("string"), "^(\\[[0-9A-Fa-f:.%]+\\]|[0-9.]+):[0-9]+$"),
        NAME => (
            json!(["string", "number", "boolean"]),
            "^[A-Za-z0-9._-]{1,64}$",
        ),
        // Whatever YAML takes for a number is a text to the parser.
        "" => return json!({ "type": ["string", "number", "boolean"] }),
        other => {
            return json!({ "description": other, "type": ["string", "number", "boolean"] });
        }
    };
    json!({ "description": expected, "type": kinds, "pattern": pattern })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at<'s>(schema: &'s Json, path: &str) -> &'s Json {
        schema.pointer(path).unwrap_or_else(|| panic!("{path}"))
    }

    const EFFECT: &str =
        "/properties/upstreams/additionalProperties/properties/effects/items/properties";

    #[test]
    fn the_parser_tells_its_fields_their_kinds_and_which_must_be_there() {
        let schema = schema();
        assert_eq!(schema["required"], json!(["version", "upstreams"]));
        let upstream = at(&schema, "/properties/upstreams/additionalProperties");
        assert_eq!(upstream["required"], json!(["listen", "url"]));
        assert_eq!(
            at(upstream, "/properties/profile/anyOf/0/enum"),
            &json!(profile::names())
        );
        // A profile brings the header.
        assert_eq!(upstream.pointer("/properties/key/required"), None);
        let token = at(
            &schema,
            &format!("{EFFECT}/fence/properties/token/properties/mode"),
        );
        assert_eq!(token["enum"], json!(["require", "prefer", "observe"]));
        let once = at(&schema, &format!("{EFFECT}/once/anyOf"));
        assert_eq!(once.as_array().map(Vec::len), Some(2), "{once}");
        assert_eq!(
            at(&schema, "/properties/admin/anyOf/0/enum"),
            &json!(["none"])
        );
    }

    #[test]
    fn what_a_later_version_brings_is_not_offered() {
        let schema = schema();
        let hosts = "/properties/upstreams/additionalProperties/properties/hosts";
        assert_eq!(schema.pointer(hosts), None);
        assert!(schema.pointer("/properties/mode/enum").is_some());
    }

    /// The reference claims to show every field. That it shows no other is for validation to say.
    #[test]
    fn the_reference_shows_every_field() {
        let reference = include_str!("../../config/fencepost.yaml");
        for (place, shape) in &Explored::all().0 {
            let Some(Step::Member(name)) = shape.path.last() else {
                continue;
            };
            let later = shape.questions.contains(&Question::Later);
            assert!(later || reference.contains(&format!("{name}:")), "{place}");
        }
    }
}
