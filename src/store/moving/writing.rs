//! Writing the file of a moved register.
//!
//! What always holds: it appears under its name only whole and durable, readable by its owner only, and
//! overwrites nothing.
//!
//! What it does not do: decide what is written.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};

use super::line::{Counts, End, FORMAT, Head, Line};
use super::{MoveError, Moved};

/// A file on its way.
pub(in crate::store) struct Exporting {
    to: PathBuf,
    aside: PathBuf,
    out: BufWriter<File>,
    digest: Context,
    lines: u64,
    bytes: u64,
    announced: Counts,
    counts: Counts,
    line: Vec<u8>,
}

impl Exporting {
    /// Can the file be written? Asked before a register is stopped for it.
    pub(in crate::store) fn probe(to: &Path) -> Result<(), MoveError> {
        Self::begin(to, Counts::default()).map(drop)
    }

    /// Begins a file that holds so much.
    pub(in crate::store) fn begin(to: &Path, announced: Counts) -> Result<Self, MoveError> {
        if to.exists() {
            return Err(MoveError::Taken {
                path: to.to_owned(),
            });
        }
        let mut aside = to.as_os_str().to_owned();
        aside.push(".part");
        let aside = PathBuf::from(aside);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let out = options.open(&aside).map_err(at(to))?;
        let mut exporting = Self {
            to: to.to_owned(),
            aside,
            out: BufWriter::with_capacity(1 << 18, out),
            digest: Context::new(&SHA256),
            lines: 0,
            bytes: 0,
            announced,
            counts: Counts::default(),
            line: Vec::new(),
        };
        exporting.put(&Line::Export(Head {
            format: FORMAT,
            counts: announced,
        }))?;
        Ok(exporting)
    }

    /// Adds a line.
    pub(in crate::store) fn put(&mut self, line: &Line) -> Result<(), MoveError> {
        self.counts.add(line);
        self.write(line).map_err(at(&self.to))
    }

    /// Ends the file, and puts it in its place.
    pub(in crate::store) fn finish(mut self) -> Result<Moved, MoveError> {
        if self.counts != self.announced {
            let why = format!("{:?} were found, not {:?}", self.counts, self.announced);
            return Err(MoveError::NotWhole {
                path: self.to.clone(),
                line: self.lines,
                why,
            });
        }
        let digest = self.digest.clone().finish();
        let end = Line::End(End {
            lines: self.lines,
            sha256: hex(digest.as_ref()),
        });
        let Self { to, aside, .. } = &self;
        let (to, aside) = (to.clone(), aside.clone());
        let finished = self.write(&end).and_then(|()| {
            self.out.flush()?;
            self.out.get_ref().sync_all()?;
            named(&aside, &to)
        });
        finished.map_err(at(&to))?;
        Ok(Moved {
            counts: self.counts,
            bytes: self.bytes,
        })
    }

    fn write(&mut self, line: &Line) -> io::Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, line)?;
        self.line.push(b'\n');
        self.out.write_all(&self.line)?;
        self.digest.update(&self.line);
        self.lines = self.lines.saturating_add(1);
        let length = u64::try_from(self.line.len()).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(length);
        Ok(())
    }
}

impl Drop for Exporting {
    fn drop(&mut self) {
        // Under its own name it is there by now, or of no use.
        let _ = std::fs::remove_file(&self.aside);
    }
}

/// A link does not overwrite; not every file system has them.
fn named(aside: &Path, to: &Path) -> io::Result<()> {
    match std::fs::hard_link(aside, to) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => std::fs::rename(aside, to)?,
        linked => linked?,
    }
    match to.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        Some(_) | None => File::open(".")?.sync_all(),
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> MoveError {
    let path = path.to_owned();
    move |source| MoveError::File { path, source }
}
