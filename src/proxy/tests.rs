//! The pipeline against a scripted upstream on real sockets, and a register that can be interrupted
//! between its commit and its reply, or lose either: the races that no story can bring about at will.
//!
//! What always holds: what the caller is told is compared with what the upstream received.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Request, StatusCode};
use tokio::sync::Semaphore;

use super::bound::Stamped;
use super::pipeline::Effect;
use super::told::{Teller, Told};
use crate::clock::Clock;
use crate::config::{self, Protect, Route};
use crate::dispatch::attempt::{Dispatcher, Granted};
use crate::dispatch::gateway::{Gateway, Gateways};
use crate::dispatch::supervisor::Supervisor;
use crate::dispatch::turnstile::{Names, Turnstile};
use crate::dispatch::waiters::Waiters;
use crate::expression::RequestPath;
use crate::protocol::command::{Command, Reply as Replied, Resolution, Resolve, Ruling};
use crate::protocol::fence::Fence;
use crate::protocol::ids::{InstanceId, OperationKey, ResourceKey};
use crate::protocol::operation::{Attempt, AttemptEnd, Operation};
use crate::protocol::view::Record as Found;
use crate::reconcile::Reconciler;
use crate::store::memory::MemoryBackend;
use crate::store::{
    Backend, OperationPage, OperationQuery, Pending, Register, StoreError, Stored, StoredResource,
    Summary, Wanted,
};
use crate::telemetry::metrics::Metrics;
use crate::upstream::{EffectPool, Endpoint, Limits, PassThrough, Questions, TlsMaterial};
use crate::wire::caller::Caller;
use crate::wire::fingerprint::FingerprintKey;
use crate::wire::identify::{self, Identified, Original, Scope};
use crate::wire::reply::Reply;
use crate::wire::stamp::Stamps;

mod callers;
mod classes;
mod commits;
mod inbound;
mod on_behalf;
mod oversized;
mod races;
mod settled;
mod together;
mod unsettled;

const INSTANCE: InstanceId = InstanceId(1);

/// Nothing here takes longer, unless it never comes.
const LIMIT: Duration = Duration::from_secs(20);

const IDEMPOTENT: &str = "
    capability: [idempotent]
    key: { header: Idempotency-Key, lifetime: 24h, value: derived }
    timeouts: { connect: 2s, response: 5s, dispatch: 5s }
    effects:
      - on: POST /payments
        once: { header: Idempotency-Key }
        join: 5s
";

const FENCED: &str = "
    capability: [idempotent]
    key: { header: Idempotency-Key, lifetime: 24h, value: derived }
    timeouts: { connect: 2s, response: 300ms, dispatch: 5s }
    effects:
      - on: POST /payments
        once: { header: Idempotency-Key }
        fence:
          resource: { header: X-Account }
          token: { header: Fencing-Token, mode: require }
";

/// What happens after an admission was granted and committed, before its sender knows.
type AfterGrant = Box<dyn Fn(usize) + Send + Sync>;

/// What becomes of a command.
enum Fate {
    /// It is done and answered.
    Answered,
    /// It is done, and nobody hears of it.
    ReplyLost,
    /// It is not done; this is what is heard.
    NotDone(StoreError),
}

/// Says what becomes of each command.
type Fates = Box<dyn Fn(&Command) -> Fate + Send + Sync>;

/// A register in memory that calls out after each grant, and loses what it is told to.
struct Interrupted {
    inner: MemoryBackend,
    grants: Mutex<usize>,
    after_grant: AfterGrant,
    fates: Fates,
    turns: Arc<Turns>,
    /// What happens on every look at an identity.
    peeks: fn(),
}

/// When admissions are decided.
struct Turns {
    /// One for each that came to wait for its turn.
    queued: Semaphore,
    /// One for each that may be decided.
    may: Semaphore,
}

impl Backend for Interrupted {
    fn apply(&self, command: Command) -> Pending<'_, Replied> {
        Box::pin(async move {
            let fate = (self.fates)(&command);
            if let Fate::NotDone(fault) = fate {
                return Err(fault);
            }
            let reply = self.inner.apply(command).await?;
            if let Replied::Admission(admission) = &reply
                && matches!(admission.ruling, Ruling::Granted(_))
            {
                let number = {
                    let mut grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
                    *grants += 1;
                    *grants
                };
                (self.after_grant)(number);
            }
            match fate {
                Fate::ReplyLost => Err(StoreError::CommitUnknown("its reply was lost".to_owned())),
                Fate::Answered | Fate::NotDone(_) => Ok(reply),
            }
        })
    }

    fn apply_while(&self, wanted: Wanted, command: Command) -> Pending<'_, Replied> {
        Box::pin(async move {
            self.turns.queued.add_permits(1);
            self.turns.may.acquire().await.unwrap().forget();
            if !wanted.still() {
                return self.inner.apply_while(wanted, command).await;
            }
            self.apply(command).await
        })
    }

    fn peek<'a>(
        &'a self,
        key: &'a OperationKey,
        resource: Option<&'a ResourceKey>,
    ) -> Pending<'a, Option<Found>> {
        Box::pin(async move {
            (self.peeks)();
            self.inner.peek(key, resource).await
        })
    }

    fn operation<'a>(
        &'a self,
        key: &'a OperationKey,
        with_request: bool,
    ) -> Pending<'a, Option<Stored>> {
        self.inner.operation(key, with_request)
    }

    fn operations<'a>(&'a self, query: &'a OperationQuery) -> Pending<'a, OperationPage> {
        self.inner.operations(query)
    }

    fn resource<'a>(&'a self, key: &'a ResourceKey) -> Pending<'a, Option<StoredResource>> {
        self.inner.resource(key)
    }

    fn resources<'a>(&'a self, after: Option<&'a str>, limit: usize) -> Pending<'a, Vec<Fence>> {
        self.inner.resources(after, limit)
    }

    fn in_doubt(&self, after: u64, limit: usize) -> Pending<'_, Vec<(u64, Operation)>> {
        self.inner.in_doubt(after, limit)
    }

    fn unsettled(&self, after: u64, limit: usize) -> Pending<'_, Vec<(u64, Operation)>> {
        self.inner.unsettled(after, limit)
    }

    fn summary(&self) -> Pending<'_, Summary> {
        self.inner.summary()
    }

    fn pressing(&self) -> Pending<'_, crate::store::Pressing> {
        self.inner.pressing()
    }

    fn ready(&self) -> Pending<'_, ()> {
        self.inner.ready()
    }

    fn instance(&self) -> InstanceId {
        self.inner.instance()
    }

    fn living(&self) -> crate::protocol::view::Living {
        self.inner.living()
    }

    fn close(&self) -> Pending<'_, ()> {
        self.inner.close()
    }
}

/// A pipeline in front of one upstream.
struct Bench {
    dispatcher: Dispatcher,
    reconciler: Reconciler,
    gateways: Vec<Arc<Gateway>>,
    config: config::Config,
}

impl Bench {
    fn new(upstream: SocketAddr, rules: &str, after_grant: AfterGrant) -> Self {
        let register = MemoryBackend::new(INSTANCE);
        Self::before(&[upstream], rules, register, after_grant)
    }

    fn before(
        upstreams: &[SocketAddr],
        rules: &str,
        inner: MemoryBackend,
        after_grant: AfterGrant,
    ) -> Self {
        let backend = Interrupted {
            inner,
            grants: Mutex::default(),
            after_grant,
            fates: Box::new(|_| Fate::Answered),
            turns: turns(1_000),
            peeks: || (),
        };
        Self::on(upstreams, rules, backend)
    }

    fn on(upstreams: &[SocketAddr], rules: &str, backend: Interrupted) -> Self {
        Self::with(upstreams, rules, Register::new(Arc::new(backend)))
    }

    fn with(upstreams: &[SocketAddr], rules: &str, register: Register) -> Self {
        use std::fmt::Write;
        let mut text = "version: 1\nupstreams:\n".to_owned();
        for (number, upstream) in upstreams.iter().enumerate() {
            let port = number + 1;
            write!(
                text,
                "  bank-{number}:\n    listen: 127.0.0.1:{port}\n    url: http://{upstream}{rules}"
            )
            .unwrap();
        }
        let (config, _) = config::parse(&text, "test.yaml").unwrap();
        let gateways: Vec<_> = config.upstreams.iter().map(gateway).collect();
        let clock = Clock::system().unwrap();
        let dispatcher = Dispatcher {
            leases: crate::lease::own::Own::new(register.clone(), clock.clone()),
            register,
            clock,
            waiters: Waiters::default(),
            supervisor: Supervisor::default(),
            metrics: Metrics::new(),
            record_timeout: Duration::from_secs(2),
            attempts: Arc::new(AtomicU64::new(1)),
            arrivals: crate::dispatch::arrivals::Arrivals::default(),
        };
        let known = Arc::new(Gateways::new(gateways.iter().map(Arc::clone)));
        let reconciler = Reconciler::new(dispatcher.clone(), known);
        Self {
            dispatcher,
            reconciler,
            gateways,
            config,
        }
    }

    fn identified(&self, upstream: usize, key: &str) -> (Arc<Protect>, Identified) {
        let (protect, identified, _) = self.identified_with(upstream, key, "{}");
        (protect, identified)
    }

    fn identified_with(
        &self,
        upstream: usize,
        key: &str,
        body: &'static str,
    ) -> (Arc<Protect>, Identified, Original) {
        self.identified_as(upstream, key, body, "108")
    }

    fn identified_as(
        &self,
        upstream: usize,
        key: &str,
        body: &'static str,
        token: &str,
    ) -> (Arc<Protect>, Identified, Original) {
        let rules = &self.gateways[upstream].config;
        let path = RequestPath::parse("/payments").unwrap();
        let (protect, params) = match rules.route(&http::Method::POST, &path) {
            Route::Protect {
                protect, params, ..
            } => (Arc::clone(protect), params),
            Route::Pass | Route::Observe | Route::Deny => panic!("no effect"),
        };
        let (head, ()) = Request::post("/payments")
            .header("Idempotency-Key", key)
            .header("X-Account", "a")
            .header("Fencing-Token", token)
            .body(())
            .unwrap()
            .into_parts();
        let fingerprints = FingerprintKey::new(&[7; 32]);
        let scope = Scope {
            tenant: &self.config.tenant,
            upstream: rules,
            fingerprints: &fingerprints,
        };
        let effect = identify::Effect {
            protect: &protect,
            params: &params,
            head: &head,
            body: body.into(),
            caller: &Caller::default(),
            first_attempt: self.dispatcher.next_attempt(),
            stamps: &Stamps::default(),
        };
        let identified = identify::identify(scope, effect).unwrap();
        let body = body.into();
        (protect, identified, Original { params, head, body })
    }

    /// A caller pays.
    async fn pay(&self, upstream: usize, key: &str) -> Reply {
        self.pay_with(upstream, key, "{}").await
    }

    async fn pay_with(&self, upstream: usize, key: &str, body: &'static str) -> Reply {
        self.pay_under(&Names::default(), upstream, key, body).await
    }

    async fn pay_under(
        &self,
        names: &Names,
        upstream: usize,
        key: &str,
        body: &'static str,
    ) -> Reply {
        let identified = self.identified_with(upstream, key, body);
        self.carry_out(names, upstream, identified).await.reply
    }

    async fn carry_out(
        &self,
        names: &Names,
        upstream: usize,
        (protect, identified, original): (Arc<Protect>, Identified, Original),
    ) -> Told {
        let effect = Effect {
            dispatcher: self.dispatcher.clone(),
            reconciler: self.reconciler.clone(),
            gateway: Arc::clone(&self.gateways[upstream]),
            protect,
            teller: Teller {
                resource: None,
                token: None,
                stamped: None,
                uncertain_status: StatusCode::GATEWAY_TIMEOUT,
            },
            identified,
            stamped: Stamped::default(),
            original,
            fingerprints: FingerprintKey::new(&[7; 32]),
            names: names.clone(),
            repeat: None,
            granted: Granted::default(),
            sees_breaks: true,
        };
        effect.run().await.0
    }

    /// Waits until the attempt has outlasted its response limit and listens for a late answer.
    async fn until_listening(&self, key: &OperationKey) {
        let listens = async {
            loop {
                let read = self.dispatcher.register.read();
                let stored = read.operation(key, false).await.unwrap();
                let ends = stored.map(|stored| stored.operation.attempts);
                let open = |attempt: &Attempt| matches!(attempt.end, AttemptEnd::Open(..));
                if ends.is_some_and(|attempts| attempts.iter().any(open)) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LIMIT, listens).await.unwrap();
    }

    /// An intent is committed, and nothing more is heard of its attempt.
    async fn intend(&self, upstream: usize, key: &str) {
        let (_, identified) = self.identified(upstream, key);
        let (attempt, now) = (self.dispatcher.next_attempt(), self.dispatcher.clock.now());
        let admit = identified.admit(attempt, now, true);
        let admitted = self.dispatcher.register.admit(admit).await.unwrap();
        assert!(admitted.permit.is_some());
    }
}

/// At first so many admissions may be decided.
fn turns(at_first: usize) -> Arc<Turns> {
    Arc::new(Turns {
        queued: Semaphore::new(0),
        may: Semaphore::new(at_first),
    })
}

fn gateway(rules: &Arc<config::Upstream>) -> Arc<Gateway> {
    let url = rules.url.to_string();
    let endpoint = Endpoint::new(&url, &TlsMaterial::default(), rules.fresh_connections).unwrap();
    let limits = Limits {
        response: Duration::from_millis(rules.timeouts.response.0),
        ..Limits::default()
    };
    Arc::new(Gateway {
        config: Arc::clone(rules),
        pool: EffectPool::new(endpoint.clone(), limits, Clock::system().unwrap()),
        pass: PassThrough::new(endpoint.clone(), &limits),
        questions: Questions::new(
            endpoint.clone(),
            limits,
            crate::wire::body::BodyBudget::new(1 << 20),
        ),
        application: None,
        endpoint,
    })
}

/// Reads one request with its content.
fn read_request(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let mut piece = [0; 1024];
    loop {
        let read = stream.read(&mut piece).unwrap();
        text.extend_from_slice(&piece[..read]);
        let seen = String::from_utf8_lossy(&text).into_owned();
        let length = |head: &str| {
            let line = head.lines().find_map(|line| {
                line.to_lowercase()
                    .strip_prefix("content-length: ")?
                    .parse()
                    .ok()
            });
            line.unwrap_or(0_usize)
        };
        if let Some((head, content)) = seen.split_once("\r\n\r\n")
            && content.len() >= length(head)
        {
            return seen;
        }
        assert!(read > 0, "the request ended early: {seen}");
    }
}

fn answer(stream: &mut TcpStream, status: u16) {
    write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\nok").unwrap();
}
