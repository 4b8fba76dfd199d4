//! Moving a register: everything that it knows, as lines of JSON in one file.
//!
//! What always holds: a file is one state of one register that admits nothing any more: whoever exports
//! it marks it as moved first, since two registers of one truth would both admit. The first line says
//! the format and how much there is, the last one that it is whole, with a digest of all before it; a
//! file that is cut or changed is refused, and nothing of it is kept. What is sealed stays sealed as it
//! is: the same keys open it there, because the register keeps its id. Lines are written and read one
//! after the other, whatever their number.
//!
//! What it does not do: know the tables (`sqlite`, `postgres`), or open what is sealed. What cannot be
//! carried over is left behind: who is alive, how far a witness had seen it come, where a purge stands.

mod line;
mod reading;
mod writing;

use std::io;
use std::path::PathBuf;

pub use line::Counts;
pub(in crate::store) use line::{
    Bytes, FenceLine, HistoryLine, KeyLine, Line, Memory, Name, OperationLine, RegisterLine,
    TwinLine, Wide,
};
pub(in crate::store) use reading::{Batch, batches};
pub(in crate::store) use writing::Exporting;

use super::{StoreError, postgres, sqlite};

/// What was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// How much of each.
    pub counts: Counts,
    /// How large the file is.
    pub bytes: u64,
}

/// Why nothing was moved.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// There is something already.
    #[error("{path} is there already: nothing is overwritten")]
    Taken {
        /// Where the file was to be.
        path: PathBuf,
    },
    /// The file cannot be written or read.
    #[error("cannot use {path}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It was written by a newer version.
    #[error("{path} has format {found}, this version reads up to {known}")]
    FormatTooNew {
        /// Which file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// Highest format known.
        known: u32,
    },
    /// It is none of ours, was cut short, or was changed.
    #[error("{path}, line {line}: {why}. Nothing of it was kept")]
    NotWhole {
        /// Which file.
        path: PathBuf,
        /// Where.
        line: u64,
        /// What is wrong.
        why: String,
    },
    /// The embedded register cannot be had.
    #[error("the register cannot be exported")]
    Embedded(#[from] sqlite::OpenError),
    /// The database cannot be had.
    #[error("the database cannot be used")]
    Shared(#[from] postgres::OpenError),
    /// There is something in the database.
    #[error(
        "the database holds a register already: one is only moved to where there is none. If nothing has \
         used it, drop it (DROP SCHEMA fencepost CASCADE) and import again"
    )]
    NotEmpty,
    /// After it was accepted as restored it waits for what was under way.
    #[error(
        "the register was accepted as restored a short while ago and admits nothing yet: export it in \
         {wait_ms} ms"
    )]
    Quiet {
        /// How long it goes on waiting.
        wait_ms: u64,
    },
    /// The register was marked as moved, and the file is not there.
    #[error(
        "the register admits nothing any more, and nothing was exported. Export it again; or take it back \
         (`fencepost store take-back`) and accept it (`fencepost store accept-restored`)"
    )]
    Stopped(#[source] Box<MoveError>),
    /// A record cannot be read, or the database failed meanwhile.
    #[error("the register was not moved")]
    Register(#[source] StoreError),
    /// Reading was cut off.
    #[error("the file's reader ended early")]
    Reader(#[source] io::Error),
}

impl From<StoreError> for MoveError {
    fn from(error: StoreError) -> Self {
        Self::Register(error)
    }
}
