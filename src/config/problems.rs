//! What is wrong with a config file, all of it.
//!
//! What always holds: problems are listed in the order of the file; a message says what would be
//! right; no message contains a secret.
//!
//! What it does not do: decide whether to start (`cli`).

use std::fmt;
use std::path::Path;

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
