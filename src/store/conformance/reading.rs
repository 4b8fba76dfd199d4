//! What readers see: peeks, pages, counts, event logs.

use std::sync::Arc;

use super::Subject;
use super::commands::{
    self as c, admit, applied, fenced, interrupted, key, meaning, resource_key, unsent,
};
use super::scenarios::{granted, own, record};
use crate::protocol::command::{Admit, Resolution, Steer, Steering};
use crate::protocol::ids::{Incarnation, OperationKey};
use crate::protocol::policy::Order;
use crate::protocol::view::Record;
use crate::store::{OperationQuery, Pressing};

pub(super) async fn a_peek_sees_what_was_committed(subject: Subject) {
    let instance = own(&subject);
    let peek = |id: &'static str| {
        let (read, resource) = (subject.read(), resource_key("r"));
        async move { read.peek(&key(id), Some(&resource)).await.unwrap() }
    };
    assert_eq!(peek("a").await, None);
    let first = fenced("a", "r", "1", instance);
    let permit = granted(&subject, &first).await;
    let Some(Record::Operation(operation)) = peek("a").await else {
        panic!("not found");
    };
    assert_eq!(operation.state.word(), "INTENDED");
    let twin = fenced("twin", "r", "1", instance);
    subject.register().admit(twin.clone()).await.unwrap();
    let Some(Record::Twin(note)) = peek("twin").await else {
        panic!("no note");
    };
    assert_eq!((note.key, note.first), (twin.key, first.key.clone()));
    record(&subject, permit, applied()).await;
    let found = subject.read().peek(&first.key, None).await.unwrap();
    let Some(Record::Operation(operation)) = found else {
        panic!("not found");
    };
    assert_eq!(operation.state.word(), "COMPLETED");
}

pub(super) async fn stored_requests_go_when_settled(subject: Subject) {
    let kept = |id: &'static str| {
        let read = subject.read();
        async move {
            let found = read.operation(&key(id), true).await.unwrap().unwrap();
            assert_eq!(found.operation.request_kept, found.request.is_some());
            found.request
        }
    };
    let permit = granted(&subject, &admit("a", own(&subject))).await;
    assert!(kept("a").await == Some(c::request("a")));
    let not_asked = subject.read().operation(&key("a"), false).await.unwrap();
    assert!(not_asked.unwrap().request.is_none());
    record(&subject, permit, interrupted()).await;
    assert!(kept("a").await.is_some());
    let verdict = c::resolve(&key("a"), Resolution::NotApplied { new_key: true });
    subject.register().resolve(verdict).await.unwrap();
    assert!(kept("a").await.is_none());
    let permit = granted(&subject, &admit("a", own(&subject))).await;
    assert!(kept("a").await.is_some());
    record(&subject, permit, applied()).await;
    assert!(kept("a").await.is_none());
}

pub(super) async fn operations_are_listed_newest_first_in_pages(subject: Subject) {
    for number in 0..7 {
        drop(granted(&subject, &admit(&format!("op-{number}"), own(&subject))).await);
    }
    let mut query = OperationQuery {
        limit: 3,
        ..OperationQuery::default()
    };
    let mut pages = Vec::new();
    loop {
        let page = subject.read().operations(&query).await.unwrap();
        let ids = page
            .operations
            .iter()
            .map(|operation| id_of(operation).to_owned());
        pages.push(ids.collect::<Vec<_>>());
        match page.next {
            Some(next) => query.before = Some(next),
            None => break,
        }
    }
    assert_eq!(
        pages,
        [
            vec!["op-6", "op-5", "op-4"],
            vec!["op-3", "op-2", "op-1"],
            vec!["op-0"]
        ]
    );
    query = OperationQuery {
        limit: 7,
        ..OperationQuery::default()
    };
    let all = subject.read().operations(&query).await.unwrap();
    assert_eq!((all.operations.len(), all.next), (7, None));
}

pub(super) async fn an_operation_is_found_in_every_incarnation(subject: Subject) {
    let instance = own(&subject);
    let (register, resource) = (subject.register(), resource_key("r"));
    let admit_a = |token: &str| Admit {
        follows_incarnation: true,
        ..fenced("a", "r", token, instance)
    };
    let steer = |how| Steer {
        resource: resource.clone(),
        how,
        operator: "alice".to_owned(),
        reason: "wrong amount".to_owned(),
        at: c::at(2_000),
    };
    for incarnation in 0..3 {
        let token = (incarnation + 1).to_string();
        let permit = granted(&subject, &admit_a(&token)).await;
        assert_eq!(permit.grant().key.incarnation, Incarnation(incarnation));
        record(&subject, permit, applied()).await;
        for how in [Steering::Cancel, Steering::Reopen] {
            register.steer(steer(how)).await.unwrap();
        }
    }
    // Others, and one of the same id elsewhere.
    let mut elsewhere = admit_a("9");
    elsewhere.key.upstream = crate::protocol::ids::UpstreamId::new("bank");
    let elsewhere = granted(&subject, &elsewhere).await;
    drop(granted(&subject, &admit("b", instance)).await);
    let found = async |key: OperationKey| {
        let found = subject.read().incarnations(&key).await.unwrap();
        let mut found: Vec<_> = found.into_iter().map(|it| it.key).collect();
        found.sort_by_key(|key| key.incarnation.0);
        found
    };
    let all = |most: u64| (0..most).map(|n| key("a").within(Incarnation(n)));
    assert_eq!(found(key("a")).await, all(3).collect::<Vec<_>>());
    let last = key("a").within(Incarnation(2));
    assert_eq!(found(last).await, all(3).collect::<Vec<_>>());
    assert_eq!(found(key("b")).await, [key("b")]);
    assert_eq!(found(key("c")).await, []);
    let only = elsewhere.grant().key.clone();
    assert_eq!(found(only.clone()).await, [only]);
}

pub(super) async fn operations_are_found_by_what_they_are(subject: Subject) {
    let instance = own(&subject);
    let permit = granted(&subject, &fenced("a", "r", "1", instance)).await;
    record(&subject, permit, applied()).await;
    drop(granted(&subject, &fenced("b", "other", "1", instance)).await);
    let mut elsewhere = admit("a", instance);
    elsewhere.key.upstream = crate::protocol::ids::UpstreamId::new("bank");
    drop(granted(&subject, &elsewhere).await);
    let all = OperationQuery {
        limit: 10,
        ..OperationQuery::default()
    };
    let found = |query: OperationQuery| {
        let read = subject.read();
        async move {
            let page = read.operations(&query).await.unwrap();
            let name = |operation: &crate::protocol::operation::Operation| {
                format!("{}/{}", operation.key.upstream, operation.key.id)
            };
            page.operations.iter().map(name).collect::<Vec<_>>()
        }
    };
    let by_state = OperationQuery {
        state: Some("INTENDED"),
        ..all.clone()
    };
    assert_eq!(found(by_state).await, ["bank/a", "stripe/b"]);
    let by_resource = OperationQuery {
        resource: Some(resource_key("r")),
        ..all.clone()
    };
    assert_eq!(found(by_resource).await, ["stripe/a"]);
    let by_upstream = OperationQuery {
        upstream: Some(crate::protocol::ids::UpstreamId::new("stripe")),
        ..all.clone()
    };
    assert_eq!(found(by_upstream).await, ["stripe/b", "stripe/a"]);
    let by_id = OperationQuery {
        id: Some("a".to_owned()),
        ..all.clone()
    };
    assert_eq!(found(by_id.clone()).await, ["bank/a", "stripe/a"]);
    let both = OperationQuery {
        state: Some("COMPLETED"),
        ..by_id
    };
    assert_eq!(found(both).await, ["stripe/a"]);
}

pub(super) async fn what_is_in_doubt_is_listed_from_a_cursor(subject: Subject) {
    let instance = own(&subject);
    for (number, evidence) in [
        None,
        Some(applied()),
        Some(interrupted()),
        Some(unsent()),
        None,
    ]
    .into_iter()
    .enumerate()
    {
        let permit = granted(&subject, &admit(&format!("op-{number}"), instance)).await;
        if let Some(evidence) = evidence {
            record(&subject, permit, evidence).await;
        }
    }
    // Whatever waits for a person is not the reconciler's.
    let permit = granted(&subject, &admit("parked", instance)).await;
    record(&subject, permit, interrupted()).await;
    subject
        .register()
        .park(c::park(&key("parked")))
        .await
        .unwrap();
    drop(granted(&subject, &admit("last", instance)).await);
    let mut seen = Vec::new();
    let mut after = 0;
    loop {
        let page = subject.read().in_doubt(after, 2).await.unwrap();
        let Some((last, _)) = page.last() else { break };
        after = *last;
        seen.extend(
            page.iter()
                .map(|(_, operation)| id_of(operation).to_owned()),
        );
    }
    assert_eq!(seen, ["op-0", "op-2", "op-4", "last"]);
    // Whoever counts what is unsettled sees that too.
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let page = subject.read().unsettled(after, 2).await.unwrap();
        let Some((last, _)) = page.last() else { break };
        after = *last;
        all.extend(page.iter().map(|(_, it)| id_of(it).to_owned()));
    }
    assert_eq!(all, ["op-0", "op-2", "op-4", "parked", "last"]);
}

pub(super) async fn a_resource_shows_what_stands_in_its_way(subject: Subject) {
    let instance = own(&subject);
    let none = subject.read().resource(&resource_key("r")).await.unwrap();
    assert_eq!(none, None);
    for (id, token) in [("a", "1"), ("b", "2")] {
        let permit = granted(&subject, &fenced(id, "r", token, instance)).await;
        record(&subject, permit, applied()).await;
    }
    let permit = granted(&subject, &fenced("c", "r", "3", instance)).await;
    record(
        &subject,
        permit,
        c::answered(400, crate::protocol::outcome::AnswerClass::NotProcessed),
    )
    .await;
    let uncertain = Admit {
        meaning: meaning(2),
        ..fenced("d", "r", "4", instance)
    };
    let permit = granted(&subject, &uncertain).await;
    record(&subject, permit, interrupted()).await;
    let shown = subject.read().resource(&resource_key("r")).await.unwrap();
    let shown = shown.unwrap();
    assert_eq!(shown.fence.mark.unwrap().to_string(), "4");
    let unsettled: Vec<_> = shown.unsettled.iter().map(id_of).collect();
    assert_eq!(unsettled, ["d"]);
    let last = shown.last_completed.unwrap();
    assert_eq!(id_of(&last), "b");
    assert_eq!(last.place.unwrap().token.unwrap().to_string(), "2");
}

/// The last one *admitted*, whichever answer came last.
pub(super) async fn the_last_applied_is_the_one_admitted_last(subject: Subject) {
    let mut permits = Vec::new();
    for id in ["a", "b"] {
        let mut free = fenced(id, "r", "1", own(&subject));
        Arc::make_mut(&mut free.policy).order = Order::Free;
        permits.push(granted(&subject, &free).await);
    }
    while let Some(permit) = permits.pop() {
        record(&subject, permit, applied()).await;
        let shown = subject.read().resource(&resource_key("r")).await.unwrap();
        assert_eq!(id_of(&shown.unwrap().last_completed.unwrap()), "b");
    }
}

pub(super) async fn resources_are_listed_by_name(subject: Subject) {
    for name in ["b", "a", "c", "B", "é"] {
        drop(granted(&subject, &fenced(name, name, "1", own(&subject))).await);
    }
    let names = |after: Option<&'static str>, limit| {
        let read = subject.read();
        async move {
            let fences = read.resources(after, limit).await.unwrap();
            let names = fences.iter().map(|fence| fence.resource.name.to_string());
            names.collect::<Vec<_>>()
        }
    };
    assert_eq!(names(None, 10).await, ["B", "a", "b", "c", "é"]);
    assert_eq!(names(None, 2).await, ["B", "a"]);
    assert_eq!(names(Some("a"), 2).await, ["b", "c"]);
    assert_eq!(names(Some("é"), 2).await, Vec::<String>::new());
}

pub(super) async fn the_summary_counts(mut subject: Subject) {
    let instance = own(&subject);
    let empty = subject.read().summary().await.unwrap();
    assert_eq!((empty.by_state, empty.oldest_unsettled), (vec![], None));
    let evidence = [applied(), unsent(), interrupted(), applied(), interrupted()];
    for (number, evidence) in evidence.into_iter().enumerate() {
        let ms = u64::try_from(number).unwrap();
        let admit = Admit {
            at: c::at(ms),
            ..admit(&format!("op-{number}"), instance)
        };
        let permit = granted(&subject, &admit).await;
        record(&subject, permit, evidence).await;
    }
    drop(granted(&subject, &admit("op-1", instance)).await);
    let expected = vec![("INTENDED", 1), ("UNCERTAIN", 2), ("COMPLETED", 2)];
    for _ in 0..2 {
        let summary = subject.read().summary().await.unwrap();
        assert_eq!(summary.by_state, expected);
        // op-1 was first seen before op-2, and is in flight again.
        assert_eq!(summary.oldest_unsettled, Some(c::at(1)));
        assert_eq!(summary.epoch, 0);
        subject.restart().await;
    }
    subject.read().ready().await.unwrap();
}

/// What a scrape shows: also those that wait for a person, and the oldest first.
pub(super) async fn what_presses_is_told(subject: Subject) {
    let instance = own(&subject);
    assert_eq!(
        subject.read().pressing().await.unwrap(),
        Pressing::default()
    );
    for (number, evidence) in [interrupted(), applied(), interrupted()]
        .into_iter()
        .enumerate()
    {
        let admit = Admit {
            at: c::at(u64::try_from(number).unwrap()),
            ..admit(&format!("op-{number}"), instance)
        };
        let permit = granted(&subject, &admit).await;
        record(&subject, permit, evidence).await;
    }
    drop(granted(&subject, &admit("op-3", instance)).await);
    subject
        .register()
        .park(c::park(&c::key("op-0")))
        .await
        .unwrap();
    let pressing = subject.read().pressing().await.unwrap();
    let expected = [("INTENDED", 1), ("UNCERTAIN", 1), ("NEEDS_ATTENTION", 1)];
    assert_eq!(pressing.by_state, expected);
    let oldest: Vec<_> = pressing.oldest.iter().map(id_of).collect();
    assert_eq!(oldest, ["op-0", "op-2", "op-3"]);
    assert!(pressing.oldest[0].key_use.first.is_some());
}

pub(super) async fn an_event_log_tells_the_story(subject: Subject) {
    let first = fenced("a", "r", "1", own(&subject));
    let permit = granted(&subject, &first).await;
    let attempt = permit.grant().attempt;
    record(&subject, permit, interrupted()).await;
    let twin = fenced("twin", "r", "1", own(&subject));
    subject.register().admit(twin).await.unwrap();
    subject.register().park(c::park(&first.key)).await.unwrap();
    let verdict = c::resolve(&first.key, Resolution::Applied(c::answer(200)));
    subject.register().resolve(verdict).await.unwrap();
    let found = subject.read().operation(&first.key, false).await.unwrap();
    let events = found.unwrap().events;
    let told: Vec<_> = events.iter().map(|event| event.text.as_str()).collect();
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told[0].contains("interrupted"));
    assert_eq!(events[0].attempt, Some(attempt));
    assert!(told[1].contains("twin"));
    assert!(told[2].contains("needs a person"));
    assert!(told[3].contains("alice"));
    assert!(events.iter().all(|event| event.key == first.key));
}

fn id_of(operation: &crate::protocol::operation::Operation) -> &str {
    operation.key.id.as_str()
}
