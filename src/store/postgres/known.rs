//! Rows as they were read or written last, for decisions to be taken on.
//!
//! What always holds: every row carries the version that it was seen at; what is decided on it is
//! written only if that version is still the one in the register. Rows of one reading are of one
//! snapshot. What is *remembered* beyond a reading is only good for guesses: a grant that was decided
//! on it may be written, because its write is guarded; nothing else that was decided on it is believed.
//!
//! Why a guess needs no more than the fence's version: unsettled operations of a resource come into
//! being only by an admission, which counts the fence up. So whoever knows the fence as it is knows
//! every operation that may stand in the way; some of them may be settled by now, which makes him wait
//! where he need not, and waiting is no grant.
//!
//! What it does not do: read or write rows (`wants`, `batch`).

use std::sync::Arc;

use super::identity::{self, Shared};
use crate::protocol::command::{Admit, Changes, RequestChange};
use crate::protocol::fence::Fence;
use crate::protocol::ids::{AdmissionNumber, InstanceId, OperationKey, ResourceKey};
use crate::protocol::operation::{IdentityOrigin, Operation};
use crate::protocol::outcome::StoredRequest;
use crate::protocol::view::{AppliedAbove, TwinNote, Unsettled};
use crate::store::load::{Above, Rows};
use crate::store::recent::Recent;

/// Fences and operations that are remembered, up to twice as many of each; about a kilobyte a piece. In
/// tests so few that they go and come back.
const REMEMBERED: usize = if cfg!(test) { 4 } else { 8_192 };

/// Counted up by every write of a row; 0: there is none. An operation begins at [`first_version`], a fence,
/// which is never forgotten, at 1.
pub(super) type Version = i64;

/// A row of which nothing is known yet, which is not there, or which is.
type Seen<T> = Option<(Version, T)>;

/// The unsettled operations of a resource, in the order of their admission.
pub(super) type Line = Vec<(AdmissionNumber, Unsettled)>;

/// A fence, and who stands in line there at that version of it.
#[derive(Clone, Debug)]
struct Spot {
    fence: Seen<Fence>,
    /// `None`: not read with the fence.
    line: Option<Line>,
}

/// What is known.
#[derive(Debug)]
pub(super) struct Known {
    /// What is not known is taken for absent: for guesses.
    assumes: bool,
    pub(super) epoch: u64,
    spots: Recent<ResourceKey, Spot>,
    operations: Recent<OperationKey, Seen<Operation>>,
    notes: Recent<OperationKey, Option<TwinNote>>,
    requests: Recent<OperationKey, Option<StoredRequest>>,
    keyless: Recent<Shared, Option<(i64, Operation)>>,
    /// Only ever read for one decision.
    applied: Vec<(Above, AppliedAbove)>,
}

/// What has to be read first.
#[derive(Debug)]
pub(super) enum Lack {
    Fence(ResourceKey),
    Operation(OperationKey),
    Note(OperationKey),
    Line(ResourceKey),
    Request(OperationKey),
    Keyless(Shared),
    Applied(Above),
}

impl Known {
    /// A reading: what is not known has to be read.
    pub(super) fn reading(epoch: u64) -> Self {
        Self::new(epoch, false, usize::MAX)
    }

    /// A memory: what is not known is guessed to be absent.
    pub(super) fn memory(epoch: u64) -> Self {
        Self::new(epoch, true, REMEMBERED)
    }

    fn new(epoch: u64, assumes: bool, at_most: usize) -> Self {
        Self {
            assumes,
            epoch,
            spots: Recent::new(at_most),
            operations: Recent::new(at_most),
            notes: Recent::new(at_most),
            requests: Recent::new(at_most),
            keyless: Recent::new(at_most),
            applied: Vec::new(),
        }
    }

    pub(super) fn put_fence(&mut self, resource: ResourceKey, fence: Seen<Fence>) {
        self.spots.insert(resource, Spot { fence, line: None });
    }

    pub(super) fn put_operation(&mut self, key: OperationKey, seen: Seen<Operation>) {
        self.operations.insert(key, seen);
    }

    pub(super) fn put_note(&mut self, key: OperationKey, note: Option<TwinNote>) {
        self.notes.insert(key, note);
    }

    /// Of the same snapshot as the fence, which is known.
    pub(super) fn put_line(&mut self, resource: &ResourceKey, mut line: Line) {
        line.sort_by_key(|(number, _)| *number);
        if let Some(spot) = self.spots.using(resource) {
            spot.line = Some(line);
        }
    }

    pub(super) fn put_request(&mut self, key: OperationKey, request: Option<StoredRequest>) {
        self.requests.insert(key, request);
    }

    pub(super) fn put_keyless(&mut self, shared: Shared, newest: Option<(i64, Operation)>) {
        self.keyless.insert(shared, newest);
    }

    pub(super) fn put_applied(&mut self, wanted: Above, found: AppliedAbove) {
        self.applied.push((wanted, found));
    }

    /// The operation, without a copy.
    pub(super) fn operation_at(&mut self, key: &OperationKey) -> Option<&(Version, Operation)> {
        self.operations.using(key)?.as_ref()
    }

    /// The fence, without a copy.
    pub(super) fn fence_at(&mut self, resource: &ResourceKey) -> Option<&Fence> {
        let (_, fence) = self.spots.using(resource)?.fence.as_ref()?;
        Some(fence)
    }

    /// The version that a decision on this operation depends on.
    pub(super) fn operation_guard(&mut self, key: &OperationKey) -> Version {
        match self.operations.using(key) {
            Some(Some((version, _))) => *version,
            Some(None) | None => 0,
        }
    }

    /// The version that a decision on this fence depends on.
    pub(super) fn fence_guard(&mut self, resource: &ResourceKey) -> Version {
        let spot = self.spots.using(resource);
        spot.and_then(|spot| spot.fence.as_ref())
            .map_or(0, |(version, _)| *version)
    }

    /// Is there a note under this identity?
    pub(super) fn has_note(&mut self, key: &OperationKey) -> bool {
        matches!(self.notes.using(key), Some(Some(_)))
    }

    /// Where the newest operation stands that equals a request without a key; 0 for none.
    pub(super) fn newest_keyless(&mut self, shared: &Shared) -> i64 {
        match self.keyless.using(shared) {
            Some(Some((sequence, _))) => *sequence,
            Some(None) | None => 0,
        }
    }

    /// Remembers what was read of a resource, in place of what was known of it.
    pub(super) fn learn(&mut self, resource: &ResourceKey, reading: &mut Self) {
        match reading.spots.using(resource) {
            Some(spot) => self.spots.insert(resource.clone(), spot.clone()),
            None => self.spots.remove(resource),
        }
    }

    /// Goes along with a decision that is being written.
    pub(super) fn follow(&mut self, changes: &Changes) {
        let Changes {
            fence,
            operation,
            twin,
            request,
            events: _,
        } = changes;
        if let Some(fence) = fence {
            self.raise(fence);
        }
        if let Some(note) = twin {
            self.notes.insert(note.key.clone(), Some(note.clone()));
        }
        let Some(operation) = operation.as_deref() else {
            return;
        };
        self.requeue(operation);
        let key = &operation.key;
        match request {
            RequestChange::Untouched => {}
            RequestChange::Keep(request) if !self.assumes => {
                self.put_request(key.clone(), Some(StoredRequest::clone(request)));
            }
            RequestChange::Keep(_) | RequestChange::Drop => self.requests.remove(key),
        }
        self.notes.insert(key.clone(), None);
        if operation.origin == IdentityOrigin::Fresh {
            // Another one with the same contents is to see this one, whose place is not known yet.
            self.keyless
                .remove(&identity::shared_with_equals(operation));
        }
        let version = match self.operation_guard(key) {
            0 => first_version(operation),
            before => before.saturating_add(1),
        };
        if self.assumes && !operation.state.is_unsettled() {
            // Who asks for it again is answered from the register.
            self.operations.remove(key);
        } else {
            let seen = Some((version, operation.clone()));
            self.operations.insert(key.clone(), seen);
        }
    }

    /// The fence as it is being written. Where there was none, nobody stands in line.
    fn raise(&mut self, fence: &Fence) {
        let version = self.fence_guard(&fence.resource).saturating_add(1);
        let line = match self.spots.using(&fence.resource) {
            Some(spot) if spot.fence.is_some() => spot.line.take(),
            Some(_) | None => Some(Line::new()),
        };
        let raised = Spot {
            fence: Some((version, fence.clone())),
            line,
        };
        self.spots.insert(fence.resource.clone(), raised);
    }

    /// Puts an operation in line where it stands now.
    fn requeue(&mut self, operation: &Operation) {
        let before = self.operations.using(&operation.key);
        let before = before.and_then(|seen| seen.as_ref()).map(|(_, it)| it);
        let left = before.and_then(resource_of);
        let now = resource_of(operation);
        for resource in left.iter().chain(&now) {
            let spot = self.spots.using(resource);
            if let Some(line) = spot.and_then(|spot| spot.line.as_mut()) {
                line.retain(|(_, one)| one.key != operation.key);
            }
        }
        if let (Some(resource), Some(place), Some(unsettled)) =
            (now, &operation.place, Unsettled::of(operation))
            && let Some(spot) = self.spots.using(&resource)
            && let Some(line) = spot.line.as_mut()
        {
            line.push((place.number, unsettled));
            line.sort_by_key(|(number, _)| *number);
        }
    }

    /// It turned out to be wrong, or nobody knows.
    pub(super) fn forget(&mut self, key: &OperationKey, resource: Option<&ResourceKey>) {
        self.operations.remove(key);
        self.notes.remove(key);
        self.requests.remove(key);
        if let Some(resource) = resource {
            self.spots.remove(resource);
        }
    }
}

impl Rows for &mut Known {
    type Fault = Lack;

    fn fence(&mut self, resource: &ResourceKey) -> Result<Option<Fence>, Lack> {
        match self.spots.using(resource) {
            Some(spot) => Ok(spot.fence.as_ref().map(|(_, fence)| fence.clone())),
            None if self.assumes => Ok(None),
            None => Err(Lack::Fence(resource.clone())),
        }
    }

    fn operation(&mut self, key: &OperationKey) -> Result<Option<Operation>, Lack> {
        match self.operations.using(key) {
            Some(seen) => Ok(seen.as_ref().map(|(_, operation)| operation.clone())),
            None if self.assumes => Ok(None),
            None => Err(Lack::Operation(key.clone())),
        }
    }

    fn note(&mut self, key: &OperationKey) -> Result<Option<TwinNote>, Lack> {
        match self.notes.using(key) {
            Some(note) => Ok(note.clone()),
            None if self.assumes => Ok(None),
            None => Err(Lack::Note(key.clone())),
        }
    }

    fn keyless(&mut self, admit: &Admit) -> Result<Option<Operation>, Lack> {
        let shared = identity::shared_by_equals(admit);
        match self.keyless.using(&shared) {
            Some(newest) => Ok(newest.as_ref().map(|(_, operation)| operation.clone())),
            None if self.assumes => Ok(None),
            None => Err(Lack::Keyless(shared)),
        }
    }

    fn unsettled(&mut self, resource: &ResourceKey) -> Result<Arc<Vec<Unsettled>>, Lack> {
        // Only asked where there is a fence: an empty line is never guessed beside one.
        let spot = self.spots.using(resource);
        match spot.and_then(|spot| spot.line.as_ref()) {
            Some(line) => Ok(Arc::new(line.iter().map(|(_, one)| one.clone()).collect())),
            None => Err(Lack::Line(resource.clone())),
        }
    }

    fn request(&mut self, key: &OperationKey) -> Result<Option<StoredRequest>, Lack> {
        match self.requests.using(key) {
            Some(request) => Ok(request.clone()),
            None if self.assumes => Ok(None),
            None => Err(Lack::Request(key.clone())),
        }
    }

    fn applied(&mut self, wanted: &Above) -> Result<AppliedAbove, Lack> {
        let known = self.applied.iter().find(|(above, _)| above == wanted);
        match known {
            Some((_, found)) => Ok(found.clone()),
            None => Err(Lack::Applied(wanted.clone())),
        }
    }
}

/// Where a row begins to count. Its identity may have been there before, and been forgotten: whoever remembers
/// that one, frozen for longer than it was kept, must not find a version that he knows. So it follows from
/// the attempt that the row is made with, of which there is one, ever.
pub(super) fn first_version(operation: &Operation) -> Version {
    let Some(attempt) = operation.attempts.first() else {
        return 1;
    };
    let InstanceId(instance) = attempt.id.instance;
    let bytes = instance.to_be_bytes();
    let (high, low) = bytes.split_at(8);
    let [high, low] =
        [high, low].map(|half| half.iter().fold(0, |sum, it| (sum << 8) | u64::from(*it)));
    let number = attempt.id.number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // Positive, and far from the end.
    ((high ^ low ^ number) >> 2).cast_signed().max(1)
}

/// The resource that an operation has its place at.
pub(super) fn resource_of(operation: &Operation) -> Option<ResourceKey> {
    let place = operation.place.as_ref()?;
    Some(ResourceKey {
        tenant: operation.key.tenant.clone(),
        name: place.resource.clone(),
    })
}

/// Does an admission look for an equal one without a key, or become one?
pub(super) fn is_keyless(admit: &Admit) -> bool {
    admit.origin == IdentityOrigin::Fresh
}
