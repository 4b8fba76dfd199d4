//! Callers that hang up, wait, or meet a fault of ours.
//!
//! What always holds: whoever hangs up in time has withdrawn; whoever waits holds nothing that others
//! need; whoever is there gets a complete answer.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use super::super::joining::{Asked, Join, Joined};
use super::commits::{Counting, bench, lost, of_records, stored};
use super::*;
use crate::dispatch::live::Live;
use crate::lease::claim::Claims;
use crate::protocol::operation::State;
use crate::proxy::doors::{Behind, Face, InForce};
use crate::proxy::front::{Front, Shared};
use crate::proxy::listener;
use crate::wire::body::BodyBudget;

fn at_once() -> Counting {
    Counting::answering_first_after(Some(Duration::ZERO))
}

/// The register is busy, the request waits to be decided, and its caller hangs up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_hangs_up_while_its_admission_is_queued_has_withdrawn() {
    let upstream = at_once();
    let busy = turns(0);
    let backend = Interrupted {
        inner: MemoryBackend::new(INSTANCE),
        grants: Mutex::default(),
        after_grant: Box::new(|_| ()),
        fates: Box::new(|_| Fate::Answered),
        turns: Arc::clone(&busy),
        peeks: || (),
    };
    let bench = Bench::on(&[upstream.address], IDEMPOTENT, backend);
    tokio::select! {
        biased;
        _ = bench.pay(0, "gone") => panic!("nothing is decided"),
        queued = busy.queued.acquire() => queued.unwrap().forget(),
    }

    busy.may.add_permits(10);
    assert_eq!(bench.pay(0, "stays").await.status, StatusCode::CREATED);
    bench.dispatcher.supervisor.begin_drain();
    assert!(bench.dispatcher.supervisor.drained(LIMIT).await);

    assert_eq!(upstream.requests(), 1);
    let (_, gone) = bench.identified(0, "gone");
    let read = bench.dispatcher.register.read();
    assert!(read.operation(&gone.key, false).await.unwrap().is_none());
}

/// A drain is for what comes to an end: an attempt that only listens may do so for minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_does_not_wait_for_an_attempt_that_only_listens() {
    let upstream = Counting::answering_first_after(None);
    let bench = Bench::new(upstream.address, FENCED, Box::new(|_| ()));
    let (_, identified) = bench.identified(0, "k");
    let told = tokio::time::timeout(Duration::from_millis(150), bench.pay(0, "k")).await;
    assert!(told.is_err(), "nobody answers");
    bench.until_listening(&identified.key).await;

    bench.dispatcher.supervisor.begin_drain();
    assert!(bench.dispatcher.supervisor.drained(LIMIT).await);

    // The next process need not wait for it either.
    let operation = stored(&bench, "k").await.operation;
    assert_eq!(operation.state, State::Uncertain);
    let ends: Vec<_> = operation.attempts.iter().map(|it| it.end).collect();
    assert!(matches!(ends[..], [AttemptEnd::Closed(..)]), "{ends:?}");
}

/// A config was looked at meanwhile and refused: the request's own time begins when it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_waited_for_a_config_is_not_late() {
    let upstream = at_once();
    let hasty = IDEMPOTENT.replace("dispatch: 5s", "dispatch: 200ms");
    let bench = Bench::new(upstream.address, &hasty, Box::new(|_| ()));
    let turnstile = Turnstile::default();
    let names = turnstile.names().await;
    let closed = turnstile.close().await;
    let paying = bench.pay_under(&names, 0, "k", "{}");
    tokio::pin!(paying);
    tokio::select! {
        biased;
        told = &mut paying => panic!("it does not wait: {told:?}"),
        // Time itself is what is waited for.
        () = tokio::time::sleep(Duration::from_millis(400)) => {}
    }
    drop(closed);
    let told = paying.await;
    assert_eq!(told.status, StatusCode::CREATED, "{:?}", told.body);
    assert_eq!(upstream.requests(), 1);
}

/// The first one's end is told between the ruling and the wait. Without a key, to ask again would be to
/// find nothing, and to send.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_joins_what_has_just_ended_gets_its_answer() {
    let upstream = at_once();
    let bench = Bench::new(upstream.address, FENCED, Box::new(|_| ()));
    assert_eq!(bench.pay(0, "k").await.status, StatusCode::CREATED);
    let (_, first) = bench.identified(0, "k");
    let (_, second) = bench.identified(0, "other");
    let mut ticket = bench.dispatcher.waiters.watch(&second.key);
    let teller = Teller {
        resource: None,
        token: None,
        stamped: None,
        uncertain_status: StatusCode::GATEWAY_TIMEOUT,
    };
    let join = |meaning| Join {
        dispatcher: &bench.dispatcher,
        teller: &teller,
        asked: Asked {
            own: second.key.clone(),
            joined: first.key.clone(),
            meaning,
            attempt: None,
            admitted: 1,
            uncertain: false,
        },
    };
    let Joined::Told(told) = join(first.meaning.clone()).run(&mut ticket, LIMIT).await else {
        panic!("it is not told");
    };
    assert_eq!(told.reply.status, StatusCode::CREATED);
    assert!(told.reply.headers.contains_key("idempotent-replayed"));
    let (_, other, _) = bench.identified_with(0, "other", "[1]");
    let joined = join(other.meaning).run(&mut ticket, LIMIT).await;
    assert!(matches!(joined, Joined::AskAgain), "another form");
    assert_eq!(upstream.requests(), 1);
}

/// Contract §4: whoever waits gives its connection back first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_waits_for_a_predecessor_holds_no_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let bench = Bench::new(address, FENCED, Box::new(|_| ()));
    bench.intend(0, "older").await;
    let newer = bench.identified_as(0, "newer", "{}", "109");
    let pool = &bench.gateways[0].pool;
    assert!(pool.idle().is_none());
    let given_back = async {
        while pool.idle().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let names = Names::default();
    tokio::select! {
        biased;
        told = bench.carry_out(&names, 0, newer) => panic!("it does not wait: {told:?}"),
        given = tokio::time::timeout(LIMIT / 4, given_back) => given.expect("it is given back"),
    }
}

/// Its upstream is not in the config any more: it waits, is neither sent anywhere nor given up, and
/// holds nothing else up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_whose_upstream_has_left_the_config_stays_uncertain() {
    let (stays, left) = (at_once(), at_once());
    let memory = MemoryBackend::new(INSTANCE);
    let both = [stays.address, left.address];
    let register = memory.clone();
    let before = Bench::before(&both, IDEMPOTENT, register, Box::new(|_| ()));
    before.intend(1, "left").await;
    before.intend(0, "k").await;
    let (_, orphan) = before.identified(1, "left");

    let next = InstanceId(2);
    let register = memory.reopened(next);
    let after = Bench::before(&both[..1], IDEMPOTENT, register, Box::new(|_| ()));
    after.reconciler.start();
    super::commits::until_completed(&after, "k").await;
    after.dispatcher.supervisor.begin_drain();
    assert!(after.dispatcher.supervisor.drained(LIMIT).await);

    let read = after.dispatcher.register.read();
    let found = read.operation(&orphan.key, true).await.unwrap().unwrap();
    assert!(
        found.operation.state.is_in_doubt(),
        "{:?}",
        found.operation.state
    );
    assert!(found.request.is_some(), "it can still be sent again");
    assert_eq!((stays.requests(), left.requests()), (1, 0));
}

/// A listener in front of the first upstream. Its address.
async fn served(bench: Bench) -> SocketAddr {
    served_until(bench, CancellationToken::new()).await
}

async fn served_until(bench: Bench, closing: CancellationToken) -> SocketAddr {
    served_for(bench, Claims::default(), closing).await
}

/// The same on behalf of its callers.
pub(super) async fn served_for(
    bench: Bench,
    claims: Claims,
    closing: CancellationToken,
) -> SocketAddr {
    let (observer, _judge) = crate::observe::judge::open(
        bench.dispatcher.register.clone(),
        bench.dispatcher.clock.clone(),
        crate::observe::counts::Counts::default(),
        bench.dispatcher.metrics.clone(),
    );
    let shared = Arc::new(Shared::new(
        Arc::new(bench.config),
        bench.dispatcher,
        bench.reconciler,
        FingerprintKey::new(&[7; 32]),
        Names::default(),
        BodyBudget::new(1 << 20),
        observer,
    ));
    let front = Front::new(shared, Arc::clone(&bench.gateways[0]));
    opened(Face::Callers(front), claims, closing).await
}

/// A door with that behind it.
pub(super) async fn opened(face: Face, claims: Claims, closing: CancellationToken) -> SocketAddr {
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let behind = Behind { face, tls: None };
    let in_force = Live::new(Arc::new(InForce::first(behind, &closing)));
    let serving = listener::serve(socket, in_force, claims, closing);
    #[expect(clippy::disallowed_methods, reason = "it ends with the test's runtime")]
    tokio::spawn(serving);
    address
}

/// All that a caller reads until the connection is closed.
async fn told_at(address: SocketAddr) -> String {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = "POST /payments HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\n\
                   Content-Length: 2\r\nConnection: close\r\n\r\n{}";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    let read = tokio::time::timeout(LIMIT, stream.read_to_string(&mut text));
    read.await.unwrap().unwrap();
    text
}

fn assert_complete(text: &str, status: u16, problem: &str) {
    let (head, content) = text
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("{text:?}"));
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
    assert!(
        head.contains(&format!("content-length: {}", content.len())),
        "{text}"
    );
    assert!(content.contains(problem), "{text}");
}

/// Contract §6: never a bare close. A fault of ours may come at any time; here in the request's own
/// task, before anything was sent, and in the effect's, when all was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_of_ours_is_answered_like_anything_that_nobody_knows() {
    let upstream = at_once();
    let memory = MemoryBackend::new(INSTANCE);
    let (fates, _) = of_records(|_| panic!("on purpose: while the outcome is recorded"));
    let sent = served(bench(&upstream, IDEMPOTENT, &memory, fates)).await;
    assert_complete(&told_at(sent).await, 504, "outcome-uncertain");
    assert_eq!(upstream.requests(), 1);

    let upstream = at_once();
    let backend = Interrupted {
        inner: MemoryBackend::new(INSTANCE),
        grants: Mutex::default(),
        after_grant: Box::new(|_| ()),
        fates: Box::new(|_| Fate::Answered),
        turns: turns(0),
        peeks: || panic!("on purpose: while the record is looked at"),
    };
    let unsent = served(Bench::on(&[upstream.address], IDEMPOTENT, backend)).await;
    assert_complete(&told_at(unsent).await, 504, "outcome-uncertain");
    assert_eq!(upstream.requests(), 0);
}

/// The register is lost between the bytes and their record: the upstream's own answer, marked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_register_that_is_poisoned_after_a_byte_has_left_is_answered_completely() {
    let upstream = at_once();
    let memory = MemoryBackend::new(INSTANCE);
    let (fates, _) = of_records(|nth| match nth {
        1 => Fate::NotDone(lost()),
        _ => Fate::NotDone(StoreError::Poisoned("a failed commit".to_owned())),
    });
    let address = served(bench(&upstream, IDEMPOTENT, &memory, fates)).await;
    let told = told_at(address).await;
    assert_complete(&told, 201, "ok");
    assert!(told.contains("fencepost-state: uncertain"), "{told}");
}

/// The listener closes while the upstream works: whoever waits for its answer gets it, or hears, once
/// the drain is over, that nobody knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_is_answered_though_its_listener_closes() {
    for is_over in [false, true] {
        let delay = (!is_over).then_some(Duration::from_millis(300));
        let upstream = Counting::answering_first_after(delay);
        let bench = Bench::new(upstream.address, IDEMPOTENT, Box::new(|_| ()));
        let supervisor = bench.dispatcher.supervisor.clone();
        let closing = CancellationToken::new();
        let address = served_until(bench, closing.clone()).await;
        let stopping = async {
            while upstream.requests() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            supervisor.begin_drain();
            closing.cancel();
            if is_over {
                supervisor.end_drain();
            }
        };
        let (told, ()) = tokio::join!(told_at(address), stopping);
        if is_over {
            assert_complete(&told, 504, "outcome-uncertain");
        } else {
            assert_complete(&told, 201, "ok");
        }
    }
}
