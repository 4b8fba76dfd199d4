//! The configuration: a YAML file becomes a typed, immutable [`Config`].
//!
//! What always holds: every problem is reported, with path, line and column, not just the first;
//! unknown fields are refused; what a later version brings is refused and never silently accepted;
//! secrets are not shown by `Debug` or `Display`. The environment is read here and nowhere else.
//!
//! What it does not do: reload, print its schema, or explain a request (later versions).

#![warn(missing_docs)]

mod problems;
mod secret;
mod settings;

pub use problems::{Problem, Problems, Severity, Warnings};
pub use secret::Secret;
pub use settings::{
    Action, Admin, Config, EffectRule, Fence, Identity, KeyRule, Limits, Methods, Protect,
    Register, Route, TlsFiles, Unlisted, Upstream,
};

use std::path::Path;

/// Reads and parses a file. Relative paths in it are taken as they are.
pub fn load(path: &Path) -> Result<(Config, Warnings), Problems> {
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&text, &path.display().to_string()),
        Err(error) => Err(Problems::unreadable(path, &error)),
    }
}

/// Parses a config; `name` is what problems call it.
pub fn parse(_text: &str, name: &str) -> Result<(Config, Warnings), Problems> {
    Err(Problems::unreadable(
        Path::new(name),
        &std::io::ErrorKind::Unsupported.into(),
    ))
}
