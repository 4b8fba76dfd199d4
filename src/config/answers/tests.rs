//! What answers prove under layers of lists and conditions.

use bytes::Bytes;

use super::*;

fn layer(listed: &[(u16, AnswerClass)], conditions: &[(AnswerClass, &str)]) -> AnswerLayer {
    let conditions = conditions.iter();
    AnswerLayer {
        listed: listed.to_vec(),
        conditions: conditions
            .map(|(class, text)| (*class, Condition::parse(text).unwrap()))
            .collect(),
    }
}

fn class(rules: &AnswerRules, status: u16, body: Option<&str>) -> AnswerClass {
    let json = (
        Bytes::from_static(b"content-type"),
        Bytes::from_static(b"application/json; charset=utf-8"),
    );
    let facts = AnswerFacts {
        status,
        fields: &[json],
        body: body.map(str::as_bytes),
    };
    rules.class(&facts, false)
}

use AnswerClass::{Ambiguous, Applied, NotProcessed, Refused};

#[test]
fn a_condition_says_all_of_its_class() {
    let rules = AnswerRules::contract().with(layer(
        &[],
        &[(
            Applied,
            "response.status == 200 && response.body.paid == true",
        )],
    ));
    assert_eq!(class(&rules, 200, Some(r#"{"paid":true}"#)), Applied);
    assert_eq!(class(&rules, 200, Some(r#"{"paid":false}"#)), Ambiguous);
    // The contract's own 201 is not applied any more: the condition does not hold for it.
    assert_eq!(class(&rules, 201, Some(r#"{"paid":true}"#)), Ambiguous);
    // Other classes are as they were.
    assert_eq!(class(&rules, 402, None), Refused);
    assert_eq!(class(&rules, 422, None), NotProcessed);
    assert_eq!(class(&rules, 500, None), Ambiguous);
}

#[test]
fn what_cannot_be_evaluated_is_never_applied() {
    let rules = AnswerRules::contract().with(layer(
        &[],
        &[(Applied, "response.status == 200 && !(response.body.failed)")],
    ));
    assert_eq!(class(&rules, 200, Some(r#"{"failed":false}"#)), Applied);
    for body in [
        None,
        Some(""),
        Some("<html>"),
        Some("{}"),
        Some("[]"),
        Some(r#"{"failed":"no"}"#),
        Some(r#"{"failed":null}"#),
        Some(r#"{"failed":false,"failed":true}"#),
        Some(r#"{"failed":false"#),
    ] {
        assert_eq!(class(&rules, 200, body), Ambiguous, "{body:?}");
    }
    // Content that does not say that it is JSON, or is coded, is not looked into.
    for (name, value) in [("content-type", "text/plain"), ("content-encoding", "gzip")] {
        let mut fields = vec![(Bytes::from_static(b"x"), Bytes::new())];
        if name == "content-encoding" {
            let json = Bytes::from_static(b"application/json");
            fields.push((Bytes::from_static(b"content-type"), json));
        }
        fields.push((
            Bytes::from_static(name.as_bytes()),
            Bytes::from_static(value.as_bytes()),
        ));
        let facts = AnswerFacts {
            status: 200,
            fields: &fields,
            body: Some(br#"{"failed":false}"#),
        };
        assert_eq!(rules.class(&facts, false), Ambiguous, "{name}");
    }
}

#[test]
fn two_classes_that_claim_one_answer_prove_nothing() {
    let rules = AnswerRules::contract().with(layer(
        &[(200, Applied)],
        &[(
            Refused,
            "response.status == 200 && has(response.body.error)",
        )],
    ));
    assert_eq!(class(&rules, 200, Some("{}")), Applied);
    assert_eq!(class(&rules, 200, Some(r#"{"error":1}"#)), Ambiguous);
    // Whether it is an error is not known, so it is not known that it was applied.
    assert_eq!(class(&rules, 200, None), Ambiguous);
    assert_eq!(class(&rules, 201, None), Applied, "of the layer below");
}

#[test]
fn a_later_layer_wins() {
    let profile = layer(
        &[],
        &[(Applied, "response.status == 200 && response.body.ok")],
    );
    let rules = AnswerRules::contract()
        .with(layer(&[(409, NotProcessed)], &[]))
        .with(profile)
        .with(layer(&[(200, Ambiguous), (409, Refused)], &[]));
    assert_eq!(class(&rules, 200, Some(r#"{"ok":true}"#)), Ambiguous);
    assert_eq!(class(&rules, 409, None), Refused);
    // A later condition of the same class is the only one that is asked.
    let rules = rules.with(layer(&[], &[(Applied, "response.status in [200, 201]")]));
    assert_eq!(class(&rules, 200, None), Applied);
    assert_eq!(class(&rules, 201, None), Applied);
    assert_eq!(class(&rules, 202, None), Ambiguous);
}

#[test]
fn a_failed_condition_of_the_request_is_one_under_conditions_too() {
    let facts = AnswerFacts {
        status: 412,
        fields: &[],
        body: None,
    };
    let plain = AnswerRules::contract().with(layer(&[], &[(Applied, "response.status == 200")]));
    assert_eq!(plain.class(&facts, true), AnswerClass::ConditionFailed);
    assert_eq!(plain.class(&facts, false), Ambiguous);
    let unknown = layer(&[], &[(Applied, "response.body.ok")]);
    let unknown = AnswerRules::contract().with(unknown);
    assert_eq!(unknown.class(&facts, true), Ambiguous);
}

#[test]
fn only_what_the_content_decides_keeps_others_waiting() {
    let rules = AnswerRules::contract().with(layer(
        &[],
        &[
            (Applied, "response.status == 200 && response.body.ok"),
            (Refused, "response.status == 402"),
        ],
    ));
    assert!(!rules.is_slow(200, 65_536));
    assert!(rules.is_slow(200, 65_537));
    assert!(!rules.is_slow(402, 1 << 20));
    let looped = "response.status == 200 && response.body.items.exists(i, i.ok)";
    let rules = rules.with(layer(&[], &[(Applied, looped)]));
    assert!(rules.is_slow(200, 4_097));
    assert!(!rules.is_slow(201, 1 << 20));
}

#[test]
fn fields_of_an_answer_are_read_once_or_not_at_all() {
    let rules = AnswerRules::contract().with(layer(
        &[],
        &[(
            Refused,
            "response.status == 400 && response.headers['X-Final'] == 'yes'",
        )],
    ));
    let class = |fields: &[(&'static str, &'static str)]| {
        let fields: Vec<(Bytes, Bytes)> = fields
            .iter()
            .map(|(name, value)| (Bytes::from(*name), Bytes::from(*value)))
            .collect();
        let facts = AnswerFacts {
            status: 400,
            fields: &fields,
            body: None,
        };
        rules.class(&facts, false)
    };
    assert_eq!(
        class(&[("x-final", "yes"), ("set-cookie", "a"), ("set-cookie", "b")]),
        Refused
    );
    assert_eq!(class(&[("x-final", "no")]), NotProcessed);
    assert_eq!(class(&[("x-final", "yes"), ("x-final", "no")]), Ambiguous);
    assert_eq!(class(&[]), Ambiguous);
}
