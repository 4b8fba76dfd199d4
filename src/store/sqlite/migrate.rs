//! Bringing a register of an earlier format up to date.
//!
//! What always holds: one transaction, so that a crash leaves the one format or the other; nothing that
//! was settled is forgotten sooner than it would have been.
//!
//! What it does not do: go back. Who wants to keeps a backup of before.

use rusqlite::{Connection, OptionalExtension, params};

use super::about::{self, About};
use super::age::{Age, Lived};
use super::load::{self, Fault, PrincipalColumn};
use super::purge::Cursor;
use super::schema::{self, FORMAT};
use super::witness::{Claim, Place, Sighting};
use crate::protocol::ids::OperationKey;
use crate::protocol::time::Moment;
use crate::store::codec;

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
            about::note(connection, &now, "brought from format 1 to format 2")?;
            connection.pragma_update(None, "user_version", FORMAT)?;
            Ok(())
        })
    }
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
