//! Reading the file of a moved register.
//!
//! What always holds: lines are handed on in batches while the file is read, so that whoever takes them
//! keeps them to himself until the last batch says that the file was whole: its count, its digest, its
//! end. Few batches wait at a time, whatever the size of the file.
//!
//! What it does not do: judge records.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::line::{Counts, End, FORMAT, Head, Line};
use super::writing::hex;
use super::{MoveError, Moved};

/// Lines of one batch at most, and about how many bytes.
const LINES: usize = 1_000;
const BYTES: u64 = 4 << 20;

/// No line is longer: an answer and a request at their largest, in base 64, are far below.
const LONGEST: u64 = 1 << 30;

/// Batches that wait at most.
const AHEAD: usize = 2;

/// Some lines; or the word that there are no more and that all were there.
#[derive(Debug)]
pub(in crate::store) enum Batch {
    Lines(Vec<Line>),
    Whole(Moved),
}

/// Reads the file on a thread of its own. If the batches end without `Whole`, the reader says why.
pub(in crate::store) fn batches(
    path: &Path,
) -> (mpsc::Receiver<Batch>, JoinHandle<Result<(), MoveError>>) {
    let (send, receive) = mpsc::channel(AHEAD);
    let path = path.to_owned();
    let reading = tokio::task::spawn_blocking(move || {
        let mut reading = Reading::open(path)?;
        loop {
            let batch = reading.batch()?;
            let is_last = matches!(batch, Batch::Whole(_));
            // Nobody wants any more: he knows why.
            if send.blocking_send(batch).is_err() || is_last {
                return Ok(());
            }
        }
    });
    (receive, reading)
}

struct Reading {
    path: PathBuf,
    input: BufReader<File>,
    digest: Context,
    line: Vec<u8>,
    lines: u64,
    bytes: u64,
    rank: u8,
    announced: Counts,
    counts: Counts,
    /// Was the last line read?
    is_over: bool,
}

impl Reading {
    /// Reads the first line too.
    fn open(path: PathBuf) -> Result<Self, MoveError> {
        let input = File::open(&path).map_err(|source| MoveError::File {
            path: path.clone(),
            source,
        })?;
        let mut reading = Self {
            path,
            input: BufReader::with_capacity(1 << 18, input),
            digest: Context::new(&SHA256),
            line: Vec::new(),
            lines: 0,
            bytes: 0,
            rank: 0,
            announced: Counts::default(),
            counts: Counts::default(),
            is_over: false,
        };
        match reading.next()? {
            Line::Export(Head { format, counts }) if format <= FORMAT => reading.announced = counts,
            Line::Export(Head { format, .. }) => {
                return Err(MoveError::FormatTooNew {
                    path: reading.path,
                    found: format,
                    known: FORMAT,
                });
            }
            Line::Register(_)
            | Line::Key(_)
            | Line::History(_)
            | Line::Operation(_)
            | Line::Twin(_)
            | Line::Fence(_)
            | Line::End(_) => return Err(reading.wrong("it is not the beginning of an export")),
        }
        Ok(reading)
    }

    fn batch(&mut self) -> Result<Batch, MoveError> {
        if self.is_over {
            return Ok(Batch::Whole(Moved {
                counts: self.counts,
                bytes: self.bytes,
            }));
        }
        let begun = self.bytes;
        let mut lines = Vec::new();
        while lines.len() < LINES && self.bytes.saturating_sub(begun) < BYTES {
            let before = self.digest.clone();
            match self.next()? {
                Line::End(end) => {
                    self.end(&end, before)?;
                    self.is_over = true;
                    break;
                }
                line => lines.push(line),
            }
        }
        Ok(Batch::Lines(lines))
    }

    fn next(&mut self) -> Result<Line, MoveError> {
        self.line.clear();
        let read = (&mut self.input)
            .take(LONGEST)
            .read_until(b'\n', &mut self.line);
        let read = read.map_err(|source| MoveError::File {
            path: self.path.clone(),
            source,
        })?;
        self.lines = self.lines.saturating_add(1);
        if read == 0 {
            return Err(self.wrong("the file ends early"));
        }
        if self.line.last() != Some(&b'\n') {
            return Err(self.wrong("the line is cut off"));
        }
        let line: Line = match serde_json::from_slice(&self.line) {
            Ok(line) => line,
            Err(error) => return Err(self.wrong(&error.to_string())),
        };
        if line.rank() < self.rank || (line.rank() == self.rank && line.rank() == 1) {
            return Err(self.wrong("it stands out of order"));
        }
        self.rank = line.rank();
        self.counts.add(&line);
        self.digest.update(&self.line);
        let length = u64::try_from(read).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(length);
        Ok(line)
    }

    /// Was it all there? `digest`: of everything before the last line.
    fn end(&mut self, end: &End, digest: Context) -> Result<(), MoveError> {
        let found = hex(digest.finish().as_ref());
        if end.lines.checked_add(1) != Some(self.lines) || self.counts != self.announced {
            return Err(self.wrong("lines are missing"));
        }
        if end.sha256 != found {
            return Err(self.wrong("its digest does not match: it was changed"));
        }
        match self.input.fill_buf() {
            Ok([]) => Ok(()),
            Ok(_) => Err(self.wrong("something follows the end")),
            Err(source) => Err(MoveError::File {
                path: self.path.clone(),
                source,
            }),
        }
    }

    fn wrong(&self, why: &str) -> MoveError {
        MoveError::NotWhole {
            path: self.path.clone(),
            line: self.lines,
            why: why.to_owned(),
        }
    }
}
