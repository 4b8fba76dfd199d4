//! What an answer proves, by status.
//!
//! What always holds: a table starts from the contract's; each layer (profile, upstream, effect)
//! changes only the statuses it names; within one layer a status has one meaning.
//!
//! What it does not do: look into bodies (CEL, a later version).

use crate::config::field::Field;
use crate::config::scalar::{self, STATUSES};
use crate::protocol::outcome::AnswerClass;
use crate::protocol::policy::AnswerTable;

const CLASSES: [(&str, AnswerClass); 4] = [
    ("applied", AnswerClass::Applied),
    ("refused", AnswerClass::Refused),
    ("not_applied", AnswerClass::NotProcessed),
    ("uncertain", AnswerClass::Ambiguous),
];

/// The table with one more layer.
pub(super) fn layer(base: &AnswerTable, field: Option<&Field<'_>>) -> AnswerTable {
    let mut table = base.clone();
    let Some(mut fields) = field.and_then(Field::map) else {
        return table;
    };
    let mut seen: Vec<(u16, &str)> = Vec::new();
    for (name, class) in CLASSES {
        let Some(field) = fields.take(name) else {
            continue;
        };
        for (status, place) in statuses(&field) {
            if let Some((_, other)) = seen.iter().find(|(known, _)| *known == status) {
                place.error(format!("{status} is listed under `{other}` already"));
            }
            seen.push((status, name));
            table.set(status, class);
        }
    }
    fields.finish();
    table
}

fn statuses<'a>(field: &Field<'a>) -> Vec<(u16, Field<'a>)> {
    let items = if field.is_list() || field.is_null() {
        field.list().unwrap_or_default()
    } else {
        vec![field.clone()]
    };
    let mut all = Vec::new();
    for item in items {
        if item
            .raw_text()
            .is_some_and(|text| text.contains("response."))
        {
            item.error("conditions in CEL are not supported by this version: list the statuses");
        } else if let Some(range) = item.read(STATUSES, scalar::statuses) {
            all.extend(range.map(|status| (status, item.clone())));
        }
    }
    all
}
