//! `check`: config files, every problem at once.
//!
//! What always holds: every file is read, whatever is wrong with the ones before it; a file without
//! errors is fine, whatever it is warned of.
//!
//! What it does not do: compare a config with a register (that comes with reloading).

use std::path::Path;

use serde_json::{Value, json};

use super::arguments::Check;
use super::failure::Failure;
use crate::config::{self, Problem, Severity};

/// Checks all files.
pub(super) fn run(check: &Check, json: bool) -> Result<String, Failure> {
    let verdicts: Vec<Verdict> = check.files.iter().map(|file| Verdict::on(file)).collect();
    let text = if json {
        let files: Vec<Value> = verdicts.iter().map(Verdict::json).collect();
        format!("{:#}", json!({ "files": files }))
    } else {
        let texts: Vec<&str> = verdicts
            .iter()
            .map(|verdict| verdict.text.as_str())
            .collect();
        texts.join("\n")
    };
    if verdicts.iter().all(|verdict| verdict.fine) {
        Ok(text)
    } else {
        Err(Failure::Wrong(text))
    }
}

struct Verdict {
    file: String,
    fine: bool,
    list: Vec<Problem>,
    text: String,
}

impl Verdict {
    fn on(path: &Path) -> Self {
        let file = path.display().to_string();
        match config::load(path) {
            Ok((_, warnings)) => {
                let warned = warnings.to_string();
                let text = if warned.is_empty() {
                    format!("{file}: fine")
                } else {
                    format!("{warned}\n{file}: fine")
                };
                Self {
                    fine: true,
                    list: warnings.list().to_vec(),
                    text,
                    file,
                }
            }
            Err(problems) => Self {
                fine: false,
                list: problems.list().to_vec(),
                text: problems.to_string(),
                file,
            },
        }
    }

    fn json(&self) -> Value {
        let problems: Vec<Value> = self.list.iter().map(problem).collect();
        json!({ "file": self.file, "fine": self.fine, "problems": problems })
    }
}

fn problem(problem: &Problem) -> Value {
    let severity = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    json!({
        "severity": severity,
        "line": problem.line,
        "column": problem.column,
        "path": problem.path,
        "message": problem.message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_is_a_problem_of_that_file() {
        let files = vec!["/nowhere/a.yaml".into(), "/nowhere/b.yaml".into()];
        let Err(Failure::Wrong(text)) = run(&Check { files }, false) else {
            panic!("fine");
        };
        assert!(
            text.contains("/nowhere/a.yaml") && text.contains("/nowhere/b.yaml"),
            "{text}"
        );
    }

    #[test]
    fn json_tells_files_apart() {
        let files = vec!["/nowhere/a.yaml".into()];
        let Err(Failure::Wrong(text)) = run(&Check { files }, true) else {
            panic!("fine");
        };
        let told: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(told["files"][0]["fine"], false);
        assert_eq!(told["files"][0]["problems"][0]["severity"], "error");
    }

    #[test]
    fn a_file_after_a_broken_one_is_still_checked() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let good = "version: 1\nupstreams:\n  stripe:\n    listen: 127.0.0.1:15001\n    \
                    url: https://api.stripe.com\n    profile: stripe-v1\n";
        let (bad, good) = (
            file("bad.yaml", "version: 1\nbogus: 2\n"),
            file("good.yaml", good),
        );
        let files = vec![bad, good.clone()];
        let Err(Failure::Wrong(text)) = run(&Check { files }, false) else {
            panic!("fine");
        };
        assert!(text.contains("bad.yaml:2:1: bogus: "), "{text}");
        assert!(text.ends_with("good.yaml: fine"), "{text}");
        assert!(run(&Check { files: vec![good] }, false).is_ok());
    }
}
