//! Reading beside the writer: a few read-only connections, used off the async workers.
//!
//! What always holds: a read sees one snapshot, of committed transactions only, and goes on when the
//! writer is poisoned. It is a hint or a report, never the ground of a decision. A read that meets a
//! damaged page poisons the register: what else is lost, nobody knows.
//!
//! What it does not do: find operations of a resource by an index; an index over all operations
//! would cost each of them a page, so that listing walks back from the newest one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use tokio::sync::Semaphore;

use super::damage;
use super::load::{Fault, OPERATION, Tables, blob};
use super::locator;
use super::poison::Poison;
use super::schema;
use super::witness;
use crate::protocol::fence::Fence;
use crate::protocol::ids::{OperationKey, ResourceKey};
use crate::protocol::operation::Operation;
use crate::protocol::view::Record;
use crate::store::about::{About, Deed, TOLD};
use crate::store::load::{self, Rows};
use crate::store::seal::Sealer;
use crate::store::{
    LOOKED_AT, OperationPage, OperationQuery, Pressing, STATE_WORDS, StoreError, Stored,
    StoredResource, Summary, codec, unsettled_of,
};

/// Readers at once.
const READERS: usize = 2;

#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    sealer: Arc<Sealer>,
    idle: Mutex<Vec<Connection>>,
    seats: Semaphore,
    poison: Poison,
}

impl Readers {
    pub(super) fn open(path: &Path, sealer: Arc<Sealer>, poison: Poison) -> rusqlite::Result<Self> {
        let first = schema::open_reader(path)?;
        Ok(Self {
            path: path.to_owned(),
            sealer,
            idle: Mutex::new(vec![first]),
            seats: Semaphore::new(READERS),
            poison,
        })
    }

    /// Runs `read` on a snapshot.
    pub(super) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection, &mut Tables<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let gone = |why: &dyn std::fmt::Display| StoreError::Unavailable(format!("reading: {why}"));
        let _seat = self.seats.acquire().await.map_err(|error| gone(&error))?;
        let readers = Arc::clone(self);
        tokio::task::spawn_blocking(move || Ok(readers.read(read)?))
            .await
            .map_err(|error| gone(&error))?
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&Connection, &mut Tables<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let found = self.read_snapshot(read);
        if let Err(Fault::Database(error)) = &found
            && damage::is_damage(error)
        {
            self.poison.spoil(&damage::words(error));
        }
        found
    }

    /// A connection that failed is not used again.
    fn read_snapshot<T>(
        &self,
        read: impl FnOnce(&Connection, &mut Tables<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let connection = match self.idle().pop() {
            Some(connection) => connection,
            None => schema::open_reader(&self.path)?,
        };
        let snapshot = connection.unchecked_transaction()?;
        let found = read(&connection, &mut Tables::new(&connection, &self.sealer));
        snapshot.finish()?;
        if !matches!(found, Err(Fault::Database(_))) {
            self.idle().push(connection);
        }
        found
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn peek(
    tables: &mut Tables<'_>,
    key: &OperationKey,
    resource: Option<&ResourceKey>,
) -> Result<Option<Record>, Fault> {
    let key = match resource {
        Some(resource) => load::placed(key, tables.fence(resource)?.as_ref()),
        None => key.clone(),
    };
    load::record(tables, &key)
}

pub(super) fn operation(
    connection: &Connection,
    tables: &mut Tables<'_>,
    key: &OperationKey,
    with_request: bool,
) -> Result<Option<Stored>, Fault> {
    let Some((sequence, operation)) = tables.locate(key)? else {
        return Ok(None);
    };
    let mut statement = connection
        .prepare_cached("SELECT record FROM events WHERE operation = ?1 ORDER BY sequence")?;
    let mut rows = statement.query([sequence])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let event = codec::decode_event(blob(row, 0)?, key.clone()).map_err(|malformed| {
            Fault::Record(malformed.of(&format_args!("event of operation {:?}", key.id)))
        })?;
        events.push(event);
    }
    let request = if with_request {
        tables.request(key)?
    } else {
        None
    };
    Ok(Some(Stored {
        operation,
        events,
        request,
    }))
}

pub(super) fn operations(
    connection: &Connection,
    tables: &Tables<'_>,
    query: &OperationQuery,
) -> Result<OperationPage, Fault> {
    let OperationQuery {
        state,
        resource,
        upstream,
        id,
        before,
        limit,
    } = query;
    let text = |text: &str| Value::Text(text.to_owned());
    let resource_name = resource.as_ref().map(|key| text(key.name.as_str()));
    let resource_tenant = resource.as_ref().map(|key| text(key.tenant.as_str()));
    let candidates = id.as_deref().map(locator::range_of);
    let conditions = [
        ("state = ?", state.map(text)),
        ("resource = ?", resource_name),
        ("tenant = ?", resource_tenant),
        (
            "upstream = ?",
            upstream.as_ref().map(|it| text(it.as_str())),
        ),
        // An id is found among those whose locators begin as its own does.
        (
            "sequence IN (SELECT sequence FROM locators WHERE locator >= ?",
            candidates.map(|(low, _)| Value::Integer(low)),
        ),
        (
            "locator <= ?)",
            candidates.map(|(_, high)| Value::Integer(high)),
        ),
        ("id = ?", id.as_deref().map(text)),
        ("sequence < ?", before.map(|it| Value::Integer(clamp(it)))),
    ];
    let mut sql = format!("SELECT {OPERATION} FROM operations WHERE true");
    let mut values = Vec::new();
    for (condition, value) in conditions {
        if let Some(value) = value {
            sql.push_str(" AND ");
            sql.push_str(condition);
            values.push(value);
        }
    }
    sql.push_str(" ORDER BY sequence DESC LIMIT ?");
    // One more than asked for tells whether there is a next page.
    values.push(Value::Integer(clamp_len(limit.saturating_add(1))));
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut page = OperationPage::default();
    let mut last = None;
    while let Some(row) = rows.next()? {
        if page.operations.len() == *limit {
            page.next = last;
            break;
        }
        let (sequence, operation) = tables.operation_from(row)?;
        last = Some(sequence.cast_unsigned());
        page.operations.push(operation);
    }
    Ok(page)
}

pub(super) fn resource(
    connection: &Connection,
    tables: &mut Tables<'_>,
    key: &ResourceKey,
) -> Result<Option<StoredResource>, Fault> {
    let Some(fence) = tables.fence(key)? else {
        return Ok(None);
    };
    let applied: Option<i64> = connection
        .prepare_cached("SELECT applied FROM fences WHERE name = ?1 AND tenant = ?2")?
        .query_row([key.name.as_str(), key.tenant.as_str()], |row| row.get(0))?;
    let last_completed = match applied {
        Some(sequence) => tables.operation_at(sequence)?,
        None => None,
    };
    Ok(Some(StoredResource {
        fence,
        unsettled: tables.unsettled_operations(key)?,
        last_completed,
    }))
}

pub(super) fn resources(
    connection: &Connection,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<Fence>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT name, tenant, record FROM fences
         WHERE ?1 IS NULL OR name > ?1 ORDER BY name, tenant LIMIT ?2",
    )?;
    let mut rows = statement.query(rusqlite::params![after, clamp_len(limit)])?;
    let mut fences = Vec::new();
    while let Some(row) = rows.next()? {
        fences.push(Tables::fence_from(row)?);
    }
    Ok(fences)
}

pub(super) const LEASED: &str = "SELECT name, tenant, record FROM fences
     WHERE leased = 1 ORDER BY name, tenant LIMIT ?1";

pub(super) const LEASED_AFTER: &str = "SELECT name, tenant, record FROM fences
     WHERE leased = 1 AND name > ?2 ORDER BY name, tenant LIMIT ?1";

pub(super) fn leased(
    connection: &Connection,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<Fence>, Fault> {
    let columns: i64 = connection.query_row(schema::HAS_LEASES, [], |row| row.get(0))?;
    if columns == 0 {
        return Ok(Vec::new());
    }
    let limit = clamp_len(limit);
    let sql = if after.is_some() {
        LEASED_AFTER
    } else {
        LEASED
    };
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = match after {
        Some(after) => statement.query(rusqlite::params![limit, after])?,
        None => statement.query([limit])?,
    };
    let mut fences = Vec::new();
    while let Some(row) = rows.next()? {
        fences.push(Tables::fence_from(row)?);
    }
    Ok(fences)
}

pub(super) fn in_doubt(
    connection: &Connection,
    tables: &Tables<'_>,
    after: u64,
    limit: usize,
) -> Result<Vec<(u64, Operation)>, Fault> {
    unsettled(connection, tables, after, limit, "NEEDS_ATTENTION")
}

/// Unsettled operations by order of record, but for those in one state; `""`: all.
pub(super) fn unsettled(
    connection: &Connection,
    tables: &Tables<'_>,
    after: u64,
    limit: usize,
    except: &str,
) -> Result<Vec<(u64, Operation)>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT sequence, id, upstream, principal, incarnation, tenant, record, answer
         FROM operations WHERE unsettled = 1 AND sequence > ?1 AND state <> ?3
         ORDER BY sequence LIMIT ?2",
    )?;
    let mut rows = statement.query(rusqlite::params![clamp(after), clamp_len(limit), except])?;
    let mut operations = Vec::new();
    while let Some(row) = rows.next()? {
        let (sequence, operation) = tables.operation_from(row)?;
        operations.push((sequence.cast_unsigned(), operation));
    }
    Ok(operations)
}

pub(super) fn about(connection: &Connection) -> Result<About, Fault> {
    let mut statement = connection
        .prepare_cached("SELECT wall_ms, text FROM history ORDER BY sequence DESC LIMIT ?1")?;
    let deed = |row: &rusqlite::Row<'_>| {
        Ok(Deed {
            wall_ms: row.get::<_, i64>(0)?.cast_unsigned(),
            text: row.get(1)?,
        })
    };
    let history = statement.query_map([TOLD], deed)?;
    Ok(About {
        kind: "embedded",
        format: Some(schema::FORMAT),
        facts: vec![
            ("file", connection.path().unwrap_or_default().to_owned()),
            ("stands at", stands_at(connection)?),
        ],
        differences: Vec::new(),
        // Whoever waits says so himself (`ready`).
        quiet_ms: None,
        history: history.collect::<Result<_, _>>()?,
    })
}

fn stands_at(connection: &Connection) -> rusqlite::Result<String> {
    connection
        .prepare_cached("SELECT position, epoch FROM register")?
        .query_row([], |row| {
            let number = |index| row.get::<_, i64>(index).map(i64::cast_unsigned);
            Ok(witness::told(number(0)?, number(1)?))
        })
}

pub(super) fn pressing(connection: &Connection, tables: &Tables<'_>) -> Result<Pressing, Fault> {
    let oldest = unsettled(connection, tables, 0, LOOKED_AT, "")?;
    Ok(Pressing {
        by_state: unsettled_of(&counts(connection)?),
        oldest: oldest.into_iter().map(|(_, operation)| operation).collect(),
    })
}

pub(super) fn summary(connection: &Connection, tables: &Tables<'_>) -> Result<Summary, Fault> {
    Ok(Summary {
        epoch: connection
            .prepare_cached("SELECT epoch FROM register")?
            .query_row([], |row| row.get::<_, i64>(0))?
            .cast_unsigned(),
        oldest_unsettled: unsettled(connection, tables, 0, 1, "")?
            .first()
            .map(|(_, operation)| operation.first_seen),
        by_state: counts(connection)?,
    })
}

/// Kept by the writer: nothing is counted here.
fn counts(connection: &Connection) -> Result<Vec<(&'static str, u64)>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT operations FROM counts WHERE state = ?1")?;
    let mut counts = Vec::new();
    for word in STATE_WORDS {
        let count: i64 = statement.query_row([word], |row| row.get(0))?;
        if count > 0 {
            counts.push((word, count.cast_unsigned()));
        }
    }
    Ok(counts)
}

/// Cursors and limits beyond the range of SQLite's integers are beyond every sequence.
fn clamp(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn clamp_len(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
