//! A shared register out of a file.
//!
//! What always holds: every record is decoded once before it is stored, and the columns beside it are made
//! of it as an admission would have made them; operations keep their order. Nothing is there for anybody
//! before the file's last line was found right.
//!
//! What it does not do: merge. A database that holds a register is refused, also an empty one: a sidecar
//! may just be opening it.

use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use tokio_postgres::types::{ToSql, Type};

use super::super::identity;
use super::super::opening::{FORMAT, LOCK};
use super::super::rows::KeyColumns;
use super::super::session::Session;
use super::super::tables::{holds_tables, make_tables};
use crate::protocol::ids::{OperationKey, ResourceKey, ResourceName, Tenant};
use crate::protocol::operation::IdentityOrigin;
use crate::store::moving::{
    Batch, Bytes, FenceLine, HistoryLine, KeyLine, Line, Memory, MoveError, Moved, Name,
    OperationLine, RegisterLine, TwinLine, batches,
};
use crate::store::{StoreError, codec};

/// Makes the register of the file in a database that holds none.
pub async fn import(
    url: &str,
    tls: Option<&Arc<ClientConfig>>,
    from: &Path,
) -> Result<Moved, MoveError> {
    const REGISTER: &str = "SELECT 1 FROM fencepost.register";
    const KNOW: &str = "ANALYZE fencepost.operations, fencepost.fences, fencepost.events";
    let session = super::reached(url, tls).await?;
    session.script("BEGIN").await?;
    session.rows(LOCK, &[]).await?;
    if holds_tables(&session).await? {
        if !session.rows(REGISTER, &[]).await?.is_empty() {
            return Err(MoveError::NotEmpty);
        }
    } else {
        make_tables(&session).await?;
    }
    let moved = filled(&session, from).await?;
    bury_owners(&session).await?;
    session.script("COMMIT").await?;
    // Estimates, for whoever plans and for whoever counts.
    if let Err(trouble) = session.script(KNOW).await {
        let error = trouble.into_store_error();
        tracing::warn!(error = %error, "the register is moved; its statistics were not made");
    }
    Ok(moved)
}

/// The lines of the file, as rows.
async fn filled(session: &Session, from: &Path) -> Result<Moved, MoveError> {
    let (mut coming, reading) = batches(from);
    while let Some(batch) = coming.recv().await {
        match batch {
            Batch::Lines(lines) => Rows::of(lines)?.write(session).await?,
            Batch::Whole(moved) => return Ok(moved),
        }
    }
    let cut = || StoreError::Unavailable("the file was not read to its end".to_owned());
    match reading.await {
        Ok(Ok(())) => Err(cut().into()),
        Ok(Err(error)) => Err(error),
        Err(gone) => Err(MoveError::Reader(std::io::Error::other(gone))),
    }
}

/// Whoever admitted what is in doubt is no more: anybody of the tenant settles it.
pub(in crate::store::postgres) async fn bury_owners(session: &Session) -> Result<(), MoveError> {
    const BURY: &str = "INSERT INTO fencepost.instances (id, tenant, name, started_wall_ms, dead)
        SELECT DISTINCT o.owner, o.tenant, 'moved', 0, true
        FROM fencepost.operations o WHERE o.unsettled AND o.owner IS NOT NULL";
    session.rows(BURY, &[]).await?;
    Ok(())
}

/// Lines of one batch by where they go.
#[derive(Default)]
struct Rows {
    register: Option<RegisterLine>,
    keys: Vec<KeyLine>,
    history: Vec<HistoryLine>,
    operations: Operations,
    events: Events,
    twins: Twins,
    fences: Fences,
}

impl Rows {
    fn of(lines: Vec<Line>) -> Result<Self, MoveError> {
        let mut rows = Self::default();
        for line in lines {
            match line {
                Line::Export(_) | Line::End(_) => {}
                Line::Register(register) => rows.register = Some(register),
                Line::Key(key) => rows.keys.push(key),
                Line::History(history) => rows.history.push(history),
                Line::Operation(operation) => rows.operation(*operation)?,
                Line::Twin(twin) => rows.twins.put(twin)?,
                Line::Fence(fence) => rows.fences.put(fence)?,
            }
        }
        Ok(rows)
    }

    fn operation(&mut self, line: OperationLine) -> Result<(), StoreError> {
        let key = key_of(&line.name)?;
        let identity = identity::of(&key);
        for Bytes(event) in line.events {
            codec::decode_event(&event, key.clone())
                .map_err(|error| error.of(&format_args!("event of operation {:?}", key.id)))?;
            self.events.tenants.push(key.tenant.as_str().to_owned());
            self.events.operations.push(identity.clone());
            self.events.records.push(event);
        }
        self.operations.put(
            key,
            identity,
            line.record,
            (line.answer, line.request),
            line.settled_ms,
        )
    }

    async fn write(self, session: &Session) -> Result<(), MoveError> {
        if let Some(register) = &self.register {
            put_register(session, register).await?;
            put_doubt(session, register).await?;
            put_memories(session, &register.memories).await?;
        }
        put_keys(session, &self.keys).await?;
        put_history(session, &self.history).await?;
        self.operations.write(session).await?;
        self.events.write(session).await?;
        self.twins.write(session).await?;
        self.fences.write(session).await
    }
}

fn key_of(name: &Name) -> Result<OperationKey, StoreError> {
    name.key()
        .ok_or_else(|| StoreError::Corrupt("principal: wrong length".to_owned()))
}

fn number(unsigned: u64, what: &str) -> Result<i64, StoreError> {
    i64::try_from(unsigned).map_err(|_| StoreError::Corrupt(format!("{what} is out of range")))
}

/// Runs a statement whose parameters are columns, unless there are no rows.
async fn insert(
    session: &Session,
    rows: usize,
    statement: &str,
    columns: &[(&(dyn ToSql + Sync), Type)],
) -> Result<(), MoveError> {
    if rows > 0 {
        session.rows(statement, columns).await?;
    }
    Ok(())
}

/// What stood against it elsewhere stands against it here.
async fn put_doubt(session: &Session, line: &RegisterLine) -> Result<(), MoveError> {
    const DOUBT: &str = "UPDATE fencepost.ground SET doubt = $1";
    if let Some(doubt) = &line.doubt {
        let doubt = format!("it was moved here although {doubt}");
        session.rows(DOUBT, &[(&doubt, Type::TEXT)]).await?;
    }
    Ok(())
}

/// Whoever has it remembered the longest may start last.
async fn put_memories(session: &Session, memories: &[Memory]) -> Result<(), MoveError> {
    const INSERT: &str = "INSERT INTO fencepost.forgotten (tenant, what, remember_ms)
        SELECT a.tenant, b.what, b.remember_ms
        FROM unnest($1::text[], $2::bigint[], $3::bigint[]) a(tenant, answers, identities)
        CROSS JOIN LATERAL (VALUES (0, a.answers), (1, a.identities)) b(what, remember_ms)";
    let tenants: Vec<&str> = memories.iter().map(|it| it.tenant.as_str()).collect();
    let lengths = |of: fn(&Memory) -> u64| -> Result<Vec<i64>, StoreError> {
        let lengths = memories.iter().map(of);
        lengths
            .map(|it| number(it, "how long is remembered"))
            .collect()
    };
    let answers = lengths(|it| it.answers_ms)?;
    let identities = lengths(|it| it.identities_ms)?;
    let columns: [(&(dyn ToSql + Sync), Type); 3] = [
        (&tenants, Type::TEXT_ARRAY),
        (&answers, Type::INT8_ARRAY),
        (&identities, Type::INT8_ARRAY),
    ];
    insert(session, memories.len(), INSERT, &columns).await
}

async fn put_register(session: &Session, line: &RegisterLine) -> Result<(), MoveError> {
    const INSERT: &str = "INSERT INTO fencepost.register
        (single, id, format, epoch, created_wall_ms, fingerprint_key, lived_ms, read_boot,
         read_boottime_ms, read_wall_ms)
        VALUES (1, $1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let (id, boot) = (line.id.0.to_be_bytes(), line.read_boot.0.to_be_bytes());
    let format = i32::try_from(FORMAT).unwrap_or(i32::MAX);
    insert(
        session,
        1,
        INSERT,
        &[
            (&id.as_slice(), Type::BYTEA),
            (&format, Type::INT4),
            (&number(line.epoch, "the epoch")?, Type::INT8),
            (&number(line.created_wall_ms, "a time")?, Type::INT8),
            (&line.fingerprint_key.0, Type::BYTEA),
            (&number(line.lived_ms, "the age")?, Type::INT8),
            (&boot.as_slice(), Type::BYTEA),
            (&number(line.read_boottime_ms, "a time")?, Type::INT8),
            (&number(line.read_wall_ms, "a time")?, Type::INT8),
        ],
    )
    .await
}

async fn put_keys(session: &Session, lines: &[KeyLine]) -> Result<(), MoveError> {
    const INSERT: &str = "INSERT INTO fencepost.sealing_keys (id, last_used_ms)
        SELECT * FROM unnest($1::bigint[], $2::bigint[])";
    let ids: Vec<i64> = lines.iter().map(|line| line.id.into()).collect();
    let used = lines.iter().map(|line| number(line.last_used_ms, "an age"));
    let used: Vec<i64> = used.collect::<Result<_, _>>()?;
    let columns: [(&(dyn ToSql + Sync), Type); 2] =
        [(&ids, Type::INT8_ARRAY), (&used, Type::INT8_ARRAY)];
    insert(session, lines.len(), INSERT, &columns).await
}

async fn put_history(session: &Session, lines: &[HistoryLine]) -> Result<(), MoveError> {
    const INSERT: &str = "INSERT INTO fencepost.history (wall_ms, text)
        SELECT a.wall, a.told FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY a(wall, told, place)
        ORDER BY a.place";
    let walls = lines.iter().map(|line| number(line.wall_ms, "a time"));
    let walls: Vec<i64> = walls.collect::<Result<_, _>>()?;
    let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    let columns: [(&(dyn ToSql + Sync), Type); 2] =
        [(&walls, Type::INT8_ARRAY), (&texts, Type::TEXT_ARRAY)];
    insert(session, lines.len(), INSERT, &columns).await
}

/// The columns that name operations.
#[derive(Default)]
struct Keys {
    tenants: Vec<String>,
    upstreams: Vec<Vec<u8>>,
    principals: Vec<Vec<u8>>,
    ids: Vec<Vec<u8>>,
    incarnations: Vec<i64>,
}

impl Keys {
    fn put(&mut self, key: &OperationKey) {
        let columns = KeyColumns::of(key);
        self.tenants.push(columns.tenant);
        self.upstreams.push(columns.upstream);
        self.principals.push(columns.principal);
        self.ids.push(columns.id);
        self.incarnations.push(columns.incarnation);
    }
}

#[derive(Default)]
struct Operations {
    identities: Vec<Vec<u8>>,
    keys: Keys,
    states: Vec<&'static str>,
    unsettled: Vec<bool>,
    resources: Vec<Option<Vec<u8>>>,
    numbers: Vec<Option<i64>>,
    tokens: Vec<Option<String>>,
    keyless: Vec<Option<Vec<u8>>>,
    owners: Vec<Option<Vec<u8>>>,
    first_seen: Vec<i64>,
    records: Vec<Vec<u8>>,
    answers: Vec<Option<Vec<u8>>>,
    requests: Vec<Option<Vec<u8>>>,
    settled: Vec<Option<i64>>,
}

impl Operations {
    /// `sealed`: its answer and its request.
    fn put(
        &mut self,
        key: OperationKey,
        identity: Vec<u8>,
        Bytes(record): Bytes,
        sealed: (Option<Bytes>, Option<Bytes>),
        settled_ms: Option<u64>,
    ) -> Result<(), StoreError> {
        self.keys.put(&key);
        let id = key.id.clone();
        let operation = codec::decode_operation(&record, key, None)
            .map_err(|error| error.of(&format_args!("operation {id:?}")))?;
        let place = operation.place.as_ref();
        self.identities.push(identity);
        self.states.push(operation.state.word());
        self.unsettled.push(operation.state.is_unsettled());
        self.resources
            .push(place.map(|it| it.resource.as_str().as_bytes().to_vec()));
        self.numbers.push(place.map(|it| it.number.0.cast_signed()));
        self.tokens
            .push(place.and_then(|it| it.token).map(|token| token.to_string()));
        let keyless = operation.origin == IdentityOrigin::Fresh;
        self.keyless
            .push(keyless.then(|| identity::shared_with_equals(&operation).digest.to_vec()));
        let owner = operation.carrier();
        self.owners
            .push(owner.map(|instance| instance.0.to_be_bytes().to_vec()));
        self.first_seen
            .push(operation.first_seen.wall_ms.cast_signed());
        self.records.push(record);
        let (answer, request) = sealed;
        self.answers.push(answer.map(|it| it.0));
        self.requests.push(request.map(|it| it.0));
        let settled = settled_ms.map(|it| number(it, "an age")).transpose()?;
        self.settled.push(settled);
        Ok(())
    }

    async fn write(&self, session: &Session) -> Result<(), MoveError> {
        const INSERT: &str = "INSERT INTO fencepost.operations
            (version, identity, tenant, upstream, principal, id, incarnation, state, unsettled, resource,
             number, token, keyless, owner, first_seen_wall_ms, record, answer, request, settled_ms)
            SELECT 1, a.identity, a.tenant, a.upstream, a.principal, a.id, a.incarnation, a.state,
                   a.unsettled, a.resource, a.number, a.token, a.keyless, a.owner, a.seen, a.record,
                   a.answer, a.request, a.settled
            FROM unnest($1::bytea[], $2::text[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bigint[],
                        $7::text[], $8::boolean[], $9::bytea[], $10::bigint[], $11::text[], $12::bytea[],
                        $13::bytea[], $14::bigint[], $15::bytea[], $16::bytea[], $17::bytea[],
                        $18::bigint[])
                WITH ORDINALITY a(identity, tenant, upstream, principal, id, incarnation, state, unsettled,
                                  resource, number, token, keyless, owner, seen, record, answer, request,
                                  settled, place)
            ORDER BY a.place";
        let Self { keys, .. } = self;
        let columns: [(&(dyn ToSql + Sync), Type); 18] = [
            (&self.identities, Type::BYTEA_ARRAY),
            (&keys.tenants, Type::TEXT_ARRAY),
            (&keys.upstreams, Type::BYTEA_ARRAY),
            (&keys.principals, Type::BYTEA_ARRAY),
            (&keys.ids, Type::BYTEA_ARRAY),
            (&keys.incarnations, Type::INT8_ARRAY),
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
            (&self.settled, Type::INT8_ARRAY),
        ];
        insert(session, self.records.len(), INSERT, &columns).await
    }
}

#[derive(Default)]
struct Events {
    tenants: Vec<String>,
    operations: Vec<Vec<u8>>,
    records: Vec<Vec<u8>>,
}

impl Events {
    async fn write(&self, session: &Session) -> Result<(), MoveError> {
        const INSERT: &str = "INSERT INTO fencepost.events (tenant, operation, record)
            SELECT a.tenant, a.operation, a.record
            FROM unnest($1::text[], $2::bytea[], $3::bytea[])
                WITH ORDINALITY a(tenant, operation, record, place)
            ORDER BY a.place";
        let columns: [(&(dyn ToSql + Sync), Type); 3] = [
            (&self.tenants, Type::TEXT_ARRAY),
            (&self.operations, Type::BYTEA_ARRAY),
            (&self.records, Type::BYTEA_ARRAY),
        ];
        insert(session, self.records.len(), INSERT, &columns).await
    }
}

#[derive(Default)]
struct Twins {
    identities: Vec<Vec<u8>>,
    keys: Keys,
    records: Vec<Vec<u8>>,
    firsts: Vec<Vec<u8>>,
}

impl Twins {
    fn put(&mut self, line: TwinLine) -> Result<(), StoreError> {
        let key = key_of(&line.name)?;
        let Bytes(record) = line.record;
        let note = codec::decode_note(&record, key.clone())
            .map_err(|error| error.of(&format_args!("twin's note {:?}", key.id)))?;
        self.identities.push(identity::of(&key));
        self.keys.put(&key);
        self.firsts.push(identity::of(&note.first));
        self.records.push(record);
        Ok(())
    }

    async fn write(&self, session: &Session) -> Result<(), MoveError> {
        const INSERT: &str = "INSERT INTO fencepost.twins
            (identity, tenant, upstream, principal, id, incarnation, record, first)
            SELECT * FROM unnest($1::bytea[], $2::text[], $3::bytea[], $4::bytea[], $5::bytea[],
                                 $6::bigint[], $7::bytea[], $8::bytea[])";
        let Self { keys, .. } = self;
        let columns: [(&(dyn ToSql + Sync), Type); 8] = [
            (&self.identities, Type::BYTEA_ARRAY),
            (&keys.tenants, Type::TEXT_ARRAY),
            (&keys.upstreams, Type::BYTEA_ARRAY),
            (&keys.principals, Type::BYTEA_ARRAY),
            (&keys.ids, Type::BYTEA_ARRAY),
            (&keys.incarnations, Type::INT8_ARRAY),
            (&self.records, Type::BYTEA_ARRAY),
            (&self.firsts, Type::BYTEA_ARRAY),
        ];
        insert(session, self.records.len(), INSERT, &columns).await
    }
}

#[derive(Default)]
struct Fences {
    tenants: Vec<String>,
    names: Vec<Vec<u8>>,
    marks: Vec<Option<String>>,
    cancelled: Vec<bool>,
    leased: Vec<bool>,
    records: Vec<Vec<u8>>,
    applied: Vec<Option<Vec<u8>>>,
    applied_numbers: Vec<i64>,
}

impl Fences {
    fn put(&mut self, line: FenceLine) -> Result<(), StoreError> {
        let resource = ResourceKey {
            tenant: Tenant::new(&line.tenant),
            name: ResourceName::new(&line.resource),
        };
        let Bytes(record) = line.record;
        let fence = codec::decode_fence(&record, resource)
            .map_err(|error| error.of(&format_args!("fence of {:?}", line.resource)))?;
        self.marks.push(fence.mark.map(|mark| mark.to_string()));
        self.cancelled.push(fence.cancelled);
        self.leased.push(fence.lease.is_some());
        self.tenants.push(line.tenant);
        self.names.push(line.resource.into_bytes());
        self.records.push(record);
        let applied = line.applied.as_ref().map(key_of).transpose()?;
        self.applied.push(applied.as_ref().map(identity::of));
        self.applied_numbers
            .push(number(line.applied_number, "a place in order")?);
        Ok(())
    }

    async fn write(&self, session: &Session) -> Result<(), MoveError> {
        const INSERT: &str = "INSERT INTO fencepost.fences
            (version, tenant, name, mark, cancelled, record, applied, applied_number, leased)
            SELECT 1, a.* FROM unnest($1::text[], $2::bytea[], $3::text[], $4::boolean[], $5::bytea[],
                                      $6::bytea[], $7::bigint[], $8::boolean[]) a";
        let columns: [(&(dyn ToSql + Sync), Type); 8] = [
            (&self.tenants, Type::TEXT_ARRAY),
            (&self.names, Type::BYTEA_ARRAY),
            (&self.marks, Type::TEXT_ARRAY),
            (&self.cancelled, Type::BOOL_ARRAY),
            (&self.records, Type::BYTEA_ARRAY),
            (&self.applied, Type::BYTEA_ARRAY),
            (&self.applied_numbers, Type::INT8_ARRAY),
            (&self.leased, Type::BOOL_ARRAY),
        ];
        insert(session, self.records.len(), INSERT, &columns).await
    }
}
