//! Registers that were restored, copied or lost are noticed; those that merely crashed are not.

use super::*;
use crate::clock::Manual;
use crate::protocol::ids::{AcquisitionId, FencingToken, TokenSource};
use crate::protocol::lease::{LeaseReply, Leasing, OWN_SOURCE, Wish};
use crate::protocol::rejection::Rejection;
use crate::store::NewEpoch;

const FILES: [&str; 3] = ["register.db", "register.db-wal", "register.db-shm"];

fn accepting(dir: &Path) -> Options {
    Options {
        restored: Restored::Accept {
            quiet: Millis(35_000),
        },
        ..options(dir)
    }
}

/// Copies what is there; with the writer idle that is a whole register.
fn copy(from: &Path, to: &Path, names: &[&str]) {
    for name in names {
        if from.join(name).exists() {
            fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
}

async fn doubted(dir: &Path) -> Doubt {
    match open_as(dir, INSTANCE).await.map(|_| ()) {
        Err(OpenError::Restored { doubt, .. }) => doubt,
        other => panic!("{other:?}"),
    }
}

/// Dropped without being closed, which is what a crash leaves behind.
async fn crash(opening: Opening) {
    let Opening { register, backend } = opening;
    let thread = backend.writer.lock().unwrap().take().unwrap();
    drop(register);
    drop(backend);
    tokio::task::spawn_blocking(move || thread.join().unwrap())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_crash_is_not_taken_for_a_restore() {
    let dir = TempDir::new().unwrap();
    for round in 0..6 {
        let opening = opened(&dir).await;
        opening.complete(&format!("a-{round}")).await;
        if round % 2 == 0 {
            opening.backend.tend().await.unwrap();
            opening.complete(&format!("b-{round}")).await;
        }
        crash(opening).await;
    }
    opened(&dir).await.close().await;
    opened(&dir).await;
}

/// The older file is written back in its place: the same file, with older content.
#[tokio::test]
async fn an_older_register_is_noticed_by_its_witness() {
    let (dir, backup) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let opening = opened(&dir).await;
    opening.complete("kept").await;
    opening.close().await;
    copy(dir.path(), backup.path(), &FILES);
    let opening = opened(&dir).await;
    opening.complete("lost").await;
    opening.close().await;
    for name in &FILES[1..] {
        let _ = fs::remove_file(dir.path().join(name));
    }
    copy(backup.path(), dir.path(), &FILES);
    let Doubt::Behind { register, witness } = doubted(dir.path()).await else {
        panic!("not behind");
    };
    assert!(register < witness, "{register} {witness}");
    let told = refused(&dir).await.to_string();
    for part in [
        format!("stands at {register}"),
        format!("saw it at {witness}"),
        "--accept-restored".to_owned(),
    ] {
        assert!(told.contains(&part), "{told}");
    }
}

#[tokio::test]
async fn an_accepted_register_starts_an_epoch_and_keeps_quiet_for_a_while() {
    let (dir, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let opening = opened(&dir).await;
    let fenced = |id: &str, token: &str| fenced(id, "r", token, INSTANCE);
    let permit = opening.admit(fenced("a", "7")).await.unwrap().permit;
    opening.close().await;
    drop(permit);
    copy(dir.path(), elsewhere.path(), &FILES);
    copy(dir.path(), elsewhere.path(), &["key", "witness"]);
    assert!(matches!(
        doubted(elsewhere.path()).await,
        Doubt::Copied { .. }
    ));
    let manual = Manual::at(c::at(0));
    let owner = || Owner {
        clock: manual.clock(),
        ..owner(InstanceId(2))
    };
    let accepted = opened_with(accepting(elsewhere.path()), owner()).await;
    let accepted = accepted.unwrap();
    let summary = accepted.backend.summary().await.unwrap();
    assert_eq!(summary.epoch, 1);
    // Whatever the other copy sent last may still be under way.
    let early = accepted.admit(admit("b", InstanceId(2))).await;
    assert!(matches!(&early, Err(StoreError::Unavailable(why)) if why.contains("restored")));
    assert!(accepted.backend.ready().await.is_err());
    accepted.close().await;
    manual.pass(Millis(34_999));
    let again = opened_with(options(elsewhere.path()), owner())
        .await
        .unwrap();
    assert!(
        again.backend.ready().await.is_err(),
        "a restart is no way round"
    );
    manual.pass(Millis(1));
    again.backend.ready().await.unwrap();
    // Every token of before is stale, on every resource, seen before or not.
    for resource in ["r", "never-seen"] {
        let old = c::fenced(resource, resource, "9", InstanceId(2));
        let ruling = again.admit(old).await.unwrap().admission.ruling;
        assert!(matches!(ruling, Ruling::Refused(_)), "{ruling:?}");
    }
    let new = c::fenced("new", "never-seen", "1:1", InstanceId(2));
    assert!(again.admit(new).await.unwrap().permit.is_some());
    let text: String = by_hand(&elsewhere)
        .query_row(
            "SELECT text FROM history ORDER BY sequence DESC LIMIT 1",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert!(
        text.contains("accepted although") && text.contains("epoch 1"),
        "{text}"
    );
}

/// The epoch is above the register's own and above the one that its witness saw.
#[tokio::test]
async fn an_epoch_is_never_used_twice() {
    let (dir, backup) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    opened(&dir).await.close().await;
    copy(dir.path(), backup.path(), &FILES);
    opened(&dir).await.close().await;
    for expected in 1..=3 {
        for name in &FILES[1..] {
            let _ = fs::remove_file(dir.path().join(name));
        }
        copy(backup.path(), dir.path(), &FILES);
        let accepted = opened_with(accepting(dir.path()), owner(INSTANCE)).await;
        let accepted = accepted.unwrap();
        assert_eq!(accepted.backend.summary().await.unwrap().epoch, expected);
        accepted.close().await;
    }
}

#[tokio::test]
async fn a_lost_register_is_not_quietly_replaced_by_an_empty_one() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    opening.complete("a").await;
    opening.close().await;
    for name in FILES {
        let _ = fs::remove_file(dir.path().join(name));
    }
    assert!(matches!(doubted(dir.path()).await, Doubt::Lost { .. }));
    let accepted = opened_with(accepting(dir.path()), owner(INSTANCE)).await;
    let accepted = accepted.unwrap();
    assert_eq!(accepted.backend.summary().await.unwrap().epoch, 1);
    accepted.close().await;
    opened(&dir).await;
}

#[tokio::test]
async fn a_witness_that_is_gone_broken_or_anothers_is_noticed() {
    let (dir, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    opened(&dir).await.close().await;
    opened(&other).await.close().await;
    let witness = dir.path().join("witness");
    let kept = fs::read(&witness).unwrap();
    fs::remove_file(&witness).unwrap();
    assert!(matches!(doubted(dir.path()).await, Doubt::NoWitness { .. }));
    for broken in [&b""[..], b"\xff\xfe", b"fencepost-witness 9\n", &kept[..40]] {
        fs::write(&witness, broken).unwrap();
        assert!(matches!(
            doubted(dir.path()).await,
            Doubt::BrokenWitness { .. }
        ));
    }
    fs::copy(other.path().join("witness"), &witness).unwrap();
    assert!(matches!(
        doubted(dir.path()).await,
        Doubt::OtherWitness { .. }
    ));
    fs::write(&witness, &kept).unwrap();
    opened(&dir).await;
}

/// Whole volumes are rolled back: only a witness on another one can tell.
#[tokio::test]
async fn a_witness_elsewhere_notices_a_rollback_of_everything() {
    let (dir, backup, elsewhere) = (
        TempDir::new().unwrap(),
        TempDir::new().unwrap(),
        TempDir::new().unwrap(),
    );
    let asked = || Options {
        witness: Some(elsewhere.path().join("w")),
        ..options(dir.path())
    };
    let open = || opened_with(asked(), owner(INSTANCE));
    open().await.unwrap().close().await;
    copy(dir.path(), backup.path(), &FILES);
    let opening = open().await.unwrap();
    opening.complete("lost").await;
    opening.close().await;
    for name in &FILES[1..] {
        let _ = fs::remove_file(dir.path().join(name));
    }
    copy(backup.path(), dir.path(), &FILES);
    match open().await.map(|_| ()) {
        Err(OpenError::Restored {
            doubt: Doubt::Behind { .. },
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
    assert!(!dir.path().join("witness").exists());
}

#[tokio::test]
async fn one_may_look_at_a_doubted_register_without_changing_it() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    opening.complete("a").await;
    opening.close().await;
    let witness = dir.path().join("witness");
    fs::remove_file(&witness).unwrap();
    let looking = Options {
        restored: Restored::Overlook,
        create: false,
        ..options(dir.path())
    };
    let opening = opened_with(looking, owner(INSTANCE)).await.unwrap();
    let found = opening.backend.operation(&key("a"), false).await.unwrap();
    assert!(found.is_some());
    opening.close().await;
    assert!(matches!(doubted(dir.path()).await, Doubt::NoWitness { .. }));
    assert!(matches!(
        opened_with(
            Options {
                create: false,
                ..options(&dir.path().join("nowhere"))
            },
            owner(INSTANCE)
        )
        .await
        .map(|_| ()),
        Err(OpenError::Missing { .. })
    ));
    assert!(!dir.path().join("nowhere").exists());
}

/// What the witness is told was committed before.
#[tokio::test]
async fn a_poisoned_register_tells_its_witness_nothing() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    opening.complete("a").await;
    opening.backend.tend().await.unwrap();
    let told = fs::read(dir.path().join("witness")).unwrap();
    opening.backend.sabotage.arm(CommitFault::Lost);
    opening.admit(admit("b", INSTANCE)).await.unwrap_err();
    assert!(opening.backend.tend().await.is_err());
    opening.close().await;
    assert_eq!(fs::read(dir.path().join("witness")).unwrap(), told);
    opened(&dir).await;
}

/// Within a boot a copy on another disk is told by the disk, where both files have the same number. The
/// file that `mend` writes has a number of its own, and must not be taken for the one that was lost.
#[tokio::test]
async fn mending_a_copy_leaves_it_a_copy_and_the_original_itself() {
    for sign in [None, Some("device"), Some("inode")] {
        let dir = TempDir::new().unwrap();
        let opening = opened(&dir).await;
        opening.complete("a").await;
        opening.close().await;
        if let Some(sign) = sign {
            let elsewhere = format!("UPDATE register SET {sign} = {sign} + 1");
            by_hand(&dir).execute(&elsewhere, []).unwrap();
            let doubt = doubted(dir.path()).await;
            assert!(matches!(doubt, Doubt::Copied { .. }), "{sign}: {doubt:?}");
        }
        mend(dir.path(), &Clock::system().unwrap()).unwrap();
        match sign {
            None => opened(&dir).await.close().await,
            Some(sign) => {
                let doubt = doubted(dir.path()).await;
                assert!(matches!(doubt, Doubt::Copied { .. }), "{sign}: {doubt:?}");
            }
        }
    }
}

fn leasing(resource: &str, wish: Wish) -> Command {
    Command::Lease(Leasing {
        resource: c::resource_key(resource),
        wish,
        seen: None,
        at: c::at(0),
    })
}

fn acquire(acquisition: &str) -> Wish {
    Wish::Acquire {
        acquisition: AcquisitionId::new(acquisition),
        holder: "worker".to_owned(),
        ttl: Millis(3_600_000),
    }
}

async fn leased(opening: &Opening, resource: &str, wish: Wish) -> LeaseReply {
    match opening.backend.apply(leasing(resource, wish)).await {
        Ok(Reply::Leased(reply)) => reply,
        other => panic!("{other:?}"),
    }
}

fn token_of(reply: LeaseReply) -> FencingToken {
    match reply {
        LeaseReply::Granted(lease) => lease.token,
        other => panic!("{other:?}"),
    }
}

/// Contract §7 and §8: what was issued in the lost span is forgotten, and never issued again; whoever holds a lease of
/// before, be it in the backup or not, holds nothing.
#[tokio::test]
async fn tokens_and_leases_of_before_a_restore_stay_fenced() {
    let (dir, backup) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let opening = opened(&dir).await;
    let kept = token_of(leased(&opening, "kept", acquire("k")).await);
    opening.close().await;
    copy(dir.path(), backup.path(), &FILES);
    let opening = opened(&dir).await;
    let mut lost = kept;
    for name in ["a", "b", "c"] {
        lost = token_of(leased(&opening, "lost", acquire(name)).await);
        if name != "c" {
            let acquisition = AcquisitionId::new(name);
            let released = leased(&opening, "lost", Wish::Release { acquisition }).await;
            assert_eq!(released, LeaseReply::Released);
        }
    }
    opening.close().await;
    for name in &FILES[1..] {
        let _ = fs::remove_file(dir.path().join(name));
    }
    copy(backup.path(), dir.path(), &FILES);
    assert!(matches!(doubted(dir.path()).await, Doubt::Behind { .. }));
    let accepted = Options {
        restored: Restored::Accept { quiet: Millis(0) },
        ..options(dir.path())
    };
    let opening = opened_with(accepted, owner(INSTANCE)).await.unwrap();
    for (resource, name, before) in [("kept", "k", kept), ("lost", "c", lost)] {
        let acquisition = AcquisitionId::new(name);
        let renewed = leased(&opening, resource, Wish::Renew { acquisition }).await;
        assert_eq!(renewed, LeaseReply::Lost, "{resource}");
        let mut late = c::fenced(resource, resource, &before.to_string(), INSTANCE);
        if let Some(shown) = &mut late.presented {
            shown.source = TokenSource::new(OWN_SOURCE);
            shown.acquisition = Some(AcquisitionId::new(name));
        }
        let ruling = opening.admit(late.clone()).await.unwrap();
        let ruling = ruling.admission.ruling;
        let stale = matches!(ruling, Ruling::Refused(Rejection::StaleToken { .. }));
        assert!(stale, "{resource}: {ruling:?}");
        // Nobody waits for the end of a lease that is none.
        let next = token_of(leased(&opening, resource, acquire("next")).await);
        assert!(next > before && next.epoch() == 1, "{next}");
        let ruling = opening.admit(c::again(&late)).await.unwrap();
        let ruling = ruling.admission.ruling;
        let stale = matches!(ruling, Ruling::Refused(Rejection::StaleToken { .. }));
        assert!(stale, "{resource}: {ruling:?}");
    }
}

/// An operator's epoch is known to the witness: a backup of before it is noticed by that alone.
#[tokio::test]
async fn a_new_epoch_is_told_to_the_witness_at_once() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    let new = NewEpoch {
        operator: "alice".to_owned(),
        reason: "the token server went back".to_owned(),
        at: c::at(0),
    };
    assert_eq!(opening.backend.begin_epoch(&new).await.unwrap(), 1);
    let told = fs::read_to_string(dir.path().join("witness")).unwrap();
    assert!(told.contains("epoch 1\n"), "{told}");
    let about = opening.backend.about().await.unwrap();
    assert_eq!(
        about.history[0].text,
        "epoch 1 begins, as alice says: the token server went back"
    );
    crash(opening).await;
    let opening = opened(&dir).await;
    assert_eq!(opening.backend.summary().await.unwrap().epoch, 1);
    opening.close().await;
}

/// A commit that failed begins nothing.
#[tokio::test]
async fn an_epoch_that_was_not_committed_is_not_in_force() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    let new = NewEpoch {
        operator: "alice".to_owned(),
        reason: "in vain".to_owned(),
        at: c::at(0),
    };
    opening.backend.sabotage.arm(CommitFault::Lost);
    opening.backend.begin_epoch(&new).await.unwrap_err();
    opening.close().await;
    let opening = opened(&dir).await;
    assert_eq!(opening.backend.summary().await.unwrap().epoch, 0);
}

/// Both numbers, for whoever has to decide.
#[tokio::test]
async fn whoever_looks_at_a_doubted_register_is_told_what_speaks_against_it() {
    let (dir, backup) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    opened(&dir).await.close().await;
    copy(dir.path(), backup.path(), &FILES);
    let opening = opened(&dir).await;
    opening.complete("lost").await;
    let about = opening.backend.about().await.unwrap();
    assert_eq!(about.differences, Vec::<String>::new());
    opening.close().await;
    for name in &FILES[1..] {
        let _ = fs::remove_file(dir.path().join(name));
    }
    copy(backup.path(), dir.path(), &FILES);
    let Doubt::Behind { register, witness } = doubted(dir.path()).await else {
        panic!("not behind");
    };
    let looking = Options {
        restored: Restored::Overlook,
        create: false,
        ..options(dir.path())
    };
    let opening = opened_with(looking, owner(INSTANCE)).await.unwrap();
    let about = opening.backend.about().await.unwrap();
    opening.close().await;
    assert!(about.differences[0].contains(&format!("stands at {register}")));
    assert!(about.differences[0].contains(&format!("saw it at {witness}")));
    let facts = [
        ("stands at", format!("position {register}, epoch 0")),
        ("witness saw", format!("position {witness}, epoch 0")),
    ];
    assert_eq!(about.facts[1..], facts);
}
