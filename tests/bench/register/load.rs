//! Callers: each admits an operation, records its answer, and begins again.
//!
//! What always holds: every operation is new, has a resource and a token, keeps its request while it
//! is unsettled, and is answered with a small JSON body: a payment, in size.
//!
//! What it does not do: send anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fencepost::protocol::command::{Admit, Presented, TokenField};
use fencepost::protocol::ids::{
    AttemptId, FencingToken, Fingerprint, Incarnation, InstanceId, OperationId, OperationKey,
    Principal, ResourceKey, ResourceName, Tenant, TokenSource, UpstreamId,
};
use fencepost::protocol::meaning::{Grain, Meaning, Members};
use fencepost::protocol::operation::IdentityOrigin;
use fencepost::protocol::outcome::{Answer, AnswerClass, Evidence, StoredRequest};
use fencepost::protocol::policy::{
    Capability, FencePolicy, IfOlderUnsettled, IfTwin, KeyPolicy, KeyValue, Order, Ownership,
    PerGeneration, Policy, SettlePolicy, Timeouts, TokenMode,
};
use fencepost::protocol::steps::{ResendPolicy, Steps};
use fencepost::protocol::time::{Millis, Moment};
use fencepost::store;
use fencepost::store::permit::Permit;
use tokio::task::JoinSet;

use crate::figures::Figures;
use crate::register::{Bench, Processor, written_bytes};

/// How the operations differ from each other.
#[derive(Clone, Copy)]
pub struct Shape {
    pub resources: u64,
    pub ids: Ids,
}

#[derive(Clone, Copy)]
pub enum Ids {
    Random,
    Ordered,
}

/// Numbers that look random (splitmix64); the same in every run but for where it begins.
pub struct Dice(pub u64);

impl Dice {
    pub fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// So many callers at once, for so long.
pub async fn run(bench: &Bench, shape: Shape, concurrency: usize, length: Duration) -> Figures {
    let commits = &bench.commits;
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let before = (
        read(&commits.transactions),
        read(&commits.commands),
        read(&commits.took_us),
        Processor::of_writer(),
        written_bytes(),
    );
    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..concurrency {
        let caller = Caller::new(bench, shape);
        callers.spawn(caller.go_on_until(begun + length));
    }
    let mut latencies_us = Vec::new();
    while let Some(caller) = callers.join_next().await {
        latencies_us.extend(caller.unwrap());
    }
    Figures {
        elapsed: begun.elapsed(),
        operations: latencies_us.len() as u64,
        transactions: read(&commits.transactions) - before.0,
        commands: read(&commits.commands) - before.1,
        took_us: read(&commits.took_us) - before.2,
        cpu: Processor::of_writer().since(before.3),
        written_bytes: written_bytes() - before.4,
        latencies_us,
    }
}

/// Admits one operation, and leaves it unsettled.
pub async fn admit_one(bench: &Bench, shape: Shape) {
    let mut caller = Caller::new(bench, shape);
    // Nobody finishes it: a receipt is owed by whoever sends.
    drop(caller.admit().await);
}

/// Somebody who asks for one operation after the other.
pub struct Caller {
    register: fencepost::store::Register,
    clock: fencepost::clock::Clock,
    instance: InstanceId,
    shape: Shape,
    policy: Arc<Policy>,
    dice: Dice,
}

impl Caller {
    pub fn new(bench: &Bench, shape: Shape) -> Self {
        Self {
            register: bench.register.clone(),
            clock: bench.clock.clone(),
            instance: bench.instance,
            shape,
            policy: Arc::new(policy()),
            dice: Dice(seed()),
        }
    }

    async fn go_on_until(mut self, end: Instant) -> Vec<u32> {
        let mut latencies_us = Vec::new();
        while Instant::now() < end {
            let begun = Instant::now();
            self.complete_one().await;
            latencies_us.push(u32::try_from(begun.elapsed().as_micros()).unwrap());
        }
        latencies_us
    }

    /// Admission and answer.
    pub async fn complete_one(&mut self) {
        let receipt = self.admit().await.finish(answered());
        let recorded = self.register.record(&receipt, self.clock.now()).await;
        recorded.unwrap();
    }

    pub async fn admit(&mut self) -> Permit {
        let resource = self.dice.throw() % self.shape.resources;
        let id = match self.shape.ids {
            Ids::Random => operation_id(self.dice.throw(), self.dice.throw()),
            Ids::Ordered => operation_id(seed(), self.dice.throw()),
        };
        let attempt = attempt(self.instance);
        let admit = admit(&id, resource, &self.policy, attempt, self.clock.now());
        let (_interest, wanted) = store::interest();
        let admitted = self.register.admit_while(wanted, admit).await.unwrap();
        let ruling = admitted.admission.ruling;
        admitted
            .permit
            .unwrap_or_else(|| panic!("not granted: {ruling:?}"))
    }
}

/// Another one each time, and greater than the last.
pub fn seed() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_micros();
    let now = u64::try_from(now).unwrap() << 12;
    NEXT.fetch_add(1, Ordering::Relaxed) + now
}

pub fn operation_id(high: u64, low: u64) -> String {
    format!("{high:016x}-{low:016x}")
}

pub fn operation_key(id: &str) -> OperationKey {
    OperationKey {
        tenant: Tenant::new("payments"),
        upstream: UpstreamId::new("stripe"),
        principal: Principal::Hashed([9; 16]),
        id: OperationId::new(id),
        incarnation: Incarnation(0),
    }
}

pub fn resource_name(number: u64) -> String {
    format!("statement:account-{number:07}:2026-09")
}

fn attempt(instance: InstanceId) -> AttemptId {
    static ATTEMPT: AtomicU64 = AtomicU64::new(1);
    let number = ATTEMPT.fetch_add(1, Ordering::Relaxed);
    AttemptId { instance, number }
}

fn admit(id: &str, resource: u64, policy: &Arc<Policy>, attempt: AttemptId, at: Moment) -> Admit {
    let tenant = Tenant::new("payments");
    let mut digest = [7; 32];
    digest
        .iter_mut()
        .zip(id.bytes())
        .for_each(|(slot, byte)| *slot = byte);
    Admit {
        key: operation_key(id),
        follows_incarnation: false,
        origin: IdentityOrigin::Caller,
        meaning: Meaning {
            // As of a small JSON document.
            members: Members {
                grain: Grain::Leaves,
                digests: (1..=8).collect(),
            },
            ..Meaning::from(Fingerprint {
                key: 7,
                form: 1,
                digest,
            })
        },
        credentialed: true,
        blind_retry: None,
        presented: Some(Presented {
            resource: ResourceKey {
                tenant,
                name: ResourceName::new(resource_name(resource)),
            },
            token: TokenField::Token(FencingToken::parse("108").unwrap()),
            source: TokenSource::new("workers"),
            acquisition: None,
            sequence: None,
        }),
        policy: Arc::clone(policy),
        request: Arc::new(request(id)),
        conditional: false,
        lease: fencepost::protocol::lease::LeaseFacts::unknown(),
        attempt,
        at,
        reserved: true,
    }
}

fn request(id: &str) -> StoredRequest {
    StoredRequest {
        method: Bytes::from_static(b"POST"),
        target: Bytes::from_static(b"/v1/charges"),
        fields: vec![
            field("host", "api.stripe.com"),
            field("authorization", "Bearer sk_live_0123456789abcdef0123456789"),
            field("content-type", "application/json"),
            field("user-agent", "worker/3.1"),
        ],
        body: Bytes::from(format!(
            "{{\"amount\":2000,\"currency\":\"eur\",\"source\":\"tok_visa\",\"id\":\"{id}\"}}"
        )),
    }
}

fn answered() -> Evidence {
    Evidence::Answered {
        answer: Answer {
            status: 200,
            fields: vec![
                field("content-type", "application/json"),
                field("request-id", "req_0123456789abcd"),
            ],
            body: Some(Bytes::from_static(
                b"{\"id\":\"ch_2000\",\"object\":\"charge\",\"amount\":2000,\"status\":\"succeeded\"}",
            )),
        },
        class: AnswerClass::Applied,
    }
}

fn policy() -> Policy {
    Policy {
        fence: Some(FencePolicy {
            token: TokenMode::Require,
            per_generation: PerGeneration::Many,
            require: Ownership::NotOlder,
            if_older_unsettled: IfOlderUnsettled::Wait(Millis(10_000)),
            if_twin: IfTwin::Refuse,
            max_step: None,
        }),
        order: Order::Free,
        settle: SettlePolicy {
            capability: Capability {
                idempotent: true,
                ..Capability::default()
            },
            key: Some(KeyPolicy {
                value: KeyValue::Derived,
                lifetime: Some(Millis(86_400_000)),
                remembers_refusals: true,
                placing: None,
            }),
            steps: Steps::resends(Some(ResendPolicy {
                attempts: 3,
                backoff_from: Millis(200),
                backoff_to: Millis(30_000),
            })),
            way: None,
        },
        timeouts: Timeouts {
            dispatch: Millis(5_000),
            connect: Millis(5_000),
            response: Millis(30_000),
        },
        keep_request: true,
    }
}

fn field(name: &'static str, value: &'static str) -> (Bytes, Bytes) {
    (
        Bytes::from_static(name.as_bytes()),
        Bytes::from_static(value.as_bytes()),
    )
}
