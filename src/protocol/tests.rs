//! The rules, shown: a table of every state × every event, and the sentences of contract §4 one by
//! one. A tiny register in memory loads views and applies changes, so that each test reads as a story.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::command::*;
use super::decide::decide;
use super::fence::{Deed, Fence};
use super::finding::*;
use super::ids::*;
use super::lease::{Lease, LeaseFacts, LeaseReply, Leasing, LiveLease, OWN_SOURCE, Sight, Wish};
use super::operation::*;
use super::outcome::*;
use super::plan::{self, Step};
use super::policy::*;
use super::rejection::{Expired, Rejection, UnknownToken};
use super::start::Start;
use super::steps::*;
use super::take_up::*;
use super::time::*;
use super::view::{AppliedAbove, Living, Record as Standing, TwinNote, Unsettled, View};
use super::void::*;

use ask::Ask;
use evidence::{answer, applied, lost, not_sent, timed_out};

const OWN: InstanceId = InstanceId(7);
const RESOURCE: &str = "statement:account-42:2026-09-13";

/// A register of one tenant, in memory.
pub(super) struct World {
    pub(super) fences: BTreeMap<ResourceKey, Fence>,
    pub(super) operations: BTreeMap<OperationKey, Operation>,
    pub(super) requests: BTreeMap<OperationKey, StoredRequest>,
    twins: BTreeMap<OperationKey, TwinNote>,
    pub(super) events: Vec<Event>,
    pub(super) living: Living,
    pub(super) lease: LeaseFacts,
    pub(super) epoch: u64,
    pub(super) now_ms: u64,
    pub(super) boot: BootId,
    attempts: u64,
}

impl World {
    fn new() -> Self {
        Self {
            fences: BTreeMap::new(),
            operations: BTreeMap::new(),
            requests: BTreeMap::new(),
            twins: BTreeMap::new(),
            events: Vec::new(),
            living: Living::Only(OWN),
            lease: LeaseFacts::unknown(),
            epoch: 0,
            now_ms: 1_000,
            boot: BootId(1),
            attempts: 0,
        }
    }

    fn now(&self) -> Moment {
        Moment {
            boot: self.boot,
            boottime: BootInstant(self.now_ms),
            wall_ms: self.now_ms,
        }
    }

    fn attempt(&mut self) -> AttemptId {
        self.attempts += 1;
        let instance = match &self.living {
            Living::Only(own) => *own,
            Living::Among(company) => company.own().next().unwrap(),
        };
        AttemptId {
            instance,
            number: self.attempts,
        }
    }

    fn view(&self, command: &Command) -> View {
        let (key, resource) = match command {
            Command::Admit(admit) => {
                let resource = admit.presented.as_ref().map(|p| p.resource.clone());
                let incarnation = resource
                    .as_ref()
                    .and_then(|r| self.fences.get(r))
                    .map_or(Incarnation(0), |f| f.incarnation);
                let key = if admit.follows_incarnation {
                    admit.key.within(incarnation)
                } else {
                    admit.key.clone()
                };
                (key, resource)
            }
            Command::Record(Record { key, .. })
            | Command::Resend(Resend { key, .. })
            | Command::Park(Park { key, .. })
            | Command::Start(Start { key, .. })
            | Command::Find(Finding { key, .. })
            | Command::BeginVoid(BeginVoid { key, .. })
            | Command::Voided(Voided { key, .. })
            | Command::TakeUp(TakeUp { key, .. })
            | Command::Resolve(Resolve { key, .. })
            | Command::Note(Note { key, .. }) => {
                let resource = self.operations.get(key).and_then(|op| {
                    let name = op.place.as_ref()?.resource.clone();
                    Some(ResourceKey {
                        tenant: key.tenant.clone(),
                        name,
                    })
                });
                (key.clone(), resource)
            }
            Command::Steer(Steer { resource, .. }) | Command::Lease(Leasing { resource, .. }) => {
                (key("-"), Some(resource.clone()))
            }
        };
        let twin = self.twins.get(&key);
        let mut unsettled: Vec<(AdmissionNumber, Unsettled)> = self
            .operations
            .values()
            .filter(|op| {
                op.place.as_ref().map(|p| &p.resource) == resource.as_ref().map(|r| &r.name)
            })
            .filter_map(|op| Some((op.place.as_ref()?.number, Unsettled::of(op)?)))
            .collect();
        unsettled.sort_by_key(|(number, _)| *number);
        View {
            epoch: self.epoch,
            living: self.living.clone(),
            fence: resource.and_then(|r| self.fences.get(&r).cloned()),
            first: twin.and_then(|note| self.operations.get(&note.first).cloned()),
            record: self
                .operations
                .get(&key)
                .map(|op| Standing::Operation(Box::new(op.clone())))
                .or_else(|| twin.map(|note| Standing::Twin(note.clone()))),
            note: twin.filter(|_| self.operations.contains_key(&key)).cloned(),
            keyless: self.keyless(command),
            unsettled: Arc::new(unsettled.into_iter().map(|(_, brief)| brief).collect()),
            request: self.requests.get(&key).cloned(),
            applied: self.applied(command),
        }
    }

    fn keyless(&self, command: &Command) -> Option<Operation> {
        let Command::Admit(admit) = command else {
            return None;
        };
        let mut operations = self.operations.values();
        operations
            .find(|op| op.origin == IdentityOrigin::Fresh && admit.meaning.is(&op.fingerprint))
            .cloned()
    }

    fn apply(&mut self, command: &Command) -> Reply {
        let decision = decide(&self.view(command), command);
        let Changes {
            fence,
            operation,
            twin,
            request,
            events,
        } = decision.changes;
        if let Some(fence) = fence {
            self.fences.insert(fence.resource.clone(), fence);
        }
        if let Some(operation) = operation {
            let key = operation.key.clone();
            match request {
                RequestChange::Untouched => {}
                RequestChange::Keep(bytes) => {
                    self.requests.insert(key.clone(), (*bytes).clone());
                }
                RequestChange::Drop => {
                    self.requests.remove(&key);
                }
            }
            self.twins.remove(&key);
            self.operations.insert(key, *operation);
        }
        if let Some(note) = twin {
            self.twins.insert(note.key.clone(), note);
        }
        self.events.extend(events);
        decision.reply
    }

    fn admit(&mut self, ask: &Ask) -> Ruling {
        self.admission(ask).ruling
    }

    fn admission(&mut self, ask: &Ask) -> Admission {
        let attempt = self.attempt();
        let mut command = ask.command(attempt, self.now());
        command.lease = self.lease.clone();
        match self.apply(&Command::Admit(Box::new(command))) {
            Reply::Admission(admission) => admission,
            other => panic!("{other:?}"),
        }
    }

    fn granted(&mut self, ask: &Ask) -> Grant {
        match self.admit(ask) {
            Ruling::Granted(grant) => grant,
            other => panic!("not granted: {other:?}"),
        }
    }

    fn record(&mut self, grant: &Grant, evidence: Evidence) -> Recorded {
        self.record_open(grant, evidence, false)
    }

    fn record_open(&mut self, grant: &Grant, evidence: Evidence, open: bool) -> Recorded {
        let record = Record {
            key: grant.key.clone(),
            attempt: grant.attempt,
            evidence,
            open,
            at: self.now(),
        };
        match self.apply(&Command::Record(record)) {
            Reply::Recorded(recorded) => recorded,
            other => panic!("{other:?}"),
        }
    }

    fn resend(&mut self, key: &OperationKey) -> ResendReply {
        let resend = Resend {
            key: key.clone(),
            attempt: self.attempt(),
            dispatch: Millis(5_000),
            overdue_after: Millis(45_000),
            attended: None,
            lease: self.lease.clone(),
            at: self.now(),
        };
        match self.apply(&Command::Resend(resend)) {
            Reply::Resend(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    /// As a person asks.
    fn attend(&mut self, key: &OperationKey) -> ResendReply {
        let resend = Resend {
            key: key.clone(),
            attempt: self.attempt(),
            dispatch: Millis(5_000),
            overdue_after: Millis(45_000),
            attended: Some(Attended {
                operator: "alice".to_owned(),
                reason: "the bank has no trace of it".to_owned(),
            }),
            lease: self.lease.clone(),
            at: self.now(),
        };
        match self.apply(&Command::Resend(resend)) {
            Reply::Resend(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    fn take_up(&mut self, key: &OperationKey) -> TakenUp {
        let taking = TakeUp {
            key: key.clone(),
            operator: "alice".to_owned(),
            reason: "the bank is back".to_owned(),
            at: self.now(),
        };
        match self.apply(&Command::TakeUp(taking)) {
            Reply::TakenUp(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    fn resolve(&mut self, key: &OperationKey, verdict: Resolution) -> Resolved {
        self.resolve_as_seen(key, verdict, None)
    }

    fn resolve_as_seen(
        &mut self,
        key: &OperationKey,
        verdict: Resolution,
        seen: Option<u32>,
    ) -> Resolved {
        let resolve = Resolve {
            key: key.clone(),
            verdict,
            operator: "alice".to_owned(),
            reason: "looked at the provider's ledger".to_owned(),
            seen,
            at: self.now(),
        };
        match self.apply(&Command::Resolve(resolve)) {
            Reply::Resolved(resolved) => resolved,
            other => panic!("{other:?}"),
        }
    }

    /// Of the operation that most tests are about. Answers its state then.
    fn start(&mut self, step: StepIndex) -> &'static str {
        let start = Start {
            key: key("k"),
            step,
            at: self.now(),
        };
        match self.apply(&Command::Start(start)) {
            Reply::Started(state) => state.as_ref().map_or("(none)", State::word),
            other => panic!("{other:?}"),
        }
    }

    /// It is given to a person, as if none of its steps had time left.
    fn give_up(&mut self, key: &OperationKey) -> Option<State> {
        let steps = |world: &mut Self, steps| {
            let known = world.operations.get_mut(key);
            known.map(|it| std::mem::replace(&mut it.settle.steps, steps))
        };
        let before = steps(self, Steps::none());
        let state = self.park(key);
        if let Some(before) = before {
            steps(self, before);
        }
        state
    }

    /// Its request cannot be sent: it is given to a person where no other step can help.
    fn park(&mut self, key: &OperationKey) -> Option<State> {
        let park = Park {
            key: key.clone(),
            fit: false,
            lease: self.lease.clone(),
            at: self.now(),
        };
        match self.apply(&Command::Park(park)) {
            Reply::Parked(state) => state,
            other => panic!("{other:?}"),
        }
    }

    /// As a store loads it.
    fn applied(&self, command: &Command) -> AppliedAbove {
        let Command::Steer(Steer { resource, how, .. }) = command else {
            return AppliedAbove::none();
        };
        let fence = self.fences.get(resource);
        let Some((fence, above)) = fence.and_then(|it| Some((it, how.repairs_to(it)?))) else {
            return AppliedAbove::none();
        };
        let applied = self.operations.values().filter_map(|operation| {
            let place = operation.place.as_ref()?;
            let token = place.token.filter(|token| *token > above)?;
            let applied =
                matches!(&operation.state, State::Completed(it) if it.verdict == Verdict::Applied);
            (applied && place.incarnation == fence.incarnation).then(|| Applied {
                key: operation.key.clone(),
                token,
            })
        });
        AppliedAbove::of(applied.collect())
    }

    fn steer(&mut self, how: Steering) -> Steered {
        let steer = Steer {
            resource: resource(),
            how,
            operator: "alice".to_owned(),
            reason: "wrong amount".to_owned(),
            at: self.now(),
        };
        match self.apply(&Command::Steer(steer)) {
            Reply::Steered(steered) => steered,
            other => panic!("{other:?}"),
        }
    }

    fn state(&self, key: &OperationKey) -> &'static str {
        self.operations
            .get(key)
            .map_or("(none)", |op| op.state.word())
    }

    fn fence(&self) -> &Fence {
        self.fences.values().next().unwrap()
    }

    /// The process dies and another starts in its place.
    fn restart(&mut self) {
        self.living = Living::Only(InstanceId(8));
    }
}

fn token(text: &str) -> FencingToken {
    FencingToken::parse(text).unwrap()
}

fn idempotent() -> SettlePolicy {
    SettlePolicy {
        capability: Capability {
            idempotent: true,
            ..Capability::default()
        },
        key: Some(KeyPolicy {
            value: KeyValue::Derived,
            lifetime: Some(Millis(86_400_000)),
            remembers_refusals: false,
            placing: None,
        }),
        steps: resends(3),
        way: None,
    }
}

fn resends(attempts: u32) -> Steps {
    Steps::resends(Some(ResendPolicy {
        attempts,
        backoff_from: Millis(200),
        backoff_to: Millis(30_000),
    }))
}

fn conditional() -> SettlePolicy {
    let mut settle = opaque();
    settle.capability.conditional = true;
    settle
}

fn opaque() -> SettlePolicy {
    SettlePolicy {
        capability: Capability::default(),
        key: None,
        steps: Steps::none(),
        way: None,
    }
}

fn resource() -> ResourceKey {
    ResourceKey {
        tenant: Tenant::new("t"),
        name: ResourceName::new(RESOURCE),
    }
}

fn key(id: &str) -> OperationKey {
    OperationKey {
        tenant: Tenant::new("t"),
        upstream: UpstreamId::new("u"),
        principal: Principal::None,
        id: OperationId::new(id),
        incarnation: Incarnation(0),
    }
}

fn refused(ruling: Ruling) -> Rejection {
    match ruling {
        Ruling::Refused(rejection) => rejection,
        other => panic!("not refused: {other:?}"),
    }
}

fn is_stale(ruling: &Ruling) -> bool {
    matches!(ruling, Ruling::Refused(Rejection::StaleToken { .. }))
}

mod admission;
mod amending;
mod ask;
mod attended;
mod company;
mod current;
mod evidence;
mod finding;
mod forms;
mod leases;
mod life;
mod meaning;
mod planned;
mod pulse;
mod settling;
mod share;
mod steering;
mod table;
mod take_up;
mod tokens;
mod undoing;
