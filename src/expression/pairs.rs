//! `name=value&name=value`: queries and `application/x-www-form-urlencoded` bodies.
//!
//! What always holds: a name that stands twice has no value, also if both are equal; `+` is a space;
//! names are compared decoded.
//!
//! What it does not do: give brackets or dots in names a meaning.

use std::borrow::Cow;
use std::collections::HashSet;

use super::escape::decode;
use super::member::WhyMissing;

/// The one value of a name.
pub(super) fn value<'a>(pairs: &'a str, name: &str) -> Result<Cow<'a, str>, WhyMissing> {
    let mut found = None;
    for pair in pairs.split('&').filter(|pair| !pair.is_empty()) {
        let (raw_name, raw_value) = pair.split_once('=').unwrap_or((pair, ""));
        if text(raw_name).is_none_or(|read| read != name) {
            continue;
        }
        if found.replace(raw_value).is_some() {
            return Err(WhyMissing::Repeated);
        }
    }
    let raw_value = found.ok_or(WhyMissing::Absent)?;
    text(raw_value).ok_or(WhyMissing::NotText)
}

/// Names with their values; else a name that has none, and why.
pub(super) type Fields<'a> = Result<Vec<(Cow<'a, str>, Cow<'a, str>)>, (String, WhyMissing)>;

/// All names with their values.
pub(super) fn all(pairs: &str) -> Fields<'_> {
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for pair in pairs.split('&').filter(|pair| !pair.is_empty()) {
        let (raw_name, raw_value) = pair.split_once('=').unwrap_or((pair, ""));
        let not_text = || (raw_name.to_owned(), WhyMissing::NotText);
        let name = text(raw_name).ok_or_else(not_text)?;
        let value = text(raw_value).ok_or_else(not_text)?;
        if !seen.insert(name.clone()) {
            return Err((name.into_owned(), WhyMissing::Repeated));
        }
        all.push((name, value));
    }
    Ok(all)
}

fn text(raw: &str) -> Option<Cow<'_, str>> {
    if raw.contains('+') {
        let spaced = raw.replace('+', " ");
        return decode(&spaced).map(|text| Cow::Owned(text.into_owned()));
    }
    decode(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_or_none() {
        let read = |pairs, name| value(pairs, name).map(Cow::into_owned);
        assert_eq!(read("a=1&b=x%20y+z", "b"), Ok("x y z".to_owned()));
        assert_eq!(
            read("metadata%5Border%5D=7", "metadata[order]"),
            Ok("7".to_owned())
        );
        assert_eq!(read("a", "a"), Ok(String::new()));
        assert_eq!(read("a=1", "b"), Err(WhyMissing::Absent));
        assert_eq!(read("a=1&a=1", "a"), Err(WhyMissing::Repeated));
        // The same name in another spelling.
        assert_eq!(read("a=1&%61=2", "a"), Err(WhyMissing::Repeated));
        assert_eq!(read("a=%zz", "a"), Err(WhyMissing::NotText));
    }

    #[test]
    fn all_of_them_or_the_name_that_has_no_value() {
        let read = |pairs| all(pairs).map(|all| all.len());
        assert_eq!(read(""), Ok(0));
        assert_eq!(read("a=1&b=x+y&&c"), Ok(3));
        assert_eq!(
            read("a=1&%61=2"),
            Err(("a".to_owned(), WhyMissing::Repeated))
        );
        assert_eq!(read("a=%ff"), Err(("a".to_owned(), WhyMissing::NotText)));
        assert_eq!(read("%zz=1"), Err(("%zz".to_owned(), WhyMissing::NotText)));
    }
}
