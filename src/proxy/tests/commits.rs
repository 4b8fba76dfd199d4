//! Commits of which nobody knows whether they happened: of an intent, of an outcome, of a late answer,
//! of a resend.
//!
//! What always holds: what was done and not heard of is neither lost nor done twice; the caller is told
//! what is certain by then; the upstream counts.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::protocol::lease::LeaseFacts;
use crate::protocol::operation::{AttemptEnd, State};
use crate::protocol::plan::{self, Step};

const NEXT: InstanceId = InstanceId(2);

/// An upstream that answers every request, after a while if need be, and counts.
pub(super) struct Counting {
    pub(super) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Counting {
    /// Answers the first request so late, the others at once. `None`: the first one never.
    pub(super) fn answering_first_after(delay: Option<Duration>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, seen) = (stream.unwrap(), Arc::clone(&seen));
                std::thread::spawn(move || {
                    // Waits for its first byte: a connection may be reserved and never used.
                    if stream.peek(&mut [0]).unwrap_or_default() == 0 {
                        return;
                    }
                    let request = read_request(&mut stream);
                    let number = {
                        let mut seen = seen.lock().unwrap();
                        seen.push(request);
                        seen.len()
                    };
                    match delay {
                        Some(delay) if number == 1 => std::thread::sleep(delay),
                        None if number == 1 => {
                            let _ends = stream.peek(&mut [0]);
                            return;
                        }
                        Some(_) | None => {}
                    }
                    answer(&mut stream, 201);
                });
            }
        });
        Self { address, requests }
    }

    pub(super) fn requests(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

pub(super) fn lost() -> StoreError {
    StoreError::CommitUnknown("not done".to_owned())
}

/// The n-th outcome to be recorded meets the n-th of these, the others nothing.
pub(super) fn of_records(
    fates: impl Fn(usize) -> Fate + Send + Sync + 'static,
) -> (Fates, Arc<AtomicUsize>) {
    let count: Arc<AtomicUsize> = Arc::default();
    let counted = Arc::clone(&count);
    let fates = move |command: &Command| match command {
        Command::Record(_) => fates(counted.fetch_add(1, Ordering::SeqCst) + 1),
        Command::Admit(_)
        | Command::Resend(_)
        | Command::Park(_)
        | Command::Start(_)
        | Command::Find(_)
        | Command::BeginVoid(_)
        | Command::Voided(_)
        | Command::TakeUp(_)
        | Command::Resolve(_)
        | Command::Steer(_)
        | Command::Lease(_)
        | Command::Note(_) => Fate::Answered,
    };
    (Box::new(fates), count)
}

pub(super) fn bench(
    upstream: &Counting,
    rules: &str,
    memory: &MemoryBackend,
    fates: Fates,
) -> Bench {
    bench_at(upstream.address, rules, memory, fates)
}

pub(super) fn bench_at(
    upstream: SocketAddr,
    rules: &str,
    memory: &MemoryBackend,
    fates: Fates,
) -> Bench {
    let backend = Interrupted {
        inner: memory.clone(),
        grants: Mutex::default(),
        after_grant: Box::new(|_| ()),
        fates,
        turns: turns(1_000),
        peeks: || (),
    };
    Bench::on(&[upstream], rules, backend)
}

/// The next process on the same register, with nothing going wrong.
fn next_process(upstream: &Counting, memory: &MemoryBackend) -> Bench {
    let register = memory.reopened(NEXT);
    Bench::before(&[upstream.address], IDEMPOTENT, register, Box::new(|_| ()))
}

pub(super) async fn stored(bench: &Bench, key: &str) -> Stored {
    let (_, identified) = bench.identified(0, key);
    let read = bench.dispatcher.register.read();
    let found = read.operation(&identified.key, false).await.unwrap();
    found.expect("it is known")
}

pub(super) async fn until_completed(bench: &Bench, key: &str) {
    let completed = async {
        while !matches!(
            stored(bench, key).await.operation.state,
            State::Completed(_)
        ) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, completed).await.unwrap();
}

fn assert_no_contradiction(bench: &Bench) {
    let text = bench.dispatcher.metrics.text().unwrap();
    assert!(text.contains("fencepost_contradictions_total 0"), "{text}");
}

pub(super) fn is_marked_uncertain(told: &Reply) -> bool {
    told.headers
        .get("fencepost-state")
        .is_some_and(|it| it == "uncertain")
}

fn is_replay(told: &Reply) -> bool {
    told.headers.contains_key("idempotent-replayed")
}

/// Recorded or not, the first time: the same write again finds it or makes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outcome_whose_commit_is_unknown_is_recorded_once_and_told_as_it_is() {
    let first: [fn() -> Fate; 3] = [
        || Fate::Answered,
        || Fate::ReplyLost,
        || Fate::NotDone(lost()),
    ];
    let mut events = Vec::new();
    for (at, unknown) in first.into_iter().enumerate() {
        let upstream = Counting::answering_first_after(Some(Duration::ZERO));
        let memory = MemoryBackend::new(INSTANCE);
        let (fates, records) = of_records(move |nth| match nth {
            1 => unknown(),
            _ => Fate::Answered,
        });
        let bench = bench(&upstream, IDEMPOTENT, &memory, fates);

        let told = bench.pay(0, "k").await;

        assert_eq!(told.status, StatusCode::CREATED);
        assert!(!is_marked_uncertain(&told) && !is_replay(&told));
        let writes = if at == 0 { 1 } else { 2 };
        assert_eq!(records.load(Ordering::SeqCst), writes);
        let once = stored(&bench, "k").await;
        assert!(matches!(once.operation.state, State::Completed(_)));
        events.push(once.events.len());
        let again = bench.pay(0, "k").await;
        assert!(is_replay(&again));
        assert_eq!((again.status, &again.body), (told.status, &told.body));
        assert_no_contradiction(&bench);
        assert_eq!(upstream.requests(), 1);
    }
    let as_ever = events[0];
    assert!(
        events.iter().all(|it| *it == as_ever),
        "twice in the log: {events:?}"
    );
}

/// It is held back no longer than `record_timeout`, and recording goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outcome_whose_commits_stay_unknown_is_told_marked_and_recorded_in_the_end() {
    let upstream = Counting::answering_first_after(Some(Duration::ZERO));
    let memory = MemoryBackend::new(INSTANCE);
    let heals = Arc::new(AtomicUsize::new(0));
    let healed = Arc::clone(&heals);
    let (fates, _) = of_records(move |_| match healed.load(Ordering::SeqCst) {
        0 => Fate::NotDone(lost()),
        _ => Fate::Answered,
    });
    let mut bench = bench(&upstream, IDEMPOTENT, &memory, fates);
    bench.dispatcher.record_timeout = Duration::from_millis(100);

    let told = bench.pay(0, "k").await;

    assert_eq!(told.status, StatusCode::CREATED);
    assert!(is_marked_uncertain(&told));
    assert!(told.headers.contains_key("location"));
    heals.store(1, Ordering::SeqCst);
    until_completed(&bench, "k").await;
    assert!(is_replay(&bench.pay(0, "k").await));
    assert_eq!(upstream.requests(), 1);
}

/// As the embedded register does: the commit failed, nobody knows how, and it writes nothing more. The
/// caller is not kept waiting; the next process finds the outcome, or asks the upstream under its key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outcome_lost_with_its_register_is_told_marked_and_found_by_the_next_process() {
    for committed in [true, false] {
        let upstream = Counting::answering_first_after(Some(Duration::ZERO));
        let memory = MemoryBackend::new(INSTANCE);
        let (fates, _) = of_records(move |nth| match nth {
            1 if committed => Fate::ReplyLost,
            1 => Fate::NotDone(lost()),
            _ => Fate::NotDone(StoreError::Poisoned("a failed commit".to_owned())),
        });
        let mut bench = bench(&upstream, IDEMPOTENT, &memory, fates);
        bench.dispatcher.record_timeout = LIMIT;

        let told = tokio::time::timeout(LIMIT / 2, bench.pay(0, "k"))
            .await
            .unwrap();

        assert_eq!(told.status, StatusCode::CREATED);
        assert!(is_marked_uncertain(&told));
        let after = next_process(&upstream, &memory);
        after.reconciler.start();
        until_completed(&after, "k").await;
        let again = after.pay(0, "k").await;
        assert_eq!((again.status, &again.body), (told.status, &told.body));
        let requests = upstream.requests.lock().unwrap().clone();
        assert_eq!(requests.len(), if committed { 1 } else { 2 });
        assert!(requests.iter().all(|it| *it == requests[0]), "the same key");
        after.dispatcher.supervisor.begin_drain();
    }
}

/// An attempt that outlasts its response limit is recorded twice: as interrupted, and with what came
/// late. Either commit may be unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_answer_is_recorded_whichever_commit_is_unknown() {
    for unknown in [1, 2] {
        let late = Duration::from_millis(700);
        let upstream = Counting::answering_first_after(Some(late));
        let memory = MemoryBackend::new(INSTANCE);
        let (fates, _) = of_records(move |nth| {
            if nth == unknown {
                Fate::ReplyLost
            } else {
                Fate::Answered
            }
        });
        let bench = bench(&upstream, FENCED, &memory, fates);
        // Its caller hangs up, so that nobody asks for a settlement before the late answer.
        let _gone = tokio::time::timeout(Duration::from_millis(150), bench.pay(0, "k")).await;
        until_completed(&bench, "k").await;
        assert!(is_replay(&bench.pay(0, "k").await));
        assert_no_contradiction(&bench);
        assert_eq!(upstream.requests(), 1);
    }
}

/// The register is away for so long that the attempt is overdue by its record, while its connection is still open
/// for a late answer: it is not quiet, and nothing else is sent, before that is closed and on record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_whose_end_is_not_recorded_yet_is_not_taken_for_closed() {
    let rules = IDEMPOTENT.replace(
        "{ connect: 2s, response: 5s, dispatch: 5s }",
        "{ connect: 200ms, response: 200ms, dispatch: 200ms }",
    );
    let upstream = Counting::answering_first_after(None);
    let memory = MemoryBackend::new(INSTANCE);
    let heals = Arc::new(AtomicUsize::new(0));
    let healed = Arc::clone(&heals);
    let (fates, _) = of_records(move |_| match healed.load(Ordering::SeqCst) {
        0 => Fate::NotDone(StoreError::Unavailable("away".to_owned())),
        _ => Fate::Answered,
    });
    let mut bench = bench(&upstream, &rules, &memory, fates);
    bench.dispatcher.record_timeout = Duration::from_millis(100);
    assert_eq!(bench.pay(0, "k").await.status, StatusCode::GATEWAY_TIMEOUT);
    let overdue = async {
        let lease = LeaseFacts::unknown();
        loop {
            let operation = stored(&bench, "k").await.operation;
            let living = bench.dispatcher.register.living();
            let now = bench.dispatcher.clock.now();
            let next = plan::plan(&operation, None, &lease, &living, &now);
            if matches!(next, Step::Resend { .. }) {
                return operation.key;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let key = tokio::time::timeout(LIMIT, overdue).await.unwrap();

    bench.reconciler.settle(&key).await.unwrap();

    let operation = stored(&bench, "k").await.operation;
    assert_eq!(operation.attempts.len(), 1);
    assert_eq!(operation.attempts[0].end, AttemptEnd::Silent);
    assert_eq!(upstream.requests(), 1);
    heals.store(1, Ordering::SeqCst);
    until_completed(&bench, "k").await;
    assert_eq!(upstream.requests(), 2);
    assert_no_contradiction(&bench);
}

/// Nobody sends on a permit that nobody has; what may have been admitted is settled by the next process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_intent_whose_commit_is_unknown_is_uncertain_and_not_sent() {
    for committed in [true, false] {
        let upstream = Counting::answering_first_after(Some(Duration::ZERO));
        let memory = MemoryBackend::new(INSTANCE);
        let fates = move |command: &Command| match command {
            Command::Admit(_) if committed => Fate::ReplyLost,
            Command::Admit(_) => Fate::NotDone(lost()),
            Command::Record(_)
            | Command::Resend(_)
            | Command::Park(_)
            | Command::Start(_)
            | Command::Find(_)
            | Command::BeginVoid(_)
            | Command::Voided(_)
            | Command::TakeUp(_)
            | Command::Resolve(_)
            | Command::Steer(_)
            | Command::Lease(_)
            | Command::Note(_) => Fate::Answered,
        };
        let bench = bench(&upstream, IDEMPOTENT, &memory, Box::new(fates));

        let told = bench.pay(0, "k").await;

        assert_eq!(told.status, StatusCode::GATEWAY_TIMEOUT, "{:?}", told.body);
        assert_eq!(upstream.requests(), 0);
        let after = next_process(&upstream, &memory);
        after.reconciler.start();
        assert_eq!(after.pay(0, "k").await.status, StatusCode::CREATED);
        assert_eq!(upstream.requests(), 1);
        after.dispatcher.supervisor.begin_drain();
    }
}

/// A resend that may have been admitted is not made; the next process makes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resend_whose_commit_is_unknown_is_not_made() {
    let upstream = Counting::answering_first_after(None);
    let memory = MemoryBackend::new(INSTANCE);
    let resends: Arc<AtomicUsize> = Arc::default();
    let asked = Arc::clone(&resends);
    let fates = move |command: &Command| match command {
        Command::Resend(_) => {
            asked.fetch_add(1, Ordering::SeqCst);
            Fate::ReplyLost
        }
        Command::Admit(_)
        | Command::Record(_)
        | Command::Park(_)
        | Command::Start(_)
        | Command::Find(_)
        | Command::BeginVoid(_)
        | Command::Voided(_)
        | Command::TakeUp(_)
        | Command::Resolve(_)
        | Command::Steer(_)
        | Command::Lease(_)
        | Command::Note(_) => Fate::Answered,
    };
    let bench = bench(&upstream, FENCED, &memory, Box::new(fates));
    let (_, identified) = bench.identified(0, "k");
    let _gone = tokio::time::timeout(Duration::from_millis(150), bench.pay(0, "k")).await;
    bench.until_listening(&identified.key).await;
    bench.reconciler.start();
    let asks = async {
        while resends.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, asks).await.unwrap();
    bench.dispatcher.supervisor.begin_drain();
    assert!(bench.dispatcher.supervisor.drained(LIMIT).await);
    assert_eq!(upstream.requests(), 1);

    let register = memory.reopened(NEXT);
    let after = Bench::before(&[upstream.address], FENCED, register, Box::new(|_| ()));
    after.reconciler.start();
    until_completed(&after, "k").await;
    assert_eq!(upstream.requests(), 2);
    after.dispatcher.supervisor.begin_drain();
}
