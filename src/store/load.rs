//! Which rows make the view of a command. The same for every backend, so that two backends cannot
//! differ in what a decision gets to see.
//!
//! What always holds: everything is read inside the transaction that the changes will be written in.
//! The command's own operation is the first one asked for.
//!
//! What it does not do: know how rows are kept.

use std::sync::Arc;

use crate::protocol::command::{Admit, Applied, Command};
use crate::protocol::fence::Fence;
use crate::protocol::ids::{FencingToken, Incarnation, OperationKey, ResourceKey};
use crate::protocol::operation::{Operation, State};
use crate::protocol::outcome::{StoredRequest, Verdict};
use crate::protocol::view::{AppliedAbove, Living, Record, TwinNote, Unsettled, View};

/// The rows of one register, inside one transaction.
pub(super) trait Rows {
    /// Why a row cannot be read.
    type Fault;

    fn fence(&mut self, resource: &ResourceKey) -> Result<Option<Fence>, Self::Fault>;
    fn operation(&mut self, key: &OperationKey) -> Result<Option<Operation>, Self::Fault>;
    fn note(&mut self, key: &OperationKey) -> Result<Option<TwinNote>, Self::Fault>;
    /// The newest operation that the request equals, neither with a key
    /// ([`Operation::is_equal_without_key`]).
    fn keyless(&mut self, admit: &Admit) -> Result<Option<Operation>, Self::Fault>;
    /// The unsettled operations of a resource, in the order of their admission.
    fn unsettled(&mut self, resource: &ResourceKey) -> Result<Arc<Vec<Unsettled>>, Self::Fault>;
    fn request(&mut self, key: &OperationKey) -> Result<Option<StoredRequest>, Self::Fault>;
    /// What was applied of a resource above a token, and in the given incarnation ([`applied_above`]).
    fn applied(&mut self, wanted: &Above) -> Result<AppliedAbove, Self::Fault>;
}

/// What is asked about applied operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Above {
    /// Of which resource.
    pub(super) resource: ResourceKey,
    /// In which incarnation of it.
    pub(super) incarnation: Incarnation,
    /// Above which token.
    pub(super) token: FencingToken,
}

/// Loads what `command` is decided on.
pub(super) fn view<R: Rows>(
    rows: &mut R,
    command: &Command,
    epoch: u64,
    living: Living,
) -> Result<View, R::Fault> {
    let mut view = View::of_nothing(epoch, living);
    match command {
        Command::Admit(admit) => admission(rows, admit, &mut view)?,
        Command::Record(record) => {
            view.record = operation(rows, &record.key)?;
        }
        Command::Resend(resend) => {
            view.record = operation(rows, &resend.key)?;
            view.fence = fence_of(rows, view.record.as_ref())?;
            view.request = rows.request(&resend.key)?;
        }
        Command::Park(park) => {
            view.record = operation(rows, &park.key)?;
            view.fence = fence_of(rows, view.record.as_ref())?;
        }
        Command::Start(start) => {
            view.record = operation(rows, &start.key)?;
        }
        Command::Find(finding) => {
            view.record = operation(rows, &finding.key)?;
        }
        Command::BeginVoid(begin) => {
            view.record = operation(rows, &begin.key)?;
            view.request = rows.request(&begin.key)?;
        }
        Command::Voided(voided) => {
            view.record = operation(rows, &voided.key)?;
        }
        Command::TakeUp(taking) => {
            view.record = operation(rows, &taking.key)?;
            view.fence = fence_of(rows, view.record.as_ref())?;
        }
        Command::Resolve(resolve) => {
            view.record = operation(rows, &resolve.key)?;
        }
        Command::Note(note) => {
            view.record = operation(rows, &note.key)?;
        }
        Command::Lease(leasing) => {
            view.fence = rows.fence(&leasing.resource)?;
        }
        Command::Steer(steer) => {
            view.fence = rows.fence(&steer.resource)?;
            view.unsettled = rows.unsettled(&steer.resource)?;
            let fence = view.fence.as_ref();
            let token = fence.and_then(|fence| steer.how.repairs_to(fence));
            if let (Some(fence), Some(token)) = (fence, token) {
                view.applied = rows.applied(&Above {
                    resource: steer.resource.clone(),
                    incarnation: fence.incarnation,
                    token,
                })?;
            }
        }
    }
    Ok(view)
}

/// What stands under an identity: an operation outranks a note. Also the answer to a peek.
pub(super) fn record<R: Rows>(
    rows: &mut R,
    key: &OperationKey,
) -> Result<Option<Record>, R::Fault> {
    match operation(rows, key)? {
        Some(found) => Ok(Some(found)),
        None => Ok(rows.note(key)?.map(Record::Twin)),
    }
}

/// The identity within the incarnation that its resource is in.
pub(super) fn placed(key: &OperationKey, fence: Option<&Fence>) -> OperationKey {
    key.within(fence.map_or(Incarnation::default(), |fence| fence.incarnation))
}

/// Was its effect accepted? Such an operation never leaves its state again.
pub(super) fn is_applied(operation: &Operation) -> bool {
    match &operation.state {
        State::Completed(completion) => completion.verdict == Verdict::Applied,
        State::Intended | State::Uncertain | State::NeedsAttention(_) | State::NotApplied(_) => {
            false
        }
    }
}

/// An operation of the resource as one that stands in the way of a repair; `None`: it does not.
pub(super) fn applied_above(operation: &Operation, wanted: &Above) -> Option<Applied> {
    let place = operation.place.as_ref()?;
    let is_of_it = operation.key.tenant == wanted.resource.tenant
        && place.resource == wanted.resource.name
        && place.incarnation == wanted.incarnation;
    let token = place.token.filter(|token| *token > wanted.token)?;
    (is_of_it && is_applied(operation)).then(|| Applied {
        key: operation.key.clone(),
        token,
    })
}

fn admission<R: Rows>(rows: &mut R, admit: &Admit, view: &mut View) -> Result<(), R::Fault> {
    let resource = admit.presented.as_ref().map(|shown| &shown.resource);
    if let Some(resource) = resource {
        view.fence = rows.fence(resource)?;
    }
    let key = match resource {
        Some(_) if admit.follows_incarnation => placed(&admit.key, view.fence.as_ref()),
        Some(_) | None => admit.key.clone(),
    };
    view.record = record(rows, &key)?;
    view.note = match &view.record {
        Some(Record::Operation(tried)) if matches!(tried.state, State::NotApplied(_)) => {
            rows.note(&key)?
        }
        Some(Record::Operation(_) | Record::Twin(_)) | None => None,
    };
    let noted = match &view.record {
        Some(Record::Twin(note)) => Some(note),
        Some(Record::Operation(_)) | None => view.note.as_ref(),
    };
    if let Some(note) = noted {
        view.first = rows.operation(&note.first)?;
    }
    if view.record.is_none() && admit.blind_retry.is_some() {
        view.keyless = rows.keyless(admit)?;
    }
    // A resource that has no fence has admitted nothing.
    if let (Some(resource), Some(_)) = (resource, &view.fence) {
        view.unsettled = rows.unsettled(resource)?;
    }
    Ok(())
}

fn operation<R: Rows>(rows: &mut R, key: &OperationKey) -> Result<Option<Record>, R::Fault> {
    let found = rows.operation(key)?;
    Ok(found.map(|operation| Record::Operation(Box::new(operation))))
}

fn fence_of<R: Rows>(rows: &mut R, record: Option<&Record>) -> Result<Option<Fence>, R::Fault> {
    let Some(Record::Operation(operation)) = record else {
        return Ok(None);
    };
    let Some(place) = &operation.place else {
        return Ok(None);
    };
    rows.fence(&ResourceKey {
        tenant: operation.key.tenant.clone(),
        name: place.resource.clone(),
    })
}
