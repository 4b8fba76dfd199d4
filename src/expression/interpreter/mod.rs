//! The one place that knows the CEL interpreter.
//!
//! What always holds: an expression is compiled once, within bounds of size, depth and loops, and
//! may name only the roots and functions listed here; evaluating it is bounded by the size of what
//! it reads; a panic of the interpreter is an error of that one evaluation. Nothing that is
//! ambiguous (a header, parameter, field or JSON member that stands twice) or inexact (an integer
//! beyond 64 bits) is handed to it.
//!
//! What it does not do: read clocks, match regular expressions, call out (none of these functions
//! is compiled in), or decide what a failure means.

mod check;
mod evaluate;
mod limits;
mod program;
mod scope;
mod values;

pub use check::{Reference, Root};
pub(super) use limits::SLOW_ABOVE;
pub use program::ExpressionError;
pub(super) use program::Program;
pub(super) use scope::Scope;

#[cfg(test)]
mod tests;
