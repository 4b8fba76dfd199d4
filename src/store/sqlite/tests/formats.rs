//! Registers of earlier formats, as their last version left them.

use super::*;
use crate::protocol::view::Record;

const FORMAT_1: &str = include_str!("../fixtures/format1.sql");
const FORMAT_2: &str = include_str!("../fixtures/format2.sql");
const FORMAT_3: &str = include_str!("../fixtures/format3.sql");

fn format_1(dir: &TempDir) {
    made_by(FORMAT_1, dir);
}

fn format_2(dir: &TempDir) {
    made_by(FORMAT_2, dir);
    lies_here(dir);
}

pub(super) fn format_3(dir: &TempDir) {
    made_by(FORMAT_3, dir);
    lies_here(dir);
    locate_as_tests_do(dir);
}

/// Tests keep a bit of each half of a locator (`locator`), and the register kept all.
fn locate_as_tests_do(dir: &TempDir) {
    let register = by_hand(dir);
    let mut operations = register
        .prepare("SELECT id, upstream, principal, incarnation, tenant, sequence FROM operations")
        .unwrap();
    let located: Vec<[i64; 2]> = operations
        .query_map([], |row| Ok([locator::of_row(row, 0)?, row.get(5)?]))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(located.len(), 6);
    register.execute("DELETE FROM locators", []).unwrap();
    for entry in located {
        register
            .execute("INSERT INTO locators VALUES (?1, ?2)", entry)
            .unwrap();
    }
}

fn made_by(sql: &str, dir: &TempDir) {
    fs::write(dir.path().join("key"), [7; 32]).unwrap();
    let file = dir.path().join("register.db");
    fs::write(&file, b"").unwrap();
    by_hand(dir).execute_batch(sql).unwrap();
}

/// Since format 2 a register knows its place.
pub(super) fn lies_here(dir: &TempDir) {
    let place = Ground::place(&dir.path().join("register.db")).unwrap();
    by_hand(dir)
        .execute(
            "UPDATE register SET inode = ?1, device = ?2",
            [place.inode.cast_signed(), place.device.cast_signed()],
        )
        .unwrap();
}

fn columns(connection: &Connection) -> Vec<String> {
    let mut tables = connection
        .prepare(
            "SELECT m.type, m.name, i.name, i.type, i.\"notnull\", i.pk
             FROM sqlite_schema m LEFT JOIN pragma_table_xinfo(m.name) i
             WHERE m.name NOT LIKE 'sqlite_%' ORDER BY m.name, i.cid",
        )
        .unwrap();
    let rows = tables.query_map([], |row| {
        let text = |index: usize| -> rusqlite::Result<String> {
            let value: rusqlite::types::Value = row.get(index)?;
            Ok(format!("{value:?}"))
        };
        Ok((0..6)
            .map(|index| text(index).unwrap())
            .collect::<Vec<_>>()
            .join(" "))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

#[tokio::test]
async fn format_1_is_brought_up_to_date_with_all_that_it_knew() {
    let dir = TempDir::new().unwrap();
    format_1(&dir);
    assert_all_is_known(&dir).await;
}

#[tokio::test]
async fn format_2_is_brought_up_to_date_with_all_that_it_knew() {
    let dir = TempDir::new().unwrap();
    format_2(&dir);
    let ended = "SELECT group_concat(ended) FROM operations";
    let ends = |dir| by_hand(dir).query_row(ended, [], |row| row.get::<_, String>(0));
    let before = ends(&dir).unwrap();
    opened(&dir).await.close().await;
    assert_eq!(ends(&dir).unwrap(), before);
    assert_all_is_known(&dir).await;
}

#[tokio::test]
async fn format_3_is_brought_up_to_date_with_all_that_it_knew() {
    let dir = TempDir::new().unwrap();
    format_3(&dir);
    assert_all_is_known(&dir).await;
}

/// All are of one life.
async fn assert_all_is_known(dir: &TempDir) {
    let instance = InstanceId(2);
    let opening = open_as(dir.path(), instance).await.unwrap();
    for (id, expected) in [
        ("completed", "COMPLETED"),
        ("refused", "COMPLETED"),
        ("not-applied", "NOT_APPLIED"),
        ("applied", "COMPLETED"),
        ("first", "UNCERTAIN"),
        ("intended", "INTENDED"),
    ] {
        let found = opening.backend.operation(&key(id), true).await.unwrap();
        let found = found.unwrap_or_else(|| panic!("{id}"));
        assert_eq!(found.operation.state.word(), expected, "{id}");
        assert_eq!(
            found.request.is_some(),
            found.operation.state.is_unsettled()
        );
    }
    let replayed = opening.admit(admit("completed", instance)).await.unwrap();
    let Ruling::Replay { completion, .. } = replayed.admission.ruling else {
        panic!("not replayed");
    };
    assert_eq!(completion.answer, Some(c::answer(200)));
    let twin = opening.backend.peek(&key("twin"), None).await.unwrap();
    assert!(matches!(twin, Some(Record::Twin(note)) if note.first == key("first")));
    let first: i64 = by_hand(dir)
        .query_row(
            "SELECT o.sequence FROM twins t JOIN operations o ON o.sequence = t.first
             WHERE o.id = 'first'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert!(first > 0);
    let resource = opening.backend.resource(&c::resource_key("r")).await;
    let resource = resource.unwrap().unwrap();
    assert_eq!(resource.last_completed.unwrap().key, key("applied"));
    opening.complete("new").await;
    opening.close().await;
    opened(dir).await;
    assert_sound(dir);
}

/// No page is lost, every operation is found by its identity, and what the index took is free.
fn assert_sound(dir: &TempDir) {
    let found = schema::Found::Format(schema::FORMAT);
    assert_eq!(soundness::flaw(&by_hand(dir), found).unwrap(), None);
}

/// Whoever migrates has the very tables that are made today.
#[tokio::test]
async fn a_migrated_register_has_the_tables_of_a_new_one() {
    let new = TempDir::new().unwrap();
    opened(&new).await.close().await;
    for make in [format_1, format_2, format_3] {
        let old = TempDir::new().unwrap();
        make(&old);
        opened(&old).await.close().await;
        assert_eq!(columns(&by_hand(&old)), columns(&by_hand(&new)));
        let connection = by_hand(&old);
        let format: u32 = connection
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .unwrap();
        assert_eq!(format, schema::FORMAT);
        let constraints = "SELECT count(*) FROM sqlite_schema
                           WHERE tbl_name = 'operations' AND sql LIKE '%UNIQUE%'
                              OR name LIKE 'sqlite_autoindex_operations%'";
        let constraints: i64 = connection
            .query_row(constraints, [], |row| row.get(0))
            .unwrap();
        assert_eq!(constraints, 0);
    }
}

/// Its fingerprints were made with the key it was made with, whichever seals now.
#[tokio::test]
async fn fingerprints_of_format_1_stay_comparable() {
    use crate::store::seal::{MasterKey, Sealer};
    let dir = TempDir::new().unwrap();
    format_1(&dir);
    let made_with = Sealer::new(&MasterKey::new([7; 32]), &[]).unwrap();
    let asked = Options {
        keys: vec![MasterKey::new([8; 32])],
        ..options(dir.path())
    };
    let opened = open(asked, owner(INSTANCE)).await.unwrap();
    assert_eq!(opened.sealer.fingerprint_key(), made_with.fingerprint_key());
    assert_ne!(opened.sealer.key_id(), made_with.key_id());
}

/// A migration that fails leaves the register as it was.
#[tokio::test]
async fn a_migration_that_fails_changes_nothing() {
    let dir = TempDir::new().unwrap();
    format_1(&dir);
    by_hand(&dir)
        .execute("UPDATE twins SET record = zeroblob(9)", [])
        .unwrap();
    let before = columns(&by_hand(&dir));
    assert!(matches!(refused(&dir).await, OpenError::Migration { .. }));
    assert_eq!(columns(&by_hand(&dir)), before);
    // With another key it is refused before anything is touched.
    fs::write(dir.path().join("key"), [9; 32]).unwrap();
    assert!(matches!(refused(&dir).await, OpenError::WrongKey { .. }));
}

/// Late, when everything else was written: its identities are kept apart by something unknown.
#[tokio::test]
async fn a_register_of_format_2_that_nobody_made_is_left_as_it_is() {
    let spaced = FORMAT_2.replace("UNIQUE (id, upstream", "UNIQUE (id,upstream");
    let dir = TempDir::new().unwrap();
    made_by(&spaced, &dir);
    lies_here(&dir);
    assert_is_not_migrated(&dir, "not as it was made").await;
}

/// As an index that had lost an entry would have let it happen.
#[tokio::test]
async fn an_identity_that_stands_twice_is_found_before_its_index_is_dropped() {
    let constraint = ",\n    UNIQUE (id, upstream, principal, incarnation, tenant)\n) STRICT;";
    assert!(FORMAT_2.contains(constraint));
    let dir = TempDir::new().unwrap();
    made_by(&FORMAT_2.replacen(constraint, ") STRICT;", 1), &dir);
    lies_here(&dir);
    let again = "CREATE TEMP TABLE again AS SELECT * FROM operations WHERE id = 'completed';
                 UPDATE again SET sequence = 77;
                 INSERT INTO operations SELECT * FROM again";
    by_hand(&dir).execute_batch(again).unwrap();
    assert_is_not_migrated(&dir, "operations 1 and 77 have one identity").await;
}

async fn assert_is_not_migrated(dir: &TempDir, why: &str) {
    let before = columns(&by_hand(dir));
    match refused(dir).await {
        OpenError::Migration { source, .. } => {
            assert!(source.to_string().contains(why), "{source}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(columns(&by_hand(dir)), before);
    let format: u32 = by_hand(dir)
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(format, 2);
}

#[tokio::test]
async fn whoever_only_looks_or_copies_does_not_migrate() {
    let earlier = [(format_1 as fn(&TempDir), 1), (format_2, 2), (format_3, 3)];
    for (make, format) in earlier {
        assert_is_not_migrated_by_looking(make, format).await;
    }
}

async fn assert_is_not_migrated_by_looking(make: fn(&TempDir), format: u32) {
    let dir = TempDir::new().unwrap();
    make(&dir);
    let before = columns(&by_hand(&dir));
    let looking = Options {
        restored: Restored::Overlook,
        create: false,
        ..options(dir.path())
    };
    let looked = opened_with(looking, owner(INSTANCE)).await.map(|_| ());
    assert!(matches!(looked, Err(OpenError::Outdated { found, .. }) if found == format));
    let to = dir.path().join("copy");
    let copied = backup(dir.path(), &to, &Clock::system().unwrap());
    assert!(matches!(
        copied,
        Err(BackupError::Register(OpenError::Outdated { .. }))
    ));
    assert_eq!(columns(&by_hand(&dir)), before);
}

/// An older backup of before the migration is noticed like any other.
#[tokio::test]
async fn a_register_of_format_1_that_was_put_back_is_noticed() {
    let dir = TempDir::new().unwrap();
    format_1(&dir);
    opened(&dir).await.close().await;
    for name in ["register.db", "register.db-wal", "register.db-shm"] {
        let _ = fs::remove_file(dir.path().join(name));
    }
    format_1(&dir);
    match refused(&dir).await {
        OpenError::Restored {
            doubt: Doubt::Behind { .. },
            ..
        } => {}
        other => panic!("{other:?}"),
    }
}

/// A register of before leases gets what lists them when it is opened to be used, and works without where it is only
/// looked at. The list is found by the index, however many have none.
#[tokio::test]
async fn a_register_of_before_leases_is_completed() {
    let dir = TempDir::new().unwrap();
    opened(&dir).await.close().await;
    let whole = columns(&by_hand(&dir));
    let before = "DROP INDEX leased_in_order; ALTER TABLE fences DROP COLUMN leased";
    by_hand(&dir).execute_batch(before).unwrap();
    let looking = Options {
        restored: Restored::Overlook,
        create: false,
        ..options(dir.path())
    };
    let looked = opened_with(looking, owner(INSTANCE)).await.unwrap();
    assert_eq!(looked.backend.leased(None, 10).await, Ok(vec![]));
    looked.close().await;
    assert_ne!(columns(&by_hand(&dir)), whole);
    opened(&dir).await.close().await;
    assert_eq!(columns(&by_hand(&dir)), whole);
    for sql in [read::LEASED, read::LEASED_AFTER] {
        let connection = by_hand(&dir);
        let mut plan = connection
            .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
            .unwrap();
        let plan: Vec<String> = plan
            .query_map(
                rusqlite::params_from_iter(if sql == read::LEASED {
                    vec!["10"]
                } else {
                    vec!["10", "r"]
                }),
                |row| row.get(3),
            )
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let plan = plan.join("\n");
        assert!(plan.contains("USING INDEX leased_in_order"), "{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
}
