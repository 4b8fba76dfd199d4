//! Stored records: versioned, checked, written by hand.
//!
//! What always holds: a record is `version (1 byte), fields, checksum (4 bytes)`. Fields stand in a
//! fixed order; nested structures and variants with content carry their length. Within one version
//! fields are only ever *appended* to a structure: an older reader leaves them alone, a newer one
//! takes its default where they are missing. Anything else is a new version, which older readers
//! refuse. Changed bytes are found by the checksum, and whatever gets past it is still an error,
//! never a panic.
//!
//! A record does not repeat the key that it is stored under; whoever reads it knows that key.
//! Customer content (requests, answers) is encoded apart from its operation, because it is sealed
//! (`seal`), which also takes the place of the checksum.
//!
//! What it does not do: encrypt, or know where records are kept.

mod content;
mod fence;
#[cfg(test)]
mod golden;
mod names;
mod operation;
mod primitives;
#[cfg(test)]
mod samples;
mod settling;
#[cfg(test)]
mod tests;

use std::fmt;

use ring::digest::{SHA256, digest};

use super::StoreError;
use crate::protocol::command::Event;
use crate::protocol::fence::Fence;
use crate::protocol::ids::{OperationKey, ResourceKey};
use crate::protocol::operation::Operation;
use crate::protocol::outcome::Answer;
use crate::protocol::view::TwinNote;

use primitives::{Reader, Writer};

pub(in crate::store) use content::{decode_answer, decode_request, encode_answer, encode_request};

/// Version of records that this code writes, and the highest that it reads.
pub(in crate::store) const VERSION: u8 = 1;

const CHECKSUM: usize = 4;

/// Why bytes are not a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::store) enum Malformed {
    #[error("it ends too early")]
    Truncated,
    #[error("its checksum does not match")]
    Checksum,
    #[error("{of} has no variant {tag}")]
    Variant { of: &'static str, tag: u8 },
    #[error("a text is not UTF-8")]
    Text,
    #[error("{0} is out of range")]
    Range(&'static str),
    #[error("it has version {0}")]
    Version(u8),
}

impl Malformed {
    /// The store's word for it; `what`: which record.
    pub(in crate::store) fn of(self, what: &dyn fmt::Display) -> StoreError {
        match self {
            Self::Version(found) => StoreError::FormatTooNew {
                found: u32::from(found),
                known: u32::from(VERSION),
            },
            Self::Truncated
            | Self::Checksum
            | Self::Variant { .. }
            | Self::Text
            | Self::Range(_) => StoreError::Corrupt(format!("{what}: {self}")),
        }
    }
}

/// A value that is written as one field.
pub(in crate::store) trait Field: Sized {
    fn put(&self, writer: &mut Writer);
    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed>;
}

/// Everything of an operation but its key and the answer that it completed with.
pub(in crate::store) fn encode_operation(operation: &Operation) -> Vec<u8> {
    framed(|writer| operation::put(operation, writer))
}

/// The operation of that key; `answer`: what was kept of its answer.
pub(in crate::store) fn decode_operation(
    bytes: &[u8],
    key: OperationKey,
    answer: Option<Answer>,
) -> Result<Operation, Malformed> {
    operation::take(&mut opened(bytes)?, key, answer)
}

/// Everything of a fence but its resource.
pub(in crate::store) fn encode_fence(fence: &Fence) -> Vec<u8> {
    framed(|writer| fence::put(fence, writer))
}

pub(in crate::store) fn decode_fence(
    bytes: &[u8],
    resource: ResourceKey,
) -> Result<Fence, Malformed> {
    fence::take(&mut opened(bytes)?, resource)
}

/// Everything of a twin's note but the twin's own key.
pub(in crate::store) fn encode_note(note: &TwinNote) -> Vec<u8> {
    framed(|writer| fence::put_note(note, writer))
}

pub(in crate::store) fn decode_note(
    bytes: &[u8],
    key: OperationKey,
) -> Result<TwinNote, Malformed> {
    fence::take_note(&mut opened(bytes)?, key)
}

/// Everything of an event but whose it is.
pub(in crate::store) fn encode_event(event: &Event) -> Vec<u8> {
    framed(|writer| fence::put_event(event, writer))
}

pub(in crate::store) fn decode_event(bytes: &[u8], key: OperationKey) -> Result<Event, Malformed> {
    fence::take_event(&mut opened(bytes)?, key)
}

/// The bytes of an identity: equal exactly when the identities are.
pub(in crate::store) fn encode_key(key: &OperationKey) -> Vec<u8> {
    let mut writer = Writer::default();
    key.put(&mut writer);
    writer.into_bytes()
}

fn framed(put: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.byte(VERSION);
    put(&mut writer);
    let sum = checksum(writer.as_bytes());
    writer.fixed(&sum);
    writer.into_bytes()
}

fn opened(bytes: &[u8]) -> Result<Reader<'_>, Malformed> {
    let (content, sum) = bytes
        .split_last_chunk::<CHECKSUM>()
        .ok_or(Malformed::Truncated)?;
    if checksum(content) != *sum {
        return Err(Malformed::Checksum);
    }
    versioned(content)
}

fn versioned(bytes: &[u8]) -> Result<Reader<'_>, Malformed> {
    let mut reader = Reader::new(bytes);
    match reader.byte()? {
        VERSION => Ok(reader),
        other => Err(Malformed::Version(other)),
    }
}

/// Finds decay, not malice: whoever can write the file can write the sum. A SHA-256 cut short,
/// because it is at hand and fast.
fn checksum(content: &[u8]) -> [u8; CHECKSUM] {
    let whole = digest(&SHA256, content);
    let mut sum = [0; CHECKSUM];
    for (slot, byte) in sum.iter_mut().zip(whole.as_ref()) {
        *slot = *byte;
    }
    sum
}
