//! Pages of the file that are not as they were written, beneath an open register.

use super::formats::lies_here;
use super::*;
use crate::store::sqlite::damage::is_damage;

/// Whoever meets damage, nothing is written or admitted any more.
#[tokio::test]
async fn damage_that_a_reader_meets_poisons() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    opening.complete("a").await;
    opening.close().await;
    let identities = identities(&dir);
    let opening = opened(&dir).await;
    // Both the writer and the readers know the tables; no reader has looked an operation up.
    spoil(&dir, identities, |page| page[2048..].fill(0));
    let met = opening.backend.peek(&key("a"), None).await;
    assert!(matches!(met, Err(StoreError::Corrupt(_))), "{met:?}");
    let ready = opening.backend.ready().await;
    assert!(matches!(ready, Err(StoreError::Poisoned(_))), "{ready:?}");
    let later = opening.admit(admit("b", INSTANCE)).await;
    assert!(matches!(later, Err(StoreError::Poisoned(_))));
    let tended = opening.backend.tend().await;
    assert!(matches!(tended, Err(StoreError::Poisoned(_))));
    let before = fs::read(dir.path().join("register.db")).unwrap();
    opening.backend.close().await.unwrap();
    let after = fs::read(dir.path().join("register.db")).unwrap();
    assert!(before == after, "a damaged file is left alone");
}

/// The page by which operations are found.
fn identities(dir: &TempDir) -> u32 {
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'locators'";
    by_hand(dir).query_row(root, [], |row| row.get(0)).unwrap()
}

/// An index page that has lost its half is no error to SQLite: "never seen", it would say.
#[tokio::test]
async fn damage_that_the_writer_meets_poisons() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    opening.complete("a").await;
    pad(&dir, 40);
    opening.close().await;
    let identities = identities(&dir);
    // Too large to be read at the start.
    let opening = opened(&dir).await;
    spoil(&dir, identities, |page| page[2048..].fill(0));
    let met = opening.admit(admit("a", INSTANCE)).await;
    let Err(StoreError::Poisoned(why)) = met else {
        panic!("{met:?}");
    };
    assert!(why.contains("checksum does not match"), "{why}");
    let ready = opening.backend.ready().await;
    assert!(matches!(ready, Err(StoreError::Poisoned(_))), "{ready:?}");
}

/// Changes a page of the file, counted from one, beneath whoever has it open.
fn spoil(dir: &TempDir, page: u32, change: impl FnOnce(&mut [u8])) {
    use std::os::unix::fs::FileExt;
    let path = dir.path().join("register.db");
    let file = fs::OpenOptions::new().read(true).write(true).open(path);
    let file = file.unwrap();
    let mut content = [0; 4096];
    let at = u64::from(page - 1) * 4096;
    file.read_exact_at(&mut content, at).unwrap();
    change(&mut content);
    file.write_all_at(&content, at).unwrap();
    // Closing it would take the process's locks on the file away.
    std::mem::forget(file);
}

/// As a register of more than a few pages, and of more than a connection keeps in memory.
fn pad(dir: &TempDir, mebibytes: u32) {
    padded(&by_hand(dir), mebibytes);
}

fn padded(connection: &Connection, mebibytes: u32) {
    let padding = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                   INSERT INTO history (wall_ms, text) SELECT i, hex(randomblob(512)) FROM n";
    connection.execute(padding, [mebibytes * 1024]).unwrap();
}

/// Wherever a byte is another one than was written, in a page of whichever kind, it is found by whoever
/// reads that page.
#[tokio::test]
async fn a_byte_that_changed_is_found_wherever_it_is() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    for number in 0..40 {
        opening.complete(&format!("op-{number}")).await;
    }
    opening.close().await;
    let path = dir.path().join("register.db");
    let found = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let flaw = schema::open_reader(&path)
            .and_then(|reader| soundness::flaw(&reader, schema::Found::Format(schema::FORMAT)));
        match flaw {
            Ok(flaw) => flaw.is_some_and(|words| !words.is_empty()),
            Err(error) => {
                assert!(is_damage(&error), "not for its damage: {error:?}");
                true
            }
        }
    };
    let whole = fs::read(&path).unwrap();
    assert!(!found(&whole));
    let pages = whole.len() / 4096;
    assert!(pages > 15, "{pages}");
    for page in 0..pages {
        let head = if page == 0 { 100 } else { 8 };
        let sampled = (0..head).chain((head..4088).step_by(173)).chain(4088..4096);
        for at in sampled {
            let mut spoilt = whole.clone();
            spoilt[page * 4096 + at] ^= 0x20;
            assert!(found(&spoilt), "page {page}, byte {at}");
        }
    }
}

/// The byte by which a file says that its pages carry checksums carries none before the first page is read.
#[tokio::test]
async fn a_register_that_says_it_has_no_checksums_is_refused() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    opening.complete("a").await;
    opening.close().await;
    let path = dir.path().join("register.db");
    let without = dir.path().join("without");
    let written_anew = format!("VACUUM INTO 'file:{}?reserve=0'", without.display());
    by_hand(&dir).execute_batch(&written_anew).unwrap();
    fs::rename(&without, &path).unwrap();
    lies_here(&dir);
    let refused = refused(&dir).await;
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused:?}");
    let copied = backup(dir.path(), &without, &Clock::system().unwrap());
    assert!(copied.is_err(), "{copied:?}");
}

/// An open register's first page is damaged where it says so.
#[tokio::test]
async fn checksums_that_are_on_stay_on() {
    let dir = TempDir::new().unwrap();
    opened(&dir).await.close().await;
    let reader = schema::open_reader(&dir.path().join("register.db")).unwrap();
    let count = "SELECT count(*) FROM sqlite_schema";
    let counted = |reader: &Connection| reader.query_row(count, [], |row| row.get::<_, i64>(0));
    counted(&reader).unwrap();
    // What the connection remembers of the file is outdated by this.
    pad(&dir, 1);
    by_hand(&dir)
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    spoil(&dir, 1, |page| page[20] = 0);
    let error = counted(&reader).unwrap_err();
    assert!(checksums::is_mismatch(&error), "{error:?}");
}

/// Before its first transaction an older version had written the head of a file, without room for
/// checksums.
#[tokio::test]
async fn a_file_that_was_only_begun_is_made_a_register_with_checksums() {
    let dir = TempDir::new().unwrap();
    by_hand(&dir)
        .execute_batch("PRAGMA journal_mode = WAL")
        .unwrap();
    assert!(fs::metadata(dir.path().join("register.db")).unwrap().len() > 0);
    let opening = opened(&dir).await;
    opening.complete("a").await;
    opening.close().await;
    checksums::demand(&by_hand(&dir)).unwrap();
    opened(&dir).await;
}

/// It is larger than what is kept in memory of it while it is made, in whichever order its pages are
/// written.
#[tokio::test]
async fn a_large_register_is_given_checksums_and_its_copy_has_them() {
    let dir = TempDir::new().unwrap();
    formats::format_3(&dir);
    pad(&dir, 24);
    let opening = opened(&dir).await;
    let copy = dir.path().join("copy");
    // It stays in the log, where pages carry none.
    let in_the_log = by_hand(&dir);
    in_the_log
        .pragma_update(None, "wal_autocheckpoint", 0)
        .unwrap();
    padded(&in_the_log, 12);
    let log = fs::metadata(dir.path().join("register.db-wal")).unwrap();
    assert!(log.len() > 12 << 20);
    let copied = backup(dir.path(), &copy, &Clock::system().unwrap()).unwrap();
    assert!(copied.bytes > 36 << 20);
    opening.close().await;
    for path in [&copy, &dir.path().join("register.db")] {
        let found = schema::open_reader(path).unwrap();
        checksums::demand(&found).unwrap();
        let flaw = soundness::flaw(&found, schema::Found::Format(schema::FORMAT)).unwrap();
        assert_eq!(flaw, None, "{}", path.display());
    }
}

/// A copy that is damaged later is found when it is used.
#[tokio::test]
async fn a_torn_copy_is_refused() {
    let (dir, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let opening = opened(&dir).await;
    opening.complete("a").await;
    let to = elsewhere.path().join("register.db");
    backup(dir.path(), &to, &Clock::system().unwrap()).unwrap();
    fs::copy(dir.path().join("key"), elsewhere.path().join("key")).unwrap();
    let pages = u32::try_from(fs::metadata(&to).unwrap().len() / 4096).unwrap();
    spoil(&elsewhere, pages, |page| page[2048..].fill(0));
    let refused = refused(&elsewhere).await;
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused:?}");
}

/// Somebody else has the file open: it is not taken from beneath them, and nothing was changed.
#[tokio::test]
async fn a_file_that_somebody_has_open_is_not_written_anew() {
    let dir = TempDir::new().unwrap();
    formats::format_3(&dir);
    let holder = by_hand(&dir);
    holder
        .execute_batch("PRAGMA journal_mode = WAL; BEGIN; SELECT * FROM register")
        .unwrap();
    assert!(matches!(refused(&dir).await, OpenError::InUse { .. }));
    assert!(!dir.path().join("register.db.new").exists());
    let format: u32 = holder
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(format, schema::BARE);
    drop(holder);
    opened(&dir).await.complete("new").await;
}

/// What was damaged before there were checksums must not be given good ones.
#[tokio::test]
async fn a_large_register_that_is_damaged_is_not_given_checksums() {
    let dir = TempDir::new().unwrap();
    formats::format_3(&dir);
    pad(&dir, 40);
    by_hand(&dir)
        .execute("DELETE FROM locators WHERE sequence = 3", [])
        .unwrap();
    let refused = refused(&dir).await;
    let OpenError::Damaged { found, .. } = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(found, "operation 3 is not found by its identity");
    assert!(!dir.path().join("register.db.new").exists());
}
