//! Values computed from a request, and conditions on an answer: an operation's identity, its resource,
//! its token; what an answer proves.
//!
//! What always holds: everything is compiled once, when the config is read; reading a value is pure;
//! a value that cannot be had is [`Missing`], never an empty text and never something weaker; a
//! condition that cannot be evaluated is not known, never false. Plain members (`{path.x}`) and
//! conditions on the status never enter the interpreter.
//!
//! What it does not do: decide what a missing value means (`wire`), or run anywhere but where it is
//! called: whoever has more content than `slow_above` says calls it off the async workers.

#![warn(missing_docs)]

mod condition;
mod escape;
mod form;
mod found;
mod graphql;
mod interpreter;
mod json;
mod member;
pub mod multipart;
mod pairs;
mod path;
mod template;
mod xml;

pub use condition::{AnswerFacts, Condition, Truth};
pub use found::{FoundCondition, Pick, RequestCondition};
pub use graphql::GraphQl;
pub use interpreter::{ExpressionError, Reference, Root};
pub use member::{JsonPointer, Member, Missing, OperationFacts, RequestFacts, WhyMissing};
pub use path::{AmbiguousPath, PathParams, PathTemplate, PathTemplateError, RequestPath};
pub use template::{Template, TemplateError};
pub use xml::XmlPath;
