//! What answers to questions say: applied, not applied, or not known, and never one for another.

use super::*;
use crate::config::{Content, Query, Value};
use crate::expression::{FoundCondition, PathParams, Template};
use crate::protocol::command::Command;
use crate::protocol::decide::decide;
use crate::protocol::ids::InstanceId;
use crate::protocol::view::{Living, View};
use crate::store::conformance::commands;
use crate::wire::question::Bearing;

fn fields(all: &[(&'static str, &'static str)]) -> crate::protocol::outcome::Fields {
    let field = |(name, value): &(&'static str, &'static str)| {
        (
            Bytes::from_static(name.as_bytes()),
            Bytes::from_static(value.as_bytes()),
        )
    };
    all.iter().map(field).collect()
}

fn sent(method: &'static str, own: &[(&'static str, &'static str)], body: &'static str) -> Asked {
    let request = StoredRequest {
        method: Bytes::from_static(method.as_bytes()),
        target: Bytes::from_static(b"/objects/x?v=1"),
        fields: fields(own),
        body: Bytes::from_static(body.as_bytes()),
    };
    let admit = commands::admit("pay:o42/7", InstanceId(1));
    let nothing = View::of_nothing(0, Living::Only(InstanceId(1)));
    let decision = decide(&nothing, &Command::Admit(Box::new(admit)));
    Asked::about(
        &decision.changes.operation.unwrap(),
        Some((request, PathParams::default())),
        Some("the-key".to_owned()),
        None,
    )
}

fn answered(status: u16, own: &[(&'static str, &'static str)], body: &'static str) -> Answer {
    Answer {
        status,
        fields: fields(own),
        body: Some(Bytes::from_static(body.as_bytes())),
    }
}

const JSON: &[(&str, &str)] = &[("content-type", "application/json")];

fn condition(text: &str) -> FoundCondition {
    FoundCondition::parse(text).unwrap()
}

fn look_up() -> LookUp {
    LookUp {
        name: "look_up".to_owned(),
        query: query(),
        applied: Some(condition("response.status == 200 && response.body.n > 0")),
        not_applied: Some(condition(
            "response.status == 200 && response.body.n <= 0 || response.body.both",
        )),
        pages: Some(Pages {
            parameter: "after".to_owned(),
            next: Pick::of_found("response.body.next").unwrap(),
            most: 3,
        }),
        outcome: FoundOutcome {
            status: 201,
            body: Some(Pick::of_found("response.body.it").unwrap()),
        },
        answer_limit: 1024,
    }
}

fn query() -> Query {
    Query {
        target: Template::parse("/find?ref={operation.id}&k={operation.key}").unwrap(),
        content: None,
        fields: Vec::new(),
        credential: None,
    }
}

#[test]
fn three_answers_and_no_fourth() {
    let asked = sent("POST", &[], r#"{"a":1}"#);
    let said = |status, own, body| of_look_up(&look_up(), &asked, &answered(status, own, body));
    let applied = answered(201, JSON, r#"{"id": 7}"#);
    assert_eq!(
        said(200, JSON, r#"{"n":1,"both":false,"it":{"id": 7}}"#),
        Page::Last(Found::Applied(applied))
    );
    assert_eq!(
        said(200, JSON, r#"{"n":0,"both":false,"next":null}"#),
        Page::Last(Found::NotApplied)
    );
    assert_eq!(
        said(200, JSON, r#"{"n":0,"both":false,"next":"p2"}"#),
        Page::Next("p2".to_owned())
    );
    // Where there is nothing to take an answer from it was applied all the same.
    let Page::Last(Found::Applied(bare)) = said(200, JSON, r#"{"n":1,"both":false}"#) else {
        panic!("it was applied");
    };
    assert_eq!((bare.status, bare.body), (201, None));
    let not_known = |why| Page::Last(Found::NotKnown(why));
    for (status, own, body, why) in [
        (200, JSON, r#"{"n":1,"both":true}"#, NotKnown::Contradictory),
        (
            200,
            JSON,
            r#"{"n":"1","both":false}"#,
            NotKnown::ConditionFailed,
        ),
        (200, JSON, "{", NotKnown::ConditionFailed),
        (
            200,
            &[] as &[_],
            r#"{"n":0,"both":false}"#,
            NotKnown::Unreadable,
        ),
        (
            200,
            &[("content-type", "text/html")],
            "<html>",
            NotKnown::Unreadable,
        ),
        (404, JSON, r#"{"both":false}"#, NotKnown::Undecided(404)),
        (302, JSON, r#"{"n":0,"both":false}"#, NotKnown::Redirected),
        (
            401,
            JSON,
            r#"{"n":0,"both":false}"#,
            NotKnown::CredentialRefused,
        ),
        (
            403,
            JSON,
            r#"{"n":1,"both":false}"#,
            NotKnown::CredentialRefused,
        ),
        (
            200,
            JSON,
            r#"{"n":0,"both":false,"next":{}}"#,
            NotKnown::ConditionFailed,
        ),
    ] {
        assert_eq!(said(status, own, body), not_known(why), "{status} {body}");
    }
}

#[test]
fn a_signed_request_cannot_ask_again_with_its_signature() {
    let asked = sent(
        "POST",
        &[("authorization", "AWS4-HMAC-SHA256 Credential=…")],
        "",
    );
    let said = of_look_up(&look_up(), &asked, &answered(403, JSON, "{}"));
    assert_eq!(
        said,
        Page::Last(Found::NotKnown(NotKnown::SignatureExpired))
    );
}

#[test]
fn what_is_there_is_compared_with_what_was_sent() {
    let put = |own: &[(&'static str, &'static str)]| sent("PUT", own, r#"{"a":1,"b":2}"#);
    let fresh = put(&[("if-none-match", "*")]);
    let over = put(&[("if-match", "\"v1\"")]);
    let weak = put(&[("if-match", "W/\"v1\"")]);
    let undecided = |status| Found::NotKnown(NotKnown::Undecided(status));
    let is_applied = |found| matches!(found, Found::Applied(_));

    let same = answered(200, &[("etag", "\"v2\"")], r#"{ "b": 2, "a": 1 }"#);
    for asked in [&fresh, &over, &weak] {
        assert!(is_applied(of_comparison(asked, &same)));
    }
    let Found::Applied(told) = of_comparison(&fresh, &same) else {
        panic!("it is there");
    };
    assert_eq!(told.fields, fields(&[("etag", "\"v2\"")]));

    let before = answered(200, &[("etag", "\"v1\"")], "{}");
    assert_eq!(of_comparison(&over, &before), Found::NotApplied);
    // A weak validator says nothing of bytes; and what somebody else has put there says nothing of ours.
    assert_eq!(of_comparison(&weak, &before), undecided(200));
    assert_eq!(of_comparison(&fresh, &before), undecided(200));
    let others = answered(200, &[("etag", "\"v3\"")], "{}");
    assert_eq!(of_comparison(&over, &others), undecided(200));

    let empty = sent("PUT", &[("if-none-match", "*")], "");
    assert_eq!(
        of_comparison(&empty, &answered(200, &[], "")),
        undecided(200)
    );
    let gone = answered(404, &[], "");
    assert_eq!(of_comparison(&fresh, &gone), Found::NotApplied);
    assert_eq!(of_comparison(&over, &gone), undecided(404));
    let post = sent("POST", &[("if-none-match", "*")], r#"{"a":1,"b":2}"#);
    assert_eq!(of_comparison(&post, &same), undecided(200));
    assert_eq!(
        of_comparison(&fresh, &answered(500, &[], "")),
        undecided(500)
    );
}

#[test]
fn only_what_says_so_is_undone() {
    let undo = Undo {
        name: "void".to_owned(),
        query: query(),
        done: FoundCondition::parse("response.status == 200 && response.body.ok").unwrap(),
        answer_limit: 1024,
    };
    let asked = sent("POST", &[], "");
    let said = |status, body| of_undo(&undo, &asked, &answered(status, JSON, body));
    assert_eq!(said(200, r#"{"ok":true}"#), Ok(()));
    assert_eq!(said(200, r#"{"ok":false}"#), Err(NotKnown::Undecided(200)));
    assert_eq!(said(404, r#"{"ok":true}"#), Err(NotKnown::Undecided(404)));
    assert_eq!(said(200, "{}"), Err(NotKnown::ConditionFailed));
    assert_eq!(
        said(401, r#"{"ok":true}"#),
        Err(NotKnown::CredentialRefused)
    );
}

/// Who asks travels with a question; what was asked for does not.
#[test]
fn a_question_carries_nothing_of_the_effect() {
    let asked = sent(
        "POST",
        &[
            ("authorization", "Bearer mine"),
            ("stripe-account", "acct_1"),
            ("content-type", "application/json"),
            ("if-match", "\"v1\""),
            ("x-key", "the-key"),
            ("digest", "sha-256=…"),
            ("traceparent", "00-…"),
        ],
        r#"{"a":"b c"}"#,
    );
    let key = http::HeaderName::from_static("x-key");
    let question = asked.question(&query(), Bearing::Stored, Some(("page", "2 3")), Some(&key));
    let question = question.unwrap();
    assert_eq!(question.method, "GET");
    assert_eq!(
        question.target,
        "/find?ref=pay%3Ao42%2F7&k=the-key&page=2%203"
    );
    let who = fields(&[
        ("authorization", "Bearer mine"),
        ("stripe-account", "acct_1"),
    ]);
    assert_eq!(question.fields, who);
    assert!(question.body.is_empty());

    let text = |text| Value::Text(Template::parse(text).unwrap());
    let by_post = Query {
        content: Some(Content::Json(vec![
            ("x".to_owned(), text("say \"{body.a}\"")),
            (
                "y".to_owned(),
                Value::Object(vec![("z".to_owned(), text("{operation.id}"))]),
            ),
        ])),
        ..query()
    };
    let question = asked
        .question(&by_post, Bearing::Stored, None, Some(&key))
        .unwrap();
    assert_eq!(question.method, "POST");
    assert_eq!(
        question.body,
        r#"{"x":"say \"b c\"","y":{"z":"pay:o42/7"}}"#
    );
    assert!(question.fields.contains(&fields(JSON)[0]));

    let absent = Query {
        target: Template::parse("/find?ref={body.none}").unwrap(),
        ..query()
    };
    assert!(
        asked
            .question(&absent, Bearing::Stored, None, None)
            .is_err()
    );
}
