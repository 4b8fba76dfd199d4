//! What `operations` prints.

use super::*;
use crate::admin::views::EventView;
use crate::cli::arguments::Instance;

fn operation(state: &str) -> OperationView {
    OperationView {
        upstream: "bank".to_owned(),
        id: "pay:1".to_owned(),
        principal: None,
        incarnation: 0,
        origin: "caller".to_owned(),
        state: state.to_owned(),
        reason: None,
        resource: Some("account:1".to_owned()),
        token: Some("3:108".to_owned()),
        sequence: None,
        admission: Some(2),
        order: "strict".to_owned(),
        round: 0,
        key_first_used: None,
        key_lifetime_left_ms: None,
        key_lifetime_ms: Some(86_400_000),
        admitted: 1,
        resends: 0,
        attempts: vec![],
        outcome: None,
        request_kept: true,
        first_seen: "2026-11-29T18:00:00.000Z".to_owned(),
        changed: "2026-11-29T18:00:01.000Z".to_owned(),
        age_ms: 185_000,
    }
}

fn resolve(verdict: VerdictWord) -> OperationResolve {
    OperationResolve {
        name: OperationName {
            upstream: "bank".to_owned(),
            id: "pay/1".to_owned(),
            principal: None,
            incarnation: Some(2),
        },
        verdict,
        reason: "seen".to_owned(),
        admitted: Some(1),
        status: None,
        body: None,
        new_key: false,
        instance: Instance {
            admin: None,
            config: None,
            token: None,
            register: None,
            tenant: None,
        },
    }
}

#[test]
fn a_list_is_a_table_with_ages() {
    let mut done = operation("COMPLETED");
    done.resource = None;
    done.token = None;
    done.outcome = Some(OutcomeView {
        verdict: "applied".to_owned(),
        provenance: "answer".to_owned(),
        attempt: None,
        status: Some(201),
        body_kept: true,
        at: "2026-11-29T18:00:01.000Z".to_owned(),
    });
    let list = OperationList {
        operations: vec![operation("UNCERTAIN"), done],
        next: Some("7".to_owned()),
    };
    assert_eq!(
        listed(&list),
        "STATE      AGE  UPSTREAM  OPERATION  RESOURCE   TOKEN  SENT  OUTCOME\n\
         UNCERTAIN  3m   bank      pay:1      account:1  3:108  1     -\n\
         COMPLETED  3m   bank      pay:1      -          -      1     applied 201 (by answer)\n\
         more: --after 7\n"
    );
    let none = OperationList {
        operations: vec![],
        next: None,
    };
    assert_eq!(listed(&none), "no operations");
}

#[test]
fn one_operation_ends_with_what_to_do_next() {
    let mut parked = operation("NEEDS_ATTENTION");
    parked.id = "it's".to_owned();
    parked.reason = Some("the bytes to send again are not kept".to_owned());
    let detail = OperationDetail {
        operation: parked,
        events: vec![EventView {
            at: "2026-11-29T18:00:01.000Z".to_owned(),
            attempt: None,
            text: "needs a person\u{1b}[31m".to_owned(),
        }],
        request: None,
        answer: None,
    };
    let text = shown(&detail);
    assert!(
        text.contains("because             the bytes to send again"),
        "{text}"
    );
    assert!(
        text.contains("first seen          2026-11-29T18:00:00.000Z (3m ago)"),
        "{text}"
    );
    assert!(text.contains(r"needs a person\u{1b}[31m"), "{text}");
    assert!(
        text.contains(
            r"operations resolve bank 'it'\''s' --principal none --incarnation 0 --admitted 1 --verdict"
        ),
        "{text}"
    );
}

#[test]
fn a_verdict_is_sent_with_its_content_byte_for_byte() {
    let mut applied = resolve(VerdictWord::Applied);
    applied.body = Some(r#"{"a": 1.10}"#.to_owned());
    assert_eq!(
        asked(&applied).unwrap(),
        r#"{"verdict":"applied","reason":"seen","admitted":1,"body":{"a": 1.10}}"#
    );
    let path = applied.name.path(Some("resolve"), None);
    assert_eq!(path, "/operations/bank/pay%2F1/resolve?incarnation=2");
}

#[test]
fn content_may_come_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("answer.json");
    std::fs::write(&file, "{\"id\":\"ch_1\"}\n").unwrap();
    let content = content(&format!("@{}", file.display())).unwrap();
    assert_eq!(content.get(), r#"{"id":"ch_1"}"#);
}

#[test]
fn a_verdict_that_says_two_things_is_a_usage_error() {
    let mut new_key = resolve(VerdictWord::Applied);
    new_key.new_key = true;
    let mut status = resolve(VerdictWord::NotApplied);
    status.status = Some(200);
    let mut text = resolve(VerdictWord::Applied);
    text.body = Some("paid".to_owned());
    for bad in [new_key, status, text] {
        assert!(matches!(asked(&bad), Err(Failure::Usage(_))));
    }
}
