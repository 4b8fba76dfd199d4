//! What settling asks, sends and leaves alone when the config, the rules or the upstream are not what they were.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

use super::*;
use crate::protocol::command::{Steer, Steering};
use crate::protocol::ids::Tenant;
use crate::protocol::operation::{Parked, State};
use crate::reconcile::Pace;

/// The process of before.
const EARLIER: InstanceId = InstanceId(7);

/// Can be asked, and deduplicates.
const ASKED: &str = "
    capability: [idempotent, query]
    key: { header: Idempotency-Key, lifetime: 24h, value: derived }
    timeouts: { connect: 2s, response: 5s, dispatch: 5s }
    effects:
      - on: POST /payments
        once: { header: Idempotency-Key }
        settle:
          - look_up:
              get: \"/of-payments?key={operation.key}\"
              applied: \"response.body.found\"
              lag: 50ms
              every: { from: 50ms, to: 50ms }
              within: 1s
";

/// The same without a key of the upstream's, and without the request.
const FORGETFUL: &str = "
    capability: [query]
    timeouts: { connect: 2s, response: 5s, dispatch: 5s }
    effects:
      - on: POST /refunds
        once: { header: Idempotency-Key }
        keep_request: never
        settle:
          - look_up:
              get: \"/of-refunds?id={operation.id}\"
              applied: \"response.body.found\"
              credential: { value: own }
              lag: 50ms
              every: { from: 50ms, to: 50ms }
              within: 1s
      - on: POST /payments
        once: { header: Idempotency-Key }
        keep_request: never
        settle:
          - look_up:
              get: \"/of-payments?id={operation.id}\"
              applied: \"response.body.found\"
              credential: { value: own }
              lag: 50ms
              every: { from: 50ms, to: 50ms }
              within: 1s
";

/// Answers whatever it is asked, after a while; `found` says what, of the target and how often it was asked before.
struct Answering {
    address: SocketAddr,
    targets: Arc<Mutex<Vec<String>>>,
}

impl Answering {
    fn so(after: Duration, found: impl Fn(&str, usize) -> bool + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let targets: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, found) = (Arc::clone(&targets), Arc::new(found));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, seen) = (stream.unwrap(), Arc::clone(&seen));
                let found = Arc::clone(&found);
                std::thread::spawn(move || {
                    // Waits for its first byte: a connection may be reserved and never used.
                    if stream.peek(&mut [0]).unwrap_or_default() == 0 {
                        return;
                    }
                    let request = read_request(&mut stream);
                    let target = request.split(' ').nth(1).unwrap_or_default().to_owned();
                    let before = {
                        let mut seen = seen.lock().unwrap();
                        let before = seen.iter().filter(|it| **it == target).count();
                        seen.push(target.clone());
                        before
                    };
                    std::thread::sleep(after);
                    let body = format!("{{\"found\":{}}}", found(&target, before));
                    let length = body.len();
                    let _gone = write!(
                        stream,
                        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\
                         Content-Length: {length}\r\n\r\n{body}"
                    );
                });
            }
        });
        Self { address, targets }
    }

    fn at_once() -> Self {
        Self::so(Duration::ZERO, |_, _| true)
    }

    fn targets(&self) -> Vec<String> {
        self.targets.lock().unwrap().clone()
    }
}

/// Operations that the process of before has left behind.
async fn left_behind(upstream: SocketAddr, rules: &str, ids: &[String]) -> MemoryBackend {
    let memory = MemoryBackend::new(EARLIER);
    let before = Bench::before(&[upstream], rules, memory.clone(), Box::new(|_| ()));
    for id in ids {
        before.intend(0, id).await;
    }
    memory
}

/// The next process.
fn next(memory: &MemoryBackend, upstream: SocketAddr, rules: &str, fates: Fates) -> Bench {
    let backend = Interrupted {
        inner: memory.reopened(INSTANCE),
        grants: Mutex::default(),
        after_grant: Box::new(|_| ()),
        fates,
        turns: turns(1_000),
        peeks: || (),
    };
    Bench::on(&[upstream], rules, backend)
}

fn no_fate() -> Fates {
    Box::new(|_| Fate::Answered)
}

async fn of(bench: &Bench, id: &str) -> Stored {
    let (_, identified) = bench.identified(0, id);
    let read = bench.dispatcher.register.read();
    let stored = read.operation(&identified.key, true).await.unwrap();
    stored.unwrap()
}

async fn until(bench: &Bench, id: &str, is_so: impl Fn(&Stored) -> bool) -> Stored {
    let so = async {
        loop {
            let stored = of(bench, id).await;
            if is_so(&stored) {
                return stored;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, so).await.unwrap()
}

fn says(stored: &Stored, text: &str) -> usize {
    let events = stored.events.iter();
    events.filter(|event| event.text.contains(text)).count()
}

fn is_completed(stored: &Stored) -> bool {
    matches!(stored.operation.state, State::Completed(_))
}

/// Elsewhere, or by a text that never went out, there is nothing to be found of it: nobody is asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_config_by_which_it_would_have_gone_out_otherwise_asks_nobody_about_it() {
    let upstream = Answering::at_once();
    let elsewhere = Answering::at_once();
    let changes = [
        (ASKED.to_owned(), elsewhere.address),
        (
            ASKED.replace("lifetime: 24h", "lifetime: 24h, format: uuid"),
            upstream.address,
        ),
        (
            ASKED.replace(
                "    timeouts",
                "    reference: [ { header: X-Op } ]\n    timeouts",
            ),
            upstream.address,
        ),
    ];
    for (rules, address) in changes {
        let memory = left_behind(upstream.address, ASKED, &["k".to_owned()]).await;
        let bench = next(&memory, address, &rules, no_fate());
        bench.reconciler.start();
        let parked = |stored: &Stored| {
            stored.operation.state == State::NeedsAttention(Parked::NotToldInTime)
        };
        let stored = until(&bench, "k", parked).await;
        assert_eq!(says(&stored, "no longer has the question"), 1, "{stored:?}");
        assert_eq!((upstream.targets(), elsewhere.targets()), (vec![], vec![]));
    }
    // By the same one it is.
    let memory = left_behind(upstream.address, ASKED, &["k".to_owned()]).await;
    let bench = next(&memory, upstream.address, ASKED, no_fate());
    bench.reconciler.start();
    until(&bench, "k", is_completed).await;
}

/// Nor is it undone there, or by that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_is_it_undone_by_such_a_config() {
    let rules = ASKED
        .replace("look_up:", "void:")
        .replace("get: \"/of-payments?key", "post: \"/void?key")
        .replace("applied:", "done:");
    let upstream = Answering::at_once();
    let elsewhere = Answering::at_once();
    let memory = left_behind(upstream.address, &rules, &["k".to_owned()]).await;
    let bench = next(&memory, elsewhere.address, &rules, no_fate());
    bench.reconciler.start();
    let stored = until(&bench, "k", |stored| says(stored, "held back") > 0).await;
    assert!(stored.operation.settling.void.is_none());
    assert_eq!((upstream.targets(), elsewhere.targets()), (vec![], vec![]));
}

/// The steps of two effects have the same names, as by default: each operation has those of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_request_an_operation_is_asked_about_by_its_own_effects_question() {
    let upstream = Answering::at_once();
    let memory = left_behind(upstream.address, FORGETFUL, &["k".to_owned()]).await;
    let bench = next(&memory, upstream.address, FORGETFUL, no_fate());
    bench.reconciler.start();
    until(&bench, "k", is_completed).await;
    assert_eq!(upstream.targets(), ["/of-payments?id=k"]);

    // Its own is gone, and the other one's says nothing of it.
    let upstream = Answering::at_once();
    let memory = left_behind(upstream.address, FORGETFUL, &["k".to_owned()]).await;
    let own = FORGETFUL.find("      - on: POST /payments").unwrap();
    let bench = next(&memory, upstream.address, &FORGETFUL[..own], no_fate());
    let key = identified_before(&memory).await;
    bench.reconciler.start();
    let parked = async {
        loop {
            let read = bench.dispatcher.register.read();
            let stored = read.operation(&key, false).await.unwrap().unwrap();
            if !stored.operation.state.is_in_doubt() {
                return stored.operation.state;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let state = tokio::time::timeout(LIMIT, parked).await.unwrap();
    assert_eq!(state, State::NeedsAttention(Parked::NotToldInTime));
    assert_eq!(upstream.targets(), [""; 0]);
}

async fn identified_before(memory: &MemoryBackend) -> OperationKey {
    let all = memory.in_doubt(0, 1).await.unwrap();
    all[0].1.key.clone()
}

/// What its own effect puts in is compared before an attempt is asked for; that another one would fit is nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resend_that_is_held_back_is_never_granted() {
    let twice = format!(
        "{IDEMPOTENT}      - on: POST /refunds\n        once: {{ header: Idempotency-Key }}\n"
    );
    let referring = twice.replace(
        "        join: 5s\n",
        "        join: 5s\n        reference: [ { header: X-Op } ]\n",
    );
    assert_ne!(twice, referring);
    let upstream = Answering::at_once();
    let memory = left_behind(upstream.address, &twice, &["k".to_owned()]).await;
    let bench = next(&memory, upstream.address, &referring, no_fate());
    bench.reconciler.start();
    let (_, identified) = bench.identified(0, "k");
    until(&bench, "k", |stored| says(stored, "held back") > 0).await;
    for _ in 0..3 {
        bench.reconciler.settle(&identified.key).await.unwrap();
    }
    let stored = of(&bench, "k").await;
    assert_eq!(stored.operation.attempts.len(), 1);
    assert_eq!(
        says(&stored, "held back"),
        1,
        "said once: {:?}",
        stored.events
    );
    assert_eq!(upstream.targets(), [""; 0]);
}

/// Between the plan and the grant its resource is cancelled: it is only looked up, and that still helps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_must_not_be_sent_again_any_more_is_still_looked_up() {
    let rules = FENCED
        .replace("[idempotent]", "[idempotent, query]")
        .replace("response: 300ms", "response: 5s")
        + "        settle:
          - send_again: {}
          - look_up:
              get: \"/of-payments?key={operation.key}\"
              applied: \"response.body.found\"
              lag: 50ms
              every: { from: 50ms, to: 50ms }
";
    let upstream = Answering::at_once();
    let memory = left_behind(upstream.address, &rules, &["k".to_owned()]).await;
    let cancelled = AtomicBool::new(false);
    let tables = memory.clone();
    let fates: Fates = Box::new(move |command| {
        if matches!(command, Command::Resend(_)) && !cancelled.swap(true, Ordering::SeqCst) {
            let steer = Command::Steer(Steer {
                resource: ResourceKey {
                    tenant: Tenant::new("default"),
                    name: crate::protocol::ids::ResourceName::new("a"),
                },
                how: Steering::Cancel,
                operator: "al".to_owned(),
                reason: "so".to_owned(),
                at: Clock::system().unwrap().now(),
            });
            let mut steered = tables.apply(steer);
            let mut cx = Context::from_waker(Waker::noop());
            assert!(steered.as_mut().poll(&mut cx).is_ready());
        }
        Fate::Answered
    });
    let bench = next(&memory, upstream.address, &rules, fates);
    bench.reconciler.start();
    let stored = until(&bench, "k", |stored| !stored.operation.state.is_in_doubt()).await;
    assert!(is_completed(&stored), "{stored:?}");
    assert_eq!(stored.operation.attempts.len(), 1);
    assert_eq!(upstream.targets().len(), 1);
}

/// That nobody could be reached is evidence for whoever looks later, and one line of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upstream_that_is_away_is_told_once_in_the_event_log() {
    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for rules in [
        ASKED.replace("within: 1s", "within: 60s"),
        IDEMPOTENT.to_owned(),
    ] {
        let memory = left_behind(nobody, &rules, &["k".to_owned()]).await;
        let bench = next(&memory, nobody, &rules, no_fate());
        bench.reconciler.start();
        let failed = async {
            loop {
                let standings = bench.reconciler.standings();
                if standings.iter().any(|standing| standing.failures >= 3) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LIMIT, failed).await.unwrap();
        let stored = of(&bench, "k").await;
        assert_eq!(says(&stored, "cannot be reached"), 1, "{:?}", stored.events);
    }
}

/// More is uncertain than can be asked about at once, or woken at its own time. Whatever the upstream takes for its
/// answers, the next pass is not put off by that: everything is asked about twice within its window.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_is_asked_about_again_and_again_within_its_window() {
    let rules = ASKED
        .replace(
            "every: { from: 50ms, to: 50ms }",
            "every: { from: 300ms, to: 300ms }",
        )
        .replace("within: 1s", "within: 15s");
    let upstream = Answering::so(Duration::from_millis(20), |_, before| before >= 1);
    let ids: Vec<String> = (0..200).map(|number| format!("k-{number}")).collect();
    let memory = left_behind(upstream.address, &rules, &ids).await;
    let bench = next(&memory, upstream.address, &rules, no_fate());
    let pace = Pace {
        pass_every: Duration::from_millis(200),
        slots: 2,
        slots_of_woken: 1,
        woken_later: 4,
    };
    let gateways = Gateways::new(bench.gateways.iter().map(Arc::clone));
    let reconciler = Reconciler::paced(bench.dispatcher.clone(), Arc::new(gateways), pace);
    reconciler.start();
    let settled = async {
        while !bench
            .dispatcher
            .register
            .read()
            .in_doubt(0, 1)
            .await
            .unwrap()
            .is_empty()
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, settled).await.unwrap();
    for id in &ids {
        let stored = of(&bench, id).await;
        assert!(is_completed(&stored), "{:?}", stored.events);
    }
}

/// A resource lets eight be worked on. Those that stand first are held back for as long as the config is what it is;
/// the one behind them gets its turn all the same.
// On one thread a page is gone through before anybody works.
#[tokio::test]
async fn those_that_cannot_be_settled_keep_nobody_behind_them_waiting() {
    let referring = FENCED.replace(
        "        once:",
        "        reference: [ { header: X-Op } ]\n        once:",
    );
    assert_ne!(referring, FENCED);
    let upstream = Answering::at_once();
    let first: Vec<String> = (0..16).map(|number| format!("k-{number}")).collect();
    let memory = left_behind(upstream.address, &referring, &first).await;
    let before = Bench::before(
        &[upstream.address],
        FENCED,
        memory.clone(),
        Box::new(|_| ()),
    );
    before.intend(0, "behind").await;
    let bench = next(&memory, upstream.address, FENCED, no_fate());
    let pace = Pace {
        pass_every: Duration::from_millis(20),
        ..Pace::default()
    };
    let gateways = Gateways::new(bench.gateways.iter().map(Arc::clone));
    let reconciler = Reconciler::paced(bench.dispatcher.clone(), Arc::new(gateways), pace);
    reconciler.start();
    let stored = until(&bench, "behind", |stored| {
        !stored.operation.state.is_in_doubt()
    })
    .await;
    assert!(is_completed(&stored), "{stored:?}");
    for id in &first {
        let held_back = until(&bench, id, |stored| says(stored, "held back") > 0).await;
        assert!(held_back.operation.state.is_in_doubt());
    }
}
