//! A stand-in for a register, for tests of this room: the real rules over two maps, with faults on
//! demand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::protocol::command::{
    Admit, Command, Presented, Reply, RequestChange, Ruling, TokenField,
};
use crate::protocol::decide::decide;
use crate::protocol::fence::Fence;
use crate::protocol::ids::{
    AttemptId, FencingToken, Fingerprint, Incarnation, InstanceId, OperationId, OperationKey,
    Principal, ResourceKey, ResourceName, Tenant, TokenSource, UpstreamId,
};
use crate::protocol::operation::{IdentityOrigin, Operation};
use crate::protocol::outcome::StoredRequest;
use crate::protocol::policy::{
    Capability, FencePolicy, IfOlderUnsettled, IfTwin, KeyPolicy, KeyValue, Order, Ownership,
    PerGeneration, Policy, SettlePolicy, Timeouts, TokenMode,
};
use crate::protocol::steps::Steps;
use crate::protocol::time::{Millis, Moment};
use crate::protocol::view::{Living, Record, Unsettled, View};
use crate::store::about::About;
use crate::store::{
    Backend, OperationPage, OperationQuery, Pending, Pressing, StoreError, Stored, StoredResource,
    Summary,
};

pub(super) const INSTANCE: InstanceId = InstanceId(7);

#[derive(Default)]
pub(super) struct StandIn {
    tables: Mutex<Tables>,
    slow: Mutex<Option<Arc<Slow>>>,
}

/// Writes that wait until they are let go.
#[derive(Default)]
pub(super) struct Slow {
    pub(super) reached: Notify,
    pub(super) go: Notify,
}

#[derive(Default)]
struct Tables {
    operations: BTreeMap<OperationKey, (u64, Stored)>,
    fences: BTreeMap<ResourceKey, Fence>,
    fault: Option<StoreError>,
    proofs: u32,
}

/// What a test wants admitted.
pub(super) struct Wanted<'a> {
    pub(super) id: &'a str,
    pub(super) principal: Principal,
    pub(super) token: u64,
    pub(super) key: KeyValue,
    pub(super) instance: InstanceId,
    pub(super) at: Moment,
}

impl StandIn {
    pub(super) fn break_with(&self, fault: Option<StoreError>) {
        self.tables.lock().unwrap().fault = fault;
    }

    pub(super) fn slow_down(&self) -> Arc<Slow> {
        self.slow.lock().unwrap().insert(Arc::default()).clone()
    }

    /// How often it was asked to prove itself.
    pub(super) fn proofs(&self) -> u32 {
        self.tables.lock().unwrap().proofs
    }

    pub(super) fn admit(&self, wanted: &Wanted<'_>) -> OperationKey {
        let admit = admission(wanted);
        let reply = self
            .tables
            .lock()
            .unwrap()
            .apply(&Command::Admit(Box::new(admit)));
        match reply {
            Reply::Admission(admission) => {
                assert!(
                    matches!(admission.ruling, Ruling::Granted(_)),
                    "{admission:?}"
                );
                admission.key
            }
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn command(&self, command: &Command) -> Reply {
        self.tables.lock().unwrap().apply(command)
    }

    fn ask<T>(&self, read: impl FnOnce(&mut Tables) -> T) -> Pending<'_, T>
    where
        T: Send + 'static,
    {
        let mut tables = self.tables.lock().unwrap();
        let answer = match tables.fault.clone() {
            Some(fault) => Err(fault),
            None => Ok(read(&mut tables)),
        };
        Box::pin(std::future::ready(answer))
    }
}

impl Tables {
    fn apply(&mut self, command: &Command) -> Reply {
        let view = self.view(command);
        let decision = decide(&view, command);
        if let Some(fence) = decision.changes.fence {
            self.fences.insert(fence.resource.clone(), fence);
        }
        if let Some(operation) = decision.changes.operation {
            let number = u64::try_from(self.operations.len()).unwrap() + 1;
            let stored = Stored {
                operation: (*operation).clone(),
                events: vec![],
                request: None,
            };
            let entry = self.operations.entry(operation.key.clone());
            let (_, stored) = entry.or_insert((number, stored));
            stored.operation = *operation;
            match decision.changes.request {
                RequestChange::Untouched => {}
                RequestChange::Keep(request) => stored.request = Some((*request).clone()),
                RequestChange::Drop => stored.request = None,
            }
        }
        for event in decision.changes.events {
            if let Some((_, stored)) = self.operations.get_mut(&event.key) {
                stored.events.push(event);
            }
        }
        decision.reply
    }

    fn view(&self, command: &Command) -> View {
        let key = command.operation();
        let found = key
            .and_then(|key| self.operations.get(key))
            .map(|(_, stored)| &stored.operation);
        let resource = match command {
            Command::Admit(admit) => admit.presented.as_ref().map(|p| p.resource.clone()),
            Command::Record(_)
            | Command::Resend(_)
            | Command::Park(_)
            | Command::Start(_)
            | Command::Find(_)
            | Command::BeginVoid(_)
            | Command::Voided(_)
            | Command::TakeUp(_)
            | Command::Resolve(_)
            | Command::Note(_) => found.and_then(resource_of),
            Command::Steer(steer) => Some(steer.resource.clone()),
            Command::Lease(leasing) => Some(leasing.resource.clone()),
        };
        View {
            fence: resource
                .as_ref()
                .and_then(|key| self.fences.get(key))
                .cloned(),
            record: found.map(|operation| Record::Operation(Box::new(operation.clone()))),
            unsettled: Arc::new(
                self.of_resource(resource.as_ref())
                    .iter()
                    .filter_map(Unsettled::of)
                    .collect(),
            ),
            ..View::of_nothing(3, Living::Only(INSTANCE))
        }
    }

    fn of_resource(&self, resource: Option<&ResourceKey>) -> Vec<Operation> {
        let all = self
            .operations
            .values()
            .map(|(_, stored)| &stored.operation);
        all.filter(|operation| resource.is_some() && resource_of(operation).as_ref() == resource)
            .cloned()
            .collect()
    }
}

fn resource_of(operation: &Operation) -> Option<ResourceKey> {
    let place = operation.place.as_ref()?;
    Some(ResourceKey {
        tenant: operation.key.tenant.clone(),
        name: place.resource.clone(),
    })
}

impl Backend for StandIn {
    fn apply(&self, command: Command) -> Pending<'_, Reply> {
        let slow = self.slow.lock().unwrap().clone();
        Box::pin(async move {
            if let Some(slow) = slow {
                slow.reached.notify_one();
                slow.go.notified().await;
            }
            self.ask(|tables| tables.apply(&command)).await
        })
    }

    fn peek<'a>(
        &'a self,
        _key: &'a OperationKey,
        _resource: Option<&'a ResourceKey>,
    ) -> Pending<'a, Option<Record>> {
        self.ask(|_| None)
    }

    fn operation<'a>(
        &'a self,
        key: &'a OperationKey,
        with_request: bool,
    ) -> Pending<'a, Option<Stored>> {
        self.ask(|tables| {
            let (_, stored) = tables.operations.get(key)?;
            let mut stored = stored.clone();
            stored.request = stored.request.filter(|_| with_request);
            Some(stored)
        })
    }

    fn operations<'a>(&'a self, query: &'a OperationQuery) -> Pending<'a, OperationPage> {
        self.ask(|tables| {
            let mut found: Vec<_> = tables.operations.values().cloned().collect();
            found.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
            found.retain(|(number, Stored { operation, .. })| {
                let key = &operation.key;
                query.before.is_none_or(|before| *number < before)
                    && query
                        .state
                        .is_none_or(|state| state == operation.state.word())
                    && query.id.as_ref().is_none_or(|id| id == key.id.as_str())
                    && query
                        .upstream
                        .as_ref()
                        .is_none_or(|upstream| *upstream == key.upstream)
                    && (query.resource.is_none() || query.resource == resource_of(operation))
            });
            let more = found.len() > query.limit;
            found.truncate(query.limit);
            OperationPage {
                next: found.last().filter(|_| more).map(|(number, _)| *number),
                operations: found
                    .into_iter()
                    .map(|(_, stored)| stored.operation)
                    .collect(),
            }
        })
    }

    fn resource<'a>(&'a self, key: &'a ResourceKey) -> Pending<'a, Option<StoredResource>> {
        self.ask(|tables| {
            let mut unsettled = tables.of_resource(Some(key));
            unsettled.retain(|operation| operation.state.is_unsettled());
            Some(StoredResource {
                fence: tables.fences.get(key)?.clone(),
                unsettled,
                last_completed: None,
            })
        })
    }

    fn resources<'a>(&'a self, after: Option<&'a str>, limit: usize) -> Pending<'a, Vec<Fence>> {
        self.ask(|tables| {
            let all = tables.fences.values();
            all.filter(|fence| after.is_none_or(|after| fence.resource.name.as_str() > after))
                .take(limit)
                .cloned()
                .collect()
        })
    }

    fn in_doubt(&self, _after: u64, _limit: usize) -> Pending<'_, Vec<(u64, Operation)>> {
        self.ask(|_| vec![])
    }

    fn unsettled(&self, after: u64, limit: usize) -> Pending<'_, Vec<(u64, Operation)>> {
        self.ask(move |tables| {
            let all = tables.operations.values();
            let mut found: Vec<_> = all
                .map(|(number, stored)| (*number, stored.operation.clone()))
                .filter(|(number, it)| *number > after && it.state.is_unsettled())
                .collect();
            found.sort_by_key(|(number, _)| *number);
            found.truncate(limit);
            found
        })
    }

    fn about(&self) -> Pending<'_, About> {
        self.ask(|_| About::default())
    }

    fn summary(&self) -> Pending<'_, Summary> {
        self.ask(|tables| {
            let mut by_state = BTreeMap::new();
            for (_, stored) in tables.operations.values() {
                *by_state.entry(stored.operation.state.word()).or_insert(0) += 1;
            }
            let unsettled = tables
                .operations
                .values()
                .map(|(_, stored)| &stored.operation);
            Summary {
                by_state: by_state.into_iter().collect(),
                oldest_unsettled: unsettled
                    .filter(|operation| operation.state.is_unsettled())
                    .map(|operation| operation.first_seen)
                    .min_by_key(|at| at.wall_ms),
                epoch: 3,
            }
        })
    }

    fn pressing(&self) -> Pending<'_, Pressing> {
        self.ask(|tables| {
            let all = tables.operations.values();
            let all = all.map(|(_, stored)| &stored.operation);
            let unsettled = all.filter(|operation| operation.state.is_unsettled());
            let oldest: Vec<Operation> = unsettled.cloned().collect();
            let mut by_state = BTreeMap::new();
            for operation in &oldest {
                *by_state.entry(operation.state.word()).or_insert(0) += 1;
            }
            Pressing {
                by_state: by_state.into_iter().collect(),
                oldest,
            }
        })
    }

    fn ready(&self) -> Pending<'_, ()> {
        self.tables.lock().unwrap().proofs += 1;
        self.ask(|_| ())
    }

    fn instance(&self) -> InstanceId {
        INSTANCE
    }

    fn living(&self) -> Living {
        Living::Only(INSTANCE)
    }

    fn close(&self) -> Pending<'_, ()> {
        self.ask(|_| ())
    }
}

fn admission(wanted: &Wanted<'_>) -> Admit {
    let tenant = Tenant::new("t");
    Admit {
        key: OperationKey {
            tenant: tenant.clone(),
            upstream: UpstreamId::new("bank"),
            principal: wanted.principal,
            id: OperationId::new(wanted.id),
            incarnation: Incarnation::default(),
        },
        follows_incarnation: false,
        origin: IdentityOrigin::Caller,
        meaning: Fingerprint {
            key: 1,
            form: 1,
            digest: [0; 32],
        }
        .into(),
        credentialed: false,
        blind_retry: None,
        presented: Some(Presented {
            resource: ResourceKey {
                tenant,
                name: ResourceName::new("account:1/2"),
            },
            token: TokenField::Token(FencingToken::new(3, wanted.token).unwrap()),
            source: TokenSource::new("s"),
            acquisition: None,
            sequence: None,
        }),
        policy: Arc::new(policy(wanted.key)),
        request: Arc::new(StoredRequest {
            method: Bytes::from_static(b"POST"),
            target: Bytes::from_static(b"/pay"),
            fields: vec![
                (
                    Bytes::from_static(b"authorization"),
                    Bytes::from_static(b"Bearer hunter2"),
                ),
                (
                    Bytes::from_static(b"content-type"),
                    Bytes::from_static(b"application/json"),
                ),
            ],
            body: Bytes::from_static(b"{\"amount\":5}"),
        }),
        conditional: false,
        attempt: AttemptId {
            instance: wanted.instance,
            number: 1,
        },
        at: wanted.at,
        reserved: true,
        lease: crate::protocol::lease::LeaseFacts::unknown(),
    }
}

fn policy(value: KeyValue) -> Policy {
    Policy {
        fence: Some(FencePolicy {
            token: TokenMode::Require,
            per_generation: PerGeneration::Many,
            require: Ownership::NotOlder,
            if_older_unsettled: IfOlderUnsettled::Refuse,
            if_twin: IfTwin::Send,
            max_step: None,
        }),
        order: Order::Free,
        settle: SettlePolicy {
            capability: Capability {
                idempotent: true,
                ..Capability::default()
            },
            key: Some(KeyPolicy {
                value,
                lifetime: Some(Millis(86_400_000)),
                remembers_refusals: true,
                placing: None,
            }),
            steps: Steps::none(),
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
