//! What becomes of a register that was exported to be moved.

use super::*;
use crate::store::moving::MoveError;

fn clock() -> Clock {
    Clock::system().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_moved_register_is_not_used_until_it_is_taken_back() {
    let (dir, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let opening = opened(&dir).await;
    opening.complete("op-1").await;
    let to = elsewhere.path().join("moved.jsonl");
    // It must be stopped.
    let error = export(options(dir.path()), None, &clock(), &to).unwrap_err();
    let in_use = matches!(error, MoveError::Embedded(OpenError::InUse { .. }));
    assert!(in_use && !to.exists(), "{error:?}");
    opening.close().await;
    let moved = export(options(dir.path()), None, &clock(), &to).unwrap();
    assert_eq!((moved.counts.operations, moved.counts.answers), (1, 1));
    let mode = fs::metadata(&to).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode, fs::metadata(&to).unwrap().len()),
        (0o600, moved.bytes)
    );

    assert!(matches!(refused(&dir).await, OpenError::Moved { .. }));
    // Nor one that is copied from it, nor exported once more.
    let copied = backup(dir.path(), &elsewhere.path().join("copy.db"), &clock());
    assert!(copied.is_err(), "{copied:?}");
    let again = export(
        options(dir.path()),
        None,
        &clock(),
        &elsewhere.path().join("2"),
    );
    let moved = matches!(again, Err(MoveError::Embedded(OpenError::Moved { .. })));
    assert!(moved, "{again:?}");

    take_back(dir.path(), &clock()).unwrap();
    let opening = opened(&dir).await;
    let found = opening.backend.operation(&key("op-1"), false).await;
    assert!(found.unwrap().is_some());
    opening.close().await;
    let twice = take_back(dir.path(), &clock());
    assert!(
        matches!(twice, Err(OpenError::NotMoved { .. })),
        "{twice:?}"
    );
    let told: i64 = by_hand(&dir)
        .query_row(
            "SELECT count(*) FROM history WHERE text LIKE 'moved%' OR text LIKE 'taken back%'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(told, 2);
}

/// An export that fails leaves the register in use, and no file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_that_fails_moves_nothing() {
    let (dir, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    opened(&dir).await.close().await;
    let taken = elsewhere.path().join("taken");
    fs::write(&taken, "something else").unwrap();
    let error = export(options(dir.path()), None, &clock(), &taken).unwrap_err();
    assert!(matches!(error, MoveError::Taken { .. }), "{error:?}");
    assert_eq!(fs::read_to_string(&taken).unwrap(), "something else");
    let nowhere = elsewhere.path().join("no/such/directory");
    let error = export(options(dir.path()), None, &clock(), &nowhere).unwrap_err();
    assert!(matches!(error, MoveError::File { .. }), "{error:?}");
    opened(&dir).await.close().await;
}

/// A restored register is a doubtful truth, and is not spread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_register_that_would_not_start_is_not_exported() {
    let (dir, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    opened(&dir).await.close().await;
    fs::remove_file(dir.path().join("witness")).unwrap();
    let to = elsewhere.path().join("moved.jsonl");
    let error = export(options(dir.path()), None, &clock(), &to).unwrap_err();
    let restored = matches!(error, MoveError::Embedded(OpenError::Restored { .. }));
    assert!(restored && !to.exists(), "{error:?}");
    // One that was accepted waits first.
    let asked = Options {
        restored: Restored::Accept {
            quiet: Millis(3_600_000),
        },
        ..options(dir.path())
    };
    let opening = opened_with(asked, owner(INSTANCE)).await.unwrap();
    opening.close().await;
    let error = export(options(dir.path()), None, &clock(), &to).unwrap_err();
    assert!(matches!(error, MoveError::Quiet { .. }), "{error:?}");
}
