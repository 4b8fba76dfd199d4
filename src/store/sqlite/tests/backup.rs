//! Copies taken while the register is in use, and what becomes of them.

use super::*;

fn copy_to(dir: &TempDir, to: &Path) -> Result<Copied, BackupError> {
    backup(dir.path(), to, &Clock::system().unwrap())
}

/// What the copy holds is one state of the register: of what was committed one after the other there
/// is no later one without the earlier ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_taken_under_traffic_is_whole_and_noticed_when_it_is_used() {
    let (dir, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let opening = opened(&dir).await;
    for number in 0..50 {
        opening.complete(&format!("op-{number}")).await;
    }
    let to = elsewhere.path().join("register.db");
    let (from, target) = (dir.path().to_owned(), to.clone());
    let copying =
        tokio::task::spawn_blocking(move || backup(&from, &target, &Clock::system().unwrap()));
    let mut number = 50;
    while !copying.is_finished() || number < 60 {
        opening.complete(&format!("op-{number}")).await;
        number += 1;
    }
    let copied = copying.await.unwrap().unwrap();
    opening.close().await;
    let mode = fs::metadata(&to).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode, fs::metadata(&to).unwrap().len()),
        (0o600, copied.bytes)
    );
    let names: Vec<_> = fs::read_dir(elsewhere.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");

    fs::copy(dir.path().join("key"), elsewhere.path().join("key")).unwrap();
    assert!(matches!(
        refused(&elsewhere).await,
        OpenError::Restored { .. }
    ));
    // Not even where the witness of the original is.
    fs::copy(dir.path().join("witness"), elsewhere.path().join("witness")).unwrap();
    assert!(matches!(
        refused(&elsewhere).await,
        OpenError::Restored { .. }
    ));
    let asked = Options {
        restored: Restored::Accept { quiet: Millis(0) },
        ..options(elsewhere.path())
    };
    let restored = opened_with(asked, owner(INSTANCE)).await.unwrap();
    let mut missing = false;
    for number in 0..number {
        let id = format!("op-{number}");
        let found = restored.backend.operation(&key(&id), false).await.unwrap();
        assert!(
            found.is_none() || !missing,
            "{id} is there, and not all before it"
        );
        missing |= found.is_none();
        assert!(!missing || number >= 50, "{id} is missing");
    }
    restored.admit(admit("op-0", INSTANCE)).await.unwrap();
}

#[tokio::test]
async fn a_stopped_register_is_copied_as_well() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    opening.complete("a").await;
    opening.close().await;
    for name in ["register.db-wal", "register.db-shm"] {
        let _ = fs::remove_file(dir.path().join(name));
    }
    let to = dir.path().join("copy");
    assert!(copy_to(&dir, &to).unwrap().position > 0);
}

#[tokio::test]
async fn nothing_is_overwritten_and_what_is_no_register_is_not_copied() {
    let (dir, empty) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    opened(&dir).await.close().await;
    let to = dir.path().join("copy");
    fs::write(&to, "precious").unwrap();
    assert!(matches!(copy_to(&dir, &to), Err(BackupError::Taken { .. })));
    assert_eq!(fs::read(&to).unwrap(), b"precious");
    let other = empty.path().join("copy");
    assert!(matches!(
        copy_to(&empty, &other),
        Err(BackupError::Register(OpenError::Missing { .. }))
    ));
    fs::write(
        empty.path().join("register.db"),
        "no database, but long enough",
    )
    .unwrap();
    assert!(matches!(
        copy_to(&empty, &other),
        Err(BackupError::Register(OpenError::Foreign { .. }))
    ));
    assert!(!other.exists());
}
