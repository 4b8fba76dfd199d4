//! What is forgotten, when, and what never.

use proptest::prelude::*;
use rusqlite::params;

use super::super::purge::{self, Cursor};
use super::super::schema;
use super::*;
use crate::clock::Manual;
use crate::protocol::operation::State;
use crate::protocol::rejection::Rejection;
use crate::store::age::Lived;

const HOUR: u64 = 3_600_000;

struct Clocked {
    opening: Opening,
    manual: Manual,
}

async fn clocked(dir: &TempDir, manual: &Manual) -> Clocked {
    let asked = Options {
        remember: Remember {
            answers: Millis(10 * HOUR),
            identities: Millis(100 * HOUR),
        },
        ..options(dir.path())
    };
    let owner = Owner {
        clock: manual.clock(),
        ..owner(INSTANCE)
    };
    Clocked {
        opening: opened_with(asked, owner).await.unwrap(),
        manual: manual.clone(),
    }
}

fn manual() -> Manual {
    Manual::at(c::at(0))
}

impl Clocked {
    /// Forgets all that is due.
    async fn forget(&self) -> Purged {
        let mut all = Purged::default();
        // The first looks what was due before, the second begins; a turn without any is the end.
        let mut quiet = 0;
        while quiet < 2 {
            let tended = self.opening.backend.tend().await.unwrap();
            all.add(tended.purged);
            quiet = if tended.purged.is_nothing() && !tended.more {
                quiet + 1
            } else {
                0
            };
            // The writer forgets while nobody asks; this is answered after it has.
            self.opening.backend.ready().await.unwrap();
        }
        all
    }

    async fn ruling(&self, id: &str) -> Ruling {
        let admit = admit(id, INSTANCE);
        self.opening.admit(admit).await.unwrap().admission.ruling
    }

    async fn is_known(&self, id: &str) -> bool {
        let found = self.opening.backend.operation(&key(id), false).await;
        found.unwrap().is_some()
    }
}

fn of(answers: u64, identities: u64) -> Purged {
    Purged {
        answers,
        identities,
    }
}

/// B20: after its answer was forgotten a repeat is told so; it is not sent again.
#[tokio::test]
async fn answers_go_first_and_identities_much_later() {
    let dir = TempDir::new().unwrap();
    let it = clocked(&dir, &manual()).await;
    it.opening.complete("a").await;
    it.opening.complete("newest").await;
    it.manual.pass(Millis(10 * HOUR - 1));
    assert_eq!(it.forget().await, of(0, 0));
    assert!(matches!(it.ruling("a").await, Ruling::Replay { .. }));
    it.manual.pass(Millis(1));
    assert_eq!(it.forget().await, of(2, 0));
    // Done already, and when: but not what was answered. It is not sent again.
    let Ruling::Refused(Rejection::AnswerExpired(_)) = it.ruling("a").await else {
        panic!("{:?}", it.ruling("a").await);
    };
    let left = it.opening.backend.operation(&key("a"), true).await.unwrap();
    let State::Completed(completion) = left.unwrap().operation.state else {
        panic!("not completed");
    };
    assert_eq!((completion.answer, completion.at), (None, c::at(9)));
    it.manual.pass(Millis(90 * HOUR));
    // The newest one stays, so that its place is never given to another.
    assert_eq!(it.forget().await, of(0, 1));
    assert!(!it.is_known("a").await && it.is_known("newest").await);
    assert!(matches!(it.ruling("a").await, Ruling::Granted(_)));
    let summary = it.opening.backend.summary().await.unwrap();
    assert_eq!(summary.by_state, [("INTENDED", 1), ("COMPLETED", 1)]);
}

/// With everything that hangs on it: events, notes of twins, the fence's pointer.
#[tokio::test]
async fn an_identity_goes_with_all_that_hangs_on_it() {
    let dir = TempDir::new().unwrap();
    let it = clocked(&dir, &manual()).await;
    let first = fenced("first", "r", "1", INSTANCE);
    let permit = it.opening.admit(first).await.unwrap().permit.unwrap();
    let twin = fenced("twin", "r", "1", INSTANCE);
    it.opening.admit(twin).await.unwrap();
    let receipt = permit.finish(applied());
    it.opening
        .register
        .record(&receipt, c::at(9))
        .await
        .unwrap();
    it.opening.complete("newest").await;
    it.manual.pass(Millis(200 * HOUR));
    assert_eq!(it.forget().await, of(2, 1));
    let count = |sql: &str| -> i64 {
        let connection = by_hand(&dir);
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(count("SELECT count(*) FROM events"), 0);
    assert_eq!(count("SELECT count(*) FROM twins"), 0);
    assert_eq!(count("SELECT count(*) FROM requests"), 0);
    let resource = it.opening.backend.resource(&c::resource_key("r")).await;
    let resource = resource.unwrap().expect("a fence is never forgotten");
    assert_eq!(resource.last_completed, None);
    assert_eq!(resource.fence.mark.unwrap().to_string(), "1");
}

/// B20.
#[tokio::test]
async fn what_is_unsettled_is_never_forgotten() {
    let dir = TempDir::new().unwrap();
    let it = clocked(&dir, &manual()).await;
    let open = |id: &str| it.opening.admit(admit(id, INSTANCE));
    let uncertain = open("uncertain").await.unwrap().permit.unwrap();
    let receipt = uncertain.finish(c::interrupted());
    it.opening
        .register
        .record(&receipt, c::at(9))
        .await
        .unwrap();
    drop(open("intended").await.unwrap());
    let parked = open("parked").await.unwrap().permit.unwrap();
    let receipt = parked.finish(c::interrupted());
    it.opening
        .register
        .record(&receipt, c::at(9))
        .await
        .unwrap();
    let park = c::park(&key("parked"));
    it.opening.register.park(park).await.unwrap();
    it.opening.complete("newest").await;
    it.manual.pass(Millis(100_000 * HOUR));
    assert_eq!(it.forget().await, of(1, 0));
    for id in ["uncertain", "intended", "parked"] {
        let found = it.opening.backend.operation(&key(id), true).await.unwrap();
        assert!(found.unwrap().request.is_some(), "{id}");
    }
    // Once settled, it is remembered for its whole time from then on.
    let verdict = crate::protocol::command::Resolution::Applied(c::answer(200));
    let resolve = c::resolve(&key("parked"), verdict);
    it.opening.register.resolve(resolve).await.unwrap();
    assert_eq!(it.forget().await, of(0, 0));
    assert!(matches!(it.ruling("parked").await, Ruling::Replay { .. }));
    it.manual.pass(Millis(10 * HOUR));
    assert_eq!(it.forget().await, of(1, 0));
}

/// B20, C17: a wall clock that is wrong by years makes nothing forgotten, across restarts and boots.
#[tokio::test]
async fn a_wall_clock_that_steps_forward_makes_nothing_forgotten() {
    let dir = TempDir::new().unwrap();
    let manual = manual();
    let years = i64::try_from(20 * 365 * 24 * HOUR).unwrap();
    let it = clocked(&dir, &manual).await;
    it.opening.complete("a").await;
    it.opening.complete("newest").await;
    manual.step_wall(years);
    assert_eq!(it.forget().await, of(0, 0));
    it.opening.close().await;
    let it = clocked(&dir, &manual).await;
    assert_eq!(it.forget().await, of(0, 0));
    it.opening.close().await;
    // Set right again; and then the machine comes up with its clock wrong. A day is counted, which
    // ends answers here.
    manual.step_wall(-years);
    clocked(&dir, &manual).await.opening.close().await;
    manual.reboot(Millis(0));
    manual.step_wall(years);
    let it = clocked(&dir, &manual).await;
    assert_eq!(it.forget().await, of(2, 0));
    assert!(it.is_known("a").await);
    it.opening.close().await;
    // And back: it goes on from where it was.
    manual.step_wall(-years);
    let it = clocked(&dir, &manual).await;
    manual.pass(Millis(75 * HOUR));
    assert_eq!(it.forget().await, of(0, 0));
    manual.pass(Millis(HOUR));
    assert_eq!(it.forget().await, of(0, 1));
}

/// Late evidence that changes nothing does not keep an answer for longer; a corrected request under
/// the same identity begins anew.
#[tokio::test]
async fn memory_is_counted_from_the_end_of_an_operation() {
    let dir = TempDir::new().unwrap();
    let it = clocked(&dir, &manual()).await;
    let permit = it.opening.admit(admit("a", INSTANCE)).await.unwrap().permit;
    let receipt = permit.unwrap().finish(c::unsent());
    it.opening
        .register
        .record(&receipt, c::at(9))
        .await
        .unwrap();
    it.opening.complete("newest").await;
    it.manual.pass(Millis(99 * HOUR));
    // Tried again, and done this time.
    it.opening.complete("a").await;
    it.manual.pass(Millis(9 * HOUR));
    assert_eq!(it.forget().await, of(1, 0));
    assert!(matches!(it.ruling("a").await, Ruling::Replay { .. }));
}

/// More than one step takes, with commands in between.
#[tokio::test]
async fn many_are_forgotten_in_small_steps_while_others_are_served() {
    let dir = TempDir::new().unwrap();
    let it = clocked(&dir, &manual()).await;
    for number in 0..300 {
        it.opening.complete(&format!("op-{number}")).await;
    }
    it.manual.pass(Millis(50 * HOUR));
    let tended = it.opening.backend.tend().await.unwrap();
    assert!(tended.purged.is_nothing());
    it.opening.complete("meanwhile").await;
    let mut all = it.forget().await;
    assert_eq!(all, of(300, 0));
    it.manual.pass(Millis(50 * HOUR));
    all = it.forget().await;
    assert_eq!(all, of(1, 300));
    let query = crate::store::OperationQuery {
        limit: 10,
        ..Default::default()
    };
    let page = it.opening.backend.operations(&query);
    assert_eq!(page.await.unwrap().operations.len(), 1);
}

/// Times around which a unit that is mixed up, or a text that is compared as one, goes wrong.
fn times() -> impl Strategy<Value = u64> {
    let edges = [
        0,
        1,
        999_999_999,
        1_000_000_000,
        999_999_999_999,
        1_000_000_000_000,
        9_999_999_999_999,
        10_000_000_000_000,
    ];
    let near = (proptest::sample::select(edges.to_vec()), 0..3_u64)
        .prop_map(|(edge, step)| (edge + step).saturating_sub(1));
    prop_oneof![near, 0..20_000_000_000_000_u64]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// B04: what SQL finds due is what the rule says, with seconds and milliseconds of every length.
    #[test]
    fn what_is_forgotten_is_what_is_due(
        now in times(),
        answers in times(),
        ends in proptest::collection::vec(times(), 1..20),
    ) {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection).unwrap();
        for (sequence, ended) in ends.iter().enumerate() {
            connection
                .execute(
                    "INSERT INTO operations (sequence, id, upstream, principal, incarnation, tenant,
                        state, unsettled, first_seen_wall_ms, record, answer, ended)
                     VALUES (?1, ?1, 'u', x'', 0, 't', 'COMPLETED', 0, 0, x'', x'01', ?2)",
                    params![1 + i64::try_from(sequence).unwrap(), Lived(*ended).column()],
                )
                .unwrap();
        }
        let remember = Remember { answers: Millis(answers), identities: Millis(u64::MAX) };
        let mut cursor = Cursor::default();
        loop {
            let step = purge::step(&connection, remember, cursor, Lived(now)).unwrap();
            cursor = step.cursor;
            if !step.more {
                break;
            }
        }
        let mut kept = connection
            .prepare("SELECT answer IS NOT NULL FROM operations ORDER BY sequence")
            .unwrap();
        let kept: Vec<bool> = kept
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let expected: Vec<bool> = ends
            .iter()
            .map(|ended| ended.checked_add(answers).is_none_or(|due| due > now))
            .collect();
        prop_assert_eq!(kept, expected);
    }
}
