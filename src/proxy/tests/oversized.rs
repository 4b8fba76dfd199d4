//! An answer too large to keep, and its record: its last piece waits for what the record says.

use std::sync::atomic::{AtomicBool, Ordering};

use http_body_util::BodyExt as _;

use super::commits::{bench_at, lost, of_records, stored, until_completed};
use super::*;
use crate::protocol::operation::State;
use crate::upstream::{Incomplete, PassingBody};

const LENGTH: usize = 200_000;

const KEEPING_LITTLE: &str = "
    capability: [idempotent]
    key: { header: Idempotency-Key, lifetime: 24h, value: derived }
    timeouts: { connect: 2s, response: 5s, dispatch: 5s }
    effects:
      - on: POST /payments
        once: { header: Idempotency-Key }
        limits: { answer: 1KiB }
";

/// Not to its end within the response limit.
const IMPATIENT: &str = "
    capability: [idempotent]
    key: { header: Idempotency-Key, lifetime: 24h, value: derived }
    timeouts: { connect: 2s, response: 300ms, dispatch: 5s }
    effects:
      - on: POST /payments
        once: { header: Idempotency-Key }
        limits: { answer: 1KiB }
";

/// Half of the content.
fn half() -> Vec<u8> {
    vec![b'x'; LENGTH / 2]
}

/// Breaks off in the midst of much content, and answers the second request in few words.
fn breaking_off() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        read_request(&mut first);
        write!(first, "HTTP/1.1 201 X\r\nContent-Length: {LENGTH}\r\n\r\n").unwrap();
        first.write_all(&half()).unwrap();
        drop(first);
        let (mut second, _) = listener.accept().unwrap();
        read_request(&mut second);
        answer(&mut second, 201);
        let _until_closed = second.read(&mut [0]);
    });
    address
}

/// Answers one request with much content.
fn verbose() -> SocketAddr {
    stalling(None)
}

/// The same; the second half of it when told to.
fn stalling(until: Option<std::sync::mpsc::Receiver<()>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_request(&mut stream);
        write!(stream, "HTTP/1.1 201 X\r\nContent-Length: {LENGTH}\r\n\r\n").unwrap();
        stream.write_all(&half()).unwrap();
        if let Some(until) = until
            && until.recv().is_err()
        {
            return;
        }
        let _may_be_closed = stream.write_all(&half());
        let _until_closed = stream.read(&mut [0]);
    });
    address
}

async fn passed_on(bench: &Bench) -> (Reply, PassingBody) {
    let told = bench
        .carry_out(&Names::default(), 0, bench.identified_with(0, "k", "{}"))
        .await;
    let passing = told.passing.expect("it is passed on");
    (told.reply, passing.content.into_body())
}

async fn whole(body: PassingBody) -> Result<usize, Incomplete> {
    let all = tokio::time::timeout(LIMIT, body.collect()).await.unwrap();
    all.map(|all| all.to_bytes().len())
}

/// The record commits late, but in time: until then its caller has not seen all of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_end_waits_for_the_record() {
    let memory = MemoryBackend::new(INSTANCE);
    let commits: Arc<AtomicBool> = Arc::default();
    let may = Arc::clone(&commits);
    let (fates, records) = of_records(move |_| {
        if may.load(Ordering::SeqCst) {
            Fate::Answered
        } else {
            Fate::NotDone(lost())
        }
    });
    let mut bench = bench_at(verbose(), KEEPING_LITTLE, &memory, fates);
    bench.dispatcher.record_timeout = LIMIT;
    let (reply, mut body) = passed_on(&bench).await;
    assert_eq!(reply.status, StatusCode::CREATED);
    let mut seen = 0;
    while let Ok(frame) = tokio::time::timeout(Duration::from_millis(300), body.frame()).await {
        seen += frame.unwrap().unwrap().into_data().unwrap().len();
    }
    assert!(seen > 0 && seen < LENGTH, "{seen}");
    assert!(records.load(Ordering::SeqCst) > 0, "it waits for nothing");
    commits.store(true, Ordering::SeqCst);
    assert_eq!(whole(body).await, Ok(LENGTH - seen));
    assert!(matches!(
        stored(&bench, "k").await.operation.state,
        State::Completed(_)
    ));
}

/// Its head has gone out unmarked. Where the record then does not commit in time, or never will, its
/// caller must not believe that it saw an outcome.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_ends_incomplete_where_it_is_not_recorded() {
    let faults: [fn() -> StoreError; 2] =
        [lost, || StoreError::Poisoned("a failed commit".to_owned())];
    for fault in faults {
        let memory = MemoryBackend::new(INSTANCE);
        let (fates, _) = of_records(move |_| Fate::NotDone(fault()));
        let mut bench = bench_at(verbose(), KEEPING_LITTLE, &memory, fates);
        bench.dispatcher.record_timeout = Duration::from_millis(100);
        let (reply, body) = passed_on(&bench).await;
        assert_eq!(reply.status, StatusCode::CREATED);
        assert_eq!(whole(body).await, Err(Incomplete));
    }
}

/// The response limit passes in its midst: UNCERTAIN, and read on. It is passed on while it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_outlasts_the_response_limit_is_passed_on_to_its_end() {
    let (go, until) = std::sync::mpsc::channel();
    let bench = Bench::new(stalling(Some(until)), IMPATIENT, Box::new(|_| ()));
    let (_, identified) = bench.identified(0, "k");
    let (reply, body) = passed_on(&bench).await;
    assert_eq!(reply.status, StatusCode::CREATED);
    let late = async {
        bench.until_listening(&identified.key).await;
        go.send(()).unwrap();
    };
    let (read, ()) = tokio::join!(whole(body), late);
    assert_eq!(read, Ok(LENGTH));
    // Whoever saw all of it saw a recorded outcome.
    let state = stored(&bench, "k").await.operation.state;
    assert!(matches!(state, State::Completed(_)), "{state:?}");
}

/// The same, and a settle step acts meanwhile: it closes the attempt first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_closed_to_settle_ends_incomplete() {
    let (_never, until) = std::sync::mpsc::channel();
    let bench = Bench::new(stalling(Some(until)), IMPATIENT, Box::new(|_| ()));
    let (_, identified) = bench.identified(0, "k");
    let (_, body) = passed_on(&bench).await;
    let settling = async {
        bench.until_listening(&identified.key).await;
        bench.dispatcher.waiters.ask_to_close(&identified.key);
    };
    let (read, ()) = tokio::join!(whole(body), settling);
    assert_eq!(read, Err(Incomplete));
    assert_eq!(stored(&bench, "k").await.operation.state, State::Uncertain);
}

/// Its caller has been told, and settling begins all the same, before any pass looks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_breaks_off_is_settled_at_once() {
    let bench = Bench::new(breaking_off(), KEEPING_LITTLE, Box::new(|_| ()));
    let (_, body) = passed_on(&bench).await;
    assert_eq!(whole(body).await, Err(Incomplete));
    until_completed(&bench, "k").await;
}
