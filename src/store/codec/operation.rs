//! The record of an operation.
//!
//! What always holds: every field of the types is named on both sides, so that a new one does not
//! compile until it is stored.
//!
//! What it does not do: hold the answer of a completion; that is content, kept and sealed apart.

use super::primitives::{Reader, Writer};
use super::{Field, Malformed, settling};
use crate::protocol::ids::OperationKey;
use crate::protocol::meaning::Members;
use crate::protocol::operation::{
    Attempt, AttemptEnd, Completion, KeyUse, Operation, Place, State, WhyNot,
};
use crate::protocol::outcome::{Answer, Provenance};
use crate::protocol::policy::{Capability, KeyPolicy, Placing, SettlePolicy};
use crate::protocol::settling::Settling;
use crate::protocol::steps::{ResendPolicy, Steps};

pub(super) fn put(operation: &Operation, writer: &mut Writer) {
    let Operation {
        key: _,
        origin,
        place,
        order,
        fingerprint,
        members,
        credentialed,
        key_use,
        settle,
        state,
        attempts,
        admitted,
        resends,
        require,
        request_kept,
        first_seen,
        changed,
        settling,
    } = operation;
    origin.put(writer);
    place.put(writer);
    order.put(writer);
    fingerprint.put(writer);
    key_use.put(writer);
    settle.put(writer);
    put_state(state, writer);
    attempts.put(writer);
    admitted.put(writer);
    resends.put(writer);
    require.put(writer);
    request_kept.put(writer);
    first_seen.put(writer);
    changed.put(writer);
    // Appended later. A record of none of it is what it was before.
    let newer = settling::Newer::of(settling, state);
    if !members.is_empty() || *credentialed || newer.is_some() {
        members.put(writer);
        credentialed.put(writer);
    }
    if let Some(newer) = newer {
        newer.put(writer);
    }
}

pub(super) fn take(
    reader: &mut Reader<'_>,
    key: OperationKey,
    answer: Option<Answer>,
) -> Result<Operation, Malformed> {
    let mut operation = Operation {
        key,
        origin: Field::take(reader)?,
        place: Field::take(reader)?,
        order: Field::take(reader)?,
        fingerprint: Field::take(reader)?,
        members: Members::default(),
        credentialed: false,
        key_use: Field::take(reader)?,
        settle: Field::take(reader)?,
        state: take_state(reader, answer)?,
        attempts: Field::take(reader)?,
        admitted: Field::take(reader)?,
        resends: Field::take(reader)?,
        require: Field::take(reader)?,
        request_kept: Field::take(reader)?,
        first_seen: Field::take(reader)?,
        changed: Field::take(reader)?,
        settling: Settling::default(),
    };
    if !reader.is_empty() {
        operation.members = Field::take(reader)?;
        operation.credentialed = Field::take(reader)?;
    }
    if !reader.is_empty() {
        settling::take(reader, &mut operation)?;
    }
    Ok(operation)
}

fn put_state(state: &State, writer: &mut Writer) {
    match state {
        State::Intended => writer.byte(0),
        State::Uncertain => writer.byte(1),
        State::NeedsAttention(why) => {
            writer.byte(2);
            settling::as_of_old(*why).put(writer);
        }
        State::NotApplied(why) => {
            writer.byte(3);
            why.put(writer);
        }
        State::Completed(completion) => {
            let Completion {
                verdict,
                provenance,
                attempt,
                answer: _,
                at,
            } = completion;
            writer.byte(4);
            writer.part(|writer| {
                verdict.put(writer);
                // Readers of old do not know the word; to them somebody looked.
                let undone = *provenance == Provenance::Void;
                let word = if undone {
                    Provenance::LookUp
                } else {
                    *provenance
                };
                word.put(writer);
                attempt.put(writer);
                at.put(writer);
                if undone {
                    provenance.put(writer);
                }
            });
        }
    }
}

fn take_state(reader: &mut Reader<'_>, answer: Option<Answer>) -> Result<State, Malformed> {
    match reader.byte()? {
        0 => Ok(State::Intended),
        1 => Ok(State::Uncertain),
        2 => Ok(State::NeedsAttention(Field::take(reader)?)),
        3 => Ok(State::NotApplied(Field::take(reader)?)),
        4 => reader.part(|reader| {
            let mut completion = Completion {
                verdict: Field::take(reader)?,
                provenance: Field::take(reader)?,
                attempt: Field::take(reader)?,
                answer,
                at: Field::take(reader)?,
            };
            if !reader.is_empty() {
                completion.provenance = Field::take(reader)?;
            }
            Ok(State::Completed(completion))
        }),
        tag => Err(Malformed::Variant { of: "State", tag }),
    }
}

impl Field for Members {
    fn put(&self, writer: &mut Writer) {
        let Self { grain, digests } = self;
        writer.part(|writer| {
            grain.put(writer);
            for digest in digests.iter() {
                writer.fixed(&digest.to_le_bytes());
            }
        });
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.part(|reader| {
            let grain = Field::take(reader)?;
            let mut digests = Vec::with_capacity(reader.room() / 4);
            while !reader.is_empty() {
                digests.push(u32::from_le_bytes(reader.fixed()?));
            }
            Ok(Self {
                grain,
                digests: digests.into(),
            })
        })
    }
}

impl Field for WhyNot {
    fn put(&self, writer: &mut Writer) {
        match self {
            Self::NotSent(unsent) => {
                writer.byte(0);
                unsent.put(writer);
            }
            Self::NotProcessed(status) => {
                writer.byte(1);
                status.put(writer);
            }
            Self::Said(by) => {
                writer.byte(2);
                by.put(writer);
            }
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match reader.byte()? {
            0 => Ok(Self::NotSent(Field::take(reader)?)),
            1 => Ok(Self::NotProcessed(Field::take(reader)?)),
            2 => Ok(Self::Said(Field::take(reader)?)),
            tag => Err(Malformed::Variant { of: "WhyNot", tag }),
        }
    }
}

impl Field for Place {
    fn put(&self, writer: &mut Writer) {
        let Self {
            resource,
            incarnation,
            token,
            sequence,
            number,
        } = self;
        writer.part(|writer| {
            resource.put(writer);
            incarnation.put(writer);
            token.put(writer);
            sequence.put(writer);
            number.put(writer);
        });
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.part(|reader| {
            Ok(Self {
                resource: Field::take(reader)?,
                incarnation: Field::take(reader)?,
                token: Field::take(reader)?,
                sequence: Field::take(reader)?,
                number: Field::take(reader)?,
            })
        })
    }
}

impl Field for KeyUse {
    fn put(&self, writer: &mut Writer) {
        let Self { round, first } = self;
        writer.part(|writer| {
            round.put(writer);
            first.put(writer);
        });
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.part(|reader| {
            Ok(Self {
                round: Field::take(reader)?,
                first: Field::take(reader)?,
            })
        })
    }
}

impl Field for Attempt {
    fn put(&self, writer: &mut Writer) {
        let Self {
            id,
            round,
            fingerprint,
            at,
            overdue_after,
            resend,
            end,
        } = self;
        writer.part(|writer| {
            id.put(writer);
            round.put(writer);
            fingerprint.put(writer);
            at.put(writer);
            overdue_after.put(writer);
            resend.put(writer);
            end.put(writer);
        });
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.part(|reader| {
            Ok(Self {
                id: Field::take(reader)?,
                round: Field::take(reader)?,
                fingerprint: Field::take(reader)?,
                at: Field::take(reader)?,
                overdue_after: Field::take(reader)?,
                resend: Field::take(reader)?,
                end: Field::take(reader)?,
            })
        })
    }
}

impl Field for AttemptEnd {
    fn put(&self, writer: &mut Writer) {
        match self {
            Self::Silent => writer.byte(0),
            Self::Open(phase, why) => {
                writer.byte(1);
                phase.put(writer);
                why.put(writer);
            }
            Self::Closed(phase, why) => {
                writer.byte(2);
                phase.put(writer);
                why.put(writer);
            }
            Self::Ambiguous(status) => {
                writer.byte(3);
                status.put(writer);
            }
            Self::Disproved(by) => {
                writer.byte(4);
                by.put(writer);
            }
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match reader.byte()? {
            0 => Ok(Self::Silent),
            1 => Ok(Self::Open(Field::take(reader)?, Field::take(reader)?)),
            2 => Ok(Self::Closed(Field::take(reader)?, Field::take(reader)?)),
            3 => Ok(Self::Ambiguous(Field::take(reader)?)),
            4 => Ok(Self::Disproved(Field::take(reader)?)),
            tag => Err(Malformed::Variant {
                of: "AttemptEnd",
                tag,
            }),
        }
    }
}

impl Field for SettlePolicy {
    fn put(&self, writer: &mut Writer) {
        let Self {
            capability,
            key,
            steps,
            way,
        } = self;
        writer.part(|writer| {
            capability.put(writer);
            key.put(writer);
            // Once there was no other step. Readers of old know none, and must not send what may be undone.
            let resend = steps.send_again();
            let undoes = steps.iter().any(|(_, step)| step.void().is_some());
            resend.filter(|_| !undoes).put(writer);
            if *steps != Steps::resends(resend) || way.is_some() {
                settling::put_steps(steps, writer);
            }
            // Appended after the steps. A record without it is what it was before.
            if let Some(way) = way {
                way.put(writer);
            }
        });
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.part(|reader| {
            let capability = Field::take(reader)?;
            let key = Field::take(reader)?;
            let resend = Field::take(reader)?;
            let steps = if reader.is_empty() {
                Steps::resends(resend)
            } else {
                settling::take_steps(reader)?
            };
            let way = if reader.is_empty() {
                None
            } else {
                Some(Field::take(reader)?)
            };
            Ok(Self {
                capability,
                key,
                steps,
                way,
            })
        })
    }
}

impl Field for Capability {
    fn put(&self, writer: &mut Writer) {
        let Self {
            conditional,
            idempotent,
            query,
            callback,
        } = self;
        writer.part(|writer| {
            conditional.put(writer);
            idempotent.put(writer);
            query.put(writer);
            callback.put(writer);
        });
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.part(|reader| {
            Ok(Self {
                conditional: Field::take(reader)?,
                idempotent: Field::take(reader)?,
                query: Field::take(reader)?,
                callback: Field::take(reader)?,
            })
        })
    }
}

impl Field for KeyPolicy {
    fn put(&self, writer: &mut Writer) {
        let Self {
            value,
            lifetime,
            remembers_refusals,
            placing,
        } = self;
        writer.part(|writer| {
            value.put(writer);
            lifetime.put(writer);
            remembers_refusals.put(writer);
            // Appended in 0.2. A record without it is what it was before.
            if let Some(Placing(number)) = placing {
                writer.fixed(&number.to_be_bytes());
            }
        });
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.part(|reader| {
            Ok(Self {
                value: Field::take(reader)?,
                lifetime: Field::take(reader)?,
                remembers_refusals: Field::take(reader)?,
                placing: if reader.is_empty() {
                    None
                } else {
                    Some(Placing(u64::from_be_bytes(reader.fixed()?)))
                },
            })
        })
    }
}

impl Field for ResendPolicy {
    fn put(&self, writer: &mut Writer) {
        let Self {
            attempts,
            backoff_from,
            backoff_to,
        } = self;
        writer.part(|writer| {
            attempts.put(writer);
            backoff_from.put(writer);
            backoff_to.put(writer);
        });
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.part(|reader| {
            Ok(Self {
                attempts: Field::take(reader)?,
                backoff_from: Field::take(reader)?,
                backoff_to: Field::take(reader)?,
            })
        })
    }
}
