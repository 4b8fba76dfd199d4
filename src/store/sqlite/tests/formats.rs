//! Registers of earlier formats, as their last version left them.

use super::*;
use crate::protocol::view::Record;

const FORMAT_1: &str = include_str!("../fixtures/format1.sql");

fn format_1(dir: &TempDir) {
    fs::write(dir.path().join("key"), [7; 32]).unwrap();
    let file = dir.path().join("register.db");
    fs::write(&file, b"").unwrap();
    by_hand(dir).execute_batch(FORMAT_1).unwrap();
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
    let first: i64 = by_hand(&dir)
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
    opened(&dir).await;
}

/// Whoever migrates has the very tables that are made today.
#[tokio::test]
async fn a_migrated_register_has_the_tables_of_a_new_one() {
    let (old, new) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    format_1(&old);
    opened(&old).await.close().await;
    opened(&new).await.close().await;
    assert_eq!(columns(&by_hand(&old)), columns(&by_hand(&new)));
    let format: u32 = by_hand(&old)
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(format, schema::FORMAT);
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

#[tokio::test]
async fn whoever_only_looks_or_copies_does_not_migrate() {
    let dir = TempDir::new().unwrap();
    format_1(&dir);
    let before = columns(&by_hand(&dir));
    let looking = Options {
        restored: Restored::Overlook,
        create: false,
        ..options(dir.path())
    };
    let looked = opened_with(looking, owner(INSTANCE)).await.map(|_| ());
    assert!(matches!(looked, Err(OpenError::Outdated { found: 1, .. })));
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
