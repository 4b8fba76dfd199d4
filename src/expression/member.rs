//! One named part of a request: a header, a path or query parameter, a field of the body, the token.
//!
//! What always holds: a member has one text or none. Two headers, parameters, fields or JSON members
//! of one name are not a value: which of them the upstream takes is its own affair.
//!
//! What it does not do: collect bodies, or judge tokens.

use std::borrow::Cow;
use std::fmt;

use http::{HeaderMap, HeaderName, Method};

use super::form::Form;
use super::graphql::{self, GraphQl};
use super::path::PathParams;
use super::xml::{self, XmlPath};
use super::{form, json, pairs};
use crate::protocol::ids::FencingToken;

/// Longest value, in bytes. What names things is short; a register full of megabyte names is an
/// attack or a mistake.
const LONGEST_VALUE: usize = 1024;

/// Stands in the text where the incarnation is named.
const INCARNATION: &str = "*";

/// What a value may be read from. Borrowed: made per request, thrown away.
#[derive(Clone, Copy, Debug)]
pub struct RequestFacts<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path, as sent.
    pub raw_path: &'a str,
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
    /// The operation, where it is known already.
    pub operation: Option<OperationFacts<'a>>,
}

/// What is known of the operation that a request is.
#[derive(Clone, Copy, Debug)]
pub struct OperationFacts<'a> {
    /// Its id.
    pub id: &'a str,
    /// The key that it was sent under; `None` where the upstream honours none.
    pub key: Option<&'a str>,
    /// The digest of its identity that may have been sent with it; `None` where it is not asked for yet.
    pub reference: Option<&'a str>,
    /// The statuses of the answers that its attempts got and that proved nothing, as `500 400`; `None` where
    /// it is not asked for.
    pub answers: Option<&'a str>,
}

impl<'a> OperationFacts<'a> {
    /// Nothing but its id.
    pub fn of_id(id: &'a str) -> Self {
        Self {
            id,
            key: None,
            reference: None,
            answers: None,
        }
    }
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
    /// A field of a form, `application/x-www-form-urlencoded` or `multipart/form-data`.
    Form(String),
    /// A part of a `multipart/form-data` body, file or field: the SHA-256 of its content, in hex.
    Multipart(String),
    /// An element of an XML body.
    Xml(XmlPath),
    /// A variable or the operation's name of a GraphQL request.
    GraphQl(GraphQl),
    /// The fencing token, epoch included where there is one.
    Token,
    /// The operation's id.
    OperationId,
    /// The incarnation of the resource. It is not known before the register is asked: it is carried
    /// beside the id, not in its text.
    Incarnation,
}

/// So many names and indices lead into a body at most; readers of JSON give up at about twice as many.
const DEEPEST: usize = 64;

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
    /// It is longer than 1024 bytes.
    TooLong,
    /// It is not text.
    NotText,
    /// It is null, an object, an array, or a number that is not an integer of 64 bits.
    NotScalar,
    /// The body is not what the member needs (JSON, a form, XML).
    Unreadable,
    /// It stands among integers of more than 64 bits, which would lose digits.
    Inexact,
    /// Computing it would take more work than one request may.
    TooMuch,
    /// It cannot be computed from these values.
    Failed,
}

impl Member {
    /// Its one text, as it is.
    pub fn read<'a>(&self, facts: &RequestFacts<'a>) -> Result<Cow<'a, str>, Missing> {
        let text = self.look_up(facts).and_then(bounded);
        text.map_err(|why| self.missing(why))
    }

    fn look_up<'a>(&self, facts: &RequestFacts<'a>) -> Result<Cow<'a, str>, WhyMissing> {
        match self {
            Self::Path(name) => facts
                .path
                .value(name)
                .map(Cow::Borrowed)
                .ok_or(WhyMissing::Absent),
            Self::Query(name) => pairs::value(facts.query.unwrap_or_default(), name),
            Self::Header(name) => header(facts.headers, name),
            Self::Json(pointer) => json::scalar(facts.body, &pointer.0).map(Cow::Owned),
            Self::Form(name) => Form::of(facts.headers, facts.body)?.value(name),
            Self::Multipart(name) => part_digest(facts, name).map(Cow::Owned),
            Self::Xml(path) => xml::text(facts.body, path).map(Cow::Owned),
            Self::GraphQl(wanted) => graphql::value(facts.body, wanted).map(Cow::Owned),
            Self::Token => {
                let token = facts.token.ok_or(WhyMissing::Absent)?;
                Ok(Cow::Owned(token.to_string()))
            }
            Self::OperationId => {
                let operation = facts.operation.ok_or(WhyMissing::Absent)?;
                Ok(Cow::Borrowed(operation.id))
            }
            Self::Incarnation => Ok(Cow::Borrowed(INCARNATION)),
        }
    }

    fn missing(&self, why: WhyMissing) -> Missing {
        Missing {
            field: self.to_string(),
            why,
        }
    }
}

/// A value says something, and is no longer than a name.
pub(super) fn bounded<T: AsRef<str>>(text: T) -> Result<T, WhyMissing> {
    match text.as_ref().len() {
        0 => Err(WhyMissing::Empty),
        1..=LONGEST_VALUE => Ok(text),
        _ => Err(WhyMissing::TooLong),
    }
}

fn part_digest(facts: &RequestFacts<'_>, name: &str) -> Result<String, WhyMissing> {
    let Form::Parts(parts) = Form::of(facts.headers, facts.body)? else {
        return Err(WhyMissing::Unreadable);
    };
    let content = form::part(&parts, name)?.content;
    let digest = ring::digest::digest(&ring::digest::SHA256, content);
    let digits = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    Ok(digits.collect())
}

/// The one field of a name.
pub(super) fn header<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Cow<'a, str>, WhyMissing> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().ok_or(WhyMissing::Absent)?;
    if values.next().is_some() {
        return Err(WhyMissing::Repeated);
    }
    let text = value.to_str().map_err(|_| WhyMissing::NotText)?;
    Ok(Cow::Borrowed(text))
}

impl JsonPointer {
    /// Reads `/order/id`. `None` if it does not start with `/`, holds a `~` that is no escape, or leads deeper than
    /// bodies that anybody reads are nested. The empty pointer is the whole body.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self(Vec::new()));
        }
        let rest = text.strip_prefix('/')?;
        let tokens = rest.split('/').map(unescape).collect::<Option<Vec<_>>>()?;
        (tokens.len() <= DEEPEST).then_some(Self(tokens))
    }

    /// Names and indices from the outermost on, unescaped.
    pub fn tokens(&self) -> &[String] {
        &self.0
    }

    pub(super) fn of(tokens: Vec<String>) -> Self {
        Self(tokens)
    }
}

/// RFC 6901: `~1` is `/`, `~0` is `~`.
fn unescape(token: &str) -> Option<String> {
    let mut parts = token.split('~');
    let mut out = parts.next()?.to_owned();
    for part in parts {
        let (meant, rest) = match part.as_bytes().first()? {
            b'0' => ('~', part.get(1..)?),
            b'1' => ('/', part.get(1..)?),
            _ => return None,
        };
        out.push(meant);
        out.push_str(rest);
    }
    Some(out)
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.why)
    }
}

impl fmt::Display for WhyMissing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "is not there",
            Self::Empty => "is empty",
            Self::Repeated => "is there more than once",
            Self::TooLong => "is longer than 1024 bytes",
            Self::NotText => "is not text",
            Self::NotScalar => "is not a string, an integer of 64 bits or a boolean",
            Self::Unreadable => "is looked for in a body that cannot be read as such",
            Self::Inexact => "stands among integers of more than 64 bits",
            Self::TooMuch => "takes more work than one request may make",
            Self::Failed => "cannot be computed from this request",
        })
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
            Self::Multipart(name) => write!(f, "multipart {name}"),
            Self::Xml(path) => write!(f, "xml {path}"),
            Self::GraphQl(wanted) => write!(f, "graphql {wanted}"),
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
