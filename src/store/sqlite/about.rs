//! The register's word on itself: one row.
//!
//! What always holds: who it is (`id`, fingerprint key) never changes; how far it has come
//! (`position`), how long it has lived and its epoch only grow. What was done to it as a whole is
//! written down in `history`, for an operator with `sqlite3`.
//!
//! What it does not do: commit.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::purge::Cursor;
use super::witness::{Claim, Place, Sighting};
use crate::protocol::time::{BootId, BootInstant, Moment};
use crate::store::age::{Age, Lived};

/// The row.
#[derive(Clone, Debug)]
pub(super) struct About {
    pub(super) id: u128,
    pub(super) epoch: u64,
    /// Sealed.
    pub(super) fingerprint_key: Vec<u8>,
    pub(super) position: u64,
    pub(super) age: Age,
    pub(super) place: Place,
    pub(super) witnessed: bool,
    /// Nothing is admitted before the register is that old.
    pub(super) admits_from: Lived,
    pub(super) purged: Cursor,
}

impl About {
    /// A register that is made now.
    pub(super) fn new(id: u128, fingerprint_key: Vec<u8>, place: Place, now: Moment) -> Self {
        Self {
            id,
            epoch: 0,
            fingerprint_key,
            position: 0,
            age: Age::of_new(now),
            place,
            witnessed: false,
            admits_from: Lived::default(),
            purged: Cursor::default(),
        }
    }

    /// `None`: there is no row, so this is no register.
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Option<Self>> {
        let about = connection
            .query_row(
                "SELECT id, epoch, fingerprint_key, position, lived_ms, read_boot,
                        read_boottime_ms, read_wall_ms, inode, device, witnessed, admits_from_ms,
                        purged_ended_ms, purged_sequence
                 FROM register",
                [],
                Self::from_row,
            )
            .optional()?;
        let Some(mut about) = about else {
            return Ok(None);
        };
        // What ended after the age was last written down ended no later than now.
        let last: Option<i64> = connection.query_row(
            "SELECT max(ended) FROM operations WHERE ended IS NOT NULL",
            [],
            |row| row.get(0),
        )?;
        let last = Lived(last.unwrap_or_default().cast_unsigned());
        about.age.lived = about.age.lived.max(last);
        Ok(Some(about))
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let number = |index| row.get::<_, i64>(index).map(i64::cast_unsigned);
        let wide = |index| row.get::<_, [u8; 16]>(index).map(u128::from_be_bytes);
        Ok(Self {
            id: wide(0)?,
            epoch: number(1)?,
            fingerprint_key: row.get(2)?,
            position: number(3)?,
            age: Age {
                lived: Lived(number(4)?),
                read: Moment {
                    boot: BootId(wide(5)?),
                    boottime: BootInstant(number(6)?),
                    wall_ms: number(7)?,
                },
            },
            place: Place {
                inode: number(8)?,
                device: number(9)?,
            },
            witnessed: row.get(10)?,
            admits_from: Lived(number(11)?),
            purged: Cursor {
                ended: Lived(number(12)?),
                sequence: row.get(13)?,
            },
        })
    }

    /// Writes the whole row. `created`: when the register was made.
    pub(super) fn write(&self, connection: &Connection, created: &Moment) -> rusqlite::Result<()> {
        let Self {
            id,
            epoch,
            fingerprint_key,
            position,
            age: Age { lived, read },
            place,
            witnessed,
            admits_from,
            purged,
        } = self;
        connection.execute(
            "INSERT INTO register
                 (only, id, epoch, created_wall_ms, fingerprint_key, position, lived_ms, read_boot,
                  read_boottime_ms, read_wall_ms, inode, device, witnessed, admits_from_ms,
                  purged_ended_ms, purged_sequence)
             VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
             ON CONFLICT (only) DO UPDATE SET
                 epoch = ?2, fingerprint_key = ?4, position = ?5, lived_ms = ?6, read_boot = ?7,
                 read_boottime_ms = ?8, read_wall_ms = ?9, inode = ?10, device = ?11,
                 witnessed = ?12, admits_from_ms = ?13, purged_ended_ms = ?14,
                 purged_sequence = ?15",
            params![
                id.to_be_bytes(),
                epoch.cast_signed(),
                created.wall_ms.cast_signed(),
                fingerprint_key,
                position.cast_signed(),
                lived.column(),
                read.boot.0.to_be_bytes(),
                read.boottime.0.cast_signed(),
                read.wall_ms.cast_signed(),
                place.inode.cast_signed(),
                place.device.cast_signed(),
                witnessed,
                admits_from.column(),
                purged.ended.column(),
                purged.sequence,
            ],
        )?;
        Ok(())
    }

    /// What the witness is to remember.
    pub(super) fn sighting(&self) -> Sighting {
        Sighting {
            register: self.id,
            position: self.position,
            epoch: self.epoch,
        }
    }

    pub(super) fn claim(&self, now: &Moment) -> Claim {
        Claim {
            sighting: self.sighting(),
            witnessed: self.witnessed,
            place: Some(self.place),
            same_boot: self.age.read.boot == now.boot,
        }
    }
}

/// Counts the position up and writes the age down: what a commit leaves for the witness.
pub(super) fn advance(connection: &Connection, position: u64, age: &Age) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE register SET position = ?1, lived_ms = ?2, read_boot = ?3,
                                 read_boottime_ms = ?4, read_wall_ms = ?5",
        )?
        .execute(params![
            position.cast_signed(),
            age.lived.column(),
            age.read.boot.0.to_be_bytes(),
            age.read.boottime.0.cast_signed(),
            age.read.wall_ms.cast_signed(),
        ])?;
    Ok(())
}

/// Writes down what was done to the register as a whole.
pub(super) fn note(connection: &Connection, now: &Moment, text: &str) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO history (wall_ms, text) VALUES (?1, ?2)",
        params![now.wall_ms.cast_signed(), text],
    )?;
    Ok(())
}
