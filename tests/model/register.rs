//! The register of a world: loads views, lets the real rules decide, applies their changes in one go.
//!
//! What always holds: the view is what a store would load (`store::load`); the decision is
//! `protocol::decide::decide`, untouched. What no rule reads (when a record changed, how often it was
//! admitted) is put to zero afterwards, so that equal situations are equal states.

use std::sync::Arc;

use bytes::Bytes;
use fencepost::protocol::command::{
    Admit, Changes, Command, Note as NoteCommand, Park, Presented, Record as RecordCommand, Reply,
    RequestChange, Resend, Resolve, Steer, TokenField,
};
use fencepost::protocol::decide::decide;
use fencepost::protocol::fence::Fence;
use fencepost::protocol::finding::Finding;
use fencepost::protocol::ids::{
    AcquisitionId, AttemptId, FencingToken, Fingerprint, Incarnation, InstanceId, OperationId,
    OperationKey, Principal, ResourceKey, ResourceName, Sequence, Tenant, TokenSource, UpstreamId,
};
use fencepost::protocol::lease::{Lease, LeaseFacts, Leasing, LiveLease, OWN_SOURCE};
use fencepost::protocol::operation::{AttemptEnd, IdentityOrigin, Operation, State};
use fencepost::protocol::outcome::{Answer, StoredRequest, Verdict};
use fencepost::protocol::start::Start;
use fencepost::protocol::take_up::TakeUp;
use fencepost::protocol::time::{BootId, BootInstant, Millis, Moment};
use fencepost::protocol::view::{Record as Found, TwinNote, Unsettled, View};
use fencepost::protocol::void::{BeginVoid, Voided};

use super::company::Companies;
use super::kept::Kept;
use super::scenario::{Call, Holder, Scenario, TICK_MS};
use super::step::{applied, named};
use super::world::{Instance, Name, Note, Record, World};

/// The names that never differ, made once.
#[derive(Debug)]
pub struct Names {
    keys: Vec<OperationKey>,
    resources: [ResourceKey; 2],
    here: TokenSource,
    elsewhere: TokenSource,
    /// Stored requests, by form.
    requests: Vec<Arc<StoredRequest>>,
    pub companies: Companies,
}

impl Default for Names {
    fn default() -> Self {
        let tenant = Tenant::new("t");
        let upstream = UpstreamId::new("u");
        let key = |letter: u8| OperationKey {
            tenant: tenant.clone(),
            upstream: upstream.clone(),
            principal: Principal::None,
            id: OperationId::new(char::from(letter).to_string()),
            incarnation: Incarnation(0),
        };
        let request = |form: u8| {
            Arc::new(StoredRequest {
                method: Bytes::from_static(b"PUT"),
                target: Bytes::from_static(b"/"),
                fields: Vec::new(),
                body: Bytes::copy_from_slice(&[form]),
            })
        };
        Self {
            keys: (b'a'..=b'h').map(key).collect(),
            resources: ["r", "s"].map(|name| ResourceKey {
                tenant: tenant.clone(),
                name: ResourceName::new(name),
            }),
            here: TokenSource::new("here"),
            elsewhere: TokenSource::new("elsewhere"),
            requests: (0..16).map(request).collect(),
            companies: Companies::default(),
        }
    }
}

impl Names {
    pub fn key(&self, name: Name) -> OperationKey {
        self.keys[usize::from(name.operation)].within(Incarnation(u64::from(name.incarnation)))
    }

    pub fn resource(&self, number: u8) -> ResourceKey {
        self.resources[usize::from(number)].clone()
    }

    /// The command that a call makes.
    pub fn admit(
        &self,
        call: &Call,
        attempt: AttemptId,
        at: Moment,
        reserved: bool,
        live: Option<LiveLease>,
    ) -> Admit {
        let unplaced = Name {
            operation: call.operation,
            incarnation: 0,
        };
        let presented = call.token.map(|token| Presented {
            resource: self.resource(call.resource),
            token: token.map_or(TokenField::Absent, TokenField::Token),
            source: match (call.wild, call.held_by) {
                (true, _) => self.elsewhere.clone(),
                (false, Some(_)) => TokenSource::new(OWN_SOURCE),
                (false, None) => self.here.clone(),
            },
            acquisition: call.acquisition.map(AcquisitionId::new),
            sequence: call.sequence.and_then(Sequence::from_value),
        });
        let origin = match (call.blind_retry, call.derived) {
            (Some(_), _) => IdentityOrigin::Fresh,
            (None, true) => IdentityOrigin::Derived,
            (None, false) => IdentityOrigin::Caller,
        };
        Admit {
            key: self.key(unplaced),
            follows_incarnation: call.follows_incarnation,
            origin,
            meaning: fingerprint(call.form).into(),
            credentialed: false,
            blind_retry: call.blind_retry,
            presented,
            policy: Arc::clone(&call.policy),
            request: Arc::clone(&self.requests[usize::from(call.form)]),
            conditional: call.condition.is_some(),
            attempt,
            at,
            reserved,
            lease: LeaseFacts::of(live),
        }
    }
}

pub fn fingerprint(form: u8) -> Fingerprint {
    Fingerprint {
        key: 1,
        form: 1,
        digest: [form; 32],
    }
}

/// Which form an operation stands for.
pub fn form_of(operation: &Operation) -> u8 {
    operation.fingerprint.digest[0]
}

pub fn attempt_id(instance: Instance, number: u8) -> AttemptId {
    AttemptId {
        instance: InstanceId(u128::from(instance)),
        number: u64::from(number),
    }
}

pub fn answer(status: u16) -> Answer {
    Answer {
        status,
        fields: Vec::new(),
        body: None,
    }
}

/// On the clocks of the machine of that proxy.
pub fn moment(scenario: &Scenario, proxy: u8, tick: u8) -> Moment {
    let ms = u64::from(tick) * TICK_MS;
    let machine = if scenario.machines { proxy } else { 0 };
    let rebooted = scenario.reboot_at.is_some_and(|at| tick >= at);
    let ahead = u64::from(machine) * u64::from(scenario.skewed) * 3_600_000;
    Moment {
        boot: BootId(u128::from(machine) + 100 * u128::from(rebooted)),
        boottime: BootInstant(ms),
        wall_ms: ms + ahead,
    }
}

/// Decides `command` at the proxy of that index, and commits.
pub fn apply(
    world: &mut World,
    scenario: &Scenario,
    names: &Names,
    proxy: u8,
    command: &Command,
) -> Reply {
    let view = view(world, scenario, names, proxy, command);
    let decision = decide(&view, command);
    persist(world, decision.changes);
    decision.reply
}

/// What the proxy of that index knows of who owns the first resource, for that operation.
pub fn lease(world: &World, proxy: u8, name: Name) -> LeaseFacts {
    LeaseFacts {
        live: live(world, proxy),
        licensed: world.licences.contains(&(proxy, name)),
    }
}

/// The lease that the proxy of that index acquired or renewed last.
pub fn live(world: &World, proxy: u8) -> Option<LiveLease> {
    world.live[usize::from(proxy)].map(|live| LiveLease {
        acquisition: named(live.acquisition),
        until: BootInstant(live.until_ms),
    })
}

fn view(world: &World, scenario: &Scenario, names: &Names, proxy: u8, command: &Command) -> View {
    let mut view = View::of_nothing(world.epoch, names.companies.living(world, scenario, proxy));
    match command {
        Command::Admit(admit) => load_admission(world, names, admit, &mut view),
        Command::Record(RecordCommand { key, .. })
        | Command::Start(Start { key, .. })
        | Command::Find(Finding { key, .. })
        | Command::Voided(Voided { key, .. })
        | Command::Resolve(Resolve { key, .. })
        | Command::Note(NoteCommand { key, .. }) => {
            view.record = operation(world, Name::of(key));
        }
        Command::Resend(Resend { key, .. })
        | Command::Park(Park { key, .. })
        | Command::TakeUp(TakeUp { key, .. }) => {
            let record = world.record(Name::of(key));
            view.record = operation(world, Name::of(key));
            view.fence = record
                .and_then(|record| fence_of(world, &record.operation))
                .cloned();
            view.request = record
                .and_then(|record| record.request)
                .map(|form| (*names.requests[usize::from(form)]).clone());
        }
        Command::BeginVoid(BeginVoid { key, .. }) => {
            view.record = operation(world, Name::of(key));
            view.request = world
                .record(Name::of(key))
                .and_then(|record| record.request)
                .map(|form| (*names.requests[usize::from(form)]).clone());
        }
        Command::Lease(Leasing { resource, .. }) => {
            view.fence = world.fences[number_of(&resource.name)].as_deref().cloned();
        }
        Command::Steer(Steer { resource, how, .. }) => {
            view.fence = world.fences[number_of(&resource.name)].as_deref().cloned();
            view.unsettled = Arc::new(unsettled(world, &resource.name));
            let fence = view.fence.as_ref();
            let above = fence.and_then(|fence| Some((fence, how.repairs_to(fence)?)));
            if let Some((fence, token)) = above {
                view.applied = applied(world, fence, token);
            }
        }
    }
    view
}

fn load_admission(world: &World, names: &Names, admit: &Admit, view: &mut View) {
    let resource = admit.presented.as_ref().map(|shown| &shown.resource.name);
    if let Some(resource) = resource {
        view.fence = world.fences[number_of(resource)].as_deref().cloned();
    }
    let mut name = Name::of(&admit.key);
    if let (true, Some(fence)) = (admit.follows_incarnation, &view.fence) {
        name.incarnation = u8::try_from(fence.incarnation.0).unwrap();
    }
    view.record = operation(world, name);
    if let Some(note) = world.notes.iter().find(|note| note.twin == name) {
        let twin = TwinNote {
            key: names.key(note.twin),
            first: names.key(note.first),
            fingerprint: fingerprint(note.form),
        };
        match &view.record {
            None => view.record = Some(Found::Twin(twin)),
            Some(_) => view.note = Some(twin),
        }
        view.first = world
            .record(note.first)
            .map(|record| (*record.operation).clone());
    }
    if view.record.is_none() && admit.blind_retry.is_some() {
        let mut newest_first = world.records.iter().rev();
        view.keyless = newest_first
            .find(|record| record.operation.is_equal_without_key(admit))
            .map(|record| (*record.operation).clone());
    }
    if let (Some(resource), Some(_)) = (resource, &view.fence) {
        view.unsettled = Arc::new(unsettled(world, resource));
    }
}

/// The number of a resource: `r` is the first.
pub fn number_of(resource: &ResourceName) -> usize {
    usize::from(resource.as_str() != "r")
}

/// The fence that an operation has its place under.
pub fn fence_of<'a>(world: &'a World, operation: &Operation) -> Option<&'a Fence> {
    let place = operation.place.as_ref()?;
    world.fences[number_of(&place.resource)].as_deref()
}

fn operation(world: &World, name: Name) -> Option<Found> {
    let record = world.record(name)?;
    Some(Found::Operation(Box::new((*record.operation).clone())))
}

fn unsettled(world: &World, resource: &ResourceName) -> Vec<Unsettled> {
    let mut found: Vec<_> = world
        .records
        .iter()
        .filter_map(|record| {
            let place = record.operation.place.as_ref();
            let number = place.filter(|place| place.resource == *resource)?.number;
            Some((number, Unsettled::of(&record.operation)?))
        })
        .collect();
    found.sort_by_key(|(number, _)| *number);
    found.into_iter().map(|(_, unsettled)| unsettled).collect()
}

fn persist(world: &mut World, changes: Changes) {
    let Changes {
        fence,
        operation,
        twin,
        request,
        events: _,
    } = changes;
    if let Some(mut fence) = fence {
        // No rule reads who did what to it.
        fence.interventions = Arc::default();
        if let Some(lease) = &mut fence.lease {
            lease.since = NEVER;
        }
        let number = number_of(&fence.resource.name);
        world.fences[number] = Some(Kept::new(fence));
    }
    if let Some(TwinNote {
        key,
        first,
        fingerprint,
    }) = twin
    {
        let twin = Name::of(&key);
        world.notes.retain(|note| note.twin != twin);
        world.notes.push(Note {
            twin,
            first: Name::of(&first),
            form: fingerprint.digest[0],
        });
    }
    let Some(operation) = operation else { return };
    let name = Name::of(&operation.key);
    world.notes.retain(|note| note.twin != name);
    let kept = |before: Option<u8>| match &request {
        RequestChange::Untouched => before,
        RequestChange::Keep(request) => request.body.first().copied(),
        RequestChange::Drop => None,
    };
    let operation = Kept::new(forgetful(*operation));
    match world.records.iter_mut().find(|record| record.name == name) {
        Some(record) => {
            record.request = kept(record.request);
            record.operation = operation;
        }
        None => world.records.push(Record {
            name,
            operation,
            request: kept(None),
        }),
    }
}

/// What no rule reads.
const NEVER: Moment = Moment {
    boot: BootId(0),
    boottime: BootInstant(0),
    wall_ms: 0,
};

/// Without what no rule reads any more.
fn forgetful(mut operation: Operation) -> Operation {
    let never = NEVER;
    // A question asks of which turn it is.
    if !operation
        .settle
        .steps
        .iter()
        .any(|(_, it)| it.question().is_some())
    {
        operation.admitted = 0;
    }
    for step in &mut operation.settling.steps {
        step.asked = 0;
        step.first_asked = None;
        step.said = None;
    }
    // An equal request without a key asks how old it is.
    if operation.origin != IdentityOrigin::Fresh || !operation.state.is_unsettled() {
        operation.first_seen = never;
    }
    operation.changed = never;
    // The windows of all steps but resends begin with the newest attempt.
    let windows = operation.settle.steps.iter().count()
        > usize::from(operation.settle.steps.send_again().is_some());
    let newest = operation.attempts.last().map(|attempt| attempt.id);
    for attempt in &mut operation.attempts {
        if windows && Some(attempt.id) == newest {
            continue;
        }
        match attempt.end {
            AttemptEnd::Silent | AttemptEnd::Open(..) => {}
            AttemptEnd::Closed(..) | AttemptEnd::Ambiguous(_) | AttemptEnd::Disproved(_) => {
                attempt.at = never;
            }
        }
    }
    if let State::Completed(completion) = &mut operation.state {
        completion.at = never;
        if completion.verdict == Verdict::Applied {
            operation.key_use.first = None;
        }
    }
    operation
}

/// The fence of a resource whose source is known, at token 0.
pub fn known_fence() -> Kept<Fence> {
    let names = Names::default();
    let mut fence = Fence::unseen(names.resource(0));
    fence.mark = FencingToken::new(0, 0);
    fence.source = Some(names.here);
    Kept::new(fence)
}

/// The fence of a resource that this holder acquired.
pub fn leased_fence(holder: &Holder) -> Kept<Fence> {
    let names = Names::default();
    let token = FencingToken::new(0, 1);
    let mut fence = Fence::unseen(names.resource(0));
    (fence.mark, fence.issued) = (token, token);
    fence.source = Some(TokenSource::new(OWN_SOURCE));
    fence.lease = token.map(|token| Lease {
        acquisition: named(1),
        holder: String::new(),
        token,
        ttl: Millis(holder.ttl_ms),
        renewals: 0,
        since: NEVER,
    });
    Kept::new(fence)
}

/// The number of the last admission.
pub fn admissions(fence: Option<&Kept<Fence>>) -> u8 {
    fence.map_or(0, |fence| u8::try_from(fence.admissions.0).unwrap())
}
