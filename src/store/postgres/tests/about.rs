//! What a shared register says of itself to the people who look after it.

use super::super::accept_restored;
use super::*;
use crate::store::Backend;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_tells_its_own_format_and_not_that_of_whoever_asks() {
    let database = database();
    let a = join(&database, A, LONG).await;
    let known = a.backend.about().await.unwrap();
    assert_eq!(known.format, Some(1));
    assert!(known.facts.iter().all(|(name, _)| *name != "read as"));
    database.query("UPDATE fencepost.register SET format = 7");
    let later = a.backend.about().await.unwrap();
    assert_eq!(later.format, Some(7));
    assert!(later.facts.iter().any(|(name, _)| *name == "read as"));
}

/// Where it was accepted, what is left of the waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_acceptance_it_tells_how_long_it_waits() {
    const LENGTH: u64 = 3_600_000;
    let database = database();
    let a = join(&database, A, LONG).await;
    let left = async || a.backend.about().await.unwrap().quiet_ms;
    assert_eq!(left().await, None);
    database.query("SELECT fencepost.close_1('commits were lost', 0, 0)");
    assert_eq!(left().await, None);
    let clock = Clock::system().unwrap();
    accept_restored(&database.url(), None, Millis(LENGTH), "alice", &clock)
        .await
        .unwrap();
    let first = left().await.unwrap();
    assert!(first <= LENGTH && first > LENGTH - 60_000, "{first}");
    let since = |moved: &str| {
        database.query(&format!(
            "UPDATE fencepost.ground SET quiet_since = clock_timestamp() {moved}"
        ))
    };
    since("- interval '50 minutes'");
    let later = left().await.unwrap();
    assert!(later <= 600_000 && later > 540_000, "{later}");
    since("- interval '2 hours'");
    assert_eq!(left().await, Some(0));
    since("+ interval '2 days'");
    assert_eq!(left().await, Some(LENGTH));
}
