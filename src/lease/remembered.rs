//! The last ownership, in a small file: what a restarted sidecar must know before it claims anything.
//!
//! What always holds: it is on the disk before anything is claimed. It is written aside and renamed: a crash leaves
//! this one or the one before. One that cannot be understood, that is of another resource or of a later version
//! proves nothing, and is never taken for none. One process at a time writes it. A copy of it is known as one: it
//! names the file beside it, and that is another one elsewhere.
//!
//! What it does not do: say who may own (`held`), or keep what the worker says of itself: only digests of it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::protocol::ids::{AcquisitionId, FencingToken, ResourceName};
use crate::protocol::time::{BootId, BootInstant};

/// What this version writes.
const FORMAT: u32 = 1;

/// No file is longer.
const LONGEST: u64 = 64 << 10;

/// So many starts of the worker are remembered that owned before.
const STARTS: usize = 512;

/// How often the lock is tried, and how long between: whoever is just ending has it for a moment more.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// What a worker's start is known by: a digest of what it says of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Start(String);

impl Start {
    pub(super) fn of(text: &str) -> Self {
        Self(short_digest(text))
    }
}

/// Half of it, in 32 hexadecimal digits.
fn short_digest(text: &str) -> String {
    let digest = digest(&SHA256, text.as_bytes());
    let half = digest.as_ref().iter().take(16);
    half.fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

/// A process: no other has the same number and start in one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) boot: BootId,
    pub(super) number: u32,
    /// In ticks since the boot.
    pub(super) started: u64,
}

impl Start {
    /// Not a digest: it must be found again.
    pub(super) fn of_process(process: &Process) -> Self {
        let Process {
            boot,
            number,
            started,
        } = process;
        Self(format!("process {:032x} {number} {started}", boot.0))
    }

    /// Which process it is, where it is one.
    pub(super) fn process(&self) -> Option<Process> {
        let mut parts = self.0.strip_prefix("process ")?.split(' ');
        Some(Process {
            boot: BootId(u128::from_str_radix(parts.next()?, 16).ok()?),
            number: parts.next()?.parse().ok()?,
            started: parts.next()?.parse().ok()?,
        })
    }
}

/// The last ownership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ownership {
    pub(super) acquisition: AcquisitionId,
    pub(super) token: FencingToken,
    /// Under which start of the worker; `None`: its probe does not say.
    pub(super) start: Option<Start>,
    /// All starts that owned, as far back as is remembered.
    pub(super) starts: Vec<Start>,
    /// When that start was last seen.
    pub(super) seen: BootInstant,
    /// What kind of sign tells starts apart.
    pub(super) sign: String,
    /// The boot that `until` and `seen` count in.
    pub(super) boot: BootId,
    pub(super) until: BootInstant,
    /// Was it given back?
    pub(super) released: bool,
}

impl Ownership {
    /// Adds the start that owns now; the oldest go.
    pub(super) fn with_starts(mut self, before: &[Start]) -> Self {
        let own = self.start.iter();
        let mut starts: Vec<Start> = before.iter().chain(own).cloned().collect();
        starts.dedup();
        let excess = starts.len().saturating_sub(STARTS);
        starts.drain(..excess);
        self.starts = starts;
        self
    }
}

/// What is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// Nobody ever owned here.
    Never,
    /// Something is there, and cannot be used. Why.
    Unreadable(String),
    /// Of this place.
    Known(Ownership),
    /// Of another place: a copy. Its acquisition may be somebody else's.
    Copied(Ownership),
}

/// The file, locked.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    resource: ResourceName,
    place: String,
    /// Whose turn it is to write.
    writing: Arc<Mutex<()>>,
    /// Held for as long as it is open.
    _lock: File,
}

/// As it stands in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    format: u32,
    resource: String,
    place: String,
    acquisition: String,
    token: String,
    start: Option<Start>,
    starts: Vec<Start>,
    seen_ms: u64,
    sign: String,
    boot: String,
    until_ms: u64,
    released: bool,
}

impl StateFile {
    /// Of the lease on that resource, whatever it is called, in a directory that is made if need be. Blocks.
    pub(super) fn open(directory: &Path, resource: ResourceName) -> io::Result<Self> {
        let name = short_digest(resource.as_str());
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(directory)?;
        let lock = directory.join(format!("lease-{name}.lock"));
        let lock = private().open(lock)?;
        if !own(&lock)? {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                "another process holds this lease from the same directory",
            ));
        }
        let beside = lock.metadata()?;
        Ok(Self {
            path: directory.join(format!("lease-{name}.json")),
            resource,
            place: format!("{}:{}", beside.dev(), beside.ino()),
            writing: Arc::default(),
            _lock: lock,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What is remembered. Blocks.
    pub(super) fn read(&self) -> Last {
        let mut text = String::new();
        let read = File::open(&self.path).and_then(|it| it.take(LONGEST).read_to_string(&mut text));
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Last::Never,
            Err(error) => Last::Unreadable(error.to_string()),
            Ok(_) => self.understood(&text),
        }
    }

    /// One after another, in the order in which they came: whoever has the turn keeps it until his write is over, though
    /// nobody waits for it any more.
    pub(super) async fn turn(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.writing).lock_owned().await
    }

    /// Remembers it. Blocks.
    pub(super) fn write(&self, last: &Ownership) -> io::Result<()> {
        let written = Written {
            format: FORMAT,
            resource: self.resource.to_string(),
            place: self.place.clone(),
            acquisition: last.acquisition.as_str().to_owned(),
            token: last.token.to_string(),
            start: last.start.clone(),
            starts: last.starts.clone(),
            seen_ms: last.seen.0,
            sign: last.sign.clone(),
            boot: format!("{:032x}", last.boot.0),
            until_ms: last.until.0,
            released: last.released,
        };
        let text = serde_json::to_vec(&written).map_err(io::Error::other)?;
        let mut aside = self.path.clone().into_os_string();
        aside.push(".new");
        let mut file = private().truncate(true).open(&aside)?;
        file.write_all(&text)?;
        file.sync_all()?;
        std::fs::rename(&aside, &self.path)?;
        // A name that is lost would bring the one before back, and with it a start that has owned since.
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
            Some(_) | None => File::open(".")?.sync_all(),
        }
    }

    fn understood(&self, text: &str) -> Last {
        let written: Written = match serde_json::from_str(text) {
            Ok(written) => written,
            Err(error) => return Last::Unreadable(error.to_string()),
        };
        let unreadable = |why: &str| Last::Unreadable(why.to_owned());
        if written.format != FORMAT {
            return unreadable("it is of another version");
        }
        if written.resource != self.resource.as_str() {
            return unreadable("it is of another resource");
        }
        let boot = u128::from_str_radix(&written.boot, 16).ok();
        let token = FencingToken::parse(&written.token);
        let (Some(boot), Some(token)) = (boot, token) else {
            return unreadable("its token or its boot cannot be read");
        };
        let last = Ownership {
            acquisition: AcquisitionId::new(written.acquisition),
            token,
            start: written.start,
            starts: written.starts,
            seen: BootInstant(written.seen_ms),
            sign: written.sign,
            boot: BootId(boot),
            until: BootInstant(written.until_ms),
            released: written.released,
        };
        if written.place == self.place {
            Last::Known(last)
        } else {
            Last::Copied(last)
        }
    }
}

/// A file for this user alone.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

/// Takes the lock; `false`: somebody else has it.
fn own(lock: &File) -> io::Result<bool> {
    for _ in 0..TRIES {
        match flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) => thread::sleep(PAUSE),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(directory: &Path) -> StateFile {
        StateFile::open(directory, ResourceName::new("account:1")).unwrap()
    }

    fn owned() -> Ownership {
        Ownership {
            acquisition: AcquisitionId::new("a-1"),
            token: FencingToken::parse("3:9007199254740993").unwrap(),
            start: Some(Start::of("first")),
            starts: vec![Start::of("first")],
            seen: BootInstant(1_000),
            sign: "process".to_owned(),
            boot: BootId(7),
            until: BootInstant(30_000),
            released: false,
        }
    }

    #[test]
    fn what_was_written_is_read_by_whoever_comes_after() {
        let folder = tempfile::tempdir().unwrap();
        let state = file(folder.path());
        assert_eq!(state.read(), Last::Never);
        state.write(&owned()).unwrap();
        drop(state);
        assert_eq!(file(folder.path()).read(), Last::Known(owned()));
    }

    #[test]
    fn what_cannot_be_understood_is_not_taken_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let state = file(folder.path());
        state.write(&owned()).unwrap();
        let good = std::fs::read_to_string(state.path()).unwrap();
        let broken = [
            String::new(),
            good.replace("\"format\":1", "\"format\":2"),
            good.replace("account:1", "account:2"),
            good.replace("3:9007199254740993", "3:-1"),
            good.replace("\"released\"", "\"later\":1,\"released\""),
            good[..good.len() / 2].to_owned(),
        ];
        for text in broken {
            std::fs::write(state.path(), &text).unwrap();
            assert!(matches!(state.read(), Last::Unreadable(_)), "{text}");
        }
    }

    /// C23: a copied directory.
    #[test]
    fn a_copy_is_known_as_one_and_one_directory_has_one_owner() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let state = file(here.path());
        state.write(&owned()).unwrap();
        let copy = there.path().join(state.path().file_name().unwrap());
        std::fs::copy(state.path(), copy).unwrap();
        assert_eq!(file(there.path()).read(), Last::Copied(owned()));
        let second = StateFile::open(here.path(), ResourceName::new("account:1"));
        assert_eq!(second.unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
