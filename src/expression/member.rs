//! One named part of a request: a header, a path or query parameter, a JSON or form field, the token.
//!
//! What always holds: a member has one text or none. Two headers, parameters, fields or JSON members
//! of one name are not a value: which of them the upstream takes is its own affair.
//!
//! What it does not do: collect bodies, or judge tokens.

use std::borrow::Cow;
use std::fmt;

use http::{HeaderMap, HeaderName};

use super::path::PathParams;
use crate::protocol::ids::FencingToken;

/// What a value may be read from. Borrowed: made per request, thrown away.
#[derive(Clone, Copy, Debug)]
pub struct RequestFacts<'a> {
    /// What the effect's path template captured, percent-decoded.
    pub path: &'a PathParams,
    /// The raw query, without `?`.
    pub query: Option<&'a str>,
    /// The caller's headers.
    pub headers: &'a HeaderMap,
    /// The whole body, as received.
    pub body: &'a [u8],
    /// The caller's token, if it presented a readable one.
    pub token: Option<FencingToken>,
    /// The operation's id, where it is known already.
    pub operation: Option<&'a str>,
}

/// A named part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    /// A parameter of the path template.
    Path(String),
    /// A query parameter.
    Query(String),
    /// A header.
    Header(HeaderName),
    /// A member of a JSON body.
    Json(JsonPointer),
    /// A field of an `application/x-www-form-urlencoded` body.
    Form(String),
    /// The fencing token, epoch included where there is one.
    Token,
    /// The operation's id.
    OperationId,
    /// The incarnation of the resource. It is not known before the register is asked: it is carried
    /// beside the id, not in its text.
    Incarnation,
}

/// A parsed RFC 6901 pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPointer(Vec<String>);

/// A value that cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What was looked for, in words of the config: `header idempotency-key`, `json /order/id`.
    pub field: String,
    /// Why there is no value.
    pub why: WhyMissing,
}

/// Why there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhyMissing {
    /// It is not there.
    Absent,
    /// It is there, and empty.
    Empty,
    /// It is there more than once.
    Repeated,
    /// It is not text.
    NotText,
    /// It is null, an object, an array, or a number that is not an integer of 64 bits.
    NotScalar,
    /// The body is not what the member needs (JSON, a form).
    Unreadable,
}

impl Member {
    /// Its one text.
    pub fn read<'a>(&self, _facts: &RequestFacts<'a>) -> Result<Cow<'a, str>, Missing> {
        Err(self.missing(WhyMissing::Absent))
    }

    fn missing(&self, why: WhyMissing) -> Missing {
        Missing {
            field: self.to_string(),
            why,
        }
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(name) => write!(f, "path {name}"),
            Self::Query(name) => write!(f, "query {name}"),
            Self::Header(name) => write!(f, "header {name}"),
            Self::Json(pointer) => write!(f, "json {pointer}"),
            Self::Form(name) => write!(f, "form {name}"),
            Self::Token => f.write_str("token"),
            Self::OperationId => f.write_str("operation id"),
            Self::Incarnation => f.write_str("resource incarnation"),
        }
    }
}

impl fmt::Display for JsonPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for token in &self.0 {
            write!(f, "/{}", token.replace('~', "~0").replace('/', "~1"))?;
        }
        Ok(())
    }
}
