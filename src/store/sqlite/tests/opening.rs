//! Whose a register is, where it may lie, and what is refused as none.

use super::*;

#[tokio::test]
async fn a_second_owner_is_refused_until_the_first_is_gone() {
    let dir = TempDir::new().unwrap();
    let first = opened(&dir).await;
    let error = refused(&dir).await;
    assert!(matches!(error, OpenError::InUse { .. }));
    assert!(error.to_string().contains(dir.path().to_str().unwrap()));
    first.complete("a").await;
    first.close().await;
    let second = opened(&dir).await;
    let ruling = second.admit(admit("a", INSTANCE)).await.unwrap();
    assert!(matches!(ruling.admission.ruling, Ruling::Replay { .. }));
}

/// By a child of the owner's, say, between its fork and its exec.
#[tokio::test]
async fn a_lock_that_is_held_for_a_moment_longer_is_waited_for() {
    use rustix::fs::{FlockOperation, flock};
    let dir = TempDir::new().unwrap();
    let first = opened(&dir).await;
    first.close().await;
    let held = fs::File::open(dir.path().join("lock")).unwrap();
    flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
    let child = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(held);
    });
    opened(&dir).await.complete("a").await;
    child.join().unwrap();
}

#[tokio::test]
async fn a_poisoned_owner_stays_the_owner() {
    let dir = TempDir::new().unwrap();
    let first = opened(&dir).await;
    first.backend.sabotage.arm(CommitFault::Lost);
    first.admit(admit("a", INSTANCE)).await.unwrap_err();
    assert!(matches!(refused(&dir).await, OpenError::InUse { .. }));
}

#[tokio::test]
async fn what_is_made_is_private() {
    let parent = TempDir::new().unwrap();
    let dir = parent.path().join("deep/register");
    let opening = open_as(&dir, INSTANCE).await.unwrap();
    opening.complete("a").await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    let mut names = Vec::new();
    for entry in fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{path:?}");
        names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
    }
    names.sort();
    let expected = [
        "key",
        "lock",
        "register.db",
        "register.db-shm",
        "register.db-wal",
        "witness",
    ];
    assert_eq!(names, expected);
}

/// `/dev/shm` is tmpfs wherever there is one.
#[tokio::test]
async fn a_volatile_file_system_is_refused_unless_declared() {
    let Ok(dir) = TempDir::new_in("/dev/shm") else {
        return;
    };
    let mut asked = options(dir.path());
    asked.ephemeral = false;
    match open(asked, owner(INSTANCE)).await.map(|_| ()) {
        Err(OpenError::Volatile { system, .. }) => assert_eq!(system, "tmpfs"),
        other => panic!("{other:?}"),
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    opened(&dir).await.close().await;
}

#[tokio::test]
async fn a_linked_database_is_refused() {
    let (dir, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let file = elsewhere.path().join("file");
    std::os::unix::fs::symlink(&file, dir.path().join("register.db")).unwrap();
    assert!(matches!(refused(&dir).await, OpenError::Link { .. }));
}

#[tokio::test]
async fn a_newer_format_is_refused_and_left_alone() {
    let dir = TempDir::new().unwrap();
    opened(&dir).await.close().await;
    let future = schema::FORMAT + 1;
    by_hand(&dir)
        .pragma_update(None, "user_version", future)
        .unwrap();
    let error = refused(&dir).await;
    assert!(matches!(error, OpenError::FormatTooNew { found, .. } if found == future));
}

#[tokio::test]
async fn a_file_of_somebody_else_is_refused() {
    let dir = TempDir::new().unwrap();
    by_hand(&dir).execute_batch("CREATE TABLE x (y)").unwrap();
    assert!(matches!(refused(&dir).await, OpenError::Foreign { .. }));
    fs::write(
        dir.path().join("register.db"),
        "not a database at all, but long enough",
    )
    .unwrap();
    assert!(matches!(refused(&dir).await, OpenError::Foreign { .. }));
}
