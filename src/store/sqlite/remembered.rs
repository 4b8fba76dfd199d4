//! What the sole owner of a register remembers of it: fences, who is unsettled, what is under way.
//!
//! What always holds: it says what the file says, as far as the transaction in hand has written it.
//! It is filled from the file alone, as commands ask, and goes along with what they write; whatever
//! fails, all of it is forgotten and read anew; so it is when the file was changed by anybody else,
//! which SQLite counts (`data_version`). It holds a bounded number of entries. In tests every
//! transaction ends by comparing it with the file.
//!
//! What it does not do: outlive the process, serve readers, or remember settled operations.

use std::sync::Arc;

use rusqlite::Connection;

use super::load::{Fault, Tables};
use super::persist::{self, Before, Tally, Unwritten, Writing};
use crate::protocol::command::{Admit, Changes};
use crate::protocol::fence::Fence;
use crate::protocol::ids::{AdmissionNumber, OperationKey, ResourceKey};
use crate::protocol::operation::Operation;
use crate::protocol::outcome::StoredRequest;
use crate::protocol::view::{AppliedAbove, TwinNote, Unsettled};
use crate::store::age::Lived;
use crate::store::load::{Above, Rows};
use crate::store::recent::Recent;
use crate::store::seal::Sealer;

/// Resources, up to twice as many; about half a kilobyte each. In tests so few that they go and come
/// back.
const RESOURCES: usize = if cfg!(test) { 1 } else { 2_048 };

/// Unsettled operations, up to twice as many; about a kilobyte each.
const OPERATIONS: usize = if cfg!(test) { 2 } else { 1_024 };

#[derive(Debug)]
pub(super) struct Remembered {
    resources: Recent<ResourceKey, Resource>,
    /// Unsettled ones, and where they stand.
    operations: Recent<OperationKey, (i64, Operation)>,
    /// May there be notes of twins? `None`: not looked yet.
    notes: Option<bool>,
    /// The version of the file that all this was read from.
    version: Option<i64>,
}

#[derive(Debug, Default)]
struct Resource {
    fence: Seen,
    /// `None`: not asked for yet.
    line: Option<Line>,
}

/// What is known of a fence.
#[derive(Debug, Default)]
enum Seen {
    #[default]
    NotAskedFor,
    Absent,
    There(Box<Fence>),
}

/// The unsettled operations of a resource, in the order of their admission.
#[derive(Debug, Default, PartialEq, Eq)]
struct Line {
    /// Ascending.
    numbers: Vec<AdmissionNumber>,
    /// One for each number.
    unsettled: Arc<Vec<Unsettled>>,
}

impl Default for Remembered {
    fn default() -> Self {
        Self {
            resources: Recent::new(RESOURCES),
            operations: Recent::new(OPERATIONS),
            notes: None,
            version: None,
        }
    }
}

impl Remembered {
    /// Forgets everything if anybody else has written to the file. Inside a transaction, before
    /// anything is read.
    pub(super) fn refresh(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let version: i64 = connection
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        if self.version != Some(version) {
            *self = Self {
                version: Some(version),
                ..Self::default()
            };
        }
        Ok(())
    }

    /// May there be notes of twins? They are rare: mostly nobody need look for one.
    pub(super) fn may_have_notes(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        if let Some(known) = self.notes {
            return Ok(known);
        }
        let found = connection
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM twins)")?
            .query_row([], |row| row.get(0))?;
        self.notes = Some(found);
        Ok(found)
    }

    /// Goes along with what was written. `before`: the operation as it was found; `sequence`: where it
    /// stands.
    pub(super) fn follow(
        &mut self,
        before: Option<&Operation>,
        changes: &Changes,
        sequence: Option<i64>,
    ) {
        if changes.twin.is_some() {
            self.notes = Some(true);
        }
        if let Some(fence) = &changes.fence
            && let Some(resource) = self.resources.using(&fence.resource)
        {
            resource.fence = Seen::There(Box::new(fence.clone()));
        }
        let Some(operation) = changes.operation.as_deref() else {
            return;
        };
        if let Some(before) = before {
            self.leave_line(before, operation);
        }
        self.join_line(operation);
        match sequence {
            Some(sequence) if operation.state.is_unsettled() => {
                let key = operation.key.clone();
                self.operations.insert(key, (sequence, operation.clone()));
            }
            Some(_) | None => self.operations.remove(&operation.key),
        }
    }

    fn line_of(&mut self, operation: &Operation) -> Option<&mut Option<Line>> {
        let resource = resource_of(operation)?;
        Some(&mut self.resources.using(&resource)?.line)
    }

    /// An operation that has another place now than before.
    fn leave_line(&mut self, before: &Operation, now: &Operation) {
        let place = |operation: &Operation| {
            let place = operation.place.as_ref()?;
            Some((place.resource.clone(), place.number))
        };
        if place(before) == place(now) {
            return;
        }
        if let (Some(place), Some(Some(line))) = (&before.place, self.line_of(before)) {
            line.remove(place.number);
        }
    }

    fn join_line(&mut self, operation: &Operation) {
        let (Some(place), Some(Some(line))) = (&operation.place, self.line_of(operation)) else {
            return;
        };
        match Unsettled::of(operation) {
            Some(unsettled) => line.put(place.number, unsettled),
            None => line.remove(place.number),
        }
    }
}

impl Line {
    /// `None`: two have the same number, so that numbers alone do not order them.
    fn of(operations: &[Operation]) -> Option<Self> {
        let mut line = Self::default();
        let unsettled = Arc::make_mut(&mut line.unsettled);
        for operation in operations {
            let number = operation.place.as_ref()?.number;
            if line.numbers.last().is_some_and(|last| *last >= number) {
                return None;
            }
            line.numbers.push(number);
            unsettled.push(Unsettled::of(operation)?);
        }
        Some(line)
    }

    fn put(&mut self, number: AdmissionNumber, one: Unsettled) {
        let unsettled = Arc::make_mut(&mut self.unsettled);
        match self.numbers.binary_search(&number) {
            Ok(at) => {
                if let Some(there) = unsettled.get_mut(at) {
                    *there = one;
                }
            }
            Err(at) => {
                self.numbers.insert(at, number);
                unsettled.insert(at, one);
            }
        }
    }

    fn remove(&mut self, number: AdmissionNumber) {
        if let Ok(at) = self.numbers.binary_search(&number) {
            self.numbers.remove(at);
            Arc::make_mut(&mut self.unsettled).remove(at);
        }
    }
}

fn resource_of(operation: &Operation) -> Option<ResourceKey> {
    let place = operation.place.as_ref()?;
    Some(ResourceKey {
        tenant: operation.key.tenant.clone(),
        name: place.resource.clone(),
    })
}

/// The rows of one command, from memory where they are remembered.
pub(super) struct OwnRows<'r> {
    tables: Tables<'r>,
    connection: &'r Connection,
    sealer: &'r Sealer,
    remembered: &'r mut Remembered,
    own: Own,
}

/// The command's own operation: the one asked for first. The writer updates it where it stands.
#[derive(Clone, Copy, Debug)]
enum Own {
    NotAskedFor,
    Absent,
    At(i64),
}

impl<'r> OwnRows<'r> {
    pub(super) fn new(
        connection: &'r Connection,
        sealer: &'r Sealer,
        remembered: &'r mut Remembered,
    ) -> Self {
        Self {
            tables: Tables::new(connection, sealer),
            connection,
            sealer,
            remembered,
            own: Own::NotAskedFor,
        }
    }

    /// Writes what was decided on these rows, and remembers it. `before`: the command's own operation,
    /// as found; `lived`: how old the register is.
    pub(super) fn write(
        self,
        before: Option<&Operation>,
        changes: &Changes,
        lived: Lived,
        tally: &mut Tally,
    ) -> Result<(), Unwritten> {
        let Self {
            tables: _,
            connection,
            sealer,
            remembered,
            own,
        } = self;
        let found = match (before, own) {
            (Some(operation), Own::At(sequence)) => Some(Before::of(operation, sequence)),
            (Some(_), Own::NotAskedFor | Own::Absent) | (None, _) => None,
        };
        let writing = Writing {
            connection,
            sealer,
            lived,
            may_have_notes: remembered.may_have_notes(connection)?,
        };
        let sequence = persist::persist(writing, found, changes, tally)?;
        remembered.follow(before, changes, sequence);
        Ok(())
    }

    fn resource(&mut self, key: &ResourceKey) -> &mut Resource {
        self.remembered.resources.using_or_new(key)
    }

    fn located(&mut self, key: &OperationKey) -> Result<Option<(i64, Operation)>, Fault> {
        if let Some(known) = self.remembered.operations.using(key) {
            return Ok(Some(known.clone()));
        }
        self.tables.locate(key)
    }
}

impl Rows for OwnRows<'_> {
    type Fault = Fault;

    fn fence(&mut self, key: &ResourceKey) -> Result<Option<Fence>, Fault> {
        match &self.resource(key).fence {
            Seen::There(fence) => return Ok(Some(Fence::clone(fence))),
            Seen::Absent => return Ok(None),
            Seen::NotAskedFor => {}
        }
        let found = self.tables.fence(key)?;
        self.resource(key).fence = found
            .clone()
            .map_or(Seen::Absent, |fence| Seen::There(Box::new(fence)));
        Ok(found)
    }

    fn operation(&mut self, key: &OperationKey) -> Result<Option<Operation>, Fault> {
        let found = self.located(key)?;
        if let Own::NotAskedFor = self.own {
            self.own = found
                .as_ref()
                .map_or(Own::Absent, |(sequence, _)| Own::At(*sequence));
        }
        Ok(found.map(|(_, operation)| operation))
    }

    fn note(&mut self, key: &OperationKey) -> Result<Option<TwinNote>, Fault> {
        if self.remembered.may_have_notes(self.connection)? {
            self.tables.note(key)
        } else {
            Ok(None)
        }
    }

    fn keyless(&mut self, admit: &Admit) -> Result<Option<Operation>, Fault> {
        self.tables.keyless(admit)
    }

    fn unsettled(&mut self, key: &ResourceKey) -> Result<Arc<Vec<Unsettled>>, Fault> {
        if let Some(line) = &self.resource(key).line {
            return Ok(Arc::clone(&line.unsettled));
        }
        let operations = self.tables.unsettled_operations(key)?;
        let Some(line) = Line::of(&operations) else {
            let unsettled = operations.iter().filter_map(Unsettled::of);
            return Ok(Arc::new(unsettled.collect()));
        };
        let unsettled = Arc::clone(&line.unsettled);
        self.resource(key).line = Some(line);
        Ok(unsettled)
    }

    fn request(&mut self, key: &OperationKey) -> Result<Option<StoredRequest>, Fault> {
        self.tables.request(key)
    }

    fn applied(&mut self, wanted: &Above) -> Result<AppliedAbove, Fault> {
        self.tables.applied(wanted)
    }
}

#[cfg(test)]
impl Remembered {
    /// Panics where memory and file differ.
    pub(super) fn compare(&self, mut tables: Tables<'_>, connection: &Connection) {
        for (key, resource) in self.resources.iter() {
            let fence = tables.fence(key).unwrap();
            match &resource.fence {
                Seen::NotAskedFor => {}
                Seen::Absent => assert_eq!(None, fence),
                Seen::There(known) => assert_eq!(Some(&**known), fence.as_ref()),
            }
            if let Some(line) = &resource.line {
                let unsettled = tables.unsettled_operations(key).unwrap();
                assert_eq!(Some(line), Line::of(&unsettled).as_ref());
            }
        }
        for (key, (sequence, operation)) in self.operations.iter() {
            let found = tables.locate(key).unwrap().unwrap();
            assert_eq!(&(*sequence, operation.clone()), &found);
        }
        if self.notes == Some(false) {
            let notes = "SELECT count(*) FROM twins";
            let notes: i64 = connection.query_row(notes, [], |row| row.get(0)).unwrap();
            assert_eq!(notes, 0);
        }
    }
}
