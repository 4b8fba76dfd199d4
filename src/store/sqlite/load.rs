//! Reading rows: by the writer inside its transaction, by readers inside their snapshot.
//!
//! What always holds: a row that cannot be read is a fault of its own (`Fault::Record`), apart from
//! faults of the database: the first concerns one command, the second all.
//!
//! What it does not do: write.

use std::sync::Arc;

use rusqlite::types::{ToSql, ToSqlOutput, Value, ValueRef};
use rusqlite::{CachedStatement, Connection, Row, params};

use super::damage;
use super::locator;

use crate::protocol::command::Admit;
use crate::protocol::fence::Fence;
use crate::protocol::ids::{
    FencingToken, Incarnation, OperationId, OperationKey, Principal, ResourceKey, ResourceName,
    Tenant, UpstreamId,
};
use crate::protocol::operation::Operation;
use crate::protocol::outcome::{Answer, StoredRequest};
use crate::protocol::view::{AppliedAbove, TwinNote, Unsettled};
use crate::store::seal::{Content, Sealer};
use crate::store::{StoreError, codec, load};

/// Why a row was not had.
#[derive(Debug)]
pub(super) enum Fault {
    /// This record cannot be read; others can.
    Record(StoreError),
    /// The database failed.
    Database(rusqlite::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Record(error) => error,
            Fault::Database(error) if damage::is_damage(&error) => {
                Self::Corrupt(damage::words(&error))
            }
            Fault::Database(error) => Self::Unavailable(error.to_string()),
        }
    }
}

/// The columns that an operation is read from, in the order of [`operation_from`].
pub(super) const OPERATION: &str =
    "sequence, id, upstream, principal, incarnation, tenant, record, answer";

/// Rows through one connection.
pub(super) struct Tables<'c> {
    connection: &'c Connection,
    sealer: &'c Sealer,
}

impl<'c> Tables<'c> {
    pub(super) fn new(connection: &'c Connection, sealer: &'c Sealer) -> Self {
        Self { connection, sealer }
    }

    /// An operation with its sequence.
    pub(super) fn locate(&self, key: &OperationKey) -> Result<Option<(i64, Operation)>, Fault> {
        find(self.connection, key, |sequence, row| {
            let operation = self.decode(key.clone(), blob(row, 0)?, optional_blob(row, 1)?)?;
            Ok((sequence, operation))
        })
    }

    fn decode(
        &self,
        key: OperationKey,
        record: &[u8],
        answer: Option<&[u8]>,
    ) -> Result<Operation, Fault> {
        let answer = answer
            .map(|sealed| self.open_answer(&key, sealed))
            .transpose()?;
        let id = key.id.clone();
        codec::decode_operation(record, key, answer)
            .map_err(|malformed| Fault::Record(malformed.of(&format_args!("operation {id:?}"))))
    }

    fn open_answer(&self, key: &OperationKey, sealed: &[u8]) -> Result<Answer, Fault> {
        let plain = self.open(Content::Answer, key, sealed)?;
        codec::decode_answer(plain).map_err(|malformed| {
            Fault::Record(malformed.of(&format_args!("answer of operation {:?}", key.id)))
        })
    }

    fn open(&self, content: Content, key: &OperationKey, sealed: &[u8]) -> Result<Vec<u8>, Fault> {
        self.sealer.open(content, key, sealed).map_err(|error| {
            let text = format!("{content:?} of operation {:?}: {error}", key.id);
            Fault::Record(StoreError::Corrupt(text))
        })
    }
}

impl load::Rows for Tables<'_> {
    type Fault = Fault;

    fn fence(&mut self, resource: &ResourceKey) -> Result<Option<Fence>, Fault> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT record FROM fences WHERE name = ?1 AND tenant = ?2")?;
        let mut rows =
            statement.query(params![resource.name.as_str(), resource.tenant.as_str()])?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        decode_fence(blob(row, 0)?, resource.clone()).map(Some)
    }

    fn operation(&mut self, key: &OperationKey) -> Result<Option<Operation>, Fault> {
        Ok(self.locate(key)?.map(|(_, operation)| operation))
    }

    fn note(&mut self, key: &OperationKey) -> Result<Option<TwinNote>, Fault> {
        let mut statement = self.connection.prepare_cached(
            "SELECT record FROM twins
             WHERE id = ?1 AND upstream = ?2 AND principal = ?3 AND incarnation = ?4
               AND tenant = ?5",
        )?;
        let mut rows = query_by_key(&mut statement, key)?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        codec::decode_note(blob(row, 0)?, key.clone())
            .map(Some)
            .map_err(|malformed| {
                Fault::Record(malformed.of(&format_args!("twin's note {:?}", key.id)))
            })
    }

    /// Records hold their fingerprint as it is: those that do not contain it need not be read. What
    /// is unsettled is little, and has an index.
    fn keyless(&mut self, admit: &Admit) -> Result<Option<Operation>, Fault> {
        let mut statement = self.connection.prepare_cached(
            "SELECT sequence, id, upstream, principal, incarnation, tenant, record, answer
             FROM operations
             WHERE unsettled = 1 AND upstream = ?1 AND principal = ?2 AND tenant = ?3
               AND instr(record, ?4) > 0
             ORDER BY sequence DESC",
        )?;
        let mut rows = statement.query(params![
            admit.key.upstream.as_str(),
            PrincipalColumn(admit.key.principal),
            admit.key.tenant.as_str(),
            &admit.meaning.fingerprint.digest[..],
        ])?;
        while let Some(row) = rows.next()? {
            let (_, operation) = self.operation_from(row)?;
            if operation.is_equal_without_key(admit) {
                return Ok(Some(operation));
            }
        }
        Ok(None)
    }

    fn unsettled(&mut self, resource: &ResourceKey) -> Result<Arc<Vec<Unsettled>>, Fault> {
        let operations = self.unsettled_operations(resource)?;
        Ok(Arc::new(
            operations.iter().filter_map(Unsettled::of).collect(),
        ))
    }

    fn request(&mut self, key: &OperationKey) -> Result<Option<StoredRequest>, Fault> {
        let Some(sequence) = sequence_of(self.connection, key)? else {
            return Ok(None);
        };
        let mut statement = self
            .connection
            .prepare_cached("SELECT sealed FROM requests WHERE operation = ?1")?;
        let mut rows = statement.query([sequence])?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let plain = self.open(Content::Request, key, blob(row, 0)?)?;
        codec::decode_request(plain).map(Some).map_err(|malformed| {
            Fault::Record(malformed.of(&format_args!("request of operation {:?}", key.id)))
        })
    }

    /// Goes through all operations: no index is kept for what a person asks once in a while. Of a resource that a
    /// wild token raised few have tokens above the genuine one.
    fn applied(&mut self, wanted: &load::Above) -> Result<AppliedAbove, Fault> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id, upstream, principal, incarnation, tenant, token, record
             FROM operations
             WHERE resource = ?1 AND tenant = ?2 AND state = 'COMPLETED' AND token IS NOT NULL
             ORDER BY sequence DESC",
        )?;
        let (name, tenant) = (&wanted.resource.name, &wanted.resource.tenant);
        let mut rows = statement.query(params![name.as_str(), tenant.as_str()])?;
        let mut applied = Vec::new();
        while let Some(row) = rows.next()? {
            let token = FencingToken::parse(text(row, 5)?);
            if token.is_none_or(|token| token <= wanted.token) {
                continue;
            }
            let operation = self.decode(key_from(row, 0)?, blob(row, 6)?, None)?;
            applied.extend(load::applied_above(&operation, wanted));
            if applied.len() > AppliedAbove::READ {
                break;
            }
        }
        Ok(AppliedAbove::of(applied))
    }
}

impl Tables<'_> {
    /// The unsettled operations of a resource, in the order of their admission.
    pub(super) fn unsettled_operations(
        &self,
        resource: &ResourceKey,
    ) -> Result<Vec<Operation>, Fault> {
        let mut statement = self.connection.prepare_cached(
            "SELECT sequence, id, upstream, principal, incarnation, tenant, record, answer
             FROM operations
             WHERE unsettled = 1 AND resource = ?1 AND tenant = ?2 ORDER BY number",
        )?;
        let mut rows =
            statement.query(params![resource.name.as_str(), resource.tenant.as_str()])?;
        let mut operations = Vec::new();
        while let Some(row) = rows.next()? {
            operations.push(self.operation_from(row)?.1);
        }
        Ok(operations)
    }

    /// An operation from a row of [`OPERATION`].
    pub(super) fn operation_from(&self, row: &Row<'_>) -> Result<(i64, Operation), Fault> {
        let key = key_from(row, 1)?;
        let operation = self.decode(key, blob(row, 6)?, optional_blob(row, 7)?)?;
        Ok((row.get(0)?, operation))
    }

    /// A fence from a row of `name, tenant, record`.
    pub(super) fn fence_from(row: &Row<'_>) -> Result<Fence, Fault> {
        let resource = ResourceKey {
            name: ResourceName::new(text(row, 0)?),
            tenant: Tenant::new(text(row, 1)?),
        };
        decode_fence(blob(row, 2)?, resource)
    }

    /// The operation at a sequence.
    pub(super) fn operation_at(&self, sequence: i64) -> Result<Option<Operation>, Fault> {
        let mut statement = self.connection.prepare_cached(
            "SELECT sequence, id, upstream, principal, incarnation, tenant, record, answer
             FROM operations WHERE sequence = ?1",
        )?;
        let mut rows = statement.query([sequence])?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        Ok(Some(self.operation_from(row)?.1))
    }
}

/// An identity from five columns in the order of the tables' keys, the first of which is that.
pub(super) fn key_from(row: &Row<'_>, first: usize) -> Result<OperationKey, Fault> {
    Ok(OperationKey {
        id: OperationId::new(text(row, first)?),
        upstream: UpstreamId::new(text(row, first + 1)?),
        principal: principal_from(blob(row, first + 2)?)?,
        incarnation: Incarnation(row.get::<_, i64>(first + 3)?.cast_unsigned()),
        tenant: Tenant::new(text(row, first + 4)?),
    })
}

/// Where an operation stands, if it does.
pub(super) fn sequence_of(
    connection: &Connection,
    key: &OperationKey,
) -> rusqlite::Result<Option<i64>> {
    find(connection, key, |sequence, _row| Ok(sequence))
}

/// The row of an identity, if there is one: `read` gets its sequence, and its record and answer as
/// columns, which cost nothing where they are not read.
fn find<T, E: From<rusqlite::Error>>(
    connection: &Connection,
    key: &OperationKey,
    read: impl FnOnce(i64, &rusqlite::Row<'_>) -> Result<T, E>,
) -> Result<Option<T>, E> {
    for sequence in candidates(connection, key)? {
        let mut statement = connection.prepare_cached(
            "SELECT record, answer FROM operations
             WHERE sequence = ?6 AND id = ?1 AND upstream = ?2 AND principal = ?3
               AND incarnation = ?4 AND tenant = ?5",
        )?;
        let mut rows = statement.query(params![
            key.id.as_str(),
            key.upstream.as_str(),
            PrincipalColumn(key.principal),
            key.incarnation.0.cast_signed(),
            key.tenant.as_str(),
            sequence,
        ])?;
        if let Some(row) = rows.next()? {
            return read(sequence, row).map(Some);
        }
    }
    Ok(None)
}

/// Where an operation may stand; rarely more than one place. A statement of its own: SQLite plans a join
/// of the two tables anew each time that something is bound to it, which takes longer than all the rest.
fn candidates(connection: &Connection, key: &OperationKey) -> rusqlite::Result<Vec<i64>> {
    connection
        .prepare_cached("SELECT sequence FROM locators WHERE locator = ?1")?
        .query_map([locator::of(key)], |row| row.get(0))?
        .collect()
}

/// Binds an identity to the first five parameters, in the order of the tables' keys.
fn query_by_key<'s>(
    statement: &'s mut CachedStatement<'_>,
    key: &OperationKey,
) -> rusqlite::Result<rusqlite::Rows<'s>> {
    statement.query(params![
        key.id.as_str(),
        key.upstream.as_str(),
        PrincipalColumn(key.principal),
        key.incarnation.0.cast_signed(),
        key.tenant.as_str(),
    ])
}

/// A principal as a column: empty for none.
pub(super) struct PrincipalColumn(pub(super) Principal);

impl ToSql for PrincipalColumn {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match &self.0 {
            Principal::None => ToSqlOutput::Owned(Value::Blob(Vec::new())),
            Principal::Hashed(digest) => ToSqlOutput::Borrowed(ValueRef::Blob(digest)),
        })
    }
}

fn principal_from(column: &[u8]) -> Result<Principal, Fault> {
    if column.is_empty() {
        return Ok(Principal::None);
    }
    column
        .try_into()
        .map(Principal::Hashed)
        .map_err(|_| Fault::Record(StoreError::Corrupt("principal: wrong length".to_owned())))
}

fn decode_fence(record: &[u8], resource: ResourceKey) -> Result<Fence, Fault> {
    let name = resource.name.clone();
    codec::decode_fence(record, resource)
        .map_err(|malformed| Fault::Record(malformed.of(&format_args!("fence of {name:?}"))))
}

pub(super) fn blob<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r [u8], Fault> {
    optional_blob(row, column)?.ok_or_else(|| wrong_type(column))
}

pub(super) fn optional_blob<'r>(
    row: &'r Row<'_>,
    column: usize,
) -> Result<Option<&'r [u8]>, Fault> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        ValueRef::Blob(bytes) => Ok(Some(bytes)),
        ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Text(_) => Err(wrong_type(column)),
    }
}

fn text<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r str, Fault> {
    let found = row.get_ref(column)?;
    found.as_str().map_err(|_| wrong_type(column))
}

fn wrong_type(column: usize) -> Fault {
    Fault::Record(StoreError::Corrupt(format!(
        "column {column} has an unexpected type"
    )))
}
