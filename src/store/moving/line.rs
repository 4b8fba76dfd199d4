//! The lines of a moved register.
//!
//! What always holds: a line is one JSON object with one member, whose name says what it is. Records are
//! in the form that every backend stores (`codec`), with a version and a checksum of their own; beside
//! them stand only their name and what no record holds. They come in one order: `export`, `register`,
//! keys, history, operations with their events, notes, fences, `end`; of each kind oldest first.
//!
//! What it does not do: judge records.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::protocol::ids::{Incarnation, OperationId, OperationKey, Principal, Tenant, UpstreamId};

/// The form of the file.
pub(in crate::store) const FORMAT: u32 = 1;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::store) enum Line {
    /// The first.
    Export(Head),
    Register(RegisterLine),
    Key(KeyLine),
    History(HistoryLine),
    Operation(Box<OperationLine>),
    Twin(TwinLine),
    Fence(FenceLine),
    /// The last.
    End(End),
}

/// What comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct Head {
    pub(super) format: u32,
    pub(super) counts: Counts,
}

/// How much of each kind a register holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Keys that sealed something.
    pub keys: u64,
    /// Things done to the register as a whole.
    pub history: u64,
    /// Operations, those included of which only a tombstone is left.
    pub operations: u64,
    /// Events of operations.
    pub events: u64,
    /// Stored answers.
    pub answers: u64,
    /// Stored requests.
    pub requests: u64,
    /// Notes of twins.
    pub twins: u64,
    /// Fences.
    pub fences: u64,
    /// Tenants of which it is told how long theirs is remembered. Files of before have none.
    #[serde(default)]
    pub memories: u64,
}

/// The register's word on itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct RegisterLine {
    pub(in crate::store) id: Wide,
    pub(in crate::store) epoch: u64,
    pub(in crate::store) created_wall_ms: u64,
    /// Sealed.
    pub(in crate::store) fingerprint_key: Bytes,
    /// Its age, and the clocks at that age.
    pub(in crate::store) lived_ms: u64,
    pub(in crate::store) read_boot: Wide,
    pub(in crate::store) read_boottime_ms: u64,
    pub(in crate::store) read_wall_ms: u64,
    /// Why nothing was admitted by it before it was exported; `None`: it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::store) doubt: Option<String>,
    /// How long its tenants have what is settled remembered; who is not among them has told nobody.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::store) memories: Vec<Memory>,
}

/// The longest that a tenant has what is settled remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct Memory {
    pub(in crate::store) tenant: String,
    pub(in crate::store) answers_ms: u64,
    pub(in crate::store) identities_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct KeyLine {
    pub(in crate::store) id: u32,
    pub(in crate::store) last_used_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct HistoryLine {
    pub(in crate::store) wall_ms: u64,
    pub(in crate::store) text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct OperationLine {
    pub(in crate::store) name: Name,
    pub(in crate::store) record: Bytes,
    /// The age of the register when it was settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::store) settled_ms: Option<u64>,
    /// Sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::store) answer: Option<Bytes>,
    /// Sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::store) request: Option<Bytes>,
    /// Its story, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::store) events: Vec<Bytes>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct TwinLine {
    pub(in crate::store) name: Name,
    pub(in crate::store) record: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct FenceLine {
    pub(in crate::store) tenant: String,
    pub(in crate::store) resource: String,
    pub(in crate::store) record: Bytes,
    /// The operation whose effect was accepted last, if it is remembered; and its place in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::store) applied: Option<Name>,
    pub(in crate::store) applied_number: u64,
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct End {
    /// Lines before this one.
    pub(super) lines: u64,
    /// Of all bytes before this line, in hex.
    pub(super) sha256: String,
}

/// What an operation is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct Name {
    tenant: String,
    upstream: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    principal: Option<Bytes>,
    id: String,
    incarnation: u64,
}

impl Counts {
    /// Counts a line.
    pub(super) fn add(&mut self, line: &Line) {
        let one_more = |count: &mut u64| *count = count.saturating_add(1);
        match line {
            Line::Export(_) | Line::End(_) => {}
            Line::Register(register) => {
                let memories = u64::try_from(register.memories.len()).unwrap_or(u64::MAX);
                self.memories = self.memories.saturating_add(memories);
            }
            Line::Key(_) => one_more(&mut self.keys),
            Line::History(_) => one_more(&mut self.history),
            Line::Operation(operation) => {
                one_more(&mut self.operations);
                let events = u64::try_from(operation.events.len()).unwrap_or(u64::MAX);
                self.events = self.events.saturating_add(events);
                if operation.answer.is_some() {
                    one_more(&mut self.answers);
                }
                if operation.request.is_some() {
                    one_more(&mut self.requests);
                }
            }
            Line::Twin(_) => one_more(&mut self.twins),
            Line::Fence(_) => one_more(&mut self.fences),
        }
    }
}

impl Line {
    /// Where in the file it may stand: never before a line of a lower rank.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Export(_) => 0,
            Self::Register(_) => 1,
            Self::Key(_) => 2,
            Self::History(_) => 3,
            Self::Operation(_) => 4,
            Self::Twin(_) => 5,
            Self::Fence(_) => 6,
            Self::End(_) => 7,
        }
    }
}

impl Name {
    pub(in crate::store) fn of(key: &OperationKey) -> Self {
        Self {
            tenant: key.tenant.as_str().to_owned(),
            upstream: key.upstream.as_str().to_owned(),
            principal: match key.principal {
                Principal::None => None,
                Principal::Hashed(digest) => Some(Bytes(digest.to_vec())),
            },
            id: key.id.as_str().to_owned(),
            incarnation: key.incarnation.0,
        }
    }

    /// `None`: its principal is none.
    pub(in crate::store) fn key(&self) -> Option<OperationKey> {
        let principal = match &self.principal {
            None => Principal::None,
            Some(Bytes(digest)) => Principal::Hashed(digest.as_slice().try_into().ok()?),
        };
        Some(OperationKey {
            tenant: Tenant::new(&self.tenant),
            upstream: UpstreamId::new(&self.upstream),
            principal,
            id: OperationId::new(&self.id),
            incarnation: Incarnation(self.incarnation),
        })
    }
}

/// Bytes, in base 64.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::store) struct Bytes(pub(in crate::store) Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        STANDARD
            .decode(text.as_bytes())
            .map(Self)
            .map_err(|_| D::Error::custom("not base 64"))
    }
}

/// A number of 128 bits, in hex: JSON readers of others would round it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Wide(pub(in crate::store) u128);

impl Serialize for Wide {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:032x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Wide {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16)
            .map(Self)
            .map_err(|_| D::Error::custom("not a number in hex"))
    }
}
