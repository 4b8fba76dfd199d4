//! Where a server's data lies: in its folder, or on a small disk of its own there.

use std::path::PathBuf;

use super::folder::Folder;

/// The data directory below that folder.
pub(super) fn data(folder: &Folder) -> PathBuf {
    let disk = folder.join("disk");
    if disk.exists() {
        disk.join("data")
    } else {
        folder.join("data")
    }
}

pub(super) fn mount(_folder: &Folder, _megabytes: u32) {
    unimplemented!()
}
