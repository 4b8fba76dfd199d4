//! An answer too large to keep: passed on while it is read.
//!
//! What always holds: whoever takes it gets the content unchanged and in order, and its *last* piece
//! only when somebody says that it may have it ([`Passing::held_until`]); without that word, without
//! the last piece, and when the reader is dropped, what it gets ends in an error and never looks
//! whole. A taker that is gone stops nothing; one that is slow holds the reading up for so long and is
//! left behind then. Between reader and taker lie two pieces at most.
//!
//! What it does not do: read the answer (`answer`), or say when the last piece may go (`dispatch`).

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use tokio::sync::{mpsc, oneshot};

use crate::clock;
use crate::protocol::outcome::Fields;

/// Where an answer goes that is too large to keep. Dropped unused where it is not.
#[derive(Debug)]
pub struct Onward(oneshot::Sender<Oversized>);

/// Waits for an answer that is too large to keep.
#[derive(Debug)]
pub struct Arrival(oneshot::Receiver<Oversized>);

/// An answer that is too large to keep, while it comes.
pub struct Oversized {
    /// Its final status.
    pub status: u16,
    /// Its end-to-end fields.
    pub fields: Fields,
    /// Length of its content in bytes, where the upstream said so.
    pub length: Option<u64>,
    /// Its content, from the beginning.
    pub content: Passing,
}

/// Content that is passed on.
pub struct Passing {
    pieces: mpsc::Receiver<Bytes>,
    last: oneshot::Receiver<Bytes>,
}

/// Content that is passed on did not come to its end, or nobody vouched for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer ends here incomplete: it broke off, or what it says was not recorded")]
pub struct Incomplete;

/// Content as it goes out to a caller.
pub type PassingBody = UnsyncBoxBody<Bytes, Incomplete>;

/// A way for an answer that may turn out too large to keep.
pub fn onward() -> (Onward, Arrival) {
    let (open, opened) = oneshot::channel();
    (Onward(open), Arrival(opened))
}

impl Arrival {
    /// Resolves when such an answer begins; `None` when it has become certain that none will.
    pub async fn wait(&mut self) -> Option<Oversized> {
        (&mut self.0).await.ok()
    }

    /// What has arrived by now.
    pub fn take(&mut self) -> Option<Oversized> {
        self.0.try_recv().ok()
    }
}

impl Passing {
    /// The content, the last piece of it held back until `released` says so; if that is dropped, it
    /// never comes.
    pub fn held_until(self, released: oneshot::Receiver<()>) -> PassingBody {
        let Self { pieces, last } = self;
        let pieces = stream::unfold(Some((pieces, last, released)), |rest| async move {
            let (mut pieces, last, released) = rest?;
            if let Some(piece) = pieces.recv().await {
                return Some((Ok(Frame::data(piece)), Some((pieces, last, released))));
            }
            let end = end(last, released).await;
            Some((end.map(Frame::data).ok_or(Incomplete), None))
        });
        StreamBody::new(pieces).boxed_unsync()
    }
}

async fn end(last: oneshot::Receiver<Bytes>, released: oneshot::Receiver<()>) -> Option<Bytes> {
    let last = last.await.ok()?;
    released.await.ok()?;
    Some(last)
}

/// The reader's side of an answer that is being passed on.
pub(super) struct PassingOn {
    pieces: mpsc::Sender<Bytes>,
    last: oneshot::Sender<Bytes>,
    held_back: Bytes,
    patience: Duration,
}

impl Onward {
    /// Begins to pass an answer on: its head, and its content `so_far`. The taker may hold the reading
    /// up for `patience` in all. `None`: there is nobody to take it.
    pub(super) fn begin(
        self,
        (status, fields, length): (u16, Fields, Option<u64>),
        so_far: Bytes,
        patience: Duration,
    ) -> Option<PassingOn> {
        let (pieces, taken) = mpsc::channel(1);
        let (last, end) = oneshot::channel();
        let content = Passing {
            pieces: taken,
            last: end,
        };
        let oversized = Oversized {
            status,
            fields,
            length,
            content,
        };
        self.0.send(oversized).ok()?;
        Some(PassingOn {
            pieces,
            last,
            held_back: so_far,
            patience,
        })
    }
}

impl PassingOn {
    /// Passes a piece on, or rather the one before it. `None`: the taker is gone, or too slow.
    pub(super) async fn pass(mut self, piece: Bytes) -> Option<Self> {
        if piece.is_empty() {
            return Some(self);
        }
        let before = std::mem::replace(&mut self.held_back, piece);
        if before.is_empty() {
            return Some(self);
        }
        let begun = clock::boottime_us();
        let sent = tokio::time::timeout(self.patience, self.pieces.send(before)).await;
        let waited = Duration::from_micros(clock::boottime_us().saturating_sub(begun));
        self.patience = self.patience.saturating_sub(waited);
        match sent {
            Ok(Ok(())) => Some(self),
            Ok(Err(_gone)) => None,
            Err(_elapsed) => {
                tracing::info!("a caller was too slow for an answer too large to keep: cut off");
                None
            }
        }
    }

    /// The content came to its end.
    pub(super) fn end(self) {
        // Whoever is gone misses it.
        let _gone = self.last.send(self.held_back);
    }
}

// Customer content never enters logs.
impl std::fmt::Debug for Oversized {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fields = self.fields.len();
        write!(
            f,
            "Oversized({}, {fields} fields, {:?} bytes)",
            self.status, self.length
        )
    }
}
