//! What an answer proves, by the rules of the contract, a profile, an upstream and an effect.
//!
//! What always holds: a later layer wins over an earlier one. A *list* of statuses changes the
//! statuses that it names; a *condition* says all of its class: what earlier layers put into that
//! class proves nothing unless the condition holds. An answer that two classes of one layer claim
//! proves nothing, and neither does one on which a condition cannot be evaluated: never applied by
//! accident.
//!
//! What it does not do: look at anything but the one answer.

use crate::expression::{AnswerFacts, Condition, Truth};
use crate::protocol::outcome::AnswerClass;
use crate::protocol::policy::AnswerTable;

/// The classes that a layer may speak of.
const CLASSES: [AnswerClass; 4] = [
    AnswerClass::Applied,
    AnswerClass::Refused,
    AnswerClass::NotProcessed,
    AnswerClass::Ambiguous,
];

/// The rules for the answers of one effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerRules {
    /// Without any condition, all there is.
    table: AnswerTable,
    /// The last one wins; empty if there is no condition in any.
    layers: Vec<AnswerLayer>,
}

/// What one layer says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AnswerLayer {
    pub(super) listed: Vec<(u16, AnswerClass)>,
    pub(super) conditions: Vec<(AnswerClass, Condition)>,
}

/// What the layers came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Class(AnswerClass),
    NotKnown,
}

impl AnswerRules {
    /// The contract's table.
    pub fn contract() -> Self {
        Self {
            table: AnswerTable::contract(),
            layers: Vec::new(),
        }
    }

    /// With one more layer.
    pub(super) fn with(&self, layer: AnswerLayer) -> Self {
        let mut rules = self.clone();
        if rules.layers.is_empty() && layer.conditions.is_empty() {
            for (status, class) in layer.listed {
                rules.table.set(status, class);
            }
        } else {
            rules.layers.push(layer);
        }
        rules
    }

    /// What the answer proves of a request; `conditional`: it carried its condition to an upstream
    /// that checks it.
    pub fn class(&self, facts: &AnswerFacts<'_>, conditional: bool) -> AnswerClass {
        if self.layers.is_empty() {
            return self.table.class(facts.status, conditional);
        }
        match self.said(facts) {
            // What a failed condition of the request's own means, the table knows.
            Said::Class(AnswerClass::Ambiguous) => {
                AnswerTable::ambiguous().class(facts.status, conditional)
            }
            Said::Class(class) => class,
            Said::NotKnown => AnswerClass::Ambiguous,
        }
    }

    /// Does judging an answer of this size take long enough to keep others waiting?
    pub fn is_slow(&self, status: u16, body: usize) -> bool {
        let conditions = self.layers.iter().flat_map(|layer| &layer.conditions);
        conditions
            .into_iter()
            .any(|(_, condition)| condition.is_slow(status, body))
    }

    fn said(&self, facts: &AnswerFacts<'_>) -> Said {
        let mut spoken_for: Vec<AnswerClass> = Vec::new();
        let or_nothing = |class: AnswerClass, spoken_for: &[AnswerClass]| {
            let void = spoken_for.contains(&class);
            Said::Class(if void { AnswerClass::Ambiguous } else { class })
        };
        for layer in self.layers.iter().rev() {
            match layer.claims(facts, &spoken_for) {
                None => return Said::NotKnown,
                Some(claims) => match claims.as_slice() {
                    [] => {}
                    [class] => return or_nothing(*class, &spoken_for),
                    _ => return Said::NotKnown,
                },
            }
            spoken_for.extend(layer.conditions.iter().map(|(class, _)| *class));
        }
        or_nothing(self.table.class(facts.status, false), &spoken_for)
    }
}

impl AnswerLayer {
    /// The classes that claim the answer; `None` if that is not known. Conditions whose class a later
    /// layer speaks for are not asked.
    fn claims(
        &self,
        facts: &AnswerFacts<'_>,
        spoken_for: &[AnswerClass],
    ) -> Option<Vec<AnswerClass>> {
        let mut claims = Vec::new();
        let listed = self
            .listed
            .iter()
            .find(|(status, _)| *status == facts.status);
        claims.extend(listed.map(|(_, class)| *class));
        for (class, condition) in &self.conditions {
            if spoken_for.contains(class) {
                continue;
            }
            match condition.test(facts) {
                Truth::Yes if claims.contains(class) => {}
                Truth::Yes => claims.push(*class),
                Truth::No => {}
                Truth::NotKnown => return None,
            }
        }
        Some(claims)
    }

    /// The first status that two classes claim, whatever else the answer holds; for `check`.
    pub(super) fn overlap(&self) -> Option<(u16, AnswerClass, AnswerClass)> {
        (200..=599).find_map(|status| {
            let of_status = |class: &AnswerClass| {
                let listed = self.listed.contains(&(status, *class));
                let mut conditions = self.conditions.iter().filter(|(of, _)| of == class);
                listed || conditions.any(|(_, condition)| condition.holds_for_all(status))
            };
            let mut claiming = CLASSES.into_iter().filter(of_status);
            Some((status, claiming.next()?, claiming.next()?))
        })
    }
}

#[cfg(test)]
mod tests;
