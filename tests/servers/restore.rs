//! Back to a point in the past: a copy of the data, and the log of changes up to there.
//!
//! What always holds: a restored server is another server, with a timeline of its own; the one that the
//! copy was taken of goes on, or has gone.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::account::{command, run};
use super::folder::Folder;
use super::postgres::Postgres;
use super::replica::base_backup;
use super::settings::Settings;
use super::waiting::until;

/// A copy of a server's data, and its archive.
#[derive(Debug)]
pub struct Backup {
    copy: Folder,
    source: Arc<Folder>,
    settings: Settings,
}

/// A moment of one server.
#[derive(Clone, Debug)]
pub struct RestorePoint {
    name: String,
}

impl Postgres {
    /// What it holds now. Only `archiving`.
    pub fn backup(&self) -> Backup {
        assert!(self.settings.archiving, "it keeps no archive");
        let copy = Folder::new();
        base_backup(self.address(), &copy);
        Backup {
            copy,
            source: Arc::clone(&self.folder),
            settings: Settings {
                small_disk: None,
                ..self.settings.clone()
            },
        }
    }

    /// Now, which an earlier backup can be restored to: what is committed is in, what is not yet is not.
    /// Returns when the archive reaches it.
    pub fn restore_point(&self) -> RestorePoint {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let name = format!("point_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let sql = format!("SELECT pg_walfile_name(pg_create_restore_point('{name}'))");
        let file = archive(&self.folder).join(self.query(&sql));
        self.query("SELECT pg_switch_wal()");
        until("the archive reaches the restore point", || file.exists());
        RestorePoint { name }
    }
}

impl Backup {
    /// A new server that holds what the old one held then. Returns when it takes writes.
    pub fn restored_to(&self, point: &RestorePoint) -> Postgres {
        let folder = Folder::new();
        run(command("cp")
            .args(["-a", "--reflink=auto"])
            .args([self.copy.join("data"), folder.join("data")]));
        folder.write("data/recovery.signal", "");
        let archive = archive(&self.source);
        let settings = self
            .settings
            .clone()
            .with(
                "restore_command",
                &format!("cp {}/%f %p", archive.display()),
            )
            .with("recovery_target_name", &point.name)
            .with("recovery_target_action", "promote");
        let server = Postgres::start_on(folder, settings);
        server.until_writable();
        server
    }
}

fn archive(folder: &Folder) -> PathBuf {
    folder.join("archive")
}

/// Makes room for a server's archive.
pub(super) fn prepare(folder: &Folder) {
    folder.create("archive");
}

/// What a server is told about its archive. A file appears there whole.
pub(super) fn lines(folder: &Folder) -> [(&'static str, String); 2] {
    let archive = archive(folder);
    let archive = archive.display();
    let command = format!("cp %p {archive}/.%f && mv {archive}/.%f {archive}/%f");
    [
        ("archive_mode", "on".to_owned()),
        ("archive_command", command),
    ]
}
