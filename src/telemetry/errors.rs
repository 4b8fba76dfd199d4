//! An error with its causes in one line: `a: b: c`.
//!
//! What always holds: every error of this crate keeps its source out of its own `Display`, so that
//! the chain is written once and no cause appears twice.
//!
//! What it does not do: add backtraces, or decide whether an error is worth logging.

use std::error::Error;
use std::fmt;

/// Writes the error and all its sources, outermost first.
pub fn chain<'a>(error: &'a (dyn Error + 'static)) -> Chain<'a> {
    Chain(error)
}

/// An error chain, ready to be written.
#[derive(Clone, Copy, Debug)]
pub struct Chain<'a>(&'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = self.0.to_string();
        f.write_str(&last)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            // Libraries that break the rule above would say the same thing twice.
            let text = error.to_string();
            if !last.ends_with(&text) {
                write!(f, ": {text}")?;
                last = text;
            }
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Fault {
        text: &'static str,
        #[source]
        cause: Option<Box<Fault>>,
    }

    fn fault(text: &'static str, cause: Option<Fault>) -> Fault {
        Fault {
            text,
            cause: cause.map(Box::new),
        }
    }

    #[test]
    fn every_cause_appears_once_outermost_first() {
        let error = fault("a", Some(fault("b", Some(fault("c", None)))));
        assert_eq!(chain(&error).to_string(), "a: b: c");
    }

    #[test]
    fn a_library_that_repeats_its_cause_is_not_repeated() {
        let error = fault("open: no such file", Some(fault("no such file", None)));
        assert_eq!(chain(&error).to_string(), "open: no such file");
    }
}
