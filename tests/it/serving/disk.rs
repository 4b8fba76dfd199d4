//! A server whose disk is full.

use crate::servers::{Postgres, Settings};

#[test]
fn a_full_disk_is_reported_and_what_was_committed_is_kept() {
    let server = Postgres::start_with(&Settings::default().on_a_small_disk(128));
    server.query("CREATE TABLE kept AS SELECT 1 AS id");
    server.query("CREATE TABLE grows (filler text)");
    server.fill_disk();

    // Random, so that it is not made small.
    let grow = "INSERT INTO grows SELECT string_agg(md5(random()::text), '') \
         FROM generate_series(1, 1000000) AS it GROUP BY it % 10000";
    let told = server.try_query(grow).unwrap_err();

    let known = ["No space left on device", "File too large"];
    assert!(known.iter().any(|it| told.contains(it)), "{told}");
    assert_eq!(server.query("TABLE kept"), "1");
    server.free_disk();
    server.query("INSERT INTO grows VALUES ('a little')");
    assert_eq!(server.query("SELECT count(*) FROM grows"), "1");
}
