//! The ground a register stands on: its directory, its one owner, its key file.
//!
//! What always holds: at most one process owns the directory, by a kernel lock that ends with the
//! process, however it ends; its file system lasts, unless it was declared that it need not; fsync
//! works there at start; what is created is readable by its owner only.
//!
//! What it does not do: notice a disk that lies about its cache.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use rustix::fs::{FlockOperation, flock, fstatfs};

use super::filesystem::{Worth, worth};
use super::open_error::OpenError;
use super::witness::Place;
use crate::store::seal::{KEY_LEN, MasterKey};

const LOCK: &str = "lock";
const KEY: &str = "key";
const DATABASE: &str = "register.db";
const PRIVATE: u32 = 0o600;

/// How often the lock is tried, and how long from one try to the next: for less than half a second.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(25);

/// A directory that this process owns for as long as the value lives.
#[derive(Debug)]
pub(super) struct Ground {
    dir: PathBuf,
    lock: File,
}

impl Drop for Ground {
    /// The end of the process gives the lock back, and so does closing the file, but not while a child that was
    /// just started still has it too.
    fn drop(&mut self) {
        // It goes with the file at the latest.
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

impl Ground {
    /// Takes possession of `dir`, creating it if need be. `ephemeral`: it need not outlive a reboot.
    pub(super) fn take(dir: &Path, ephemeral: bool) -> Result<Self, OpenError> {
        create_private_dir(dir).map_err(at(dir))?;
        // Before the lock: on a network file system it would prove nothing.
        judge(dir, ephemeral)?;
        let path = dir.join(LOCK);
        let lock = private_file().open(&path).map_err(at(&path))?;
        if !own(&lock).map_err(at(&path))? {
            return Err(OpenError::InUse {
                path: dir.to_owned(),
            });
        }
        Ok(Self {
            dir: dir.to_owned(),
            lock,
        })
    }

    /// Is there a register in that directory, or something that was to become one?
    pub(super) fn holds_register(dir: &Path) -> bool {
        Self::database_in(dir).exists()
    }

    /// Where the database file of a register in that directory is.
    pub(super) fn database_in(dir: &Path) -> PathBuf {
        dir.join(DATABASE)
    }

    /// The database file, there and private before SQLite opens it: its journal inherits the mode.
    pub(super) fn database(&self) -> Result<PathBuf, OpenError> {
        let path = Self::database_in(&self.dir);
        if path.is_symlink() {
            // The journal would lie on one side of it and the lock on the other.
            return Err(OpenError::Link { path });
        }
        private_file().open(&path).map_err(at(&path))?;
        sync(&self.dir)?;
        Ok(path)
    }

    /// Does here what every commit relies on: write, fsync, rename, fsync of the directory.
    pub(super) fn prove_fsync(&self) -> Result<(), OpenError> {
        let aside = self.dir.join("proof.new");
        let path = self.dir.join("proof");
        let failed = |step| {
            let path = self.dir.clone();
            move |source| OpenError::NotSynced { path, step, source }
        };
        let mut file = overwritten(&aside).map_err(failed("creating a file"))?;
        file.write_all(b"fencepost").map_err(failed("writing"))?;
        file.sync_all().map_err(failed("fsync of a file"))?;
        std::fs::rename(&aside, &path).map_err(failed("renaming a file"))?;
        File::open(&self.dir)
            .and_then(|dir| dir.sync_all())
            .map_err(failed("fsync of the directory"))?;
        std::fs::remove_file(&path).map_err(failed("removing a file"))
    }

    /// Which file the database is.
    pub(super) fn place(database: &Path) -> Result<Place, OpenError> {
        let found = std::fs::metadata(database).map_err(at(database))?;
        Ok(Place {
            inode: found.ino(),
            device: found.dev(),
        })
    }

    /// Where things lie that belong to the register.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the key file is, or is to be.
    pub(super) fn key_path(&self) -> PathBuf {
        self.dir.join(KEY)
    }

    /// The key beside the register, if there is one.
    pub(super) fn key(&self) -> Result<Option<MasterKey>, OpenError> {
        let path = self.key_path();
        match File::open(&path) {
            Ok(file) => read_key(file, &path).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(at(&path)(error)),
        }
    }

    /// A key for a new register. Written aside and renamed: a crash leaves a whole key or none.
    pub(super) fn make_key(&self) -> Result<MasterKey, OpenError> {
        let path = &self.key_path();
        let key = MasterKey::random().map_err(|_| OpenError::NoRandomness)?;
        let aside = self.dir.join("key.new");
        let mut file = overwritten(&aside).map_err(at(&aside))?;
        file.write_all(key.as_bytes())
            .and_then(|()| file.sync_all())
            .and_then(|()| std::fs::rename(&aside, path))
            .map_err(at(path))?;
        sync(&self.dir)?;
        Ok(key)
    }
}

/// Takes the lock; `false`: somebody else has it. Blocks for a moment.
///
/// Whoever is just ending has it until the kernel is done with it. And a child has it for as long as it takes
/// from its fork to its exec, whichever thread of the owner started it and whatever for: the file is closed on
/// exec, and not before. Neither is another owner, and neither lasts.
fn own(lock: &File) -> io::Result<bool> {
    for tries_left in (0..TRIES).rev() {
        match flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) if tries_left > 0 => thread::sleep(PAUSE),
            Err(rustix::io::Errno::WOULDBLOCK) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(false)
}

/// Is this a place for what must outlive restarts as a register does? Blocks.
pub fn outlives(dir: &Path, ephemeral: bool) -> Result<(), OpenError> {
    judge(dir, ephemeral)
}

/// Is this a place for a register?
fn judge(dir: &Path, ephemeral: bool) -> Result<(), OpenError> {
    let found = File::open(dir)
        .and_then(|dir| Ok(fstatfs(dir)?))
        .map_err(at(dir))?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of 32 bits in a word whose size depends on the machine"
    )]
    let magic = found.f_type as u32;
    let path = dir.to_owned();
    match worth(magic) {
        Worth::Lasting => Ok(()),
        Worth::Shared(system) => Err(OpenError::Network { path, system }),
        Worth::Volatile(_) if ephemeral => Ok(()),
        Worth::Volatile(system) => Err(OpenError::Volatile { path, system }),
        Worth::Opaque(system) => {
            tracing::warn!(
                path = %dir.display(),
                system,
                "the register is on a file system that may have anything behind it: make sure that it \
                 is local, that its locks hold and that its fsync reaches a disk"
            );
            Ok(())
        }
        Worth::Unknown => {
            tracing::warn!(
                path = %dir.display(),
                magic = format!("{magic:#x}"),
                "the register is on a file system that is not known here: make sure that it is local, \
                 that its locks hold and that its fsync reaches a disk"
            );
            Ok(())
        }
    }
}

/// A name for a new register.
pub(super) fn random_id() -> Result<u128, OpenError> {
    let mut bytes = [0; 16];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| OpenError::NoRandomness)?;
    Ok(u128::from_be_bytes(bytes))
}

fn read_key(file: File, path: &Path) -> Result<MasterKey, OpenError> {
    let metadata = file.metadata().map_err(at(path))?;
    if metadata.mode() & 0o077 != 0 {
        // Some platforms widen modes of whole volumes; refusing would only take the service down.
        tracing::warn!(path = %path.display(), "the key file is readable by others than its owner");
    }
    let mut bytes = Vec::with_capacity(KEY_LEN);
    file.take(1 + u64::try_from(KEY_LEN).unwrap_or_default())
        .read_to_end(&mut bytes)
        .map_err(at(path))?;
    let bytes: [u8; KEY_LEN] = bytes.try_into().map_err(|_| OpenError::KeyMalformed {
        path: path.to_owned(),
    })?;
    Ok(MasterKey::new(bytes))
}

fn create_private_dir(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    sync_parent(dir)
}

pub(super) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(PRIVATE);
    options
}

/// A private file, empty.
pub(super) fn overwritten(path: &Path) -> io::Result<File> {
    private_file().truncate(true).open(path)
}

/// A new name is durable only once its directory is.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        Some(_) | None => File::open(".")?.sync_all(),
    }
}

fn sync(dir: &Path) -> Result<(), OpenError> {
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(at(dir))
}

pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::File { path, source }
}
