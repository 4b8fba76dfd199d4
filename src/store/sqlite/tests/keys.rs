//! Keys: configured, rotated, lost.

use super::*;
use crate::store::seal::{MasterKey, Sealer};

fn with_keys(dir: &TempDir, keys: &[u8]) -> Options {
    Options {
        keys: keys.iter().map(|of| MasterKey::new([*of; 32])).collect(),
        ..options(dir.path())
    }
}

async fn open_with(dir: &TempDir, keys: &[u8]) -> Result<(Opening, Arc<Sealer>), OpenError> {
    let Opened { backend, sealer } = open(with_keys(dir, keys), owner(INSTANCE)).await?;
    let register = Register::new(backend.clone());
    Ok((Opening { register, backend }, sealer))
}

async fn is_replayed(opening: &Opening, id: &str) -> bool {
    match opening.admit(admit(id, INSTANCE)).await {
        Ok(admitted) => matches!(admitted.admission.ruling, Ruling::Replay { .. }),
        Err(_) => false,
    }
}

#[tokio::test]
async fn configured_keys_make_no_key_file() {
    let dir = TempDir::new().unwrap();
    let (opening, _) = open_with(&dir, &[1]).await.unwrap();
    opening.complete("a").await;
    opening.close().await;
    assert!(!dir.path().join("key").exists());
    let without = refused(&dir).await;
    assert!(
        matches!(without, OpenError::KeyMissing { .. }),
        "{without:?}"
    );
    match open_with(&dir, &[2]).await.map(|_| ()) {
        Err(OpenError::WrongKey { key, .. }) => assert_eq!(key, MasterKey::new([1; 32]).id()),
        other => panic!("{other:?}"),
    }
}

/// The new key seals, the old one still opens, and fingerprints stay comparable throughout.
#[tokio::test]
async fn a_key_is_changed_and_then_taken_away() {
    let dir = TempDir::new().unwrap();
    let (opening, sealer) = open_with(&dir, &[1]).await.unwrap();
    let fingerprints = sealer.fingerprint_key();
    opening.complete("old").await;
    opening.close().await;

    let (opening, sealer) = open_with(&dir, &[2, 1]).await.unwrap();
    assert_eq!(sealer.fingerprint_key(), fingerprints);
    assert_eq!(sealer.key_id(), MasterKey::new([2; 32]).id());
    opening.complete("new").await;
    assert!(is_replayed(&opening, "old").await);
    opening.close().await;

    // Too early: what the old key sealed cannot be read, and is not sent again either.
    let (opening, sealer) = open_with(&dir, &[2]).await.unwrap();
    assert_eq!(sealer.fingerprint_key(), fingerprints);
    assert!(is_replayed(&opening, "new").await);
    let old = opening.admit(admit("old", INSTANCE)).await;
    assert!(matches!(old, Err(StoreError::Corrupt(_))), "{old:?}");
    opening.close().await;

    // Back in its place.
    let (opening, _) = open_with(&dir, &[2, 1]).await.unwrap();
    assert!(is_replayed(&opening, "old").await);
}

#[tokio::test]
async fn a_key_file_of_before_is_read_beside_configured_keys() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    opening.complete("old").await;
    opening.close().await;
    let (opening, sealer) = open_with(&dir, &[5]).await.unwrap();
    assert_eq!(sealer.key_id(), MasterKey::new([5; 32]).id());
    assert!(is_replayed(&opening, "old").await);
}

/// Should the register be lost, the same key makes the same fingerprints again.
#[tokio::test]
async fn a_new_register_with_the_same_key_makes_the_same_fingerprints() {
    let (one, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (_, first) = open_with(&one, &[1]).await.unwrap();
    let (_, second) = open_with(&other, &[1, 2]).await.unwrap();
    assert_eq!(first.fingerprint_key(), second.fingerprint_key());
}
