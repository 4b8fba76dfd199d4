//! Rules for the tests of this room, as a config would bring them.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Method, Uri};

use crate::config::{
    Action, AnswerRules, EffectRule, Fence, Identity, Insert, KeyFormat, KeyRule, Means, Methods,
    Mode, Protect, Slot, TlsFiles, Unlisted, Upstream,
};
use crate::expression::{Member, PathTemplate, Template};
use crate::protocol::ids::{TokenSource, UpstreamId};
use crate::protocol::operation::IdentityOrigin;
use crate::protocol::policy::{
    Capability, FencePolicy, IfOlderUnsettled, IfTwin, KeyPolicy, KeyValue, Order, Ownership,
    PerGeneration, Policy, SettlePolicy, Timeouts, TokenMode,
};
use crate::protocol::steps::Steps;
use crate::protocol::time::Millis;

pub(super) const KEY: HeaderName = HeaderName::from_static("idempotency-key");

pub(super) fn upstream(effects: Vec<EffectRule>, unlisted: Unlisted) -> Upstream {
    Upstream {
        name: "bank".to_owned(),
        id: UpstreamId::new("bank"),
        listen: "127.0.0.1:1".parse().unwrap(),
        listen_tls: None,
        url: Uri::from_static("http://bank.internal"),
        tls: TlsFiles::default(),
        capability: Capability {
            idempotent: true,
            ..Capability::default()
        },
        key: Some(key_rule(KeyValue::Derived, None)),
        effects,
        unlisted,
        mode: Mode::Enforce,
        timeouts: timeouts(),
        accept_close_framed: false,
        callbacks: None,
        fresh_connections: false,
        errors: Vec::new(),
        principal: Vec::new(),
    }
}

pub(super) fn key_rule(value: KeyValue, longest: Option<usize>) -> KeyRule {
    KeyRule {
        slot: Slot::Header(KEY),
        longest,
        format: KeyFormat::Any,
        policy: KeyPolicy {
            value,
            lifetime: Some(Millis(86_400_000)),
            remembers_refusals: false,
            placing: None,
        },
    }
}

pub(super) fn effect(method: &Method, path: &str, action: Action) -> EffectRule {
    EffectRule {
        name: format!("{method} {path}"),
        methods: Methods::These(vec![method.clone()]),
        path: PathTemplate::parse(path).unwrap(),
        action,
    }
}

/// Named by the caller's key, without a fence.
pub(super) fn keyed(required: bool) -> Protect {
    protect(
        Identity {
            template: Template::of(Member::Header(KEY)),
            required,
            origin: IdentityOrigin::Caller,
        },
        None,
    )
}

/// Named by a template, under a fence.
pub(super) fn fenced(once: &str, resource: &str) -> Protect {
    protect(
        Identity {
            template: Template::parse(once).unwrap(),
            required: true,
            origin: IdentityOrigin::Derived,
        },
        Some(Fence {
            resource: Template::parse(resource).unwrap(),
            token: Member::Header(HeaderName::from_static("fencing-token")),
            source: TokenSource::new("workers"),
            acquisition: HeaderName::from_static("fencing-acquisition"),
            sequence: HeaderName::from_static("fencing-sequence"),
        }),
    )
}

fn protect(once: Identity, fence: Option<Fence>) -> Protect {
    let policy = Policy {
        fence: fence.is_some().then_some(FencePolicy {
            token: TokenMode::Require,
            per_generation: PerGeneration::Many,
            require: Ownership::NotOlder,
            if_older_unsettled: IfOlderUnsettled::Wait(Millis(10_000)),
            if_twin: IfTwin::Refuse,
            max_step: None,
        }),
        order: Order::Strict,
        settle: SettlePolicy {
            capability: Capability::default(),
            key: None,
            steps: Steps::none(),
            way: None,
        },
        timeouts: timeouts(),
        keep_request: true,
    };
    Protect {
        mode: Mode::Enforce,
        once,
        caller_key_header: KEY,
        insert: Arc::new(Insert::of_key(Some(key_rule(KeyValue::Derived, None)))),
        keyless: None,
        means: Means::Whole,
        fence,
        answers: AnswerRules::contract(),
        asking: crate::config::Asking::default(),
        policy: Arc::new(policy),
        join: Duration::from_secs(10),
        blind_retry: Some(Millis(300_000)),
        body_limit: 1_048_576,
        answer_limit: 1_048_576,
        uncertain_status: 504,
    }
}

fn timeouts() -> Timeouts {
    Timeouts {
        dispatch: Millis(5_000),
        connect: Millis(5_000),
        response: Millis(30_000),
    }
}
