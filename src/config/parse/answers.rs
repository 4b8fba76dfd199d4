//! What an answer proves: lists of statuses, and conditions.
//!
//! What always holds: within one layer a status has one meaning, as far as lists and conditions on
//! the status alone can be compared beforehand.
//!
//! What it does not do: apply the rules (`config::answers`).

use crate::config::answers::{AnswerLayer, AnswerRules};
use crate::config::field::Field;
use crate::config::scalar::{self, STATUSES};
use crate::expression::Condition;
use crate::protocol::outcome::AnswerClass;

const CLASSES: [(&str, AnswerClass); 4] = [
    ("applied", AnswerClass::Applied),
    ("refused", AnswerClass::Refused),
    ("not_applied", AnswerClass::NotProcessed),
    ("uncertain", AnswerClass::Ambiguous),
];

/// The rules with one more layer.
pub(super) fn layer(base: &AnswerRules, field: Option<&Field<'_>>) -> AnswerRules {
    let Some((own, mut fields)) = field.and_then(|field| Some((field, field.map()?))) else {
        return base.clone();
    };
    let mut layer = AnswerLayer::default();
    let mut seen: Vec<(u16, &str)> = Vec::new();
    for (name, class) in CLASSES {
        let Some(field) = fields.take(name) else {
            continue;
        };
        if let Some(condition) = is_condition(&field).then(|| condition(&field)) {
            layer
                .conditions
                .extend(condition.map(|condition| (class, condition)));
            continue;
        }
        for (status, place) in statuses(&field) {
            if let Some((_, other)) = seen.iter().find(|(known, _)| *known == status) {
                place.error(format!("{status} is listed under `{other}` already"));
            }
            seen.push((status, name));
            layer.listed.push((status, class));
        }
    }
    fields.finish();
    if !layer.conditions.is_empty()
        && let Some((status, one, other)) = layer.overlap()
    {
        let (one, other) = (word(one), word(other));
        own.error(format!("{status} is both `{one}` and `{other}`"));
    }
    base.with(layer)
}

fn word(class: AnswerClass) -> &'static str {
    let word = CLASSES.iter().find(|(_, known)| *known == class);
    word.map_or("uncertain", |(word, _)| word)
}

/// A text that is no status and no range of them.
fn is_condition(field: &Field<'_>) -> bool {
    let is_single = !field.is_list() && !field.is_map() && !field.is_null();
    is_single && field.raw_text().is_some_and(is_written_as_condition)
}

fn is_written_as_condition(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_punctuation() && c != '-' || c.is_whitespace())
}

fn condition(field: &Field<'_>) -> Option<Condition> {
    match Condition::parse(field.text()?) {
        Ok(condition) => {
            if condition.is_never() {
                field.error("holds for no status from 200 to 599");
            }
            Some(condition)
        }
        Err(error) => {
            field.error_within(error.offset, error.message);
            None
        }
    }
}

fn statuses<'a>(field: &Field<'a>) -> Vec<(u16, Field<'a>)> {
    let items = if field.is_list() || field.is_null() {
        field.list().unwrap_or_default()
    } else {
        vec![field.clone()]
    };
    let mut all = Vec::new();
    for item in items {
        if field.is_list() && item.raw_text().is_some_and(is_written_as_condition) {
            item.error("a condition stands alone, not in a list of statuses");
        } else if let Some(range) = item.read(STATUSES, scalar::statuses) {
            all.extend(range.map(|status| (status, item.clone())));
        }
    }
    all
}
