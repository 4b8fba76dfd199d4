//! What a caller would like about the way of its answer: `Prefer` (RFC 7240).
//!
//! What always holds: a preference that is honoured is taken out of the request, so that nobody else honours
//! it too; every other one stays. One that cannot be read is none.
//!
//! What it does not do: honour it (`proxy`).

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName};

use crate::protocol::outcome::Fields;

const PREFER_NAME: &str = "prefer";
const PREFER: HeaderName = HeaderName::from_static(PREFER_NAME);

/// Nobody is kept waiting longer than this because he said so.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A caller would rather ask again than wait for the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asynchronous {
    /// So long he waits all the same.
    pub wait: Duration,
}

/// `respond-async`, and the `wait` that goes with it.
pub fn asynchronous(headers: &HeaderMap) -> Option<Asynchronous> {
    let fields = headers.get_all(PREFER).iter();
    let texts: Vec<&str> = fields.filter_map(|field| field.to_str().ok()).collect();
    let all: Vec<&str> = texts.iter().flat_map(|text| preferences(text)).collect();
    if !all
        .iter()
        .any(|it| word(it).eq_ignore_ascii_case("respond-async"))
    {
        return None;
    }
    let wait = all.iter().find(|it| word(it).eq_ignore_ascii_case("wait"));
    let seconds = wait.and_then(|it| value(it)?.parse().ok()).unwrap_or(0);
    Some(Asynchronous {
        wait: Duration::from_secs(seconds).min(LONGEST_WAIT),
    })
}

/// Takes it out of a request that is sent on, because it is honoured here.
pub fn honoured(fields: &mut Fields) {
    let is_prefer = |name: &[u8]| name.eq_ignore_ascii_case(PREFER.as_str().as_bytes());
    let texts = fields.iter().filter(|(name, _)| is_prefer(name));
    let texts: Vec<&str> = texts
        .filter_map(|(_, value)| std::str::from_utf8(value).ok())
        .collect();
    let is_ours = |it: &&str| {
        let word = word(it);
        word.eq_ignore_ascii_case("respond-async") || word.eq_ignore_ascii_case("wait")
    };
    let all = texts.iter().flat_map(|text| preferences(text));
    let others: Vec<&str> = all.filter(|it| !is_ours(it)).collect();
    let rest = others.join(", ");
    fields.retain(|(name, _)| !is_prefer(name));
    if !rest.is_empty() {
        let name = Bytes::from_static(PREFER_NAME.as_bytes());
        fields.push((name, Bytes::from(rest)));
    }
}

/// The preferences of a field; a comma within quotes is none between them.
fn preferences(field: &str) -> Vec<&str> {
    let mut quoted = false;
    let parts = field.split(move |c: char| {
        quoted ^= c == '"';
        c == ',' && !quoted
    });
    parts
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect()
}

fn word(preference: &str) -> &str {
    let end = preference.find(['=', ';']).unwrap_or(preference.len());
    preference.get(..end).unwrap_or_default().trim()
}

fn value(preference: &str) -> Option<&str> {
    let (_, value) = preference.split_once('=')?;
    let end = value.find(';').unwrap_or(value.len());
    Some(value.get(..end)?.trim().trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn taken(fields: &[&'static str]) -> (Option<u64>, Vec<String>) {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(PREFER, HeaderValue::from_static(field));
        }
        let asked = asynchronous(&headers).map(|it| it.wait.as_secs());
        let stored = |field: &&'static str| {
            let name = Bytes::from_static(b"Prefer");
            (name, Bytes::from_static(field.as_bytes()))
        };
        let mut sent: Fields = fields.iter().map(stored).collect();
        if asked.is_some() {
            honoured(&mut sent);
        }
        let rest = sent.iter().map(|(_, value)| value.to_vec());
        let rest = rest.map(|it| String::from_utf8(it).unwrap()).collect();
        (asked, rest)
    }

    #[test]
    fn what_is_honoured_is_taken_out_and_the_rest_stays() {
        let none: Vec<String> = Vec::new();
        assert_eq!(taken(&["respond-async"]), (Some(0), none.clone()));
        assert_eq!(taken(&["Respond-Async, wait=10"]), (Some(10), none.clone()));
        assert_eq!(
            taken(&["wait=\"5\"", "respond-async; x=1"]),
            (Some(5), none.clone())
        );
        assert_eq!(
            taken(&["respond-async, wait=999999"]),
            (Some(60), none.clone())
        );
        assert_eq!(taken(&["respond-async, wait=soon"]), (Some(0), none));
        let rest = vec!["return=minimal, note=\"a, respond-async\"".to_owned()];
        assert_eq!(
            taken(&["return=minimal, respond-async", "note=\"a, respond-async\""]),
            (Some(0), rest)
        );
    }

    #[test]
    fn where_it_is_not_preferred_nothing_is_touched() {
        for fields in [
            &["wait=10"][..],
            &["return=minimal"],
            &["respond-asynchronously"],
            &[],
        ] {
            let (asked, rest) = taken(fields);
            assert_eq!(asked, None);
            assert_eq!(rest, fields);
        }
    }
}
