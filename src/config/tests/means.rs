//! `means`, as it is read.

use super::{effect, good, protect_of};
use crate::config::{Means, Selected};
use crate::expression::{JsonPointer, Member};

fn means(lines: &str) -> Means {
    protect_of(&good(&effect(lines))).means.clone()
}

#[test]
fn the_whole_request_counts_unless_the_rule_says_otherwise() {
    assert_eq!(means(""), Means::Whole);
    assert_eq!(means("        means: whole\n"), Means::Whole);
    assert_eq!(means("        means: raw\n"), Means::Raw);
    let listed = means(
        "        means: [ { json: /a/b }, { header: X-Mode, optional: true }, { path: id } ]\n",
    );
    let selected = |member, optional| Selected { member, optional };
    let expected = vec![
        selected(Member::Json(JsonPointer::parse("/a/b").unwrap()), false),
        selected(Member::Header("x-mode".try_into().unwrap()), true),
        selected(Member::Path("id".to_owned()), false),
    ];
    assert_eq!(listed, Means::Listed(expected));
}
