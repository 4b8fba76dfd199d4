//! What answers to questions say: applied, not applied, or not known, and never one for another.

use super::*;
use crate::config::{
    Content, IfPresent, Insert, Query, ReferencePart, ReferenceRule, Signed, Slot, Value,
};
use crate::expression::{FoundCondition, JsonPointer, PathParams, Template};
use crate::protocol::command::Command;
use crate::protocol::decide::decide;
use crate::protocol::ids::InstanceId;
use crate::protocol::view::{Living, View};
use crate::store::conformance::commands;
use crate::wire::insertion::{self, Named};
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

/// A question that never says "not applied" looks through all pages for what was applied.
#[test]
fn what_is_not_on_one_page_may_be_on_the_next() {
    let asked = sent("POST", &[], r#"{"a":1}"#);
    let look_up = LookUp {
        not_applied: None,
        ..look_up()
    };
    let said = |status, body| of_look_up(&look_up, &asked, &answered(status, JSON, body));
    let next = Page::Next("p2".to_owned());
    assert_eq!(said(200, r#"{"n":0,"next":"p2"}"#), next);
    let undecided = |status| Page::Last(Found::NotKnown(NotKnown::Undecided(status)));
    assert_eq!(said(200, r#"{"n":0}"#), undecided(200));
    assert_eq!(said(500, r#"{"next":{}}"#), undecided(500));
    assert!(matches!(
        said(200, r#"{"n":1,"next":"p2"}"#),
        Page::Last(Found::Applied(_))
    ));
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

    // Where what is there never goes back.
    let compared = |asked: &Asked, answer: &Answer| of_comparison(asked, answer, true);

    let same = answered(200, &[("etag", "\"v2\"")], r#"{ "b": 2, "a": 1 }"#);
    for asked in [&fresh, &over, &weak] {
        assert!(is_applied(compared(asked, &same)));
    }
    let Found::Applied(told) = compared(&fresh, &same) else {
        panic!("it is there");
    };
    assert_eq!(told.fields, fields(&[("etag", "\"v2\"")]));

    let before = answered(200, &[("etag", "\"v1\"")], "{}");
    assert_eq!(compared(&over, &before), Found::NotApplied);
    // A weak validator says nothing of bytes; and what somebody else has put there says nothing of ours.
    assert_eq!(compared(&weak, &before), undecided(200));
    assert_eq!(compared(&fresh, &before), undecided(200));
    let others = answered(200, &[("etag", "\"v3\"")], "{}");
    assert_eq!(compared(&over, &others), undecided(200));

    let empty = sent("PUT", &[("if-none-match", "*")], "");
    assert_eq!(compared(&empty, &answered(200, &[], "")), undecided(200));
    let gone = answered(404, &[], "");
    assert_eq!(compared(&fresh, &gone), Found::NotApplied);
    assert_eq!(compared(&over, &gone), undecided(404));
    let post = sent("POST", &[("if-none-match", "*")], r#"{"a":1,"b":2}"#);
    assert_eq!(compared(&post, &same), undecided(200));
    assert_eq!(compared(&fresh, &answered(500, &[], "")), undecided(500));
    // Elsewhere it may have been made, used and removed, or put back, and only what was sent proves anything.
    for (asked, there, status) in [(&over, &before, 200), (&fresh, &gone, 404)] {
        assert_eq!(of_comparison(asked, there, false), undecided(status));
    }
    assert!(is_applied(of_comparison(&fresh, &same, false)));
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

/// A reference that the request does not carry is not looked for: that nothing is found by it proves nothing.
#[test]
fn what_did_not_go_along_is_not_looked_for() {
    let admit = commands::admit("pay:o42/7", InstanceId(1));
    let nothing = View::of_nothing(0, Living::Only(InstanceId(1)));
    let decision = decide(&nothing, &Command::Admit(Box::new(admit)));
    let operation = decision.changes.operation.unwrap();
    let asked = |body: Option<&'static str>, signed: Signed| {
        let insert = Insert {
            references: vec![ReferenceRule {
                slot: Slot::Json(JsonPointer::parse("/custom_id").unwrap()),
                value: vec![ReferencePart::Digest],
                longest: None,
                if_present: IfPresent::Keep,
            }],
            signed,
            ..Insert::of_key(None)
        };
        let request = body.map(|body| StoredRequest {
            method: Bytes::from_static(b"POST"),
            target: Bytes::from_static(b"/orders"),
            fields: fields(&[
                ("content-type", "application/json"),
                ("signature", "sig=:x:"),
            ]),
            body: Bytes::from_static(body.as_bytes()),
        });
        let named = Named {
            key: &operation.key,
            origin: operation.origin,
            round: operation.key_use.round,
        };
        let reference = insertion::carried_reference(&insert, request.as_ref(), named);
        let request = request.map(|request| (request, PathParams::default()));
        let asked = Asked::about(&operation, request, None, reference);
        let query = Query {
            target: Template::parse("/orders?ref={operation.reference}").unwrap(),
            ..query()
        };
        asked.question(&query, Bearing::Stored, None, None).is_ok()
    };
    let unsigned = Signed::Always;
    assert!(asked(Some("{}"), unsigned));
    assert!(!asked(Some(r#"{"custom_id":"o42"}"#), unsigned));
    assert!(!asked(None, unsigned));
    assert!(!asked(Some("{}"), Signed::LeftAlone));
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
