//! Liveness, readiness and metrics of a healthy, a broken and a draining instance.

use super::{alice, get, house, refused};
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
