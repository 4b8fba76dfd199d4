//! What is wrong with a config file, all of it.
//!
//! What always holds: problems are listed in the order of the file; a message says what would be
//! right; no message contains a secret.
//!
//! What it does not do: decide whether to start (`cli`).

use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};

use super::questions::{Question, Questions};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The file is refused.
    Error,
    /// The file is accepted; somebody should read this.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where in the document: `upstreams.stripe.listen`; empty for the document itself.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1, in characters.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub message: String,
    /// How bad it is.
    pub severity: Severity,
}

/// So many problems are kept: nobody reads more, and a file can have very many.
const KEPT: usize = 1_000;

/// A line and a column, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Place {
    pub(super) const START: Self = Self { line: 1, column: 1 };
}

/// Collects what comes up while a file is read: problems, the files that secrets came from and, for
/// the schema, the questions. Shared by everything that reads; lists, nothing else.
#[derive(Debug, Default)]
pub(super) struct Findings {
    problems: RefCell<Vec<Problem>>,
    files: RefCell<Vec<PathBuf>>,
    questions: Option<Questions>,
    leave_secrets: bool,
}

impl Findings {
    /// Notes the questions too, and reads no secret.
    pub(super) fn with_questions() -> Self {
        Self {
            questions: Some(Questions::default()),
            ..Self::without_secrets()
        }
    }

    /// Secrets are left as they are written: no file and no variable is read.
    pub(super) fn without_secrets() -> Self {
        Self {
            leave_secrets: true,
            ..Self::default()
        }
    }

    pub(super) fn leaves_secrets(&self) -> bool {
        self.leave_secrets
    }

    pub(super) fn ask(&self, path: &str, question: impl FnOnce() -> Question) {
        if let Some(questions) = &self.questions {
            questions.note(path, question());
        }
    }

    pub(super) fn into_questions(self) -> Vec<(String, Question)> {
        self.questions.map(Questions::into_list).unwrap_or_default()
    }

    /// A file beside the config that a value was read from, or will be.
    pub(super) fn depends_on(&self, file: PathBuf) {
        self.files.borrow_mut().push(file);
    }

    /// All of them.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.files.borrow().clone()
    }

    pub(super) fn error(&self, path: &str, at: Place, message: impl Into<String>) {
        self.push(path, at, message.into(), Severity::Error);
    }

    pub(super) fn warn(&self, path: &str, at: Place, message: impl Into<String>) {
        self.push(path, at, message.into(), Severity::Warning);
    }

    /// The first error is always among those that are kept.
    fn push(&self, path: &str, at: Place, message: String, severity: Severity) {
        let mut problems = self.problems.borrow_mut();
        let room = match severity {
            Severity::Error => KEPT,
            Severity::Warning => KEPT / 2,
        };
        if problems.len() >= room {
            return;
        }
        let last = problems.len().saturating_add(1) == KEPT;
        let message = if last {
            "more is wrong than is listed here".to_owned()
        } else {
            message
        };
        problems.push(Problem {
            path: path.to_owned(),
            line: at.line,
            column: at.column,
            message,
            severity,
        });
    }

    /// All of them, in the order of the file; the same one only once.
    pub(super) fn into_list(self) -> Vec<Problem> {
        let mut list = self.problems.into_inner();
        list.sort_by_key(|problem| (problem.line, problem.column));
        list.dedup();
        list
    }
}

/// Why a file was refused: every error, and the warnings between them. `Display` prints one a line,
/// `file:line:column: path: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    file: String,
    list: Vec<Problem>,
}

/// What somebody should read about an accepted file. Printed like [`Problems`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Warnings {
    file: String,
    list: Vec<Problem>,
}

impl Problems {
    pub(super) fn new(file: &str, list: Vec<Problem>) -> Self {
        Self {
            file: file.to_owned(),
            list,
        }
    }

    pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> Self {
        Self::new(
            &path.display().to_string(),
            vec![Problem {
                path: String::new(),
                line: 1,
                column: 1,
                message: format!("cannot be read: {error}"),
                severity: Severity::Error,
            }],
        )
    }

    /// All of them, in the order of the file.
    pub fn list(&self) -> &[Problem] {
        &self.list
    }
}

impl Warnings {
    pub(super) fn new(file: &str, list: Vec<Problem>) -> Self {
        Self {
            file: file.to_owned(),
            list,
        }
    }

    /// All of them, in the order of the file.
    pub fn list(&self) -> &[Problem] {
        &self.list
    }
}

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(&self.file, &self.list, f)
    }
}

impl fmt::Display for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(&self.file, &self.list, f)
    }
}

fn print(file: &str, list: &[Problem], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, problem) in list.iter().enumerate() {
        if index > 0 {
            writeln!(f)?;
        }
        write!(f, "{file}:{problem}")?;
    }
    Ok(())
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.line, self.column)?;
        if self.severity == Severity::Warning {
            f.write_str("warning: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}
