//! Folders that servers may write to, and that nobody has to clean up.
//!
//! What always holds: a folder is gone soon after its value is, and soon after the test process if
//! that was killed or left the value in a static: a shell waits for the end of a pipe from here, and
//! then removes it. It lies where everybody may pass, since a server does not run as root.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::account::account;

/// Waits for the pipe's end. What a dying server still writes is removed at the next look; a disk
/// below it is given back first.
const REMOVER: &str = r#"
cat
for look in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  [ -d "$1/disk" ] && { umount -l "$1/disk" || sudo -n umount -l "$1/disk"; } 2>/dev/null
  rm -rf "$1" 2>/dev/null && exit
  sleep 0.3
done
"#;

/// A folder of the servers' account.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    remover: Child,
}

impl Folder {
    /// An empty one.
    pub fn new() -> Self {
        let made = tempfile::Builder::new().prefix("fencepost-").tempdir();
        let path = made.unwrap().keep();
        let remover = Command::new("sh")
            .args(["-c", REMOVER, "remover"])
            .arg(&path)
            .stdin(Stdio::piped())
            // A terminal's interrupt must not end it together with the tests.
            .process_group(0)
            .spawn()
            .unwrap();
        give(&path);
        Self { path, remover }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A folder in it.
    pub fn create(&self, name: &str) -> PathBuf {
        let path = self.join(name);
        fs::create_dir(&path).unwrap();
        give(&path);
        path
    }

    /// A file in it that only the servers' account may read.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        give(&path);
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.remover.stdin.take());
        let _ = self.remover.wait();
    }
}

/// Makes the servers' account its owner.
pub fn give(path: &Path) {
    if let Some(account) = account() {
        chown(path, Some(account.user), Some(account.group)).unwrap();
    }
}
