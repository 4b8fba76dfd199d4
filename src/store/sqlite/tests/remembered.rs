//! What the owner remembers is what the file says: every transaction of every test compares the two.
//! Here is what no command would bring about.

use super::*;

async fn complete(opening: &Opening, id: &str, resource: &str, token: &str) {
    let admitted = opening.admit(fenced(id, resource, token, INSTANCE)).await;
    let receipt = admitted.unwrap().permit.unwrap().finish(applied());
    opening.register.record(&receipt, c::at(9)).await.unwrap();
}

async fn is_granted(opening: &Opening, id: &str, resource: &str, token: &str) -> bool {
    let admitted = opening.admit(fenced(id, resource, token, INSTANCE)).await;
    admitted.unwrap().permit.is_some()
}

/// An operator with `sqlite3`, while the owner is at work.
#[tokio::test]
async fn what_somebody_else_has_written_is_read_anew() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    complete(&opening, "a", "raised", "9").await;
    complete(&opening, "b", "other", "3").await;
    let like_raised = "UPDATE fences SET record = (SELECT record FROM fences WHERE name = 'raised')
                       WHERE name = 'other'";
    by_hand(&dir).execute(like_raised, []).unwrap();
    assert!(!is_granted(&opening, "c", "other", "5").await);
    assert!(is_granted(&opening, "d", "other", "9").await);
}

#[tokio::test]
async fn what_a_failed_transaction_would_have_raised_is_forgotten() {
    let dir = TempDir::new().unwrap();
    let asked = Options {
        reserve: 64 * 1024,
        ..options(dir.path())
    };
    let opening = opened_with(asked, owner(INSTANCE)).await.unwrap();
    complete(&opening, "a", "r", "3").await;
    opening.backend.sabotage.arm(CommitFault::Full);
    let refused = opening.admit(fenced("b", "r", "9", INSTANCE)).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))));
    // There is room again.
    opening.backend.tend().await.unwrap();
    assert!(is_granted(&opening, "c", "r", "5").await);
}

/// More resources than are remembered, each with an operation under way: what was forgotten is read
/// again, and still holds the next generation back.
#[tokio::test]
async fn what_is_not_remembered_any_more_is_in_the_file() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    for number in 0..20 {
        let resource = format!("r{number}");
        assert!(is_granted(&opening, &resource, &resource, "1").await);
    }
    for resource in ["r0", "r19"] {
        let id = format!("next-{resource}");
        let next = opening.admit(fenced(&id, resource, "2", INSTANCE)).await;
        let ruling = next.unwrap().admission.ruling;
        assert!(matches!(ruling, Ruling::Wait { .. }), "{ruling:?}");
    }
}
