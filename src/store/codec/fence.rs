//! The records of a fence, of a twin's note, and of an event.
//!
//! What always holds: every field of the types is named on both sides, so that a new one does not
//! compile until it is stored.
//!
//! What it does not do: repeat the key that the record is stored under.

use super::names::text;
use super::primitives::{Reader, Writer};
use super::{Field, Malformed};
use crate::protocol::command::Event;
use crate::protocol::fence::{Fence, Latest};
use crate::protocol::ids::{OperationKey, ResourceKey};
use crate::protocol::view::TwinNote;

pub(super) fn put(fence: &Fence, writer: &mut Writer) {
    let Fence {
        resource: _,
        incarnation,
        mark,
        closed,
        source,
        acquisition,
        sequence,
        first,
        cancelled,
        admissions,
        cut_off,
        latest,
    } = fence;
    incarnation.put(writer);
    mark.put(writer);
    closed.put(writer);
    source.put(writer);
    acquisition.put(writer);
    sequence.put(writer);
    first.put(writer);
    cancelled.put(writer);
    admissions.put(writer);
    cut_off.put(writer);
    latest.put(writer);
}

pub(super) fn take(reader: &mut Reader<'_>, resource: ResourceKey) -> Result<Fence, Malformed> {
    Ok(Fence {
        resource,
        incarnation: Field::take(reader)?,
        mark: Field::take(reader)?,
        closed: Field::take(reader)?,
        source: Field::take(reader)?,
        acquisition: Field::take(reader)?,
        sequence: Field::take(reader)?,
        first: Field::take(reader)?,
        cancelled: Field::take(reader)?,
        admissions: Field::take(reader)?,
        cut_off: Field::take(reader)?,
        latest: Field::take(reader)?,
    })
}

impl Field for Latest {
    fn put(&self, writer: &mut Writer) {
        let Self {
            generation,
            strict,
            tokenless,
        } = self;
        writer.part(|writer| {
            generation.put(writer);
            strict.put(writer);
            tokenless.put(writer);
        });
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.part(|reader| {
            Ok(Self {
                generation: Field::take(reader)?,
                strict: Field::take(reader)?,
                tokenless: Field::take(reader)?,
            })
        })
    }
}

pub(super) fn put_note(note: &TwinNote, writer: &mut Writer) {
    let TwinNote {
        key: _,
        first,
        fingerprint,
    } = note;
    first.put(writer);
    fingerprint.put(writer);
}

pub(super) fn take_note(reader: &mut Reader<'_>, key: OperationKey) -> Result<TwinNote, Malformed> {
    Ok(TwinNote {
        key,
        first: Field::take(reader)?,
        fingerprint: Field::take(reader)?,
    })
}

pub(super) fn put_event(event: &Event, writer: &mut Writer) {
    let Event {
        key: _,
        at,
        attempt,
        text,
    } = event;
    at.put(writer);
    attempt.put(writer);
    writer.bytes(text.as_bytes());
}

pub(super) fn take_event(reader: &mut Reader<'_>, key: OperationKey) -> Result<Event, Malformed> {
    Ok(Event {
        key,
        at: Field::take(reader)?,
        attempt: Field::take(reader)?,
        text: text(reader)?.to_owned(),
    })
}
