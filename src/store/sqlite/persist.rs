//! Writing the changes of one decision, inside the writer's transaction.
//!
//! What always holds: every change is written whole or the transaction fails; content is sealed
//! before it reaches a row. An identity stands once: no constraint of a table says so, and it is looked
//! for before every new row. A failure here is a failure of the transaction: half of a decision is
//! never committed.
//!
//! What it does not do: decide, commit.

use rusqlite::{Connection, params};

use super::load::{PrincipalColumn, sequence_of};
use super::locator;
use crate::protocol::command::{Changes, Event, RequestChange};
use crate::protocol::fence::Fence;
use crate::protocol::ids::OperationKey;
use crate::protocol::operation::{Operation, State};
use crate::protocol::outcome::StoredRequest;
use crate::protocol::view::TwinNote;
use crate::store::age::Lived;
use crate::store::load::is_applied;
use crate::store::seal::{Content, SealError, Sealer};
use crate::store::{STATE_WORDS, codec};

/// Why changes could not be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unwritten {
    #[error("{0}")]
    Database(#[from] rusqlite::Error),
    #[error("{0}")]
    Seal(#[from] SealError),
    #[error("an event of an operation that is not there")]
    StrayEvent,
    #[error("a second row for the identity of the operation at {0}")]
    SecondRow(i64),
}

/// SQLite says so when a write finds no room. Nothing is in doubt then, unlike after a failed fsync:
/// a transaction whose last page was not written never happened.
pub(super) fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
}

/// An operation as it was found: where, and in which state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) sequence: i64,
    pub(super) state: &'static str,
    pub(super) unsettled: bool,
    pub(super) applied: bool,
}

impl Before {
    pub(super) fn of(operation: &Operation, sequence: i64) -> Self {
        Self {
            sequence,
            state: operation.state.word(),
            unsettled: operation.state.is_unsettled(),
            applied: is_applied(operation),
        }
    }
}

/// How many operations entered and left each state, in one transaction.
#[derive(Debug, Default)]
pub(super) struct Tally {
    by_state: [i64; STATE_WORDS.len()],
}

/// Where and when changes are written.
#[derive(Clone, Copy)]
pub(super) struct Writing<'w> {
    pub(super) connection: &'w Connection,
    pub(super) sealer: &'w Sealer,
    /// How old the register is.
    pub(super) lived: Lived,
    /// May there be notes of twins?
    pub(super) may_have_notes: bool,
}

/// Writes the changes of one decision. `before`: the command's operation, as found. Answers where the
/// operation stands that was written, if one was.
pub(super) fn persist(
    writing: Writing<'_>,
    before: Option<Before>,
    changes: &Changes,
    tally: &mut Tally,
) -> Result<Option<i64>, Unwritten> {
    let Writing {
        connection,
        sealer,
        lived,
        may_have_notes,
    } = writing;
    let Changes {
        fence,
        operation,
        twin,
        request,
        events,
    } = changes;
    if let Some(fence) = fence {
        write_fence(connection, fence)?;
    }
    if let Some(note) = twin {
        write_note(connection, note)?;
    }
    let mut written = None;
    if let Some(operation) = operation {
        let sequence = write_operation(connection, sealer, before, operation, lived)?;
        written = Some(sequence);
        if may_have_notes && before.is_none_or(|before| !before.unsettled) {
            // A note is only ever made under an identity that is free: never seen, or settled.
            delete_note(connection, &operation.key)?;
        }
        write_request(connection, sealer, sequence, &operation.key, request)?;
        tally.moved(before.map(|before| before.state), operation.state.word());
        if is_applied(operation) && !before.is_some_and(|before| before.applied) {
            note_applied(connection, sequence, operation)?;
        }
    }
    let own = operation.as_ref().zip(written);
    for event in events {
        // Most are of the operation in hand, which need not be looked for.
        let sequence = match own {
            Some((operation, sequence)) if operation.key == event.key => sequence,
            Some(_) | None => sequence_of(connection, &event.key)?.ok_or(Unwritten::StrayEvent)?,
        };
        write_event(connection, sequence, event)?;
    }
    Ok(written)
}

impl Tally {
    fn moved(&mut self, from: Option<&str>, to: &str) {
        if from == Some(to) {
            return;
        }
        for (word, count) in STATE_WORDS.iter().zip(&mut self.by_state) {
            if from == Some(*word) {
                *count -= 1;
            }
            if to == *word {
                *count += 1;
            }
        }
    }

    /// An operation is gone.
    pub(super) fn left(&mut self, from: &str) {
        self.moved(Some(from), "");
    }

    /// Brings the stored counts up to date: once per transaction, not once per command.
    pub(super) fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        for (word, change) in STATE_WORDS.iter().zip(self.by_state) {
            if change != 0 {
                connection
                    .prepare_cached(
                        "UPDATE counts SET operations = operations + ?2 WHERE state = ?1",
                    )?
                    .execute(params![word, change])?;
            }
        }
        Ok(())
    }
}

fn write_fence(connection: &Connection, fence: &Fence) -> rusqlite::Result<()> {
    let mark = fence.mark.map(|mark| mark.to_string());
    connection
        .prepare_cached(
            "INSERT INTO fences (name, tenant, mark, cancelled, record, leased)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (name, tenant)
             DO UPDATE SET mark = ?3, cancelled = ?4, record = ?5, leased = ?6",
        )?
        .execute(params![
            fence.resource.name.as_str(),
            fence.resource.tenant.as_str(),
            mark,
            fence.cancelled,
            codec::encode_fence(fence),
            fence.lease.is_some(),
        ])?;
    Ok(())
}

fn write_operation(
    connection: &Connection,
    sealer: &Sealer,
    before: Option<Before>,
    operation: &Operation,
    lived: Lived,
) -> Result<i64, Unwritten> {
    let answer = sealed_answer(sealer, operation)?;
    let (resource, number, token) = match &operation.place {
        Some(place) => (
            Some(place.resource.as_str()),
            Some(place.number.0.cast_signed()),
            place.token.map(|token| token.to_string()),
        ),
        None => (None, None, None),
    };
    let (state, unsettled) = (operation.state.word(), operation.state.is_unsettled());
    let ended = (!unsettled).then(|| lived.column());
    let record = codec::encode_operation(operation);
    if let Some(found) = before {
        // Late evidence that changes no state does not keep an answer for longer.
        let ended_before = found.state == state;
        connection
            .prepare_cached(
                "UPDATE operations
                 SET state = ?2, unsettled = ?3, resource = ?4, number = ?5, token = ?6,
                     record = ?7, answer = ?8,
                     ended = CASE WHEN ?9 THEN coalesce(ended, ?10) ELSE ?10 END
                 WHERE sequence = ?1",
            )?
            .execute(params![
                found.sequence,
                state,
                unsettled,
                resource,
                number,
                token,
                record,
                answer,
                ended_before,
                ended
            ])?;
        return Ok(found.sequence);
    }
    let key = &operation.key;
    if let Some(sequence) = sequence_of(connection, key)? {
        return Err(Unwritten::SecondRow(sequence));
    }
    connection
        .prepare_cached(
            "INSERT INTO operations
                 (id, upstream, principal, incarnation, tenant, state, unsettled, resource,
                  number, token, first_seen_wall_ms, record, answer, ended)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?
        .execute(params![
            key.id.as_str(),
            key.upstream.as_str(),
            PrincipalColumn(key.principal),
            key.incarnation.0.cast_signed(),
            key.tenant.as_str(),
            state,
            unsettled,
            resource,
            number,
            token,
            operation.first_seen.wall_ms.cast_signed(),
            record,
            answer,
            ended,
        ])?;
    let sequence = connection.last_insert_rowid();
    connection
        .prepare_cached("INSERT INTO locators (locator, sequence) VALUES (?1, ?2)")?
        .execute(params![locator::of(key), sequence])?;
    Ok(sequence)
}

fn sealed_answer(sealer: &Sealer, operation: &Operation) -> Result<Option<Vec<u8>>, SealError> {
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

fn write_request(
    connection: &Connection,
    sealer: &Sealer,
    sequence: i64,
    key: &OperationKey,
    change: &RequestChange,
) -> Result<(), Unwritten> {
    match change {
        RequestChange::Untouched => {}
        RequestChange::Keep(request) => keep_request(connection, sealer, sequence, key, request)?,
        RequestChange::Drop => {
            connection
                .prepare_cached("DELETE FROM requests WHERE operation = ?1")?
                .execute([sequence])?;
        }
    }
    Ok(())
}

fn keep_request(
    connection: &Connection,
    sealer: &Sealer,
    sequence: i64,
    key: &OperationKey,
    request: &StoredRequest,
) -> Result<(), Unwritten> {
    let sealed = sealer.seal(Content::Request, key, &codec::encode_request(request))?;
    connection
        .prepare_cached("INSERT OR REPLACE INTO requests (operation, sealed) VALUES (?1, ?2)")?
        .execute(params![sequence, sealed])?;
    Ok(())
}

fn write_note(connection: &Connection, note: &TwinNote) -> rusqlite::Result<()> {
    let key = &note.key;
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO twins
                 (id, upstream, principal, incarnation, tenant, record, first)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            key.id.as_str(),
            key.upstream.as_str(),
            PrincipalColumn(key.principal),
            key.incarnation.0.cast_signed(),
            key.tenant.as_str(),
            codec::encode_note(note),
            sequence_of(connection, &note.first)?,
        ])?;
    Ok(())
}

/// An operation takes the place of a note under its identity.
fn delete_note(connection: &Connection, key: &OperationKey) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "DELETE FROM twins
             WHERE id = ?1 AND upstream = ?2 AND principal = ?3 AND incarnation = ?4
               AND tenant = ?5",
        )?
        .execute(params![
            key.id.as_str(),
            key.upstream.as_str(),
            PrincipalColumn(key.principal),
            key.incarnation.0.cast_signed(),
            key.tenant.as_str(),
        ])?;
    Ok(())
}

fn write_event(connection: &Connection, sequence: i64, event: &Event) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO events (operation, record) VALUES (?1, ?2)")?
        .execute(params![sequence, codec::encode_event(event)])?;
    Ok(())
}

/// What a replacement worker reads first: which effect of the resource was accepted last. Kept with
/// the fence, because an index over all operations would cost each of them a page.
fn note_applied(
    connection: &Connection,
    sequence: i64,
    operation: &Operation,
) -> rusqlite::Result<()> {
    let Some(place) = &operation.place else {
        return Ok(());
    };
    connection
        .prepare_cached(
            "UPDATE fences SET applied = ?3, applied_number = ?4
             WHERE name = ?1 AND tenant = ?2 AND applied_number < ?4",
        )?
        .execute(params![
            place.resource.as_str(),
            operation.key.tenant.as_str(),
            sequence,
            place.number.0.cast_signed(),
        ])?;
    Ok(())
}
