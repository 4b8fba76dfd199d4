//! Ids, tokens, moments and plain words as fields of records.
//!
//! What always holds: a variant keeps its number for ever; a number is never given out twice.
//!
//! What it does not do: encode whole records.

use super::primitives::{Reader, Writer};
use super::{Field, Malformed};
use crate::protocol::ids::{
    AcquisitionId, AdmissionNumber, AttemptId, EffectName, FencingToken, Fingerprint, Incarnation,
    InstanceId, OperationId, OperationKey, Principal, ResourceName, Round, Sequence, StepName,
    Tenant, TokenSource, UpstreamId,
};
use crate::protocol::meaning::Grain;
use crate::protocol::operation::{IdentityOrigin, Parked};
use crate::protocol::outcome::{Interruption, Phase, Provenance, Unsent, Verdict};
use crate::protocol::policy::{KeyValue, Order, Ownership};
use crate::protocol::time::{BootId, BootInstant, Millis, Moment};

/// Plain words: one byte each.
macro_rules! words {
    ($($name:ident { $($variant:ident = $tag:literal),+ $(,)? })+) => {$(
        impl Field for $name {
            fn put(&self, writer: &mut Writer) {
                writer.byte(match self { $(Self::$variant => $tag),+ });
            }

            fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                match reader.byte()? {
                    $($tag => Ok(Self::$variant),)+
                    tag => Err(Malformed::Variant { of: stringify!($name), tag }),
                }
            }
        }
    )+};
}

words! {
    IdentityOrigin { Caller = 0, Derived = 1, Fresh = 2 }
    Order { Strict = 0, Free = 1 }
    Ownership { NotOlder = 0, Current = 1 }
    KeyValue { Derived = 0, Caller = 1 }
    Phase { Sending = 0, Waiting = 1, Receiving = 2 }
    Interruption {
        Timeout = 0, Closed = 1, BadAnswer = 2, StrayBytes = 3, ProcessGone = 4, ClosedToSettle = 5,
    }
    Provenance { Answer = 0, LookUp = 1, Callback = 2, Operator = 3, Void = 4 }
    Unsent { DispatchExpired = 0, ConnectionLost = 1, AlreadySettled = 2, Unfit = 3 }
    Verdict { Applied = 0, Refused = 1 }
    Grain { Leaves = 0, Outermost = 1, Head = 2 }
    Parked {
        NoStep = 0, KeyTooOld = 1, RequestNotKept = 2, Overtaken = 3, CutOff = 4, ResendsUsedUp = 5,
        NotOrdered = 6, NotCurrent = 7, NotToldInTime = 8, NotCalledBack = 9, UndoUnclear = 10,
    }
}

/// Newtypes over text.
macro_rules! texts {
    ($($name:ident),+) => {$(
        impl Field for $name {
            fn put(&self, writer: &mut Writer) {
                writer.bytes(self.as_str().as_bytes());
            }

            fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                Ok(Self::new(text(reader)?))
            }
        }
    )+};
}

texts!(
    Tenant,
    UpstreamId,
    OperationId,
    ResourceName,
    AcquisitionId,
    TokenSource,
    StepName,
    EffectName
);

/// Newtypes over a number.
macro_rules! numbers {
    ($($name:ident),+) => {$(
        impl Field for $name {
            fn put(&self, writer: &mut Writer) {
                writer.number(self.0.into());
            }

            fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                let number = reader.number()?;
                number.try_into().map(Self).map_err(|_| Malformed::Range(stringify!($name)))
            }
        }
    )+};
}

numbers!(Incarnation, Round, AdmissionNumber, Millis, BootInstant);

pub(super) fn text<'a>(reader: &mut Reader<'a>) -> Result<&'a str, Malformed> {
    std::str::from_utf8(reader.bytes()?).map_err(|_| Malformed::Text)
}

impl Field for bool {
    fn put(&self, writer: &mut Writer) {
        writer.byte(u8::from(*self));
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match reader.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            tag => Err(Malformed::Variant { of: "bool", tag }),
        }
    }
}

macro_rules! small_integers {
    ($($name:ident),+) => {$(
        impl Field for $name {
            fn put(&self, writer: &mut Writer) {
                writer.number(u64::from(*self));
            }

            fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                reader.number()?.try_into().map_err(|_| Malformed::Range(stringify!($name)))
            }
        }
    )+};
}

small_integers!(u16, u32, u64);

impl<T: Field> Field for Option<T> {
    fn put(&self, writer: &mut Writer) {
        match self {
            None => writer.byte(0),
            Some(value) => {
                writer.byte(1);
                value.put(writer);
            }
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match reader.byte()? {
            0 => Ok(None),
            1 => T::take(reader).map(Some),
            tag => Err(Malformed::Variant { of: "option", tag }),
        }
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn put(&self, writer: &mut Writer) {
        self.0.put(writer);
        self.1.put(writer);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok((A::take(reader)?, B::take(reader)?))
    }
}

impl<T: Field> Field for Vec<T> {
    fn put(&self, writer: &mut Writer) {
        writer.number(u64::try_from(self.len()).unwrap_or(u64::MAX));
        for value in self {
            value.put(writer);
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = usize::try_from(reader.number()?).map_err(|_| Malformed::Truncated)?;
        // Every element takes a byte at least: a count beyond that is not worth trying.
        if count > reader.room() {
            return Err(Malformed::Truncated);
        }
        (0..count).map(|_| T::take(reader)).collect()
    }
}

impl Field for Principal {
    fn put(&self, writer: &mut Writer) {
        match self {
            Self::None => writer.byte(0),
            Self::Hashed(digest) => {
                writer.byte(1);
                writer.fixed(digest);
            }
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match reader.byte()? {
            0 => Ok(Self::None),
            1 => Ok(Self::Hashed(reader.fixed()?)),
            tag => Err(Malformed::Variant {
                of: "Principal",
                tag,
            }),
        }
    }
}

impl Field for OperationKey {
    fn put(&self, writer: &mut Writer) {
        let Self {
            tenant,
            upstream,
            principal,
            id,
            incarnation,
        } = self;
        writer.part(|writer| {
            tenant.put(writer);
            upstream.put(writer);
            principal.put(writer);
            id.put(writer);
            incarnation.put(writer);
        });
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.part(|reader| {
            Ok(Self {
                tenant: Field::take(reader)?,
                upstream: Field::take(reader)?,
                principal: Field::take(reader)?,
                id: Field::take(reader)?,
                incarnation: Field::take(reader)?,
            })
        })
    }
}

impl Field for AttemptId {
    fn put(&self, writer: &mut Writer) {
        let Self { instance, number } = self;
        writer.fixed(&instance.0.to_le_bytes());
        writer.number(*number);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            instance: InstanceId(u128::from_le_bytes(reader.fixed()?)),
            number: reader.number()?,
        })
    }
}

impl Field for FencingToken {
    fn put(&self, writer: &mut Writer) {
        writer.number(self.epoch());
        writer.number(self.generation());
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (epoch, generation) = (reader.number()?, reader.number()?);
        Self::new(epoch, generation).ok_or(Malformed::Range("FencingToken"))
    }
}

impl Field for Sequence {
    fn put(&self, writer: &mut Writer) {
        writer.number(self.value());
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Self::from_value(reader.number()?).ok_or(Malformed::Range("Sequence"))
    }
}

impl Field for Fingerprint {
    fn put(&self, writer: &mut Writer) {
        let Self { key, form, digest } = self;
        writer.fixed(&key.to_le_bytes());
        writer.byte(*form);
        writer.fixed(digest);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            key: u32::from_le_bytes(reader.fixed()?),
            form: reader.byte()?,
            digest: reader.fixed()?,
        })
    }
}

impl Field for Moment {
    fn put(&self, writer: &mut Writer) {
        let Self {
            boot,
            boottime,
            wall_ms,
        } = self;
        writer.fixed(&boot.0.to_le_bytes());
        boottime.put(writer);
        writer.number(*wall_ms);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            boot: BootId(u128::from_le_bytes(reader.fixed()?)),
            boottime: Field::take(reader)?,
            wall_ms: reader.number()?,
        })
    }
}
