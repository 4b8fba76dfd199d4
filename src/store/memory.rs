//! A register in memory: for tests only, here and in the rooms above, and the yardstick that other
//! backends are compared with.
//!
//! What always holds: the same views, decisions and changes as any other backend, one command at a
//! time. What [`MemoryBackend::reopened`] gives is the same register seen by the next instance.
//!
//! What it does not do: survive the process. The product never opens one.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::epoch;
use super::load::{self, Above, Rows, is_applied};
use super::{
    Backend, LOOKED_AT, NewEpoch, OperationPage, OperationQuery, Pending, Pressing, StoreError,
    Stored, StoredResource, Summary,
};
use crate::protocol::command::{Admit, Changes, Command, Event, Reply, RequestChange};
use crate::protocol::decide::decide;
use crate::protocol::fence::Fence;
use crate::protocol::ids::{InstanceId, OperationKey, ResourceKey, ResourceName, Tenant};
use crate::protocol::operation::Operation;
use crate::protocol::outcome::StoredRequest;
use crate::protocol::view::{AppliedAbove, Living, Record, TwinNote, Unsettled};

/// A register that is gone when it is dropped.
#[derive(Clone, Debug)]
pub struct MemoryBackend {
    tables: Arc<Mutex<Tables>>,
    instance: InstanceId,
}

impl MemoryBackend {
    /// An empty register, owned by `instance`.
    pub fn new(instance: InstanceId) -> Self {
        Self {
            tables: Arc::default(),
            instance,
        }
    }

    /// The same register after a restart: every earlier instance is dead.
    pub fn reopened(&self, instance: InstanceId) -> Self {
        Self {
            tables: Arc::clone(&self.tables),
            instance,
        }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // Whoever panicked left no half-written change: changes are applied by plain inserts.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct Tables {
    epoch: u64,
    last: u64,
    operations: BTreeMap<u64, Operation>,
    places: HashMap<OperationKey, u64>,
    notes: HashMap<OperationKey, TwinNote>,
    fences: BTreeMap<(ResourceName, Tenant), Fence>,
    requests: HashMap<OperationKey, StoredRequest>,
    events: Vec<Event>,
}

impl Tables {
    fn operation_of(&self, key: &OperationKey) -> Option<&Operation> {
        self.operations.get(self.places.get(key)?)
    }

    fn of_resource<'a>(
        &'a self,
        key: &'a ResourceKey,
    ) -> impl Iterator<Item = (u64, &'a Operation)> {
        self.operations.values().filter_map(move |operation| {
            let place = operation.place.as_ref()?;
            (operation.key.tenant == key.tenant && place.resource == key.name)
                .then_some((place.number.0, operation))
        })
    }

    fn unsettled_of<'a>(&'a self, key: &'a ResourceKey) -> Vec<&'a Operation> {
        let mut unsettled: Vec<_> = self
            .of_resource(key)
            .filter(|(_, operation)| operation.state.is_unsettled())
            .collect();
        unsettled.sort_by_key(|(number, _)| *number);
        unsettled
            .into_iter()
            .map(|(_, operation)| operation)
            .collect()
    }

    fn persist(&mut self, changes: Changes) {
        let Changes {
            fence,
            operation,
            twin,
            request,
            events,
        } = changes;
        if let Some(fence) = fence {
            let ResourceKey { tenant, name } = fence.resource.clone();
            self.fences.insert((name, tenant), fence);
        }
        if let Some(note) = twin {
            self.notes.insert(note.key.clone(), note);
        }
        self.events.extend(events);
        let Some(operation) = operation else { return };
        let key = operation.key.clone();
        match request {
            RequestChange::Untouched => {}
            RequestChange::Keep(request) => {
                self.requests.insert(key.clone(), (*request).clone());
            }
            RequestChange::Drop => {
                self.requests.remove(&key);
            }
        }
        self.notes.remove(&key);
        let sequence = *self.places.entry(key).or_insert_with(|| {
            self.last += 1;
            self.last
        });
        self.operations.insert(sequence, *operation);
    }
}

impl Rows for &Tables {
    type Fault = Infallible;

    fn fence(&mut self, resource: &ResourceKey) -> Result<Option<Fence>, Infallible> {
        let key = (resource.name.clone(), resource.tenant.clone());
        Ok(self.fences.get(&key).cloned())
    }

    fn operation(&mut self, key: &OperationKey) -> Result<Option<Operation>, Infallible> {
        Ok(self.operation_of(key).cloned())
    }

    fn note(&mut self, key: &OperationKey) -> Result<Option<TwinNote>, Infallible> {
        Ok(self.notes.get(key).cloned())
    }

    fn keyless(&mut self, admit: &Admit) -> Result<Option<Operation>, Infallible> {
        let mut newest_first = self.operations.values().rev();
        let found = newest_first.find(|operation| operation.is_equal_without_key(admit));
        Ok(found.cloned())
    }

    fn unsettled(&mut self, resource: &ResourceKey) -> Result<Arc<Vec<Unsettled>>, Infallible> {
        let operations = self.unsettled_of(resource);
        Ok(Arc::new(
            operations.into_iter().filter_map(Unsettled::of).collect(),
        ))
    }

    fn request(&mut self, key: &OperationKey) -> Result<Option<StoredRequest>, Infallible> {
        Ok(self.requests.get(key).cloned())
    }

    fn applied(&mut self, wanted: &Above) -> Result<AppliedAbove, Infallible> {
        let all = self.operations.values();
        let applied = all.filter_map(|operation| load::applied_above(operation, wanted));
        Ok(AppliedAbove::of(applied.collect()))
    }
}

impl Backend for MemoryBackend {
    fn apply(&self, command: Command) -> Pending<'_, Reply> {
        Box::pin(async move {
            let mut tables = self.tables();
            let Ok(view) = load::view(
                &mut &*tables,
                &command,
                tables.epoch,
                Living::Only(self.instance),
            );
            let decision = decide(&view, &command);
            tables.persist(decision.changes);
            Ok(decision.reply)
        })
    }

    fn peek<'a>(
        &'a self,
        key: &'a OperationKey,
        resource: Option<&'a ResourceKey>,
    ) -> Pending<'a, Option<Record>> {
        Box::pin(async move {
            let tables = self.tables();
            let mut rows = &*tables;
            let key = match resource {
                Some(resource) => {
                    let Ok(fence) = rows.fence(resource);
                    load::placed(key, fence.as_ref())
                }
                None => key.clone(),
            };
            let Ok(found) = load::record(&mut rows, &key);
            Ok(found)
        })
    }

    fn operation<'a>(
        &'a self,
        key: &'a OperationKey,
        with_request: bool,
    ) -> Pending<'a, Option<Stored>> {
        Box::pin(async move {
            let tables = self.tables();
            let of_it = |event: &&Event| event.key == *key;
            Ok(tables.operation_of(key).map(|operation| Stored {
                operation: operation.clone(),
                events: tables.events.iter().filter(of_it).cloned().collect(),
                request: with_request
                    .then(|| tables.requests.get(key).cloned())
                    .flatten(),
            }))
        })
    }

    fn operations<'a>(&'a self, query: &'a OperationQuery) -> Pending<'a, OperationPage> {
        Box::pin(async move {
            let tables = self.tables();
            let mut matching = tables
                .operations
                .range(..query.before.unwrap_or(u64::MAX))
                .rev()
                .filter(|(_, operation)| matches(query, operation));
            let page: Vec<_> = matching.by_ref().take(query.limit).collect();
            let more = matching.next().is_some();
            Ok(OperationPage {
                next: page.last().filter(|_| more).map(|(sequence, _)| **sequence),
                operations: page
                    .into_iter()
                    .map(|(_, operation)| operation.clone())
                    .collect(),
            })
        })
    }

    fn resource<'a>(&'a self, key: &'a ResourceKey) -> Pending<'a, Option<StoredResource>> {
        Box::pin(async move {
            let tables = self.tables();
            let Ok(fence) = (&mut &*tables).fence(key);
            Ok(fence.map(|fence| StoredResource {
                fence,
                unsettled: tables.unsettled_of(key).into_iter().cloned().collect(),
                last_completed: tables
                    .of_resource(key)
                    .filter(|(_, operation)| is_applied(operation))
                    .max_by_key(|(number, _)| *number)
                    .map(|(_, operation)| operation.clone()),
            }))
        })
    }

    fn resources<'a>(&'a self, after: Option<&'a str>, limit: usize) -> Pending<'a, Vec<Fence>> {
        Box::pin(async move {
            let tables = self.tables();
            let later =
                |fence: &&Fence| after.is_none_or(|after| fence.resource.name.as_str() > after);
            Ok(tables
                .fences
                .values()
                .filter(later)
                .take(limit)
                .cloned()
                .collect())
        })
    }

    fn in_doubt(&self, after: u64, limit: usize) -> Pending<'_, Vec<(u64, Operation)>> {
        Box::pin(async move {
            let tables = self.tables();
            Ok(tables
                .operations
                .range(after.saturating_add(1)..)
                .filter(|(_, operation)| operation.state.is_in_doubt())
                .take(limit)
                .map(|(sequence, operation)| (*sequence, operation.clone()))
                .collect())
        })
    }

    fn unsettled(&self, after: u64, limit: usize) -> Pending<'_, Vec<(u64, Operation)>> {
        Box::pin(async move {
            let tables = self.tables();
            let behind = tables.operations.range(after.saturating_add(1)..);
            Ok(behind
                .filter(|(_, operation)| operation.state.is_unsettled())
                .take(limit)
                .map(|(sequence, operation)| (*sequence, operation.clone()))
                .collect())
        })
    }

    fn summary(&self) -> Pending<'_, Summary> {
        Box::pin(async move {
            let tables = self.tables();
            let count = |word: &str| {
                let of_it = tables.operations.values();
                of_it
                    .filter(|operation| operation.state.word() == word)
                    .count()
            };
            let oldest = tables
                .operations
                .values()
                .find(|operation| operation.state.is_unsettled());
            Ok(Summary {
                by_state: super::STATE_WORDS
                    .iter()
                    .map(|word| (*word, u64::try_from(count(word)).unwrap_or(u64::MAX)))
                    .filter(|(_, count)| *count > 0)
                    .collect(),
                oldest_unsettled: oldest.map(|operation| operation.first_seen),
                epoch: tables.epoch,
            })
        })
    }

    fn pressing(&self) -> Pending<'_, Pressing> {
        Box::pin(async move {
            let by_state = super::unsettled_of(&self.summary().await?.by_state);
            let tables = self.tables();
            let all = tables.operations.values();
            let unsettled = all.filter(|operation| operation.state.is_unsettled());
            Ok(Pressing {
                by_state,
                oldest: unsettled.take(LOOKED_AT).cloned().collect(),
            })
        })
    }

    fn begin_epoch<'a>(&'a self, _new: &'a NewEpoch) -> Pending<'a, u64> {
        Box::pin(async {
            let mut tables = self.tables();
            tables.epoch = epoch::after(tables.epoch)?;
            Ok(tables.epoch)
        })
    }

    fn ready(&self) -> Pending<'_, ()> {
        Box::pin(async { Ok::<(), StoreError>(()) })
    }

    fn instance(&self) -> InstanceId {
        self.instance
    }

    fn living(&self) -> Living {
        Living::Only(self.instance)
    }

    fn close(&self) -> Pending<'_, ()> {
        Box::pin(async { Ok::<(), StoreError>(()) })
    }
}

fn matches(query: &OperationQuery, operation: &Operation) -> bool {
    let OperationQuery {
        state,
        resource,
        upstream,
        id,
        before: _,
        limit: _,
    } = query;
    let of_resource = |wanted: &ResourceKey| {
        operation.key.tenant == wanted.tenant
            && operation
                .place
                .as_ref()
                .is_some_and(|place| place.resource == wanted.name)
    };
    state.is_none_or(|word| operation.state.word() == word)
        && resource.as_ref().is_none_or(of_resource)
        && upstream
            .as_ref()
            .is_none_or(|upstream| operation.key.upstream == *upstream)
        && id.as_ref().is_none_or(|id| operation.key.id.as_str() == id)
}
