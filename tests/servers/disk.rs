//! Where a server's data lies, and a disk that fills up.
//!
//! What always holds: the small disk is a memory file system of its own, so that a full one says what a
//! full disk says and harms nobody else. Where none may be mounted (no root, no sudo, a container without
//! the right) a limit on the size of files stands in for it: the server then says `File too large`.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::account::account;
use super::folder::Folder;
use super::postgres::Postgres;

/// In bytes. A segment of the server's log is as long, so that only what grows is refused.
const LIMIT: u64 = 16 << 20;

impl Postgres {
    /// From now on there is no room on its disk. Only `on_a_small_disk`.
    pub fn fill_disk(&self) {
        assert!(self.settings.small_disk.is_some(), "on everybody's disk");
        if has_own_disk(&self.folder) {
            fill(&filler(&self.folder));
        } else {
            self.limit_files(&LIMIT.to_string());
        }
    }

    /// There is room again.
    pub fn free_disk(&self) {
        if has_own_disk(&self.folder) {
            std::fs::remove_file(filler(&self.folder)).unwrap();
        } else {
            self.limit_files("unlimited");
        }
    }

    fn limit_files(&self, limit: &str) {
        for id in self.running().everyone() {
            let mut prlimit = Command::new("prlimit");
            // The soft limit alone: the hard one could not be raised again.
            prlimit.args(["--pid", &id.to_string(), &format!("--fsize={limit}:")]);
            // A session may have ended since it was looked for.
            let _ = prlimit.output();
        }
    }
}

/// The data directory below that folder.
pub(super) fn data(folder: &Folder) -> PathBuf {
    if has_own_disk(folder) {
        folder.join("disk/data")
    } else {
        folder.join("data")
    }
}

/// Mounts a disk of that size, or says why there is none.
pub(super) fn mount(folder: &Folder, megabytes: u32) {
    let path = folder.create("disk");
    let mut command = Command::new("mount");
    if account().is_none() {
        command = Command::new("sudo");
        command.args(["-n", "mount"]);
    }
    let (user, group) = owner(&path);
    let options = format!("size={megabytes}m,mode=700,uid={user},gid={group}");
    command.args(["-t", "tmpfs", "-o", &options, "tmpfs"]);
    let mounted = command.arg(&path).output();
    if !mounted.as_ref().is_ok_and(|it| it.status.success()) {
        eprintln!("no small disk, files are limited instead: {mounted:?}");
        std::fs::remove_dir(path).unwrap();
    }
}

fn owner(path: &Path) -> (u32, u32) {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).unwrap();
    (metadata.uid(), metadata.gid())
}

fn has_own_disk(folder: &Folder) -> bool {
    folder.join("disk").exists()
}

fn filler(folder: &Folder) -> PathBuf {
    folder.join("disk/filler")
}

/// To the last page.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    loop {
        match file.write(&[0; 4096]) {
            Ok(_) => {}
            Err(fault) if fault.kind() == ErrorKind::StorageFull => return,
            Err(fault) => panic!("filling the disk: {fault}"),
        }
    }
}
