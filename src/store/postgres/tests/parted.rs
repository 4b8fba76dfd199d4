//! A network that carries in one direction only: what is sent in the other vanishes, and nobody is told.
//!
//! What always holds: whoever is cut off is told so in bounded time, holds nobody else for long, and comes back
//! by himself.

use super::super::servers::{Direction, Wire};
use super::unknown::{admission, end_of};
use super::*;
use crate::protocol::operation::State;
use crate::store::{Backend, StoreError};

async fn until_admits(register: &PostgresBackend) {
    until("it admits", async || register.ready().await.is_ok()).await;
}

fn is_cut_off(told: &Result<Ruling, StoreError>) -> bool {
    matches!(
        told,
        Err(StoreError::Unavailable(_) | StoreError::CommitUnknown(_))
    )
}

async fn state(register: &PostgresBackend, admit: &Admit) -> Option<State> {
    let found = register.operation(&admit.key, false).await.unwrap();
    found.map(|it| it.operation.state)
}

async fn complete(register: &PostgresBackend, admit: &Admit) {
    let ruling = admission(register, admit).await.unwrap();
    assert!(matches!(ruling, Ruling::Granted(_)), "{ruling:?}");
    register.apply(end_of(admit)).await.unwrap();
}

/// Nothing that is asked arrives, or everything is carried out and no answer comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_vanish_in_one_direction_hold_nobody_and_are_made_up_for() {
    let database = database();
    for (own, direction) in [(1, Direction::ToServer), (2, Direction::ToClient)] {
        let wire = Wire::to(shared().address());
        let cut_off = sidecar(database.url_at(wire.address()), own).await;
        let other = sidecar(database.url(), own + 10).await;
        let asks = |id: &str, by: u128| {
            c::fenced(
                &format!("{id}-{own}"),
                &format!("r-{own}"),
                "5",
                InstanceId(by),
            )
        };
        complete(&cut_off, &asks("before", own)).await;

        wire.swallow(direction);
        let asked = asks("meanwhile", own);
        let told = admission(&cut_off, &asked).await;
        assert!(is_cut_off(&told), "{direction:?}: {told:?}");
        assert!(cut_off.ready().await.is_err());
        // What reached the server stands there, and nothing else does.
        let arrived = state(&other, &asked).await;
        let wanted = matches!(direction, Direction::ToClient).then_some(State::Intended);
        assert_eq!(arrived, wanted, "{direction:?}");

        wire.carry_again();
        until_admits(&cut_off).await;
        // Nobody waits for it any more: it is recorded that nothing was sent.
        until("it is settled", async || {
            matches!(state(&other, &asked).await, Some(State::NotApplied(_)))
        })
        .await;
        complete(&other, &asks("after", own + 10)).await;
        let again = Admit {
            attempt: c::attempt(InstanceId(own + 10)),
            ..asked
        };
        complete(&other, &again).await;
        let replayed = admission(&cut_off, &c::again(&asks("after", own))).await;
        assert!(
            matches!(replayed, Ok(Ruling::Replay { .. })),
            "{replayed:?}"
        );
    }
}

/// It had locked a fence, and its next word never arrives: the server still believes in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_vanishes_within_a_transaction_holds_its_fence_for_seconds_only() {
    let database = database();
    let wire = Wire::to(shared().address());
    let gone = sidecar(database.url_at(wire.address()), 1).await;
    let other = sidecar(database.url(), 2).await;
    complete(&gone, &c::fenced("first", "r", "5", InstanceId(1))).await;
    complete(&other, &c::fenced("second", "r", "5", InstanceId(2))).await;
    // It remembers another version of the fence, finds that out, and decides carefully: in a transaction.
    wire.swallow_from("write_1");
    let told = admission(&gone, &c::fenced("third", "r", "6", InstanceId(1))).await;
    assert!(is_cut_off(&told), "{told:?}");
    let admit = c::fenced("fourth", "r", "6", InstanceId(2));
    until("the fence is free", async || {
        match admission(&other, &c::again(&admit)).await {
            Ok(Ruling::Granted(_)) => true,
            told => {
                assert!(
                    is_cut_off(&told) || matches!(told, Ok(Ruling::Join { .. })),
                    "{told:?}"
                );
                false
            }
        }
    })
    .await;
}
