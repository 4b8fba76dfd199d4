//! Ports and folders that belong to one test alone.
//!
//! What always holds: a port is still free when a proxy is started a second time; a folder lies on
//! the disk of the build, since a register refuses memory file systems.

use tempfile::TempDir;

pub use crate::servers::ports::free;

/// A folder that goes when its owner goes.
pub fn folder() -> TempDir {
    tempfile::Builder::new()
        .prefix("it-")
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .unwrap()
}
