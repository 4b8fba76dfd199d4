//! Values computed from a request: an operation's identity, its resource, its token.
//!
//! What always holds: everything is compiled once, when the config is read; reading a value is pure;
//! a value that cannot be had is [`Missing`], never an empty text and never something weaker.
//!
//! What it does not do: conditions and CEL (a later version; such an expression is refused where it
//! stands), or decide what a missing value means (`wire`).

#![warn(missing_docs)]

mod escape;
mod json;
mod member;
pub mod multipart;
mod pairs;
mod path;
mod template;

pub use member::{JsonPointer, Member, Missing, RequestFacts, WhyMissing};
pub use path::{AmbiguousPath, PathParams, PathTemplate, PathTemplateError, RequestPath};
pub use template::{Template, TemplateError};
