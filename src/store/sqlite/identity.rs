//! Is this the register that it says it is? Made, brought up to date, believed or doubted.
//!
//! What always holds: a register that may have lost commits is not opened unless somebody said so; then
//! a new epoch begins, above its own and above the one its witness saw, so that every token of before
//! is stale on every resource. The witness is written last.
//!
//! What it does not do yet: ask the upstream before an identity is sent that is first seen after a
//! restore; that comes with look-ups.

use std::path::Path;

use rusqlite::Connection;

use super::about::{self, About};
use super::ground::{self, Ground, at};
use super::keys::{self, AdoptError};
use super::load::Fault;
use super::migrate::{self, Format1};
use super::open_error::OpenError;
use super::opening::Restored;
use super::rewrite;
use super::schema::{self, BARE, FORMAT, Found};
use super::witness::{self, Claim, Doubt, Place, Sighting, Witness};
use crate::protocol::time::{Millis, Moment};
use crate::store::age::Age;
use crate::store::seal::{MasterKey, SealError, Sealer};

/// What is wanted of it.
pub(super) struct Wanted {
    pub(super) keys: Vec<MasterKey>,
    pub(super) restored: Restored,
    /// How long answers are kept.
    pub(super) answers: Millis,
}

/// A register that may be used.
pub(super) struct Established {
    pub(super) connection: Connection,
    pub(super) about: About,
    pub(super) sealer: Sealer,
    /// What speaks against it, where it is only looked at.
    pub(super) doubt: Option<Doubt>,
}

/// What was decided about a doubt.
struct Accepted {
    doubt: Doubt,
    /// What the witness saw, if it is that of this register or there is no other.
    seen: Option<Sighting>,
    quiet: Millis,
}

pub(super) fn establish(
    mut connection: Connection,
    found: Found,
    path: &Path,
    ground: &Ground,
    witness: &Witness,
    wanted: Wanted,
    now: &Moment,
) -> Result<Established, OpenError> {
    let database = |error| OpenError::database(path)(error);
    let mut place = Ground::place(path)?;
    let seen = witness.read().map_err(at(witness.path()))?;
    let (first, others) = keys::of(ground, wanted.keys, found == Found::Nothing)?;
    let claim = claimed(&connection, found, path, now)?;
    let overlooked = overlooked(
        claim.as_ref(),
        seen.as_ref(),
        place,
        witness.path(),
        wanted.restored,
    );
    let accepted = judge(
        claim.as_ref(),
        seen,
        place,
        witness.path(),
        wanted.restored,
        path,
    )?;
    if let Found::Format(format) = found
        && format < FORMAT
    {
        let (keys, restored) = ((&first, &*others), wanted.restored);
        connection = bring_up_to_date(connection, path, format, restored, keys, place, *now)?;
        place = Ground::place(path)?;
    }
    let mut sealer = Sealer::new(&first, &others).map_err(|_| OpenError::NoRandomness)?;
    if wanted.restored == Restored::Overlook {
        return only_looked_at(connection, path, sealer, overlooked);
    }
    let id = ground::random_id()?;
    let mut about = schema::alone(&connection, || {
        let mut about = match found {
            Found::Nothing => make(&connection, id, &sealer, place, now)?,
            Found::Format(_) => {
                schema::complete(&connection)?;
                About::read(&connection)?.ok_or(AdoptError::NoRow)?
            }
        };
        keys::adopt(&connection, &mut sealer, &mut about, now)?;
        if let Some(accepted) = &accepted {
            accept(&connection, &mut about, accepted, now)?;
        }
        about.position = about.position.saturating_add(1);
        about.place = place;
        about.age = Age {
            lived: about.age.at(now),
            read: *now,
        };
        about.write(&connection, now)?;
        Ok(about)
    })
    .map_err(|error| not_opened(path, error))?;
    keys::miss(&connection, &sealer, wanted.answers, about.age.lived).map_err(database)?;
    witness
        .write(about.sighting())
        .map_err(at(witness.path()))?;
    if !about.witnessed {
        about.witnessed = true;
        about.write(&connection, now).map_err(database)?;
    }
    Ok(Established {
        connection,
        about,
        sealer,
        doubt: None,
    })
}

/// It is left as it is.
fn only_looked_at(
    connection: Connection,
    path: &Path,
    mut sealer: Sealer,
    doubt: Option<Doubt>,
) -> Result<Established, OpenError> {
    let about = recorded(&connection, path)?;
    sealer
        .adopt_fingerprint_key(about.id, &about.fingerprint_key)
        .map_err(|error| not_opened(path, AdoptError::Seal(error)))?;
    Ok(Established {
        connection,
        about,
        sealer,
        doubt,
    })
}

/// What it says of itself; `None` where there is none.
fn claimed(
    connection: &Connection,
    found: Found,
    path: &Path,
    now: &Moment,
) -> Result<Option<Claim>, OpenError> {
    Ok(match found {
        Found::Nothing => None,
        Found::Format(1) => Some(recorded_1(connection, path)?.claim()),
        Found::Format(_) => Some(recorded(connection, path)?.claim(now)),
    })
}

/// What is passed over by whoever only looks; he is told all the same.
fn overlooked(
    claim: Option<&Claim>,
    seen: Option<&Result<Sighting, Doubt>>,
    place: Place,
    witness: &Path,
    restored: Restored,
) -> Option<Doubt> {
    match restored {
        Restored::Overlook => witness::doubt(claim?, seen.cloned(), place, witness),
        Restored::Refuse | Restored::Accept { .. } => None,
    }
}

/// `None`: nothing speaks against it.
fn judge(
    claim: Option<&Claim>,
    seen: Option<Result<Sighting, Doubt>>,
    place: Place,
    witness: &Path,
    restored: Restored,
    path: &Path,
) -> Result<Option<Accepted>, OpenError> {
    let sighting = match &seen {
        Some(Ok(seen)) if claim.is_none_or(|claim| claim.sighting.register == seen.register) => {
            Some(*seen)
        }
        Some(_) | None => None,
    };
    let doubt = match (claim, seen) {
        (None, None) => None,
        (None, Some(Ok(seen))) => Some(Doubt::Lost {
            witness: seen.position,
        }),
        (None, Some(Err(doubt))) => Some(doubt),
        (Some(claim), seen) => witness::doubt(claim, seen, place, witness),
    };
    match (doubt, restored) {
        (None, Restored::Refuse | Restored::Overlook) | (Some(_), Restored::Overlook) => Ok(None),
        (None, Restored::Accept { .. }) => {
            tracing::warn!(
                "--accept-restored was given, and nothing speaks for a restored register: leave it \
                 out, or a restore to come will go unnoticed"
            );
            Ok(None)
        }
        (Some(doubt), Restored::Refuse) => Err(OpenError::Restored {
            path: path.to_owned(),
            doubt,
        }),
        (Some(doubt), Restored::Accept { quiet }) => Ok(Some(Accepted {
            doubt,
            seen: sighting,
            quiet,
        })),
    }
}

fn make(
    connection: &Connection,
    id: u128,
    sealer: &Sealer,
    place: Place,
    now: &Moment,
) -> Result<About, AdoptError> {
    schema::create(connection)?;
    about::note(connection, now, "made")?;
    Ok(About::new(
        id,
        sealer.seal_fingerprint_key(id)?,
        place,
        *now,
    ))
}

fn accept(
    connection: &Connection,
    about: &mut About,
    accepted: &Accepted,
    now: &Moment,
) -> rusqlite::Result<()> {
    let Accepted { doubt, seen, quiet } = accepted;
    let (position, epoch) = seen.map_or((0, 0), |seen| (seen.position, seen.epoch));
    about.epoch = about.epoch.max(epoch).saturating_add(1);
    about.position = about.position.max(position);
    about.admits_from = about.age.at(now).after(*quiet);
    let text = format!(
        "accepted although {doubt}; by the user with id {}; epoch {} begins",
        rustix::process::getuid().as_raw(),
        about.epoch
    );
    about::note(connection, now, &text)?;
    tracing::warn!(
        doubt = %doubt,
        epoch = about.epoch,
        quiet_ms = quiet.0,
        "a register that may have been restored was accepted: every token of before is stale, and \
         what was sent in the lost span is not known; nothing is admitted until what was under way \
         must have ended"
    );
    Ok(())
}

/// From an earlier format: the tables first, then the file.
fn bring_up_to_date(
    connection: Connection,
    path: &Path,
    from: u32,
    restored: Restored,
    (first, others): (&MasterKey, &[MasterKey]),
    place: Place,
    now: Moment,
) -> Result<Connection, OpenError> {
    if restored == Restored::Overlook {
        let path = path.to_owned();
        return Err(OpenError::Outdated { path, found: from });
    }
    rewrite::find_room(&connection, path, from)?;
    tracing::info!(
        from,
        to = FORMAT,
        "the register is brought up to date, once: with millions of operations this takes minutes"
    );
    if from == 1 {
        from_format_1(&connection, path, first, others, place, now)?;
    } else if from < BARE {
        migrate::from_format_2(&connection, now).map_err(not_migrated(path))?;
    }
    let why = format!("brought from format {BARE} to format {FORMAT}");
    let rewritten = rewrite::with_checksums(connection, path, &now, &why)?;
    tracing::info!("the register was brought from format {from} to format {FORMAT}");
    Ok(rewritten)
}

/// Its fingerprints were made with a key derived from the one it was made with.
fn from_format_1(
    connection: &Connection,
    path: &Path,
    first: &MasterKey,
    others: &[MasterKey],
    place: Place,
    now: Moment,
) -> Result<(), OpenError> {
    let old = recorded_1(connection, path)?;
    let key = std::iter::once(first)
        .chain(others)
        .find(|key| key.id() == old.sealing_key)
        .ok_or_else(|| OpenError::WrongKey {
            path: path.to_owned(),
            key: old.sealing_key,
        })?;
    let sealed = Sealer::new(key, &[])
        .and_then(|sealer| sealer.seal_fingerprint_key(old.id))
        .map_err(|_| OpenError::NoRandomness)?;
    old.migrate(connection, sealed, place, now)
        .map_err(not_migrated(path))
}

fn not_migrated(path: &Path) -> impl FnOnce(Fault) -> OpenError {
    let path = path.to_owned();
    move |fault| OpenError::Migration {
        path,
        source: fault.into(),
    }
}

fn recorded(connection: &Connection, path: &Path) -> Result<About, OpenError> {
    let about = About::read(connection).map_err(OpenError::database(path))?;
    about.ok_or_else(|| foreign(path))
}

fn recorded_1(connection: &Connection, path: &Path) -> Result<Format1, OpenError> {
    let old = Format1::read(connection).map_err(OpenError::database(path))?;
    old.ok_or_else(|| foreign(path))
}

fn foreign(path: &Path) -> OpenError {
    OpenError::Foreign {
        path: path.to_owned(),
    }
}

fn not_opened(path: &Path, error: AdoptError) -> OpenError {
    let path = path.to_owned();
    match error {
        AdoptError::Database(error) => OpenError::database(&path)(error),
        AdoptError::Seal(SealError::UnknownKey(key)) => OpenError::WrongKey { path, key },
        AdoptError::Seal(SealError::NoRandomness) => OpenError::NoRandomness,
        AdoptError::NoRow | AdoptError::Seal(SealError::Malformed | SealError::Broken) => {
            OpenError::Foreign { path }
        }
    }
}
