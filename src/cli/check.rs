//! `check`: config files, every problem at once.
//!
//! What always holds: every file is read, whatever is wrong with the ones before it; a file without
//! errors is fine, whatever it is warned of.
//!
//! What it does not do: compare a config with a register itself: an instance does, or the code of one
//! on a register that none is running on.

use std::path::Path;

use serde_json::{Value, json};

use super::arguments::{Check, Instance};
use super::failure::Failure;
use super::instance::Touch;
use crate::admin::comparison::ComparisonView;
use crate::admin::reload::how_to_confirm;
use crate::config::{self, Problem, Severity};

/// Checks all files.
pub(super) async fn run(check: &Check, json: bool) -> Result<String, Failure> {
    let mut verdicts: Vec<Verdict> = check.files.iter().map(|file| Verdict::on(file)).collect();
    if let Some(instance) = register_of(check) {
        for (verdict, file) in verdicts.iter_mut().zip(&check.files) {
            if verdict.fine {
                verdict.compare(&instance, file).await?;
            }
        }
    }
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

/// What to compare with, if anything.
fn register_of(check: &Check) -> Option<Instance> {
    let instance = Instance {
        admin: check.admin.clone(),
        config: None,
        token: check.token.clone(),
        register: check.against_register.clone(),
        tenant: None,
    };
    (check.admin.is_some() || check.against_register.is_some()).then_some(instance)
}

struct Verdict {
    file: String,
    fine: bool,
    list: Vec<Problem>,
    text: String,
    comparison: Option<Value>,
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
                    comparison: None,
                }
            }
            Err(problems) => Self {
                fine: false,
                list: problems.list().to_vec(),
                text: problems.to_string(),
                file,
                comparison: None,
            },
        }
    }

    /// Compares it with the register.
    async fn compare(&mut self, instance: &Instance, file: &Path) -> Result<(), Failure> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) => return Err(Failure::Usage(format!("{}: {error}", self.file))),
        };
        // For the keys of a register that is opened here.
        let instance = Instance {
            config: instance.register.is_some().then(|| file.to_owned()),
            ..instance.clone()
        };
        let asked = json!({ "name": self.file, "config": text }).to_string();
        let told = instance
            .change("/config/compare", asked, Touch::Nothing)
            .await?;
        let view: ComparisonView = told.understood()?;
        let [unsettled, recent] = [view.unsettled, view.recent];
        self.fine = unsettled.would_change == 0 && recent.would_change == 0;
        let lines = view
            .changes
            .iter()
            .map(|change| format!("{}: {change}", self.file));
        let last = format!(
            "{}: {} of {} unsettled and {} of {} recent operations would change",
            self.file,
            unsettled.would_change,
            unsettled.looked_at,
            recent.would_change,
            recent.looked_at
        );
        // Of a register without an instance there is nothing to confirm: a start is a decision.
        let confirmable = unsettled.would_change > 0 && instance.register.is_none();
        let how = confirmable.then(|| format!("{}: {}", self.file, how_to_confirm(&view)));
        let text = std::iter::once(self.text.clone())
            .chain(lines)
            .chain([last])
            .chain(how);
        self.text = text.collect::<Vec<_>>().join("\n");
        self.comparison = Some(told.into_json());
        Ok(())
    }

    fn json(&self) -> Value {
        let problems: Vec<Value> = self.list.iter().map(problem).collect();
        let mut json = json!({ "file": self.file, "fine": self.fine, "problems": problems });
        if let (Some(comparison), Value::Object(fields)) = (&self.comparison, &mut json) {
            fields.insert("comparison".to_owned(), comparison.clone());
        }
        json
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

    fn checked(files: Vec<std::path::PathBuf>, json: bool) -> Result<String, Failure> {
        let check = Check {
            files,
            against_register: None,
            admin: None,
            token: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(run(&check, json))
    }

    #[test]
    fn a_file_that_is_not_there_is_a_problem_of_that_file() {
        let files = vec!["/nowhere/a.yaml".into(), "/nowhere/b.yaml".into()];
        let Err(Failure::Wrong(text)) = checked(files, false) else {
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
        let Err(Failure::Wrong(text)) = checked(files, true) else {
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
        let Err(Failure::Wrong(text)) = checked(files, false) else {
            panic!("fine");
        };
        assert!(text.contains("bad.yaml:2:1: bogus: "), "{text}");
        assert!(text.ends_with("good.yaml: fine"), "{text}");
        assert!(checked(vec![good], false).is_ok());
    }
}
