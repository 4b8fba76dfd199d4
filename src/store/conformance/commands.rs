//! Commands for the suite: small defaults, changed where a scenario needs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::protocol::command::{Admit, Park, Presented, Resend, Resolution, Resolve, TokenField};
use crate::protocol::ids::{
    AttemptId, FencingToken, Fingerprint, Incarnation, InstanceId, OperationId, OperationKey,
    Principal, ResourceKey, ResourceName, Sequence, Tenant, TokenSource, UpstreamId,
};
use crate::protocol::lease::LeaseFacts;
use crate::protocol::meaning::{Meaning, Members};
use crate::protocol::operation::IdentityOrigin;
use crate::protocol::outcome::{
    Answer, AnswerClass, Evidence, Interruption, Phase, StoredRequest, Unsent,
};
use crate::protocol::policy::{
    Capability, FencePolicy, IfOlderUnsettled, IfTwin, KeyPolicy, KeyValue, Order, Ownership,
    PerGeneration, Policy, SettlePolicy, Timeouts, TokenMode,
};
use crate::protocol::steps::{ResendPolicy, Steps};
use crate::protocol::time::{BootId, BootInstant, Millis, Moment};

pub(crate) const TENANT: &str = "payments";

/// A request for an effect without a fence.
pub(crate) fn admit(id: &str, instance: InstanceId) -> Admit {
    Admit {
        key: key(id),
        follows_incarnation: false,
        origin: IdentityOrigin::Caller,
        meaning: meaning(1),
        credentialed: true,
        blind_retry: None,
        presented: None,
        policy: Arc::new(policy()),
        request: Arc::new(request(id)),
        conditional: false,
        attempt: attempt(instance),
        at: at(0),
        reserved: true,
        lease: LeaseFacts::unknown(),
    }
}

/// A request for an effect on a resource, with a token.
pub(crate) fn fenced(id: &str, resource: &str, token: &str, instance: InstanceId) -> Admit {
    Admit {
        presented: Some(Presented {
            resource: resource_key(resource),
            token: TokenField::Token(FencingToken::parse(token).unwrap()),
            source: TokenSource::new("workers"),
            acquisition: None,
            sequence: None,
        }),
        policy: Arc::new(Policy {
            fence: Some(fence_policy()),
            ..policy()
        }),
        ..admit(id, instance)
    }
}

/// The same request with another fence policy.
pub(crate) fn under(mut admit: Admit, change: impl FnOnce(&mut FencePolicy)) -> Admit {
    let policy = Arc::make_mut(&mut admit.policy);
    change(policy.fence.as_mut().unwrap());
    admit
}

pub(crate) fn numbered(admit: Admit, sequence: u64) -> Admit {
    let mut admit = under(admit, |policy| {
        policy.per_generation = PerGeneration::Numbered;
    });
    admit.presented.as_mut().unwrap().sequence = Sequence::from_value(sequence);
    admit
}

/// The same request, sent once more: another attempt.
pub(crate) fn again(admit: &Admit) -> Admit {
    Admit {
        attempt: attempt(admit.attempt.instance),
        ..admit.clone()
    }
}

pub(crate) fn resend(key: &OperationKey, instance: InstanceId) -> Resend {
    Resend {
        key: key.clone(),
        attempt: attempt(instance),
        dispatch: Millis(5_000),
        overdue_after: Millis(45_000),
        attended: None,
        lease: LeaseFacts::unknown(),
        at: at(1_000),
    }
}

pub(crate) fn park(key: &OperationKey) -> Park {
    Park {
        key: key.clone(),
        fit: false,
        lease: LeaseFacts::unknown(),
        at: at(2_000),
    }
}

pub(crate) fn resolve(key: &OperationKey, verdict: Resolution) -> Resolve {
    Resolve {
        key: key.clone(),
        verdict,
        operator: "alice".to_owned(),
        reason: "looked it up by hand".to_owned(),
        seen: None,
        at: at(3_000),
    }
}

pub(crate) fn key(id: &str) -> OperationKey {
    OperationKey {
        tenant: Tenant::new(TENANT),
        upstream: UpstreamId::new("stripe"),
        principal: Principal::None,
        id: OperationId::new(id),
        incarnation: Incarnation(0),
    }
}

pub(crate) fn resource_key(name: &str) -> ResourceKey {
    ResourceKey {
        tenant: Tenant::new(TENANT),
        name: ResourceName::new(name),
    }
}

pub(crate) fn meaning(of: u8) -> Meaning {
    Meaning {
        members: Members {
            digests: [u32::from(of)].into(),
            ..Members::default()
        },
        ..Fingerprint {
            key: 7,
            form: 1,
            digest: [of; 32],
        }
        .into()
    }
}

/// One never used before in this process.
pub(crate) fn attempt(instance: InstanceId) -> AttemptId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    AttemptId {
        instance,
        number: NEXT.fetch_add(1, Ordering::Relaxed),
    }
}

/// So many milliseconds after the suite's beginning of time.
pub(crate) fn at(ms: u64) -> Moment {
    Moment {
        boot: BootId(1),
        boottime: BootInstant(10_000 + ms),
        wall_ms: 1_790_000_000_000 + ms,
    }
}

pub(crate) fn request(id: &str) -> StoredRequest {
    StoredRequest {
        method: Bytes::from_static(b"POST"),
        target: Bytes::from_static(b"/v1/charges?expand=a&expand=b"),
        fields: vec![
            field("authorization", "Bearer sk_live_very_secret"),
            field("x-doubled", "1"),
            field("x-doubled", "2"),
        ],
        body: Bytes::from(format!("{{\"id\":\"{id}\",\"card\":\"4242424242424242\"}}")),
    }
}

pub(crate) fn answer(status: u16) -> Answer {
    Answer {
        status,
        fields: vec![field("set-cookie", "a=1"), field("set-cookie", "b=\u{e9}")],
        body: Some(Bytes::from_static(b"{\"charged\":\0\xff\"4242\"}")),
    }
}

pub(crate) fn answered(status: u16, class: AnswerClass) -> Evidence {
    Evidence::Answered {
        answer: answer(status),
        class,
    }
}

pub(crate) fn applied() -> Evidence {
    answered(200, AnswerClass::Applied)
}

pub(crate) fn interrupted() -> Evidence {
    Evidence::Interrupted {
        phase: Phase::Waiting,
        why: Interruption::Closed,
    }
}

pub(crate) fn unsent() -> Evidence {
    Evidence::NotSent(Unsent::ConnectionLost)
}

pub(crate) fn policy() -> Policy {
    Policy {
        fence: None,
        order: Order::Strict,
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

pub(crate) fn fence_policy() -> FencePolicy {
    FencePolicy {
        token: TokenMode::Require,
        per_generation: PerGeneration::Many,
        require: Ownership::NotOlder,
        if_older_unsettled: IfOlderUnsettled::Wait(Millis(10_000)),
        if_twin: IfTwin::Refuse,
        max_step: None,
    }
}

fn field(name: &'static str, value: &'static str) -> (Bytes, Bytes) {
    (
        Bytes::from_static(name.as_bytes()),
        Bytes::from_static(value.as_bytes()),
    )
}
