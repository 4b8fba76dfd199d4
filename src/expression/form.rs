//! The fields of a form, however it is encoded.
//!
//! What always holds: the content type decides how the content is read; no type at all is read as
//! `application/x-www-form-urlencoded`, any other than the two kinds of form is not read. A field
//! that stands twice has no value.
//!
//! What it does not do: take files for fields (`Member::Multipart` has their digest).

use std::borrow::Cow;

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

use super::member::WhyMissing;
use super::multipart::{self, Part};
use super::pairs::{self, Fields};

/// A form, its fields not yet decoded.
pub(super) enum Form<'a> {
    /// `name=value&name=value`.
    Pairs(&'a str),
    /// `multipart/form-data`.
    Parts(Vec<Part<'a>>),
}

impl<'a> Form<'a> {
    /// Reads the content of a request as a form.
    pub(super) fn of(headers: &HeaderMap, body: &'a [u8]) -> Result<Self, WhyMissing> {
        if headers.contains_key(CONTENT_ENCODING) {
            return Err(WhyMissing::Unreadable);
        }
        let declared = content_type(headers)?;
        let essence = declared.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case("multipart/form-data") {
            return multipart::parts(declared, body).map(Self::Parts);
        }
        if !essence.is_empty() && !essence.eq_ignore_ascii_case("application/x-www-form-urlencoded")
        {
            return Err(WhyMissing::Unreadable);
        }
        let pairs = std::str::from_utf8(body).map_err(|_| WhyMissing::Unreadable)?;
        Ok(Self::Pairs(pairs))
    }

    /// The one value of a field.
    pub(super) fn value(&self, name: &str) -> Result<Cow<'a, str>, WhyMissing> {
        match self {
            Self::Pairs(pairs) => pairs::value(pairs, name),
            Self::Parts(parts) => multipart::part(parts, name)?.text().map(Cow::Borrowed),
        }
    }

    /// All fields but files.
    pub(super) fn all(&self) -> Fields<'a> {
        let parts = match self {
            Self::Pairs(pairs) => return pairs::all(pairs),
            Self::Parts(parts) => parts,
        };
        let fields = parts.iter().filter(|part| !part.is_file());
        let values = fields.map(|field| {
            let value = multipart::part(parts, field.name()).and_then(Part::text);
            let value = value.map_err(|why| (field.name().to_owned(), why))?;
            Ok((Cow::Borrowed(field.name()), Cow::Borrowed(value)))
        });
        values.collect()
    }
}

/// The one content type; empty if there is none.
pub(super) fn content_type(headers: &HeaderMap) -> Result<&str, WhyMissing> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    match (types.next(), types.next()) {
        (None, _) => Ok(""),
        (Some(declared), None) => declared.to_str().map_err(|_| WhyMissing::Unreadable),
        (Some(_), Some(_)) => Err(WhyMissing::Unreadable),
    }
}
