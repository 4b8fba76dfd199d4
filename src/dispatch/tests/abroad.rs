//! Who waits in one process for what another one carries: two registers on one database, each with its own
//! waiters.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::clock::Clock;
use crate::dispatch::abroad;
use crate::dispatch::attempt::Dispatcher;
use crate::dispatch::supervisor::Supervisor;
use crate::dispatch::waiters::{Ended, Ticket, Waiters};
use crate::protocol::command::Admit;
use crate::protocol::ids::InstanceId;
use crate::protocol::policy::Order;
use crate::store::conformance::{KEY, commands as c, open_postgres};
use crate::store::postgres::servers::{Bouncer, Database, Pool, shared};
use crate::store::{Register, Resent};
use crate::telemetry::metrics::Metrics;

const A: InstanceId = InstanceId(0xa);
const B: InstanceId = InstanceId(0xb);

/// Longer than several looks take on a busy machine.
const LONG: Duration = Duration::from_secs(30);

/// A process that looks for ends elsewhere.
struct Looking {
    dispatcher: Dispatcher,
    _work: JoinSet<()>,
}

impl Looking {
    fn on(register: Register) -> Self {
        let clock = Clock::system().unwrap();
        let dispatcher = Dispatcher {
            leases: crate::lease::own::Own::new(register.clone(), clock.clone()),
            register,
            clock,
            waiters: Waiters::default(),
            supervisor: Supervisor::default(),
            metrics: Metrics::new(),
            record_timeout: LONG,
            attempts: Arc::new(AtomicU64::new(1)),
            arrivals: crate::dispatch::arrivals::Arrivals::default(),
        };
        let mut work = JoinSet::new();
        work.spawn(abroad::run(dispatcher.clone()));
        Self {
            dispatcher,
            _work: work,
        }
    }

    fn waiters(&self) -> &Waiters {
        &self.dispatcher.waiters
    }
}

async fn end(ticket: &mut Ticket) -> Arc<Ended> {
    timeout(LONG, ticket.next())
        .await
        .expect("an end is heard of")
}

/// Two processes; how they get to the database is given.
async fn two(database: &Database, url: &str) -> (Register, Looking) {
    let a = open_postgres(database.url(), c::TENANT, KEY, A).await;
    let b = open_postgres(url.to_owned(), c::TENANT, KEY, B).await;
    (a, Looking::on(b))
}

async fn an_end_is_heard_of(a: Register, b: Looking) {
    let mut admit: Admit = c::admit("a", A);
    // May be sent again.
    Arc::make_mut(&mut admit.policy).order = Order::Free;
    let permit = a.admit(admit.clone()).await.unwrap().permit.unwrap();
    let mut ticket = b.waiters().watch(&admit.key);
    let _expected = b.waiters().expect(&admit.key);
    let receipt = permit.finish(c::interrupted());
    a.record(&receipt, admit.at).await.unwrap();
    let first = end(&mut ticket).await;
    assert_eq!((first.state.word(), first.attempt), ("UNCERTAIN", None));
    let resend = c::resend(&admit.key, A);
    let Resent::Granted(permit) = a.resend(resend).await.unwrap() else {
        panic!("not resent");
    };
    a.record(&permit.finish(c::applied()), admit.at)
        .await
        .unwrap();
    let last = loop {
        let next = end(&mut ticket).await;
        if !next.state.is_unsettled() {
            break next;
        }
    };
    assert_eq!(last.state.word(), "COMPLETED");
    assert_eq!(last.turn.admitted, 2);
    assert!(last.evidence.is_none());
    // Nothing new: nobody is woken again.
    assert!(
        timeout(Duration::from_millis(700), ticket.next())
            .await
            .is_err()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_in_another_process_reaches_whoever_waits_for_it() {
    let database = shared().database();
    let (a, b) = two(&database, &database.url()).await;
    an_end_is_heard_of(a, b).await;
}

/// Behind it nobody can listen: the look every so often is enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_pooler_that_gives_no_session_an_end_is_heard_of_too() {
    let database = shared().database();
    let bouncer = Bouncer::start(shared().address(), Pool::default());
    let (a, b) = two(&database, &database.url_at(bouncer.address())).await;
    an_end_is_heard_of(a, b).await;
}

/// It has more to tell than the register: what it showed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_attempt_of_this_process_works_on_is_left_for_it_to_tell() {
    let database = shared().database();
    let (a, b) = two(&database, &database.url()).await;
    let admit = c::admit("a", A);
    let permit = a.admit(admit.clone()).await.unwrap().permit.unwrap();
    a.record(&permit.finish(c::applied()), admit.at)
        .await
        .unwrap();
    let mut working = b.waiters().work_on(&admit.key);
    let mut ticket = b.waiters().watch(&admit.key);
    let _expected = b.waiters().expect(&admit.key);
    assert!(
        timeout(Duration::from_millis(700), ticket.next())
            .await
            .is_err()
    );
    working.rest();
    assert_eq!(end(&mut ticket).await.state.word(), "COMPLETED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nobody_waits_nothing_is_read() {
    let database = shared().database();
    let (_a, b) = two(&database, &database.url()).await;
    let key = c::admit("a", A).key;
    let expected = b.waiters().expect(&key);
    assert_eq!(b.waiters().abroad(), std::slice::from_ref(&key));
    let twice = b.waiters().expect(&key);
    drop(expected);
    assert_eq!(b.waiters().abroad(), [key]);
    drop(twice);
    assert!(b.waiters().abroad().is_empty());
}
