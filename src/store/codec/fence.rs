//! The records of a fence, of a twin's note, and of an event.
//!
//! What always holds: every field of the types is named on both sides, so that a new one does not
//! compile until it is stored.
//!
//! What it does not do: repeat the key that the record is stored under.

use std::sync::Arc;

use super::names::text;
use super::primitives::{Reader, Writer};
use super::{Field, Malformed};
use crate::protocol::command::Event;
use crate::protocol::fence::{Deed, Fence, Intervention, Latest};
use crate::protocol::ids::{OperationKey, ResourceKey};
use crate::protocol::lease::Lease;
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
        interventions,
        issued,
        lease,
        shut,
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
    // Appended in 0.2. A fence that no person touched is what it was before.
    let is_shut = shut.is_some();
    let is_leased = issued.is_some() || lease.is_some() || is_shut;
    if !interventions.is_empty() || is_leased {
        interventions.to_vec().put(writer);
    }
    if is_leased {
        issued.put(writer);
        lease.put(writer);
    }
    if is_shut {
        shut.put(writer);
    }
}

pub(super) fn take(reader: &mut Reader<'_>, resource: ResourceKey) -> Result<Fence, Malformed> {
    let mut fence = Fence {
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
        interventions: Arc::default(),
        issued: None,
        lease: None,
        shut: None,
    };
    if !reader.is_empty() {
        fence.interventions = <Vec<Intervention> as Field>::take(reader)?.into();
    }
    if !reader.is_empty() {
        fence.issued = Field::take(reader)?;
        fence.lease = Field::take(reader)?;
    }
    if !reader.is_empty() {
        fence.shut = Field::take(reader)?;
    }
    Ok(fence)
}

impl Field for Intervention {
    fn put(&self, writer: &mut Writer) {
        let Self {
            how,
            operator,
            reason,
            at,
        } = self;
        writer.part(|writer| {
            let (tag, token) = match how {
                Deed::Cancelled => (0, None),
                Deed::Advanced => (1, None),
                Deed::Reopened => (2, None),
                Deed::Accepted(token) => (3, Some(token)),
                Deed::Repaired(token) => (4, Some(token)),
            };
            writer.byte(tag);
            writer.bytes(operator.as_bytes());
            writer.bytes(reason.as_bytes());
            at.put(writer);
            if let Some(token) = token {
                token.put(writer);
            }
        });
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.part(|reader| {
            let tag = reader.byte()?;
            let operator = text(reader)?.to_owned();
            let reason = text(reader)?.to_owned();
            let at = Field::take(reader)?;
            let how = match tag {
                0 => Deed::Cancelled,
                1 => Deed::Advanced,
                2 => Deed::Reopened,
                3 => Deed::Accepted(Field::take(reader)?),
                4 => Deed::Repaired(Field::take(reader)?),
                tag => return Err(Malformed::Variant { of: "Deed", tag }),
            };
            Ok(Self {
                how,
                operator,
                reason,
                at,
            })
        })
    }
}

impl Field for Lease {
    fn put(&self, writer: &mut Writer) {
        let Self {
            acquisition,
            holder,
            token,
            ttl,
            renewals,
            since,
        } = self;
        writer.part(|writer| {
            acquisition.put(writer);
            writer.bytes(holder.as_bytes());
            token.put(writer);
            ttl.put(writer);
            renewals.put(writer);
            since.put(writer);
        });
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.part(|reader| {
            Ok(Self {
                acquisition: Field::take(reader)?,
                holder: text(reader)?.to_owned(),
                token: Field::take(reader)?,
                ttl: Field::take(reader)?,
                renewals: Field::take(reader)?,
                since: Field::take(reader)?,
            })
        })
    }
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
