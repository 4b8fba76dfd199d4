//! Commits that nobody knows of: the answer is lost on the wire, or the question, or the database stays
//! away.

use std::time::Duration;

use super::super::servers::{Wire, shared, waiting};
use super::{PostgresBackend, sidecar};
use crate::clock::boottime;
use crate::protocol::command::{Admit, Command, Record, Reply, Resolution, Resolved, Ruling};
use crate::protocol::ids::{InstanceId, OperationKey};
use crate::protocol::operation::{Operation, State};
use crate::protocol::time::Millis;
use crate::store::conformance::commands as c;
use crate::store::{Backend, StoreError};

/// That statement whole: "READ COMMITTED" is another.
pub(super) const COMMIT: &str = "COMMIT\0";

const OWN: InstanceId = InstanceId(1);

pub(super) async fn admission(
    register: &PostgresBackend,
    admit: &Admit,
) -> Result<Ruling, StoreError> {
    match register
        .apply(Command::Admit(Box::new(admit.clone())))
        .await?
    {
        Reply::Admission(admission) => Ok(admission.ruling),
        other => panic!("{other:?}"),
    }
}

pub(super) fn end_of(admit: &Admit) -> Command {
    Command::Record(Record {
        key: admit.key.clone(),
        attempt: admit.attempt,
        evidence: c::applied(),
        open: false,
        at: c::at(500),
    })
}

pub(super) async fn stored(register: &PostgresBackend, key: &OperationKey) -> Operation {
    let found = register.operation(key, false).await.unwrap();
    found.unwrap().operation
}

/// Whether the answer or the question was lost, the admission is granted once, and its attempt is the
/// only one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admission_that_may_have_committed_is_found_or_made() {
    let database = shared().database();
    for (round, lost) in ["answer", "question"].into_iter().enumerate() {
        let wire = Wire::to(shared().address());
        let register = sidecar(database.url_at(wire.address()), 1).await;
        let looker = sidecar(database.url(), 2).await;
        let fenced = c::fenced(&format!("f{round}"), &format!("r{round}"), "5", OWN);
        let free = c::admit(&format!("u{round}"), OWN);
        for admit in [fenced, free] {
            let before = wire.lost();
            match lost {
                "answer" => wire.lose_answer_to("write_1"),
                _ => wire.lose("write_1"),
            }
            let ruling = admission(&register, &admit).await.unwrap();
            let Ruling::Granted(grant) = ruling else {
                panic!("{ruling:?}");
            };
            assert_eq!(grant.attempt, admit.attempt);
            assert_eq!(wire.lost(), before + 1, "nothing was lost");
            let operation = stored(&looker, &admit.key).await;
            assert_eq!(operation.state, State::Intended);
            assert_eq!(operation.attempts.len(), 1);
            assert_eq!(operation.admitted, 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outcome_that_may_have_committed_is_recorded_once() {
    let database = shared().database();
    let wire = Wire::to(shared().address());
    let register = sidecar(database.url_at(wire.address()), 1).await;
    for (id, answer) in [("a", true), ("b", false)] {
        let admit = c::admit(id, OWN);
        admission(&register, &admit).await.unwrap();
        if answer {
            wire.lose_answer_to("write_1");
        } else {
            wire.lose("write_1");
        }
        let Reply::Recorded(recorded) = register.apply(end_of(&admit)).await.unwrap() else {
            panic!("another reply");
        };
        assert!(matches!(recorded.state, Some(State::Completed(_))));
        let again = admission(&register, &c::again(&admit)).await.unwrap();
        assert!(matches!(again, Ruling::Replay { .. }), "{again:?}");
    }
}

/// The careful way has its COMMIT apart from its write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verdict_that_may_have_committed_is_given_once() {
    let database = shared().database();
    let wire = Wire::to(shared().address());
    let register = sidecar(database.url_at(wire.address()), 1).await;
    for lost in ["answer", "question"] {
        let admit = c::admit(lost, OWN);
        admission(&register, &admit).await.unwrap();
        let interrupted = Command::Record(Record {
            key: admit.key.clone(),
            attempt: admit.attempt,
            evidence: c::interrupted(),
            open: false,
            at: c::at(500),
        });
        register.apply(interrupted).await.unwrap();
        match lost {
            "answer" => wire.lose_answer_to(COMMIT),
            _ => wire.lose(COMMIT),
        }
        let verdict = c::resolve(&admit.key, Resolution::Applied(c::answer(200)));
        let reply = register.apply(Command::Resolve(verdict)).await.unwrap();
        let Reply::Resolved(resolved) = reply else {
            panic!("{reply:?}");
        };
        let known = matches!(
            resolved,
            Resolved::Done(State::Completed(_)) | Resolved::AlreadyCompleted { .. }
        );
        assert!(known, "{resolved:?}");
        let stored = register
            .operation(&admit.key, false)
            .await
            .unwrap()
            .unwrap();
        let verdicts = stored
            .events
            .iter()
            .filter(|it| it.text.contains("resolved as"));
        assert_eq!(verdicts.count(), 1);
    }
}

/// Whoever asked has been told that nobody knows, and has gone: what turns out to be admitted sends
/// nothing, and says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admission_that_nobody_waits_for_any_more_sends_nothing() {
    let database = shared().database();
    let wire = Wire::to(shared().address());
    let register = sidecar(database.url_at(wire.address()), 1).await;
    let looker = sidecar(database.url(), 2).await;
    let admit = c::admit("a", OWN);
    wire.refuse();
    wire.lose_answer_to("write_1");
    let error = admission(&register, &admit).await.unwrap_err();
    assert!(matches!(error, StoreError::CommitUnknown(_)), "{error:?}");
    assert_eq!(stored(&looker, &admit.key).await.state, State::Intended);
    wire.accept();
    let deadline = waiting::PATIENCE;
    let settled = async {
        loop {
            let state = stored(&looker, &admit.key).await.state;
            if state != State::Intended {
                return state;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let state = tokio::time::timeout(deadline, settled).await.unwrap();
    assert!(matches!(state, State::NotApplied(_)), "{state:?}");
}

/// A lane that nobody can ask any more tries again no more often than one that is asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_doubt_when_nobody_is_left_is_settled_without_haste() {
    let database = shared().database();
    let wire = Wire::to(shared().address());
    let register = sidecar(database.url_at(wire.address()), 1).await;
    let looker = sidecar(database.url(), 2).await;
    let admit = c::admit("a", OWN);
    wire.refuse();
    wire.lose_answer_to("write_1");
    let error = admission(&register, &admit).await.unwrap_err();
    assert!(matches!(error, StoreError::CommitUnknown(_)), "{error:?}");
    // Only the lane is left, with its doubt.
    let mut lane = std::mem::take(&mut *register.work.lock().unwrap());
    drop(register);
    let (begun, before) = (boottime(), wire.refused());
    waiting::until("it has tried five times", || wire.refused() >= before + 5);
    let took = boottime().since(begun);
    assert!(took > Millis(900), "{took:?}");
    // It ends when that is settled.
    wire.accept();
    tokio::time::timeout(waiting::PATIENCE, lane.join_next())
        .await
        .unwrap();
    let state = stored(&looker, &admit.key).await.state;
    assert!(matches!(state, State::NotApplied(_)), "{state:?}");
}

/// What was never sent is said to be unsent; and the register comes back by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_database_is_away_nothing_is_admitted_and_it_comes_back() {
    let database = shared().database();
    let wire = Wire::to(shared().address());
    let register = sidecar(database.url_at(wire.address()), 1).await;
    let first = c::admit("first", OWN);
    admission(&register, &first).await.unwrap();
    wire.refuse();
    wire.cut();
    waiting::until("the connections are gone", || wire.open_connections() == 0);
    // The first to ask may find out that way that the connection is gone.
    let second = c::admit("second", OWN);
    let error = admission(&register, &second).await.unwrap_err();
    let known = matches!(
        error,
        StoreError::Unavailable(_) | StoreError::CommitUnknown(_)
    );
    assert!(known, "{error:?}");
    let error = admission(&register, &c::admit("third", OWN))
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(register.ready().await.is_err());
    assert!(register.peek(&first.key, None).await.is_err());
    wire.accept();
    let back = async { while register.ready().await.is_err() {} };
    tokio::time::timeout(waiting::PATIENCE, back).await.unwrap();
    register.apply(end_of(&first)).await.unwrap();
    let fourth = admission(&register, &c::admit("fourth", OWN))
        .await
        .unwrap();
    assert!(matches!(fourth, Ruling::Granted(_)));
    assert!(
        register
            .peek(&c::key("third"), None)
            .await
            .unwrap()
            .is_none()
    );
}
