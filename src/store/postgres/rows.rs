//! Rows of the tables as what they stand for.
//!
//! What always holds: a row that cannot be read is a fault of its own, apart from faults of the
//! database: the first concerns one command, the second all.
//!
//! What it does not do: ask for rows.

use tokio_postgres::Row;

use super::identity::principal_column;
use super::shared::Shared;
use crate::protocol::fence::Fence;
use crate::protocol::ids::{
    Incarnation, OperationId, OperationKey, Principal, ResourceKey, ResourceName, Tenant,
    UpstreamId,
};
use crate::protocol::operation::{Operation, State};
use crate::protocol::outcome::StoredRequest;
use crate::protocol::view::TwinNote;
use crate::store::seal::{Content, SealError, Sealer};
use crate::store::{StoreError, codec};

/// A row that says nothing that can be understood.
#[derive(Debug)]
pub(super) struct Unreadable(pub(super) StoreError);

/// An operation as it stands in its row.
pub(super) struct OperationRow {
    pub(super) version: i64,
    pub(super) sequence: i64,
    pub(super) operation: Operation,
}

/// Opens what is sealed in rows, and sees whose attempts they show.
#[derive(Clone, Copy)]
pub(super) struct Opener<'s> {
    shared: &'s Shared,
}

impl<'s> Opener<'s> {
    pub(super) fn new(shared: &'s Shared) -> Self {
        Self { shared }
    }

    /// From the columns of `view_1`.
    pub(super) fn operation(self, row: &Row) -> Result<OperationRow, Unreadable> {
        let key = key(row)?;
        let record: &[u8] = row.try_get("record")?;
        let answer: Option<&[u8]> = row.try_get("answer")?;
        let answer = answer
            .map(|sealed| {
                let plain = self.open(Content::Answer, &key, sealed)?;
                codec::decode_answer(plain).map_err(|malformed| {
                    Unreadable(malformed.of(&format_args!("answer of operation {:?}", key.id)))
                })
            })
            .transpose()?;
        let id = key.id.clone();
        let operation = codec::decode_operation(record, key, answer)
            .map_err(|malformed| Unreadable(malformed.of(&format_args!("operation {id:?}"))))?;
        self.shared.see(&operation);
        Ok(OperationRow {
            version: row.try_get("version")?,
            sequence: row.try_get("sequence")?,
            operation,
        })
    }

    /// The stored request, where it is kept.
    pub(super) fn request(
        self,
        row: &Row,
        column: &str,
        key: &OperationKey,
    ) -> Result<Option<StoredRequest>, Unreadable> {
        let Some(sealed) = row.try_get::<_, Option<&[u8]>>(column)? else {
            return Ok(None);
        };
        let plain = self.open(Content::Request, key, sealed)?;
        codec::decode_request(plain).map(Some).map_err(|malformed| {
            Unreadable(malformed.of(&format_args!("request of operation {:?}", key.id)))
        })
    }

    fn open(
        self,
        content: Content,
        key: &OperationKey,
        sealed: &[u8],
    ) -> Result<Vec<u8>, Unreadable> {
        self.shared
            .sealer
            .open(content, key, sealed)
            .map_err(|error| {
                let text = format!("{content:?} of operation {:?}: {error}", key.id);
                Unreadable(StoreError::Corrupt(text))
            })
    }
}

/// From the columns of `view_1`: the name stands in `id`.
pub(super) fn fence(row: &Row) -> Result<Fence, Unreadable> {
    let resource = ResourceKey {
        tenant: Tenant::new(row.try_get::<_, &str>("tenant")?),
        name: ResourceName::new(text(row.try_get("id")?)?),
    };
    let name = resource.name.clone();
    codec::decode_fence(row.try_get("record")?, resource)
        .map_err(|malformed| Unreadable(malformed.of(&format_args!("fence of {name:?}"))))
}

pub(super) fn note(row: &Row) -> Result<TwinNote, Unreadable> {
    let key = key(row)?;
    let id = key.id.clone();
    codec::decode_note(row.try_get("record")?, key)
        .map_err(|malformed| Unreadable(malformed.of(&format_args!("twin's note {id:?}"))))
}

/// From the columns of `view_1`.
pub(super) fn key(row: &Row) -> Result<OperationKey, Unreadable> {
    let principal: &[u8] = row.try_get("principal")?;
    let principal = match principal.try_into() {
        Ok(digest) => Principal::Hashed(digest),
        Err(_) if principal.is_empty() => Principal::None,
        Err(_) => return Err(corrupt("principal: wrong length")),
    };
    Ok(OperationKey {
        tenant: Tenant::new(row.try_get::<_, &str>("tenant")?),
        upstream: UpstreamId::new(text(row.try_get("upstream")?)?),
        principal,
        id: OperationId::new(text(row.try_get("id")?)?),
        incarnation: Incarnation(row.try_get::<_, i64>("incarnation")?.cast_unsigned()),
    })
}

pub(super) fn text(bytes: &[u8]) -> Result<&str, Unreadable> {
    std::str::from_utf8(bytes).map_err(|_| corrupt("a name is not UTF-8"))
}

fn corrupt(what: &str) -> Unreadable {
    Unreadable(StoreError::Corrupt(what.to_owned()))
}

impl Unreadable {
    pub(super) fn kind(found: i16) -> Self {
        corrupt(&format!("a row of unknown kind {found}"))
    }

    /// Another identity has the digest of the one that was asked for.
    pub(super) fn another(found: &OperationKey) -> Self {
        corrupt(&format!(
            "operation {:?} stands where another was sought",
            found.id
        ))
    }
}

impl From<tokio_postgres::Error> for Unreadable {
    /// Only where a column is not what it should be.
    fn from(error: tokio_postgres::Error) -> Self {
        corrupt(&error.to_string())
    }
}

/// The sealed answer that goes with an operation.
pub(super) fn sealed_answer(
    sealer: &Sealer,
    operation: &Operation,
) -> Result<Option<Vec<u8>>, SealError> {
    let answer = match &operation.state {
        State::Completed(completion) => completion.answer.as_ref(),
        State::Intended | State::Uncertain | State::NeedsAttention(_) | State::NotApplied(_) => {
            None
        }
    };
    answer
        .map(|answer| {
            let plain = codec::encode_answer(answer);
            sealer.seal(Content::Answer, &operation.key, &plain)
        })
        .transpose()
}

/// The columns that name an operation.
pub(super) struct KeyColumns {
    pub(super) tenant: String,
    pub(super) upstream: Vec<u8>,
    pub(super) principal: Vec<u8>,
    pub(super) id: Vec<u8>,
    pub(super) incarnation: i64,
}

impl KeyColumns {
    pub(super) fn of(key: &OperationKey) -> Self {
        Self {
            tenant: key.tenant.as_str().to_owned(),
            upstream: key.upstream.as_str().as_bytes().to_vec(),
            principal: principal_column(key.principal),
            id: key.id.as_str().as_bytes().to_vec(),
            incarnation: key.incarnation.0.cast_signed(),
        }
    }
}
