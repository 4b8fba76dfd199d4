//! What a request is made of: by name for its own caller, by small keyed digests in the record.
//!
//! What always holds: a digest covers name and value together, 32 bits under the fingerprint key, so
//! that neither can be had from a register, and two requests with a value in common cannot be found
//! without the key. At most [`MOST`] are kept. Names shown to a caller are those of its own request;
//! what only the first request had is not known by name any more.
//!
//! What it does not do: decide whether two requests are the same (`protocol::meaning`).

use std::borrow::Cow;

use super::canonical::{Canonical, Content};
use super::fingerprint::FingerprintKey;
use super::{form, json};
use crate::protocol::meaning::{Grain, Members};

/// Most digests of values that a record keeps.
const MOST: usize = 32;
/// Content beyond this is not taken apart, in bytes: what is only a hint must not cost what the
/// fingerprint costs.
const LARGEST: usize = 64 << 10;
/// Most values of a request that are looked at to say which differ.
const MOST_COMPARED: usize = 512;
/// Most differences that are told.
const MOST_TOLD: usize = 8;
/// Longest name that is told, in characters.
const LONGEST_NAME: usize = 128;

/// Told of a request that lacks something.
pub(super) const LACKING: &str = "something that the first request had";
/// Told where it is not in any one member, or cannot be said.
const CONTENT: &str = "content";

/// The digests of what a request is made of, for its record.
pub(super) fn members(key: &FingerprintKey, canonical: &Canonical<'_>) -> Members {
    [Grain::Leaves, Grain::Outermost, Grain::Head]
        .into_iter()
        .find_map(|grain| digests(key, canonical, grain))
        .unwrap_or_default()
}

fn digests(key: &FingerprintKey, canonical: &Canonical<'_>, grain: Grain) -> Option<Members> {
    let mut digests = Vec::new();
    take_apart(canonical, grain, MOST, &mut |name, value| {
        digests.push(digest(key, name, value));
    })?;
    digests.sort_unstable();
    Some(Members {
        grain,
        digests: digests.into(),
    })
}

/// In what a request differs from the one that a record is of: names, never values. Empty: not known.
pub(super) fn differences(
    key: &FingerprintKey,
    canonical: &Canonical<'_>,
    first: &Members,
) -> Vec<String> {
    if first.is_empty() {
        return Vec::new();
    }
    let mut told: Vec<String> = Vec::new();
    let mut shared = 0_usize;
    let compared = take_apart(canonical, first.grain, MOST_COMPARED, &mut |name, value| {
        if first.contain(digest(key, name, value)) {
            shared = shared.saturating_add(1);
        } else if told.len() < MOST_TOLD {
            told.push(name.told());
        }
    });
    if compared.is_none() {
        return vec![CONTENT.to_owned()];
    }
    told.dedup();
    if told.is_empty() {
        let readable = !matches!(canonical.content, Content::Exact(_));
        let lacking = readable && shared < first.digests.len();
        told.push(if lacking { LACKING } else { CONTENT }.to_owned());
    }
    told
}

/// A member's name: of which kind, and which one.
#[derive(Clone, Copy)]
struct Name<'a> {
    kind: &'static str,
    own: &'a [u8],
}

impl Name<'_> {
    /// In the words of the config: `json /amount`, `form amount`, `method`.
    fn told(self) -> String {
        let own: String = String::from_utf8_lossy(self.own)
            .chars()
            .take(LONGEST_NAME)
            .collect();
        match (self.kind, own.is_empty()) {
            ("", _) => own,
            (kind, true) => kind.to_owned(),
            (kind, false) => format!("{kind} {own}"),
        }
    }
}

type Sink<'s> = dyn FnMut(Name<'_>, &[u8]) + 's;

/// Hands out every member with its value; `None` if the content holds more than `at_most`.
fn take_apart(
    canonical: &Canonical<'_>,
    grain: Grain,
    at_most: usize,
    sink: &mut Sink<'_>,
) -> Option<()> {
    match grain {
        Grain::Leaves => content(canonical, json::leaves, at_most, sink)?,
        Grain::Outermost => content(canonical, json::outermost, at_most, sink)?,
        Grain::Head => {}
    }
    head(canonical, sink);
    Some(())
}

type Parts = fn(&[u8], usize, &mut dyn FnMut(&[u8], &[u8])) -> Option<()>;

fn content(
    canonical: &Canonical<'_>,
    parts_of_json: Parts,
    at_most: usize,
    sink: &mut Sink<'_>,
) -> Option<()> {
    match &canonical.content {
        Content::Exact(_) => {}
        Content::Json(text) => {
            (text.len() <= LARGEST).then_some(())?;
            parts_of_json(text, at_most, &mut |pointer, value| {
                sink(named("json", pointer), value);
            })?;
        }
        Content::Form(pairs) => {
            (pairs.len() <= at_most).then_some(())?;
            grouped("form", pairs, sink);
        }
        Content::Multipart(parts) => {
            (parts.len() <= at_most).then_some(())?;
            for part in parts {
                sink(named("part", part.name.as_bytes()), &part.whole);
            }
        }
        Content::Selected(selection) => {
            for value in selection.values() {
                sink(named("", value.name.as_bytes()), &value.written());
            }
        }
    }
    Some(())
}

/// What every request has.
fn head(canonical: &Canonical<'_>, sink: &mut Sink<'_>) {
    sink(named("method", b""), canonical.method.as_bytes());
    sink(named("path", b""), canonical.path.as_bytes());
    let query = form::sorted(canonical.query.unwrap_or_default().as_bytes());
    if query.len() <= MOST {
        grouped("query", &query, sink);
    } else {
        sink(
            named("query", b""),
            canonical.query.unwrap_or_default().as_bytes(),
        );
    }
}

fn named<'a>(kind: &'static str, own: &'a [u8]) -> Name<'a> {
    Name { kind, own }
}

/// Pairs of one list are one member.
fn grouped(kind: &'static str, pairs: &[form::Pair<'_>], sink: &mut Sink<'_>) {
    for list in pairs.chunk_by(|a, b| a.stem() == b.stem()) {
        let mut value = Vec::new();
        for pair in list {
            for piece in [Some(&pair.name), pair.value.as_ref()]
                .into_iter()
                .flatten()
            {
                value.extend(super::canonical::length(piece));
                value.extend_from_slice(piece);
            }
            value.push(u8::from(pair.value.is_some()));
        }
        let name = list
            .first()
            .map_or(Cow::Borrowed(&b""[..]), |pair| pair.stem().into());
        sink(named(kind, &name), &value);
    }
}

fn digest(key: &FingerprintKey, name: Name<'_>, value: &[u8]) -> u32 {
    key.member([name.kind.as_bytes(), name.own, value])
}

#[cfg(test)]
mod tests;
