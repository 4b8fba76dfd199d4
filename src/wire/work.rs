//! What work is known by: the id that a request carries which asks the worker for it, and which what the worker
//! sends for it carries on.
//!
//! What always holds: an id that cannot be read is none. Of a trace it is the trace id, never the span, and only of a
//! `traceparent` that an implementation may go on with. Of a header it is its exact bytes.
//!
//! What it does not do: know when work came in (`lease::pins`).

use http::{HeaderMap, HeaderName, HeaderValue};
use ring::digest::{SHA256, digest};

use crate::config::PinBy;

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The id of some work: a trace id, or a digest of the text of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkId(u128);

/// The one id of a request; `None` where there is none, or more than one.
pub fn one(by: &PinBy, headers: &HeaderMap) -> Option<WorkId> {
    let mut values = headers.get_all(name(by)).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => id(by, value),
        (None, _) | (Some(_), Some(_)) => None,
    }
}

/// All ids of a request. Of a header that stands in it twice also the one that a worker makes of both, who joins them
/// with a comma (<https://www.rfc-editor.org/rfc/rfc9110#section-5.2>).
pub fn all(by: &PinBy, headers: &HeaderMap) -> Vec<WorkId> {
    let values: Vec<&HeaderValue> = headers.get_all(name(by)).iter().collect();
    let joined = [&b","[..], b", "].map(|comma| {
        let parts: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
        HeaderValue::from_bytes(&parts.join(comma))
    });
    let joined = joined.iter().flatten().filter(|_| values.len() > 1);
    let all = values.iter().copied().chain(joined);
    all.filter_map(|value| id(by, value)).collect()
}

/// The header that it stands in.
pub fn name(by: &PinBy) -> &HeaderName {
    match by {
        PinBy::Trace => &TRACEPARENT,
        PinBy::Header(name) => name,
    }
}

fn id(by: &PinBy, value: &HeaderValue) -> Option<WorkId> {
    let bytes = value.as_bytes();
    match by {
        PinBy::Trace => trace(bytes),
        PinBy::Header(_) if bytes.is_empty() => None,
        PinBy::Header(_) => {
            let digest = digest(&SHA256, bytes);
            let half = digest.as_ref().first_chunk::<16>()?;
            Some(WorkId(u128::from_be_bytes(*half)))
        }
    }
}

/// `00-<trace id>-<parent id>-<flags>`; a later version may go on after that.
/// (<https://www.w3.org/TR/trace-context/#traceparent-header-field-values>).
fn trace(bytes: &[u8]) -> Option<WorkId> {
    let (known, rest) = bytes.split_at_checked(55)?;
    let mut parts = known.split(|byte| *byte == b'-');
    let (version, trace, parent, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let lengths = [version.len(), trace.len(), parent.len(), flags.len()];
    let version = hex(version)?;
    let fits = match version {
        0 => rest.is_empty(),
        0xff => false,
        _ => matches!(rest.first(), None | Some(b'-')),
    };
    let trace = hex(trace).filter(|trace| *trace != 0)?;
    let _parent = hex(parent).filter(|parent| *parent != 0)?;
    let _flags = hex(flags)?;
    (fits && lengths == [2, 32, 16, 2]).then_some(WorkId(trace))
}

/// It is to be in lower case, and whoever does not mind goes on with it in either: then it is the same trace.
fn hex(digits: &[u8]) -> Option<u128> {
    let text = std::str::from_utf8(digits).ok()?;
    // A sign would be read too.
    let all = digits.iter().all(u8::is_ascii_hexdigit);
    u128::from_str_radix(text, 16).ok().filter(|_| all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    fn with(name: &str, values: &[&str]) -> HeaderMap {
        let name = HeaderName::try_from(name).unwrap();
        let values = values.iter();
        let fields = values.map(|value| (name.clone(), HeaderValue::from_str(value).unwrap()));
        fields.collect()
    }

    fn traced(values: &[&str]) -> (Option<WorkId>, Vec<WorkId>) {
        let headers = with("traceparent", values);
        (one(&PinBy::Trace, &headers), all(&PinBy::Trace, &headers))
    }

    #[test]
    fn a_trace_is_known_by_its_id_whatever_the_span() {
        let expected = WorkId(u128::from_str_radix(TRACE, 16).unwrap());
        for value in [
            format!("00-{TRACE}-b7ad6b7169203331-01"),
            format!("00-{TRACE}-00f067aa0ba902b7-00"),
            format!("01-{TRACE}-00f067aa0ba902b7-09"),
            format!("00-{}-B7AD6B7169203331-01", TRACE.to_uppercase()),
            format!("cc-{TRACE}-00f067aa0ba902b7-09-what-comes-later"),
        ] {
            let (one, all) = traced(&[&value]);
            assert_eq!((one, all), (Some(expected), vec![expected]), "{value}");
        }
    }

    #[test]
    fn what_nobody_would_go_on_with_is_no_id() {
        for value in [
            String::new(),
            TRACE.to_owned(),
            format!("00-{TRACE}-b7ad6b7169203331"),
            format!("00-{TRACE}-b7ad6b7169203331-1"),
            format!("00-{TRACE}-b7ad6b7169203331-01-more"),
            format!("01-{TRACE}-b7ad6b7169203331-01more"),
            format!("ff-{TRACE}-b7ad6b7169203331-01"),
            format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{TRACE}-b7ad6b716920333-001"),
            format!("00-+{}-b7ad6b7169203331-01", &TRACE[1..]),
            format!("00-{TRACE}-b7ad6b7169203331-01, 00-{TRACE}-b7ad6b7169203331-01"),
        ] {
            assert_eq!(traced(&[&value]), (None, Vec::new()), "{value}");
        }
    }

    #[test]
    fn two_ids_are_not_one() {
        let value = format!("00-{TRACE}-b7ad6b7169203331-01");
        let (one, all) = traced(&[&value, &value]);
        assert_eq!((one, all.len()), (None, 2));
        let (one, all) = traced(&[&value, "unreadable"]);
        assert_eq!((one, all.len()), (None, 1));
    }

    #[test]
    fn a_header_is_an_id_as_it_is() {
        let by = PinBy::Header(HeaderName::from_static("x-request-id"));
        let id = |value: &str| one(&by, &with("X-Request-Id", &[value]));
        assert_eq!(id("a"), id("a"));
        assert!(id("a").is_some() && id("a") != id("A") && id("a") != id("\"a\""));
        assert_eq!(id(""), None);
        assert_eq!(one(&by, &with("X-Other", &["a"])), None);
    }
}
