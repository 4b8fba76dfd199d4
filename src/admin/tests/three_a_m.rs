//! What operators do at 3 a.m.: the story of an operation, many verdicts at once, resources steered.

use super::*;
use crate::admin::views::{ExplainedView, ManyResolvedView, SteeredView, StoryView};
use crate::protocol::time::Moment;

impl House {
    async fn change(&self, parts: &[&str], body: Value) -> Result<Value, (u16, String)> {
        refused(
            self.client()
                .change(&path(parts, &[]), body.to_string())
                .await,
        )
    }

    async fn resolve_many(&self, body: Value) -> Result<ManyResolvedView, (u16, String)> {
        let told = self.change(&["operations", "resolve"], body).await?;
        Ok(self.client().understand(&told).unwrap())
    }

    async fn log(&self, id: &str) -> String {
        let shown: OperationDetail = self.read(&path(&["operations", "bank", id], &[])).await;
        let lines: Vec<String> = shown.events.into_iter().map(|it| it.text).collect();
        lines.join("\n")
    }

    async fn state(&self, id: &str) -> String {
        let shown: OperationDetail = self.read(&path(&["operations", "bank", id], &[])).await;
        shown.operation.state
    }
}

fn verdict(filter: &Value, more: &Value) -> Value {
    let mut said = json!({
        "filter": filter, "verdict": "not_applied", "reason": "the bank lost the day",
    });
    let more = more.as_object().unwrap().clone();
    said.as_object_mut().unwrap().extend(more);
    said
}

/// F03: nothing but a stated verdict, with a reason and a name, frees what may have been sent.
#[tokio::test]
async fn a_verdict_on_many_is_seen_first_and_falls_on_what_was_seen() {
    let house = house(alice()).await;
    for id in ["pay-1", "pay-2"] {
        house.left_behind(id);
    }
    house.admitted("under-way", Principal::None, KeyValue::Derived, INSTANCE);
    let filter = || json!({"upstream": "bank", "state": "INTENDED"});

    let seen = house
        .resolve_many(verdict(&filter(), &json!({"dry_run": true})))
        .await
        .unwrap();

    assert_eq!((seen.resolved, seen.refused, seen.dry_run), (2, 1, true));
    let under_way = &seen.operations[0];
    assert_eq!(under_way.operation.id, "under-way");
    assert!(
        under_way.refused.as_ref().unwrap().contains("not overdue"),
        "{under_way:?}"
    );
    assert_eq!(seen.operations[1].becomes.as_deref(), Some("NOT_APPLIED"));
    assert_eq!(house.state("pay-1").await, "UNCERTAIN");
    assert!(house.settled.lock().unwrap().is_empty());

    // Another one turned up since: it was not seen, so nothing is resolved.
    house.left_behind("pay-3");
    let said = verdict(&filter(), &json!({"selection": seen.selection}));
    let refusal = house.resolve_many(said).await.unwrap_err();
    assert_eq!(refusal, (409, "selection-changed".to_owned()));
    assert_eq!(house.state("pay-1").await, "UNCERTAIN");

    let seen = house
        .resolve_many(verdict(&filter(), &json!({"dry_run": true})))
        .await
        .unwrap();
    let said = verdict(&filter(), &json!({"selection": seen.selection}));
    let done = house.resolve_many(said).await.unwrap();

    assert_eq!((done.resolved, done.refused, done.dry_run), (3, 1, false));
    assert_eq!(done.stopped, None);
    for id in ["pay-1", "pay-2", "pay-3"] {
        assert_eq!(house.state(id).await, "NOT_APPLIED");
        let log = house.log(id).await;
        assert!(
            log.contains("not applied by alice: the bank lost the day"),
            "{log}"
        );
    }
    assert_eq!(house.state("under-way").await, "INTENDED");
    assert_eq!(house.settled.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_verdict_on_many_that_says_too_little_is_refused() {
    let house = house(alice()).await;
    house.left_behind("pay-1");
    for bad in [
        verdict(&json!({}), &json!({})),
        verdict(
            &json!({"state": "COMPLETED", "upstream": "bank"}),
            &json!({}),
        ),
        verdict(&json!({"upstrem": "bank"}), &json!({})),
        verdict(&json!({"upstream": "bank", "older_than": "x"}), &json!({})),
        verdict(&json!({"upstream": "bank"}), &json!({"status": 200})),
        verdict(&json!({"upstream": "bank"}), &json!({"new_key": true})),
        verdict(&json!({"upstream": "bank"}), &json!({"reason": " "})),
    ] {
        let refusal = house.resolve_many(bad.clone()).await.unwrap_err();
        assert_eq!(refusal.0, 400, "{bad}");
    }
    // Only what is old enough.
    let young = json!({"upstream": "bank", "state": "INTENDED", "older_than": "1h"});
    let none = house
        .resolve_many(verdict(&young, &json!({})))
        .await
        .unwrap();
    assert_eq!((none.resolved, none.operations.len()), (0, 0));
    assert_eq!(house.state("pay-1").await, "UNCERTAIN");
}

/// A register that fails in the middle: what was done is told, and so is where it stopped.
#[tokio::test]
async fn many_verdicts_end_where_the_register_does() {
    let house = house(alice()).await;
    house.left_behind("pay-1");
    let slow = house.stand_in.slow_down();
    let filter = json!({"upstream": "bank", "state": "INTENDED"});
    let resolving = house.resolve_many(verdict(&filter, &json!({})));
    let failing = async {
        slow.reached.notified().await;
        let fault = StoreError::Unavailable("no disk".to_owned());
        house.stand_in.break_with(Some(fault));
        slow.go.notify_one();
    };
    let (told, ()) = tokio::join!(resolving, failing);
    let told = told.unwrap();
    assert_eq!((told.resolved, told.operations.len()), (0, 0));
    assert!(told.stopped.unwrap().contains("no disk"));
}

#[tokio::test]
async fn a_verdict_is_only_on_what_its_author_saw() {
    let house = house(alice()).await;
    house.left_behind("pay-1");
    let said = json!({"verdict": "not_applied", "reason": "looked", "admitted": 2});
    let refusal = house.resolve("pay-1", said).await.unwrap_err();
    assert_eq!(refusal, (409, "moved-on".to_owned()));
    let said = json!({"verdict": "not_applied", "reason": "looked", "admitted": 1});
    assert!(house.resolve("pay-1", said).await.is_ok());
}

#[tokio::test]
async fn an_operator_cancels_advances_and_reopens_by_name() {
    let house = house(alice()).await;
    house.left_behind("pay-1");
    house.admitted("under-way", Principal::None, KeyValue::Derived, INSTANCE);
    let name = "account:1/2";
    let why = || json!({"reason": "wrong amount"});

    let told = house.change(&["resources", name, "advance"], why()).await;
    let told: SteeredView = serde_json::from_value(told.unwrap()).unwrap();

    assert_eq!(
        (told.done.as_str(), told.token.as_deref()),
        ("advanced", Some("3:108"))
    );
    // What may still act is named, with its time; what is left of a dead one does nothing more.
    let acts: Vec<(&str, bool)> = told
        .in_flight
        .iter()
        .map(|it| (it.operation.id.as_str(), it.may_act_until.is_some()))
        .collect();
    assert_eq!(acts, [("pay-1", false), ("under-way", true)]);
    assert!(told.in_flight[1].may_act_for_ms.unwrap() <= 45_000);
    let log = house.log("pay-1").await;
    assert!(log.contains("advanced by alice: wrong amount"), "{log}");

    let told = house.change(&["resources", name, "cancel"], why()).await;
    assert_eq!(told.unwrap()["done"], "cancelled");
    let explained: ExplainedView = house
        .read(&path(&["resources", name, "explain"], &[]))
        .await;
    assert!(
        explained
            .standing
            .contains("cancelled by alice: wrong amount"),
        "{}",
        explained.standing
    );
    assert!(explained.command.unwrap().contains("resources reopen"));
    let told = house.change(&["resources", name, "reopen"], why()).await;
    assert_eq!(told.unwrap()["incarnation"], 1);
    let again = house.change(&["resources", name, "reopen"], why()).await;
    assert_eq!(again.unwrap_err(), (409, "not-cancelled".to_owned()));
    let detail: ResourceDetail = house.read(&path(&["resources", name], &[])).await;
    let did: Vec<&str> = detail
        .resource
        .interventions
        .iter()
        .map(|it| it.did.as_str())
        .collect();
    assert_eq!(did, ["advanced", "cancelled", "reopened"]);

    // A mistyped name does not look cut off; one that nobody used yet can be cancelled.
    let unseen = house.change(&["resources", "x", "advance"], why()).await;
    assert_eq!(unseen.unwrap_err(), (404, "unknown-resource".to_owned()));
    let unseen = house.change(&["resources", "x", "cancel"], why()).await;
    assert!(unseen.is_ok());
    for bad in [
        json!({}),
        json!({"reason": " "}),
        json!({"reason": "x".repeat(501)}),
    ] {
        let refusal = house.change(&["resources", name, "cancel"], bad).await;
        assert_eq!(refusal.unwrap_err().0, 400);
    }
}

#[tokio::test]
async fn what_blocks_others_is_explained_with_what_to_type() {
    let house = house(alice()).await;
    house.left_behind("pay-1");
    house.admitted("under-way", Principal::None, KeyValue::Derived, INSTANCE);
    let explained: ExplainedView = house
        .read(&path(&["resources", "account:1/2", "explain"], &[]))
        .await;
    let [left, acting] = &explained.blockers[..] else {
        panic!("{explained:?}");
    };
    // Nobody resends here (no settle step), and its instance is dead: a person is needed.
    assert_eq!(left.operation.id, "pay-1");
    assert!(
        left.because
            .contains("can neither deduplicate nor be asked"),
        "{left:?}"
    );
    assert_eq!(
        left.command.as_deref(),
        Some(
            "fencepost operations resolve bank pay-1 --principal none --incarnation 0 --admitted 1 \
             --verdict applied|not-applied --reason '…'"
        )
    );
    assert!(left.blocks.contains("newer token"), "{left:?}");
    assert!(acting.next.contains("ends by itself"), "{acting:?}");
    assert_eq!(acting.command, None);
}

#[tokio::test]
async fn why_tells_the_story_and_what_can_still_be_done_until_when() {
    let house = house(alice()).await;
    house.left_behind("pay-1");
    let why = path(&["operations", "bank", "pay-1", "why"], &[]);

    let told: StoryView = house.read(&why).await;

    assert!(told.story[0].text.contains("under the caller's own key"));
    assert!(
        told.story[0].text.contains("with token 3:108"),
        "{:?}",
        told.story
    );
    assert!(told.story[1].attempt.is_some());
    let can = |what: &str| {
        let mut all = told.moves.iter();
        all.find(|it| it.what.contains(what)).unwrap().clone()
    };
    assert!(!can("by itself").possible);
    let send = can("because you say so");
    // 80 % of the key's day.
    let usable = 86_400_000 / 100 * 80;
    assert!(send.possible && send.left_ms.unwrap() <= usable);
    assert!(send.left_ms.unwrap() > usable - 60_000);
    let command = send.command.unwrap();
    let name = "settle bank pay-1 --principal none --incarnation 0 --send";
    assert!(command.contains(name), "{command}");
    assert!(can("say how it ended").possible);
    let memory = can("memory of its key");
    assert!(memory.possible && memory.left_ms.unwrap() > 86_400_000 - 60_000);

    let said = json!({"verdict": "applied", "reason": "seen on the statement"});
    house.resolve("pay-1", said).await.unwrap();
    let told: StoryView = house.read(&why).await;
    let texts: Vec<&str> = told.story.iter().map(|it| it.text.as_str()).collect();
    assert!(
        texts
            .iter()
            .any(|it| it.contains("by alice: seen on the statement")),
        "{texts:?}"
    );
    assert_eq!(texts.last(), Some(&"COMPLETED: applied, by operator"));
    assert!(told.moves.iter().all(|it| !it.possible));

    house.admitted("under-way", Principal::None, KeyValue::Derived, INSTANCE);
    let told: StoryView = house
        .read(&path(&["operations", "bank", "under-way", "why"], &[]))
        .await;
    assert!(told.moves[0].possible && told.moves[0].until.is_some());
    assert!(told.moves[1..3].iter().any(|it| it.possible));
    let resolve = told
        .moves
        .iter()
        .find(|it| it.what.contains("how it ended"));
    assert!(!resolve.unwrap().possible);
}

/// Only an instance sends; a register without one says so rather than pretend.
#[tokio::test]
async fn where_nobody_runs_nothing_is_settled_at_once() {
    let house = house(alice()).await;
    house.left_behind("pay-1");
    let parts = ["operations", "bank", "pay-1", "settle"];
    let refusal = house.change(&parts, json!({})).await.unwrap_err();
    assert_eq!(refusal, (409, "no-instance".to_owned()));
    let without_reason = house.change(&parts, json!({"send": true})).await;
    assert_eq!(without_reason.unwrap_err().0, 400);
}

/// Nothing is changed, and no content is read, by somebody without a name.
#[tokio::test]
async fn without_a_named_operator_nothing_can_be_done() {
    let house = house(Operators::default()).await;
    house.left_behind("pay-1");
    for parts in [
        &["operations", "resolve"][..],
        &["operations", "bank", "pay-1", "resolve"],
        &["operations", "bank", "pay-1", "settle"],
        &["resources", "account:1/2", "advance"],
        &["resources", "account:1/2", "cancel"],
        &["resources", "account:1/2", "reopen"],
    ] {
        let refusal = house.change(parts, json!({"reason": "x"})).await;
        let refusal = refusal.unwrap_err();
        assert_eq!(refusal, (403, "operators-required".to_owned()), "{parts:?}");
    }
    assert_eq!(house.log("pay-1").await, "");
}

/// The oldest are the ones that somebody is after, and they stand behind whatever is newer.
#[tokio::test]
async fn a_verdict_on_what_is_old_finds_it_behind_more_than_a_page_of_what_is_newer() {
    let house = house(alice()).await;
    let now = house.clock.now();
    let two_hours_ago = Moment {
        wall_ms: now.wall_ms.saturating_sub(7_200_000),
        ..now
    };
    let admitted = |id: &str, at| {
        house.stand_in.admit(&Wanted {
            id,
            principal: Principal::None,
            token: 108,
            key: KeyValue::Derived,
            instance: InstanceId(1),
            at,
        })
    };
    admitted("old", two_hours_ago);
    for number in 0..501 {
        admitted(&format!("new-{number}"), now);
    }
    let old = json!({"upstream": "bank", "state": "INTENDED", "older_than": "1h"});

    let seen = house
        .resolve_many(verdict(&old, &json!({"dry_run": true})))
        .await
        .unwrap();

    let ids = seen.operations.iter().map(|it| it.operation.id.as_str());
    assert_eq!(ids.collect::<Vec<_>>(), ["old"]);
    assert!(!seen.more);
    let all = json!({"upstream": "bank", "state": "INTENDED"});
    let seen = house
        .resolve_many(verdict(&all, &json!({"dry_run": true})))
        .await
        .unwrap();
    assert_eq!((seen.operations.len(), seen.more), (500, true));
}

/// Many accounts share an id: each is found by its whole name, and none is told for another.
#[tokio::test]
async fn one_of_many_that_share_an_id_is_found_by_its_name() {
    let house = house(alice()).await;
    for number in 0..120_u8 {
        let principal = Principal::Hashed([number; 16]);
        house.admitted("shared", principal, KeyValue::Derived, INSTANCE);
    }
    let digest = "00".repeat(16);
    for incarnation in [Some("0".to_owned()), None] {
        let query = [
            ("principal", Some(digest.clone())),
            ("incarnation", incarnation),
        ];
        let at = path(&["operations", "bank", "shared"], &query);
        let found: OperationDetail = house.read(&at).await;
        assert_eq!(found.operation.principal.as_ref(), Some(&digest));
    }
    let get = |query: &[(&str, Option<String>)]| {
        let at = path(&["operations", "bank", "shared"], query);
        let client = house.client();
        async move { refused(client.read(&at).await).unwrap_err() }
    };
    assert_eq!(get(&[]).await, (409, "ambiguous-operation".to_owned()));
    let nobody = [
        ("principal", Some("none".to_owned())),
        ("incarnation", Some("0".to_owned())),
    ];
    assert_eq!(get(&nobody).await, (404, "unknown-operation".to_owned()));
}
