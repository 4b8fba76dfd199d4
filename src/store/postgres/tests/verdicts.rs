//! What a person, or the reconciler, decides, where nobody knows whether that was committed.
//!
//! What always holds: a verdict is about what stood when it was given, and is applied to nothing else.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::super::servers::{Database, Wire, shared};
use super::unknown::{COMMIT, admission, stored};
use super::{A, B, LONG, PostgresBackend, database, join, sidecar, until};
use crate::protocol::command::{
    Command, Note, Record, Reply, Resolution, Resolved, Ruling, Steer, Steered, Steering,
};
use crate::protocol::ids::{AttemptId, InstanceId};
use crate::protocol::operation::State;
use crate::store::conformance::commands as c;
use crate::store::{Backend, StoreError};

const HERE: InstanceId = InstanceId(1);
const THERE: InstanceId = InstanceId(2);

/// One sidecar by way of a wire that loses a commit and then stays away, and another.
struct World {
    _database: Database,
    wire: Wire,
    here: Arc<PostgresBackend>,
    there: Arc<PostgresBackend>,
}

type Told = Result<Reply, StoreError>;

impl World {
    async fn new() -> Self {
        let database = shared().database();
        let wire = Wire::to(shared().address());
        let here = sidecar(database.url_at(wire.address()), HERE.0).await;
        let there = sidecar(database.url(), THERE.0).await;
        Self {
            _database: database,
            wire,
            here,
            there,
        }
    }

    /// Its answer is lost, or the question.
    async fn in_doubt(&self, command: Command, lost: &str) -> JoinSet<Told> {
        let before = self.wire.lost();
        self.wire.refuse();
        match lost {
            "answer" => self.wire.lose_answer_to(COMMIT),
            _ => self.wire.lose(COMMIT),
        }
        let here = Arc::clone(&self.here);
        let mut asking = JoinSet::new();
        asking.spawn(async move { here.apply(command).await });
        until("it is lost", async || self.wire.lost() > before).await;
        asking
    }

    /// Its doubts are decided before it proves that it can commit.
    async fn back(&self) {
        self.wire.accept();
        until("it is back", async || self.here.ready().await.is_ok()).await;
    }

    /// An attempt of that number that nobody knows the end of.
    async fn leave_uncertain(&self, id: &str, number: u64) {
        let mut admit = c::admit(id, THERE);
        admit.attempt = AttemptId {
            number,
            ..admit.attempt
        };
        let ruling = admission(&self.there, &admit).await.unwrap();
        assert!(matches!(ruling, Ruling::Granted(_)), "{ruling:?}");
        let record = Record {
            key: admit.key.clone(),
            attempt: admit.attempt,
            evidence: c::interrupted(),
            open: false,
            at: c::at(500),
        };
        self.there.apply(Command::Record(record)).await.unwrap();
        assert_eq!(self.state(id).await, State::Uncertain);
    }

    async fn state(&self, id: &str) -> State {
        stored(&self.there, &c::key(id)).await.state
    }

    async fn is_cancelled(&self) -> bool {
        let found = self.there.resource(&c::resource_key("r")).await.unwrap();
        found.is_some_and(|it| it.fence.cancelled)
    }
}

async fn answer(mut asked: JoinSet<Told>) -> Told {
    asked.join_next().await.unwrap().unwrap()
}

fn not_applied(id: &str) -> Command {
    let verdict = Resolution::NotApplied { new_key: false };
    Command::Resolve(c::resolve(&c::key(id), verdict))
}

pub(super) fn steer(how: Steering) -> Command {
    Command::Steer(Steer {
        resource: c::resource_key("r"),
        how,
        operator: "alice".to_owned(),
        reason: "asked to".to_owned(),
        at: c::at(600),
    })
}

fn is_unknown(told: &Told) -> bool {
    matches!(told, Err(StoreError::CommitUnknown(_)))
}

/// Contract §5: nobody has looked at the attempt that was made since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verdict_is_not_applied_to_an_attempt_that_came_after_it() {
    let world = World::new().await;
    world.leave_uncertain("a", 1).await;
    let asked = world.in_doubt(not_applied("a"), "answer").await;
    until("it is settled", async || {
        matches!(world.state("a").await, State::NotApplied(_))
    })
    .await;
    world.leave_uncertain("a", 2).await;
    world.back().await;
    assert_eq!(world.state("a").await, State::Uncertain);
    let told = answer(asked).await;
    assert!(is_unknown(&told), "{told:?}");
}

/// It was not written, and what another one said stands: that is the answer, if anybody still waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_was_overtaken_is_told_what_stands() {
    let world = World::new().await;
    world.leave_uncertain("a", 1).await;
    let asked = world.in_doubt(not_applied("a"), "question").await;
    let other = c::resolve(&c::key("a"), Resolution::Applied(c::answer(200)));
    until("the other verdict is given", async || {
        let told = world.there.apply(Command::Resolve(other.clone())).await;
        told.is_ok()
    })
    .await;
    world.back().await;
    assert!(matches!(world.state("a").await, State::Completed(_)));
    let told = answer(asked).await;
    let stands = matches!(told, Ok(Reply::Resolved(Resolved::AlreadyCompleted { .. })));
    assert!(stands || is_unknown(&told), "{told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_in_doubt_does_not_undo_what_was_reopened_since() {
    let world = World::new().await;
    let asked = world.in_doubt(steer(Steering::Cancel), "answer").await;
    until("it is cancelled", async || world.is_cancelled().await).await;
    let reply = world.there.apply(steer(Steering::Reopen)).await.unwrap();
    assert!(
        matches!(reply, Reply::Steered(Steered::Done { .. })),
        "{reply:?}"
    );
    world.back().await;
    assert!(!world.is_cancelled().await);
    let told = answer(asked).await;
    assert!(is_unknown(&told), "{told:?}");
}

/// What was written and still stands is answered as it was, though its answer was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verdict_that_stands_was_given() {
    let world = World::new().await;
    world.leave_uncertain("a", 1).await;
    for (command, answer) in [
        (steer(Steering::Cancel), "Steered(Done"),
        (
            Command::Park(c::park(&c::key("a"))),
            "Parked(Some(NeedsAttention",
        ),
        (not_applied("a"), "Resolved(Done(NotApplied"),
    ] {
        world.wire.lose_answer_to(COMMIT);
        let reply = world.here.apply(command).await.unwrap();
        let reply = format!("{reply:?}");
        assert!(reply.starts_with(answer), "{reply}");
    }
}

/// Whoever gave it was told that nobody knows, and has looked and decided anew by now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verdict_that_nobody_waits_for_any_more_is_not_given_late() {
    let world = World::new().await;
    world.leave_uncertain("a", 1).await;
    let note = Note {
        key: c::key("a"),
        text: "looked at".to_owned(),
        at: c::at(600),
    };
    let commands = [
        not_applied("a"),
        steer(Steering::Cancel),
        Command::Park(c::park(&c::key("a"))),
        Command::Note(note),
    ];
    for command in commands {
        let asked = world.in_doubt(command, "question").await;
        let told = answer(asked).await;
        assert!(is_unknown(&told), "{told:?}");
        world.back().await;
    }
    assert_eq!(world.state("a").await, State::Uncertain);
    assert!(!world.is_cancelled().await);
    let stored = world.there.operation(&c::key("a"), false).await.unwrap();
    let events = stored.unwrap().events;
    assert!(events.iter().all(|it| it.text != "looked at"), "{events:?}");
}

/// A pass of the reconciler: what it parks, if it does, is what it looked at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_parked_and_settled_since_is_not_parked_again() {
    let world = World::new().await;
    world.leave_uncertain("a", 1).await;
    let park = Command::Park(c::park(&c::key("a")));
    let asked = world.in_doubt(park, "answer").await;
    until("it is parked", async || {
        matches!(world.state("a").await, State::NeedsAttention(_))
    })
    .await;
    let reply = world.there.apply(not_applied("a")).await.unwrap();
    assert!(
        matches!(reply, Reply::Resolved(Resolved::Done(_))),
        "{reply:?}"
    );
    world.leave_uncertain("a", 2).await;
    world.back().await;
    assert_eq!(world.state("a").await, State::Uncertain);
    let told = answer(asked).await;
    let stands = matches!(told, Ok(Reply::Parked(Some(State::Uncertain))));
    assert!(stands || is_unknown(&told), "{told:?}");
}

/// One thread: both ask before the lane takes either, which decides them together.
#[tokio::test]
async fn a_record_that_cannot_be_read_concerns_nobody_else() {
    let database = database();
    let a = join(&database, A, LONG).await;
    for id in ["unreadable", "sound"] {
        a.carry_out(&c::admit(id, A), c::interrupted()).await;
    }
    database.query(
        "UPDATE fencepost.operations SET record = '\\x00' WHERE convert_from(id, 'UTF8') = 'unreadable'",
    );
    let resolve = async |id: &str| {
        let resolve = c::resolve(&c::key(id), Resolution::NotApplied { new_key: false });
        a.register.resolve(resolve).await
    };
    let (unreadable, sound) = tokio::join!(resolve("unreadable"), resolve("sound"));
    assert!(
        matches!(unreadable, Err(StoreError::Corrupt(_))),
        "{unreadable:?}"
    );
    assert!(matches!(sound, Ok(Resolved::Done(_))), "{sound:?}");
}

/// A snapshot of before the wait would show neither the equal request nor that the ground was closed meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_on_a_snapshot_of_before_a_wait() {
    let database = database();
    let name = database.name().to_owned();
    let a = join(&database, A, LONG).await;
    a.backend.close().await.unwrap();
    let nothing = vec!["NULL"; 47].join(", ");
    for (level, is_enough) in [("READ COMMITTED", true), ("REPEATABLE READ", false)] {
        let write =
            format!("BEGIN ISOLATION LEVEL {level}; SELECT fencepost.write_1({nothing}); COMMIT");
        let told = database.try_query(&write);
        assert_eq!(told.is_ok(), is_enough, "{told:?}");
    }
    // Where that is what transactions begin with, they begin otherwise.
    database.query(&format!(
        "ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'"
    ));
    let b = join(&database, B, LONG).await;
    b.backend.ready().await.unwrap();
    for id in ["guessed", "guessed again"] {
        b.carry_out(&c::admit(id, B), c::interrupted()).await;
        let verdict = Resolution::NotApplied { new_key: false };
        let resolved = b.register.resolve(c::resolve(&c::key(id), verdict)).await;
        resolved.unwrap();
        assert_eq!(b.state(id).await, "NOT_APPLIED");
    }
}
