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

/// RFC 2046's way to encode a part; RFC 7578 has deprecated it for forms.
const TRANSFER_ENCODING: &str = "content-transfer-encoding";

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
            return parts(declared, body).map(Self::Parts);
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
            Self::Parts(parts) => text(part(parts, name)?).map(Cow::Borrowed),
        }
    }

    /// All fields but files.
    pub(super) fn all(&self) -> Fields<'a> {
        let parts = match self {
            Self::Pairs(pairs) => return pairs::all(pairs),
            Self::Parts(parts) => parts,
        };
        let fields = parts.iter().filter(|part| !is_file(part));
        let values = fields.map(|field| {
            let value = part(parts, field.name).and_then(text);
            let value = value.map_err(|why| (field.name.to_owned(), why))?;
            Ok((Cow::Borrowed(field.name), Cow::Borrowed(value)))
        });
        values.collect()
    }
}

/// All parts, in order. What names a part must be the same for every reader: a name with an escape,
/// or content in a transfer encoding, is not read.
fn parts<'a>(content_type: &str, body: &'a [u8]) -> Result<Vec<Part<'a>>, WhyMissing> {
    let boundary = multipart::boundary(content_type).ok_or(WhyMissing::Unreadable)?;
    let parts = multipart::parts(boundary, body).map_err(|_| WhyMissing::Unreadable)?;
    let plain = |part: &Part<'_>| {
        let encoded = |(name, _): &(&str, &str)| name.eq_ignore_ascii_case(TRANSFER_ENCODING);
        !part.name.contains('\\') && !part.others.iter().any(encoded)
    };
    if parts.iter().all(plain) {
        Ok(parts)
    } else {
        Err(WhyMissing::Unreadable)
    }
}

/// The one part of a name.
pub(super) fn part<'p, 'a>(parts: &'p [Part<'a>], name: &str) -> Result<&'p Part<'a>, WhyMissing> {
    let mut named = parts.iter().filter(|part| part.name == name);
    match (named.next(), named.next()) {
        (None, _) => Err(WhyMissing::Absent),
        (Some(part), None) => Ok(part),
        (Some(_), Some(_)) => Err(WhyMissing::Repeated),
    }
}

/// Does it bring a file, named or not?
fn is_file(part: &Part<'_>) -> bool {
    let extended = |(name, _): &(&str, &str)| name.eq_ignore_ascii_case("filename*");
    part.filename.is_some() || part.others.iter().any(extended)
}

/// The text of a field.
fn text<'a>(part: &Part<'a>) -> Result<&'a str, WhyMissing> {
    if is_file(part) {
        return Err(WhyMissing::NotText);
    }
    std::str::from_utf8(part.content).map_err(|_| WhyMissing::NotText)
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

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=\"b-1\"";

    fn form(parts: &[(&str, &str)]) -> String {
        let parts = parts.iter();
        let written =
            parts.map(|(header, content)| format!("--b-1\r\n{header}\r\n\r\n{content}\r\n"));
        written.collect::<String>() + "--b-1--\r\n"
    }

    fn value(body: &str, name: &str) -> Result<String, WhyMissing> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, TYPE.parse().unwrap());
        let form = Form::of(&headers, body.as_bytes())?;
        form.value(name).map(Cow::into_owned)
    }

    #[test]
    fn fields_and_files_are_told_apart() {
        let body = form(&[
            ("Content-Disposition: form-data; name=\"amount\"", "5"),
            (
                "content-disposition: form-data; name=note\r\nContent-Type: text/plain",
                "a\r\n--b-2\r\nb",
            ),
            (
                "Content-Disposition: form-data; name=\"file\"; filename=\"a;b.pdf\"",
                "%PDF",
            ),
            (
                "Content-Disposition: form-data; name=\"other\"; filename*=UTF-8''a.pdf",
                "%PDF",
            ),
            ("Content-Disposition: form-data; name=\"empty\"", ""),
        ]);
        assert_eq!(value(&body, "amount").as_deref(), Ok("5"));
        assert_eq!(value(&body, "note").as_deref(), Ok("a\r\n--b-2\r\nb"));
        assert_eq!(value(&body, "empty").as_deref(), Ok(""));
        assert_eq!(value(&body, "file"), Err(WhyMissing::NotText));
        assert_eq!(value(&body, "other"), Err(WhyMissing::NotText));
        assert_eq!(value(&body, "nope"), Err(WhyMissing::Absent));
        let parts = parts(TYPE, body.as_bytes()).unwrap();
        assert_eq!(part(&parts, "file").unwrap().content, b"%PDF");
        let twice = form(&[
            ("Content-Disposition: form-data; name=\"a\"", "1"),
            ("Content-Disposition: form-data; name=\"a\"", "1"),
        ]);
        assert_eq!(value(&twice, "a"), Err(WhyMissing::Repeated));
    }

    #[test]
    fn what_two_readers_could_take_apart_in_two_ways_is_not_read() {
        let good = form(&[("Content-Disposition: form-data; name=\"a\"", "1")]);
        assert_eq!(value(&good, "a").as_deref(), Ok("1"));
        for bad in [
            String::new(),
            good.replace("--b-1--", "--b-1"),
            good.replace("\r\n", "\n"),
            good.replace("name=\"a\"", "name=\"a\"; name=\"b\""),
            good.replace("name=\"a\"", "name=\"a\\\"\""),
            good.replace("name=\"a\"", "filename=\"a\""),
            good.replace("form-data", "attachment"),
            good.replace(
                "\r\n\r\n1",
                "\r\nContent-Transfer-Encoding: base64\r\n\r\n1",
            ),
            good.replace(
                "\r\n\r\n1",
                "\r\nContent-Disposition: form-data; name=b\r\n\r\n1",
            ),
            good.replace("\r\n\r\n1", ";\r\n name=b\r\n\r\n1"),
        ] {
            assert_eq!(value(&bad, "a"), Err(WhyMissing::Unreadable), "{bad}");
        }
        for content_type in [
            "multipart/form-data",
            "multipart/mixed; boundary=b-1",
            "multipart/form-data; boundary=b-1; boundary=b-2",
            "multipart/form-data; boundary=",
            "multipart/form-data; boundary=\"b-1",
        ] {
            let read = parts(content_type, good.as_bytes());
            assert_eq!(read, Err(WhyMissing::Unreadable), "{content_type}");
        }
        let many = form(&vec![
            ("Content-Disposition: form-data; name=a", "");
            multipart::MOST_PARTS + 1
        ]);
        assert_eq!(parts(TYPE, many.as_bytes()), Err(WhyMissing::Unreadable));
    }
}
