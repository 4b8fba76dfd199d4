//! What is asked of a config while it is read: what the schema is made of.
//!
//! What always holds: a question is noted by the very call that reads the value, so that there is no
//! second list of fields to keep.
//!
//! What it does not do: know the fields (`parse`), or write the schema (`schema`).

use std::cell::RefCell;
use std::ops::RangeInclusive;

/// One question about the value at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Which fields of known names does it have?
    Fields,
    /// Which entries of the user's own naming?
    Entries,
    /// Which items?
    Items,
    /// What stands under this name?
    Member(&'static str),
    /// The same, and it must be there.
    Needed(&'static str),
    /// Which of these words?
    Choice(Vec<String>),
    /// Which text, of this form? Empty: any.
    Text(String),
    /// Which number, of this form and within these bounds?
    Number(String, RangeInclusive<u64>),
    /// Which secret?
    Secret,
    /// None: it is refused by name, because only a later version knows it.
    Later,
}

/// A list of them, with the paths that they were asked at.
#[derive(Debug, Default)]
pub(super) struct Questions(RefCell<Vec<(String, Question)>>);

impl Questions {
    pub(super) fn note(&self, path: &str, question: Question) {
        self.0.borrow_mut().push((path.to_owned(), question));
    }

    pub(super) fn into_list(self) -> Vec<(String, Question)> {
        self.0.into_inner()
    }
}
