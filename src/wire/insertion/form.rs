//! A field put into a form, or a parameter into a query.
//!
//! What always holds: what is there stays as it is, byte by byte; a pair is put at the end, a part of a
//! multipart content at the very beginning.
//!
//! What it does not do: look whether the name is there already (`insertion`).

use std::fmt::Write as _;

use super::Why;
use crate::expression::multipart;

/// The target with a parameter more.
pub(super) fn in_target(target: &str, name: &str, value: &str) -> String {
    let separator = match target.split_once('?') {
        None => "?",
        Some((_, query)) => before_pair(query),
    };
    format!("{target}{separator}{}", pair(name, value))
}

/// The content with a field more.
pub(super) fn in_content(
    declared: &str,
    content: &[u8],
    name: &str,
    value: &str,
) -> Result<Vec<u8>, Why> {
    let Some(boundary) = multipart::boundary(declared) else {
        let pairs = std::str::from_utf8(content).map_err(|_| Why::Content)?;
        let separator = before_pair(pairs);
        return Ok(format!("{pairs}{separator}{}", pair(name, value)).into_bytes());
    };
    // Behind a preamble nobody says where the first part begins.
    if !content.starts_with(format!("--{boundary}").as_bytes()) {
        return Err(Why::Preamble);
    }
    let part = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
    );
    Ok([part.as_bytes(), content].concat())
}

fn before_pair(pairs: &str) -> &'static str {
    if pairs.is_empty() || pairs.ends_with('&') {
        ""
    } else {
        "&"
    }
}

fn pair(name: &str, value: &str) -> String {
    format!("{}={}", encoded(name), encoded(value))
}

/// Everything but what every reader takes for itself.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_') {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
