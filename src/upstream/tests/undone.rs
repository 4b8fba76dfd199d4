//! What undoes leaves within its time or not at all, and says which.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use super::scripted::*;
use crate::clock;
use crate::protocol::outcome::{Answer, Unsent};
use crate::protocol::steps::StepIndex;
use crate::protocol::time::{BootInstant, Millis};
use crate::protocol::void::VoidGrant;
use crate::store::permit::{VoidPermit, void_permit_for_test};
use crate::upstream::{EffectPool, Limits, Unheard};

fn until(dispatch_by: BootInstant) -> VoidPermit {
    let permit = permit_until(dispatch_by);
    let grant = permit.grant();
    void_permit_for_test(VoidGrant {
        key: grant.key.clone(),
        step: StepIndex(0),
        attempt: grant.attempt,
        round: grant.round,
        origin: grant.origin,
        dispatch_by,
        request: None,
    })
}

async fn undo(pool: &EffectPool, most: usize) -> Result<Answer, Unheard> {
    let permit = until(clock::boottime().after(Millis(60_000)));
    let reserved = pool.reserve().await.unwrap();
    reserved.undo(&permit, post(pool, 10), most).await
}

#[tokio::test]
async fn an_answer_is_read_within_its_limit_and_its_connection_kept() {
    let upstream = Scripted::answering(OK);
    let pool = upstream.pool();
    assert_eq!(undo(&pool, 2).await.unwrap().status, 200);
    assert_eq!(undo(&pool, 1).await, Err(Unheard::TooLarge));
    assert_eq!(upstream.accepted(), 1);
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
    let late = until(BootInstant(0));
    let heard = reserved.undo(&late, post(&pool, 10), 100).await;
    assert_eq!(heard, Err(Unheard::NotSent(Unsent::DispatchExpired)));
    drop(pool);
    assert_eq!(seen.recv().unwrap(), 0);
}

#[tokio::test]
async fn what_may_have_left_is_never_called_not_sent() {
    for hangs in [false, true] {
        let upstream = Scripted::run(move |_, mut peer| {
            peer.request();
            if hangs {
                peer.drain();
            }
        });
        let pool = upstream.pool_with(Limits {
            response: Duration::from_millis(200),
            ..Limits::default()
        });
        assert_eq!(undo(&pool, 100).await, Err(Unheard::Broken));
        assert_eq!(pool.idle_count(), 0);
    }
}
