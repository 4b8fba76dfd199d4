//! What cannot be settled unattended: whoever waits for it is told, whatever the reason.

use super::commits::Counting;
use super::*;
use crate::protocol::command::Attended;
use crate::protocol::operation::{Parked, State};
use crate::reconcile::Attending;

/// The process of before.
const EARLIER: InstanceId = InstanceId(7);

fn attended() -> Attended {
    Attended {
        operator: "alice".to_owned(),
        reason: "the customer waits".to_owned(),
    }
}

fn nothing() -> AfterGrant {
    Box::new(|_| ())
}

/// An operation that the process of before has left behind, whose stored request has this method.
async fn left_behind(upstream: SocketAddr, method: &'static str) -> (Bench, OperationKey) {
    let memory = MemoryBackend::new(EARLIER);
    let before = Bench::before(&[upstream], IDEMPOTENT, memory.clone(), nothing());
    let (_, identified) = before.identified(0, "k");
    let (attempt, now) = (
        before.dispatcher.next_attempt(),
        before.dispatcher.clock.now(),
    );
    let mut admit = identified.admit(attempt, now, true);
    let request = crate::protocol::outcome::StoredRequest {
        method: method.into(),
        ..(*admit.request).clone()
    };
    admit.request = Arc::new(request);
    let admitted = before.dispatcher.register.admit(admit).await.unwrap();
    assert!(admitted.permit.is_some());
    let memory = memory.reopened(INSTANCE);
    let after = Bench::before(&[upstream], IDEMPOTENT, memory, nothing());
    (after, identified.key)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_request_that_cannot_be_sent_is_given_to_a_person_and_that_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (bench, key) = left_behind(listener.local_addr().unwrap(), "CONNECT").await;
    let mut ticket = bench.dispatcher.waiters.watch(&key);
    bench.reconciler.wake(&key);

    let parked = tokio::time::timeout(LIMIT, ticket.next()).await.unwrap();
    let why = Parked::RequestNotKept;
    assert_eq!(parked.state, State::NeedsAttention(why));
    // That it could not be sent was known before another attempt was asked for.
    let read = bench.dispatcher.register.read();
    let found = read.operation(&key, false).await.unwrap().unwrap();
    assert_eq!(found.operation.attempts.len(), 1);
}

/// It goes nowhere while the config in force would send it otherwise, and is settled once that is put right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_config_would_send_otherwise_is_held_back_until_it_is_put_right() {
    let nowhere = Vec::new();
    let keyless = IDEMPOTENT
        .replace(
            "    key: { header: Idempotency-Key, lifetime: 24h, value: derived }\n",
            "",
        )
        .replace("[idempotent]", "[opaque]");
    assert_ne!(keyless, IDEMPOTENT);
    let upstream = Counting::answering_first_after(Some(Duration::ZERO));
    let (bench, key) = left_behind(upstream.address, "POST").await;
    let right = bench.gateways.clone();
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    let by = |address, rules: &str| {
        let other = MemoryBackend::new(INSTANCE);
        Bench::before(&[address], rules, other, nothing())
            .gateways
            .clone()
    };
    // The upstream's own rule stays, and the effect's is another.
    let of_effect = IDEMPOTENT.replace(
        "        join: 5s",
        "        key: { header: Other-Key, lifetime: 24h, value: derived }\n        join: 5s",
    );
    let wrongs = [
        nowhere,
        by(upstream.address, &keyless),
        by(elsewhere.local_addr().unwrap(), IDEMPOTENT),
        by(upstream.address, &of_effect),
    ];
    for wrong in wrongs {
        bench.reconciler.replace(Arc::new(Gateways::new(wrong)));
        bench.reconciler.settle(&key).await.unwrap();
        let read = bench.dispatcher.register.read();
        let found = read.operation(&key, true).await.unwrap().unwrap();
        assert!(
            found.operation.state.is_in_doubt(),
            "{:?}",
            found.operation.state
        );
        assert!(found.request.is_some());
        // A person's word does not make it the same effect.
        let sent = bench.reconciler.attend(&key, attended(), true);
        let sent = sent.await.unwrap();
        assert!(matches!(sent, Attending::HeldBack(_)), "{sent:?}");
        assert_eq!(upstream.requests(), 0);
    }
    let mut ticket = bench.dispatcher.waiters.watch(&key);
    bench.reconciler.replace(Arc::new(Gateways::new(right)));
    let settled = tokio::time::timeout(LIMIT, ticket.next()).await.unwrap();
    assert!(
        matches!(settled.state, State::Completed(_)),
        "{:?}",
        settled.state
    );
    assert_eq!(upstream.requests(), 1);
}
