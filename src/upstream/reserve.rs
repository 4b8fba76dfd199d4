//! The effect pool: connections held by one owner at a time.
//!
//! What always holds: whoever holds a [`Reserved`] is the only one who can write to its connection;
//! dropping it puts the connection back if its last exchange ended cleanly, and closes it otherwise. A
//! connection is looked at when it is taken, and again by the gate before the first byte. With fresh
//! connections, one that carried a request is never put back.
//!
//! What it does not do: limit how many connections are open (callers are bounded elsewhere), or send
//! (`send`).

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use super::connect::{self, Unreachable};
use super::counted_io::{CountedIo, Meter};
use super::endpoint::Endpoint;
use super::exchange::Live;
use crate::clock::Clock;
use crate::protocol::time::{BootInstant, Millis};
use crate::wire::body::BodyBudget;

/// Time and size limits of the effects of one upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Name, TCP and TLS together.
    pub connect: Duration,
    /// From the beginning of sending to the end of the answer.
    pub response: Duration,
    /// Largest content of an answer that is kept.
    pub answer_bytes: usize,
    /// Most fields that an answer's head may have.
    pub answer_fields: usize,
    /// Largest head of an answer, in bytes.
    pub answer_head_bytes: usize,
    /// Most idle connections.
    pub idle_connections: usize,
    /// An idle connection is closed after that.
    pub idle_for: Duration,
    /// Is an answer complete that ends with nothing but the connection? By profile only.
    pub accept_by_close: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            response: Duration::from_secs(30),
            answer_bytes: 1 << 20,
            answer_fields: 512,
            answer_head_bytes: 256 << 10,
            idle_connections: 256,
            // Below the shortest usual keep-alive of servers (5 s), so that the race between our
            // request and their close stays rare.
            idle_for: Duration::from_secs(4),
            accept_by_close: false,
        }
    }
}

/// The connections to one upstream that carry effects. Cheap to clone; all clones are one pool.
#[derive(Clone)]
pub struct EffectPool(Arc<Pool>);

pub(super) struct Pool {
    endpoint: Endpoint,
    limits: Limits,
    clock: Clock,
    bodies: BodyBudget,
    // The last one put back is the first one taken: the rest may grow old and go.
    idle: Mutex<Vec<Idle>>,
    sweeper: OnceLock<AbortOnDropHandle<()>>,
}

struct Idle {
    live: Box<Live>,
    since: BootInstant,
}

/// A connection that is exclusively the holder's.
pub struct Reserved {
    // `None` only once it was sent on or dropped.
    live: Option<Box<Live>>,
    pool: Arc<Pool>,
}

impl EffectPool {
    /// A pool without connections, whose answers take as much memory as they like within the limits.
    pub fn new(endpoint: Endpoint, limits: Limits, clock: Clock) -> Self {
        Self::within(BodyBudget::new(usize::MAX), endpoint, limits, clock)
    }

    /// A pool without connections, the content of whose answers counts against `bodies`.
    pub fn within(bodies: BodyBudget, endpoint: Endpoint, limits: Limits, clock: Clock) -> Self {
        Self(Arc::new(Pool {
            endpoint,
            limits,
            clock,
            bodies,
            idle: Mutex::default(),
            sweeper: OnceLock::new(),
        }))
    }

    /// Where it leads.
    pub fn endpoint(&self) -> &Endpoint {
        &self.0.endpoint
    }

    /// Its limits.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// What the content of answers counts against.
    pub(super) fn bodies(&self) -> &BodyBudget {
        &self.0.bodies
    }

    /// An idle connection that is still good, if there is one. Never connects, never waits.
    pub fn idle(&self) -> Option<Reserved> {
        while let Some(mut idle) = self.0.take() {
            if self.0.is_young(&idle) && idle.live.is_clean() {
                return Some(Reserved::new(idle.live, &self.0));
            }
        }
        None
    }

    /// An idle connection, or a new one. Nothing of any request is sent, whatever happens.
    pub async fn reserve(&self) -> Result<Reserved, Unreachable> {
        self.0.sweep_from_now_on();
        match self.idle() {
            Some(reserved) => Ok(reserved),
            None => Ok(Reserved::new(self.0.connect().await?, &self.0)),
        }
    }
}

impl Pool {
    async fn connect(&self) -> Result<Box<Live>, Unreachable> {
        let meter = Meter::new(self.clock.clone());
        let count = |tcp| CountedIo::new(tcp, Arc::clone(&meter));
        let stream = connect::open(&self.endpoint, self.limits.connect, count).await?;
        let mut live = Live::new(stream, meter, &self.limits)
            .await
            .map_err(|_| Unreachable::Closed)?;
        if live.is_clean() {
            Ok(live)
        } else {
            Err(Unreachable::Closed)
        }
    }

    /// Puts a connection back, or closes it. Whoever takes it looks closer.
    fn put_back(&self, mut live: Box<Live>) {
        let worn = live.used() && self.endpoint.fresh_connections();
        if worn || !live.is_at_rest() {
            return;
        }
        let since = self.clock.boottime();
        let mut idle = self.lock();
        if idle.len() < self.limits.idle_connections {
            idle.push(Idle { live, since });
        }
    }

    fn take(&self) -> Option<Idle> {
        self.lock().pop()
    }

    fn is_young(&self, idle: &Idle) -> bool {
        let limit = u64::try_from(self.limits.idle_for.as_millis()).unwrap_or(u64::MAX);
        self.clock.boottime().since(idle.since) <= Millis(limit)
    }

    /// Closes what is old or was closed by the upstream.
    fn sweep(&self) {
        let all = std::mem::take(&mut *self.lock());
        let good = all
            .into_iter()
            .filter_map(|mut idle| (self.is_young(&idle) && idle.live.is_clean()).then_some(idle));
        let mut good: Vec<_> = good.collect();
        let mut idle = self.lock();
        // What was put back meanwhile is younger.
        good.append(&mut idle);
        good.truncate(self.limits.idle_connections);
        *idle = good;
    }

    /// Sweeps now and then until the pool is dropped: connections that nobody takes must not pile up
    /// half-closed.
    fn sweep_from_now_on(self: &Arc<Self>) {
        self.sweeper.get_or_init(|| {
            let pool = Arc::downgrade(self);
            let pause = self.limits.idle_for.max(Duration::from_secs(1));
            #[expect(
                clippy::disallowed_methods,
                reason = "the pool owns the handle and ends the task when it is dropped"
            )]
            let task = tokio::spawn(sweep_every(pause, pool));
            AbortOnDropHandle::new(task)
        });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn sweep_every(pause: Duration, pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(pause).await;
        let Some(pool) = pool.upgrade() else { return };
        pool.sweep();
    }
}

impl Reserved {
    pub(super) fn new(live: Box<Live>, pool: &Arc<Pool>) -> Self {
        Self {
            live: Some(live),
            pool: Arc::clone(pool),
        }
    }

    /// The connection itself, and what is needed to hold it again.
    pub(super) fn open(mut self) -> (Option<Box<Live>>, EffectPool) {
        (self.live.take(), EffectPool(Arc::clone(&self.pool)))
    }
}

impl EffectPool {
    /// Puts back what an exchange left.
    pub(super) fn put_back(&self, live: Option<Box<Live>>) {
        if let Some(live) = live {
            self.0.put_back(live);
        }
    }
}

#[cfg(test)]
impl EffectPool {
    pub(super) fn idle_count(&self) -> usize {
        self.0.lock().len()
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(live) = self.live.take() {
            self.pool.put_back(live);
        }
    }
}

impl std::fmt::Debug for Reserved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reserved({:?})", self.pool.endpoint)
    }
}

impl std::fmt::Debug for EffectPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EffectPool({:?})", self.0.endpoint)
    }
}
