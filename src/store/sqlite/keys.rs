//! Which keys a register is opened with.
//!
//! What always holds: a register is never opened without the key that its fingerprint key is sealed
//! with, nor given a new one silently. Where keys are configured the first one seals; a key file that
//! lies beside the register from before is still read, as the last of them. When the first key has
//! changed, the fingerprint key is sealed anew; records are not, and need their old key until they
//! are forgotten.
//!
//! What it does not do: seal records anew.

use rusqlite::{Connection, OptionalExtension, params};

use super::about::{self, About};
use super::ground::Ground;
use super::open_error::OpenError;
use crate::protocol::time::{Millis, Moment};
use crate::store::age::Lived;
use crate::store::seal::{self, MasterKey, SealError, Sealer};

/// The keys, the first of which seals. `fresh`: there is no register yet, so a missing key file is
/// made.
pub(super) fn of(
    ground: &Ground,
    configured: Vec<MasterKey>,
    fresh: bool,
) -> Result<(MasterKey, Vec<MasterKey>), OpenError> {
    let beside = ground.key()?;
    let mut configured = configured.into_iter();
    if let Some(first) = configured.next() {
        let mut others: Vec<MasterKey> = configured.collect();
        others.extend(beside);
        return Ok((first, others));
    }
    match beside {
        Some(key) => Ok((key, Vec::new())),
        None if fresh => Ok((ground.make_key()?, Vec::new())),
        None => Err(OpenError::KeyMissing {
            path: ground.key_path(),
        }),
    }
}

/// Makes `sealer` the register's: its fingerprint key from now on. Inside a transaction; writes down
/// what has changed in `about` too.
pub(super) fn adopt(
    connection: &Connection,
    sealer: &mut Sealer,
    about: &mut About,
    now: &Moment,
) -> Result<(), AdoptError> {
    sealer.adopt_fingerprint_key(about.id, &about.fingerprint_key)?;
    let lived = about.age.at(now);
    let before = seal::key_id_of(&about.fingerprint_key)?;
    if before != sealer.key_id() {
        in_use(connection, before, lived)?;
        about.fingerprint_key = sealer.seal_fingerprint_key(about.id)?;
        let text = format!(
            "sealed with key {:08x} from now on, and with {before:08x} before",
            sealer.key_id()
        );
        about::note(connection, now, &text)?;
    }
    in_use(connection, sealer.key_id(), lived)?;
    Ok(())
}

/// Why keys were not accepted.
#[derive(Debug, thiserror::Error)]
pub(super) enum AdoptError {
    #[error("{0}")]
    Seal(#[from] SealError),
    #[error("{0}")]
    Database(#[from] rusqlite::Error),
    #[error("the register says nothing of itself")]
    NoRow,
}

/// Says which keys are missing that may still be needed, and forgets those that are not.
/// `answers`: how long sealed answers are kept.
pub(super) fn miss(
    connection: &Connection,
    sealer: &Sealer,
    answers: Millis,
    lived: Lived,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("SELECT id, last_used_ms FROM sealing_keys")?;
    let used: Vec<(u32, Lived)> = statement
        .query_map([], |row| {
            Ok((row.get(0)?, Lived(row.get::<_, i64>(1)?.cast_unsigned())))
        })?
        .collect::<rusqlite::Result<_>>()?;
    for (id, last) in used.into_iter().filter(|(id, _)| !sealer.knows(*id)) {
        if last.after(answers) < lived && !seals_a_request(connection, id)? {
            connection.execute("DELETE FROM sealing_keys WHERE id = ?1", [id])?;
        } else {
            tracing::error!(
                key = format!("{id:08x}"),
                "a key that sealed records of this register is not among its keys: what it sealed \
                 cannot be read, and repeats of those operations are refused. Put it back, after the \
                 first one"
            );
        }
    }
    Ok(())
}

fn in_use(connection: &Connection, id: u32, lived: Lived) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO sealing_keys (id, last_used_ms) VALUES (?1, ?2)
         ON CONFLICT (id) DO UPDATE SET last_used_ms = max(last_used_ms, ?2)",
        params![id, lived.column()],
    )?;
    Ok(())
}

/// Of unsettled operations only are requests kept, so that these are few.
fn seals_a_request(connection: &Connection, id: u32) -> rusqlite::Result<bool> {
    let found = connection
        .query_row(
            "SELECT 1 FROM requests WHERE substr(sealed, 2, 4) = ?1 LIMIT 1",
            [id.to_be_bytes()],
            |_| Ok(()),
        )
        .optional()?;
    Ok(found.is_some())
}
