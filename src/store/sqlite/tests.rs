//! What only the file can get wrong: owners, formats, keys, failed commits, decay.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;

use super::ground::Ground;
use super::sabotage::CommitFault;
use super::*;
use crate::clock::Clock;
use crate::protocol::command::{Admit, Ruling};
use crate::protocol::ids::{Incarnation, InstanceId};
use crate::protocol::policy::IfTwin;
use crate::protocol::time::Millis;
use crate::store::codec;
use crate::store::conformance::commands::{self as c, admit, again, applied, fenced, key};
use crate::store::{Admitted, Register};

mod backup;
mod damage;
mod formats;
mod full;
mod keys;
mod locators;
mod memory;
mod moving;
mod opening;
mod remembered;
mod restore;

const INSTANCE: InstanceId = InstanceId(1);

struct Opening {
    register: Register,
    backend: Arc<SqliteBackend>,
}

async fn open_as(dir: &Path, instance: InstanceId) -> Result<Opening, OpenError> {
    opened_with(options(dir), owner(instance)).await
}

async fn opened_with(options: Options, owner: Owner) -> Result<Opening, OpenError> {
    let Opened { backend, .. } = open(options, owner).await?;
    Ok(Opening {
        register: Register::new(backend.clone()),
        backend,
    })
}

/// Folders of tests may be on anything.
fn options(dir: &Path) -> Options {
    Options {
        path: dir.to_owned(),
        create: true,
        ephemeral: true,
        keys: Vec::new(),
        remember: Remember {
            answers: Millis(7 * 86_400_000),
            identities: Millis(400 * 86_400_000),
        },
        witness: None,
        restored: Restored::Refuse,
        reserve: 0,
    }
}

fn owner(instance: InstanceId) -> Owner {
    Owner {
        instance,
        clock: Clock::system().unwrap(),
        committed: Arc::new(|_, _| {}),
    }
}

async fn opened(dir: &TempDir) -> Opening {
    open_as(dir.path(), INSTANCE).await.unwrap()
}

async fn refused(dir: &TempDir) -> OpenError {
    match open_as(dir.path(), INSTANCE).await {
        Ok(_) => panic!("opened"),
        Err(error) => error,
    }
}

impl Opening {
    async fn admit(&self, admit: Admit) -> Result<Admitted, StoreError> {
        self.register.admit(admit).await
    }

    async fn complete(&self, id: &str) {
        let admitted = self.admit(admit(id, INSTANCE)).await.unwrap();
        let receipt = admitted.permit.unwrap().finish(applied());
        self.register.record(&receipt, c::at(9)).await.unwrap();
    }

    async fn close(self) {
        self.backend.close().await.unwrap();
    }
}

/// As an operator with `sqlite3` would, who wrote checksums.
fn by_hand(dir: &TempDir) -> Connection {
    compare_checksums().unwrap();
    let connection = Connection::open(dir.path().join("register.db")).unwrap();
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    connection
}

#[tokio::test]
async fn a_register_is_never_given_another_key() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    opening.complete("a").await;
    opening.close().await;
    let path = dir.path().join("key");
    let kept = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(matches!(refused(&dir).await, OpenError::KeyMissing { .. }));
    assert!(!path.exists());
    fs::write(&path, [7; 32]).unwrap();
    assert!(matches!(refused(&dir).await, OpenError::WrongKey { .. }));
    fs::write(&path, [7; 31]).unwrap();
    assert!(matches!(
        refused(&dir).await,
        OpenError::KeyMalformed { .. }
    ));
    fs::write(&path, [7; 33]).unwrap();
    assert!(matches!(
        refused(&dir).await,
        OpenError::KeyMalformed { .. }
    ));
    fs::write(&path, kept).unwrap();
    opened(&dir).await;
}

#[tokio::test]
async fn keys_of_one_register_are_the_same_at_every_start() {
    let dir = TempDir::new().unwrap();
    let open = |dir: &TempDir| open(options(dir.path()), owner(INSTANCE));
    let first = open(&dir).await.unwrap();
    let fingerprint = first.sealer.fingerprint_key();
    first.backend.close().await.unwrap();
    let second = open(&dir).await.unwrap();
    assert_eq!(second.sealer.fingerprint_key(), fingerprint);
    let elsewhere = TempDir::new().unwrap();
    let other = open(&elsewhere).await.unwrap();
    assert_ne!(other.sealer.fingerprint_key(), fingerprint);
}

#[tokio::test]
async fn customer_content_is_not_in_the_clear() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    opening.complete("completed").await;
    opening.admit(admit("intended", INSTANCE)).await.unwrap();
    let mut bytes = Vec::new();
    for entry in fs::read_dir(dir.path()).unwrap() {
        bytes.extend(fs::read(entry.unwrap().path()).unwrap());
    }
    let holds = |text: &str| bytes.windows(text.len()).any(|at| at == text.as_bytes());
    assert!(
        holds("completed"),
        "an operator finds operations by their id"
    );
    for secret in [
        "sk_live_very_secret",
        "4242424242424242",
        "charged",
        "set-cookie",
    ] {
        assert!(!holds(secret), "{secret}");
    }
}

/// The commit failed: nobody knows, nothing more is written, reading goes on.
#[tokio::test]
async fn a_failed_commit_poisons() {
    for fault in [CommitFault::Lost, CommitFault::Happened] {
        let dir = TempDir::new().unwrap();
        let opening = opened(&dir).await;
        opening.complete("before").await;
        opening.backend.sabotage.arm(fault);
        let unknown = opening.admit(admit("unknown", INSTANCE)).await;
        assert!(matches!(unknown, Err(StoreError::CommitUnknown(_))));
        let files = |name: &str| fs::read(dir.path().join(name)).unwrap();
        let left = (files("register.db"), files("register.db-wal"));
        for _ in 0..2 {
            let later = opening.admit(admit("later", INSTANCE)).await;
            assert!(matches!(later, Err(StoreError::Poisoned(_))));
            let ready = opening.backend.ready().await;
            assert!(matches!(ready, Err(StoreError::Poisoned(_))));
        }
        let read = opening.backend.operation(&key("before"), false).await;
        assert!(read.unwrap().is_some());
        opening.close().await;
        assert!(left == (files("register.db"), files("register.db-wal")));

        let next = open_as(dir.path(), InstanceId(2)).await.unwrap();
        let repeat = next.admit(admit("unknown", InstanceId(2))).await.unwrap();
        match (fault, repeat.admission.ruling) {
            (CommitFault::Lost, Ruling::Granted(_)) => {}
            // It reappears, and is UNCERTAIN although nothing was sent.
            (CommitFault::Happened, Ruling::Join { uncertain, .. }) => assert!(uncertain),
            (fault, ruling) => panic!("{fault:?}: {ruling:?}"),
        }
        next.backend.ready().await.unwrap();
    }
}

/// A transaction that fails before its COMMIT is known not to have happened, and poisons as well.
#[tokio::test]
async fn a_failed_write_poisons() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    by_hand(&dir)
        .execute_batch(
            "CREATE TRIGGER disk_full BEFORE INSERT ON requests
             BEGIN SELECT RAISE(ABORT, 'disk full'); END",
        )
        .unwrap();
    let failed = opening.admit(fenced("a", "r", "1", INSTANCE)).await;
    let Err(StoreError::Poisoned(why)) = failed else {
        panic!("{failed:?}");
    };
    assert!(why.contains("disk full"));
    let resource = opening.backend.resource(&c::resource_key("r")).await;
    assert_eq!(resource.unwrap(), None, "half of a decision was committed");
    let later = opening.admit(admit("b", INSTANCE)).await;
    assert!(matches!(later, Err(StoreError::Poisoned(_))));
}

#[tokio::test]
async fn a_record_that_decayed_concerns_its_own_operation_only() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    opening.complete("good").await;
    opening.complete("bad").await;
    let changed = by_hand(&dir)
        .execute(
            "UPDATE operations SET record = zeroblob(100) WHERE id = 'bad'",
            [],
        )
        .unwrap();
    assert_eq!(changed, 1);
    let bad = opening.admit(admit("bad", INSTANCE)).await;
    assert!(matches!(bad, Err(StoreError::Corrupt(_))));
    let good = opening.admit(admit("good", INSTANCE)).await.unwrap();
    assert!(matches!(good.admission.ruling, Ruling::Replay { .. }));
    opening.complete("new").await;
}

#[tokio::test]
async fn an_answer_moved_to_another_operation_does_not_open() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    opening.complete("a").await;
    opening.complete("b").await;
    by_hand(&dir)
        .execute(
            "UPDATE operations SET answer =
                 (SELECT answer FROM operations WHERE id = 'a') WHERE id = 'b'",
            [],
        )
        .unwrap();
    let moved = opening.admit(admit("b", INSTANCE)).await;
    assert!(matches!(moved, Err(StoreError::Corrupt(_))));
}

/// Somebody else holds the file: nothing was committed, and nothing is broken.
#[tokio::test]
async fn a_held_file_is_unavailable_for_a_while() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    let holder = by_hand(&dir);
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let held = opening.admit(admit("a", INSTANCE)).await;
    assert!(matches!(held, Err(StoreError::Unavailable(_))));
    holder.execute_batch("ROLLBACK").unwrap();
    opening.complete("a").await;
}

#[tokio::test]
async fn whoever_went_away_before_the_commit_has_withdrawn() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    let holder = by_hand(&dir);
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    // The writer is kept busy with this one.
    let first = opening.backend.ready();
    // This one is queued behind it, and its caller hangs up.
    let hung_up = opening.admit(admit("a", INSTANCE));
    tokio::pin!(first);
    {
        tokio::pin!(hung_up);
        tokio::select! {
            biased;
            _ = &mut first => panic!("the file is held"),
            _ = &mut hung_up => panic!("the file is held"),
            () = tokio::task::yield_now() => {}
        }
    }
    holder.execute_batch("ROLLBACK").unwrap();
    first.await.unwrap();
    opening.backend.ready().await.unwrap();
    let found = opening.backend.operation(&key("a"), false).await.unwrap();
    assert!(found.is_none());
}

/// Whoever asks in somebody's name stays until the answer is there; that somebody may be gone.
#[tokio::test]
async fn whoever_lost_interest_before_the_commit_has_withdrawn() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    let holder = by_hand(&dir);
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let first = opening.backend.ready();
    let (interest, wanted) = crate::store::interest();
    let command = Command::Admit(Box::new(admit("a", INSTANCE)));
    let asked = opening.backend.apply_while(wanted, command);
    tokio::pin!(first, asked);
    tokio::select! {
        biased;
        _ = &mut first => panic!("the file is held"),
        _ = &mut asked => panic!("the file is held"),
        () = tokio::task::yield_now() => {}
    }
    drop(interest);
    holder.execute_batch("ROLLBACK").unwrap();
    first.await.unwrap();
    assert!(matches!(asked.await, Err(StoreError::Unavailable(_))));
    let found = opening.backend.operation(&key("a"), false).await.unwrap();
    assert!(found.is_none());
}

/// Should the operation ever be forgotten, the note must not rise from the dead.
#[tokio::test]
async fn an_operation_takes_the_place_of_a_note() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    let first = opening.admit(fenced("first", "r", "1", INSTANCE)).await;
    opening
        .admit(fenced("twin", "r", "1", INSTANCE))
        .await
        .unwrap();
    let notes = || -> i64 {
        by_hand(&dir)
            .query_row("SELECT count(*) FROM twins", [], |row| row.get(0))
            .unwrap()
    };
    assert_eq!(notes(), 1);
    let receipt = first.unwrap().permit.unwrap().finish(c::unsent());
    opening.register.record(&receipt, c::at(9)).await.unwrap();
    let mut twin = fenced("twin", "r", "1", INSTANCE);
    Arc::make_mut(&mut twin.policy)
        .fence
        .as_mut()
        .unwrap()
        .if_twin = IfTwin::Send;
    assert!(opening.admit(twin).await.unwrap().permit.is_some());
    assert_eq!(notes(), 0);
}

/// An id that contains the generation is another operation in another incarnation.
#[tokio::test]
async fn the_incarnation_is_filled_in_from_the_fence() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    let mut admit = fenced("a", "r", "1", INSTANCE);
    admit.follows_incarnation = true;
    let admitted = opening.admit(admit.clone()).await.unwrap();
    let receipt = admitted.permit.unwrap().finish(applied());
    opening.register.record(&receipt, c::at(9)).await.unwrap();
    let resource = c::resource_key("r");
    let mut fence = opening
        .backend
        .resource(&resource)
        .await
        .unwrap()
        .unwrap()
        .fence;
    fence.incarnation = Incarnation(2);
    by_hand(&dir)
        .execute(
            "UPDATE fences SET record = ?1",
            [codec::encode_fence(&fence)],
        )
        .unwrap();
    let peek = || opening.backend.peek(&admit.key, Some(&resource));
    assert_eq!(peek().await.unwrap(), None);
    let admitted = opening.admit(again(&admit)).await.unwrap();
    assert_eq!(admitted.admission.key.incarnation, Incarnation(2));
    let receipt = admitted.permit.unwrap().finish(applied());
    opening.register.record(&receipt, c::at(9)).await.unwrap();
    let repeat = opening.admit(again(&admit)).await.unwrap();
    assert!(matches!(repeat.admission.ruling, Ruling::Replay { .. }));
    assert!(peek().await.unwrap().is_some());
}

#[tokio::test]
async fn closing_answers_what_was_queued_and_nothing_after() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    let request = admit("a", INSTANCE);
    let (queued, closed) = tokio::join!(opening.admit(request.clone()), opening.backend.close());
    closed.unwrap();
    assert!(queued.unwrap().permit.is_some());
    let late = opening.admit(again(&request)).await;
    assert!(matches!(late, Err(StoreError::Unavailable(_))));
    opening.backend.close().await.unwrap();
    assert!(opened(&dir).await.backend.ready().await.is_ok());
}

#[tokio::test]
async fn the_log_does_not_grow_without_bound() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    let log = dir.path().join("register.db-wal");
    let mut most = 0;
    for round in 0..24 {
        let admissions = (0..64).map(|n| format!("op-{round}-{n}"));
        let pending: Vec<_> = admissions
            .map(|id| {
                let mut admit = admit(&id, INSTANCE);
                let large = bytes::Bytes::from(vec![7; 32_768]);
                Arc::make_mut(&mut admit.request).body = large;
                opening.backend.apply(Command::Admit(Box::new(admit)))
            })
            .collect();
        for pending in pending {
            pending.await.unwrap();
        }
        most = most.max(fs::metadata(&log).unwrap().len());
    }
    let file = fs::metadata(dir.path().join("register.db")).unwrap().len();
    assert!(file > 32 << 20, "nothing was moved to the file: {file}");
    assert!(most < 24 << 20, "the log has grown to {most}");
}

/// E11.
#[tokio::test]
async fn durability_is_as_promised() {
    let dir = TempDir::new().unwrap();
    let (ground, path) = {
        let ground = Ground::take(dir.path(), true).unwrap();
        let path = ground.database().unwrap();
        (ground, path)
    };
    let (connection, found) = schema::open_writer(&path).unwrap();
    assert_eq!(found, schema::Found::Nothing);
    let pragma = |name: &str| -> String {
        connection
            .pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0))
            .map(|value| format!("{value:?}"))
            .unwrap()
    };
    assert_eq!(pragma("journal_mode"), "Text(\"wal\")");
    assert_eq!(pragma("synchronous"), "Integer(2)");
    drop(ground);
}
