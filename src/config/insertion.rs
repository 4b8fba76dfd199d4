//! What is put into a request on its way out: the upstream's key, and references.
//!
//! What always holds: a place is one that a text can be put into without writing the rest anew; no two
//! texts go to one place. What is put in, and where, is one number ([`Insert::placing`]), so that a
//! record can tell whether a request would be sent again as it was.
//!
//! What it does not do: put anything in (`wire::insertion`), or read the config (`parse`).

use std::fmt;

use http::{HeaderName, Uri};
use ring::digest;

use crate::expression::{GraphQl, JsonPointer, Member};
use crate::protocol::policy::{Destination, KeyPolicy, KeyValue, Placing};

/// Where in a request a text goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A header field.
    Header(HeaderName),
    /// A member of a JSON object in the content; never the whole of it.
    Json(JsonPointer),
    /// A field of a form.
    Form(String),
    /// A parameter of the query.
    Query(String),
    /// A variable of a GraphQL request, which its document declares and uses.
    GraphQl(String),
}

/// The key towards the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRule {
    /// Where it goes.
    pub slot: Slot,
    /// Longest key that the upstream takes, in bytes.
    pub longest: Option<usize>,
    /// What it must look like.
    pub format: KeyFormat,
    /// How it is made and remembered.
    pub policy: KeyPolicy,
}

/// What a key must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFormat {
    /// Visible ASCII.
    Any,
    /// A UUID as of RFC 4122, not the one of zeros.
    Uuid,
}

/// A text that later questions can find an operation by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceRule {
    /// Where it goes.
    pub slot: Slot,
    /// What it is made of.
    pub value: Vec<ReferencePart>,
    /// Longest text that the upstream takes there, in bytes.
    pub longest: Option<usize>,
    /// What becomes of a request in which something stands there already.
    pub if_present: IfPresent,
}

/// A part of a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReferencePart {
    /// As it stands.
    Text(String),
    /// The operation's id: does not tell incarnations of a resource apart.
    Id,
    /// A digest of the whole identity.
    Digest,
}

/// What becomes of a request that has a text of its own where a reference goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfPresent {
    /// It is refused.
    Refuse,
    /// It keeps its own; no question finds it by the reference.
    Keep,
}

/// Do the effect's requests bear a signature over what would be changed?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signed {
    /// Not that anybody knows: one that does is refused.
    Unexpected,
    /// All of them: nothing may be put in.
    Always,
    /// Those that do are left alone, and go without a key that would have to be put in.
    LeftAlone,
}

/// Everything that is put into the requests of an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Insert {
    /// The key; `None` where the upstream honours none.
    pub key: Option<KeyRule>,
    /// In the order of the file.
    pub references: Vec<ReferenceRule>,
    /// What becomes of signed requests.
    pub signed: Signed,
    /// Header fields that a signature shows itself by, beyond the usual ones.
    pub signatures: Vec<HeaderName>,
}

impl Slot {
    /// The part of a request that stands there.
    pub fn member(&self) -> Member {
        match self {
            Self::Header(name) => Member::Header(name.clone()),
            Self::Json(pointer) => Member::Json(pointer.clone()),
            Self::Form(name) => Member::Form(name.clone()),
            Self::Query(name) => Member::Query(name.clone()),
            Self::GraphQl(name) => Member::GraphQl(GraphQl::Variable(vec![name.clone()])),
        }
    }

    /// The field, if it is a header.
    pub fn header(&self) -> Option<&HeaderName> {
        match self {
            Self::Header(name) => Some(name),
            Self::Json(_) | Self::Form(_) | Self::Query(_) | Self::GraphQl(_) => None,
        }
    }

    /// Does it lie in the query or the content, which signatures and digests cover?
    pub fn is_within(&self) -> bool {
        self.header().is_none()
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.member().fmt(f)
    }
}

impl KeyRule {
    /// Does the upstream get the caller's own key?
    pub fn is_callers(&self) -> bool {
        self.policy.value == KeyValue::Caller
    }
}

/// Where an upstream is, as one number: however its URL is written.
pub(super) fn destination(url: &Uri) -> Destination {
    let scheme = url.scheme_str().unwrap_or_default();
    let usual = if scheme == "http" { 80 } else { 443 };
    let host = url.host().unwrap_or_default().to_ascii_lowercase();
    let port = url.port_u16().unwrap_or(usual);
    Destination(number(&format!("destination 1\n{scheme}\n{host}\n{port}")))
}

fn number(text: &str) -> u64 {
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    u64::from_be_bytes(digest.as_ref().first_chunk().copied().unwrap_or_default())
}

impl Insert {
    /// Only this key.
    pub fn of_key(key: Option<KeyRule>) -> Self {
        Self {
            key,
            references: Vec::new(),
            signed: Signed::Unexpected,
            signatures: Vec::new(),
        }
    }

    /// Is more put in than a key in a header?
    pub fn is_more_than_a_field(&self) -> bool {
        self.key.as_ref().is_some_and(|key| key.slot.is_within()) || !self.references.is_empty()
    }

    /// What is put where, as one number: another one if a request would be sent in other bytes.
    pub fn placing(&self) -> Placing {
        let key = self.key.iter();
        let key = key.map(|key| format!("\nkey {:?} {}", key.format, key.slot));
        let references = self.references.iter().map(|reference| {
            let (slot, keeps) = (&reference.slot, reference.if_present);
            format!("\nreference {slot} {keeps:?} {:?}", reference.value)
        });
        let parts: Vec<String> = key.chain(references).collect();
        Placing(number(&format!("placing 1{}", parts.concat())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(slot: Slot, format: KeyFormat) -> Insert {
        Insert::of_key(Some(KeyRule {
            slot,
            longest: None,
            format,
            policy: KeyPolicy {
                value: KeyValue::Derived,
                lifetime: None,
                remembers_refusals: false,
                placing: None,
            },
        }))
    }

    #[test]
    fn whatever_changes_the_bytes_changes_the_number() {
        let header = |name| Slot::Header(HeaderName::from_static(name));
        let reference = |value, if_present| ReferenceRule {
            slot: Slot::Form("r".to_owned()),
            value: vec![value],
            longest: None,
            if_present,
        };
        let with = |rule| Insert {
            references: vec![rule],
            ..key(header("a"), KeyFormat::Any)
        };
        let all = [
            Insert::of_key(None),
            key(header("a"), KeyFormat::Any),
            key(header("b"), KeyFormat::Any),
            key(header("a"), KeyFormat::Uuid),
            key(Slot::Form("a".to_owned()), KeyFormat::Any),
            key(Slot::Query("a".to_owned()), KeyFormat::Any),
            with(reference(ReferencePart::Id, IfPresent::Refuse)),
            with(reference(ReferencePart::Digest, IfPresent::Refuse)),
            with(reference(ReferencePart::Digest, IfPresent::Keep)),
            with(reference(
                ReferencePart::Text("x".to_owned()),
                IfPresent::Refuse,
            )),
        ];
        for (index, one) in all.iter().enumerate() {
            for (other_index, other) in all.iter().enumerate() {
                let same = one.placing() == other.placing();
                assert_eq!(same, index == other_index, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn one_place_is_one_number_however_it_is_written() {
        let of = |url: &str| destination(&url.parse().unwrap());
        assert_eq!(
            of("https://api.example.com"),
            of("https://API.example.com:443/")
        );
        assert_eq!(of("http://a"), of("http://a:80"));
        let others = ["http://a", "https://a", "http://b", "http://a:81"];
        for (index, one) in others.iter().enumerate() {
            for (other_index, other) in others.iter().enumerate() {
                assert_eq!(of(one) == of(other), index == other_index, "{one} {other}");
            }
        }
        // Recorded, like the others.
        assert_eq!(
            of("https://api.example.com"),
            Destination(9_891_890_082_706_875_645)
        );
    }

    /// Recorded: if this fails, unsettled operations would be held back after an upgrade.
    #[test]
    fn the_number_stays_the_same_between_versions() {
        let usual = key(
            Slot::Header(HeaderName::from_static("idempotency-key")),
            KeyFormat::Any,
        );
        assert_eq!(usual.placing(), Placing(16_661_116_115_972_517_639));
    }
}
