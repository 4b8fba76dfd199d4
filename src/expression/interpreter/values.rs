//! Values for the interpreter.
//!
//! What always holds: a JSON text becomes a value only whole, if every member name stands once in
//! its object and every integer keeps its digits: one that fits 64 bits is an `int` (or a `uint`
//! above its range), any other refuses the text; a number with a fraction or an exponent is a
//! `double`, which is no identity. There are at most [`MOST_VALUES`] values.
//!
//! What it does not do: copy texts that can be borrowed.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;

use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt,
};
use cel::common::value::Val;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::limits::Extent;
use crate::expression::member::WhyMissing;

/// Scalars, lists and maps of one JSON text, at most: each takes some hundred bytes here.
const MOST_VALUES: usize = 65_536;

/// From here on a `double` does not tell neighbouring integers apart.
const FIRST_INEXACT: f64 = 9_007_199_254_740_992.0;

pub(super) type Boxed<'v> = Box<dyn Val + 'v>;

/// A text.
pub(super) fn text(text: Cow<'_, str>) -> Boxed<'_> {
    Box::new(CelString::from(text))
}

/// An integer.
pub(super) fn integer<'v>(integer: i64) -> Boxed<'v> {
    Box::new(CelInt::from(integer))
}

/// A map of texts, and how much it is.
pub(super) fn texts<'v>(
    entries: impl IntoIterator<Item = (Cow<'v, str>, Cow<'v, str>)>,
) -> (Boxed<'v>, Extent) {
    let mut extent = Extent::default();
    let entries = entries.into_iter().map(|(name, value)| {
        extent = extent.and(Extent {
            values: 1,
            longest: value.len().max(name.len()),
        });
        (key(name), text(value))
    });
    let map: HashMap<CelMapKey<'v>, Boxed<'v>> = entries.collect();
    (Box::new(CelMap::from(map)), extent)
}

/// A map of anything.
pub(super) fn map<'v>(entries: impl IntoIterator<Item = (&'v str, Boxed<'v>)>) -> Boxed<'v> {
    let entries = entries.into_iter();
    let map: HashMap<CelMapKey<'v>, Boxed<'v>> = entries
        .map(|(name, value)| (CelMapKey::from(name), value))
        .collect();
    Box::new(CelMap::from(map))
}

fn key(name: Cow<'_, str>) -> CelMapKey<'_> {
    match name {
        Cow::Borrowed(name) => CelMapKey::from(name),
        Cow::Owned(name) => CelMapKey::from(name),
    }
}

/// A JSON text, whole, and how much it is.
pub(super) fn json(body: &[u8]) -> Result<(Boxed<'_>, Extent), WhyMissing> {
    let tally = Tally::default();
    let mut source = serde_json::Deserializer::from_slice(body);
    let value = Element(&tally)
        .deserialize(&mut source)
        .map_err(|_| tally.why.get())?;
    source.end().map_err(|_| WhyMissing::Unreadable)?;
    Ok((value, tally.extent.get()))
}

/// What was read so far, and why it ended.
struct Tally {
    extent: Cell<Extent>,
    why: Cell<WhyMissing>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            extent: Cell::default(),
            why: Cell::new(WhyMissing::Unreadable),
        }
    }
}

impl Tally {
    fn count<E: Error>(&self, length: usize) -> Result<(), E> {
        let extent = self.extent.get().and(Extent {
            values: 1,
            longest: length,
        });
        self.extent.set(extent);
        if extent.values > MOST_VALUES {
            return Err(self.refuse(WhyMissing::TooMuch));
        }
        Ok(())
    }

    fn refuse<E: Error>(&self, why: WhyMissing) -> E {
        self.why.set(why);
        E::custom("refused")
    }
}

#[derive(Clone, Copy)]
struct Element<'t>(&'t Tally);

impl<'de> DeserializeSeed<'de> for Element<'_> {
    type Value = Boxed<'de>;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Boxed<'de>, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Element<'_> {
    type Value = Boxed<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Boxed<'de>, E> {
        self.0.count(0)?;
        Ok(Box::new(CelBool::from(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Boxed<'de>, E> {
        self.0.count(0)?;
        Ok(integer(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Boxed<'de>, E> {
        self.0.count(0)?;
        Ok(i64::try_from(value).map_or_else(|_| Box::new(CelUInt::from(value)) as _, integer))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Boxed<'de>, E> {
        self.0.count(0)?;
        if value.abs() >= FIRST_INEXACT {
            return Err(self.0.refuse(WhyMissing::Inexact));
        }
        Ok(Box::new(CelDouble::from(value)))
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Boxed<'de>, E> {
        self.0.count(value.len())?;
        Ok(text(Cow::Borrowed(value)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Boxed<'de>, E> {
        self.0.count(value.len())?;
        Ok(text(Cow::Owned(value.to_owned())))
    }

    fn visit_unit<E: Error>(self) -> Result<Boxed<'de>, E> {
        self.0.count(0)?;
        Ok(Box::new(CelNull))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Boxed<'de>, A::Error> {
        self.0.count(0)?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Box::new(CelList::from(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Boxed<'de>, A::Error> {
        self.0.count(0)?;
        let mut map: HashMap<CelMapKey<'de>, Boxed<'de>> = HashMap::new();
        while let Some(name) = members.next_key_seed(Name(self.0))? {
            let value = members.next_value_seed(self)?;
            if map.insert(key(name), value).is_some() {
                return Err(self.0.refuse(WhyMissing::Repeated));
            }
        }
        Ok(Box::new(CelMap::from(map)))
    }
}

/// The name of a member.
struct Name<'t>(&'t Tally);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Cow<'de, str>, D::Error> {
        source.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name<'_> {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Cow<'de, str>, E> {
        self.0.count(name.len())?;
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Cow<'de, str>, E> {
        self.0.count(name.len())?;
        Ok(Cow::Owned(name.to_owned()))
    }
}
