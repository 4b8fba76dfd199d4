//! The schema against the parser: an independent validator reads the one, the program is the other.
//!
//! What always holds: both judge the same documents: every file in `config/`, as it is and with one
//! thing changed at a time.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::proxy::Proxy;
use crate::support::python::python;

/// What the parser says where the kind of a value or the name of a member is wrong, which is what a
/// schema is for.
const STRUCTURE: [&str; 6] = [
    "is not a known field",
    "expected fields",
    "expected a list",
    "expected a single value",
    "is not one of",
    "has no value",
];

/// Secrets of the files in `config/` that are not on the machine of the tests: nothing is wrong with a
/// file that names them.
const ELSEWHERE: [&str; 2] = [
    "environment variable DATABASE_URL is not set",
    "environment variable FENCEPOST_KEY is not set",
];

struct Verdict {
    change: String,
    place: String,
    valid: bool,
}

/// The schema's verdicts by file.
fn by_schema(folder: &std::path::Path) -> BTreeMap<String, Verdict> {
    let printed = Proxy::command_alone(&["schema"]);
    assert!(printed.status.success());
    let schema = folder.join("schema.json");
    std::fs::write(&schema, &printed.stdout).unwrap();
    let configs = std::fs::read_dir(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("config"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "yaml"));
    let output = python("python/config_schema.py")
        .arg(&schema)
        .arg(folder)
        .args(configs)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let verdicts = lines.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| line[name].as_str().unwrap().to_owned();
        let verdict = Verdict {
            change: text("change"),
            place: text("place"),
            valid: line["valid"].as_bool().unwrap(),
        };
        (text("file"), verdict)
    });
    verdicts.collect()
}

/// The parser's errors by file.
fn by_parser(files: &[&str]) -> BTreeMap<String, Vec<String>> {
    let checked = Proxy::command_alone(&[&["check", "--json"], files].concat());
    let checked: Value = serde_json::from_slice(&checked.stdout).unwrap();
    let verdicts = checked["files"].as_array().unwrap().iter().map(|file| {
        let errors = file["problems"].as_array().unwrap().iter();
        let errors = errors
            .filter(|problem| problem["severity"] == "error")
            .map(|problem| problem["message"].as_str().unwrap().to_owned())
            .filter(|message| !ELSEWHERE.iter().any(|part| message.contains(part)));
        (
            file["file"].as_str().unwrap().to_owned(),
            errors.collect::<Vec<_>>(),
        )
    });
    verdicts.collect()
}

#[test]
fn schema_and_parser_agree_on_every_file_and_on_whatever_is_wrong_in_its_structure() {
    let folder = tempfile::tempdir().unwrap();
    let schema = by_schema(folder.path());
    let files: Vec<&str> = schema.keys().map(String::as_str).collect();
    let parser = by_parser(&files);
    let mut counts: BTreeMap<(&str, bool), usize> = BTreeMap::new();
    for (file, verdict) in &schema {
        let errors = &parser[file];
        let text = std::fs::read_to_string(file).unwrap();
        let context = || {
            let Verdict { change, place, .. } = verdict;
            format!("{change} at {place}: {errors:?}\n{text}")
        };
        match verdict.change.as_str() {
            "none" => assert!(verdict.valid && errors.is_empty(), "{}", context()),
            "unknown member" => assert!(!verdict.valid && !errors.is_empty(), "{}", context()),
            _ => {}
        }
        if !verdict.valid {
            assert!(!errors.is_empty(), "only the schema refuses: {}", context());
        }
        let structural = |error: &String| STRUCTURE.iter().any(|part| error.contains(part));
        if errors.iter().any(structural) {
            assert!(!verdict.valid, "only the parser refuses: {}", context());
        }
        *counts.entry((&verdict.change, verdict.valid)).or_default() += 1;
    }
    for (change, at_least) in [("unknown member", 20), ("other kind", 200), ("removed", 2)] {
        let refused = counts.get(&(change, false)).copied().unwrap_or_default();
        assert!(refused >= at_least, "{counts:?}");
    }
}
