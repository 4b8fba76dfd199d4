//! What must hold of a run, read from the upstream's own ledger, the register and what callers were told.
//!
//! What always holds: the ledger decides. Whatever is wrong is said in words, all of it; nothing here trusts the
//! proxy, and the last tests of this room show that each rule is looked at.

use std::collections::HashMap;
use std::time::Instant;

use serde_json::Value;

use super::rows::{By, Row};
use crate::support::call::Answer;
use crate::support::http::Head;
use crate::support::script::json_answer;
use crate::support::upstream::Effect;

/// A field for the test's own eyes: which operation a request is of.
pub(super) const OPERATION: &str = "X-Test-Operation";

/// An operation that callers asked for.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    /// The caller's key, which is its id in the register.
    pub(super) key: String,
    /// Under a fence.
    pub(super) token: Option<u64>,
}

/// All that is to be judged.
#[derive(Default)]
pub(super) struct Evidence {
    pub(super) operations: Vec<Operation>,
    pub(super) effects: Vec<Effect>,
    pub(super) heads: Vec<Head>,
    /// Requests that arrived whole, and what they were answered.
    pub(super) served: Vec<(Head, Vec<u8>)>,
    /// By key: when it was undone last.
    pub(super) undone: HashMap<String, Instant>,
    /// What the register holds.
    pub(super) records: Vec<Value>,
    /// By key, in the order in which callers were told.
    pub(super) told: Vec<(String, Answer)>,
    /// Evidence against recorded outcomes.
    pub(super) contradictions: bool,
}

/// Everything that is wrong, in words.
pub(super) fn faults(row: &Row, evidence: &Evidence) -> Vec<String> {
    let mut faults = Vec::new();
    for operation in &evidence.operations {
        let of = Of {
            row,
            evidence,
            operation,
        };
        let rules = [of.once(), of.attempts(), of.record(), of.told()];
        let found = rules.into_iter().flatten();
        faults.extend(found.map(|fault| format!("{}: {fault}", operation.key)));
    }
    faults.extend(order(evidence));
    if evidence.contradictions {
        faults.push("the proxy met evidence against what it had recorded".to_owned());
    }
    faults
}

/// Has it come to its end, as far as it can without a person?
pub(super) fn is_at_its_end(record: &Value) -> bool {
    let state = record["state"].as_str().unwrap_or_default();
    matches!(state, "COMPLETED" | "NOT_APPLIED" | "NEEDS_ATTENTION")
}

/// One operation.
struct Of<'a> {
    row: &'a Row,
    evidence: &'a Evidence,
    operation: &'a Operation,
}

impl Of<'_> {
    fn is_of(&self, head: &Head) -> bool {
        head.fields.first(OPERATION) == Some(&self.operation.key)
    }

    fn effects(&self) -> Vec<&Effect> {
        let all = self.evidence.effects.iter();
        all.filter(|it| self.is_of(&it.head)).collect()
    }

    fn once(&self) -> Option<String> {
        let count = self.effects().len();
        (count > 1).then(|| format!("{count} effects"))
    }

    /// Of an upstream that cannot deduplicate: one, but for those that it said it made nothing of.
    fn attempts(&self) -> Option<String> {
        let (status, body) = self.row.shapes.unprocessed;
        let unprocessed = json_answer(status, body);
        let heads = self.evidence.heads.iter().filter(|it| self.is_of(it));
        let freed = self.evidence.served.iter();
        let freed = freed.filter(|(head, answer)| self.is_of(head) && *answer == unprocessed);
        let (heads, freed) = (heads.count(), freed.count());
        let too_many = self.row.dedupes == By::Nothing && heads > 1 + freed;
        too_many.then(|| format!("{heads} attempts, after {freed} that were said not to count"))
    }

    /// Does what is recorded agree with what happened?
    fn record(&self) -> Option<String> {
        let effects = self.effects();
        let found = self.evidence.records.iter();
        let record = found.clone().find(|it| it["id"] == self.operation.key);
        let Some(record) = record else {
            return (!effects.is_empty()).then(|| "happened, and is not on record".to_owned());
        };
        let outcome = &record["outcome"];
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (state, verdict) = (word(&record["state"]), word(&outcome["verdict"]));
        match (state.as_str(), verdict.as_str()) {
            ("COMPLETED", "applied") => effects
                .is_empty()
                .then(|| "is on record as applied, and never happened".to_owned()),
            ("COMPLETED", "refused") if outcome["provenance"] == "void" => {
                let undone = self.evidence.undone.get(&self.operation.key);
                let last = effects.iter().map(|it| it.at).max();
                let in_force = undone.is_none() || last.is_some_and(|at| Some(&at) > undone);
                in_force.then(|| "is on record as undone, and is in force".to_owned())
            }
            ("COMPLETED", "refused") => (!effects.is_empty())
                .then(|| "is on record as refused, and happened all the same".to_owned()),
            ("NOT_APPLIED", _) => (!effects.is_empty())
                .then(|| "is on record as not applied, and happened all the same".to_owned()),
            ("NEEDS_ATTENTION", _) => None,
            _ => Some(format!("is {state} when its time is up")),
        }
    }

    /// A caller is told of his own effect, and always the same.
    fn told(&self) -> Option<String> {
        let own = self.evidence.told.iter();
        let own = own.filter(|(key, answer)| *key == self.operation.key && is_applied(answer));
        let answers: Vec<_> = own.map(|(_, answer)| answer).collect();
        if !answers.is_empty() && self.effects().is_empty() {
            return Some("a caller was told that it was applied".to_owned());
        }
        for answer in &answers {
            let number = number_in(answer);
            let meant = number.and_then(|number| self.evidence.effects.get(number - 1));
            if meant.is_some_and(|effect| !self.is_of(&effect.head)) {
                return Some(format!("a caller got another's answer: {}", answer.text()));
            }
        }
        let same = answers
            .windows(2)
            .all(|two| (two[0].status, &two[0].body) == (two[1].status, &two[1].body));
        (!same).then(|| "callers were told different things".to_owned())
    }
}

/// No older effect of a resource after a newer one.
fn order(evidence: &Evidence) -> Vec<String> {
    let token_of = |effect: &Effect| {
        let all = &mut evidence.operations.iter();
        let key = effect.head.fields.first(OPERATION);
        all.find(|it| Some(it.key.as_str()) == key)?.token
    };
    let tokens: Vec<_> = evidence.effects.iter().filter_map(token_of).collect();
    let falls = tokens.windows(2).filter(|two| two[0] > two[1]);
    falls
        .map(|two| format!("an effect under {} after one under {}", two[1], two[0]))
        .collect()
}

/// Is it the upstream's word, or what was found out, that it was applied?
fn is_applied(answer: &Answer) -> bool {
    let is_told = answer.problem().is_none() && answer.field("fencepost-state").is_none();
    is_told && (200..300).contains(&answer.status) && !answer.text().contains("userErrors\":[{")
}

/// Which effect an answer names.
fn number_in(answer: &Answer) -> Option<usize> {
    let text = format!("{}{}", answer.head.text, answer.text());
    let (_, rest) = text.split_once("effect-")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|number| *number > 0)
}
