//! What a person says of an operation: once, by name, and only where it can hold.

use super::*;

#[tokio::test]
async fn a_person_settles_once_and_by_name() {
    let house = house(alice()).await;
    let key = house.left_behind("pay-1");
    let empty = json!({"verdict": "applied", "reason": "  "});
    let refusal = house.resolve("pay-1", empty).await.unwrap_err();
    assert_eq!(refusal, (400, "malformed-request".to_owned()));
    let verdict = json!({
        "verdict": "applied", "reason": "it is on the statement", "status": 201,
        "body": {"id": "ch_1"},
    });
    let done = house.resolve("pay-1", verdict.clone()).await.unwrap();
    assert_eq!(done["state"], "COMPLETED");
    assert_eq!(*house.settled.lock().unwrap(), [key]);
    let shown: OperationDetail = house.read("/operations/bank/pay-1?bodies=true").await;
    let outcome = shown.operation.outcome.unwrap();
    assert_eq!(
        (outcome.provenance.as_str(), outcome.status),
        ("operator", Some(201))
    );
    assert_eq!(
        shown.answer.unwrap().body.as_deref(),
        Some(r#"{"id":"ch_1"}"#)
    );
    let told: Vec<&str> = shown.events.iter().map(|it| it.text.as_str()).collect();
    let [.., resolved, read] = told[..] else {
        panic!("{told:?}");
    };
    assert!(
        resolved.contains("alice") && resolved.contains("it is on the statement"),
        "{resolved}"
    );
    // Who reads what customers sent is in the log too.
    assert_eq!(read, "stored bodies were read by alice");
    let refusal = house.resolve("pay-1", verdict).await.unwrap_err();
    assert_eq!(refusal, (409, "already-completed".to_owned()));
    let other_way = json!({"verdict": "not_applied", "reason": "hm"});
    let refusal = house.resolve("pay-1", other_way).await.unwrap_err();
    assert_eq!(refusal, (409, "already-completed".to_owned()));
    assert_eq!(house.settled.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn an_operator_who_hangs_up_cuts_no_resolution_in_half() {
    let house = house(alice()).await;
    let key = house.left_behind("pay-1");
    let register = house.stand_in.slow_down();
    let body = r#"{"verdict":"applied","reason":"seen"}"#;
    let request = format!(
        "POST /v1/operations/bank/pay-1/resolve HTTP/1.1\r\nHost: a\r\n\
         Authorization: Bearer alice's\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(house.api).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    register.reached.notified().await;
    // Hang up, and wait until the server has given up on this connection.
    stream.shutdown().await.unwrap();
    let mut answer = vec![];
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"");
    register.go.notify_one();
    let told = async {
        while house.settled.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), told)
        .await
        .unwrap();
    assert_eq!(*house.settled.lock().unwrap(), [key]);
    let shown: OperationDetail = house.read("/operations/bank/pay-1").await;
    assert_eq!(shown.operation.state, "COMPLETED");
}

#[tokio::test]
async fn what_an_answer_completed_is_not_resolved() {
    let house = house(alice()).await;
    let key = house.admitted("pay-1", Principal::None, KeyValue::Derived, INSTANCE);
    let answer = Answer {
        status: 200,
        fields: vec![],
        body: None,
    };
    house
        .stand_in
        .command(&Command::Record(crate::protocol::command::Record {
            key,
            attempt: AttemptId {
                instance: INSTANCE,
                number: 1,
            },
            evidence: Evidence::Answered {
                answer,
                class: AnswerClass::Applied,
            },
            open: false,
            at: house.clock.now(),
        }));
    let verdict = json!({"verdict": "not_applied", "reason": "I wish"});
    let refusal = house.resolve("pay-1", verdict).await.unwrap_err();
    assert_eq!(refusal, (409, "already-completed".to_owned()));
}

#[tokio::test]
async fn verdicts_that_cannot_hold_are_refused() {
    let house = house(alice()).await;
    let not_applied = json!({"verdict": "not_applied", "reason": "asked the bank"});
    let unknown = house
        .resolve("pay-0", not_applied.clone())
        .await
        .unwrap_err();
    assert_eq!(unknown, (404, "unknown-operation".to_owned()));
    house.admitted("under-way", Principal::None, KeyValue::Derived, INSTANCE);
    let refusal = house
        .resolve("under-way", not_applied.clone())
        .await
        .unwrap_err();
    assert_eq!(refusal, (409, "operation-in-flight".to_owned()));
    house.left_behind("pay-1");
    let done = house.resolve("pay-1", not_applied.clone()).await.unwrap();
    assert_eq!(done["state"], "NOT_APPLIED");
    let again = house.resolve("pay-1", not_applied).await.unwrap_err();
    assert_eq!(again, (409, "already-not-applied".to_owned()));
    house.admitted("callers", Principal::None, KeyValue::Caller, InstanceId(1));
    let new_key = json!({"verdict": "not_applied", "reason": "sure", "new_key": true});
    let refusal = house.resolve("callers", new_key).await.unwrap_err();
    assert_eq!(refusal, (409, "no-other-key".to_owned()));
}
