//! *Not sent* is said where it can be proved, and nowhere else.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use std::io::Read;
use std::sync::mpsc::channel;

use super::scripted::*;
use crate::clock::Manual;
use crate::protocol::outcome::{Evidence, Interruption, Phase, Unsent};
use crate::protocol::time::{BootInstant, Millis};
use crate::upstream::{EffectPool, Limits, Sent, Unreachable};

#[tokio::test]
async fn a_connection_that_dies_while_held_was_not_written_to() {
    for reset in [false, true] {
        let (go, gone) = (signal(), signal());
        let (taken, told) = (go.clone(), gone.clone());
        let upstream = Scripted::run(move |_, mut peer| {
            peer.request();
            peer.write(OK);
            taken.wait();
            if reset {
                peer.reset();
            } else {
                peer.close();
            }
            told.give();
        });
        let pool = upstream.pool();
        answered(send(&pool, post(&pool, 10)).await);
        let held = pool.idle().unwrap();
        go.give();
        gone.wait();
        assert_eq!(send_on(held, post(&pool, 10)).await, LOST);
        assert_eq!(upstream.accepted(), 1, "sent again by somebody");
    }
}

#[tokio::test]
async fn a_stray_answer_is_never_taken_for_ours() {
    for _ in 0..60 {
        let (go, there) = (signal(), signal());
        let (taken, told) = (go.clone(), there.clone());
        let (tell, seen) = channel();
        let tell = Mutex::new(tell);
        let upstream = Scripted::run(move |_, mut peer| {
            peer.request();
            peer.write(OK);
            taken.wait();
            peer.write("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstray");
            told.give();
            tell.lock().unwrap().send(peer.drain()).unwrap();
        });
        let pool = upstream.pool();
        answered(send(&pool, post(&pool, 10)).await);
        let held = pool.idle().unwrap();
        go.give();
        // Blocks the runtime too: it has no chance to notice before the gate does.
        there.wait();
        assert_eq!(send_on(held, post(&pool, 10)).await, LOST);
        assert_eq!(seen.recv().unwrap(), 0, "bytes left all the same");
    }
}

#[tokio::test]
async fn a_stray_byte_keeps_an_idle_connection_from_being_handed_out() {
    for _ in 0..60 {
        let (go, there) = (signal(), signal());
        let (taken, told) = (go.clone(), there.clone());
        let upstream = Scripted::run(move |_, mut peer| {
            peer.request();
            peer.write(OK);
            taken.wait();
            peer.write("x");
            told.give();
            peer.drain();
        });
        let pool = upstream.pool();
        answered(send(&pool, post(&pool, 10)).await);
        go.give();
        there.wait();
        assert!(pool.idle().is_none());
    }
}

/// C17: the machine slept between the commit and the first byte; no timer of ours noticed.
#[tokio::test]
async fn a_machine_that_slept_past_dispatch_by_sends_nothing() {
    let (tell, seen) = channel();
    let tell = Mutex::new(tell);
    let upstream = Scripted::run(move |_, mut peer| {
        let request = peer.request();
        tell.lock().unwrap().send(request.is_some()).unwrap();
        peer.write(OK);
    });
    let manual = Manual::at(system_clock().now());
    let pool = EffectPool::new(upstream.endpoint(false), Limits::default(), manual.clock());
    for (asleep, sent) in [(Millis(5_001), false), (Millis(5_000), true)] {
        let reserved = pool.reserve().await.unwrap();
        let permit = permit_until(manual.now().boottime.after(Millis(5_000)));
        manual.pass(asleep);
        // Whatever the wall clock says meanwhile.
        manual.step_wall(-3_600_000);
        let Sent::Ended(receipt) = reserved.send(permit, post(&pool, 10), judge).await else {
            panic!("still open");
        };
        let expired = *receipt.evidence() == Evidence::NotSent(Unsent::DispatchExpired);
        assert_eq!(expired, !sent, "{:?}", receipt.evidence());
        assert_eq!(seen.recv().unwrap(), sent);
    }
}

#[tokio::test]
async fn past_dispatch_by_nothing_leaves() {
    let (tell, seen) = channel();
    let tell = Mutex::new(tell);
    let upstream = Scripted::run(move |_, mut peer| {
        tell.lock().unwrap().send(peer.drain()).unwrap();
    });
    let pool = upstream.pool();
    let reserved = pool.reserve().await.unwrap();
    let late = permit_until(BootInstant(0));
    let Sent::Ended(receipt) = reserved.send(late, post(&pool, 10), judge).await else {
        panic!("still open");
    };
    assert_eq!(
        receipt.evidence(),
        &Evidence::NotSent(Unsent::DispatchExpired)
    );
    drop(pool);
    assert_eq!(seen.recv().unwrap(), 0);
}

/// A03: an upstream that takes connections and closes them.
#[tokio::test]
async fn nothing_is_sent_twice_to_an_upstream_that_hangs_up() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = requests.clone();
    let upstream = Scripted::run(move |_, mut peer| {
        if peer.request().is_some() {
            counter.fetch_add(1, Ordering::SeqCst);
        }
        peer.close();
    });
    let pool = upstream.pool();
    for _ in 0..200 {
        assert_eq!(
            send(&pool, post(&pool, 10)).await,
            interrupted(Phase::Waiting, Interruption::Closed)
        );
    }
    assert_eq!(requests.load(Ordering::SeqCst), 200);
    assert_eq!(upstream.accepted(), 200);
}

#[tokio::test]
async fn an_upstream_that_closes_at_once_gets_one_connection_each() {
    let upstream = Scripted::run(|_, peer| peer.close());
    let pool = upstream.pool();
    for _ in 0..200 {
        match pool.reserve().await {
            Err(Unreachable::Closed) => {}
            Err(other) => panic!("{other:?}"),
            Ok(reserved) => {
                let evidence = send_on(reserved, post(&pool, 10)).await;
                assert!(
                    !matches!(evidence, Evidence::Answered { .. }),
                    "{evidence:?}"
                );
            }
        }
    }
    assert_eq!(upstream.accepted(), 200);
}

/// Wherever the upstream stops reading: if it saw a byte, nobody says that none was sent.
#[tokio::test]
async fn not_sent_is_never_said_of_a_byte_that_arrived() {
    let (tell, seen) = channel();
    let tell = Mutex::new(tell);
    let upstream = Scripted::run(move |number, mut peer| {
        let stop = [0, 1, 16, 90, 1000, 100_000][number % 6];
        let mut read = vec![0; stop];
        let whole = peer.tcp.read_exact(&mut read).is_ok();
        tell.lock().unwrap().send(whole && stop > 0).unwrap();
        if number % 2 == 0 {
            peer.reset();
        }
    });
    let pool = upstream.pool();
    for _ in 0..300 {
        let evidence = match pool.reserve().await {
            Ok(reserved) => send_on(reserved, post(&pool, 400_000)).await,
            Err(_) => LOST,
        };
        let arrived = seen.recv().unwrap();
        assert!(
            !(arrived && matches!(evidence, Evidence::NotSent(_))),
            "{evidence:?} though bytes arrived"
        );
        assert!(!matches!(evidence, Evidence::Answered { .. }));
    }
}

#[tokio::test]
async fn a_request_cut_off_in_the_middle_is_interrupted_while_sending() {
    let upstream = Scripted::run(|_, mut peer| {
        let mut some = vec![0; 65_536];
        peer.tcp.read_exact(&mut some).unwrap();
        peer.reset();
    });
    let pool = upstream.pool();
    for _ in 0..20 {
        assert_eq!(
            send(&pool, post(&pool, 32 << 20)).await,
            interrupted(Phase::Sending, Interruption::Closed)
        );
    }
}

#[tokio::test]
async fn dropping_the_attempt_closes_its_connection() {
    let (came, gone) = (signal(), signal());
    let (tell_came, tell_gone) = (came.clone(), gone.clone());
    let upstream = Scripted::run(move |_, mut peer| {
        peer.request();
        tell_came.give();
        assert_eq!(peer.drain(), 0);
        tell_gone.give();
    });
    let pool = upstream.pool();
    let reserved = pool.reserve().await.unwrap();
    let outbound = post(&pool, 10);
    let attempt = tokio::spawn(async move { reserved.send(permit(), outbound, judge).await });
    tokio::task::spawn_blocking(move || came.wait())
        .await
        .unwrap();
    attempt.abort();
    assert!(attempt.await.unwrap_err().is_cancelled());
    gone.wait();
    assert!(pool.idle().is_none());
}
