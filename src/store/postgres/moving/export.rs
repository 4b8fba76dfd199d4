//! A shared register into a file.
//!
//! What always holds: the file is one snapshot, taken when no admission can come any more: the ground is
//! closed, and whoever had looked at it before has ended. Rows come through cursors, some at a time.
//!
//! What it does not do: stop anybody. Instances that run on are told that nothing is admitted.

use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::super::opening::{FORMAT, OpenError};
use super::super::rows::{self, Unreadable};
use super::super::session::Session;
use super::super::tables::holds_tables;
use crate::clock::Clock;
use crate::store::StoreError;
use crate::store::moving::{
    Bytes, Counts, Exporting, FenceLine, HistoryLine, KeyLine, Line, Memory, MoveError, Moved,
    Name, OperationLine, RegisterLine, TwinLine, Wide,
};

/// Rows that are fetched at once.
const FETCH: &str = "FETCH 500 FROM moving";

const FORMAT_FOUND: &str = "SELECT r.format FROM fencepost.register r";

/// How long tenants have what is settled remembered, where any of their sidecars has told.
const MEMORIES: &str = "SELECT f.tenant, coalesce(max(f.remember_ms) FILTER (WHERE f.what = 0), 0),
    coalesce(max(f.remember_ms) FILTER (WHERE f.what = 1), 0)
    FROM fencepost.forgotten f GROUP BY f.tenant HAVING max(f.remember_ms) > 0 ORDER BY f.tenant";

/// Writes everything in the register to `to`. Nothing is admitted by it any more: it is marked as moved, and
/// only [`take_back`](super::take_back) undoes that. What stood against it goes with it.
pub async fn export(
    url: &str,
    tls: Option<&Arc<ClientConfig>>,
    to: &Path,
    clock: &Clock,
) -> Result<Moved, MoveError> {
    if to.exists() {
        return Err(MoveError::Taken {
            path: to.to_owned(),
        });
    }
    let session = super::reached(url, tls).await?;
    if !holds_tables(&session).await? {
        return Err(OpenError::Absent.into());
    }
    // What is in the way is found before anybody is stopped.
    let rows = session.rows(FORMAT_FOUND, &[]).await?;
    readable(rows.first().ok_or(OpenError::Absent)?)?;
    Exporting::probe(to)?;
    close(&session, to, clock).await?;
    let written = snapshot(&session, to).await;
    written.map_err(|why| MoveError::Stopped(Box::new(why)))
}

async fn snapshot(session: &Session, to: &Path) -> Result<Moved, MoveError> {
    // Every transaction of an instance writes its row before it looks at the ground.
    const WAIT: &str = "BEGIN; LOCK TABLE fencepost.instances IN SHARE MODE; COMMIT";
    session.script(WAIT).await?;
    session
        .script("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        .await?;
    let moved = write(session, to).await?;
    session.script("COMMIT").await?;
    Ok(moved)
}

/// From then on no admission is written that had not looked at the ground before.
async fn close(session: &Session, to: &Path, clock: &Clock) -> Result<(), MoveError> {
    const CLOSE: &str = "SELECT fencepost.move_1($1, $2)";
    let why = format!("moved: everything is exported to {}", to.display());
    let wall = clock.now().wall_ms.cast_signed();
    let parameters: [(&(dyn ToSql + Sync), Type); 2] = [(&why, Type::TEXT), (&wall, Type::INT8)];
    let closed = session.rows(CLOSE, &parameters).await?;
    let row = closed.first().ok_or(OpenError::Absent)?;
    let quiet: Option<i64> = row.try_get(0).map_err(Unreadable::from)?;
    if let Some(quiet) = quiet {
        return Err(MoveError::Quiet {
            wait_ms: quiet.cast_unsigned(),
        });
    }
    Ok(())
}

async fn write(session: &Session, to: &Path) -> Result<Moved, MoveError> {
    const REGISTER: &str = "SELECT r.format, r.id, greatest(r.epoch, g.remembered_epoch),
        r.created_wall_ms, r.fingerprint_key, a.lived_ms, a.read_boot, a.read_boottime_ms, a.read_wall_ms,
        g.doubt_before
        FROM fencepost.register r CROSS JOIN fencepost.ground g CROSS JOIN LATERAL (
            SELECT t.lived_ms, t.read_boot, t.read_boottime_ms, t.read_wall_ms FROM fencepost.ages t
            UNION ALL
            SELECT r.lived_ms, r.read_boot, r.read_boottime_ms, r.read_wall_ms
            ORDER BY lived_ms DESC LIMIT 1) a";
    const KEYS: &str = "SELECT id, last_used_ms FROM fencepost.sealing_keys ORDER BY id";
    const HISTORY: &str = "SELECT wall_ms, text FROM fencepost.history ORDER BY sequence";
    // A file has one age. What was settled so long ago by its tenant's is as long ago by that.
    const OPERATIONS: &str =
        "SELECT o.tenant, o.upstream, o.principal, o.id, o.incarnation, o.record,
        o.answer, o.request, o.settled_ms + (oldest.lived_ms - coalesce(a.lived_ms, r.lived_ms)),
        ARRAY(SELECT e.record FROM fencepost.events e
              WHERE e.tenant = o.tenant AND e.operation = o.identity ORDER BY e.sequence)
        FROM fencepost.register r CROSS JOIN LATERAL (
            SELECT greatest(r.lived_ms, max(t.lived_ms)) AS lived_ms FROM fencepost.ages t) oldest
        CROSS JOIN fencepost.operations o LEFT JOIN fencepost.ages a ON a.tenant = o.tenant
        WHERE o.sequence > 0 ORDER BY o.tenant, o.sequence";
    const TWINS: &str =
        "SELECT tenant, upstream, principal, id, incarnation, record FROM fencepost.twins";
    const FENCES: &str = "SELECT o.tenant, o.upstream, o.principal, o.id, o.incarnation, f.record,
        f.tenant AS whose, f.name, f.applied_number, o.identity IS NOT NULL AS applied
        FROM fencepost.fences f
        LEFT JOIN fencepost.operations o ON o.tenant = f.tenant AND o.identity = f.applied
        ORDER BY f.tenant, f.name";
    let mut file = Exporting::begin(to, counts(session).await?)?;
    let found = session.rows(REGISTER, &[]).await?;
    let row = found.first().ok_or(OpenError::Absent)?;
    let told = session.rows(MEMORIES, &[]).await?;
    let memories: Result<_, _> = told.iter().map(memory).collect();
    file.put(&Line::Register(register(row, memories?)?))?;
    for row in session.rows(KEYS, &[]).await? {
        file.put(&Line::Key(key_line(&row)?))?;
    }
    for row in session.rows(HISTORY, &[]).await? {
        file.put(&Line::History(history_line(&row)?))?;
    }
    each(session, OPERATIONS, |row| {
        file.put(&Line::Operation(Box::new(operation_line(row)?)))
    })
    .await?;
    each(session, TWINS, |row| file.put(&Line::Twin(twin_line(row)?))).await?;
    each(session, FENCES, |row| {
        file.put(&Line::Fence(fence_line(row)?))
    })
    .await?;
    file.finish()
}

/// Goes through the rows, some at a time. Writing the file blocks: this is an operator's tool.
async fn each(
    session: &Session,
    query: &str,
    mut take: impl FnMut(&Row) -> Result<(), MoveError>,
) -> Result<(), MoveError> {
    session
        .script(&format!("DECLARE moving NO SCROLL CURSOR FOR {query}"))
        .await?;
    loop {
        let rows = session.rows(FETCH, &[]).await?;
        for row in &rows {
            take(row)?;
        }
        if rows.is_empty() {
            break;
        }
    }
    session.script("CLOSE moving").await?;
    Ok(())
}

async fn counts(session: &Session) -> Result<Counts, MoveError> {
    const COUNTS: [&str; 9] = [
        "SELECT count(*) FROM fencepost.sealing_keys",
        "SELECT count(*) FROM fencepost.history",
        "SELECT count(*) FROM fencepost.operations",
        "SELECT count(*) FROM fencepost.events",
        "SELECT count(answer) FROM fencepost.operations",
        "SELECT count(request) FROM fencepost.operations",
        "SELECT count(*) FROM fencepost.twins",
        "SELECT count(*) FROM fencepost.fences",
        "SELECT count(DISTINCT tenant) FROM fencepost.forgotten WHERE remember_ms > 0",
    ];
    let mut found = [0; 9];
    for (slot, query) in found.iter_mut().zip(COUNTS) {
        let rows = session.patient_rows(query).await?;
        if let Some(row) = rows.first() {
            *slot = number(row, 0)?;
        }
    }
    let [
        keys,
        history,
        operations,
        events,
        answers,
        requests,
        twins,
        fences,
        memories,
    ] = found;
    Ok(Counts {
        keys,
        history,
        operations,
        events,
        answers,
        requests,
        twins,
        fences,
        memories,
    })
}

fn number(row: &Row, column: usize) -> Result<u64, Unreadable> {
    Ok(row.try_get::<_, i64>(column)?.cast_unsigned())
}

fn bytes(row: &Row, column: usize) -> Result<Bytes, Unreadable> {
    Ok(Bytes(row.try_get(column)?))
}

fn wide(row: &Row, column: usize) -> Result<Wide, Unreadable> {
    let Bytes(found) = bytes(row, column)?;
    let found = found.as_slice().try_into().map_err(|_| {
        Unreadable(StoreError::Corrupt(
            "register: a number of wrong length".to_owned(),
        ))
    })?;
    Ok(Wide(u128::from_be_bytes(found)))
}

/// Does this version know all that is to be written? The row begins with the format.
fn readable(row: &Row) -> Result<(), MoveError> {
    let format: i32 = row.try_get(0).map_err(Unreadable::from)?;
    let found = u32::try_from(format).unwrap_or_default();
    if found > FORMAT {
        return Err(OpenError::FormatTooNew {
            found,
            known: FORMAT,
        }
        .into());
    }
    Ok(())
}

fn register(row: &Row, memories: Vec<Memory>) -> Result<RegisterLine, MoveError> {
    readable(row)?;
    Ok(RegisterLine {
        id: wide(row, 1)?,
        epoch: number(row, 2)?,
        created_wall_ms: number(row, 3)?,
        fingerprint_key: bytes(row, 4)?,
        lived_ms: number(row, 5)?,
        read_boot: wide(row, 6)?,
        read_boottime_ms: number(row, 7)?,
        read_wall_ms: number(row, 8)?,
        doubt: row.try_get(9).map_err(Unreadable::from)?,
        memories,
    })
}

fn memory(row: &Row) -> Result<Memory, Unreadable> {
    Ok(Memory {
        tenant: row.try_get(0)?,
        answers_ms: number(row, 1)?,
        identities_ms: number(row, 2)?,
    })
}

fn key_line(row: &Row) -> Result<KeyLine, MoveError> {
    let id = u32::try_from(number(row, 0)?)
        .map_err(|_| StoreError::Corrupt("the id of a key is out of range".to_owned()))?;
    Ok(KeyLine {
        id,
        last_used_ms: number(row, 1)?,
    })
}

fn history_line(row: &Row) -> Result<HistoryLine, Unreadable> {
    Ok(HistoryLine {
        wall_ms: number(row, 0)?,
        text: row.try_get(1)?,
    })
}

fn operation_line(row: &Row) -> Result<OperationLine, Unreadable> {
    let sealed = |column| -> Result<Option<Bytes>, Unreadable> {
        Ok(row.try_get::<_, Option<Vec<u8>>>(column)?.map(Bytes))
    };
    let settled: Option<i64> = row.try_get(8)?;
    let events: Vec<Vec<u8>> = row.try_get(9)?;
    Ok(OperationLine {
        name: Name::of(&rows::key(row)?),
        record: bytes(row, 5)?,
        settled_ms: settled.map(i64::cast_unsigned),
        answer: sealed(6)?,
        request: sealed(7)?,
        events: events.into_iter().map(Bytes).collect(),
    })
}

fn twin_line(row: &Row) -> Result<TwinLine, Unreadable> {
    Ok(TwinLine {
        name: Name::of(&rows::key(row)?),
        record: bytes(row, 5)?,
    })
}

fn fence_line(row: &Row) -> Result<FenceLine, Unreadable> {
    let Bytes(name) = bytes(row, 7)?;
    let applied = if row.try_get(9)? {
        Some(Name::of(&rows::key(row)?))
    } else {
        None
    };
    Ok(FenceLine {
        tenant: row.try_get(6)?,
        resource: rows::text(&name)?.to_owned(),
        record: bytes(row, 5)?,
        applied,
        applied_number: number(row, 8)?,
    })
}
