//! One scalar out of a JSON body, by pointer.
//!
//! What always holds: the whole body must be JSON; no tree is built; an integer keeps its exact
//! digits, and a number that could not (a fraction, an exponent, beyond 64 bits) is no value; a
//! member that stands twice is no value, since readers disagree about which one counts.
//!
//! What it does not do: look for doubled members that the pointer does not pass.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::member::WhyMissing;

/// The scalar's text.
pub(super) fn scalar(body: &[u8], pointer: &[String]) -> Result<String, WhyMissing> {
    // What is passed over is not decoded, so that a reader of all of it could still refuse it.
    let text = std::str::from_utf8(body).map_err(|_| WhyMissing::Unreadable)?;
    if !has_whole_characters(text) {
        return Err(WhyMissing::Unreadable);
    }
    let mut source = serde_json::Deserializer::from_str(text);
    let found = Walk(pointer)
        .deserialize(&mut source)
        .map_err(|_| WhyMissing::Unreadable)?;
    source.end().map_err(|_| WhyMissing::Unreadable)?;
    found
}

/// Do escapes of UTF-16 surrogates (`\\ud83d\\ude00`) come in pairs? Half a pair is no character.
fn has_whole_characters(text: &str) -> bool {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('\\') {
        let Some(after) = after.strip_prefix('u') else {
            // Whatever was escaped, a backslash for example, begins nothing new.
            rest = after.get(1..).unwrap_or_default();
            continue;
        };
        let (unit, after) = code_unit(after);
        rest = match unit {
            Some(0xd800..=0xdbff) => match after.strip_prefix("\\u").map(code_unit) {
                Some((Some(0xdc00..=0xdfff), after)) => after,
                Some(_) | None => return false,
            },
            Some(0xdc00..=0xdfff) => return false,
            Some(_) | None => after,
        };
    }
    true
}

fn code_unit(text: &str) -> (Option<u32>, &str) {
    match text.split_at_checked(4) {
        Some((digits, rest)) => (u32::from_str_radix(digits, 16).ok(), rest),
        None => (None, text),
    }
}

type Found = Result<String, WhyMissing>;

/// Follows the rest of a pointer.
#[derive(Clone, Copy)]
struct Walk<'p>(&'p [String]);

impl Walk<'_> {
    /// A scalar stands here: the value, if the pointer ends here too.
    fn leaf(self, text: &dyn ToString) -> Found {
        if self.0.is_empty() {
            Ok(text.to_string())
        } else {
            Err(WhyMissing::Absent)
        }
    }

    fn nothing(self) -> Found {
        if self.0.is_empty() {
            Err(WhyMissing::NotScalar)
        } else {
            Err(WhyMissing::Absent)
        }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Found, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Found, E> {
        Ok(self.leaf(&value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Found, E> {
        Ok(self.leaf(&value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Found, E> {
        Ok(self.leaf(&value))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Found, E> {
        Ok(self.nothing())
    }

    fn visit_str<E>(self, value: &str) -> Result<Found, E> {
        Ok(self.leaf(&value))
    }

    fn visit_unit<E>(self) -> Result<Found, E> {
        Ok(self.nothing())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Found, A::Error> {
        let wanted = self.0.split_first().and_then(|(first, rest)| {
            let index: usize = first.parse().ok()?;
            // RFC 6901: no leading zeros, no sign.
            (index.to_string() == *first).then_some((index, rest))
        });
        let mut found = self.nothing();
        if let Some((index, rest)) = wanted {
            for _ in 0..index {
                if items.next_element::<IgnoredAny>()?.is_none() {
                    return Ok(found);
                }
            }
            if let Some(item) = items.next_element_seed(Walk(rest))? {
                found = item;
            }
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Found, A::Error> {
        let Some((name, rest)) = self.0.split_first() else {
            while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(self.nothing());
        };
        let mut found = None;
        while let Some(is_wanted) = members.next_key_seed(Named(name))? {
            if !is_wanted {
                members.next_value::<IgnoredAny>()?;
            } else if found.is_some() {
                members.next_value::<IgnoredAny>()?;
                found = Some(Err(WhyMissing::Repeated));
            } else {
                found = Some(members.next_value_seed(Walk(rest))?);
            }
        }
        Ok(found.unwrap_or(Err(WhyMissing::Absent)))
    }
}

/// Is a member's name this one? Compared without a copy.
struct Named<'p>(&'p str);

impl<'de> DeserializeSeed<'de> for Named<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<bool, D::Error> {
        source.deserialize_str(self)
    }
}

impl Visitor<'_> for Named<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str, pointer: &[&str]) -> Found {
        let pointer: Vec<String> = pointer.iter().map(|&token| token.to_owned()).collect();
        scalar(body.as_bytes(), &pointer)
    }

    #[test]
    fn scalars_keep_their_exact_text() {
        let body = r#"{"s":"é\n","i":9007199254740993,"n":-5,"b":true,"a":[{"x":"y"},2]}"#;
        assert_eq!(read(body, &["s"]), Ok("é\n".to_owned()));
        assert_eq!(read(body, &["i"]), Ok("9007199254740993".to_owned()));
        assert_eq!(read(body, &["n"]), Ok("-5".to_owned()));
        assert_eq!(read(body, &["b"]), Ok("true".to_owned()));
        assert_eq!(read(body, &["a", "0", "x"]), Ok("y".to_owned()));
        assert_eq!(read(body, &["a", "1"]), Ok("2".to_owned()));
        assert_eq!(read("\"top\"", &[]), Ok("top".to_owned()));
    }

    /// Another reader might refuse all of it, or take what is no character for something else.
    #[test]
    fn what_is_passed_over_is_text_all_the_same() {
        let beside = |text: &[u8]| {
            let body = [b"{\"s\":\"".as_slice(), text, b"\",\"a\":1}"].concat();
            scalar(&body, &["a".to_owned()])
        };
        let fine = Ok("1".to_owned());
        assert_eq!(beside("é \\u00e9 \\\\ud800 \\\\\\n".as_bytes()), fine);
        assert_eq!(beside(br"\ud83d\ude00"), fine);
        for bad in [
            b"\xf5".as_slice(),
            br"\ud83d",
            br"\ude00",
            br"\ud83d\ud83d\ude00",
            br"\\\ud83dx",
        ] {
            assert_eq!(
                beside(bad),
                Err(WhyMissing::Unreadable),
                "{}",
                bad.escape_ascii()
            );
        }
    }

    #[test]
    fn what_is_not_one_exact_scalar_is_no_value() {
        let body =
            r#"{"f":1.0,"e":1e2,"big":18446744073709551616,"z":-0,"null":null,"o":{},"a":[1]}"#;
        for name in ["f", "e", "big", "z", "null", "o", "a"] {
            assert_eq!(read(body, &[name]), Err(WhyMissing::NotScalar), "{name}");
        }
        for absent in [
            &["x"][..],
            &["f", "x"],
            &["a", "1"],
            &["a", "00"],
            &["a", "-"],
            &["o", "x"],
        ] {
            assert_eq!(read(body, absent), Err(WhyMissing::Absent), "{absent:?}");
        }
    }

    #[test]
    fn a_member_that_stands_twice_is_no_value() {
        assert_eq!(read(r#"{"a":1,"a":1}"#, &["a"]), Err(WhyMissing::Repeated));
        // The same name in another spelling, and a double on the way.
        assert_eq!(
            read(r#"{"a":1,"\u0061":2}"#, &["a"]),
            Err(WhyMissing::Repeated)
        );
        assert_eq!(
            read(r#"{"o":{"x":1},"o":{}}"#, &["o", "x"]),
            Err(WhyMissing::Repeated)
        );
        assert_eq!(
            read(r#"{"o":[1,2],"o":[]}"#, &["o", "1"]),
            Err(WhyMissing::Repeated)
        );
    }

    #[test]
    fn what_is_not_json_is_unreadable() {
        for body in [
            "",
            "{",
            "a=1",
            r#"{"a":1} x"#,
            r#"{"a":1,}"#,
            "{'a':1}",
            "\u{feff}{\"a\":1}",
        ] {
            assert_eq!(read(body, &["a"]), Err(WhyMissing::Unreadable), "{body}");
        }
        assert_eq!(
            scalar(b"{\"a\":\"\xff\"}", &["a".to_owned()]),
            Err(WhyMissing::Unreadable)
        );
    }
}
