//! The steps by which an uncertain operation is settled, in order, as data; kept with its intent.
//!
//! What always holds: at most [`MOST_STEPS`] of them, and at most one that sends again. What is asked,
//! and what its answers mean, is the config's: it is found again there by the step's name. Here is only
//! what the decision needs.
//!
//! What it does not do: say which step is next (`plan`), how far they have come (`settling`), or ask
//! anybody anything.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::ids::StepName;
use super::time::Millis;

/// So many steps an effect can have.
pub const MOST_STEPS: usize = 8;

/// The steps, in order. After the last of them comes a person. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Steps(Arc<[SettleStep]>);

/// Which of them, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepIndex(pub u8);

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SettleStep {
    /// Sends the stored bytes again under the same key.
    SendAgain(ResendPolicy),
    /// Asks whether it was applied: a question without effect.
    LookUp(LookUpPolicy),
    /// Looks at what is there now, and compares it with what was sent: a question without effect, to an
    /// upstream that orders by itself.
    Compare(LookUpPolicy),
    /// Undoes whatever was done under the key.
    Void(VoidPolicy),
    /// Waits for a signed callback.
    Callback(CallbackPolicy),
}

/// Resends of stored bytes under the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResendPolicy {
    /// At most that many.
    pub attempts: u32,
    /// Pause before the first.
    pub backoff_from: Millis,
    /// Longest pause.
    pub backoff_to: Millis,
}

/// Pauses that double from one to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Backoff {
    /// The first.
    pub from: Millis,
    /// The longest.
    pub to: Millis,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LookUpPolicy {
    /// Finds what is asked in the config.
    pub name: StepName,
    /// "Not found" counts only when asked so long after everything was quiet: longer than a sent request
    /// can still arrive, and than the upstream needs to show what arrived.
    pub lag: Millis,
    /// So many times in a row, each asked a pause after the answer before it at least.
    pub samples: NonZeroU32,
    /// Pauses between the questions.
    pub every: Backoff,
    /// So long after it got its turn the step has had its time.
    pub within: Millis,
    /// Does "applied" mean the very form that is in force, not just some form under the key?
    pub tells_forms: bool,
}

/// An undo by key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VoidPolicy {
    /// Finds the request in the config.
    pub name: StepName,
    /// It begins only so long after everything was quiet: an effect that arrives after it is not undone.
    pub lag: Millis,
    /// At most that many requests.
    pub attempts: u32,
    /// Pauses between them.
    pub every: Backoff,
    /// So long after the newest attempt none begins any more. A key that the upstream has forgotten
    /// undoes nothing, and says so of nothing: where the key's lifetime is known it bounds this too.
    pub within: Millis,
}

/// A callback to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallbackPolicy {
    /// So long after the step got its turn it is not waited for any more; one that comes later counts all
    /// the same.
    pub within: Millis,
}

impl Steps {
    /// None: a person settles it.
    pub fn none() -> Self {
        Self::default()
    }

    /// These; `None` if they are too many, or two of them send again.
    pub fn new(steps: Vec<SettleStep>) -> Option<Self> {
        let sends = |step: &&SettleStep| matches!(step, SettleStep::SendAgain(_));
        let fit = steps.len() <= MOST_STEPS && steps.iter().filter(sends).count() <= 1;
        fit.then(|| Self(steps.into()))
    }

    /// Only resends, where there are any.
    pub fn resends(resend: Option<ResendPolicy>) -> Self {
        Self(resend.into_iter().map(SettleStep::SendAgain).collect())
    }

    /// Those of them that send nothing under the key.
    pub fn without_effect(&self) -> Self {
        let without = |step: &&SettleStep| match step {
            SettleStep::LookUp(_) | SettleStep::Compare(_) | SettleStep::Callback(_) => true,
            SettleStep::SendAgain(_) | SettleStep::Void(_) => false,
        };
        Self(self.0.iter().filter(without).cloned().collect())
    }

    /// Does any of them read the stored request?
    pub fn read_request(&self) -> bool {
        self.0.iter().any(|step| match step {
            SettleStep::SendAgain(_)
            | SettleStep::LookUp(_)
            | SettleStep::Compare(_)
            | SettleStep::Void(_) => true,
            SettleStep::Callback(_) => false,
        })
    }

    /// The first of them that asks, if one does.
    pub fn first_question(&self) -> Option<StepIndex> {
        let mut steps = self.iter();
        steps.find_map(|(index, step)| step.question().map(|_| index))
    }

    /// In order, each with its index.
    pub fn iter(&self) -> impl Iterator<Item = (StepIndex, &SettleStep)> {
        (0..).map(StepIndex).zip(&*self.0)
    }

    /// The step of that index.
    pub fn at(&self, index: StepIndex) -> Option<&SettleStep> {
        self.0.get(usize::from(index.0))
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The resends, where one of the steps is that.
    pub fn send_again(&self) -> Option<ResendPolicy> {
        self.0.iter().find_map(|step| match step {
            SettleStep::SendAgain(resend) => Some(*resend),
            SettleStep::LookUp(_)
            | SettleStep::Compare(_)
            | SettleStep::Void(_)
            | SettleStep::Callback(_) => None,
        })
    }

    /// Does any of them have to know since when everything was quiet?
    pub fn count_quiet(&self) -> bool {
        self.0.iter().any(|step| match step {
            SettleStep::LookUp(_) | SettleStep::Compare(_) | SettleStep::Void(_) => true,
            SettleStep::SendAgain(_) | SettleStep::Callback(_) => false,
        })
    }
}

impl SettleStep {
    /// The question that it asks, if it is one.
    pub fn question(&self) -> Option<&LookUpPolicy> {
        match self {
            Self::LookUp(policy) | Self::Compare(policy) => Some(policy),
            Self::SendAgain(_) | Self::Void(_) | Self::Callback(_) => None,
        }
    }

    /// The undo that it is, if it is one.
    pub fn void(&self) -> Option<&VoidPolicy> {
        match self {
            Self::Void(policy) => Some(policy),
            Self::SendAgain(_) | Self::LookUp(_) | Self::Compare(_) | Self::Callback(_) => None,
        }
    }

    /// Does its time run from when it has its turn? That of others runs from the attempts, whatever came between:
    /// an upstream forgets their key.
    pub fn is_timed(&self) -> bool {
        match self {
            Self::LookUp(_) | Self::Compare(_) | Self::Callback(_) => true,
            Self::SendAgain(_) | Self::Void(_) => false,
        }
    }

    /// For a person.
    pub fn word(&self) -> &'static str {
        match self {
            Self::SendAgain(_) => "send again",
            Self::LookUp(_) => "look up",
            Self::Compare(_) => "compare",
            Self::Void(_) => "void",
            Self::Callback(_) => "callback",
        }
    }
}

impl Backoff {
    /// The pause after so many tries.
    pub fn after(self, tries: u32) -> Millis {
        let doubled = self
            .from
            .0
            .saturating_mul(2_u64.saturating_pow(tries.min(32)));
        Millis(doubled).min(self.to)
    }
}

impl ResendPolicy {
    /// Its pauses.
    pub fn every(&self) -> Backoff {
        Backoff {
            from: self.backoff_from,
            to: self.backoff_to,
        }
    }
}
