//! YAML as a tree that knows where everything stands.
//!
//! What always holds: the tree is no larger than the file: anchors, aliases and tags are refused, so
//! nothing can multiply; a key stands once in its map; nesting is bounded, and so is the length of keys
//! and texts and the number of neighbours, so that reading takes time in proportion to the file. Building
//! goes on after a problem wherever the file can still be read.
//!
//! What it does not do: know any field. Scalars stay text; what they mean is the reader's.

use std::collections::HashSet;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span};

use super::inside::{Inside, Walk};
use super::problems::{Findings, Place};

/// Deeper than any config has reason to be.
const DEEPEST: usize = 32;

/// Longer than any name has reason to be. Paths are made of keys, and every problem has one.
const LONGEST_KEY: usize = 256;

/// Longer than any value has reason to be: long ones come from files.
const LONGEST_TEXT: usize = 8 << 10;

/// More than any list or map has reason to hold. Neighbours are compared with each other.
const MOST: usize = 4_096;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) at: Place,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub(super) struct Scalar {
    pub(super) text: String,
    pub(super) inside: Inside,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) at: Place,
    pub(super) node: Node,
}

/// Builds the tree; `None` if the file cannot be read as YAML at all.
pub(super) fn build(text: &str, findings: &Findings) -> Option<Node> {
    let mut builder = Builder {
        walk: Walk::through(text),
        findings,
        open: Vec::new(),
        root: None,
        documents: 0,
    };
    for event in Parser::new_from_str(text) {
        match event {
            Ok((event, span)) => builder.take(event, span)?,
            Err(error) => {
                let place = place(*error.marker());
                findings.error("", place, format!("is not YAML: {}", error.info()));
                return None;
            }
        }
    }
    let empty = Node {
        at: Place::START,
        value: Value::Null,
    };
    Some(builder.root.unwrap_or(empty))
}

struct Builder<'f> {
    walk: Walk<'f>,
    findings: &'f Findings,
    open: Vec<Open>,
    root: Option<Node>,
    documents: usize,
}

/// A collection that has not ended.
enum Open {
    List {
        at: Place,
        items: Vec<Node>,
    },
    Map {
        at: Place,
        entries: Vec<Entry>,
        /// Of all entries.
        names: HashSet<String>,
        key: Key,
    },
}

/// The key that the next value of a map belongs to.
enum Key {
    /// The next node is a key.
    Awaited,
    Named(String, Place),
    /// The last node could not be one.
    Unusable,
}

impl Builder<'_> {
    /// `None`: no use in going on.
    fn take(&mut self, event: Event<'_>, span: Span) -> Option<()> {
        let at = place(span.start);
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
            Event::DocumentStart(_) => {
                self.documents = self.documents.saturating_add(1);
                if self.documents > 1 {
                    self.findings.error("", at, "a file holds one document");
                    return None;
                }
            }
            Event::Alias(_) => {
                self.refuse_sharing(at);
                self.place(Node {
                    at,
                    value: Value::Null,
                });
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_marks(at, anchor, tag.is_some());
                let value = self.scalar(&text, style, at);
                self.place(Node { at, value });
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_marks(at, anchor, tag.is_some());
                let items = Vec::new();
                self.enter(Open::List { at, items })?;
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_marks(at, anchor, tag.is_some());
                let entries = Vec::new();
                self.enter(Open::Map {
                    at,
                    entries,
                    names: HashSet::new(),
                    key: Key::Awaited,
                })?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.leave(),
        }
        Some(())
    }

    fn enter(&mut self, open: Open) -> Option<()> {
        if self.open.len() >= DEEPEST {
            let (Open::List { at, .. } | Open::Map { at, .. }) = open;
            self.findings.error("", at, "is nested too deeply");
            return None;
        }
        self.open.push(open);
        Some(())
    }

    fn leave(&mut self) {
        let node = match self.open.pop() {
            Some(Open::List { at, items }) => Node {
                at,
                value: Value::List(items),
            },
            Some(Open::Map { at, entries, .. }) => Node {
                at,
                value: Value::Map(entries),
            },
            None => return,
        };
        self.place(node);
    }

    /// Puts a finished node where it belongs.
    fn place(&mut self, node: Node) {
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) if items.len() >= MOST => {
                too_many(self.findings, node.at);
            }
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map {
                entries,
                names,
                key,
                ..
            }) => match std::mem::replace(key, Key::Awaited) {
                Key::Awaited => *key = read_key(node, self.findings),
                Key::Unusable => {}
                Key::Named(name, at) if !names.insert(name.clone()) => {
                    let message = format!("`{name}` stands twice in this map");
                    self.findings.error("", at, message);
                }
                Key::Named(_, at) if entries.len() >= MOST => too_many(self.findings, at),
                Key::Named(key, at) => entries.push(Entry { key, at, node }),
            },
        }
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, at: Place) -> Value {
        if style == ScalarStyle::Plain && matches!(text, "" | "~" | "null") {
            return Value::Null;
        }
        if text.len() > LONGEST_TEXT {
            let message = format!("a text is at most {LONGEST_TEXT} bytes long");
            self.findings.error("", at, message);
            return Value::Null;
        }
        let written = self.walk.from(at);
        let inside = written.map_or(Inside::Unknown, |written| {
            Inside::of(written, at, text, style)
        });
        Value::Scalar(Scalar {
            text: text.to_owned(),
            inside,
        })
    }

    fn refuse_sharing(&self, at: Place) {
        let message = "anchors and aliases are not supported: write the value out";
        self.findings.error("", at, message);
    }

    fn refuse_marks(&self, at: Place, anchor: usize, tagged: bool) {
        if anchor > 0 {
            self.refuse_sharing(at);
        }
        if tagged {
            self.findings.error("", at, "tags are not supported");
        }
    }
}

fn too_many(findings: &Findings, at: Place) {
    let message = format!("a list or a map has at most {MOST} entries");
    findings.error("", at, message);
}

fn read_key(node: Node, findings: &Findings) -> Key {
    match node.value {
        Value::Scalar(scalar) if scalar.text.len() > LONGEST_KEY => {
            let message = format!("a key is at most {LONGEST_KEY} bytes long");
            findings.error("", node.at, message);
            Key::Unusable
        }
        Value::Scalar(scalar) => Key::Named(scalar.text, node.at),
        Value::Null | Value::List(_) | Value::Map(_) => {
            findings.error("", node.at, "a key is a name");
            Key::Unusable
        }
    }
}

/// The parser counts lines from 1 and columns from 0.
fn place(marker: Marker) -> Place {
    Place {
        line: marker.line(),
        column: marker.col().saturating_add(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<(usize, usize, String)> {
        let findings = Findings::default();
        build(text, &findings);
        let list = findings.into_list();
        list.into_iter()
            .map(|p| (p.line, p.column, p.message))
            .collect()
    }

    fn found(text: &str, line: usize, column: usize, part: &str) {
        let problems = problems(text);
        let hit = problems
            .iter()
            .any(|(l, c, message)| (*l, *c) == (line, column) && message.contains(part));
        assert!(hit, "{text:?}: {problems:?}");
    }

    #[test]
    fn everything_has_its_place() {
        let findings = Findings::default();
        let root = build("a: 1\nb:\n  - x\n  - \"y\"\n", &findings).unwrap();
        assert!(findings.into_list().is_empty());
        let Value::Map(entries) = root.value else {
            panic!("not a map")
        };
        let places: Vec<_> = entries
            .iter()
            .map(|e| (e.key.as_str(), e.at, e.node.at))
            .collect();
        let place = |line, column| Place { line, column };
        assert_eq!(places[0], ("a", place(1, 1), place(1, 4)));
        assert_eq!(places[1].1, place(2, 1));
        let Value::List(items) = &entries[1].node.value else {
            panic!("not a list")
        };
        assert_eq!(items[1].at, place(4, 5));
        assert!(
            matches!(&items[1].value, Value::Scalar(s) if s.text == "y" && s.inside == Inside::Shift(1))
        );
    }

    #[test]
    fn sharing_tags_doubles_and_depth_are_refused() {
        found("a: &x 1\nb: *x\n", 2, 4, "anchors");
        found("a: !!str 1\n", 1, 4, "tags");
        found("a: 1\na: 2\n", 2, 1, "twice");
        found("? [a]\n: 1\n", 1, 3, "a key is a name");
        found("a: 1\n---\nb: 1\n", 2, 1, "one document");
        found("a: [1\nb: 2\n", 2, 2, "is not YAML");
        found(&format!("{}: 1\n", "k".repeat(257)), 1, 1, "at most 256");
        let deep = "[".repeat(40);
        assert!(
            problems(&deep)
                .iter()
                .any(|(.., m)| m.contains("nested too deeply"))
        );
    }

    /// Every level names the one before it nine times: a gigabyte, written out.
    #[test]
    fn aliases_cannot_multiply() {
        let mut text = "a0: &a0 lol\n".to_owned();
        for level in 1..30 {
            let before = format!("*a{},", level - 1).repeat(9);
            text = format!("{text}a{level}: &a{level} [{before}]\n");
        }
        assert!(problems(&text).iter().all(|(.., m)| m.contains("anchors")));
    }
}
