//! Header fields between hyper's map and the protocol's list.
//!
//! What always holds: values keep their bytes, duplicates their number and order. Fields that belong
//! to one connection (RFC 9110 §7.6.1), those that a Connection field nominates, and those of the
//! framing never cross.
//!
//! What it does not do: keep duplicates of one name apart from each other (they come out side by
//! side, which RFC 9110 §5.3 makes equal), or judge end-to-end fields (`wire`).

use bytes::Bytes;
use http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue};

use crate::protocol::outcome::Fields;

const OF_ONE_CONNECTION: [&str; 9] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
];

/// A field that cannot be sent.
#[derive(Debug)]
pub(super) struct Unsendable;

/// Appends the end-to-end fields to `map`, but not Host, which the endpoint decides.
pub(super) fn append(fields: &Fields, map: &mut HeaderMap) -> Result<(), Unsendable> {
    let nominated = nominated(
        fields
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(b"connection"))
            .map(|(_, value)| &**value),
    );
    for (name, value) in fields {
        let (name, value) = sendable(name, value)?;
        let crosses = name != http::header::HOST && !is_of_one_connection(&name, &nominated);
        if crosses {
            map.try_append(name, value).map_err(|_| Unsendable)?;
        }
    }
    Ok(())
}

/// A field as hyper sends it.
pub(super) fn sendable(name: &[u8], value: &[u8]) -> Result<(HeaderName, HeaderValue), Unsendable> {
    let name = HeaderName::from_bytes(name).map_err(|_| Unsendable)?;
    let value = HeaderValue::from_bytes(value).map_err(|_| Unsendable)?;
    Ok((name, value))
}

/// The end-to-end fields of an answer. All of them share one allocation.
pub(super) fn end_to_end(map: &HeaderMap) -> Fields {
    let nominated = nominated(map.get_all(CONNECTION).iter().map(HeaderValue::as_bytes));
    let mut text = Vec::with_capacity(map.len().saturating_mul(48));
    let mut lengths = Vec::with_capacity(map.len());
    for (name, value) in map {
        if !is_of_one_connection(name, &nominated) {
            text.extend_from_slice(name.as_str().as_bytes());
            text.extend_from_slice(value.as_bytes());
            lengths.push((name.as_str().len(), value.len()));
        }
    }
    let mut text = Bytes::from(text);
    lengths
        .into_iter()
        .map(|(name, value)| (text.split_to(name), text.split_to(value)))
        .collect()
}

fn is_of_one_connection(name: &HeaderName, nominated: &[String]) -> bool {
    OF_ONE_CONNECTION.contains(&name.as_str()) || nominated.iter().any(|other| *name == **other)
}

fn nominated<'a>(connection: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    connection
        .flat_map(|value| value.split(|byte| *byte == b','))
        .map(|name| String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(list: &[(&'static str, &'static str)]) -> Fields {
        list.iter()
            .map(|(name, value)| (Bytes::from(*name), Bytes::from(*value)))
            .collect()
    }

    #[test]
    fn only_end_to_end_fields_cross_with_their_duplicates() {
        let sent = fields(&[
            ("x-a", "1"),
            ("host", "elsewhere"),
            ("connection", "X-Hop, close"),
            ("x-hop", "gone"),
            ("transfer-encoding", "chunked"),
            ("content-length", "7"),
            ("expect", "100-continue"),
            ("set-cookie", "b=2"),
            ("set-cookie", "a=1"),
            ("x-b", "\u{e9} \t\"q\""),
        ]);
        let mut map = HeaderMap::new();
        append(&sent, &mut map).unwrap();
        let crossed = fields(&[
            ("x-a", "1"),
            ("set-cookie", "b=2"),
            ("set-cookie", "a=1"),
            ("x-b", "\u{e9} \t\"q\""),
        ]);
        assert_eq!(end_to_end(&map), crossed);
    }

    #[test]
    fn a_field_that_would_break_the_head_is_refused() {
        for (name, value) in [("x y", "1"), ("", "1"), ("x", "a\r\nb: c"), ("x", "\0")] {
            let mut map = HeaderMap::new();
            assert!(append(&fields(&[(name, value)]), &mut map).is_err());
        }
    }
}
