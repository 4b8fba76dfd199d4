//! What cannot be settled unattended: whoever waits for it is told, whatever the reason.

use super::*;
use crate::protocol::operation::{Parked, State};
use crate::protocol::outcome::{Evidence, Unsent};

/// The process of before.
const EARLIER: InstanceId = InstanceId(7);

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
async fn a_stored_request_that_cannot_be_sent_is_given_to_a_person_and_every_end_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (bench, key) = left_behind(listener.local_addr().unwrap(), "CONNECT").await;
    let mut ticket = bench.dispatcher.waiters.watch(&key);
    bench.reconciler.wake(&key);

    let attempt = tokio::time::timeout(LIMIT, ticket.next()).await.unwrap();
    assert_eq!(attempt.evidence, Some(Evidence::NotSent(Unsent::Unfit)));
    assert_eq!(attempt.state, State::Uncertain);
    let parked = tokio::time::timeout(LIMIT, ticket.next()).await.unwrap();
    let why = Parked::RequestNotKept;
    assert_eq!(parked.state, State::NeedsAttention(why));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_whose_upstream_left_the_config_is_given_to_a_person() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (bench, key) = left_behind(listener.local_addr().unwrap(), "POST").await;
    bench.reconciler.replace(Arc::new(Gateways::default()));
    let mut ticket = bench.dispatcher.waiters.watch(&key);
    bench.reconciler.wake(&key);

    let parked = tokio::time::timeout(LIMIT, ticket.next()).await.unwrap();
    let why = Parked::UpstreamGone;
    assert_eq!(parked.state, State::NeedsAttention(why));
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "nobody connected");
}
