//! Decisions on their way into the tables: many in one statement.
//!
//! What always holds: each carries what it was decided on, and is written whole only if that is still
//! so (`write_1` in `format1.sql`). Content is sealed before it leaves the process. Decisions stand in
//! the order in which everybody takes locks, those on one resource in the order they were taken.
//!
//! What it does not do: decide, or try again.

use tokio_postgres::types::{ToSql, Type};

use super::identity::{self, Digest};
use super::known::{Known, Version, first_version, is_keyless, resource_of};
use super::restored::Remembered;
use super::rows::{KeyColumns, sealed_answer};
use super::session::Session;
use super::trouble::Trouble;
use super::written::Written;
use crate::protocol::command::{Changes, Command, Reply, RequestChange};
use crate::protocol::fence::Fence;
use crate::protocol::ids::{InstanceId, OperationKey, ResourceKey};
use crate::protocol::operation::Operation;
use crate::protocol::view::{Record, View};
use crate::store::codec;
use crate::store::load::is_applied;
use crate::store::seal::{Content, SealError, Sealer};

/// What became of a decision that may have been committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing of it is there, and its write is still possible.
    Open,
    /// It is what stands.
    Written,
    /// Something else stands: it was written before that, or never will be.
    Overtaken,
}

/// A decision with what it was decided on.
pub(super) struct Item {
    admits: bool,
    pub(super) resource: Option<ResourceKey>,
    fence_version: Option<Version>,
    fence: Option<Fence>,
    pub(super) key: OperationKey,
    version: Option<Version>,
    note_expected: Option<bool>,
    keyless: Option<Digest>,
    keyless_seen: Option<i64>,
    applied: bool,
    changes: Changes,
}

impl Item {
    /// Before `known` goes along with the changes.
    pub(super) fn new(
        known: &mut Known,
        command: &Command,
        view: &View,
        changes: Changes,
        reply: &Reply,
    ) -> Self {
        let before = match &view.record {
            Some(Record::Operation(operation)) => Some(&**operation),
            Some(Record::Twin(_)) | None => None,
        };
        let key = key_of(command, &changes, reply);
        let resource = match command {
            Command::Admit(admit) => admit.presented.as_ref().map(|shown| shown.resource.clone()),
            Command::Steer(steer) => Some(steer.resource.clone()),
            Command::Lease(leasing) => Some(leasing.resource.clone()),
            Command::Record(_)
            | Command::Resend(_)
            | Command::Park(_)
            | Command::Start(_)
            | Command::Find(_)
            | Command::BeginVoid(_)
            | Command::Voided(_)
            | Command::TakeUp(_)
            | Command::Resolve(_)
            | Command::Note(_) => before.and_then(resource_of),
        };
        let fence_read = resource.as_ref().filter(|_| command.reads_fence());
        let fence_version = fence_read.map(|resource| known.fence_guard(resource));
        let (mut note_expected, mut keyless_seen, mut keyless) = (None, None, None);
        if let Command::Admit(admit) = command {
            note_expected = Some(known.has_note(&key));
            if is_keyless(admit) {
                let shared = identity::shared_by_equals(admit);
                keyless_seen = (admit.blind_retry.is_some() && view.record.is_none())
                    .then(|| known.newest_keyless(&shared));
                keyless = Some(shared.digest);
            }
        }
        let touches = match command {
            Command::Steer(_) | Command::Lease(_) => None,
            Command::Admit(_)
            | Command::Record(_)
            | Command::Resend(_)
            | Command::Park(_)
            | Command::Start(_)
            | Command::Find(_)
            | Command::BeginVoid(_)
            | Command::Voided(_)
            | Command::TakeUp(_)
            | Command::Resolve(_)
            | Command::Note(_) => Some(known.operation_guard(&key)),
        };
        let applied =
            changes.operation.as_deref().is_some_and(is_applied) && !before.is_some_and(is_applied);
        Self {
            admits: command.asks_for_attempt(),
            resource,
            fence_version,
            fence: changes.fence.clone(),
            key,
            version: touches,
            note_expected,
            keyless,
            keyless_seen,
            applied,
            changes,
        }
    }

    /// Does its operation need no step any more?
    pub(super) fn leaves_doubt(&self) -> bool {
        let operation = self.changes.operation.as_deref();
        operation.is_some_and(|it| !it.state.is_in_doubt())
    }

    /// What became of it, by a reading of its row: the operation, or the fence where it is about that.
    pub(super) fn fate(&self, known: &mut Known) -> Fate {
        let (guard, now, is_there) = match (self.version, &self.resource) {
            (Some(guard), _) => {
                let written = self.changes.operation.as_deref();
                let found = known.operation_at(&self.key).map(|(_, it)| it);
                let is_there = written.is_some() && written == found;
                (guard, known.operation_guard(&self.key), is_there)
            }
            (None, Some(resource)) => {
                let found = known.fence_at(resource);
                let is_there = self.fence.is_some() && self.fence.as_ref() == found;
                let guard = self.fence_version.unwrap_or_default();
                (guard, known.fence_guard(resource), is_there)
            }
            (None, None) => return Fate::Overtaken,
        };
        if now == guard {
            Fate::Open
        } else if now == guard.saturating_add(1) && is_there {
            Fate::Written
        } else {
            Fate::Overtaken
        }
    }

    fn lock_order(&self) -> (bool, &str, &str) {
        match &self.resource {
            Some(resource) => (false, resource.tenant.as_str(), resource.name.as_str()),
            None => (true, self.key.tenant.as_str(), self.key.id.as_str()),
        }
    }
}

/// Whose rows a decision is about.
fn key_of(command: &Command, changes: &Changes, reply: &Reply) -> OperationKey {
    if let Some(operation) = &changes.operation {
        return operation.key.clone();
    }
    match (command, reply) {
        (_, Reply::Admission(admission)) => admission.key.clone(),
        (Command::Admit(admit), _) => admit.key.clone(),
        (Command::Record(record), _) => record.key.clone(),
        (Command::Resend(resend), _) => resend.key.clone(),
        (Command::Park(park), _) => park.key.clone(),
        (Command::Start(start), _) => start.key.clone(),
        (Command::Find(finding), _) => finding.key.clone(),
        (Command::BeginVoid(begin), _) => begin.key.clone(),
        (Command::Voided(voided), _) => voided.key.clone(),
        (Command::TakeUp(taking), _) => taking.key.clone(),
        (Command::Resolve(resolve), _) => resolve.key.clone(),
        (Command::Note(note), _) => note.key.clone(),
        (Command::Steer(steer), _) => no_operation(&steer.resource),
        (Command::Lease(leasing), _) => no_operation(&leasing.resource),
    }
}

/// What is about a resource has none; nothing is looked up under this.
fn no_operation(resource: &ResourceKey) -> OperationKey {
    OperationKey {
        tenant: resource.tenant.clone(),
        upstream: crate::protocol::ids::UpstreamId::new(""),
        principal: crate::protocol::ids::Principal::None,
        id: crate::protocol::ids::OperationId::new(""),
        incarnation: crate::protocol::ids::Incarnation::default(),
    }
}

/// The order that decisions are written in: where each of them stands.
pub(super) fn in_lock_order<T>(mut decided: Vec<(Item, T)>) -> Vec<(Item, T)> {
    // Stable: decisions on one resource keep theirs.
    decided.sort_by(|(one, _), (other, _)| one.lock_order().cmp(&other.lock_order()));
    decided
}

const WRITE: &str = "SELECT w.verdicts, w.position_now, w.closed, w.aside_now FROM fencepost.write_1(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
    $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42,
    $43, $44, $45, $46, $47) w";

type Bytes = Vec<Vec<u8>>;
type MaybeBytes = Vec<Option<Vec<u8>>>;

/// The columns of a batch.
#[derive(Default)]
pub(super) struct Columns {
    admits: Vec<bool>,
    fence_tenants: Vec<Option<String>>,
    fence_names: MaybeBytes,
    fence_versions: Vec<Option<i64>>,
    fence_marks: Vec<Option<String>>,
    fence_cancelled: Vec<bool>,
    fence_leased: Vec<bool>,
    fence_records: MaybeBytes,
    identities: Bytes,
    versions: Vec<Option<i64>>,
    tenants: Vec<String>,
    upstreams: Bytes,
    principals: Bytes,
    ids: Bytes,
    incarnations: Vec<i64>,
    states: Vec<Option<&'static str>>,
    unsettled: Vec<Option<bool>>,
    resources: MaybeBytes,
    numbers: Vec<Option<i64>>,
    tokens: Vec<Option<String>>,
    keyless: MaybeBytes,
    owners: MaybeBytes,
    first_seen: Vec<Option<i64>>,
    records: MaybeBytes,
    answers: MaybeBytes,
    requests: MaybeBytes,
    request_changes: Vec<i16>,
    settled: Vec<Option<i64>>,
    applied: Vec<bool>,
    note_expected: Vec<Option<bool>>,
    keyless_seen: Vec<Option<i64>>,
    note_of: Vec<i32>,
    note_identities: Bytes,
    note_tenants: Vec<String>,
    note_upstreams: Bytes,
    note_principals: Bytes,
    note_ids: Bytes,
    note_incarnations: Vec<i64>,
    note_records: Bytes,
    note_firsts: Bytes,
    event_of: Vec<i32>,
    event_operations: Bytes,
    event_records: Bytes,
    begins: Vec<Option<i64>>,
}

impl Columns {
    /// `lived`: the age of the register, in milliseconds.
    pub(super) fn of<'i>(
        items: impl Iterator<Item = &'i Item>,
        sealer: &Sealer,
        lived: i64,
    ) -> Result<Self, SealError> {
        let mut columns = Self::default();
        for (index, item) in items.enumerate() {
            let number = i32::try_from(index.saturating_add(1)).unwrap_or(i32::MAX);
            columns.put(item, number, sealer, lived)?;
        }
        Ok(columns)
    }

    fn put(
        &mut self,
        item: &Item,
        number: i32,
        sealer: &Sealer,
        lived: i64,
    ) -> Result<(), SealError> {
        self.admits.push(item.admits);
        let resource = item
            .resource
            .as_ref()
            .filter(|_| item.fence_version.is_some());
        self.fence_tenants
            .push(resource.map(|it| it.tenant.as_str().to_owned()));
        self.fence_names
            .push(resource.map(|it| it.name.as_str().as_bytes().to_vec()));
        self.fence_versions.push(item.fence_version);
        let fence = item.fence.as_ref();
        self.fence_marks
            .push(fence.and_then(|it| it.mark).map(|mark| mark.to_string()));
        self.fence_cancelled
            .push(fence.is_some_and(|it| it.cancelled));
        self.fence_leased
            .push(fence.is_some_and(|it| it.lease.is_some()));
        self.fence_records.push(fence.map(codec::encode_fence));
        self.versions.push(item.version);
        self.note_expected.push(item.note_expected);
        self.keyless.push(item.keyless.map(|it| it.to_vec()));
        self.keyless_seen.push(item.keyless_seen);
        self.applied.push(item.applied);
        self.put_operation(item, sealer, lived)?;
        self.put_note(item, number);
        for event in &item.changes.events {
            self.event_of.push(number);
            self.event_operations.push(identity::of(&event.key));
            self.event_records.push(codec::encode_event(event));
        }
        Ok(())
    }

    fn put_operation(&mut self, item: &Item, sealer: &Sealer, lived: i64) -> Result<(), SealError> {
        let operation = item.changes.operation.as_deref();
        let key = KeyColumns::of(&item.key);
        self.identities.push(identity::of(&item.key));
        self.tenants.push(key.tenant);
        self.upstreams.push(key.upstream);
        self.principals.push(key.principal);
        self.ids.push(key.id);
        self.incarnations.push(key.incarnation);
        self.states.push(operation.map(|it| it.state.word()));
        self.unsettled
            .push(operation.map(|it| it.state.is_unsettled()));
        let place = operation.and_then(|it| it.place.as_ref());
        self.resources
            .push(place.map(|it| it.resource.as_str().as_bytes().to_vec()));
        self.numbers.push(place.map(|it| it.number.0.cast_signed()));
        self.tokens
            .push(place.and_then(|it| it.token).map(|token| token.to_string()));
        let owner = operation.and_then(Operation::carrier);
        self.owners
            .push(owner.map(|instance| instance.0.to_be_bytes().to_vec()));
        self.first_seen
            .push(operation.map(|it| it.first_seen.wall_ms.cast_signed()));
        self.records.push(operation.map(codec::encode_operation));
        self.begins.push(operation.map(first_version));
        let answer = operation.map(|it| sealed_answer(sealer, it)).transpose()?;
        self.answers.push(answer.flatten());
        let (change, request) = match &item.changes.request {
            RequestChange::Untouched => (0, None),
            RequestChange::Keep(request) => {
                let plain = codec::encode_request(request);
                (1, Some(sealer.seal(Content::Request, &item.key, &plain)?))
            }
            RequestChange::Drop => (2, None),
        };
        self.request_changes.push(change);
        self.requests.push(request);
        let settled = operation.filter(|it| !it.state.is_unsettled());
        self.settled.push(settled.map(|_| lived));
        Ok(())
    }

    fn put_note(&mut self, item: &Item, number: i32) {
        let Some(note) = &item.changes.twin else {
            return;
        };
        let key = KeyColumns::of(&note.key);
        self.note_of.push(number);
        self.note_identities.push(identity::of(&note.key));
        self.note_tenants.push(key.tenant);
        self.note_upstreams.push(key.upstream);
        self.note_principals.push(key.principal);
        self.note_ids.push(key.id);
        self.note_incarnations.push(key.incarnation);
        self.note_records.push(codec::encode_note(note));
        self.note_firsts.push(identity::of(&note.first));
    }

    /// Writes them. `remembered`: what the instance has committed, and where.
    pub(super) async fn write(
        &self,
        session: &Session,
        own: InstanceId,
        epoch: u64,
        remembered: Remembered,
    ) -> Result<Written, Trouble> {
        let (own, epoch) = (own.0.to_be_bytes(), epoch.cast_signed());
        let Remembered { reached, whole_on } = remembered;
        let reached = [
            Some(reached.position),
            Some(reached.aside),
            whole_on.map(|it| it.system),
            whole_on.map(|it| it.timeline),
        ]
        .map(|it| it.map(u64::cast_signed));
        let reached = reached.as_slice();
        let own = own.as_slice();
        let parameters: [(&(dyn ToSql + Sync), Type); 47] = [
            (&own, Type::BYTEA),
            (&epoch, Type::INT8),
            (&self.admits, Type::BOOL_ARRAY),
            (&self.fence_tenants, Type::TEXT_ARRAY),
            (&self.fence_names, Type::BYTEA_ARRAY),
            (&self.fence_versions, Type::INT8_ARRAY),
            (&self.fence_marks, Type::TEXT_ARRAY),
            (&self.fence_cancelled, Type::BOOL_ARRAY),
            (&self.fence_leased, Type::BOOL_ARRAY),
            (&self.fence_records, Type::BYTEA_ARRAY),
            (&self.identities, Type::BYTEA_ARRAY),
            (&self.versions, Type::INT8_ARRAY),
            (&self.tenants, Type::TEXT_ARRAY),
            (&self.upstreams, Type::BYTEA_ARRAY),
            (&self.principals, Type::BYTEA_ARRAY),
            (&self.ids, Type::BYTEA_ARRAY),
            (&self.incarnations, Type::INT8_ARRAY),
            (&self.states, Type::TEXT_ARRAY),
            (&self.unsettled, Type::BOOL_ARRAY),
            (&self.resources, Type::BYTEA_ARRAY),
            (&self.numbers, Type::INT8_ARRAY),
            (&self.tokens, Type::TEXT_ARRAY),
            (&self.keyless, Type::BYTEA_ARRAY),
            (&self.owners, Type::BYTEA_ARRAY),
            (&self.first_seen, Type::INT8_ARRAY),
            (&self.records, Type::BYTEA_ARRAY),
            (&self.answers, Type::BYTEA_ARRAY),
            (&self.requests, Type::BYTEA_ARRAY),
            (&self.request_changes, Type::INT2_ARRAY),
            (&self.settled, Type::INT8_ARRAY),
            (&self.applied, Type::BOOL_ARRAY),
            (&self.note_expected, Type::BOOL_ARRAY),
            (&self.keyless_seen, Type::INT8_ARRAY),
            (&self.note_of, Type::INT4_ARRAY),
            (&self.note_identities, Type::BYTEA_ARRAY),
            (&self.note_tenants, Type::TEXT_ARRAY),
            (&self.note_upstreams, Type::BYTEA_ARRAY),
            (&self.note_principals, Type::BYTEA_ARRAY),
            (&self.note_ids, Type::BYTEA_ARRAY),
            (&self.note_incarnations, Type::INT8_ARRAY),
            (&self.note_records, Type::BYTEA_ARRAY),
            (&self.note_firsts, Type::BYTEA_ARRAY),
            (&self.event_of, Type::INT4_ARRAY),
            (&self.event_operations, Type::BYTEA_ARRAY),
            (&self.event_records, Type::BYTEA_ARRAY),
            (&reached, Type::INT8_ARRAY),
            (&self.begins, Type::INT8_ARRAY),
        ];
        let rows = session.rows(WRITE, &parameters).await?;
        Written::of(&rows, self.admits.len())
    }
}
