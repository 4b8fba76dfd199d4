//! Bringing the tables of a register of an earlier format up to date: to format 3, from which `rewrite` goes
//! on.
//!
//! What always holds: one transaction, so that a crash leaves the one format or the other; nothing that
//! was settled is forgotten sooner than it would have been; an identity that stands twice is found, and
//! nothing is changed. Millions of operations take time and room on the disk, and bounded memory.
//!
//! What it does not do: go back. Who wants to keeps a backup of before.

use rusqlite::{Connection, OptionalExtension, params};

use super::about::{self, About};
use super::load::{self, Fault, PrincipalColumn};
use super::locator;
use super::purge::Cursor;
use super::schema::{self, BARE};
use super::soundness;
use super::witness::{Claim, Place, Sighting};
use crate::protocol::ids::OperationKey;
use crate::protocol::time::Moment;
use crate::store::age::{Age, Lived};
use crate::store::{StoreError, codec};

/// A register of format 1, as far as it must be known before it is changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format1 {
    pub(super) id: u128,
    epoch: u64,
    position: u64,
    /// Which key it was made with.
    pub(super) sealing_key: u32,
}

impl Format1 {
    /// `None`: there is no row, so this is no register.
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Option<Self>> {
        connection
            .query_row(
                "SELECT id, epoch, proofs, sealing_key FROM register",
                [],
                |row| {
                    Ok(Self {
                        id: u128::from_be_bytes(row.get(0)?),
                        epoch: row.get::<_, i64>(1)?.cast_unsigned(),
                        position: row.get::<_, i64>(2)?.cast_unsigned(),
                        sealing_key: row.get(3)?,
                    })
                },
            )
            .optional()
    }

    /// It knew of no witness.
    pub(super) fn claim(&self) -> Claim {
        Claim {
            sighting: Sighting {
                register: self.id,
                position: self.position,
                epoch: self.epoch,
            },
            witnessed: false,
            place: None,
            same_boot: false,
        }
    }

    /// Rewrites it. `fingerprint_key`: derived from the key that it was made with, and sealed.
    pub(super) fn migrate(
        &self,
        connection: &Connection,
        fingerprint_key: Vec<u8>,
        place: Place,
        now: Moment,
    ) -> Result<(), Fault> {
        schema::alone(connection, || {
            let lived = end_times(connection, now)?;
            locate_all(connection)?;
            first_of_twins(connection)?;
            let created_wall_ms: i64 =
                connection
                    .query_row("SELECT created_wall_ms FROM register", [], |row| row.get(0))?;
            connection.execute_batch("DROP TABLE register")?;
            connection.execute_batch(schema::REGISTER)?;
            let about = About {
                id: self.id,
                epoch: self.epoch,
                fingerprint_key,
                position: self.position,
                age: Age { lived, read: now },
                place,
                witnessed: false,
                admits_from: Lived::default(),
                purged: Cursor::default(),
            };
            let created = Moment {
                wall_ms: created_wall_ms.cast_unsigned(),
                ..now
            };
            about.write(connection, &created)?;
            connection.execute(
                "INSERT INTO sealing_keys (id, last_used_ms) VALUES (?1, ?2)",
                params![self.sealing_key, lived.column()],
            )?;
            finish(connection, 1, now)
        })
    }
}

/// From format 2, which knew an operation by an index on all of its identity.
pub(super) fn from_format_2(connection: &Connection, now: Moment) -> Result<(), Fault> {
    schema::alone(connection, || {
        locate_all(connection)?;
        finish(connection, 2, now)
    })
}

fn finish(connection: &Connection, from: u32, now: Moment) -> Result<(), Fault> {
    let text = format!("brought from format {from} to format {BARE}");
    about::note(connection, &now, &text)?;
    connection.pragma_update(None, "user_version", BARE)?;
    Ok(())
}

/// When the settled ones ended was not written down: as of now, one after the other, so that `purge`
/// never meets a crowd that ended together. Answers how old the register is by that.
fn end_times(connection: &Connection, now: Moment) -> rusqlite::Result<Lived> {
    connection.execute_batch("ALTER TABLE operations ADD COLUMN ended INTEGER")?;
    connection.execute(
        "UPDATE operations SET ended = ?1 + sequence WHERE unsettled = 0",
        [now.wall_ms.cast_signed()],
    )?;
    connection.execute_batch(schema::SETTLED)?;
    let last: i64 = connection.query_row(
        "SELECT coalesce(max(ended), ?1) FROM operations",
        [now.wall_ms.cast_signed()],
        |row| row.get(0),
    )?;
    Ok(Lived(last.cast_unsigned()))
}

/// Notes of twins get a column for whom they repeat.
fn first_of_twins(connection: &Connection) -> Result<(), Fault> {
    connection.execute_batch("ALTER TABLE twins ADD COLUMN first INTEGER")?;
    let mut notes = connection
        .prepare("SELECT id, upstream, principal, incarnation, tenant, record FROM twins")?;
    let mut rows = notes.query([])?;
    let mut firsts: Vec<(OperationKey, Option<i64>)> = Vec::new();
    while let Some(row) = rows.next()? {
        let key = load::key_from(row, 0)?;
        let note = codec::decode_note(load::blob(row, 5)?, key.clone()).map_err(|malformed| {
            Fault::Record(malformed.of(&format_args!("twin's note {:?}", key.id)))
        })?;
        firsts.push((key, load::sequence_of(connection, &note.first)?));
    }
    let mut point = connection.prepare(
        "UPDATE twins SET first = ?6
         WHERE id = ?1 AND upstream = ?2 AND principal = ?3 AND incarnation = ?4 AND tenant = ?5",
    )?;
    for (key, first) in firsts {
        point.execute(params![
            key.id.as_str(),
            key.upstream.as_str(),
            PrincipalColumn(key.principal),
            key.incarnation.0.cast_signed(),
            key.tenant.as_str(),
            first,
        ])?;
    }
    connection.execute_batch(schema::TWINS_OF_FIRST)?;
    Ok(())
}

/// Entries that are put in order in memory at once, 16 bytes each.
const AT_ONCE: usize = if cfg!(test) { 4 } else { 4 << 20 };

/// What every table of operations said of their identities up to format 2.
const UNIQUE: &str = ",\n    UNIQUE (id, upstream, principal, incarnation, tenant)";

/// Operations get locators in place of the index on their identities.
fn locate_all(connection: &Connection) -> Result<(), Fault> {
    connection.execute_batch(locator::TABLE)?;
    // The rows themselves: what the index has lost would be lost for ever.
    let mut operations = connection.prepare(
        "SELECT id, upstream, principal, incarnation, tenant, sequence
         FROM operations NOT INDEXED",
    )?;
    let mut rows = operations.query([])?;
    let mut entries: Vec<(i64, i64)> = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push((locator::of_row(row, 0)?, row.get(5)?));
        if entries.len() == AT_ONCE {
            put_in_order(connection, &mut entries)?;
        }
    }
    put_in_order(connection, &mut entries)?;
    match soundness::doubled(connection)? {
        Some(flaw) => Err(Fault::Record(StoreError::Corrupt(flaw))),
        None => drop_index_on_identities(connection),
    }
}

/// Each page is written once for all of them.
fn put_in_order(connection: &Connection, entries: &mut Vec<(i64, i64)>) -> rusqlite::Result<()> {
    entries.sort_unstable();
    let mut put =
        connection.prepare_cached("INSERT INTO locators (locator, sequence) VALUES (?1, ?2)")?;
    for (locator, sequence) in entries.drain(..) {
        put.execute([locator, sequence])?;
    }
    Ok(())
}

/// A constraint cannot be dropped, and copying every row into another table would write all of the
/// register once more. So the constraint is taken out of the table's text, and the index that it stood
/// on, which differs in nothing from one of its own, is given a name and dropped.
fn drop_index_on_identities(connection: &Connection) -> Result<(), Fault> {
    connection.pragma_update(None, "writable_schema", true)?;
    let freed = connection.execute(
        "UPDATE sqlite_schema SET sql = replace(sql, ?1, '')
         WHERE type = 'table' AND name = 'operations' AND instr(sql, ?1) > 0",
        [UNIQUE],
    )?;
    let named = connection.execute(
        "UPDATE sqlite_schema SET name = 'identities', sql = 'CREATE UNIQUE INDEX identities
             ON operations (id, upstream, principal, incarnation, tenant)'
         WHERE type = 'index' AND name = 'sqlite_autoindex_operations_1'",
        [],
    )?;
    connection.execute_batch("PRAGMA writable_schema = RESET")?;
    if (freed, named) != (1, 1) {
        let text = "the table of operations is not as it was made".to_owned();
        return Err(Fault::Record(StoreError::Corrupt(text)));
    }
    connection.execute_batch("DROP INDEX identities")?;
    Ok(())
}
