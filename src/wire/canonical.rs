//! What a request means, as one unambiguous string of bytes.
//!
//! What always holds: the bytes cover method and path exactly as sent, and either the query exactly as
//! sent and the content in the form that its Content-Type calls for, or what the rule `means` selects
//! in their place. They cover no header field that the rule does not name: not the identity, not the
//! token, not a credential, so that a repeat by another worker with fresh credentials means the same.
//! Every part is preceded by its length, so no two different requests run together into one string.
//!
//! | Content-Type (case and parameters ignored) | content counts as |
//! |---|---|
//! | `application/json`, `…+json` | its JSON value (`json.rs` says which texts hold the same); what is not one JSON text, or repeats a member name, is refused |
//! | `application/x-www-form-urlencoded` | its decoded pairs, names in order, equal names in the order sent; `a` is not `a=` |
//! | `multipart/form-data` | its parts in the order sent: name, file name, type, other fields, exact bytes; neither the boundary nor what stands outside the parts. What cannot be taken apart in one way only counts byte by byte |
//! | anything else, none, several, or coded content (`Content-Encoding`) | its exact bytes |
//!
//! No content at all means the same under every type.
//!
//! What it does not do: read a `charset` (JSON is UTF-8), undo content codings, or take apart other
//! kinds of multipart.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName};
use ring::digest;

use super::form::{self, Pair};
use super::json::{self, JsonError};
use super::selected::Selection;
use crate::expression::multipart::{self, Part};

/// Version of the canonical form. Whatever changes a single canonical byte raises it: fingerprints
/// of two forms are comparable only for requests whose bytes did not change (see
/// [`Canonical::since`]). 2: multipart content by its parts; `means`.
pub const FORM: u8 = 2;

/// Why a request has no canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the content has no canonical form")]
pub struct NotCanonical(#[source] pub JsonError);

/// The canonical form of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canonical<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) query: Option<&'a str>,
    pub(super) content: Content<'a>,
}

/// What a request holds, in the form it is compared in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content<'a> {
    /// These very bytes.
    Exact(&'a [u8]),
    /// A canonical JSON text.
    Json(Vec<u8>),
    /// Sorted pairs.
    Form(Vec<Pair<'a>>),
    /// Parts in the order sent.
    Multipart(Vec<PartDigest<'a>>),
    /// What the rule selects, of the whole request.
    Selected(Selection),
}

/// A part by its digest: a file is read once, and never copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartDigest<'a> {
    pub(super) name: &'a str,
    /// SHA-256 over all that the part is.
    pub(super) whole: [u8; 32],
}

impl<'a> Canonical<'a> {
    /// The whole request. `target`: origin form, as sent.
    pub fn of(
        method: &'a str,
        target: &'a str,
        headers: &HeaderMap,
        content: &'a [u8],
    ) -> Result<Self, NotCanonical> {
        let content = Content::of(headers, content)?;
        Ok(Self::with(method, target, content))
    }

    /// The whole request, its content byte by byte.
    pub fn exact(method: &'a str, target: &'a str, content: &'a [u8]) -> Self {
        Self::with(method, target, Content::Exact(content))
    }

    /// Method, path, and nothing but the selection. The query is no part of the path.
    pub(super) fn selected(method: &'a str, target: &'a str, selection: Selection) -> Self {
        Self {
            query: None,
            ..Self::with(method, target, Content::Selected(selection))
        }
    }

    fn with(method: &'a str, target: &'a str, content: Content<'a>) -> Self {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        Self {
            method,
            path,
            query,
            content,
        }
    }

    /// The earliest form in which a request like this had the same bytes.
    pub fn since(&self) -> u8 {
        match self.content {
            Content::Exact(_) | Content::Json(_) | Content::Form(_) => 1,
            Content::Multipart(_) | Content::Selected(_) => 2,
        }
    }

    /// Hands the canonical bytes to `sink`, in pieces whose borders mean nothing.
    pub fn feed(&self, mut sink: impl FnMut(&[u8])) {
        let mut part = |bytes: &[u8]| {
            sink(&length(bytes));
            sink(bytes);
        };
        part(self.method.as_bytes());
        part(self.path.as_bytes());
        match self.query {
            None => part(b""),
            // Never empty: `/a?` is not `/a`.
            Some(query) => part(format!("?{query}").as_bytes()),
        }
        part(self.content.tag());
        match &self.content {
            Content::Exact(bytes) => part(bytes),
            Content::Json(text) => part(text),
            Content::Form(pairs) => part(&written(pairs)),
            Content::Multipart(parts) => {
                part(&parts.iter().flat_map(|part| part.whole).collect::<Vec<_>>());
            }
            Content::Selected(selection) => selection.feed(&mut part),
        }
    }
}

impl<'a> Content<'a> {
    fn of(headers: &HeaderMap, content: &'a [u8]) -> Result<Self, NotCanonical> {
        let declared = sole(headers, &CONTENT_TYPE);
        let Some(declared) = declared.filter(|_| !content.is_empty()) else {
            return Ok(Self::Exact(content));
        };
        if headers.contains_key(CONTENT_ENCODING) {
            return Ok(Self::Exact(content));
        }
        let essence = declared.split(';').next().unwrap_or_default().trim();
        let essence = essence.to_ascii_lowercase();
        match essence.as_str() {
            "application/json" => Self::json(content),
            "application/x-www-form-urlencoded" => Ok(Self::Form(form::sorted(content))),
            "multipart/form-data" => Ok(multipart::boundary(declared)
                .and_then(|boundary| multipart::parts(boundary, content).ok())
                .map_or(Self::Exact(content), |parts| {
                    Self::Multipart(parts.iter().map(PartDigest::of).collect())
                })),
            other if other.contains('/') && other.ends_with("+json") => Self::json(content),
            _ => Ok(Self::Exact(content)),
        }
    }

    fn json(content: &[u8]) -> Result<Self, NotCanonical> {
        json::canonical(content)
            .map(Self::Json)
            .map_err(NotCanonical)
    }

    fn tag(&self) -> &'static [u8] {
        match self {
            Self::Exact(_) => b"exact",
            Self::Json(_) => b"json",
            Self::Form(_) => b"form",
            Self::Multipart(_) => b"multipart",
            Self::Selected(_) => b"selected",
        }
    }
}

impl<'a> PartDigest<'a> {
    fn of(part: &Part<'a>) -> Self {
        let mut context = digest::Context::new(&digest::SHA256);
        let mut piece = |there: bool, bytes: &[u8]| {
            context.update(&[u8::from(there)]);
            context.update(&length(bytes));
            context.update(bytes);
        };
        piece(true, part.name.as_bytes());
        for said in [part.filename, part.content_type] {
            piece(said.is_some(), said.unwrap_or_default().as_bytes());
        }
        for (name, value) in &part.others {
            piece(true, name.to_ascii_lowercase().as_bytes());
            piece(true, value.as_bytes());
        }
        piece(false, part.content);
        let whole = context.finish();
        Self {
            name: part.name,
            whole: whole.as_ref().try_into().unwrap_or_default(),
        }
    }
}

/// The text of a field that occurs once and no more and is readable.
fn sole<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        (Some(_), Some(_)) | (None, _) => None,
    }
}

fn written(pairs: &[Pair<'_>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(pairs.len().saturating_mul(32));
    for pair in pairs {
        out.extend(length(&pair.name));
        out.extend_from_slice(&pair.name);
        match &pair.value {
            None => out.push(0),
            Some(value) => {
                out.push(1);
                out.extend(length(value));
                out.extend_from_slice(value);
            }
        }
    }
    out
}

/// Eight bytes, big-endian.
pub(super) fn length(bytes: &[u8]) -> [u8; 8] {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests;
