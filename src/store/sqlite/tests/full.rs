//! A full disk: outcomes are still recorded, nothing is admitted, and it ends by itself.

use super::*;

async fn with_reserve(dir: &TempDir) -> Opening {
    let asked = Options {
        reserve: 64 * 1024,
        ..options(dir.path())
    };
    opened_with(asked, owner(INSTANCE)).await.unwrap()
}

#[tokio::test]
async fn outcomes_are_recorded_from_the_reserve_and_nothing_is_admitted() {
    let dir = TempDir::new().unwrap();
    let opening = with_reserve(&dir).await;
    let reserve = dir.path().join("reserve");
    let sent = opening.admit(admit("sent", INSTANCE)).await.unwrap();
    // A folder in its place: the reserve cannot be made again.
    opening.backend.sabotage.arm(CommitFault::Full);
    let receipt = sent.permit.unwrap().finish(applied());
    let recorded = opening.register.record(&receipt, c::at(9)).await.unwrap();
    assert!(recorded.state.is_some());
    assert!(!reserve.exists());
    fs::create_dir(&reserve).unwrap();
    // What needs no write is answered.
    let repeat = opening.admit(admit("sent", INSTANCE)).await.unwrap();
    assert!(matches!(repeat.admission.ruling, Ruling::Replay { .. }));
    for _ in 0..2 {
        let refused = opening.admit(admit("new", INSTANCE)).await;
        assert!(
            matches!(&refused, Err(StoreError::Unavailable(why)) if why.contains("full")),
            "{refused:?}"
        );
        let ready = opening.backend.ready().await;
        assert!(matches!(&ready, Err(StoreError::Unavailable(why)) if why.contains("full")));
        opening.backend.tend().await.unwrap();
    }
    assert!(
        opening
            .backend
            .operation(&key("new"), false)
            .await
            .unwrap()
            .is_none()
    );
    // There is room again.
    fs::remove_dir(&reserve).unwrap();
    opening.backend.tend().await.unwrap();
    opening.backend.ready().await.unwrap();
    assert_eq!(fs::metadata(&reserve).unwrap().len(), 64 * 1024);
    let admitted = opening.admit(admit("new", INSTANCE)).await.unwrap();
    assert!(admitted.permit.is_some());
    let repeat = opening.admit(admit("sent", INSTANCE)).await.unwrap();
    assert!(matches!(repeat.admission.ruling, Ruling::Replay { .. }));
}

/// Even the reserve is not enough: the outcome was not recorded, and is when there is room.
#[tokio::test]
async fn without_room_at_all_nothing_is_poisoned() {
    let dir = TempDir::new().unwrap();
    let opening = with_reserve(&dir).await;
    let sent = opening.admit(admit("sent", INSTANCE)).await.unwrap();
    let receipt = sent.permit.unwrap().finish(applied());
    opening.backend.sabotage.arm(CommitFault::Full);
    opening.admit(admit("new", INSTANCE)).await.unwrap_err();
    opening.backend.sabotage.arm(CommitFault::Full);
    let failed = opening.register.record(&receipt, c::at(9)).await;
    assert!(
        matches!(failed, Err(StoreError::Unavailable(_))),
        "{failed:?}"
    );
    opening.register.record(&receipt, c::at(9)).await.unwrap();
    opening.backend.tend().await.unwrap();
    opening.complete("later").await;
}

/// SQLite's own word for it, in the middle of a transaction.
#[tokio::test]
async fn what_a_full_database_had_begun_is_not_there() {
    let dir = TempDir::new().unwrap();
    let opening = with_reserve(&dir).await;
    opening.complete("a").await;
    opening.backend.sabotage.arm(CommitFault::Full);
    let refused = opening.admit(fenced("b", "r", "1", INSTANCE)).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))));
    let resource = opening.backend.resource(&c::resource_key("r")).await;
    assert_eq!(resource.unwrap(), None, "half of a decision was committed");
    opening.close().await;
    let opening = with_reserve(&dir).await;
    assert!(
        opening
            .backend
            .operation(&key("b"), false)
            .await
            .unwrap()
            .is_none()
    );
}
