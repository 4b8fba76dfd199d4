//! Writing a register's file anew, with checksums in its pages: the step from format 3 to format 4, and
//! mending one of format 4 that another program wrote to, whose pages carry wrong ones.
//!
//! What always holds: the file of before is the register until the new one is whole, read through,
//! durable, and takes its name in one rename; a crash leaves one or the other, and at most a file aside
//! that the next start makes anew. Whoever else has the file open is in the way: it is refused rather than
//! taken from beneath them. There is room on the disk, or nothing is begun. What was damaged already is
//! found here or never: checksums are given to what stands there.
//!
//! What it does not do: bring tables up to date (`migrate`).

use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode};
use rustix::fs::statvfs;

use super::about;
use super::checkpoint::Checkpoints;
use super::checksums;
use super::ground::{self, Ground, at};
use super::open_error::OpenError;
use super::schema::{self, BARE, FORMAT, Found};
use super::soundness;
use crate::clock::Clock;
use crate::failpoint;
use crate::protocol::time::Moment;

/// Gives the register in `dir`, of which no page is torn, its checksums anew. What is damaged otherwise is
/// refused, as far as it can be told without them: what was changed within its form is not. Blocks for as long
/// as it takes.
pub fn mend(dir: &Path, clock: &Clock) -> Result<(), OpenError> {
    if !Ground::holds_register(dir) {
        return Err(OpenError::Missing {
            path: dir.to_owned(),
        });
    }
    // Whoever made it has decided where it may be.
    let ground = Ground::take(dir, true)?;
    let path = ground.database()?;
    let old = schema::open_uncompared(&path)?;
    find_room(&old, &path, FORMAT)?;
    let text = format!(
        "given checksums anew by the user with id {}: another program had written to it",
        rustix::process::getuid().as_raw()
    );
    let mended = with_checksums(old, &path, &clock.now(), &text)?;
    mended
        .close()
        .map_err(|(_, error)| OpenError::database(&path)(error))
}

/// Gives the register at `path`, of format 3 or 4, checksums, and notes down why. Takes minutes with millions
/// of operations.
pub(super) fn with_checksums(
    old: Connection,
    path: &Path,
    now: &Moment,
    why: &str,
) -> Result<Connection, OpenError> {
    let aside = beside(path, ".new");
    let made = alone(&old, path)
        .and_then(|()| copy(&old, path, &aside))
        .and_then(|()| finish(&aside, path, now, why));
    if let Err(error) = made {
        // The disk may be full of it.
        let _ = std::fs::remove_file(&aside);
        return Err(error);
    }
    old.close()
        .map_err(|(_, error)| OpenError::database(path)(error))?;
    failpoint::pass("before-rewritten");
    std::fs::rename(&aside, path).map_err(at(path))?;
    ground::sync_parent(path).map_err(at(path))?;
    failpoint::pass("after-rewritten");
    let (new, found) = schema::open_writer(path)?;
    match found {
        Found::Format(FORMAT) => Ok(new),
        Found::Format(_) | Found::Nothing => Err(OpenError::Foreign {
            path: path.to_owned(),
        }),
    }
}

/// Is there room for a register of format `from` to be brought up to date? Every page is written once more;
/// those of before format 3 grow by a table first, in the file and in its log.
pub(super) fn find_room(connection: &Connection, path: &Path, from: u32) -> Result<(), OpenError> {
    let bytes = soundness::bytes(connection).map_err(OpenError::database(path))?;
    let growth = if from < BARE { bytes / 4 } else { 0 };
    has_room(path, bytes.saturating_add(growth).saturating_add(SPARE))
}

/// Pages hold a little less than before; and a disk that is full to the brim serves nobody.
const SPARE: u64 = 4 << 20;

fn has_room(path: &Path, needed: u64) -> Result<(), OpenError> {
    let dir = path.parent().unwrap_or(path);
    let found = statvfs(dir).map_err(|errno| at(dir)(errno.into()))?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    if free >= needed {
        return Ok(());
    }
    Err(OpenError::NoRoom {
        path: path.to_owned(),
        needed,
        free,
    })
}

/// All of it is in the file, nobody else has it open, and no log lies beside it that a file of the same
/// name would be read with.
fn alone(old: &Connection, path: &Path) -> Result<(), OpenError> {
    let database = |error| OpenError::database(path)(error);
    Checkpoints::run_and_truncate(old).map_err(database)?;
    let in_use = || OpenError::InUse {
        path: path.to_owned(),
    };
    let mode: String = old
        .pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get(0))
        .map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy) => in_use(),
            Some(_) | None => database(error),
        })?;
    if mode == "delete" && !beside(path, "-wal").exists() {
        return Ok(());
    }
    Err(in_use())
}

fn copy(old: &Connection, path: &Path, aside: &Path) -> Result<(), OpenError> {
    // Of an attempt that was cut off: it would be played back into the new file.
    let _ = std::fs::remove_file(beside(aside, "-journal"));
    ground::overwritten(aside).map_err(at(aside))?;
    failpoint::pass("rewriting");
    old.execute("VACUUM INTO ?1", [checksums::name_of_new(aside)])
        .map(|_| ())
        .map_err(OpenError::database(path))
}

/// Reads it through, and makes it what the register says of itself from now on.
fn finish(aside: &Path, path: &Path, now: &Moment, why: &str) -> Result<(), OpenError> {
    let database = |error| OpenError::database(path)(error);
    let new = Connection::open(aside).map_err(database)?;
    checksums::demand(&new).map_err(database)?;
    if let Some(found) = soundness::flaw(&new, Found::Format(BARE)).map_err(database)? {
        let path = path.to_owned();
        return Err(OpenError::Damaged { path, found });
    }
    let (was, is) = (Ground::place(path)?, Ground::place(aside)?);
    let stamped = schema::alone(&new, || -> rusqlite::Result<()> {
        // A register that is not where it was stays in doubt, whatever number the new file got: one that
        // was told by its device alone keeps the device that told it.
        new.execute(
            "UPDATE register SET
                 device = iif(inode = ?3 AND device = ?4, ?2, device),
                 inode = iif(inode = ?3, ?1, 0)",
            [is.inode, is.device, was.inode, was.device].map(u64::cast_signed),
        )?;
        about::note(&new, now, why)?;
        new.pragma_update(None, "user_version", FORMAT)
    });
    stamped.map_err(database)?;
    new.close().map_err(|(_, error)| database(error))?;
    std::fs::File::open(aside)
        .and_then(|file| file.sync_all())
        .map_err(at(aside))
}

/// The name with something behind it.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_room_nothing_is_begun_and_the_numbers_are_said() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("register.db");
        has_room(&path, 1).unwrap();
        let error = has_room(&path, u64::MAX).unwrap_err();
        assert!(matches!(error, OpenError::NoRoom { needed, free, .. }
            if needed == u64::MAX && free > 0));
        assert!(error.to_string().contains("17592186044415 MiB"), "{error}");
    }
}
