//! Ends that other processes bring about: looked for in the register, for whoever waits here.
//!
//! What always holds: an end is published only as it stands in the register, where it has committed. Whatever
//! somebody here waits for, and no attempt of this process works on, is looked at in one batch: at once
//! when somebody begins to wait for it or a hint comes in, and every so often in any case, so that a hint that
//! was lost costs a moment and nothing else. Where nobody waits, nothing is read.
//!
//! What it does not do: wait on anybody's behalf (`waiters`), or carry hints (`store`).

use std::collections::HashMap;
use std::time::Duration;

use super::attempt::Dispatcher;
use super::waiters::Ended;
use crate::protocol::ids::OperationKey;
use crate::protocol::operation::{Operation, State};
use crate::store::{Elsewhere, StoreError};

/// From one look to the next, at first.
const SOON: Duration = Duration::from_millis(250);

/// And at last.
const LATE: Duration = Duration::from_secs(2);

/// What was published of each operation that is waited for: which admission of it, in which state.
type Published = HashMap<OperationKey, (u32, &'static str)>;

/// Looks for ends until it is dropped; where nobody else can bring one about, not at all.
pub async fn run(dispatcher: Dispatcher) {
    if let Some(elsewhere) = dispatcher.register.read().elsewhere() {
        look_for_ever(&dispatcher, elsewhere).await;
    }
}

async fn look_for_ever(dispatcher: &Dispatcher, elsewhere: &dyn Elsewhere) {
    let mut published = Published::new();
    let mut pause = SOON;
    loop {
        let keys = dispatcher.waiters.abroad();
        published.retain(|key, _| keys.contains(key));
        if keys.is_empty() {
            dispatcher.waiters.another_is_abroad().await;
            pause = SOON;
            continue;
        }
        match elsewhere.look(&keys).await {
            Ok(found) => publish(dispatcher, found, &mut published),
            Err(error) => not_seen(&error),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LATE),
            () = elsewhere.hint() => {}
            () = dispatcher.waiters.another_is_abroad() => pause = SOON,
        }
    }
}

/// What is new of it. Who waits is not told that nothing happened.
fn publish(dispatcher: &Dispatcher, found: Vec<Operation>, published: &mut Published) {
    for operation in found {
        let turn = operation.turn();
        let Operation { key, state, .. } = operation;
        let seen = (turn.admitted, state.word());
        let is_news = state != State::Intended && published.get(&key) != Some(&seen);
        // Whoever works on it here has more to tell: what the attempt showed.
        if !is_news || dispatcher.waiters.is_worked_on(&key) {
            continue;
        }
        published.insert(key.clone(), seen);
        dispatcher.waiters.publish(Ended {
            key,
            turn,
            attempt: None,
            state,
            evidence: None,
        });
    }
}

/// Whoever waits has patience, and it has an end.
fn not_seen(error: &StoreError) {
    tracing::debug!(error = %error, "what is waited for could not be looked at");
}
