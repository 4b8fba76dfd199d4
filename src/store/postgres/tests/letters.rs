//! Letters between processes: whoever waits is heard by whoever carries, and hears of the end at once.

use tokio::time::timeout;

use super::*;
use crate::protocol::ids::OperationKey;

const LONG_WAIT: Duration = Duration::from_secs(30);

async fn look(party: &Party, key: &OperationKey) -> &'static str {
    let elsewhere = party.register.read().elsewhere().unwrap();
    let found = elsewhere.look(std::slice::from_ref(key)).await.unwrap();
    assert_eq!(found.len(), 1);
    found[0].state.word()
}

/// Without another look: nothing but the letter brings it.
async fn a_hint_comes_with_the_end(waits: &Party, carries: &Party, permit: Permit) {
    let key = permit.grant().key.clone();
    assert_eq!(look(waits, &key).await, "INTENDED");
    until("the carrier knows", async || {
        carries.backend.shared.abroad.is_waited_for(&key)
    })
    .await;
    let elsewhere = waits.register.read().elsewhere().unwrap();
    let receipt = permit.finish(c::applied());
    let (hint, recorded) = tokio::join!(
        timeout(LONG_WAIT, elsewhere.hint()),
        carries.register.record(&receipt, c::at(1))
    );
    assert!(hint.is_ok() && recorded.is_ok());
    assert_eq!(look(waits, &key).await, "COMPLETED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_elsewhere_is_told_of_the_end_as_soon_as_it_has_committed() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let b = join(&database, B, LONG).await;
    let permit = a.granted(&c::admit("a", A)).await;
    a_hint_comes_with_the_end(&b, &a, permit).await;
}

/// It hears under its new id, and under the one that its operations still bear.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_goes_on_as_another_hears_letters_to_both() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let b = join(&database, B, LONG).await;
    let before = a.granted(&c::admit("before", A)).await;
    database.query("UPDATE fencepost.instances SET dead = true WHERE name LIKE '%a'");
    a.beat().await;
    let now = a.register.instance();
    assert_ne!(now, A);
    a_hint_comes_with_the_end(&b, &a, before).await;
    let after = a.granted(&c::admit("after", now)).await;
    a_hint_comes_with_the_end(&b, &a, after).await;
}

/// A connection that is lost takes nothing with it but what was under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_are_heard_again_once_the_connection_is_back() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let b = join(&database, B, LONG).await;
    let permit = a.granted(&c::admit("a", A)).await;
    database.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE application_name = 'fencepost' AND datname = current_database()",
    );
    for party in [&a, &b] {
        until("it is back", async || {
            party.register.read().ready().await.is_ok()
        })
        .await;
        // Over the connection that letters come in on: as the next sign of life would.
        until("it hears", async || {
            let key = c::key("a");
            party.register.read().operation(&key, false).await.is_ok()
        })
        .await;
    }
    a_hint_comes_with_the_end(&b, &a, permit).await;
}
