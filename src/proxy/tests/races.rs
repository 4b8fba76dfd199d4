//! What happens between two steps: a connection dies, a drain begins, a verdict or a config comes in
//! between.

use super::*;

/// A connection dies unused, the request goes out on another, and that answer is lost. What was said
/// of the first attempt (nothing was sent) must not be told of the second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_was_sent_is_never_told_of_an_attempt_that_was() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (close, closing) = std::sync::mpsc::channel::<()>();
    let (closed, is_closed) = std::sync::mpsc::channel::<()>();
    let upstream = std::thread::spawn(move || {
        let (unused, _) = listener.accept().unwrap();
        closing.recv().unwrap();
        drop(unused);
        closed.send(()).unwrap();
        let (mut lost, _) = listener.accept().unwrap();
        let first = read_request(&mut lost);
        drop(lost);
        let (mut settled, _) = listener.accept().unwrap();
        let again = read_request(&mut settled);
        answer(&mut settled, 201);
        assert_eq!(first, again);
    });
    let (close, is_closed) = (Mutex::new(close), Mutex::new(is_closed));
    let bench = Bench::new(
        address,
        IDEMPOTENT,
        Box::new(move |grant| {
            if grant == 1 {
                close.lock().unwrap().send(()).unwrap();
                is_closed.lock().unwrap().recv().unwrap();
            }
        }),
    );
    let told = bench.pay(0, "k").await;
    assert_eq!(told.status, StatusCode::CREATED, "{:?}", told.body);
    upstream.join().unwrap();
}

/// More operations are uncertain at an upstream that is away than are settled at once; another
/// upstream's are settled all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upstream_that_is_away_holds_up_no_other() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let away = nobody.local_addr().unwrap();
    drop(nobody);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstreams = [away, listener.local_addr().unwrap()];
    let nothing = || -> AfterGrant { Box::new(|_| ()) };
    let backend = MemoryBackend::new(INSTANCE);
    let before = Bench::before(&upstreams, IDEMPOTENT, backend.clone(), nothing());
    for number in 0..100 {
        before.intend(0, &format!("away-{number}")).await;
    }
    before.intend(1, "k").await;

    let next = InstanceId(2);
    let after = Bench::before(&upstreams, IDEMPOTENT, backend.reopened(next), nothing());
    after.reconciler.start();
    let settled = tokio::task::spawn_blocking(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_request(&mut stream);
        answer(&mut stream, 201);
    });
    tokio::time::timeout(LIMIT, settled)
        .await
        .expect("the other upstream's operation is sent again")
        .unwrap();
    after.dispatcher.supervisor.begin_drain();
}

/// A request that was read before draining began, and decided after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_begun_once_draining_has_begun() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let bench = Bench::new(address, IDEMPOTENT, Box::new(|_| panic!("granted")));
    bench.dispatcher.supervisor.begin_drain();
    let told = bench.pay(0, "k").await;
    assert_eq!(told.status, StatusCode::SERVICE_UNAVAILABLE);
}

/// Its caller is gone and nobody asks for it: an effect under a fence whose attempt listens for a late
/// answer is found by the pass, closed and sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pass_goes_on_with_a_fenced_effect_that_only_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let bench = Bench::new(address, FENCED, Box::new(|_| ()));
    let upstream = tokio::task::spawn_blocking(move || {
        let (mut silent, _) = listener.accept().unwrap();
        let first = read_request(&mut silent);
        let (mut again, _) = listener.accept().unwrap();
        assert_eq!(read_request(&mut again), first);
        answer(&mut again, 201);
    });
    let (_, identified) = bench.identified(0, "k");
    // The caller hangs up once its request is on the wire.
    let hung_up = tokio::time::timeout(Duration::from_millis(150), bench.pay(0, "k")).await;
    assert!(hung_up.is_err(), "nobody answers");
    bench.until_listening(&identified.key).await;
    bench.reconciler.start();
    tokio::time::timeout(LIMIT, upstream)
        .await
        .expect("it is sent again")
        .unwrap();
    bench.dispatcher.supervisor.begin_drain();
}

/// A person said that it was not applied, and was wrong: while a corrected request is on its way, the
/// first one's answer comes after all. The corrected caller is not given the other request's outcome.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corrected_request_is_never_answered_with_the_outcome_of_the_earlier_form() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (late, comes_late) = std::sync::mpsc::channel::<()>();
    let (answered, was_answered) = std::sync::mpsc::channel::<()>();
    let upstream = std::thread::spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        read_request(&mut first);
        comes_late.recv().unwrap();
        answer(&mut first, 201);
        answered.send(()).unwrap();
        // The corrected request finds, on its last look, that it is not to be sent.
        listener
    });
    let (late, was_answered) = (Mutex::new(late), Mutex::new(was_answered));
    let bench = Arc::new(Bench::new(
        address,
        FENCED,
        Box::new(move |grant| {
            if grant == 2 {
                late.lock().unwrap().send(()).unwrap();
                was_answered.lock().unwrap().recv().unwrap();
            }
        }),
    ));
    let (_, identified) = bench.identified(0, "k");
    let key = identified.key.clone();
    let hung_up = tokio::time::timeout(Duration::from_millis(150), bench.pay(0, "k")).await;
    assert!(hung_up.is_err(), "nobody answers yet");
    bench.until_listening(&key).await;
    let wrong = Resolve {
        key: key.clone(),
        verdict: Resolution::NotApplied { new_key: false },
        operator: "carol".to_owned(),
        reason: "looked in the wrong ledger".to_owned(),
        seen: None,
        at: bench.dispatcher.clock.now(),
    };
    bench.dispatcher.register.resolve(wrong).await.unwrap();

    let told = bench.pay_with(0, "k", r#"{"corrected":true}"#).await;
    assert_eq!(
        told.status,
        StatusCode::UNPROCESSABLE_ENTITY,
        "{:?}",
        told.body
    );
    drop(upstream.join().unwrap());
}

/// A config that names operations otherwise came into force after this request was read: under its old
/// name no repeat would find it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_not_admitted_under_a_name_of_before() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let bench = Bench::new(
        listener.local_addr().unwrap(),
        IDEMPOTENT,
        Box::new(|_| panic!("it was admitted")),
    );
    let turnstile = Turnstile::default();
    let old = turnstile.names().await;
    turnstile.close().await.change();
    let told = bench.pay_under(&old, 0, "k", "{}").await;
    assert_eq!(
        told.status,
        StatusCode::SERVICE_UNAVAILABLE,
        "{:?}",
        told.body
    );
    let text = String::from_utf8_lossy(&told.body).into_owned();
    assert!(
        text.contains("same-operation")
            && text.contains("Nothing was sent")
            && text.contains("The config of this proxy changed"),
        "{text}"
    );
}
