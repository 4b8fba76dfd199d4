//! `multipart/form-data` (RFC 7578), taken apart.
//!
//! What always holds: content is understood whole or not at all. What two readers could take apart
//! in two ways is not read: a preamble, an epilogue, bare line feeds, a parameter that stands twice,
//! an escape in a name, a transfer encoding.
//!
//! What it does not do: decode character sets (fields are UTF-8), or keep file names.

use super::member::WhyMissing;

/// Parts of one form, at most.
const MOST_PARTS: usize = 1_024;
/// Header of one part, in bytes.
const LONGEST_HEADER: usize = 8_192;
/// RFC 2046.
const LONGEST_BOUNDARY: usize = 70;

/// One part of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    name: &'a str,
    is_file: bool,
    content: &'a [u8],
}

impl<'a> Part<'a> {
    pub(super) fn name(&self) -> &'a str {
        self.name
    }

    /// Does it bring a file, named or not?
    pub(super) fn is_file(&self) -> bool {
        self.is_file
    }

    /// Its bytes.
    pub(super) fn content(&self) -> &'a [u8] {
        self.content
    }

    /// The text of a field.
    pub(super) fn text(&self) -> Result<&'a str, WhyMissing> {
        if self.is_file {
            return Err(WhyMissing::NotText);
        }
        std::str::from_utf8(self.content).map_err(|_| WhyMissing::NotText)
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

/// All parts, in order. `content_type` names the boundary.
pub(super) fn parts<'a>(content_type: &str, body: &'a [u8]) -> Result<Vec<Part<'a>>, WhyMissing> {
    read(content_type, body).ok_or(WhyMissing::Unreadable)
}

fn read<'a>(content_type: &str, body: &'a [u8]) -> Option<Vec<Part<'a>>> {
    let boundary = boundary(content_type)?;
    let opening = format!("--{boundary}");
    let between = format!("\r\n--{boundary}");
    let mut rest = body.strip_prefix(opening.as_bytes())?;
    let mut parts = Vec::new();
    loop {
        if let Some(end) = rest.strip_prefix(b"--") {
            return matches!(end, b"" | b"\r\n").then_some(parts);
        }
        rest = rest.strip_prefix(b"\r\n")?;
        let content_end = find(rest, between.as_bytes())?;
        let (whole, after) = rest.split_at_checked(content_end)?;
        if parts.len() >= MOST_PARTS {
            return None;
        }
        parts.push(one(whole)?);
        rest = after.get(between.len()..)?;
    }
}

/// Header, empty line, content.
fn one(whole: &[u8]) -> Option<Part<'_>> {
    let end = find(whole, b"\r\n\r\n").filter(|&end| end <= LONGEST_HEADER)?;
    let (header, content) = whole.split_at_checked(end)?;
    let header = std::str::from_utf8(header).ok()?;
    let mut disposition = None;
    for line in header.split("\r\n") {
        if line.contains(|c: char| c.is_control() && c != '\t') || line.starts_with([' ', '\t']) {
            return None;
        }
        let (name, value) = line.split_once(':')?;
        if name.eq_ignore_ascii_case("content-disposition") {
            if disposition.replace(value).is_some() {
                return None;
            }
        } else if name.eq_ignore_ascii_case("content-transfer-encoding") {
            return None;
        }
    }
    let parameters = parameters(disposition?.trim(), "form-data")?;
    let named = |wanted: &str| {
        let mut named = parameters
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        named.next().map(|(_, value)| *value)
    };
    Some(Part {
        name: named("name")?,
        is_file: named("filename").is_some() || named("filename*").is_some(),
        content: content.get(4..)?,
    })
}

fn boundary(content_type: &str) -> Option<&str> {
    let parameters = parameters(content_type, "multipart/form-data")?;
    let (_, boundary) = parameters
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("boundary"))?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || "'()+_,-./:=? ".contains(c);
    let plain = !boundary.is_empty()
        && boundary.len() <= LONGEST_BOUNDARY
        && boundary.chars().all(allowed)
        && !boundary.ends_with(' ');
    plain.then_some(*boundary)
}

/// `essence; name=value; name="value"`: each name once.
fn parameters<'a>(text: &'a str, essence: &str) -> Option<Vec<(&'a str, &'a str)>> {
    let (found, mut rest) = text.split_once(';').unwrap_or((text, ""));
    if !found.trim().eq_ignore_ascii_case(essence) {
        return None;
    }
    let mut parameters: Vec<(&str, &str)> = Vec::new();
    while !rest.trim().is_empty() {
        let (name, after) = rest.split_once('=')?;
        let name = name.trim();
        let (value, after) = if let Some(quoted) = after.strip_prefix('"') {
            let (value, after) = quoted.split_once('"')?;
            let after = after.trim_start();
            let next = after.strip_prefix(';');
            (value, if after.is_empty() { after } else { next? })
        } else {
            let (value, after) = after.split_once(';').unwrap_or((after, ""));
            (value.trim(), after)
        };
        let twice = parameters
            .iter()
            .any(|(known, _)| known.eq_ignore_ascii_case(name));
        let plain_name =
            !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c == ';');
        if twice || !plain_name || value.contains(['\\', '"']) {
            return None;
        }
        parameters.push((name, value));
        rest = after;
    }
    Some(parameters)
}

/// Where `needle` first stands, found without going back over what was read.
fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(haystack, needle)
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

    fn value<'a>(body: &'a str, name: &str) -> Result<&'a str, WhyMissing> {
        part(&parts(TYPE, body.as_bytes())?, name)?.text()
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
            ("Content-Disposition: form-data; name=\"empty\"", ""),
        ]);
        assert_eq!(value(&body, "amount"), Ok("5"));
        assert_eq!(value(&body, "note"), Ok("a\r\n--b-2\r\nb"));
        assert_eq!(value(&body, "empty"), Ok(""));
        assert_eq!(value(&body, "file"), Err(WhyMissing::NotText));
        assert_eq!(value(&body, "nope"), Err(WhyMissing::Absent));
        let parts = parts(TYPE, body.as_bytes()).unwrap();
        assert_eq!(part(&parts, "file").unwrap().content(), b"%PDF");
        let twice = form(&[
            ("Content-Disposition: form-data; name=\"a\"", "1"),
            ("Content-Disposition: form-data; name=\"a\"", "1"),
        ]);
        assert_eq!(value(&twice, "a"), Err(WhyMissing::Repeated));
    }

    #[test]
    fn what_two_readers_could_take_apart_in_two_ways_is_not_read() {
        let good = form(&[("Content-Disposition: form-data; name=\"a\"", "1")]);
        assert_eq!(value(&good, "a"), Ok("1"));
        for bad in [
            String::new(),
            format!("preamble\r\n{good}"),
            format!("{good}epilogue"),
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
        let many = form(&vec![("Content-Disposition: form-data; name=a", ""); 1_025]);
        assert_eq!(parts(TYPE, many.as_bytes()), Err(WhyMissing::Unreadable));
    }
}
