//! A new primary, promoted by hand, while the old one lives on and is still reached over old connections.
//!
//! What always holds: of one operation there is one permit, on whichever server it was asked for; nobody who
//! lives is declared dead where the register goes on. The old primary is synchronous: one that is not commits
//! alone, and what it commits then is lost (`restored`).

use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::super::servers::{Postgres, Wire, psql, waiting};
use super::unknown::{admission, end_of};
use super::*;
use crate::store::Backend;

/// A synchronous primary whose replica was promoted by hand, and which nobody has stopped.
struct World {
    old: Postgres,
    new: Postgres,
    one: Party,
    other: Party,
    wire_of_one: Wire,
    wire_of_other: Wire,
    url_of_new: String,
}

impl World {
    async fn new(dead_after: Millis) -> Self {
        let old = Postgres::start();
        let new = old.replica();
        // Its value would drop the database of a server that waits for a replica that is none.
        let database = std::mem::ManuallyDrop::new(old.database());
        old.set("synchronous_standby_names", "*");
        let (wire_of_one, wire_of_other) = (Wire::to(old.address()), Wire::to(old.address()));
        let party = async |wire: &Wire, instance| {
            let url = database.url_at(wire.address());
            let clock = Clock::system().unwrap();
            let backend = try_join(url, instance, dead_after, clock).await.unwrap();
            Party {
                register: Register::new(backend.clone()),
                backend,
            }
        };
        Self {
            one: party(&wire_of_one, A).await,
            other: party(&wire_of_other, B).await,
            url_of_new: database.url_at(new.address()),
            wire_of_one,
            wire_of_other,
            old,
            new,
        }
    }

    /// The other goes over at once; the one stays where its connections are.
    fn promote(&self) {
        self.new.promote();
        self.wire_of_one.lead_to(self.new.address());
        self.wire_of_other.lead_to(self.new.address());
        self.wire_of_other.cut();
    }

    fn told_by_new(&self, sql: &str) -> String {
        psql(&self.url_of_new, sql).unwrap()
    }
}

/// Asks until there is a permit, or somebody else's attempt has ended.
#[expect(clippy::disallowed_methods, reason = "the test waits for it")]
fn asks_for(party: &Party, admit: &Admit) -> JoinHandle<usize> {
    let (backend, admit) = (Arc::clone(&party.backend), admit.clone());
    tokio::spawn(async move {
        loop {
            let mut asked = c::again(&admit);
            asked.attempt.instance = backend.instance();
            match admission(&backend, &asked).await {
                Ok(Ruling::Granted(_)) => {
                    backend.apply(end_of(&asked)).await.unwrap();
                    return 1;
                }
                Ok(Ruling::Replay { .. }) => return 0,
                Ok(Ruling::Join { .. }) | Err(_) => {}
                Ok(other) => panic!("{other:?}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_primary_that_lives_on_gives_no_permit_beside_the_new_one() {
    // Shorter than it takes until the one notices that its commits hang.
    let world = World::new(SOON).await;
    let begun = c::admit("begun", A);
    let permit = world.one.granted(&begun).await;
    world
        .other
        .carry_out(&c::admit("before", B), c::applied())
        .await;
    world.new.until_caught_up_with(&world.old);

    world.promote();

    // Without a token: one of before would be stale where a new epoch has begun.
    let contested: Vec<_> = (0..5)
        .map(|number| c::admit(&format!("contested-{number}"), A))
        .collect();
    let by_one: Vec<_> = contested
        .iter()
        .map(|it| asks_for(&world.one, it))
        .collect();
    let by_other: Vec<_> = contested
        .iter()
        .map(|it| asks_for(&world.other, it))
        .collect();
    let all = async {
        let mut permits = Vec::new();
        for (one, other) in by_one.into_iter().zip(by_other) {
            permits.push(one.await.unwrap() + other.await.unwrap());
        }
        permits
    };
    let permits = timeout(waiting::PATIENCE * 2, all).await.unwrap();
    assert_eq!(permits, [1; 5]);
    // What was under way goes on where the register does.
    assert!(world.other.sees_in_flight(&begun, c::at(1)).await);
    let receipt = permit.finish(c::applied());
    world
        .one
        .register
        .record(&receipt, c::at(900))
        .await
        .unwrap();
    let again = admission(&world.other.backend, &c::again(&begun)).await;
    assert!(matches!(again, Ok(Ruling::Replay { .. })), "{again:?}");
    until("they know each other for alive", async || {
        !world.one.takes_for_dead(B) && !world.other.takes_for_dead(A)
    })
    .await;
    assert_eq!(
        world.told_by_new("SELECT count(*) FROM fencepost.instances WHERE dead"),
        "0"
    );
}
