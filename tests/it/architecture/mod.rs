//! The house, read back from its source: who imports whom, and what a file may look like.
//!
//! What always holds: the rules are checked on plain text without the compiler, so that a breach
//! shows in an inline path, a grouped import, a test module or a file that no target includes. The
//! checks are themselves shown to catch what they are for.

mod paths;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use paths::{UsedPath, code_without_tests, tokens, used_paths};

/// From the door inwards: a room imports only rooms further down.
const ROOMS: [&str; 18] = [
    // Documentation: it may know everybody, and nobody it.
    "manual",
    "main",
    "cli",
    "app",
    "admin",
    "proxy",
    "observe",
    "reconcile",
    "dispatch",
    "lease",
    "upstream",
    "wire",
    "store",
    "config",
    "expression",
    "telemetry",
    "clock",
    "failpoint",
];

/// The innermost room, and all that it may use besides itself and the standard library.
const INNERMOST: &str = "protocol";
const INNERMOST_MAY_USE: [&str; 2] = ["bytes", "thiserror"];

const MOST_LINES: usize = 500;

/// One source file.
struct Source {
    /// Relative to `src`, with slashes.
    path: String,
    text: String,
}

impl Source {
    /// `src/store/sqlite/writer.rs` is `["store", "sqlite", "writer"]`, `lib.rs` is nothing.
    fn module(&self) -> Vec<&str> {
        let path = self.path.strip_suffix(".rs").unwrap();
        let path = path.strip_suffix("/mod").unwrap_or(path);
        if path == "lib" {
            return Vec::new();
        }
        path.split('/').collect()
    }

    fn room(&self) -> Option<&str> {
        self.module().first().copied()
    }

    /// A file of tests alone: it may use what it likes, and is as long as its cases.
    fn is_tests(&self) -> bool {
        self.module().contains(&"tests")
    }
}

fn rank(room: &str) -> Option<usize> {
    ROOMS
        .iter()
        .chain([&INNERMOST])
        .position(|known| *known == room)
}

/// Every room that the file names, by whatever path.
fn rooms_named(source: &Source) -> BTreeSet<String> {
    let module = source.module();
    let is_binary = source.path == "main.rs";
    used_paths(&tokens(&source.text))
        .into_iter()
        .filter_map(|path| path.room(&module, is_binary))
        .collect()
}

fn imports_upwards(source: &Source) -> Vec<String> {
    let Some(room) = source.room() else {
        return Vec::new();
    };
    let Some(own) = rank(room) else {
        return vec![format!("{}: {room} is no room of the house", source.path)];
    };
    rooms_named(source)
        .iter()
        .filter(|named| *named != room)
        .filter(|named| rank(named).is_none_or(|other| other < own))
        .map(|named| format!("{}: {room} may not know {named}", source.path))
        .collect()
}

/// The rules use nothing that does I/O, reads a clock or is not ours; their tests may.
fn impure(source: &Source, dependencies: &BTreeSet<String>) -> Vec<String> {
    if source.room() != Some(INNERMOST) || source.is_tests() {
        return Vec::new();
    }
    let code = code_without_tests(&tokens(&source.text));
    let named: BTreeSet<String> = used_paths(&code)
        .into_iter()
        .filter_map(UsedPath::foreign)
        .collect();
    let mut found: Vec<String> = named
        .iter()
        .filter(|it| dependencies.contains(*it) && !INNERMOST_MAY_USE.contains(&it.as_str()))
        .map(|it| format!("{}: the rules may not use {it}", source.path))
        .collect();
    for part in ["fs", "net", "env", "process", "thread", "io"] {
        if code.windows(3).any(|it| it == ["std", "::", part]) {
            found.push(format!("{}: the rules do no I/O: std::{part}", source.path));
        }
    }
    found
}

/// Only the composition root chooses a register; everybody else sees the one door to it.
fn names_a_backend(source: &Source) -> Vec<String> {
    if source.is_tests() || matches!(source.room(), Some("app" | "store")) {
        return Vec::new();
    }
    let code = code_without_tests(&tokens(&source.text));
    ["sqlite", "postgres", "memory"]
        .into_iter()
        .filter(|backend| code.windows(3).any(|it| it == ["store", "::", *backend]))
        .map(|backend| format!("{}: only app.rs names store::{backend}", source.path))
        .collect()
}

fn looks_wrong(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    if !source.text.starts_with("//!") {
        found.push(format!(
            "{}: opens without saying what it is for",
            source.path
        ));
    }
    let lines = source.text.lines().count();
    if lines > MOST_LINES && !source.is_tests() {
        found.push(format!(
            "{}: {lines} lines, which idea is missing?",
            source.path
        ));
    }
    for (at, line) in source.text.lines().enumerate() {
        let lower = line.to_lowercase();
        for word in ["exactly once", "exactly-once", "todo", "fixme"] {
            if lower.contains(word) {
                found.push(format!("{}:{}: says {word:?}", source.path, at + 1));
            }
        }
    }
    found
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                found.push(Source {
                    path: path
                        .strip_prefix(&root)
                        .unwrap()
                        .to_str()
                        .unwrap()
                        .to_owned(),
                    text: std::fs::read_to_string(&path).unwrap(),
                });
            }
        }
    }
    assert!(found.len() > 10, "src was not found");
    found
}

/// Names of the crates that Cargo.toml lets us use, as code spells them.
fn dependencies() -> BTreeSet<String> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let text = std::fs::read_to_string(manifest).unwrap();
    let sections = text
        .split("\n[")
        .filter(|it| it.starts_with("dependencies]") || it.starts_with("dev-dependencies]"));
    sections
        .flat_map(str::lines)
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name.replace('-', "_"))
        .collect()
}

fn assert_none(found: impl Iterator<Item = String>) {
    let found: Vec<String> = found.collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn no_room_imports_a_room_further_up() {
    assert_none(sources().iter().flat_map(imports_upwards));
}

#[test]
fn only_the_composition_root_names_a_backend() {
    assert_none(sources().iter().flat_map(names_a_backend));
}

#[test]
fn the_rules_are_pure() {
    let dependencies = dependencies();
    assert!(dependencies.contains("tokio") && dependencies.contains("bytes"));
    assert_none(
        sources()
            .iter()
            .flat_map(|source| impure(source, &dependencies)),
    );
}

#[test]
fn every_file_says_what_it_is_for_and_is_short() {
    assert_none(sources().iter().flat_map(looks_wrong));
}

#[test]
fn the_door_stays_thin() {
    let sources = sources();
    let main = sources.iter().find(|it| it.path == "main.rs").unwrap();
    assert!(main.text.lines().count() <= 60);
}

mod tests {
    use super::{
        Source, dependencies, imports_upwards, impure, looks_wrong, names_a_backend, rooms_named,
    };

    fn source(path: &str, text: &str) -> Source {
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    fn caught(path: &str, text: &str) -> bool {
        !imports_upwards(&source(path, text)).is_empty()
    }

    #[test]
    fn an_import_upwards_is_caught_however_it_is_spelled() {
        for text in [
            "use crate::proxy::listener::Listener;",
            "use crate::{protocol::ids, proxy};",
            "use crate :: { protocol::{ids, fence}, proxy::{self, x} };",
            "pub(crate) use crate::proxy::*;",
            "fn f() { let x = crate::proxy::start(); }",
            "use super::super::proxy::start;",
            "mod inner { use super::super::super::proxy; }",
            "#[cfg(test)] mod tests { use crate::proxy; }",
            "type T = Vec<crate::proxy::Listener>;",
            "use crate::*;",
            "use crate::proxy as other;",
        ] {
            assert!(caught("store/sqlite.rs", text), "{text}");
        }
    }

    #[test]
    fn what_is_allowed_is_let_through() {
        for text in [
            "use crate::protocol::ids::OperationKey;",
            "use super::permit::Permit; use super::super::store::Register;",
            "mod inner { use super::super::permit::Permit; }",
            "// use crate::proxy;",
            "/* crate::proxy /* nested */ crate::proxy */",
            r##"const A: &str = "crate::proxy"; const B: &str = r#"crate::proxy "x" "#;"##,
            "fn f<'a>(x: &'a str) -> char { '\"' } // crate::proxy",
            "use crate::clock::Clock;",
            "pub(in crate::store) fn f() {}",
        ] {
            assert!(!caught("store/sqlite.rs", text), "{text}");
        }
    }

    #[test]
    fn paths_are_read_from_where_they_stand() {
        let up = "use super::super::cli;";
        assert!(rooms_named(&source("store/mod.rs", "use super::config;")).contains("config"));
        assert!(rooms_named(&source("store/sqlite/writer.rs", up)).contains("store"));
        assert!(rooms_named(&source("store/sqlite.rs", up)).contains("cli"));
        assert!(rooms_named(&source("main.rs", "fencepost::cli::main()")).contains("cli"));
    }

    #[test]
    fn a_room_that_nobody_planned_is_caught() {
        assert!(caught("helpers/mod.rs", ""));
        assert!(caught("app.rs", "use crate::helpers::x;"));
    }

    #[test]
    fn a_backend_named_elsewhere_is_caught() {
        let names = |path| names_a_backend(&source(path, "use crate::store::sqlite::Sqlite;"));
        assert_eq!(names("proxy/pipeline.rs").len(), 1);
        assert_eq!(names("app.rs").len(), 0);
    }

    #[test]
    fn impure_rules_are_caught() {
        let caught = |text| {
            let source = source("protocol/decide.rs", text);
            !impure(&source, &dependencies()).is_empty()
        };
        assert!(caught("use tokio::sync::mpsc;"));
        assert!(caught("fn f() { tracing::info!(\"x\"); }"));
        assert!(caught("fn f() { std::fs::read(\"x\"); }"));
        assert!(!caught(
            "use bytes::Bytes; use std::fmt; #[derive(thiserror::Error)] struct E;"
        ));
        assert!(!caught(
            "#[cfg(test)] mod tests { use proptest::prelude::*; }"
        ));
    }

    #[test]
    fn a_file_that_looks_wrong_is_caught() {
        let wrong = |text: &str| !looks_wrong(&source("wire/answer.rs", text)).is_empty();
        assert!(wrong("use std::fmt;"));
        assert!(wrong(&format!("//! x\n{}", "\n".repeat(500))));
        assert!(wrong("//! x\n// Applied Exactly once.\n"));
        assert!(wrong("//! x\n// TODO later\n"));
        assert!(!wrong(&format!("//! x\n{}", "\n".repeat(499))));
    }
}
