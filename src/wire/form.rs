//! `application/x-www-form-urlencoded` content and queries, as pairs of bytes.
//!
//! What always holds: pairs are decoded as the URL standard says, which gives every string of bytes
//! a meaning: `+` is a space, an escape that is none stands for itself, `a` is not `a=`.
//!
//! What it does not do: read one value by name as text (`expression`).

use std::borrow::Cow;

/// One `name=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pair<'a> {
    pub(super) name: Cow<'a, [u8]>,
    /// `None`: there is no `=`.
    pub(super) value: Option<Cow<'a, [u8]>>,
}

/// The pairs in the order sent.
pub(super) fn pairs(content: &[u8]) -> impl Iterator<Item = Pair<'_>> {
    content
        .split(|&byte| byte == b'&')
        .filter(|piece| !piece.is_empty())
        .map(Pair::read)
}

/// The pairs sorted by name up to its first `[]`, in the order sent where that is equal: in
/// `i[][a]=1&i[][b]=2&i[][a]=3` it is the order that says where one item ends.
pub(super) fn sorted(content: &[u8]) -> Vec<Pair<'_>> {
    let mut pairs: Vec<_> = pairs(content).collect();
    pairs.sort_by(|a, b| a.stem().cmp(b.stem()));
    pairs
}

impl<'a> Pair<'a> {
    fn read(piece: &'a [u8]) -> Self {
        let mut halves = piece.splitn(2, |&byte| byte == b'=');
        Self {
            name: decoded(halves.next().unwrap_or_default()),
            value: halves.next().map(decoded),
        }
    }

    /// What pairs of one list have in common.
    pub(super) fn stem(&self) -> &[u8] {
        let end = self.name.windows(2).position(|two| two == b"[]");
        self.name
            .get(..end.unwrap_or(self.name.len()))
            .unwrap_or_default()
    }
}

fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if text.contains(&b'+') {
        let spaced: Vec<u8> = text
            .iter()
            .map(|&byte| if byte == b'+' { b' ' } else { byte })
            .collect();
        Cow::Owned(percent_encoding::percent_decode(&spaced).collect())
    } else {
        percent_encoding::percent_decode(text).into()
    }
}
