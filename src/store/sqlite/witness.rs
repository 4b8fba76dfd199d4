//! The witness: a small file outside the database that remembers how far the register had come.
//!
//! What always holds: it is written after the commit that it tells of, so that whatever crashes, it
//! is never ahead of a register that kept its commits. A register that is behind it has lost some: it
//! was restored from a backup, or its disk lied. A register whose database file is not the one that it
//! noted down itself was copied or put back, whether or not its witness came along.
//!
//! What it does not do: notice the loss of commits that the witness was not told of (those of about
//! the last second), or a rollback that takes the witness with it: whoever rolls back whole volumes
//! keeps the witness on another one.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::ground;

/// No witness is longer.
const LONGEST: u64 = 4_096;

/// What a witness saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sighting {
    /// Of which register.
    pub(super) register: u128,
    /// How far it had come: counted up by commits.
    pub(super) position: u64,
    /// The epoch in force.
    pub(super) epoch: u64,
}

/// The file that holds the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Number of the file; 0 in a backup.
    pub(super) inode: u64,
    /// Number of its file system: the same only within a boot.
    pub(super) device: u64,
}

/// What the register says of itself when it is opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) sighting: Sighting,
    /// Was there ever a witness?
    pub(super) witnessed: bool,
    /// Where it was kept last; `None` where that was not noted down yet.
    pub(super) place: Option<Place>,
    /// Is this the boot that it was opened in last?
    pub(super) same_boot: bool,
}

/// Why a register may not be what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Its witness saw commits that it does not have.
    Behind {
        /// How far the register has come.
        register: u64,
        /// How far the witness saw it come.
        witness: u64,
    },
    /// There is no register, and a witness of one.
    Lost {
        /// How far the witness saw it come.
        witness: u64,
    },
    /// Its file is another one than it was.
    Copied {
        /// How far the register has come.
        register: u64,
        /// How far its witness saw it come, if it has one.
        witness: Option<u64>,
    },
    /// Its witness is gone.
    NoWitness {
        /// How far the register has come.
        register: u64,
        /// Where the witness was to be.
        path: PathBuf,
    },
    /// The witness is that of another register.
    OtherWitness {
        /// Where it is.
        path: PathBuf,
    },
    /// The witness cannot be understood.
    BrokenWitness {
        /// Where it is.
        path: PathBuf,
    },
}

/// The file.
#[derive(Debug)]
pub(super) struct Witness {
    path: PathBuf,
    last: Mutex<Option<Sighting>>,
}

impl Witness {
    pub(super) fn at(path: PathBuf) -> Self {
        Self {
            path,
            last: Mutex::new(None),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What it saw. `Ok(None)`: there is none; the inner error: it cannot be understood.
    pub(super) fn read(&self) -> io::Result<Option<Result<Sighting, Doubt>>> {
        let mut text = String::new();
        match std::fs::File::open(&self.path) {
            Ok(file) => match file.take(LONGEST).read_to_string(&mut text) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => text.clear(),
                Err(error) => return Err(error),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        let seen = Sighting::parse(&text).ok_or_else(|| Doubt::BrokenWitness {
            path: self.path.clone(),
        });
        Ok(Some(seen))
    }

    /// Remembers what was committed. Written aside and renamed: a crash leaves this sighting or the
    /// one before. Blocks.
    pub(super) fn write(&self, seen: Sighting) -> io::Result<()> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // Two may tell it at the same time, in any order.
        if last.is_some_and(|last| last.position >= seen.position) {
            return Ok(());
        }
        let mut aside = self.path.clone().into_os_string();
        aside.push(".new");
        let mut file = ground::overwritten(Path::new(&aside))?;
        file.write_all(seen.to_string().as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&aside, &self.path)?;
        if last.is_none() {
            // A lost rename leaves an older sighting, but the first must not leave none.
            ground::sync_parent(&self.path)?;
        }
        *last = Some(seen);
        Ok(())
    }
}

/// How far a register has come, for a person.
pub(super) fn told(position: u64, epoch: u64) -> String {
    format!("position {position}, epoch {epoch}")
}

/// Compares what a register claims with what its witness saw.
pub(super) fn doubt(
    claim: &Claim,
    seen: Option<Result<Sighting, Doubt>>,
    actual: Place,
    witness: &Path,
) -> Option<Doubt> {
    let register = claim.sighting.position;
    let path = || witness.to_owned();
    let seen_at = match &seen {
        Some(Ok(seen)) => Some(seen.position),
        Some(Err(_)) | None => None,
    };
    match seen {
        Some(Err(doubt)) => return Some(doubt),
        Some(Ok(seen)) if seen.register != claim.sighting.register => {
            return Some(Doubt::OtherWitness { path: path() });
        }
        Some(Ok(seen)) if seen.position > register || seen.epoch > claim.sighting.epoch => {
            return Some(Doubt::Behind {
                register,
                witness: seen.position,
            });
        }
        None if claim.witnessed => {
            return Some(Doubt::NoWitness {
                register,
                path: path(),
            });
        }
        Some(Ok(_)) | None => {}
    }
    let moved = claim.place.is_some_and(|was| {
        was.inode != actual.inode || (claim.same_boot && was.device != actual.device)
    });
    moved.then_some(Doubt::Copied {
        register,
        witness: seen_at,
    })
}

impl Sighting {
    /// For a person.
    pub(super) fn told(&self) -> String {
        told(self.position, self.epoch)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        if field("fencepost-witness")? != "1" {
            return None;
        }
        let seen = Self {
            register: u128::from_str_radix(field("register")?, 16).ok()?,
            position: field("position")?.parse().ok()?,
            epoch: field("epoch")?.parse().ok()?,
        };
        (field("end")? == ".").then_some(seen)
    }
}

impl fmt::Display for Sighting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            register,
            position,
            epoch,
        } = self;
        writeln!(f, "fencepost-witness 1\nregister {register:032x}")?;
        writeln!(f, "position {position}\nepoch {epoch}\nend .")
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Behind { register, witness } => write!(
                f,
                "it stands at {register}, and its witness saw it at {witness}: commits are missing"
            ),
            Self::Lost { witness } => write!(
                f,
                "it is gone, and its witness saw it at {witness}: everything is missing"
            ),
            Self::Copied { register, witness } => {
                write!(f, "it stands at {register}, ")?;
                if let Some(witness) = witness {
                    write!(f, "its witness saw it at {witness}, ")?;
                }
                f.write_str(
                    "and its file is not the one that it was kept in: it was copied or put back",
                )
            }
            Self::NoWitness { register, path } => write!(
                f,
                "it stands at {register}, and its witness {} is missing",
                path.display()
            ),
            Self::OtherWitness { path } => {
                write!(f, "{} is the witness of another register", path.display())
            }
            Self::BrokenWitness { path } => {
                write!(f, "its witness {} cannot be understood", path.display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: Sighting = Sighting {
        register: 7,
        position: 40,
        epoch: 2,
    };
    const HERE: Place = Place {
        inode: 11,
        device: 3,
    };

    fn claim() -> Claim {
        Claim {
            sighting: SEEN,
            witnessed: true,
            place: Some(HERE),
            same_boot: true,
        }
    }

    fn doubted(claim: &Claim, seen: Option<Sighting>, actual: Place) -> Option<Doubt> {
        doubt(claim, seen.map(Ok), actual, Path::new("/w"))
    }

    #[test]
    fn a_sighting_is_read_as_it_was_written() {
        let text = SEEN.to_string();
        assert_eq!(Sighting::parse(&text), Some(SEEN));
        for cut in 0..text.len() - 1 {
            assert_eq!(Sighting::parse(&text[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn a_register_that_kept_its_commits_is_not_doubted() {
        assert_eq!(doubted(&claim(), Some(SEEN), HERE), None);
        // A crash came between a commit and its witness.
        let behind = Sighting {
            position: 39,
            ..SEEN
        };
        assert_eq!(doubted(&claim(), Some(behind), HERE), None);
        // Disks are numbered anew at every boot.
        let renumbered = Place { device: 4, ..HERE };
        let rebooted = Claim {
            same_boot: false,
            ..claim()
        };
        assert_eq!(doubted(&rebooted, Some(SEEN), renumbered), None);
        // Made by a version that knew of no witness.
        let older = Claim {
            witnessed: false,
            place: None,
            ..claim()
        };
        assert_eq!(doubted(&older, None, HERE), None);
    }

    #[test]
    fn every_sign_of_a_restore_is_doubted() {
        let ahead = Sighting {
            position: 41,
            ..SEEN
        };
        let behind = Doubt::Behind {
            register: 40,
            witness: 41,
        };
        assert_eq!(doubted(&claim(), Some(ahead), HERE), Some(behind));
        let newer_epoch = Sighting { epoch: 3, ..SEEN };
        assert!(doubted(&claim(), Some(newer_epoch), HERE).is_some());
        let other = Sighting {
            register: 8,
            ..SEEN
        };
        let path = PathBuf::from("/w");
        assert_eq!(
            doubted(&claim(), Some(other), HERE),
            Some(Doubt::OtherWitness { path: path.clone() })
        );
        let register = 40;
        assert_eq!(
            doubted(&claim(), None, HERE),
            Some(Doubt::NoWitness { register, path })
        );
        for elsewhere in [Place { inode: 12, ..HERE }, Place { device: 4, ..HERE }] {
            assert_eq!(
                doubted(&claim(), Some(SEEN), elsewhere),
                Some(Doubt::Copied {
                    register,
                    witness: Some(40)
                })
            );
        }
    }
}
