//! Identities that share a locator, and an identity that must not stand twice. Locators are so short in
//! tests that nearly every look-up of every test meets other operations than the one it asks for.

use super::*;
use crate::protocol::command::Changes;
use crate::protocol::ids::Principal;
use crate::protocol::ids::{OperationId, OperationKey, UpstreamId};
use crate::store::OperationQuery;

/// Alike but for one part each, among many that are not.
fn identities() -> Vec<OperationKey> {
    let mut keys = vec![
        OperationKey {
            upstream: UpstreamId::new("bank"),
            ..key("op-0")
        },
        OperationKey {
            principal: Principal::Hashed([3; 16]),
            ..key("op-0")
        },
        OperationKey {
            incarnation: Incarnation(7),
            ..key("op-0")
        },
    ];
    keys.extend((0..12).map(|number| key(&format!("op-{number}"))));
    keys
}

fn asked(key: &OperationKey) -> Admit {
    Admit {
        key: key.clone(),
        ..admit("any", INSTANCE)
    }
}

#[tokio::test]
async fn operations_with_one_locator_live_side_by_side() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    let keys = identities();
    for key in &keys {
        let permit = opening.admit(asked(key)).await.unwrap().permit;
        let receipt = permit.expect("never seen before").finish(applied());
        opening.register.record(&receipt, c::at(9)).await.unwrap();
    }
    let (locators, operations): (i64, i64) = by_hand(&dir)
        .query_row(
            "SELECT count(DISTINCT locator), count(DISTINCT sequence) FROM locators",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    let count = i64::try_from(keys.len()).unwrap();
    assert_eq!(operations, count);
    assert!(locators < count / 2, "they share {locators}");
    for key in &keys {
        let found = opening.backend.operation(key, false).await.unwrap();
        assert_eq!(&found.unwrap().operation.key, key);
        let again = opening.admit(asked(key)).await.unwrap();
        let ruling = again.admission.ruling;
        assert!(matches!(ruling, Ruling::Replay { .. }), "{ruling:?}");
    }
}

/// An operator names an id alone, and gets whoever has it.
#[tokio::test]
async fn an_id_is_found_without_the_rest_of_its_identity() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    for key in &identities() {
        drop(opening.admit(asked(key)).await.unwrap());
    }
    for (id, count) in [("op-0", 4), ("op-11", 1), ("op-12", 0)] {
        let query = OperationQuery {
            id: Some(id.to_owned()),
            limit: 10,
            ..OperationQuery::default()
        };
        let page = opening.backend.operations(&query).await.unwrap();
        assert_eq!(page.operations.len(), count, "{id}");
        let is_asked_for = |key: &OperationKey| key.id == OperationId::new(id);
        assert!(page.operations.iter().all(|one| is_asked_for(&one.key)));
    }
}

/// No constraint of a table says so: the writer looks.
#[tokio::test]
async fn a_second_row_of_one_identity_is_never_written() {
    let dir = TempDir::new().unwrap();
    let Opened { backend, sealer } = open(options(dir.path()), owner(INSTANCE)).await.unwrap();
    let register = Register::new(backend.clone());
    drop(register.admit(admit("a", INSTANCE)).await.unwrap());
    let found = backend.operation(&key("a"), false).await.unwrap().unwrap();
    backend.close().await.unwrap();
    let connection = by_hand(&dir);
    let writing = persist::Writing {
        connection: &connection,
        sealer: &sealer,
        lived: crate::store::age::Lived(1),
        may_have_notes: false,
    };
    let changes = Changes {
        operation: Some(Box::new(found.operation)),
        ..Changes::default()
    };
    // As if nobody had found it.
    let mut tally = persist::Tally::default();
    let written = persist::persist(writing, None, &changes, &mut tally);
    let refused = matches!(written, Err(persist::Unwritten::SecondRow(1)));
    assert!(refused, "{written:?}");
    let rows: i64 = connection
        .query_row("SELECT count(*) FROM operations", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 1);
}

/// What was forgotten leaves nothing behind, and the others are found.
#[tokio::test]
async fn an_identity_that_is_forgotten_takes_its_locator_along() {
    let dir = TempDir::new().unwrap();
    let opening = opened(&dir).await;
    for number in 0..6 {
        opening.complete(&format!("op-{number}")).await;
    }
    opening.close().await;
    let connection = by_hand(&dir);
    let remember = Remember {
        answers: Millis(0),
        identities: Millis(0),
    };
    let now = crate::store::age::Lived(i64::MAX.cast_unsigned());
    let from = purge::Cursor::default();
    let step = purge::step(&connection, remember, from, now).unwrap();
    assert_eq!(step.purged.identities, 5, "the newest one stays");
    drop(connection);
    opened(&dir).await.complete("op-0").await;
}

/// SQLite finds nothing wrong with any of these. Each of them could let an operation be sent again.
#[tokio::test]
async fn a_register_whose_identities_cannot_be_relied_on_is_refused_and_not_copied() {
    for (spoil, found) in [
        (
            "DELETE FROM locators WHERE sequence = 2",
            "operation 2 is not found by its identity",
        ),
        (
            "UPDATE locators SET locator = locator + 17 WHERE sequence = 3",
            "operation 3 is not found by its identity",
        ),
        (
            "UPDATE operations SET tenant = 'other', id = id || '~~' WHERE sequence <= 4",
            "is not found by its identity",
        ),
        (
            "INSERT INTO locators VALUES (17, 99)",
            "6 locators of 5 operations",
        ),
        (
            "CREATE TEMP TABLE again AS SELECT * FROM operations WHERE sequence = 1;
             UPDATE again SET sequence = 6;
             INSERT INTO operations SELECT * FROM again;
             INSERT INTO locators SELECT locator, 6 FROM locators WHERE sequence = 1",
            "operations 1 and 6 have one identity",
        ),
    ] {
        let dir = TempDir::new().unwrap();
        let opening = opened(&dir).await;
        for number in 0..5 {
            opening.complete(&format!("op-{number}")).await;
        }
        opening.close().await;
        by_hand(&dir).execute_batch(spoil).unwrap();
        let refused = refused(&dir).await;
        assert!(matches!(refused, OpenError::Damaged { .. }), "{refused:?}");
        assert!(refused.to_string().contains(found), "{refused}");
        let copied = backup(
            dir.path(),
            &dir.path().join("copy"),
            &Clock::system().unwrap(),
        );
        let copied = copied.unwrap_err();
        assert!(matches!(copied, BackupError::Unsound { .. }), "{copied:?}");
    }
}
