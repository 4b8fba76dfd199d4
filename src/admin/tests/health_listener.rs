//! Liveness, readiness and metrics of a healthy, a broken and a draining instance.

use serde_json::Value;

use super::{StatusView, alice, get, house, refused};
use crate::protocol::command::{Command, Park};
use crate::store::StoreError;

#[tokio::test]
async fn a_broken_register_shows_in_readiness_and_never_in_liveness() {
    let house = house(alice()).await;
    house
        .stand_in
        .break_with(Some(StoreError::Poisoned("fsync failed".to_owned())));
    assert_eq!(get(house.health, "/livez", "Host: a\r\n").await.status, 200);
    let ready = get(house.health, "/readyz", "Host: a\r\n").await;
    assert_eq!(ready.status, 503);
    assert!(ready.body.contains("poisoned"), "{}", ready.body);
    let metrics = get(house.health, "/metrics", "Host: a\r\n").await;
    assert_eq!(metrics.status, 200);
    assert!(
        !metrics.body.contains("fencepost_unsettled{"),
        "{}",
        metrics.body
    );
    let refusal = refused(house.client().read("/operations").await).unwrap_err();
    assert_eq!(refusal, (503, "store-unavailable".to_owned()));
}

#[tokio::test]
async fn a_draining_instance_is_alive_and_not_ready() {
    let house = house(alice()).await;
    house.left_behind("pay-1");
    assert_eq!(
        get(house.health, "/readyz", "Host: a\r\n").await.status,
        200
    );
    let metrics = get(house.health, "/metrics", "Host: a\r\n").await;
    assert!(
        metrics
            .body
            .contains(r#"fencepost_unsettled{state="INTENDED"} 1"#),
        "{}",
        metrics.body
    );
    assert!(
        metrics.head.contains("text/plain; version=0.0.4"),
        "{}",
        metrics.head
    );
    house.draining.cancel();
    let ready = get(house.health, "/readyz", "Host: a\r\n").await;
    assert_eq!(ready.status, 503);
    assert!(ready.body.contains("draining"), "{}", ready.body);
    assert_eq!(get(house.health, "/livez", "Host: a\r\n").await.status, 200);
}

/// What waits for a person does not make an instance unready, and shows everywhere.
#[tokio::test]
async fn what_presses_shows_in_readiness_in_metrics_and_in_status() {
    let house = house(alice()).await;
    let key = house.left_behind("pay-1");
    let park = Park {
        fit: false,
        lease: crate::protocol::lease::LeaseFacts::unknown(),
        key,
        at: house.clock.now(),
    };
    house.stand_in.command(&Command::Park(park));
    let ready = get(house.health, "/readyz", "Host: a\r\n").await;
    assert_eq!(ready.status, 200);
    let ready: Value = serde_json::from_str(&ready.body).unwrap();
    assert_eq!(ready["unsettled"]["needs_attention"], 1);
    assert_eq!(ready["contradictions"], 0);
    let metrics = get(house.health, "/metrics", "Host: a\r\n").await.body;
    let waiting = r#"fencepost_unsettled{state="NEEDS_ATTENTION"} 1"#;
    assert!(metrics.contains(waiting), "{metrics}");
    let status: StatusView = house.read("/status").await;
    let counted = status.counted.unwrap();
    assert_eq!(counted.operations.get("NEEDS_ATTENTION"), Some(&1));
    assert_eq!(status.contradictions, None);
}

#[tokio::test]
async fn many_probes_are_one_commit() {
    let house = house(alice()).await;
    for _ in 0..40 {
        assert_eq!(
            get(house.health, "/readyz", "Host: a\r\n").await.status,
            200
        );
    }
    assert!(house.stand_in.proofs() < 20, "{}", house.stand_in.proofs());
}
