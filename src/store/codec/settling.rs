//! How an operation is settled, beyond resends: its steps, and how far they have come.
//!
//! What always holds: all of it stands behind what earlier versions wrote, so that their readers leave it
//! alone; and what they do read keeps them from acting: they send nothing that may be undone, and give to a
//! person what they have no step for. What they write is without it, and says so by default: nothing was seen to
//! be quiet, nothing was asked.
//!
//! What it does not do: know more of an operation (`operation`).

use std::num::NonZeroU32;

use super::primitives::{Reader, Writer};
use super::{Field, Malformed};
use crate::protocol::finding::NotKnown;
use crate::protocol::operation::{Operation, Parked, State};
use crate::protocol::policy::{Destination, Placing, Way};
use crate::protocol::settling::{Progress, Quiet, Said, Settling, Void};
use crate::protocol::steps::{
    Backoff, CallbackPolicy, LookUpPolicy, SettleStep, StepIndex, Steps, VoidPolicy,
};

/// What readers of old know nothing of.
pub(super) struct Newer<'a> {
    settling: &'a Settling,
    parked: Option<Parked>,
}

impl<'a> Newer<'a> {
    /// `None`: there is nothing of it.
    pub(super) fn of(settling: &'a Settling, state: &State) -> Option<Self> {
        let parked = match state {
            State::NeedsAttention(why) => Some(*why).filter(|why| as_of_old(*why) != *why),
            State::Intended | State::Uncertain | State::NotApplied(_) | State::Completed(_) => None,
        };
        let any = parked.is_some() || *settling != Settling::default();
        any.then_some(Self { settling, parked })
    }

    pub(super) fn put(&self, writer: &mut Writer) {
        let Settling {
            quiet,
            steps,
            void,
            taken_up,
        } = self.settling;
        writer.part(|writer| {
            quiet.put(writer);
            steps.put(writer);
            void.put(writer);
            self.parked.put(writer);
            // Appended later. A record without it is what it was before.
            if let Some(taken_up) = taken_up {
                taken_up.put(writer);
            }
        });
    }
}

/// Takes what [`Newer`] put.
pub(super) fn take(reader: &mut Reader<'_>, operation: &mut Operation) -> Result<(), Malformed> {
    let parked: Option<Parked> = reader.part(|reader| {
        operation.settling = Settling {
            quiet: Field::take(reader)?,
            steps: Field::take(reader)?,
            void: Field::take(reader)?,
            taken_up: None,
        };
        let parked = Field::take(reader)?;
        if !reader.is_empty() {
            operation.settling.taken_up = Some(Field::take(reader)?);
        }
        Ok(parked)
    })?;
    if let (State::NeedsAttention(why), Some(parked)) = (&mut operation.state, parked) {
        *why = parked;
    }
    Ok(())
}

/// The nearest reason that readers of old know.
pub(super) fn as_of_old(why: Parked) -> Parked {
    match why {
        Parked::NotToldInTime | Parked::NotCalledBack | Parked::UndoUnclear => Parked::NoStep,
        Parked::NoStep
        | Parked::KeyTooOld
        | Parked::RequestNotKept
        | Parked::Overtaken
        | Parked::CutOff
        | Parked::ResendsUsedUp
        | Parked::NotOrdered
        | Parked::NotCurrent => why,
    }
}

pub(super) fn put_steps(steps: &Steps, writer: &mut Writer) {
    let steps: Vec<SettleStep> = steps.iter().map(|(_, step)| step.clone()).collect();
    steps.put(writer);
}

pub(super) fn take_steps(reader: &mut Reader<'_>) -> Result<Steps, Malformed> {
    Steps::new(Field::take(reader)?).ok_or(Malformed::Range("Steps"))
}

impl Field for Way {
    fn put(&self, writer: &mut Writer) {
        let Self {
            effect,
            destination: Destination(destination),
            placing: Placing(placing),
        } = self;
        writer.part(|writer| {
            effect.put(writer);
            writer.fixed(&destination.to_be_bytes());
            writer.fixed(&placing.to_be_bytes());
        });
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.part(|reader| {
            Ok(Self {
                effect: Field::take(reader)?,
                destination: Destination(u64::from_be_bytes(reader.fixed()?)),
                placing: Placing(u64::from_be_bytes(reader.fixed()?)),
            })
        })
    }
}

impl Field for SettleStep {
    fn put(&self, writer: &mut Writer) {
        match self {
            Self::SendAgain(resend) => {
                writer.byte(0);
                resend.put(writer);
            }
            Self::LookUp(question) => {
                writer.byte(1);
                question.put(writer);
            }
            Self::Compare(question) => {
                writer.byte(2);
                question.put(writer);
            }
            Self::Void(void) => {
                writer.byte(3);
                void.put(writer);
            }
            Self::Callback(callback) => {
                writer.byte(4);
                callback.put(writer);
            }
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match reader.byte()? {
            0 => Ok(Self::SendAgain(Field::take(reader)?)),
            1 => Ok(Self::LookUp(Field::take(reader)?)),
            2 => Ok(Self::Compare(Field::take(reader)?)),
            3 => Ok(Self::Void(Field::take(reader)?)),
            4 => Ok(Self::Callback(Field::take(reader)?)),
            tag => Err(Malformed::Variant {
                of: "SettleStep",
                tag,
            }),
        }
    }
}

impl Field for LookUpPolicy {
    fn put(&self, writer: &mut Writer) {
        let Self {
            name,
            lag,
            samples,
            every,
            within,
            tells_forms,
        } = self;
        writer.part(|writer| {
            name.put(writer);
            lag.put(writer);
            samples.get().put(writer);
            every.put(writer);
            within.put(writer);
            tells_forms.put(writer);
        });
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.part(|reader| {
            Ok(Self {
                name: Field::take(reader)?,
                lag: Field::take(reader)?,
                samples: NonZeroU32::new(Field::take(reader)?)
                    .ok_or(Malformed::Range("samples"))?,
                every: Field::take(reader)?,
                within: Field::take(reader)?,
                tells_forms: Field::take(reader)?,
            })
        })
    }
}

impl Field for VoidPolicy {
    fn put(&self, writer: &mut Writer) {
        let Self {
            name,
            lag,
            attempts,
            every,
            within,
        } = self;
        writer.part(|writer| {
            name.put(writer);
            lag.put(writer);
            attempts.put(writer);
            every.put(writer);
            within.put(writer);
        });
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.part(|reader| {
            Ok(Self {
                name: Field::take(reader)?,
                lag: Field::take(reader)?,
                attempts: Field::take(reader)?,
                every: Field::take(reader)?,
                within: Field::take(reader)?,
            })
        })
    }
}

impl Field for CallbackPolicy {
    fn put(&self, writer: &mut Writer) {
        let Self { within } = self;
        writer.part(|writer| within.put(writer));
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.part(|reader| {
            Ok(Self {
                within: Field::take(reader)?,
            })
        })
    }
}

impl Field for Backoff {
    fn put(&self, writer: &mut Writer) {
        let Self { from, to } = self;
        from.put(writer);
        to.put(writer);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            from: Field::take(reader)?,
            to: Field::take(reader)?,
        })
    }
}

impl Field for StepIndex {
    fn put(&self, writer: &mut Writer) {
        writer.byte(self.0);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.byte().map(Self)
    }
}

impl Field for Quiet {
    fn put(&self, writer: &mut Writer) {
        self.sights().to_vec().put(writer);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let sights: Vec<_> = Field::take(reader)?;
        Ok(Self::of(sights))
    }
}

impl Field for Progress {
    fn put(&self, writer: &mut Writer) {
        let Self {
            asked,
            first_asked,
            last_asked,
            samples,
            last_sample,
            turn,
            said,
        } = self;
        writer.part(|writer| {
            asked.put(writer);
            first_asked.put(writer);
            last_asked.put(writer);
            samples.put(writer);
            last_sample.put(writer);
            said.put(writer);
            // Appended later. A record without it is what it was before.
            if *turn != Quiet::default() {
                turn.put(writer);
            }
        });
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.part(|reader| {
            Ok(Self {
                asked: Field::take(reader)?,
                first_asked: Field::take(reader)?,
                last_asked: Field::take(reader)?,
                samples: Field::take(reader)?,
                last_sample: Field::take(reader)?,
                said: Field::take(reader)?,
                turn: if reader.is_empty() {
                    Quiet::default()
                } else {
                    Field::take(reader)?
                },
            })
        })
    }
}

impl Field for Said {
    fn put(&self, writer: &mut Writer) {
        match self {
            Self::NotYet => writer.byte(0),
            Self::NotKnown(why) => {
                writer.byte(1);
                why.put(writer);
            }
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match reader.byte()? {
            0 => Ok(Self::NotYet),
            1 => Ok(Self::NotKnown(Field::take(reader)?)),
            tag => Err(Malformed::Variant { of: "Said", tag }),
        }
    }
}

impl Field for NotKnown {
    fn put(&self, writer: &mut Writer) {
        writer.byte(match self {
            Self::Unanswered => 0,
            Self::Undecided(_) => 1,
            Self::Contradictory => 2,
            Self::CredentialRefused => 3,
            Self::SignatureExpired => 4,
            Self::Redirected => 5,
            Self::Unreadable => 6,
            Self::TooLarge => 7,
            Self::TooManyPages => 8,
            Self::ConditionFailed => 9,
            Self::NotConfigured => 10,
            Self::RequestNotKept => 11,
            Self::TwoForms => 12,
            Self::Voiding => 13,
            Self::SeveralIncarnations => 14,
        });
        if let Self::Undecided(status) = self {
            status.put(writer);
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match reader.byte()? {
            0 => Self::Unanswered,
            1 => Self::Undecided(Field::take(reader)?),
            2 => Self::Contradictory,
            3 => Self::CredentialRefused,
            4 => Self::SignatureExpired,
            5 => Self::Redirected,
            6 => Self::Unreadable,
            7 => Self::TooLarge,
            8 => Self::TooManyPages,
            9 => Self::ConditionFailed,
            10 => Self::NotConfigured,
            11 => Self::RequestNotKept,
            12 => Self::TwoForms,
            13 => Self::Voiding,
            14 => Self::SeveralIncarnations,
            tag => {
                return Err(Malformed::Variant {
                    of: "NotKnown",
                    tag,
                });
            }
        })
    }
}

impl Field for Void {
    fn put(&self, writer: &mut Writer) {
        let Self {
            step,
            begun,
            last,
            quiet,
        } = self;
        writer.part(|writer| {
            step.put(writer);
            begun.put(writer);
            last.put(writer);
            quiet.put(writer);
        });
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.part(|reader| {
            Ok(Self {
                step: Field::take(reader)?,
                begun: Field::take(reader)?,
                last: Field::take(reader)?,
                quiet: Field::take(reader)?,
            })
        })
    }
}
