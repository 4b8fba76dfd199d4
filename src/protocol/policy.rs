//! What may be done for an effect: the route's and the profile's rules, as data.
//!
//! What always holds: a policy is fixed for an effect when its request is identified, and an intent
//! keeps its settle policy when the config changes.
//!
//! What it does not do: read a config file (`config`), or apply the rules (`decide`, `plan`).

use super::ids::EffectName;
use super::outcome::AnswerClass;
use super::steps::Steps;
use super::time::Millis;

/// What an upstream can do about duplicates. None of them: `opaque`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Capability {
    /// Orders by itself, if the request carries its condition.
    pub conditional: bool,
    /// Deduplicates by key.
    pub idempotent: bool,
    /// Can be asked.
    pub query: bool,
    /// Calls back.
    pub callback: bool,
}

impl Capability {
    /// Can do nothing: at most one *attempt*, and a person for the rest.
    pub fn is_opaque(self) -> bool {
        self == Self::default()
    }
}

/// How a missing or judged token is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenMode {
    /// A token is required.
    Require,
    /// Checked when present.
    Prefer,
    /// Judged, recorded and reported; nothing is refused for it.
    Observe,
}

/// What one generation may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PerGeneration {
    /// Any number of operations.
    Many,
    /// One operation: the first one admitted.
    One,
    /// Operations numbered by `Fencing-Sequence`.
    Numbered,
}

/// Which ownership an effect needs at admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ownership {
    /// No newer token has been presented.
    NotOlder,
    /// The lease is live.
    Current,
}

/// What a newcomer does while an older operation is unsettled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IfOlderUnsettled {
    /// Waits, at most that long.
    Wait(Millis),
    /// Is refused.
    Refuse,
    /// Goes ahead, if the request carries its condition to a conditional upstream; else waits, at
    /// most that long.
    Send(Millis),
}

/// Order within one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Ordered with every other operation of the generation.
    Strict,
    /// Effects commute, unless the other one is strict.
    Free,
}

/// What becomes of a twin: another id, same fingerprint, while the first is unsettled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IfTwin {
    /// Refused for good, naming the first.
    Refuse,
    /// Joins the first.
    Answer,
    /// Is an operation like any other.
    Send,
}

/// Rules of a fenced effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FencePolicy {
    /// How the token is treated.
    pub token: TokenMode,
    /// What one generation may do.
    pub per_generation: PerGeneration,
    /// Which ownership is needed.
    pub require: Ownership,
    /// What a newcomer does while an older operation is unsettled.
    pub if_older_unsettled: IfOlderUnsettled,
    /// What becomes of a twin.
    pub if_twin: IfTwin,
    /// Largest accepted jump above the mark, for tokens from elsewhere.
    pub max_step: Option<u64>,
}

/// Which key goes upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyValue {
    /// A pure function of identity and round.
    Derived,
    /// The caller's own key: no rounds, a stored refusal is final.
    Caller,
}

/// What is put where into a request on its way out, as one number: another one means other bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placing(pub u64);

/// Where requests go, as one number: another one means another place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Destination(pub u64);

/// How an effect went out, by the config that admitted it. What a config says later is about it only if its
/// requests would go out the same way: elsewhere, or by another text, nothing would be found of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Way {
    /// Its rules.
    pub effect: EffectName,
    /// Where it went.
    pub destination: Destination,
    /// What was put into it, a key or not.
    pub placing: Placing,
}

/// How an upstream remembers keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyPolicy {
    /// Which key goes upstream.
    pub value: KeyValue,
    /// How long the upstream remembers it; `None` if unpublished: then never resent unattended.
    pub lifetime: Option<Millis>,
    /// Does the upstream answer a repeat of a refused request with the same refusal? Only then is a
    /// refusal of a repeat definitive.
    pub remembers_refusals: bool,
    /// How the key, and whatever else, is put into the request; `None` in records that are older.
    pub placing: Option<Placing>,
}

/// How an uncertain operation is settled; kept with the intent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SettlePolicy {
    /// What the upstream can do.
    pub capability: Capability,
    /// How it remembers keys; `None` where it honours none.
    pub key: Option<KeyPolicy>,
    /// The steps, in order; a person comes after the last.
    pub steps: Steps,
    /// How it went out; `None` in records that are older, and where no config was.
    pub way: Option<Way>,
}

/// Time limits of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timeouts {
    /// From admission to the first byte, at most.
    pub dispatch: Millis,
    /// To connect.
    pub connect: Millis,
    /// From the first byte to the end of the answer.
    pub response: Millis,
}

/// Slack after all limits before a silent attempt of a living instance counts as overdue.
pub const GRACE: Millis = Millis(5_000);

/// How long an attempt listens for a late answer at most, where no settle step closes it before.
pub const LISTEN: Millis = Millis(600_000);

impl Timeouts {
    /// INTENDED is overdue after this.
    pub fn overdue_after(&self) -> Millis {
        self.dispatch
            .plus(self.connect)
            .plus(self.response)
            .plus(GRACE)
    }
}

/// Everything that admission and recording need to know about an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Rules under a fence.
    pub fence: Option<FencePolicy>,
    /// Order within a generation; without a fence, says whether effects commute.
    pub order: Order,
    /// How it is settled.
    pub settle: SettlePolicy,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Keep the request until settled? `false`: only looked up, never sent again.
    pub keep_request: bool,
}

/// What each status proves. 1xx never reaches a table; statuses outside 200–599 are ambiguous.
#[derive(Clone, PartialEq, Eq)]
pub struct AnswerTable {
    classes: [AnswerClass; 400],
}

impl AnswerTable {
    /// The contract's table: 200–299 applied; 402 refused; 400, 401, 403–407, 410, 411, 413–417, 421,
    /// 422, 426, 428, 429, 431 not processed; the rest proves nothing.
    pub fn contract() -> Self {
        let mut table = Self::ambiguous();
        for status in 200..=299 {
            table.set(status, AnswerClass::Applied);
        }
        table.set(402, AnswerClass::Refused);
        let not_processed = [400, 401, 410, 411, 421, 422, 426, 428, 429, 431];
        for status in not_processed.into_iter().chain(403..=407).chain(413..=417) {
            table.set(status, AnswerClass::NotProcessed);
        }
        table
    }

    /// Nothing proves anything.
    pub fn ambiguous() -> Self {
        Self {
            classes: [AnswerClass::Ambiguous; 400],
        }
    }

    /// Sets one status; ignored outside 200–599.
    pub fn set(&mut self, status: u16, class: AnswerClass) {
        if let Some(slot) = slot(status).and_then(|index| self.classes.get_mut(index)) {
            *slot = class;
        }
    }

    /// What the status proves of a request; `conditional`: it carried its condition to an upstream
    /// that checks it.
    pub fn class(&self, status: u16, conditional: bool) -> AnswerClass {
        let class = slot(status)
            .and_then(|index| self.classes.get(index))
            .copied()
            .unwrap_or(AnswerClass::Ambiguous);
        if class == AnswerClass::Ambiguous && status == 412 && conditional {
            return AnswerClass::ConditionFailed;
        }
        class
    }
}

impl std::fmt::Debug for AnswerTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnswerTable")
    }
}

fn slot(status: u16) -> Option<usize> {
    status.checked_sub(200).map(usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contracts_table_of_answers() {
        let table = AnswerTable::contract();
        for status in 0..=u16::MAX {
            let expected = match status {
                200..=299 => AnswerClass::Applied,
                402 => AnswerClass::Refused,
                400
                | 401
                | 403..=407
                | 410
                | 411
                | 413..=417
                | 421
                | 422
                | 426
                | 428
                | 429
                | 431 => AnswerClass::NotProcessed,
                _ => AnswerClass::Ambiguous,
            };
            assert_eq!(table.class(status, false), expected, "{status}");
        }
        assert_eq!(table.class(412, true), AnswerClass::ConditionFailed);
    }
}
