//! What a shared register says of itself to the people who look after it.

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
