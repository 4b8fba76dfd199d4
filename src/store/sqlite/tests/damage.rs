//! Pages of the file that are not as they were written, beneath an open register.

use super::*;

/// Whoever meets damage, nothing is written or admitted any more.
#[tokio::test]
async fn damage_that_a_reader_meets_poisons() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    opening.complete("a").await;
    opening.close().await;
    let root: u32 = by_hand(&dir)
        .query_row(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'locators'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    let opening = opened(&dir).await;
    // Both the writer and the readers know the tables; nobody has looked an operation up.
    spoil(&dir, root, |page| page.fill(0xFF));
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
