//! Room on the disk that is kept for a full one.
//!
//! What always holds: while the reserve is not there, nothing is admitted. Once the disk is full it is
//! given back to the file system, so that what was sent already can still be recorded; it is made
//! again as soon as there is room, and only then is anything admitted again.
//!
//! What it does not do: keep others on the same disk from taking what was given back. A file system
//! that compresses or copies on write may promise less than it seems to (`fallocate`).

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

use super::ground;

/// A file of nothing.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    bytes: u64,
    held: bool,
}

impl Reserve {
    /// Makes it if it is not there. On a full disk there is none. Of no bytes there is always one.
    pub(super) fn make(dir: &Path, bytes: u64) -> io::Result<Self> {
        let mut reserve = Self {
            path: dir.join("reserve"),
            bytes,
            held: false,
        };
        if bytes == 0 {
            reserve.held = true;
            return Ok(reserve);
        }
        match reserve.refill() {
            Ok(()) => Ok(reserve),
            Err(error) if is_full(&error) => {
                tracing::error!(
                    bytes,
                    "the disk of the register is full: nothing is admitted until there is room"
                );
                Ok(reserve)
            }
            Err(error) => Err(error),
        }
    }

    /// Is it there?
    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    /// Gives it back to the file system. True if it was there.
    pub(super) fn spend(&mut self) -> bool {
        if !std::mem::take(&mut self.held) {
            return false;
        }
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::error!(error = %error, "the reserve on the disk cannot be given back");
        }
        true
    }

    /// Makes it again.
    pub(super) fn refill(&mut self) -> io::Result<()> {
        let made = self.allocate();
        self.held = made.is_ok();
        if made.is_err() {
            // What was had of it is needed elsewhere.
            let _ = std::fs::remove_file(&self.path);
        }
        made
    }

    fn allocate(&self) -> io::Result<()> {
        let mut file = ground::private_file().open(&self.path)?;
        match fallocate(&file, FallocateFlags::empty(), 0, self.bytes) {
            Ok(()) => file.sync_all(),
            Err(rustix::io::Errno::OPNOTSUPP) if file.metadata()?.len() >= self.bytes => Ok(()),
            Err(rustix::io::Errno::OPNOTSUPP) => {
                let block = [0xA5; 8 * 1024];
                let mut left = self.bytes;
                while left > 0 {
                    let length = usize::try_from(left)
                        .unwrap_or(block.len())
                        .min(block.len());
                    file.write_all(block.get(..length).unwrap_or(&block))?;
                    left = left.saturating_sub(u64::try_from(length).unwrap_or(left));
                }
                file.sync_all()
            }
            Err(errno) => Err(errno.into()),
        }
    }
}

pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_its_room_gives_it_back_and_takes_it_again() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::TempDir::new().unwrap();
        let bytes = 256 * 1024;
        let blocks = || std::fs::metadata(dir.path().join("reserve")).map(|it| it.blocks() * 512);
        let mut reserve = Reserve::make(dir.path(), bytes).unwrap();
        assert!(reserve.is_held());
        assert!(blocks().unwrap() >= bytes);
        assert!(reserve.spend());
        assert!(!reserve.is_held() && blocks().is_err());
        assert!(!reserve.spend());
        reserve.refill().unwrap();
        assert!(reserve.is_held() && blocks().unwrap() >= bytes);
    }
}
