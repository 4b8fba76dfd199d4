//! The report's file, beside the register: so that a roll-out of weeks survives restarts.
//!
//! What always holds: the register's own file is not touched for it, so that counting costs no commit,
//! goes on while the register cannot commit, and cannot harm it. The file is whole, of before or of
//! after: it is written beside, synced, and put in its place. One that cannot be read is set aside,
//! never written over.
//!
//! What it does not do: promise the last seconds before a crash, or travel with a backup.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::counts::{Book, Counts};
use crate::telemetry::errors::chain;

/// Its name in the register's directory.
const NAME: &str = "report.json";

/// Format of the file.
const FORMAT: u32 = 1;

/// Why the report of before is not gone on from.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// It cannot be read or written.
    #[error("the report at {} cannot be read or written", .0.display())]
    File(PathBuf, #[source] io::Error),
    /// It is not what this version writes.
    #[error("the report at {} is not understood", .0.display())]
    NotUnderstood(PathBuf),
}

#[derive(Serialize)]
struct Written<'a> {
    format: u32,
    #[serde(flatten)]
    book: &'a Book,
}

#[derive(Deserialize)]
struct Read {
    format: u32,
    #[serde(flatten)]
    book: Book,
}

/// How often what was counted is kept.
const EVERY: Duration = Duration::from_secs(5);

/// Keeps what is counted, every few seconds, for as long as it runs.
pub async fn keep(counts: Counts, register: PathBuf) {
    let mut kept = counts.changes();
    let mut is_failing = false;
    loop {
        tokio::time::sleep(EVERY).await;
        let changes = counts.changes();
        if changes == kept {
            continue;
        }
        let (book, directory) = (counts.book().0, register.clone());
        let written = tokio::task::spawn_blocking(move || write(&directory, &book)).await;
        match written {
            Ok(Ok(())) => (kept, is_failing) = (changes, false),
            Ok(Err(error)) if !is_failing => {
                tracing::warn!(error = %chain(&error), "the report is not kept: it will be tried again");
                is_failing = true;
            }
            Ok(Err(_)) | Err(_) => {}
        }
    }
}

/// Keeps it once more at the end; it is logged where that fails.
pub fn keep_last(counts: &Counts, register: &Path) {
    let (book, changes) = counts.book();
    if changes == 0 {
        return;
    }
    if let Err(error) = write(register, &book) {
        tracing::warn!(error = %chain(&error), "the last of the report is not kept");
    }
}

/// What was kept in the register's directory; an empty book where nothing was.
pub fn read(register: &Path) -> Result<Book, ReportError> {
    let path = register.join(NAME);
    match fs::read(&path) {
        Ok(bytes) => match serde_json::from_slice::<Read>(&bytes) {
            Ok(read) if read.format == FORMAT => Ok(read.book),
            Ok(_) | Err(_) => Err(ReportError::NotUnderstood(path)),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Book::default()),
        Err(error) => Err(ReportError::File(path, error)),
    }
}

/// The same for whoever goes on counting. A report is no reason not to start: one that cannot be read is
/// set aside, and another begins.
pub fn take_over(register: &Path) -> Book {
    read(register).unwrap_or_else(|error| {
        let aside = register.join(format!("{NAME}.unreadable"));
        let is_aside = fs::rename(register.join(NAME), &aside).is_ok();
        tracing::warn!(
            error = %chain(&error),
            set_aside = is_aside,
            "the report of before cannot be gone on from; another one begins"
        );
        Book::default()
    })
}

/// Keeps the book in the register's directory.
pub fn write(register: &Path, book: &Book) -> Result<(), ReportError> {
    let path = register.join(NAME);
    let beside = register.join(format!("{NAME}.new"));
    let format = FORMAT;
    let written = serde_json::to_vec(&Written { format, book }).map_err(io::Error::from);
    let put = |bytes: Vec<u8>| {
        let mut open = OpenOptions::new();
        let open = open.write(true).create(true).truncate(true).mode(0o600);
        let mut file = open.open(&beside)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&beside, &path)
    };
    written
        .and_then(put)
        .map_err(|error| ReportError::File(path.clone(), error))
}

#[cfg(test)]
mod tests {
    use super::super::counts::{Counts, Finding, Occasion, Treatment};
    use super::*;

    fn some() -> Book {
        let counts = Counts::default();
        let about = Occasion {
            upstream: "bank",
            effect: "POST /x",
            treatment: Treatment::Enforced,
            method: "POST",
            operation: None,
            at_ms: 5,
        };
        let all = [
            Finding::Replayed,
            Finding::Refused("stale-fencing-token".into()),
            Finding::Lacking("header x-order".into()),
        ];
        counts.request(about, &all);
        counts.book().0
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()).unwrap(), Book::default());
        write(folder.path(), &some()).unwrap();
        write(folder.path(), &some()).unwrap();
        assert_eq!(read(folder.path()).unwrap(), some());
    }

    #[test]
    fn what_is_not_understood_is_set_aside_and_never_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        fs::write(&path, r#"{"format":9}"#).unwrap();
        assert!(matches!(
            read(folder.path()),
            Err(ReportError::NotUnderstood(_))
        ));
        assert_eq!(take_over(folder.path()), Book::default());
        write(folder.path(), &some()).unwrap();
        let aside = folder.path().join("report.json.unreadable");
        assert_eq!(fs::read_to_string(aside).unwrap(), r#"{"format":9}"#);
    }
}
