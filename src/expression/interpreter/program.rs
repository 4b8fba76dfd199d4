//! A compiled expression.
//!
//! What always holds: it is within the limits, and names only what its place has. Compiling runs on
//! a thread of its own with room for the parser's recursion, so that neither a panic nor a deep
//! nesting of a text reaches the rest of the process.
//!
//! What it does not do: hold values.

use std::fmt;
use std::sync::{Arc, LazyLock};

use cel::common::ast::{Expr, operators};
use cel::{Env, IdedExpr, ParseErrors};

use super::check::{self, Reference, Root};
use super::limits::{LONGEST, Shape};

/// The parser takes up to 40 KiB of stack for a level; no text within [`LONGEST`] has a level for
/// each of its bytes. Only what is touched is ever used.
const PARSER_STACK: usize = 128 << 20;

/// The standard functions and macros, without optional values.
pub(super) static ENVIRONMENT: LazyLock<Arc<Env>> =
    LazyLock::new(|| Arc::new(Env::stdlib().with_optional_support(false)));

/// An expression, compiled. Equal if the texts are.
#[derive(Clone)]
pub(in crate::expression) struct Program(Arc<Inner>);

struct Inner {
    source: String,
    expression: IdedExpr,
    references: Vec<Reference>,
    shape: Shape,
}

/// An expression that is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExpressionError {
    /// Byte offset into the text.
    pub offset: usize,
    /// What is wrong, and what is known instead.
    pub message: String,
}

impl Program {
    /// Compiles a text for a place that has these roots. It stands `base` bytes into a longer one,
    /// which all offsets refer to.
    pub(in crate::expression) fn compile(
        source: &str,
        roots: &'static [Root],
        base: usize,
    ) -> Result<Self, ExpressionError> {
        let compiled = on_parser_stack(source, |source| {
            let parsed = parse(source)?;
            Self::of(&parsed, parsed.expression(), roots, base)
        });
        compiled.map_err(|error| ExpressionError {
            offset: base.saturating_add(error.offset),
            message: error.message,
        })
    }

    /// Compiles a condition; after it, the parts that all must hold (`a && b && c`).
    pub(in crate::expression) fn with_conjuncts(
        source: &str,
        roots: &'static [Root],
    ) -> Result<(Self, Vec<Self>), ExpressionError> {
        on_parser_stack(source, |source| {
            let parsed = parse(source)?;
            let whole = Self::of(&parsed, parsed.expression(), roots, 0)?;
            let mut parts = Vec::new();
            flatten(parsed.expression(), &mut parts);
            let parts = parts
                .into_iter()
                .map(|part| Self::of(&parsed, part, roots, 0));
            Ok((whole, parts.collect::<Result<_, _>>()?))
        })
    }

    fn of(
        parsed: &cel::Program,
        expression: &IdedExpr,
        roots: &[Root],
        base: usize,
    ) -> Result<Self, ExpressionError> {
        let places = parsed.source_info();
        // Before anything else: what comes after it recurses.
        let shape =
            Shape::of(expression).map_err(|message| ExpressionError { offset: 0, message })?;
        let mut references = check::references(expression, roots, places)?;
        for reference in &mut references {
            reference.offset = reference.offset.saturating_add(base);
        }
        Ok(Self(Arc::new(Inner {
            source: places.source.clone(),
            expression: expression.clone(),
            references,
            shape,
        })))
    }

    /// As written.
    pub(in crate::expression) fn source(&self) -> &str {
        &self.0.source
    }

    /// What it names.
    pub(in crate::expression) fn references(&self) -> &[Reference] {
        &self.0.references
    }

    /// Contents above this many bytes are evaluated off the async workers.
    pub(in crate::expression) fn slow_above(&self) -> usize {
        self.0.shape.slow_above()
    }

    pub(super) fn expression(&self) -> &IdedExpr {
        &self.0.expression
    }

    pub(super) fn shape(&self) -> Shape {
        self.0.shape
    }
}

/// Parses on a stack of its own.
fn on_parser_stack<T: Send>(
    source: &str,
    compile: impl FnOnce(&str) -> Result<T, ExpressionError> + Send,
) -> Result<T, ExpressionError> {
    if source.len() > LONGEST {
        let message = format!("is longer than {LONGEST} bytes");
        return Err(ExpressionError { offset: 0, message });
    }
    let compiled = std::thread::scope(|scope| {
        let parser = std::thread::Builder::new().name("expression".to_owned());
        let parser = parser.stack_size(PARSER_STACK);
        let running = parser.spawn_scoped(scope, || compile(source)).ok()?;
        running.join().ok()
    });
    compiled.unwrap_or_else(|| {
        let message = "cannot be compiled".to_owned();
        Err(ExpressionError { offset: 0, message })
    })
}

fn parse(source: &str) -> Result<cel::Program, ExpressionError> {
    ENVIRONMENT
        .compile(source)
        .map_err(|errors| first(source, &errors))
}

/// The first problem; the others are mostly its consequences.
fn first(source: &str, errors: &ParseErrors) -> ExpressionError {
    let Some(error) = errors.errors.first() else {
        let message = "cannot be read".to_owned();
        return ExpressionError { offset: 0, message };
    };
    let (line, column) = error.pos;
    let line = usize::try_from(line).unwrap_or_default().saturating_sub(1);
    let column = usize::try_from(column)
        .unwrap_or_default()
        .saturating_sub(1);
    let before: usize = source.split_inclusive('\n').take(line).map(str::len).sum();
    let rest = source.get(before..).unwrap_or_default();
    ExpressionError {
        offset: before.saturating_add(byte_offset(rest, column)),
        message: in_words(&error.msg),
    }
}

/// Where that character begins: the parser counts nodes in bytes and problems in characters.
fn byte_offset(text: &str, characters: usize) -> usize {
    text.char_indices()
        .nth(characters)
        .map_or(text.len(), |(offset, _)| offset)
}

/// The grammar's own message, without the list of every token that would have been possible.
fn in_words(message: &str) -> String {
    let message = message.strip_prefix("Syntax error: ").unwrap_or(message);
    if message.contains("Error(") || message.contains("recursion") {
        return "is nested too deeply".to_owned();
    }
    let message = message.split(" expecting ").next().unwrap_or(message);
    format!("is not CEL: {}", message.replace("'<EOF>'", "its end"))
}

/// The parts of a conjunction. Depth is bounded before.
fn flatten<'e>(expression: &'e IdedExpr, parts: &mut Vec<&'e IdedExpr>) {
    match &expression.expr {
        Expr::Call(call) if call.func_name == operators::LOGICAL_AND => {
            call.args.iter().for_each(|part| flatten(part, parts));
        }
        _ => parts.push(expression),
    }
}

impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        // One text means one thing in one place, and places do not share programs.
        self.source() == other.source() && self.expression() == other.expression()
    }
}

impl Eq for Program {}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({})", self.source())
    }
}
